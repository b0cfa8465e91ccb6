"""Runs as children of a process that has imported the framework; see `harness.forkserver`.

The first seconds of a run are mostly imports, which are the same for every run of a framework.
"""

import contextlib
import functools
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec

EXIT_UNKNOWN = 256
"""Replaces an exit code that no remaining process can report."""

_SERVER_MODULE = "parallax.harness.forkserver"
_POLL_SECONDS = 0.2  # seconds between two checks of whether a sweep goes on
_SHUTDOWN_SECONDS = 5.0  # seconds that an idle server may take to end


class ServerKey(NamedTuple):
    """What all runs of one server have in common."""

    threads: int
    framework: str


class ForkedProcess:
    """A run's process that a server has forked, with the `wait` and `send_signal` of `Popen`."""

    def __init__(self, channel: socket.socket, handle: int) -> None:
        """Take ownership of both arguments.

        Args:
            channel: Delivers the exit code; closed without it if the server was killed.
            handle: Process file descriptor, which stays valid if the process id is reused.
        """
        self._channel = channel
        self._handle = handle
        self._source: socket.socket | int = channel
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: It has not ended yet.
        """
        while self._code is None:
            if not select.select([self._source], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("parallax.harness.worker", timeout or 0.0)
            message = b"" if self._source == self._handle else self._channel.recv(64)
            if message:
                self._end(int(message))
            elif self._source == self._handle:
                self._end(EXIT_UNKNOWN)
            else:
                self._source = self._handle
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def _end(self, code: int) -> None:
        self._code = code
        self._channel.close()
        os.close(self._handle)


class ForkServerPool:
    """The fork servers of one sweep or job, each started with its first run.

    A run needs a separate process if it is the only one of its kind, or if its server is not
    possible: another interpreter is requested, the system does not support it, an import fails
    or starts a thread.
    """

    def __init__(
        self,
        specs: Iterable[RunSpec],
        is_over: Callable[[], bool] = lambda: False,
        early_server: "ForkServer | None" = None,
    ) -> None:
        """Create a pool without starting servers.

        Args:
            specs: Planned runs, so that a server ends with the last run that needs it.
            is_over: Called while a server starts; the server is killed if this returns True.
            early_server: A server that the caller has started and will end. Runs of its framework
                and environment use it, also a single one.
        """
        listed = list(specs)
        counts = Counter(key for spec in listed if (key := _get_server_key(spec)))
        self._due = Counter({key: count for key, count in counts.items() if count > 1})
        self._modules = {
            key: list_training_modules(
                key.framework,
                [spec.algorithm for spec in listed if spec.framework == key.framework],
            )
            for key in self._due
        }
        self._is_over = is_over
        self._early_server = early_server
        self._servers: dict[ServerKey, ForkServer] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> "ForkServerPool":
        """Return the pool."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let the servers end; runs that have not ended go on."""
        for server in self._servers.values():
            server.finish()
        for server in self._servers.values():
            server.wait()

    def start(
        self,
        spec: RunSpec,
        environment: Mapping[str, str],
        arguments: Sequence[str],
        log: IO[Any],
        lifeline: int | None = None,
    ) -> ForkedProcess | None:
        """Start a run; return None if it needs a separate process."""
        key, early = _get_server_key(spec), self._early_server
        if key and early and (early.framework, early.environment) == (key.framework, environment):
            return self._fork(early, arguments, log, lifeline)
        with self._lock:
            if key is None or not self._due[key]:
                return None
            if key not in self._servers:
                self._servers[key] = ForkServer(key.framework, self._modules[key], environment)
            server = self._servers[key]
        try:
            return self._fork(server, arguments, log, lifeline)
        finally:
            with self._lock:  # other threads may be starting runs
                self._due[key] -= 1
                if not self._due[key]:
                    server.finish()

    def _fork(
        self, server: "ForkServer", arguments: Sequence[str], log: IO[Any], lifeline: int | None
    ) -> ForkedProcess | None:
        try:
            is_ready = server.is_ready(self._is_over)
            return server.fork(arguments, log, lifeline) if is_ready else None
        except OSError:
            return None  # it was killed


class ForkServer:
    """A process that imports a framework and then forks runs."""

    def __init__(
        self, framework: str, modules: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Start the process.

        Args:
            framework: Name of the framework.
            modules: The modules that it imports.
            environment: Environment variables of the process and of the runs.
        """
        self.framework, self.environment = framework, environment
        # SOCK_SEQPACKET: messages have borders, and the other end's death reads as an empty one.
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._is_ready: bool | None = None
        # The server reads this file again: what imports print belongs in each run's log.
        with other, tempfile.TemporaryFile() as output:
            self._process = subprocess.Popen(
                [sys.executable, *("-m", _SERVER_MODULE), str(other.fileno()), *modules],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def __enter__(self) -> "ForkServer":
        """Return the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let it end once its runs have ended; kill it if nobody has waited for it."""
        if self._is_ready is None:
            self._process.kill()
        self.finish()
        self.wait()

    def is_ready(self, is_over: Callable[[], bool]) -> bool:
        """Wait until it has imported everything; return whether it has.

        Args:
            is_over: Called while waiting; the server is killed if this returns True.
        """
        with self._lock:
            while self._is_ready is None:
                if select.select([self._control], [], [], _POLL_SECONDS)[0]:
                    self._is_ready = bool(self._control.recv(64))
                elif is_over():
                    self._process.kill()
            return self._is_ready

    def fork(
        self, arguments: Sequence[str], log: IO[Any], lifeline: int | None
    ) -> ForkedProcess | None:
        """Fork a process that executes a run; return None if that is not possible.

        Args:
            arguments: Those of `parallax.harness.worker`, without the lifeline.
            log: File for its output.
            lifeline: Descriptor that signals the end of this process; None for none.
        """
        channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            request = json.dumps(list(arguments)).encode()
            files = [other.fileno(), log.fileno(), *([] if lifeline is None else [lifeline])]
            socket.send_fds(self._control, [request], files)
        _, handles, _, _ = socket.recv_fds(channel, 64, 1)
        if not handles:
            channel.close()
            return None
        return ForkedProcess(channel, handles[0])

    def finish(self) -> None:
        """Let the server end once its forked processes have ended."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def wait(self) -> None:
        """Wait a few seconds for its end, and close the connection."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SHUTDOWN_SECONDS)
        self._control.close()


def list_training_modules(framework: str, algorithms: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that a framework's trainings import, over all algorithms here."""
    try:
        adapter = load_adapter(framework)
    except SpecError:
        return ()  # the run's own process reports it
    imported = map(adapter.training_modules, dict.fromkeys(algorithms))
    return tuple(dict.fromkeys(itertools.chain.from_iterable(imported)))


def _get_server_key(spec: RunSpec) -> ServerKey | None:
    """Return the key of a run's server; None if the run needs a separate process."""
    if spec.python or not supports_pidfd():
        return None
    return ServerKey(spec.threads, spec.framework)


@functools.cache
def supports_pidfd() -> bool:
    """Return whether a process can wait for one that is not its child (Linux since 5.3)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True
