"""What a probe found, in memory, as JSON and in a line."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Array

AGREES, FACTOR, OFFSET, FUNCTION, COUNT = "agrees", "factor", "offset", "function", "count"
NUMBER = "number"
UPSTREAM, RECIPE = "upstream", "recipe"
"""Whose code an answer reads."""
COMPARISON_KINDS = (AGREES, FACTOR, OFFSET, FUNCTION, COUNT, NUMBER)
"""How a measured answer relates to the expected one."""


@dataclasses.dataclass(frozen=True)
class AnswerComparison:
    """How a measured answer relates to the expected one.

    Attributes:
        kind: `agrees`; `factor` (a multiple of it); `offset` (a constant away from it);
            `function` (neither); `count` (another whole number); `number` (a single number, or
            numbers of different units: it cannot be told what else would change it).
        size: The factor, the offset, the largest absolute difference, the difference in counts,
            or the largest difference as a share of the expected number; 0 where they agree.
    """

    kind: str
    size: float = 0.0


@dataclasses.dataclass(frozen=True)
class ProbeAnswer:
    """One implementation's answer.

    Attributes:
        value: What was measured; any shape.
        expected: The paper's formula on the same inputs, same shape.
        comparison: Value against expected.
        meaning: One line for a reader.
        unmeasured: Why there is no answer; empty where there is one.
        failed: Whether an error is why.
        along: What the entries run over, where it is not what the result's axis says.
        origin: Whose code was read: `upstream`, or `recipe` where it is this project's.
        arises: File and line of upstream's where it arises; empty where that is not known.
    """

    value: Array
    expected: Array
    comparison: AnswerComparison
    meaning: str = ""
    unmeasured: str = ""
    failed: bool = False
    along: Array | None = None
    origin: str = UPSTREAM
    arises: str = ""

    @property
    def share(self) -> float:
        """How far from the paper's answer: the norm of the difference over that of the answer.

        Numbers of different units count as shares of their own. 0 where they agree.
        """
        if self.unmeasured or self.comparison.kind == AGREES:
            return 0.0
        if self.comparison.kind == NUMBER:
            return abs(self.comparison.size)
        if self.value.shape != self.expected.shape:
            return float("inf")
        there = ~(np.isnan(self.value) & np.isnan(self.expected))
        apart = float(np.linalg.norm((self.value - self.expected)[there]))
        due = float(np.linalg.norm(self.expected[there]))
        return apart / due if due > 0 else float("inf")


@dataclasses.dataclass(frozen=True)
class AnswerAxis:
    """What the entries of an array answer run over, for plots.

    Attributes:
        label: Name, with the unit.
        values: One per entry.
    """

    label: str
    values: Array


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """All implementations' answers to one probe.

    Attributes:
        probe: Identifier, `<algorithm>.<what>`.
        algorithm: `ppo`, `td3` or `sac`.
        question: What is asked, one sentence.
        citation: Paper and place of the formula.
        quantity: What the numbers are, with the unit.
        axis: What an array runs over, or None for single numbers.
        answers: By framework.
        groups: Frameworks that agree with each other, largest group first.
    """

    probe: str
    algorithm: str
    question: str
    citation: str
    quantity: str
    axis: AnswerAxis | None
    answers: Mapping[str, ProbeAnswer]
    groups: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class ProbeReport:
    """One run of the probes.

    Attributes:
        results: One per probe.
        versions: Installed packages, by framework: `name version`.
        not_probed: Frameworks that were left out, and why.
        seconds: Wall-clock time.
    """

    results: tuple[ProbeResult, ...]
    versions: Mapping[str, tuple[str, ...]]
    not_probed: Mapping[str, str]
    seconds: float


def get_axis_values(result: ProbeResult, answer: ProbeAnswer) -> Array | None:
    """What the entries of an answer run over; None where that is not told."""
    if answer.along is not None:
        return answer.along
    return None if result.axis is None else result.axis.values


def list_entry_names(result: ProbeResult, count: int) -> list[str]:
    """Names of an answer's numbers: those that `quantity` lists, after any colon, or places."""
    _, colon, listed = result.quantity.rpartition(": ")
    names = listed.split(", ")
    found = len(names) == count and (bool(colon) or count > 2)
    return names if found else [str(place) for place in range(count)]


def make_missing_answer(why: str, failed: bool = False) -> ProbeAnswer:
    """An answer that could not be had."""
    nothing = np.empty(0)
    return ProbeAnswer(nothing, nothing, AnswerComparison(AGREES), unmeasured=why, failed=failed)


REPORT_SCHEMA = 1


def report_to_dict(report: ProbeReport) -> dict[str, Any]:
    """Plain numbers, texts, lists and dicts; not-a-number becomes null."""
    return {"schema": REPORT_SCHEMA, **to_plain(report)}


def report_to_text(report: ProbeReport) -> str:
    """The JSON form, one line per probe."""
    content = report_to_dict(report)
    results = ",\n".join(json.dumps(result, allow_nan=False) for result in content.pop("results"))
    head = json.dumps(content, allow_nan=False, indent=2).removesuffix("\n}")
    return f'{head},\n  "results": [\n{results}\n  ]\n}}\n'


def report_from_dict(content: Mapping[str, Any]) -> ProbeReport:
    """Inverse of `report_to_dict`.

    Raises:
        ValueError: Not written by this version of the schema.
    """
    if content.get("schema") != REPORT_SCHEMA:
        raise ValueError(
            f"probe results of schema {content.get('schema')}, expected {REPORT_SCHEMA}"
        )
    return ProbeReport(
        results=tuple(result_from_dict(result) for result in content["results"]),
        versions={name: tuple(texts) for name, texts in content["versions"].items()},
        not_probed=dict(content["not_probed"]),
        seconds=content["seconds"],
    )


def result_from_dict(content: Mapping[str, Any]) -> ProbeResult:
    """One result of the JSON form."""
    axis = content["axis"]
    return ProbeResult(
        **{name: content[name] for name in ("probe", "algorithm", "question", "citation")},
        quantity=content["quantity"],
        axis=None if axis is None else AnswerAxis(axis["label"], _array_from_list(axis["values"])),
        answers={name: _answer_from_dict(answer) for name, answer in content["answers"].items()},
        groups=tuple(tuple(group) for group in content["groups"]),
    )


def _answer_from_dict(content: Mapping[str, Any]) -> ProbeAnswer:
    size = content["comparison"]["size"]
    return ProbeAnswer(
        value=_array_from_list(content["value"]),
        expected=_array_from_list(content["expected"]),
        comparison=AnswerComparison(
            content["comparison"]["kind"], np.nan if size is None else size
        ),
        meaning=content["meaning"],
        unmeasured=content["unmeasured"],
        failed=content["failed"],
        along=None if content["along"] is None else _array_from_list(content["along"]),
        origin=content.get("origin", UPSTREAM),
        arises=content.get("arises", ""),
    )


def _array_from_list(content: Any) -> Array:
    return np.array(content, dtype=float)  # null becomes not-a-number


def to_plain(value: Any) -> Any:
    """Dataclasses, arrays (9 digits, as float32 has) and numbers; not-a-number becomes null."""
    match value:
        case np.ndarray():
            return to_plain([float(f"{x:.9g}") for x in value.flat] if value.ndim < 2 else [*value])
        case float():
            return value if np.isfinite(value) else None
        case Mapping():
            return {key: to_plain(item) for key, item in value.items()}
        case str() | int() | None:
            return value
        case Sequence():
            return [to_plain(item) for item in value]
    return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}


def has_difference(result: ProbeResult) -> bool:
    """Whether any implementation differs from the paper or could not be measured."""
    return any(
        answer.unmeasured or answer.comparison.kind != AGREES for answer in result.answers.values()
    )


def format_groups(result: ProbeResult) -> str:
    """Which implementations agree with each other: `cleanrl, sb3 | torchrl`."""
    return " | ".join(", ".join(group) for group in result.groups)


def rank_differences(report: ProbeReport) -> list[tuple[float, str, str]]:
    """Answers that differ from the papers, furthest first: share, probe and implementation."""
    found = [
        (answer.share, result.probe, name)
        for result in report.results
        for name, answer in result.answers.items()
        if answer.share > 0
    ]
    return sorted(found, key=lambda entry: (-np.nan_to_num(entry[0], nan=np.inf), *entry[1:]))


def describe_answer(answer: ProbeAnswer) -> str:
    """One answer in one line."""
    if answer.failed:
        return f"failed to run: {answer.unmeasured}"
    if answer.unmeasured:
        return f"not measured: {answer.unmeasured}"
    if answer.comparison.kind == AGREES:
        return "as in the paper"
    marks = [format_symbol(answer)]
    marks += ["our recipe"] if answer.origin == RECIPE else []
    marks += [answer.arises] if answer.arises else []
    return f"{answer.meaning} [{'; '.join(marks)}]"


def format_symbol(answer: ProbeAnswer) -> str:
    """One answer in a few characters; see `LEGEND`."""
    if answer.unmeasured:
        return "!" if answer.failed else "?"
    size = answer.comparison.size
    match answer.comparison.kind:
        case "agrees":
            return "="
        case "factor":
            return f"x {_format_digits(size)}"
        case "offset":
            return f"{'-' if size < 0 else '+'} {_format_digits(abs(size))}"
        case "count":
            return f"# {size:+.4g}"
        case "number":
            return f"n {_format_digits(size)}"
    return f"f {_format_digits(size)}"


def _format_digits(number: float) -> str:
    return f"{number:.0f}" if 1000 <= abs(number) < 1e6 else f"{number:.3g}"
