"""A cluster for as long as a user or a command needs it."""

import contextlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from parallax.harness.contract.fields import SpecError
from tests.slurm_cluster.cluster import SlurmCluster
from tests.slurm_cluster.daemons import DaemonError, find_programs, is_running, read_pid

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TIMEOUT = 10.0  # seconds from SIGTERM to SIGKILL
_LONGEST_FOLDER = 80  # sockets below it have longer names, of 107 characters at most
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def run_cluster_session(
    folder: Path | None, nodes: int, cpus: int, *, accounting: bool, command: Sequence[str]
) -> int:
    """Start a cluster, wait or run a command inside, and stop every daemon.

    Args:
        folder: Where its files go; None for a folder that is removed afterwards.
        nodes: Number of nodes.
        cpus: Processors that each claims to have.
        accounting: Whether `sacct` answers.
        command: What to run inside; empty to wait for Ctrl-C or SIGTERM.

    Returns:
        The exit code of the command; 0 without one.

    Raises:
        SpecError: Slurm is missing, the folder cannot be used, or a daemon does not come up.
    """
    _check_installed(accounting=accounting)
    if folder is not None:
        _check_folder(folder.absolute())
    with _catch_stop_signals() as stop:
        place = folder or Path(tempfile.mkdtemp(prefix="parallax-cluster-"))
        try:
            with SlurmCluster(place, nodes, accounting=accounting, cpus=cpus) as cluster:
                code = _run_inside(cluster, command, stop)
        except (DaemonError, OSError, subprocess.SubprocessError) as error:
            raise SpecError(f"The cluster does not start: {error}") from error
        # After an error the logs stay.
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
    return code


def _check_installed(*, accounting: bool) -> None:
    missing = find_programs(accounting=accounting)[1]
    if missing:
        packages = "slurm-wlm munge" + (" slurmdbd mariadb-server" if accounting else "")
        raise SpecError(
            f"Slurm is not installed here, {', '.join(missing)} cannot be found. On Debian and "
            f"Ubuntu: apt-get install {packages}"
        )


def _check_folder(folder: Path) -> None:
    """Raise `SpecError` for a folder with a long name, with other files, or in use."""
    if len(str(folder)) > _LONGEST_FOLDER:
        raise SpecError(f"--folder={folder} is too long for sockets: {_LONGEST_FOLDER} characters.")
    try:
        content = list(folder.iterdir()) if folder.exists() else []
        mine = not content or "ClusterName=loopback\n" in (folder / "slurm.conf").read_text()
    except (OSError, ValueError):
        mine = False
    if not mine:
        raise SpecError(f"--folder={folder} holds something else: name an empty folder.")
    if any(is_running(read_pid(file) or 0) for file in folder.glob("run/*.pid")):
        raise SpecError(f"--folder={folder} holds a cluster that is running: name another folder.")


@contextlib.contextmanager
def _catch_stop_signals() -> Iterator[threading.Event]:
    """Yield an event that signals set, so that none interrupts the start of a daemon."""
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_inside(cluster: SlurmCluster, command: Sequence[str], stop: threading.Event) -> int:
    if stop.is_set():
        return 0
    if command:
        return _run_command(command, cluster.environment(), stop)
    layout = cluster.layout
    print(f"export SLURM_CONF={shlex.quote(str(layout.config))}", flush=True)
    print(
        f"\n{layout.nodes} nodes are idle; logs are in {layout.logs}. In another terminal, enter "
        "the line above, then\n"
        "    sinfo\n"
        "    parallax train -m study=demo algorithm=ppo hydra/launcher=slurm "
        "hydra.launcher.mem_gb=1\n"
        "Ctrl-C here cancels all jobs and stops every daemon.",
        flush=True,
    )
    stop.wait()
    print("Stopping.", flush=True)
    return 0


def _run_command(
    command: Sequence[str], environment: Mapping[str, str], stop: threading.Event
) -> int:
    try:
        process = subprocess.Popen(command, env=dict(environment))
    except OSError as error:
        print(f"Error: {command[0]} cannot be started ({error.strerror}).", flush=True)
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return _to_shell_exit_code(process.wait(0.1))
    process.terminate()  # Ctrl-C has reached it by itself, SIGTERM has not
    try:
        return _to_shell_exit_code(process.wait(_TIMEOUT))
    except subprocess.TimeoutExpired:
        process.kill()
        return _to_shell_exit_code(process.wait())


def _to_shell_exit_code(code: int) -> int:
    """Return the exit code that a shell reports: 128 plus the number of a signal."""
    return 128 - code if code < 0 else code
