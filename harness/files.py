"""Files that are either whole or not there."""

import functools
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any


def write_atomically(
    path: Path, write: Callable[[IO[bytes]], object], staging: Path | None = None
) -> None:
    """Writes to a temporary name in the same folder, then renames.

    Args:
        path: Final name.
        write: Receives the open temporary file.
        staging: Folder for the temporary file, on the same file system, if another one.

    Raises:
        OSError: The disk is full or the folder cannot be written; `path` is as it was.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=staging or path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_all(texts: Mapping[Path, str]) -> None:
    """Writes several files, making folders as needed: all of them, or none.

    Raises:
        OSError: One cannot be written; what was written before is undone.
    """
    undo: list[Callable[[], None]] = []
    try:
        for path, text in texts.items():
            for folder in reversed([f for f in path.parents if not f.exists()]):
                folder.mkdir()
                undo.append(folder.rmdir)
            undo.append(_restoring(path))
            write_atomically(path, functools.partial(_write_bytes, content=text.encode()))
    except BaseException:
        for step in reversed(undo):
            step()
        raise


def write_json(path: Path, content: Any) -> None:
    """Writes strict JSON; infinities become text."""
    write_atomically(path, json_writer(content))


def json_writer(content: Any) -> Callable[[IO[bytes]], None]:
    """What writes `content` as strict JSON to an open file."""
    text = json.dumps(_strict(content), indent=2, allow_nan=False) + "\n"
    return functools.partial(_write_bytes, content=text.encode())


def _restoring(path: Path) -> Callable[[], None]:
    if not path.exists():
        return functools.partial(path.unlink, missing_ok=True)
    write = functools.partial(_write_bytes, content=path.read_bytes())
    return functools.partial(write_atomically, path, write)


def _write_bytes(file: IO[bytes], content: bytes) -> None:
    file.write(content)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
