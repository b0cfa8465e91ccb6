"""Range checks for frozen dataclasses, declared next to each field."""

import dataclasses
import difflib
import functools
import math
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

_MAX_LISTED_NAMES = 25
# Larger integers are not exact as floats; products of larger floats overflow in float32.
_LARGEST = {bool: 1, int: 2**53, float: 1e30}

SCHEDULES = ("constant", "linear")
"""Schedules of a value over a run: constant, or decreasing linearly to 0."""

REQUIRED: Any = object()
"""Marker for a value that is not given."""


class SpecError(ValueError):
    """Bad input, worded for the user: field, value and remedy."""


class UnfinishedAdapterError(SpecError, NotImplementedError):
    """An unfinished part of an adapter skeleton."""

    def __init__(self, file: str, function: str, task: str) -> None:
        """Create the error; its message says where to write what."""
        super().__init__(f"{file}: fill in {function}(): {task}.")


def bounded_field(
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    choices: Sequence[Any] | None = None,
    nonempty: bool = False,
    legacy_value: Any = REQUIRED,
    default: Any = REQUIRED,
) -> Any:
    """Return a dataclass field with its allowed values, required unless it has a default.

    Args:
        minimum: Smallest value allowed.
        maximum: Largest value allowed.
        above: Values must be strictly greater than this.
        choices: The only values allowed.
        nonempty: Whether a list needs at least one entry; the other limits are for each entry.
        legacy_value: For a field that was added later: its value in older recipes and records,
            which preserves the behaviour from before the field existed.
        default: The value if none is given.
    """
    metadata = {
        "minimum": minimum,
        "maximum": maximum,
        "above": above,
        "choices": choices,
        "filled": nonempty,
        "before": default if legacy_value is REQUIRED else legacy_value,
    }
    if default is not REQUIRED:
        return dataclasses.field(default=default, metadata=metadata)
    return dataclasses.field(metadata=metadata)


def build_dataclass(cls: type[Any], values: Mapping[str, Any], where: str) -> Any:
    """Build dataclass `cls` from a mapping, refusing unknown, missing and ill-typed values.

    Args:
        cls: A dataclass whose fields were made with `bounded_field`.
        values: Field values, as read from YAML or the command line.
        where: Name of the mapping in error messages, e.g. `hyperparameters`.

    Raises:
        SpecError: Names the field, the value and what is allowed.
    """
    known = {field.name: field for field in dataclasses.fields(cls)}
    earlier = {
        name: field.metadata["before"]
        for name, field in known.items()
        if field.metadata.get("before", REQUIRED) is not REQUIRED
    }
    checked = check_fields(cls, earlier | dict(values), where)
    missing = [name for name in known if name not in checked]
    if missing:
        raise SpecError(f"{where} lacks {', '.join(missing)}: give each a value.")
    return cls(**checked)


def check_fields(cls: type[Any], values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return values of some fields of a dataclass, converted to the fields' types.

    Args:
        cls: A dataclass whose fields were made with `bounded_field`.
        values: Values by name of the field.
        where: Name of the mapping in error messages, e.g. `hyperparameters`.

    Raises:
        SpecError: Names the field, the value and what is allowed.
    """
    known = {field.name: field for field in dataclasses.fields(cls)}
    hints = _get_type_hints(typing.cast(Any, cls))
    for name in values:
        if name not in known:
            raise SpecError(format_unknown_name(f"{where}.{name}", name, list(known)))
    return {
        name: check_value(f"{where}.{name}", value, hints[name], known[name].metadata)
        for name, value in values.items()
    }


@functools.cache
def _get_type_hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def format_unknown_name(
    what: str, given: str, known: Sequence[str], command: str = "parallax train --help"
) -> str:
    """Message for a name that is not one of `known`, with the closest match.

    If there are many, `command` lists them.
    """
    # Users may write SB3 or PPO; no two names differ only in case.
    close = [name for name in known if name.lower() == given.lower()]
    close = close or difflib.get_close_matches(given, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    if len(known) > _MAX_LISTED_NAMES:
        return f"{what} is not known.{hint} {command} lists all names."
    return f"{what} is not known.{hint} Known: {', '.join(sorted(known))}."


def check_value(name: str, value: Any, hint: Any, limits: Mapping[str, Any]) -> Any:
    """Convert `value` to the annotated type and check its limits."""
    value = _convert_value(name, value, hint)
    if value == () and limits.get("filled"):
        raise SpecError(f"{name}=[] must have at least one entry, such as [256, 256].")
    for item in value if isinstance(value, tuple) else (value,):
        _check_limits(name, item, limits)
    return value


def _convert_value(name: str, value: Any, hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        if value is None and type(None) in hint.__args__:
            return None
        hint = next(arg for arg in hint.__args__ if arg is not type(None))
    if typing.get_origin(hint) is tuple:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise SpecError(f"{name}={value!r} must be a list, such as [256, 256].")
        return tuple(_convert_value(name, item, hint.__args__[0]) for item in value)
    if hint is bool:
        if not isinstance(value, bool):
            raise SpecError(f"{name}={value!r} must be true or false.")
        return value
    if hint is str:
        return str(value)
    # In Python a bool is an int, but `true` is no number to users.
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = "a whole number" if hint is int else "a number"
        raise SpecError(f"{name}={value!r} must be {kind}.")
    if hint is int:
        if isinstance(value, float) and (not math.isfinite(value) or value != int(value)):
            raise SpecError(f"{name}={value!r} must be a whole number.")
        return int(value)
    try:
        return float(value)
    except OverflowError:
        raise SpecError(f"{name} must be below {sys.float_info.max:.0e}.") from None


def _check_limits(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    if value is None:
        return
    choices = limits.get("choices")
    if choices is not None and value not in choices:
        raise SpecError(f"{name}={value!r} must be one of: {', '.join(map(str, choices))}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{name}={value!r} must be finite.")
    minimum, maximum, above = (limits.get(key) for key in ("minimum", "maximum", "above"))
    if minimum is not None and value < minimum:
        raise SpecError(f"{name}={value!r} must be at least {minimum}.")
    if maximum is not None and value > maximum:
        raise SpecError(f"{name}={value!r} must be at most {maximum}.")
    if above is not None and value <= above:
        raise SpecError(f"{name}={value!r} must be greater than {above}.")
    if isinstance(value, int | float) and abs(value) > _LARGEST[type(value)]:
        raise SpecError(f"{name}={value!r} must be at most {_LARGEST[type(value)]:,}.")


def format_value(value: Any) -> str:
    """Return a value as a user types it: lists for tuples, null for None, calls for objects."""
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return str(list(value))
    if isinstance(value, dict):
        return ", ".join(f"{name}({_format_arguments(given)})" for name, given in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_arguments(given: Any) -> str:
    values = given if isinstance(given, list | tuple) else [given]
    return ", ".join(map(format_value, values))


class RunsFailedError(Exception):
    """Some runs of a sweep did not complete; each was reported when it ended."""


HANDLED_ERRORS = (RunsFailedError, SpecError, KeyboardInterrupt)
"""Errors reported as a sentence; anything else is a bug and shows its traceback."""
