"""Processes that a test started, and theirs, also once their parents are gone."""

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def adopting():
    """While it lasts, orphaned descendants become children of this process; ends all of them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "orphans cannot be adopted here")
    before = set(descendants())
    try:
        yield
    finally:
        deadline = time.monotonic() + 30
        while (left := set(descendants()) - before) and time.monotonic() < deadline:
            for pid in left:
                send(pid, signal.SIGKILL)
            reap(left)
            time.sleep(0.05)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def descendants(above=None):
    """Command lines of all living descendants of a process, by process id."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(entry)) and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = {}, [above or os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), []):
            with contextlib.suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                todo.append(pid)
    return found


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def reap(pids):
    """Lets adopted processes that have ended go."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _stat(entry):
    """State and parent, as `/proc` tells; None where the process has ended."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
