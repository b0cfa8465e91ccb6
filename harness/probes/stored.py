"""Results of probes as JSON."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.probes.results import Answer, Array, Axis, Comparison, Report, Result

SCHEMA = 1


def to_json(report: Report) -> dict[str, Any]:
    """Plain numbers, texts, lists and dicts; not-a-number becomes null."""
    return {"schema": SCHEMA, **plain(report)}


def to_text(report: Report) -> str:
    """The JSON form, one line per probe."""
    content = to_json(report)
    results = ",\n".join(json.dumps(result, allow_nan=False) for result in content.pop("results"))
    head = json.dumps(content, allow_nan=False, indent=2).removesuffix("\n}")
    return f'{head},\n  "results": [\n{results}\n  ]\n}}\n'


def from_json(content: Mapping[str, Any]) -> Report:
    """Inverse of `to_json`.

    Raises:
        ValueError: Not written by this version of the schema.
    """
    if content.get("schema") != SCHEMA:
        raise ValueError(f"probe results of schema {content.get('schema')}, expected {SCHEMA}")
    return Report(
        results=tuple(result_from_json(result) for result in content["results"]),
        versions={name: tuple(texts) for name, texts in content["versions"].items()},
        not_probed=dict(content["not_probed"]),
        seconds=content["seconds"],
    )


def result_from_json(content: Mapping[str, Any]) -> Result:
    """One result of the JSON form."""
    axis = content["axis"]
    return Result(
        **{name: content[name] for name in ("probe", "algorithm", "question", "citation")},
        quantity=content["quantity"],
        axis=None if axis is None else Axis(axis["label"], _array(axis["values"])),
        answers={name: _answer(answer) for name, answer in content["answers"].items()},
        groups=tuple(tuple(group) for group in content["groups"]),
    )


def _answer(content: Mapping[str, Any]) -> Answer:
    size = content["comparison"]["size"]
    return Answer(
        value=_array(content["value"]),
        expected=_array(content["expected"]),
        comparison=Comparison(content["comparison"]["kind"], np.nan if size is None else size),
        meaning=content["meaning"],
        unmeasured=content["unmeasured"],
        failed=content["failed"],
        along=None if content["along"] is None else _array(content["along"]),
    )


def _array(content: Any) -> Array:
    return np.array(content, dtype=float)  # null becomes not-a-number


def plain(value: Any) -> Any:
    """Dataclasses, arrays (9 digits, as float32 has) and numbers; not-a-number becomes null."""
    match value:
        case np.ndarray():
            return plain([float(f"{x:.9g}") for x in value.flat] if value.ndim < 2 else [*value])
        case float():
            return value if np.isfinite(value) else None
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
        case str() | int() | None:
            return value
        case Sequence():
            return [plain(item) for item in value]
    return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
