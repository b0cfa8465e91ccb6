"""7,000 altered inputs: none ends in a traceback, hangs, fills memory or changes a number silently.

`PARALLAX_FUZZED` inputs of each kind, from the number `PARALLAX_FUZZED_FROM` on.
"""

import collections
import json
import os
import resource
import signal
import traceback
from pathlib import Path

import pytest
from fuzz_inputs import READERS, WRONG, alter_and_read

EACH = int(os.environ.get("PARALLAX_FUZZED", "1000"))
FIRST = int(os.environ.get("PARALLAX_FUZZED_FROM", "0"))
SECONDS = 10.0  # of work for one input
MEMORY = 2**30  # bytes beyond what the first inputs took


class TooLongError(BaseException):
    """Not an Exception: readers must not be able to catch it."""


def interrupt(number, frame):
    raise TooLongError


def read_all(kind, numbers, top):
    """Reads inputs one after another; returns what came of them and what must not be."""
    signal.signal(signal.SIGPROF, interrupt)
    outcomes, faults, usual = collections.Counter(), [], 0
    for count, number in enumerate(numbers):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            outcome = alter_and_read(kind, number, top)
            if outcome == WRONG:
                faults.append(f"{kind} {number}: a number changed without a message")
        except TooLongError:
            outcome = "too long"
            faults.append(f"{kind} {number}: takes over {SECONDS:g} s")
        except Exception:
            outcome = "traceback"
            faults.append(f"{kind} {number}: {traceback.format_exc()[-1500:]}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        outcomes[outcome] += 1
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if count < 5:
            usual = peak
        elif peak - usual > MEMORY:
            faults.append(f"{kind} {number}: {peak - usual:,} bytes")
            usual = peak
    return {"outcomes": outcomes, "faults": faults}


@pytest.mark.long
@pytest.mark.parametrize("kind", READERS)
def test_altered_inputs_are_read_or_refused(kind, tmp_path, capsys):
    """In a process of its own, which may not take the machine's memory with it."""
    answer = tmp_path / "answer.json"
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
            found = read_all(kind, range(FIRST, FIRST + EACH), tmp_path)
            Path(answer).write_text(json.dumps(found))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found = json.loads(answer.read_text())
    with capsys.disabled():
        print(f"\n{kind}: {EACH} inputs: {found['outcomes']}")
    assert sum(found["outcomes"].values()) == EACH
    assert not found["faults"], "\n".join(found["faults"][:10])
