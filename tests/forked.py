"""Command lines as a user gives them, in forks of one process that has loaded what they need.

A process of its own would spend most of its seconds on imports; what the command does, prints and
returns, and the streams, folder, environment and module path that it has, are the same.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SERVER = """
import gc, importlib, json, os, runpy, select, sys, traceback
for name in sys.argv[1:]:
    importlib.import_module(name)
gc.collect()
gc.freeze()  # no fork scans it, which would copy its pages
orders, running = open(0, "rb", buffering=0), {}


def tell(**known):
    print(json.dumps(known), flush=True)


def next_order():
    # Until one comes; tells who has ended meanwhile.
    while True:
        ready = select.select([0, *running], [], [])[0]
        for handle in set(ready) & running.keys():
            pid = running.pop(handle)
            tell(ended=pid, code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os.close(handle)
        if 0 in ready:
            return orders.readline()


def become(order):
    os.setsid()
    for handle in running:
        os.close(handle)
    for number, name in enumerate((order["input"], order["output"], order["errors"])):
        mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND
        os.dup2(os.open(name, mode), number)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.path[0] = "" if order["code"] else order["cwd"]
    paths = order["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in paths if path and path not in sys.path]
    sys.argv = order["command"]
    code = 0
    try:
        if order["code"]:
            exec(compile(order["code"], "<string>", "exec"), {"__name__": "__main__"})
        else:
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


while line := next_order():
    pid = os.fork()
    if pid == 0:
        become(json.loads(line))
    running[os.pidfd_open(pid)] = pid
    tell(started=pid)
"""
_HARNESS = (
    *("parallax.harness.cli.hydra_app", "parallax.harness.cli.train", "parallax.harness.cli.main"),
    *("pandas", "torch", "stable_baselines3", "scipy.stats", "seaborn"),
)
# Nothing of this project, for what is to do without it or with a copy.
_LIBRARIES = ("pytest", "gymnasium", "mujoco", "pandas", "torch._dynamo", "stable_baselines3")


class _Server:
    """A process that has loaded modules, started when it is first needed."""

    def __init__(self, *modules):
        self._modules, self._process, self._ends = modules, None, {}

    def ready(self):
        """Starts it; again, where a test has ended all processes that it found."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, *self._modules],
                cwd=Path(__file__).parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
            atexit.register(_end, self._process)

    def start(self, order):
        """Process id of the fork that carries an order out."""
        self.ready()
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        while (started := self._read_message().get("started")) is None:
            pass
        self._ends.pop(started, None)  # of another one, whose number it has got
        return started

    def end(self, pid, deadline):
        """Exit code of a fork; None where it has not ended by then."""
        while pid not in self._ends:
            if not select.select([self._process.stdout], [], [], _until(deadline))[0]:
                return None
            self._read_message()
        return self._ends[pid]

    def _read_message(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that forks commands has ended")
        message = json.loads(line)
        if "ended" in message:
            self._ends[message["ended"]] = message["code"]
        return message


def _end(process):
    process.kill()
    process.wait()


def _until(deadline):
    return None if deadline is None else max(0.0, deadline - time.monotonic())


_ours, _bare = _Server(*_HARNESS), _Server(*_LIBRARIES)


class Process:
    """A running command, with the interface of `subprocess.Popen`."""

    def __init__(self, server, command, code="", cwd=None, env=None, merged=False, stdin=""):
        self.args, self.returncode, self._server = command, None, server
        self._said, self._folder = None, tempfile.TemporaryDirectory()
        names = ("output", "output" if merged else "errors")
        self._files = [Path(self._folder.name, name) for name in names]
        for file in self._files:
            file.touch()
        read = Path(self._folder.name, "input")
        read.write_text(stdin)
        order = {
            "command": command,
            "code": code,
            "input": str(read),
            "output": str(self._files[0]),
            "errors": str(self._files[1]),
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        self.pid = server.start(order)

    def poll(self):
        """The exit code; None before there is one."""
        if self.returncode is None:
            self.returncode = self._server.end(self.pid, time.monotonic())
        return self.returncode

    def wait(self, timeout=None):
        """The exit code, once there is one."""
        if self.returncode is None:
            deadline = None if timeout is None else time.monotonic() + timeout
            self.returncode = self._server.end(self.pid, deadline)
            if self.returncode is None:
                raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """Wait for the end and return the output."""
        self.wait(timeout)
        if self._said is None:
            self._said = tuple(file.read_text() for file in self._files)
            self._folder.cleanup()
        return self._said

    def send_signal(self, number):
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)


def start(module, *arguments, **settings):
    """Starts what `python -m module arguments ...` does.

    Args:
        module: Its name.
        arguments: Of the command.
        settings: Folder `cwd` and environment `env` other than those here; whether errors are
            `merged` into the output; the text of its standard input, `stdin`.
    """
    return Process(_ours, [module, *map(str, arguments)], **settings)


def run(module, *arguments, cwd=None, env=None):
    """Run `python -m module arguments ...`; returns what `subprocess.run` returns."""
    return _done(start(module, *arguments, cwd=cwd, env=env))


def run_without_us(*arguments, cwd=None, env=None):
    """Run `python arguments ...` in a process without modules of this project."""
    first, name, *others = map(str, arguments)
    if first == "-c":
        return _done(Process(_bare, ["-c", *others], code=name, cwd=cwd, env=env))
    assert first == "-m"
    return _done(Process(_bare, [name, *others], cwd=cwd, env=env))


def ready():
    """Starts the process that forks commands, for who counts processes from now on."""
    _ours.ready()


def _done(process):
    return subprocess.CompletedProcess(process.args, process.wait(), *process.communicate())
