"""Loads YAML and JSON files of users: checks their size and reports errors in one message."""

import collections
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from parallax.harness.contract.fields import SpecError

# Parsing in C takes a tenth of the time, but PyYAML may be built without it.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_BYTES = 2**20
_MAX_VALUES = 100_000  # with every alias written out; our files have some hundred
_MAX_DIGITS = 1000  # a message cannot show a number of some thousand
_UNUSUAL = re.compile(r"[-+]?(0[0-9_]|[0-9_]+:)")
# The answers of all probes take 4 MB. Nested lists take 50 times as much memory as text.
_MAX_JSON_BYTES = 2**24
_JSON_ERRORS = (msgspec.MsgspecError, ArithmeticError, RecursionError, TypeError, ValueError)

Content = TypeVar("Content")


def construct_number(loader: Any, node: Any) -> Any:
    """Construct a YAML integer, but not 010, which is 8, nor 1:30:00, which is 5400."""
    problem = f"{node.value} needs quotes to be a text" if _UNUSUAL.match(node.value) else ""
    if len(str(node.value)) > _MAX_DIGITS:
        problem = f"a number of {len(node.value):,} characters"
    if problem:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return loader.construct_yaml_int(node)


class _UniqueKeyLoader(_SafeLoader):  # type: ignore[misc]
    """Refuses duplicate names in a mapping, of which PyYAML would use the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                place = key.start_mark
                raise yaml.MarkedYAMLError(problem=f"{key.value} twice", problem_mark=place)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


INTEGER_TAG = "tag:yaml.org,2002:int"
_UniqueKeyLoader.add_constructor(INTEGER_TAG, construct_number)


def load_yaml(file: Path, what: str) -> Any:
    """Load a file of plain values, which messages call `what`.

    Raises:
        SpecError: It cannot be read, is not YAML, or has more values than any such file needs.
    """
    try:
        raw = read_user_file(file, _MAX_BYTES)
        content = yaml.load(raw.decode("utf-8"), Loader=_UniqueKeyLoader)
        count = _count_values(content, {})
    except OSError as error:
        raise SpecError(f"{file} cannot be read ({error.strerror}): make it readable.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise SpecError(
            f"{file}{line}: the {what} is not valid YAML ({problem}). Correct it."
        ) from error
    # YAML tags and dates can denote impossible values, such as 2000-99-99.
    except (AttributeError, LookupError, *_JSON_ERRORS) as error:
        raise SpecError(f"{file}:1: the {what} cannot be read ({error}). Correct it.") from error
    if count > _MAX_VALUES:
        raise SpecError(
            f"{file}:1: the {what} stands for more than {_MAX_VALUES:,} values, with its aliases "
            "written out. Write only what is meant."
        )
    return content


def load_named_values(file: Path, what: str) -> dict[str, Any]:
    """Load a file of values by name, which messages call `what`.

    Raises:
        SpecError: It cannot be read, or holds something else.
    """
    values = load_yaml(file, what)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise SpecError(f"{file}:1: the {what} holds no values by name, such as `gamma: 0.99`.")
    return values


def _count_values(value: Any, known: dict[int, float]) -> float:
    """Count values as if every alias were written out; infinite where one contains itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = float("inf")
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count_values(part, known) for part in parts)
    return known[id(value)]


def load_json(file: Path, kind: type[Content], what: str) -> Content:
    """Load a file as `kind`, without unknown fields; `what` names it and says how to write it.

    Raises:
        SpecError: It cannot be read, or holds something else.
    """
    try:
        return msgspec.json.decode(read_user_file(file, _MAX_JSON_BYTES), type=kind)
    except (OSError, *_JSON_ERRORS) as error:
        raise SpecError(f"{file} ({_describe(error)}) holds no {what}.") from error


def load_json_lines(file: Path, kind: type[Content], what: str) -> list[Content]:
    """Load a file with a value on each line; NaN is allowed. No values if there is no file.

    Raises:
        SpecError: It cannot be read, or a line holds something else.
    """
    found: list[Any] = []
    try:
        raw = read_user_file(file, _MAX_JSON_BYTES) if file.exists() else b""
        lines = raw.decode().splitlines()
        for line in filter(str.strip, lines):
            found.append(msgspec.convert(json.loads(line), kind))
    except (OSError, *_JSON_ERRORS) as error:
        where = f"value {len(found) + 1}: {_describe(error)}"
        raise SpecError(f"{file} ({where}) holds no {what}.") from error
    return found


def check_unique(what: str, keys: Iterable[object]) -> None:
    """Raise a `SpecError` if a key occurs twice: its numbers would count twice."""
    for key, count in collections.Counter(keys).items():
        if count > 1:
            raise SpecError(f"{what} {key} occurs twice: keep one of them.")


def read_user_file(file: Path, limit: int) -> bytes:
    """Return the content of a file that the user names; unlike in run folders, it may be a link.

    Raises:
        ValueError: It is a pipe or device, which may never end, or has more than `limit` bytes.
        OSError: It cannot be read.
    """
    if file.exists() and not file.is_file():
        raise ValueError("not a regular file")
    with file.open("rb") as opened:
        raw = opened.read(limit + 1)
    if len(raw) > limit:
        raise ValueError(f"over {limit:,} bytes")
    return raw


def _describe(error: Exception) -> str:
    text = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return "".join(char for char in text if char.isprintable())[:200]
