"""Files that are either whole or not there."""

import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_atomically(
    path: Path, write: Callable[[IO[bytes]], None], staging: Path | None = None
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


def write_json(path: Path, content: Any) -> None:
    """Writes strict JSON; infinities become text."""
    write_atomically(path, json_writer(content))


def json_writer(content: Any) -> Callable[[IO[bytes]], None]:
    """What writes `content` as strict JSON to an open file."""
    text = json.dumps(_strict(content), indent=2, allow_nan=False) + "\n"

    def write(file: IO[bytes]) -> None:
        file.write(text.encode())

    return write


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
