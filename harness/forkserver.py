"""A process that has imported what runs need and forks one child for each.

`python -m parallax.harness.forkserver FD MODULE ...` is started by
`parallax.harness.sweep.forked_process`, which holds the other end of the socket FD. A request names
the arguments of `parallax.harness.worker` and brings two or three files: the socket on which the
child's end is reported, the child's log, and a pipe whose end shows that the sweep is gone.
`_become_worker` closes or resets what a child inherits and must not share; then the child runs
`parallax.harness.worker`.
"""

import contextlib
import dataclasses
import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.contract.interpreter import has_other_threads, import_modules
from parallax.harness.contract.upstream_code import silence_future_warnings
from parallax.harness.train.stop_signals import STOP_SIGNALS

READY_MESSAGE = b"ready"
_LARGEST_REQUEST = 1 << 16
_LARGEST_OUTPUT = 1 << 20
_OWN_MODULES = ("parallax.harness.worker", "parallax.harness.record.trace")


def main(control: socket.socket, modules: Sequence[str]) -> int:
    """Serve requests until the client has closed the socket and no child runs.

    Returns:
        In a child the exit code of its run; 1 where the server may not fork. The server itself
        ends the process.
    """
    for number in STOP_SIGNALS:
        # A batch system signals every process of a job; this one ends after those it has forked.
        signal.signal(number, signal.SIG_IGN)
    with silence_future_warnings():
        import_modules((*_OWN_MODULES, *modules))
    gc.freeze()  # objects of imports are not searched for cycles, which would take a second at exit
    if has_other_threads():
        print("An import has started a thread, which a fork would lose.", file=sys.stderr)
        return 1
    arguments = _serve_requests(control)
    if arguments is None:
        os._exit(0)  # its memory need not be tidied, for which its parent would wait
    from parallax.harness import worker

    sys.argv = [str(worker.__file__), *arguments]  # recorded as the run's command
    return worker.main(Path(arguments[0]), *arguments[1:])


@dataclasses.dataclass(frozen=True)
class _ChildProcess:
    """A running child.

    Attributes:
        handle: Readable once it has ended.
        channel: Receives its exit code.
    """

    pid: int
    handle: int
    channel: socket.socket

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self.handle

    def report(self) -> None:
        """Report its exit code as `subprocess` would."""
        _, status = os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):  # the client may be gone
            self.channel.send(str(os.waitstatus_to_exitcode(status)).encode())
        self.close()

    def close(self) -> None:
        """Close its handles."""
        os.close(self.handle)
        self.channel.close()


def _serve_requests(control: socket.socket) -> list[str] | None:
    """Fork children and report their ends; return a child's arguments, None in the server."""
    children: list[_ChildProcess] = []
    control.send(READY_MESSAGE)
    is_open = True
    while is_open or children:
        sources: list[_ChildProcess | socket.socket] = [*children, *([control] if is_open else [])]
        ready, _, _ = select.select(sources, [], [])
        for child in [child for child in children if child in ready]:
            child.report()
            children.remove(child)
        if control in ready:
            message, files, _, _ = socket.recv_fds(control, _LARGEST_REQUEST, 3)
            is_open = bool(message)
            if is_open and not _fork_child(children, *files):
                control.close()
                arguments: list[str] = json.loads(message)
                return [*arguments, *map(str, files[2:])]
    return None


def _fork_child(children: list[_ChildProcess], channel_file: int, log: int, *lifeline: int) -> bool:
    """Fork a child and add it to `children` in the server; return False in the child."""
    channel = socket.socket(fileno=channel_file)
    sys.stdout.flush()
    sys.stderr.flush()
    # Signals that are sent to the child before it has its handlers stay pending.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        pid = os.fork()
    except OSError:
        channel.close()  # which reports it
        pid = -1
    if pid == 0:
        channel.close()
        for other in children:
            other.close()
        _become_worker(log)
    elif pid > 0:
        child = _ChildProcess(pid, os.pidfd_open(pid), channel)
        children.append(child)
        with contextlib.suppress(OSError):
            socket.send_fds(channel, [b"started"], [child.handle])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if pid:
        for file in (log, *lifeline):
            os.close(file)
    return pid != 0


def _become_worker(log: int) -> None:
    """Close and reset what a process that was not forked would not have."""
    import numpy as np

    os.setsid()
    printed = os.pread(1, _LARGEST_OUTPUT, 0)  # by imports; it belongs in every log
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.write(1, printed)
    for number in STOP_SIGNALS:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)
    # Python's own generator, uuid and tempfile are seeded again after a fork; torch's starts the
    # same in every process. Only the seed of hashes stays that of the server.
    np.random.seed()


if __name__ == "__main__":
    sys.exit(main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]))
