"""Files that are either whole or not there."""

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Lets `write` fill a temporary file beside `path`, then renames it to `path`.

    Args:
        path: Final name; its folder must exist.
        write: Receives the temporary name, which has the suffix of `path`.

    Raises:
        OSError: The folder cannot be written to; `path` is as it was.
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text; what UTF-8 cannot hold becomes a question mark."""
    write_whole(path, lambda temporary: _write(temporary, text.encode("utf-8", "replace")))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
