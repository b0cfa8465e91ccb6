"""Command lines as a user gives them, in forks of one process that has loaded what they need.

A process of its own would spend most of its seconds on imports; what the command does, prints and
returns, and the streams and folder that it has, are the same.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_SERVER = """
import importlib, json, os, runpy, sys, traceback
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number, name in enumerate((os.devnull, order["output"], order["errors"])):
            mode = os.O_RDONLY if number == 0 else os.O_WRONLY
            os.dup2(os.open(name, mode), number)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.argv = order["command"]
        code = 0
        try:
            runpy.run_module(order["command"][0], run_name="__main__", alter_sys=True)
        except SystemExit as end:
            said = isinstance(end.code, str)
            print(end.code, file=sys.stderr) if said else None
            code = 1 if said else end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
PRELOADED = (
    *("harness.cli.app", "harness.cli.train", "harness.cli.parallax"),
    *("pandas", "torch", "scipy.stats", "seaborn"),
)


class _Server:
    process = None


def _server():
    # A test may have ended all processes that it found.
    if _Server.process is None or _Server.process.poll() is not None:
        _Server.process = _start()
    return _Server.process


def _start():
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, *PRELOADED],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.kill)
    return process


def run(module, *arguments, cwd=None, env=None):
    """What `python -m module arguments ...` does; as `subprocess.run` tells it."""
    command = [module, *map(str, arguments)]
    with tempfile.NamedTemporaryFile() as output, tempfile.NamedTemporaryFile() as errors:
        order = {
            "command": command,
            "output": output.name,
            "errors": errors.name,
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        process = _server()
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        said = [Path(file.name).read_text() for file in (output, errors)]
    return subprocess.CompletedProcess(command, code, *said)
