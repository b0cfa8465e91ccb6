"""Fork servers and the processes that they fork, without importing a framework."""

import os
import signal
import socket
import subprocess
import types
from typing import ClassVar

import pytest
import support

from parallax.harness.contract.fields import SpecError
from parallax.harness.sweep import forked_process
from parallax.harness.sweep.forked_process import EXIT_UNKNOWN, ForkedProcess, ForkServerPool


@pytest.fixture
def forked():
    """A process, the server's end of its channel, and a pipe that stands for its handle."""
    channel, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handle, other = os.pipe()
    yield ForkedProcess(channel, handle), server, other
    server.close()
    os.close(other)


@pytest.mark.parametrize("code", [0, 3, -9])
def test_exit_code_is_reported_by_the_server(forked, code):
    process, server, _ = forked
    for seconds in (0, 0.01):
        with pytest.raises(subprocess.TimeoutExpired) as error:
            process.wait(seconds)
        assert error.value.timeout == seconds
    server.send(str(code).encode())
    assert process.wait(5) == process.wait() == code
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(process._handle)
    assert process._channel.fileno() == -1


def test_a_process_without_its_server_has_an_unknown_end(forked):
    process, server, other = forked
    server.close()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    os.write(other, b"ended")
    assert process.wait(5) == EXIT_UNKNOWN == 256


def test_signals_reach_a_process_until_it_has_ended(forked, monkeypatch):
    process, server, _ = forked
    sent, errors = [], [None, ProcessLookupError()]

    def send(handle, number):
        sent.append((handle, number))
        if error := errors.pop(0):
            raise error

    monkeypatch.setattr(forked_process.signal, "pidfd_send_signal", send)
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
    assert sent == [(process._handle, signal.SIGTERM)] * 2
    server.send(b"0")
    process.wait(5)
    process.send_signal(signal.SIGTERM)
    assert len(sent) == 2


class Server:
    """A fork server that imports nothing."""

    made: ClassVar[list] = []
    is_able, error = True, None

    def __init__(self, framework, modules, environment):
        self.framework, self.environment = framework, environment
        self.given, self.calls = (framework, modules, environment), []
        self.made.append(self)

    def is_ready(self, is_over):
        return self.is_able

    def fork(self, arguments, log, lifeline):
        if self.error:
            raise self.error
        self.calls.append((arguments, log, lifeline))
        return "process"

    def finish(self):
        self.calls.append("finish")

    def wait(self):
        self.calls.append("wait")


@pytest.fixture
def servers(monkeypatch):
    monkeypatch.setattr(Server, "made", [])
    monkeypatch.setattr(forked_process, "ForkServer", Server)
    monkeypatch.setattr(forked_process, "supports_pidfd", lambda: True)
    monkeypatch.setattr(
        forked_process, "list_training_modules", lambda name, algorithms: (name, *algorithms)
    )
    return Server.made


def test_runs_of_one_kind_share_a_server_until_the_last_has_started(servers):
    twice = [support.spec(seed=seed) for seed in (0, 1)]
    alone = support.spec(threads=2)
    other = [support.spec("cleanrl", seed=seed) for seed in (0, 1)]
    with ForkServerPool([*twice, alone, *other]) as pool:
        start = [pool.start(one, {"A": "1"}, ["x"], "log", 7) for one in (*twice, alone, other[0])]
        assert start == ["process", "process", None, "process"]
        assert pool.start(twice[0], {}, ["x"], "log") is None  # one more than was expected
        first, second = servers
        assert first.given == ("sb3", ("sb3", *["ppo"] * 3), {"A": "1"})
        assert second.framework == "cleanrl"
        assert first.calls == [(["x"], "log", 7)] * 2 + ["finish"]
        assert second.calls == [(["x"], "log", 7)]
    assert [server.calls[-2:] for server in servers] == [["finish", "wait"]] * 2


def test_an_early_server_is_used_for_its_framework_and_environment(servers):
    early, environment = Server("sb3", (), {"A": "1"}), {"A": "1"}
    servers.clear()
    with ForkServerPool([support.spec()], early_server=early) as pool:
        assert pool.start(support.spec(), environment, ["x"], "log") == "process"
        assert early.calls == [(["x"], "log", None)]
        for spec, other in (
            (support.spec("cleanrl"), environment),
            (support.spec(), {"A": "2"}),
            (support.spec(python="/other"), environment),
        ):
            assert pool.start(spec, other, ["x"], "log") is None
    assert len(early.calls) == 1 and not servers  # who has started it ends it


@pytest.mark.parametrize("changes", [{"is_able": False}, {"error": OSError("killed")}])
def test_run_without_a_server_has_a_separate_process(servers, monkeypatch, changes):
    for name, value in changes.items():
        monkeypatch.setattr(Server, name, value)
    twice = [support.spec(seed=seed) for seed in (0, 1)]
    pool = ForkServerPool(twice)
    assert [pool.start(one, {}, [], None) for one in twice] == [None, None]
    assert servers[0].calls == ["finish"] and len(servers) == 1


@pytest.mark.parametrize(
    ("changes", "supported", "key"),
    [({}, True, (1, "sb3")), ({}, False, None), ({"python": "/other"}, True, None)],
)
def test_a_server_is_for_one_framework_and_number_of_threads(monkeypatch, changes, supported, key):
    monkeypatch.setattr(forked_process, "supports_pidfd", lambda: supported)
    spec = types.SimpleNamespace(**({"python": None, "threads": 1, "framework": "sb3"} | changes))
    assert forked_process._get_server_key(spec) == key


@pytest.mark.parametrize("error", [None, OSError(38, "not here"), AttributeError()])
def test_handles_of_processes_need_a_system_that_has_them(monkeypatch, error):
    opened, closed = [], []

    def open_handle(pid):
        if error:
            raise error
        opened.append(os.getpid() == pid)
        return 99

    monkeypatch.setattr(forked_process.os, "pidfd_open", open_handle)
    monkeypatch.setattr(forked_process.os, "close", closed.append)
    assert forked_process.supports_pidfd.__wrapped__() == (error is None)
    assert (opened, closed) == (([True], [99]) if error is None else ([], []))


def test_a_server_imports_what_the_algorithms_of_its_runs_need(monkeypatch):
    modules = {"ppo": ("a", "b"), "td3": ("b", "c")}
    adapter = types.SimpleNamespace(training_modules=modules.__getitem__)
    monkeypatch.setattr(forked_process, "load_adapter", lambda name: adapter)
    algorithms = ["td3", "ppo", "td3"]
    assert forked_process.list_training_modules("sb3", algorithms) == ("b", "c", "a")

    def fail(name):
        raise SpecError("not installed")

    monkeypatch.setattr(forked_process, "load_adapter", fail)
    assert forked_process.list_training_modules("sb3", algorithms) == ()


@pytest.fixture
def server():
    """A server that is a pair of sockets, without a process."""
    control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = object.__new__(forked_process.ForkServer)
    made._control, made._lock, made._is_ready = control, forked_process.threading.Lock(), None
    yield made, other
    control.close()
    other.close()


@pytest.mark.parametrize(("answer", "is_ready"), [(b"ready", True), (None, False)])
def test_a_server_is_ready_once_it_has_imported_everything(server, answer, is_ready):
    made, other = server
    if answer:
        other.send(answer)
    else:
        other.close()
    assert made.is_ready(lambda: False) is is_ready
    assert made.is_ready(None) is is_ready  # known from now on


def test_a_server_that_starts_is_killed_with_its_sweep(server, monkeypatch):
    made, other = server
    monkeypatch.setattr(forked_process, "_POLL_SECONDS", 0.001)
    answers, killed = iter([False, True]), []
    kill = types.SimpleNamespace(kill=lambda: killed.append(1) or other.close())
    made._process = kill
    assert made.is_ready(lambda: next(answers)) is False and killed == [1]


@pytest.mark.parametrize("lifeline", [None, 0])
def test_a_fork_is_requested_with_its_files(server, monkeypatch, tmp_path, lifeline):
    made, other = server
    answers = [[9], []]
    requests = []

    def receive(channel, size, count):
        content, files, _, _ = socket_receive(other, 1024, 8)
        requests.append((content, len(files)))
        for file in files:
            os.close(file)
        return b"", answers.pop(0), 0, None

    socket_receive = socket.recv_fds
    monkeypatch.setattr(forked_process.socket, "recv_fds", receive)
    with (tmp_path / "log").open("wb") as log:
        process = made.fork(["folder", "log"], log, lifeline)
        assert made.fork([], log, lifeline) is None
    assert isinstance(process, ForkedProcess) and process._handle == 9
    process._channel.close()
    number = 2 if lifeline is None else 3
    assert requests == [(b'["folder", "log"]', number), (b"[]", number)]


def test_fork_server_has_its_own_session_and_socket(monkeypatch):
    made, waited = [], []

    def start(command, **options):
        made.append((command, options, os.fstat(options["pass_fds"][0]).st_ino))
        return types.SimpleNamespace(wait=waited.append)

    monkeypatch.setattr(forked_process.subprocess, "Popen", start)
    server = forked_process.ForkServer("sb3", ("a", "b"), {"A": "1"})
    ((command, options, _),) = made
    number = options.pop("pass_fds")
    module = ["-m", "parallax.harness.forkserver"]
    assert command == [forked_process.sys.executable, *module, str(number[0]), "a", "b"]
    output = options.pop("stdout")
    assert output.closed and options == {
        **{"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "env": {"A": "1"}},
        "start_new_session": True,
    }
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number[0])  # the server has its own
    server.finish()
    server.finish()
    server.wait()
    assert waited == [5.0] and server._control.fileno() == -1


@pytest.mark.parametrize("is_ready", [None, True])
def test_a_server_is_killed_if_nobody_has_waited_for_it(server, is_ready):
    made, _ = server
    calls = []
    made._is_ready = is_ready
    made._process = types.SimpleNamespace(
        kill=lambda: calls.append("kill"), wait=lambda seconds: calls.append("wait")
    )
    with made as entered:
        assert entered is made
    assert calls == (["wait"] if is_ready else ["kill", "wait"])


def test_a_server_that_does_not_end_in_time_is_left(server):
    made, other = server
    made.finish()
    assert other.recv(1) == b""

    def wait(seconds):
        raise subprocess.TimeoutExpired("server", seconds)

    made._process = types.SimpleNamespace(wait=wait)
    made.wait()
    assert made._control.fileno() == -1
