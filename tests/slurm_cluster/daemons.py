"""Starts daemons on free ports, and ends them by their process ids."""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_TIMEOUT = 60.0  # seconds for a daemon to come up
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo")
_DATABASE_PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")


class DaemonError(RuntimeError):
    """A daemon that is missing or does not come up."""


def find_programs(*, accounting: bool = False) -> tuple[dict[str, str], list[str]]:
    """The programs that a cluster needs: where they are, and which are missing."""
    # Daemons lie outside an ordinary user's search path.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    names = _PROGRAMS + (_DATABASE_PROGRAMS if accounting else ())
    found = {name: shutil.which(name, path=path) for name in names}
    missing = [name for name, program in found.items() if program is None]
    return {name: program for name, program in found.items() if program}, missing


def start_daemon(command: Sequence[str], environment: Mapping[str, str], pid_file: Path) -> None:
    """Runs a program that puts itself into the background, and waits for its process id.

    Raises:
        DaemonError: It did not come up; holds what it printed.
    """
    pid_file.unlink(missing_ok=True)
    result = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, timeout=_TIMEOUT
    )
    if result.returncode:
        raise DaemonError(f"{command[0]}: {(result.stderr or result.stdout).strip()[-500:]}")
    wait_for_condition(lambda: read_pid(pid_file) is not None, f"{command[0]} wrote no process id")


def wait_for_condition(
    condition: Callable[[], bool], complaint: str, patience: float = _TIMEOUT
) -> None:
    """Waits until `condition` holds.

    Raises:
        DaemonError: It did not within `patience` seconds; says `complaint`.
    """
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise DaemonError(complaint)
        time.sleep(0.05)


def read_pid(pid_file: Path) -> int | None:
    """The process id in a file, or None where there is none."""
    try:
        return int(pid_file.read_text())
    except (OSError, ValueError):
        return None


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie, which would still answer signals."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def kill_process(pid: int, number: int = signal.SIGKILL) -> None:
    """Sends a signal; a process that is gone is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def stop_daemons(pid_files: Sequence[Path], patience: float = 20.0) -> None:
    """Asks processes to end, waits, and kills what is left."""
    pids = [pid for pid in map(read_pid, pid_files) if pid is not None]
    for pid in pids:
        kill_process(pid, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in filter(is_running, pids):
        kill_process(pid)
    for pid_file in pid_files:
        pid_file.unlink(missing_ok=True)


def find_socket_owners(folder: Path) -> set[int]:
    """Processes that listen on a Unix socket below `folder`."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    fields = [line.split(maxsplit=7) for line in lines]
    inodes = {f"socket:[{f[6]}]" for f in fields if len(f) == 8 and f[7].startswith(f"{folder}/")}
    return {pid for pid in _list_processes() if inodes & _list_open_files(pid)}


def find_descendants(pids: set[int]) -> set[int]:
    """The processes, their children, and so on."""
    parents = {pid: _get_parent(pid) for pid in _list_processes()}
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _list_processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _get_parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _list_open_files(pid: int) -> set[str]:
    try:
        return {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()


def find_free_ports(count: int) -> int:
    """The first of `count` ports on loopback that are free."""
    rng = random.SystemRandom()
    while True:
        first = rng.randrange(20_000, 32_000 - count)
        if all(map(_is_port_free, range(first, first + count))):
            return first


def _is_port_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
