"""Records are read by several threads at once, also for the first time in a process."""

import subprocess
import sys

READ_AT_ONCE = """
import sys, threading
from pathlib import Path
from parallax.harness.record import lock, reading
sys.setswitchinterval(1e-6)
begin, read = threading.Barrier(8), []
def parse():
    begin.wait()
    read.append((reading.read_run(Path("none")).reason, lock.read_heartbeat(Path("none"))))
    try:
        reading.parse_record(b'{"schema": 1, "status": "failed"}')
    except reading.UnusableError as error:
        read.append(str(error))
threads = [threading.Thread(target=parse) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(read), len(set(map(str, read))))
"""


def test_the_first_records_of_a_process_may_be_read_by_several_threads():
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, "-c", READ_AT_ONCE], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout.split()) == (0, ["16", "2"]), done.stderr
