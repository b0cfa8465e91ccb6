"""Checklist of implementation details (`ppo_details.yaml`), answered by probes and by code.

Every detail has an answer per framework. If a probe measures it, the answer is computed from
measured numbers; if it is a component such as a wrapper, the framework's own file is searched
for it. No answer is written by hand.
"""

import dataclasses
import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from parallax.harness.probes.claims.claims import (
    CLAIMS_FILE,
    ClaimCheck,
    ClaimFinding,
    evaluate_check,
    make_check,
)
from parallax.harness.probes.results import RECIPE, ProbeReport, ProbeResult
from parallax.harness.record.labels import FRAMEWORK_LABELS

DETAILS_FILE = CLAIMS_FILE.with_name("ppo_details.yaml")
DEFAULT, OPTION, COMPONENT = "by default", "as an option", "as a component"
ABSENT, LEFT, UNKNOWN = "no", "left to users", "not checked"
IMPORT_NAMES = {
    "sb3": "stable_baselines3",
    **{name: name for name in ("cleanrl", "torchrl", "tianshou", "skrl", "sbx")},
}


@dataclasses.dataclass(frozen=True)
class ImplementationDetail:
    """One detail and how it is checked.

    Attributes:
        number: Position in the list, from 1.
        part: Heading of its section in the paper.
        text: The detail in our own words.
        default: Groups of checks; users get the detail by default if all of one group hold.
        option: Checks that all hold if it can be switched on.
        code: `(file, text)` of its component by framework, or None if there is none.
        words: Pattern by framework that no file of the package matches if it has no component.
        is_given: Whether users get a component by default.
        reason: Why frameworks that are missing in `code` are not checked.
        notes: Remarks for readers, by framework.
    """

    number: int
    part: str
    text: str
    default: tuple[tuple[ClaimCheck, ...], ...] = ()
    option: tuple[ClaimCheck, ...] = ()
    code: Mapping[str, tuple[str, str] | None] = dataclasses.field(default_factory=dict)
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_given: bool = False
    reason: str = ""
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class DetailAnswer:
    """Answer for one framework.

    Attributes:
        status: One of the constants above.
        evidence: Measured answer, or file and line.
    """

    status: str
    evidence: str


def load_details(path: Path = DETAILS_FILE) -> tuple[ImplementationDetail, ...]:
    """Load the checklist.

    Raises:
        SpecError: An entry has an invalid check.
    """
    parts: Mapping[str, list[Mapping[str, Any]]] = yaml.safe_load(path.read_text("utf-8"))
    pairs = [(part, entry) for part, entries in parts.items() for entry in entries]
    return tuple(
        _detail_from_dict(number, part, entry) for number, (part, entry) in enumerate(pairs, 1)
    )


def _detail_from_dict(number: int, part: str, entry: Mapping[str, Any]) -> ImplementationDetail:
    groups = [entry[key] for key in ("default", "or_default") if key in entry]
    code = {
        name: _split_place(place) if place else None
        for name, place in entry.get("code", {}).items()
    }
    general = {name: entry["word"] for name in IMPORT_NAMES if "word" in entry}
    return ImplementationDetail(
        number,
        part,
        entry["detail"],
        default=tuple(_make_checks(group, entry["detail"]) for group in groups),
        option=_make_checks(entry.get("option", ()), entry["detail"]),
        code=code,
        words={**general, **entry.get("words", {})},
        is_given=entry.get("given", False),
        reason=entry.get("reason", ""),
        notes=entry.get("notes", {}),
    )


def _make_checks(entries: Sequence[Mapping[str, Any]], text: str) -> tuple[ClaimCheck, ...]:
    return tuple(make_check({"who": [], **entry}, text) for entry in entries)


def _split_place(place: str) -> tuple[str, str]:
    file, _, text = place.partition(" | ")
    return file.strip(), text.strip()


def judge_detail(
    detail: ImplementationDetail, framework: str, results: Mapping[str, ProbeResult]
) -> DetailAnswer:
    """Return the answer to a detail for a framework.

    Args:
        detail: A detail of the checklist.
        framework: Name of an adapter.
        results: Answers of probes by name.

    Raises:
        KeyError: A probe of its checks was not run.
    """
    if framework in detail.code:
        answer = _search_code(detail, framework)
    elif detail.default:
        answer = _judge_by_probes(detail, framework, results)
    else:
        answer = DetailAnswer(LEFT, detail.reason)
    note = detail.notes.get(framework)
    return dataclasses.replace(answer, evidence=f"{answer.evidence}; {note}") if note else answer


def _judge_by_probes(
    detail: ImplementationDetail, framework: str, results: Mapping[str, ProbeResult]
) -> DetailAnswer:
    found = [_evaluate_checks(group, framework, results) for group in detail.default]
    if any(item.source == RECIPE for item in found[0]):
        # This project's recipe replaces code that the framework's users write themselves.
        return DetailAnswer(LEFT, _format_findings(found[0]))
    for findings in found:
        if all(item.holds for item in findings):
            return DetailAnswer(DEFAULT, _format_findings(findings))
    if detail.option:
        findings = _evaluate_checks(detail.option, framework, results)
        if all(item.holds for item in findings):
            return DetailAnswer(OPTION, _format_findings(findings))
    failed = [item for item in found[0] if not item.holds]
    status = ABSENT if any(item.holds is False for item in failed) else UNKNOWN
    return DetailAnswer(status, _format_findings(failed))


def _evaluate_checks(
    checks: Sequence[ClaimCheck], framework: str, results: Mapping[str, ProbeResult]
) -> list[ClaimFinding]:
    return [
        finding
        for check in checks
        for finding in evaluate_check(dataclasses.replace(check, who=(framework,)), results)
    ]


def _format_findings(findings: Sequence[ClaimFinding]) -> str:
    texts = dict.fromkeys(item.measured_text for item in findings)
    return "; ".join(texts)


def _search_code(detail: ImplementationDetail, framework: str) -> DetailAnswer:
    """Look for a component in the framework's files."""
    place = detail.code[framework]
    folder = _find_package(IMPORT_NAMES[framework])
    if folder is None:
        return DetailAnswer(UNKNOWN, "it is not installed")
    if place is None:
        pattern = detail.words[framework]
        file = _find_pattern(folder, pattern)
        if file is None:
            return DetailAnswer(ABSENT, f"no file of its package has `{pattern}`")
        return DetailAnswer(UNKNOWN, f"{file} has `{pattern}`, which the checklist does not know")
    file_name, text = place
    path = folder.parent / file_name
    content = path.read_text("utf-8") if path.is_file() else ""
    if text not in content:
        return DetailAnswer(UNKNOWN, f"{file_name} of the installed version has no `{text}`")
    line = content[: content.index(text)].count("\n") + 1
    # CleanRL's details are in its scripts, which run unchanged.
    status = DEFAULT if framework == "cleanrl" or detail.is_given else COMPONENT
    return DetailAnswer(status, f"{file_name}:{line}")


def _find_package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def _find_pattern(folder: Path, pattern: str) -> str | None:
    """Return the first file below a folder that a pattern matches."""
    for path in sorted(folder.rglob("*.py")):
        if re.search(pattern, path.read_text("utf-8", errors="replace")):
            return path.relative_to(folder.parent).as_posix()
    return None


def judge_details(
    report: ProbeReport, details: Sequence[ImplementationDetail]
) -> dict[int, dict[str, DetailAnswer]]:
    """Return the answers to all details, by number and framework."""
    results = {result.probe: result for result in report.results}
    return {
        detail.number: {name: judge_detail(detail, name, results) for name in IMPORT_NAMES}
        for detail in details
    }


def render_details_page(report: ProbeReport, details: Sequence[ImplementationDetail]) -> str:
    """Render the checklist as a Markdown page: a table of answers, then the evidence."""
    answers = judge_details(report, details)
    checked = count_checked(answers)
    heads = [FRAMEWORK_LABELS[name] for name in IMPORT_NAMES]
    lines = [_INTRODUCTION, "", "## Answers", ""]
    lines += [f"| | detail | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    part = ""
    for detail in details:
        if detail.part != part:
            part = detail.part
            lines.append(f"| | **{part}** |" + " |" * len(heads))
        cells = [answers[detail.number][name].status for name in IMPORT_NAMES]
        lines.append(f"| {detail.number} | {detail.text} | {' | '.join(cells)} |")
    counts = [f"{checked[name]} of {len(details)}" for name in IMPORT_NAMES]
    lines.append(f"| | **checked** | {' | '.join(counts)} |")
    lines += ["", "## Evidence", ""]
    for detail in details:
        lines += [f"**{detail.number}. {detail.text}**", ""]
        lines += [
            f"- {FRAMEWORK_LABELS[name]}: {answer.status}" + f" ({answer.evidence})"
            for name, answer in answers[detail.number].items()
        ]
        lines.append("")
    versions = "; ".join(f"{n}: {', '.join(report.versions[n])}" for n in sorted(report.versions))
    return "\n".join([*lines, f"Measured with {versions}.", ""])


_INTRODUCTION = """# The 37 implementation details of PPO

Huang et al. (2022, *The 37 Implementation Details of Proximal Policy Optimization*) list what a
reproduction of PPO needs besides the paper's formulas. Here each detail is answered for six
frameworks, by [probes](../explanation/probes.md) that measure one update, or by the file that holds
the component. No answer is written by hand:

    parallax probe --algorithms ppo --details docs/reference/ppo-details.md

*By default*: users get it without asking. *As an option*: it has to be switched on. *As a
component*: the framework ships it, and users put it together with PPO. *Left to users*: the
framework has no part that decides it; what our recipe does stands in brackets. *Not checked*: the
reason stands below."""


def details_to_dict(
    report: ProbeReport, details: Sequence[ImplementationDetail]
) -> list[dict[str, Any]]:
    """Return the checklist and its answers as plain data."""
    answers = judge_details(report, details)
    return [
        {
            "number": detail.number,
            "part": detail.part,
            "detail": detail.text,
            "answers": {n: dataclasses.asdict(a) for n, a in answers[detail.number].items()},
        }
        for detail in details
    ]


def count_checked(answers: Mapping[int, Mapping[str, DetailAnswer]]) -> dict[str, int]:
    """Return the number of details that were answered, by framework."""
    return {
        name: sum(row[name].status not in (UNKNOWN, LEFT) for row in answers.values())
        for name in IMPORT_NAMES
    }
