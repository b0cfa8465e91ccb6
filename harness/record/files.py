"""Atomic writing of files, bounded reading of untrusted files, and parsing of numbers."""

import argparse
import contextlib
import errno
import functools
import io
import json
import math
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from parallax.harness.record.layout import is_visible

MAX_JOBS = 1024
"""Largest number of processes that a command may start at a time."""


DECODE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Raised by code that uses content of a damaged file as if it were intact."""


class UnusableError(Exception):
    """The reason that a file or a run cannot be used, in a few words."""


def read_bounded(path: Path, limit: int) -> bytes:
    """Return the content of a regular file.

    Args:
        path: The file; links are not followed and special files not opened.
        limit: Most bytes to read.

    Raises:
        UnusableError: It is a link, not a regular file, or larger than `limit`.
        OSError: It is missing or cannot be read.
    """
    descriptor = _open_descriptor(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise UnusableError(f"is too large: {size:,} bytes where {limit:,} are allowed")
        parts = []
        # Not read with the limit as size: that would allocate as much for every file.
        while part := os.read(descriptor, size + 1):
            parts.append(part)
            if sum(map(len, parts)) > limit:
                raise UnusableError("grows while it is read")
        return b"".join(parts)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_regular_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file for reading.

    Raises:
        UnusableError: It is a link or not a regular file.
        OSError: It is missing or cannot be read.
    """
    with os.fdopen(_open_descriptor(path), "rb") as file:
        yield file


def _open_descriptor(path: Path) -> int:
    _check_regular(os.lstat(path).st_mode)
    # Opened without waiting, and checked again: it may have become a pipe or a link since.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnusableError(_LINK_ERROR) from error
        raise
    try:
        _check_regular(os.fstat(descriptor).st_mode)
    except UnusableError:
        os.close(descriptor)
        raise
    return descriptor


_LINK_ERROR = "is a link, which is not followed"


def _check_regular(mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise UnusableError(_LINK_ERROR)
    if not stat.S_ISREG(mode):
        raise UnusableError("is not a regular file")


def summarize_error(error: object) -> str:
    """Return the most informative line of an error text, printable, at most 200 characters.

    That is the first line, or the last one of a Python traceback.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__ if isinstance(error, Exception) else "no reason recorded"
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return "".join(char for char in line if char.isprintable())[:200]


def escape_unprintable(text: str) -> str:
    """Return the text with control characters and other invisible ones as escapes."""
    if is_visible(text):  # nearly always, and hundreds of thousands of texts in a study
        return text
    return "".join(
        char if is_visible(char) else char.encode("unicode_escape").decode() for char in text
    )


def escape_lines(text: str) -> str:
    """Return the text with unprintable characters, but for ends of lines, as escapes."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines without control characters, since texts may come from untrusted files."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # where a terminal lacks a character
    for line in lines:
        print(escape_lines(line))


def make_number_parser(minimum: int, maximum: int, other: str = "") -> Callable[[str], int]:
    """Return a function that reads a whole number for argparse, between bounds or `other`."""
    allowed = f"{minimum} to {maximum}" + (f", or {other}" if other else "")

    def read(text: str) -> int:
        inside = text.isdecimal() and len(text) <= 16 and minimum <= int(text) <= maximum
        if not inside and (not other or text != other):
            raise argparse.ArgumentTypeError(f"{text!r} must be from {allowed}")
        return int(text)

    return read


parse_seed = make_number_parser(0, 2**32 - 1)
parse_jobs = make_number_parser(1, MAX_JOBS, "-1")


def write_atomically(
    path: Path, write: Callable[[IO[bytes]], object], staging: Path | None = None
) -> None:
    """Write to a temporary name in the same folder, then rename.

    The content is on the disk before the rename, and the rename before this returns: after a power
    failure the file is the old one or the new one, and a file that is written later never exists
    without it. Permissions are those that the umask, or the folder's default ACL, gives any new
    file: members of a group may read and replace files in a folder that they share.

    Args:
        path: Final name.
        write: Receives the open temporary file.
        staging: Folder for the temporary file, on the same file system, if another one.

    Raises:
        OSError: The disk is full or the folder cannot be written; `path` is unchanged.
    """
    temporary = (staging or path.parent) / f".{path.name[:200]}.{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)  # writing does not say which file has no space left
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, if its file system supports that."""
    with contextlib.suppress(OSError):  # some network file systems refuse, and write through
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_path_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`.

    Args:
        path: Final name; its folder must exist.
        write: Receives the temporary name, which has the suffix of `path`.

    Raises:
        OSError: The folder cannot be written to; `path` is unchanged.
    """
    # A name that can be guessed could be that of a link to another file.
    temporary = path.with_name(f".{path.stem[:200]}.{secrets.token_hex(8)}{path.suffix}")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def find_write_error(path: Path, size: int) -> OSError | None:
    """Return why a temporary file cannot have `size` bytes, such as a full disk; None if it can."""
    try:
        with path.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        return error
    return None


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text; characters that UTF-8 cannot encode become question marks."""
    write_atomically(path, make_bytes_writer(text.encode("utf-8", "replace")))


def write_files_atomically(contents: Mapping[Path, str | bytes]) -> None:
    """Write several files, making folders as needed: all of them, or none. Text is UTF-8.

    Raises:
        OSError: One cannot be written; what was written before is undone.
    """
    undo: list[Callable[[], object]] = []
    backups: list[Path] = []
    for path in contents:
        if path.exists() and not path.is_file():  # a device may have no end
            text = "it is a folder" if path.is_dir() else "it is no regular file"
            raise OSError(errno.EINVAL, text, str(path), None, str(path))
    try:
        for path, content in contents.items():
            for folder in reversed([f for f in path.parents if not f.exists()]):
                folder.mkdir()
                undo.append(folder.rmdir)
            if path.is_symlink() or path.exists():
                backups.append(_back_up(path))
                undo.append(functools.partial(backups[-1].replace, path))
            else:
                undo.append(functools.partial(path.unlink, missing_ok=True))
            raw = content.encode("utf-8", "replace") if isinstance(content, str) else content
            write_atomically(path, make_bytes_writer(raw))
    except BaseException as error:
        for step in reversed(undo):
            step()
        if isinstance(error, OSError):
            error.filename = error.filename2 = str(path)  # not a temporary name
        raise
    finally:
        for backup in backups:
            backup.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON; infinities become text."""
    write_atomically(path, make_json_writer(content))


def make_json_writer(content: Any) -> Callable[[IO[bytes]], object]:
    """Return a function that writes `content` as strict JSON to an open file."""
    text = json.dumps(to_plain_json(content), indent=2, allow_nan=False) + "\n"
    return make_bytes_writer(text.encode())


def make_bytes_writer(content: bytes) -> Callable[[IO[bytes]], object]:
    """Return a function that writes `content` to an open file."""
    return lambda file: file.write(content)


def to_plain_json(value: Any) -> Any:
    """Convert to types of strict JSON; infinities and characters outside UTF-8 become text."""
    if isinstance(value, dict):
        return {to_plain_json(str(key)): to_plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value


def _back_up(path: Path) -> Path:
    # Not a copy: the file may have terabytes, or be a link to somebody's private file.
    backup = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}")
    try:
        os.link(path, backup, follow_symlinks=False)
    except OSError:  # no hard links on this file system, or to files of other users
        path.rename(backup)
    return backup
