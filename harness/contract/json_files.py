"""JSON files that people pass on: of bounded size and of known types, or one message."""

import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from parallax.harness.contract.fields import SpecError

_MAX_BYTES = 2**27  # the answers of all probes take 4 MB
_ERRORS = (msgspec.MsgspecError, ArithmeticError, RecursionError, TypeError, ValueError)

Content = TypeVar("Content")


def load_json(file: Path, kind: type[Content], what: str) -> Content:
    """Load a file.

    Args:
        file: The file.
        kind: Type of its content; unknown fields are ignored.
        what: The content in messages, and how to write it, such as `outcomes: write them with
            --json`.

    Raises:
        SpecError: It cannot be read, or holds something else.
    """
    try:
        return msgspec.json.decode(_read_bounded(file), type=kind)
    except (OSError, *_ERRORS) as error:
        raise SpecError(f"{file} ({_describe(error)}) holds no {what}.") from error


def load_json_lines(file: Path, kind: type[Content], what: str) -> list[Content]:
    """Load a file with a value on each line; NaN is allowed. None if the file does not exist.

    Args:
        file: The file.
        kind: Type of a line.
        what: The content in messages, and how to write it.

    Raises:
        SpecError: It cannot be read, or a line holds something else.
    """
    found: list[Any] = []
    try:
        lines = _read_bounded(file).decode().splitlines() if file.exists() else []
        for line in filter(str.strip, lines):
            found.append(msgspec.convert(json.loads(line), kind))
    except (OSError, *_ERRORS) as error:
        where = f"value {len(found) + 1}: {_describe(error)}"
        raise SpecError(f"{file} ({where}) holds no {what}.") from error
    return found


def _read_bounded(file: Path) -> bytes:
    if not file.is_file():  # a pipe never ends
        raise ValueError("no file" if not file.exists() else "no regular file")
    with file.open("rb") as opened:
        raw = opened.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise ValueError(f"over {_MAX_BYTES:,} bytes")
    return raw


def _describe(error: Exception) -> str:
    text = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return "".join(char for char in text if char.isprintable())[:200]
