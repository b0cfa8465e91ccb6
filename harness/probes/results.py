"""Results of probes: answers, reports, their JSON form and their wording in one line."""

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.data_files import check_unique

AGREES, FACTOR, OFFSET, FUNCTION, COUNT = "agrees", "factor", "offset", "function", "count"
NUMBER = "number"
UPSTREAM, RECIPE = "upstream", "recipe"
"""Owner of the code that an answer is about: the framework, or this project's recipe for it."""
OTHER, HERE = "other", "here"
"""Labels of the two versions of one framework: in another interpreter, and in this one."""


@dataclasses.dataclass(frozen=True)
class AnswerComparison:
    """Relation between a measured answer and the expected one.

    Attributes:
        kind: `agrees`; `factor` (a multiple of it); `offset` (it plus a constant); `function`
            (neither); `count` (another integer); `number` (a single number, or numbers of
            different units, for which no relation can be identified).
        size: The factor, the offset, the largest absolute difference, the difference in counts,
            or the largest difference as a share of the expected number; 0 where they agree.
    """

    kind: str
    size: float = 0.0


@dataclasses.dataclass(frozen=True)
class ProbeAnswer:
    """Answer of one implementation.

    Attributes:
        value: Measured numbers; any shape.
        expected: Numbers of the paper's formula on the same inputs, same shape.
        comparison: Comparison of `value` with `expected`.
        meaning: Description of the difference, in one line.
        unmeasured: Reason why there is no answer; empty if there is one.
        failed: Whether that reason is an error.
        axis_values: Values that the entries run over, if they differ from the result's axis.
        origin: `upstream`, or `recipe` if the answer is about this project's code.
        source_line: Upstream's file and line at which a difference arises; empty if unknown.
    """

    value: Array
    expected: Array
    comparison: AnswerComparison
    meaning: str = ""
    unmeasured: str = ""
    failed: bool = False
    axis_values: Array | None = None
    origin: str = UPSTREAM
    source_line: str = ""


@dataclasses.dataclass(frozen=True)
class AnswerAxis:
    """Quantity that the entries of an array answer run over, for plots.

    Attributes:
        label: Name, with the unit.
        values: One per entry.
    """

    label: str
    values: Array


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """Answers of all implementations to one probe.

    Attributes:
        probe: Identifier, `<algorithm>.<what>`.
        algorithm: Name of the algorithm.
        question: One sentence.
        citation: Paper, and the place of the formula in it.
        quantity: Description of the numbers, with the unit.
        axis: Quantity that an array runs over, or None for single numbers.
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
    """Results of one run of the probes.

    Attributes:
        results: One per probe.
        versions: Installed packages, by framework: `name version`.
        not_probed: Reason by framework for those that were left out.
        seconds: Wall-clock time.
        alignment: Level of the hyperparameters; see `AlignmentLevel`.
        hps: Recipe of the levels that have one.
        n_stored: Number of answers that were measured before, on the same code; not in files.
    """

    results: tuple[ProbeResult, ...]
    versions: Mapping[str, tuple[str, ...]]
    not_probed: Mapping[str, str]
    seconds: float
    alignment: str = "defaults"
    hps: str = "original"
    n_stored: int = 0


def format_seed_label(label: str, seed: int) -> str:
    """Return the name of an implementation that is measured on further scripted numbers."""
    return f"{label} seed {seed}" if seed else label


def get_axis_values(result: ProbeResult, answer: ProbeAnswer) -> Array | None:
    """Return the values that the entries of an answer run over, or None if there is no axis."""
    if answer.axis_values is not None:
        return answer.axis_values
    return None if result.axis is None else result.axis.values


def list_entry_names(result: ProbeResult, count: int) -> list[str]:
    """Return names of an answer's numbers: those listed in `quantity`, or their positions."""
    _, colon, listed = result.quantity.rpartition(": ")
    names = listed.split(", ")
    found = len(names) == count and (bool(colon) or count > 2)
    return names if found else [str(place) for place in range(count)]


def make_missing_answer(why: str, failed: bool = False) -> ProbeAnswer:
    """Return the answer of an implementation that could not be measured."""
    nothing = np.empty(0)
    return ProbeAnswer(nothing, nothing, AnswerComparison(AGREES), unmeasured=why, failed=failed)


REPORT_SCHEMA = 1
JSON_KEYS = {"axis_values": "along", "source_line": "arises"}
"""Keys of stored reports that are not the names of the fields."""


def report_to_dict(report: ProbeReport) -> dict[str, Any]:
    """Return a report as plain numbers, texts, lists and dicts; NaN becomes None."""
    content = to_plain(report)
    del content["n_stored"]
    if report.alignment == "defaults":  # like files that are older than alignment levels
        del content["alignment"], content["hps"]
    return {"schema": REPORT_SCHEMA, **content}


def report_to_text(report: ProbeReport) -> str:
    """Return the JSON form of a report, one line per probe."""
    return plain_report_to_text(report_to_dict(report))


def plain_report_to_text(content: dict[str, Any]) -> str:
    """Return the JSON form of a plain report, one line per probe; removes `results` from it."""
    results = ",\n".join(json.dumps(result, allow_nan=False) for result in content.pop("results"))
    head = json.dumps(content, allow_nan=False, indent=2).removesuffix("\n}")
    return f'{head},\n  "results": [\n{results}\n  ]\n}}\n'


def share_answers(content: dict[str, Any]) -> dict[str, Any]:
    """Return a plain report in which a repeated answer is replaced by the name of the first one.

    Releases of one framework mostly have equal answers, so a history is ten times shorter.
    """
    shared = []
    for result in content["results"]:
        first: dict[str, str] = {}
        answers = {}
        for name, answer in result["answers"].items():
            original = first.setdefault(json.dumps(answer, sort_keys=True), name)
            answers[name] = answer if original == name else original
        shared.append(result | {"answers": answers})
    return content | {"results": shared}


def report_from_dict(content: Mapping[str, Any]) -> ProbeReport:
    """Inverse of `report_to_dict`.

    Raises:
        ValueError: The content is damaged, or not of this version of the schema.
    """
    if content.get("schema") != REPORT_SCHEMA:
        schema = str(content.get("schema"))[:20]
        raise ValueError(f"probe results of schema {schema}, expected {REPORT_SCHEMA}")
    try:
        msgspec.convert(content, _StoredReport)
        results = tuple(result_from_dict(result) for result in content["results"])
    except (msgspec.MsgspecError, ArithmeticError, LookupError, TypeError) as error:
        raise ValueError(str(error)) from error
    check_unique("the probe", (result.probe for result in results))
    for result in results:
        _check_result(result, content["versions"])
    return ProbeReport(
        results=results,
        versions={name: tuple(texts) for name, texts in content["versions"].items()},
        not_probed=dict(content["not_probed"]),
        seconds=content["seconds"],
        alignment=content.get("alignment", "defaults"),
        hps=content.get("hps", "original"),
    )


def result_from_dict(content: Mapping[str, Any]) -> ProbeResult:
    """Return a result from its JSON form."""
    axis, answers = content["axis"], content["answers"]
    return ProbeResult(
        **{name: content[name] for name in ("probe", "algorithm", "question", "citation")},
        quantity=content["quantity"],
        axis=None if axis is None else AnswerAxis(axis["label"], _array_from_list(axis["values"])),
        answers={
            # A string is the name of the implementation with the same answer; see `share_answers`.
            name: _answer_from_dict(answers[answer] if isinstance(answer, str) else answer)
            for name, answer in answers.items()
        },
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
        axis_values=None if content["along"] is None else _array_from_list(content["along"]),
        origin=content.get("origin", UPSTREAM),
        source_line=content.get("arises", ""),
    )


def _check_result(result: ProbeResult, versions: Collection[str]) -> None:
    grouped = [name for group in result.groups for name in group]
    check_unique(f"{result.probe}: the implementation", grouped)
    if not set(grouped) <= result.answers.keys():
        raise ValueError(f"{result.probe}: a group names an implementation without an answer")
    if result.probe.partition(".")[0] != result.algorithm:
        raise ValueError(f"{result.probe}: algorithm={result.algorithm} is not that of the probe")
    if not result.answers.keys() <= set(versions):
        raise ValueError(f"{result.probe}: an answer of an implementation without versions")
    for name, answer in result.answers.items():
        if not (answer.value.size or answer.unmeasured):
            raise ValueError(f"{result.probe}: {name}'s answer has no numbers")
        axis = None if answer.unmeasured else get_axis_values(result, answer)
        arrays = [answer.value, answer.expected, *([] if axis is None else [axis])]
        if len({array.shape for array in arrays}) > 1:
            raise ValueError(f"{result.probe}: shapes of {name}'s answer do not agree")


class _StoredComparison(msgspec.Struct):
    kind: Literal["agrees", "factor", "offset", "function", "count", "number"]
    size: float | None


class _StoredAnswer(msgspec.Struct):
    value: Any
    expected: Any
    comparison: _StoredComparison
    meaning: str
    unmeasured: str
    failed: bool
    along: Any
    origin: str = UPSTREAM
    arises: str = ""


class _StoredAxis(msgspec.Struct):
    label: str
    values: list[float | None]


class _StoredResult(msgspec.Struct):
    probe: str
    algorithm: str
    question: str
    citation: str
    quantity: str
    axis: _StoredAxis | None
    answers: dict[str, _StoredAnswer | str]
    groups: list[list[str]]


class _StoredReport(msgspec.Struct):
    results: list[_StoredResult]
    versions: dict[str, list[str]]
    not_probed: dict[str, str]
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e10)]
    alignment: Literal["upstream", "defaults", "common", "exact", "lockstep"] = "defaults"
    hps: str = "original"


def _array_from_list(content: Any) -> Array:
    return np.array(content, dtype=float)  # None becomes NaN


def to_plain(value: Any) -> Any:
    """Return dataclasses, arrays (9 digits, as float32 has) and numbers as plain data for JSON."""
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
    names = [field.name for field in dataclasses.fields(value)]
    return {JSON_KEYS.get(name, name): to_plain(getattr(value, name)) for name in names}


def has_difference(result: ProbeResult) -> bool:
    """Return whether any implementation differs from the source or could not be measured."""
    return any(
        answer.unmeasured or answer.comparison.kind != AGREES for answer in result.answers.values()
    )


def format_groups(result: ProbeResult, name: Callable[[str], str] = str) -> str:
    """Return the groups of implementations that agree, `cleanrl, sb3 | torchrl`, by `name`."""
    return " | ".join(", ".join(map(name, group)) for group in result.groups)


def name_source(result: ProbeResult) -> str:
    """Return what the answers of a probe are compared with, by the kind of its citation."""
    head = result.citation.partition(":")[0]
    if head.startswith("hp_configs/"):
        return "the recipe `original`"
    if head.startswith(("none", "generators", "the papers'")) or "does not say" in head:
        return "the common rule"
    if head.startswith(("the authors' code", "code of")) or head.endswith("authors' code"):
        return "the authors' code"
    return "the paper"


def describe_answer(answer: ProbeAnswer, source: str = "the paper") -> str:
    """Return one answer in one line; `source` is what it is compared with."""
    if answer.failed:
        return f"failed to run: {answer.unmeasured}"
    if answer.unmeasured:
        return f"not measured: {answer.unmeasured}"
    if answer.comparison.kind == AGREES:
        return f"as in {source}"
    text = ", ".join(filter(None, (answer.meaning, _describe_size(answer, source))))
    place = "; ".join(
        filter(None, ("our recipe" if answer.origin == RECIPE else "", answer.source_line))
    )
    return f"{text} [{place}]" if place else text


def _describe_size(answer: ProbeAnswer, source: str) -> str:
    """Return the difference of an answer from its source, or "" if its description has it."""
    digits = _format_digits(abs(answer.comparison.size))
    if digits in answer.meaning:
        return ""
    match answer.comparison.kind:
        case "factor":
            whose = "the paper's" if source == "the paper" else f"that of {source}"
            return f"{digits} times {whose}"
        case "function" if np.isfinite(answer.comparison.size):
            return f"off by up to {digits}"
    return ""


def format_symbol(answer: ProbeAnswer) -> str:
    """Return one answer in a few characters; see `report.LEGEND`."""
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


def format_answer(answer: ProbeAnswer, source: str = "the paper") -> str:
    """Return one answer in a few words, for a cell of a page; `source` is as above."""
    if answer.unmeasured:
        return "failed to run" if answer.failed else "not measured"
    size = answer.comparison.size
    match answer.comparison.kind:
        case "agrees":
            return f"as in {source}"
        case "factor":
            return f"{_format_digits(size)} times"
        case "offset":
            return f"{'less' if size < 0 else 'more'} by {_format_digits(abs(size))}"
        case "count":
            return f"{abs(size):.4g} {'fewer' if size < 0 else 'more'}"
        case "number":
            return f"other number, by {size:.3g} of it"
    return f"other function, by {_format_digits(size)}"


def _format_digits(number: float) -> str:
    return f"{number:.0f}" if 1000 <= abs(number) < 1e6 else f"{number:.3g}"
