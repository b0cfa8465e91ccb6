"""Checklists of implementation details (`*_details.yaml`), answered by probes and by code.

Every detail has an answer per framework. If a probe measures it, the answer is computed from
measured numbers; if it is a component such as a wrapper, the framework's own file is searched
for it. No answer is written by hand.
"""

import collections
import dataclasses
import functools
import html
import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.claims.claims import (
    CLAIMS_FILE,
    TEXTS,
    ClaimCheck,
    ClaimFinding,
    evaluate_check,
    make_check,
)
from parallax.harness.probes.results import RECIPE, ProbeReport, ProbeResult
from parallax.harness.record.labels import FRAMEWORK_LABELS

DETAILS_FILES = tuple(
    CLAIMS_FILE.with_name(f"{name}_details.yaml") for name in ("ppo", "td3", "sac", "dqn")
)
DEFAULT, OPTION, COMPONENT = "by default", "as an option", "as a component"
ABSENT, LEFT, UNKNOWN = "no", "left to users", "not checked"
IMPORT_NAMES = {
    "sb3": "stable_baselines3",
    **{name: name for name in ("cleanrl", "torchrl", "tianshou", "skrl", "sbx")},
}
MEASURED, READ = "by running code", "by its files"


@dataclasses.dataclass(frozen=True)
class DetailAnswer:
    """Answer for one framework.

    Attributes:
        status: One of the constants above.
        evidence: Measured answer, or file and line.
        is_measured: Whether a probe gave the answer.
    """

    status: str
    evidence: str
    is_measured: bool = False


@dataclasses.dataclass(frozen=True)
class ImplementationDetail:
    """One detail and how it is checked.

    Attributes:
        number: Position in the list, from 1.
        part: Heading of its section.
        text: The detail in our own words.
        default: Groups of checks; users get the detail by default if all of one group hold.
        option: Checks that all hold if it can be switched on.
        code: File, text and the status that it shows by framework, or None without a component.
        words: Pattern by framework that no file of the package matches if it has no component.
        otherwise: Answer for frameworks that neither probes nor `code` answer.
        notes: Remarks for readers, by framework.
    """

    number: int
    part: str
    text: str
    default: tuple[tuple[ClaimCheck, ...], ...] = ()
    option: tuple[ClaimCheck, ...] = ()
    code: Mapping[str, tuple[str, str, str] | None] = dataclasses.field(default_factory=dict)
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    otherwise: DetailAnswer = DetailAnswer(LEFT, "")
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def list_probes(self) -> list[str]:
        """Return the names of its probes."""
        checks = (check for group in (*self.default, self.option) for check in group)
        return list(dict.fromkeys(check.probe for check in checks))


@dataclasses.dataclass(frozen=True)
class Checklist:
    """Details of a family of algorithms, and the texts of their page.

    Attributes:
        introduction: Title, where the details are from, and the command that answers them.
        algorithms: Names of the algorithms whose probes answer them.
        details: The details.
        causes: Causes of different results that others found, checked like details.
        text_of_causes: Where the causes are from; the beginning of their section.
    """

    introduction: str
    algorithms: tuple[str, ...]
    details: tuple[ImplementationDetail, ...]
    causes: tuple[ImplementationDetail, ...] = ()
    text_of_causes: str = ""


def load_checklist(algorithms: Sequence[str] = ()) -> Checklist:
    """Load the checklist of the first of some algorithms; without one, the first checklist.

    Raises:
        SpecError: There is none, or an entry has an invalid check.
    """
    names: list[str] = []
    for path in DETAILS_FILES:
        content = _read_checklist_file(path)
        names += content["algorithms"]
        if not algorithms or algorithms[0] in content["algorithms"]:
            return Checklist(
                content["introduction"],
                tuple(content["algorithms"]),
                _load_details(content["details"]),
                _load_details(content.get("causes", {})),
                content.get("text_of_causes", ""),
            )
    raise SpecError(f"--details: {algorithms[0]} has no checklist; use one of {', '.join(names)}.")


@functools.cache  # a command needs its checklist to choose probes, and again to write the page
def _read_checklist_file(path: Path) -> Mapping[str, Any]:
    content: Mapping[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return content


def _load_details(
    parts: Mapping[str, Sequence[Mapping[str, Any]]],
) -> tuple[ImplementationDetail, ...]:
    pairs = [(part, entry) for part, entries in parts.items() for entry in entries]
    return tuple(
        _detail_from_dict(number, part, entry) for number, (part, entry) in enumerate(pairs, 1)
    )


def _detail_from_dict(number: int, part: str, entry: Mapping[str, Any]) -> ImplementationDetail:
    groups = [entry[key] for key in ("default", "or_default") if key in entry]
    # CleanRL's details are in its scripts, which run unchanged.
    given = entry.get("given", ["cleanrl"])
    places = [
        (name, place, status)
        for key, status in (("contrary", ABSENT), ("settable", OPTION), ("users", LEFT))
        for name, place in entry.get(key, {}).items()
    ]
    places += [
        (name, place, DEFAULT if given is True or name in given else COMPONENT)
        for name, place in entry.get("code", {}).items()
    ]
    general = {name: entry["word"] for name in IMPORT_NAMES if "word" in entry}
    return ImplementationDetail(
        number,
        part,
        entry["detail"],
        default=tuple(_make_checks(group, entry["detail"]) for group in groups),
        option=_make_checks(entry.get("option", ()), entry["detail"]),
        code={name: _split_place(place, status) for name, place, status in places},
        words={**general, **entry.get("words", {})},
        otherwise=DetailAnswer(UNKNOWN, entry["unchecked"])
        if "unchecked" in entry
        else DetailAnswer(LEFT, entry.get("reason", "")),
        notes=entry.get("notes", {}),
    )


def _make_checks(entries: Sequence[Mapping[str, Any]], text: str) -> tuple[ClaimCheck, ...]:
    return tuple(make_check({"who": [], **entry}, text) for entry in entries)


def _split_place(place: str | None, status: str) -> tuple[str, str, str] | None:
    if place is None:
        return None
    file, _, text = place.partition(" | ")
    return file.strip(), text.strip(), status


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
        answer = detail.otherwise
    note = detail.notes.get(framework)
    return dataclasses.replace(answer, evidence=f"{answer.evidence}; {note}") if note else answer


def _judge_by_probes(
    detail: ImplementationDetail, framework: str, results: Mapping[str, ProbeResult]
) -> DetailAnswer:
    found = [_evaluate_checks(group, framework, results) for group in detail.default]
    option = _evaluate_checks(detail.option, framework, results)
    for status, findings in [*((DEFAULT, group) for group in found), (OPTION, option)]:
        if findings and all(item.holds and item.source != RECIPE for item in findings):
            return DetailAnswer(status, _format_findings(findings), is_measured=True)
    if any(item.source == RECIPE for item in found[0]):
        # This project's recipe replaces code that the framework's users write themselves.
        return DetailAnswer(LEFT, _format_findings(found[0]))
    failed = [item for item in found[0] if not item.holds]
    text, switched_on = _format_findings(failed), _format_findings(option)
    if switched_on not in text:
        text += f"; as an option: {switched_on}"
    if any(item.holds is False for item in failed) or "it is fixed at" in text:
        return DetailAnswer(ABSENT, text, is_measured=True)
    undeclared = all(check.probe.endswith(".default_settings") for check in detail.default[0])
    return DetailAnswer(LEFT if undeclared else UNKNOWN, text)


def _evaluate_checks(
    checks: Sequence[ClaimCheck], framework: str, results: Mapping[str, ProbeResult]
) -> list[ClaimFinding]:
    return [
        finding
        for check in checks
        for finding in evaluate_check(dataclasses.replace(check, who=(framework,)), results)
    ]


def _format_findings(findings: Sequence[ClaimFinding]) -> str:
    return "; ".join(dict.fromkeys(item.measured_text for item in findings))


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
    file_name, text, status = place
    path = folder.parent / file_name
    content = path.read_text("utf-8") if path.is_file() else ""
    if text not in content:
        return DetailAnswer(UNKNOWN, f"{file_name} of the installed version has no `{text}`")
    line = content[: content.index(text)].count("\n") + 1
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


def render_details_page(report: ProbeReport, checklist: Checklist) -> str:
    """Render a checklist as a Markdown page: a table of answers, causes, then the evidence."""
    lines = [checklist.introduction, TEXTS["details"]]
    answers = judge_details(report, checklist.details)
    lines += ["## Answers", "", *_format_table(checklist.details, answers)]
    lines += [
        f"| | **{label}** | {' | '.join(str(counts[name]) for name in IMPORT_NAMES)} |"
        for label, counts in count_answers(answers).items()
    ]
    evidence = ["", "## Evidence", "", *_format_evidence(checklist.details, answers)]
    if checklist.causes:
        answers = judge_details(report, checklist.causes)
        lines += ["", checklist.text_of_causes, *_format_table(checklist.causes, answers), ""]
        lines += _format_evidence(checklist.causes, answers)[:-1]
    versions = "; ".join(f"{n}: {', '.join(report.versions[n])}" for n in sorted(report.versions))
    # Only these texts on the page may come from untrusted stored answers.
    safe = html.escape(versions, quote=False).replace("[", "\\[").replace("://", ":/\\/")
    return "\n".join([*lines, *evidence, f"Measured with {safe}.", ""])


def _format_table(
    details: Sequence[ImplementationDetail], answers: Mapping[int, Mapping[str, DetailAnswer]]
) -> list[str]:
    heads = [FRAMEWORK_LABELS[name] for name in IMPORT_NAMES]
    lines = [f"| | detail | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    part = ""
    for detail in details:
        if detail.part != part:
            part = detail.part
            lines.append(f"| | **{part}** |" + " |" * len(heads))
        cells = [answers[detail.number][name].status for name in IMPORT_NAMES]
        lines.append(f"| {detail.number} | {detail.text} | {' | '.join(cells)} |")
    return lines


def _format_evidence(
    details: Sequence[ImplementationDetail], answers: Mapping[int, Mapping[str, DetailAnswer]]
) -> list[str]:
    lines: list[str] = []
    for detail in details:
        probes = ", ".join(f"`{name}`" for name in detail.list_probes())
        lines += [f"**{detail.number}. {detail.text}**" + f" ({probes})" * bool(probes), ""]
        lines += [
            f"- {FRAMEWORK_LABELS[name]}: {answer.status}" + f" ({answer.evidence})"
            for name, answer in answers[detail.number].items()
        ]
        lines.append("")
    return lines


def details_to_dict(report: ProbeReport, checklist: Checklist) -> list[dict[str, Any]]:
    """Return a checklist and its answers as plain data, causes after the details."""
    return [
        {
            "number": detail.number,
            "part": detail.part,
            "detail": detail.text,
            "probes": detail.list_probes(),
            "answers": {n: dataclasses.asdict(a) for n, a in answers[detail.number].items()},
        }
        for details in (checklist.details, checklist.causes)
        for answers in (judge_details(report, details),)
        for detail in details
    ]


def count_answers(
    answers: Mapping[int, Mapping[str, DetailAnswer]],
) -> dict[str, collections.Counter[str]]:
    """Return the number of answers by how they were found, then by framework."""
    counts: dict[str, collections.Counter[str]] = {
        label: collections.Counter() for label in (MEASURED, READ, LEFT, UNKNOWN)
    }
    for row in answers.values():
        for name, answer in row.items():
            is_open = answer.status in (LEFT, UNKNOWN)
            label = answer.status if is_open else MEASURED if answer.is_measured else READ
            counts[label][name] += 1
    return counts
