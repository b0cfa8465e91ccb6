"""Findings of the training diagnosis, summarized over run folders."""

import collections
import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

from parallax.analysis.data.runs import LoadedRuns, StudyCell
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.reading import FINDING_LEVELS, NOT_REQUESTED, read_diagnosis

LISTED_LEVELS = FINDING_LEVELS[:2]
"""Levels whose findings are listed; notes are only counted."""


@dataclasses.dataclass(frozen=True)
class CheckSummary:
    """Findings of one check in the runs of one framework, algorithm and task.

    Attributes:
        level: `error` or `warning`.
        name: Name of the finding, in words.
        watched: Number of runs with a diagnosis.
        first_step: Earliest environment step of the finding.
        seen: Observation at that step.
    """

    level: str
    check: str
    name: str
    framework: str
    algorithm: str
    task: str
    runs: int
    watched: int
    first_step: int
    seen: str
    remedies: str
    cells: tuple[StudyCell, ...]


@dataclasses.dataclass(frozen=True)
class DiagnosisSummary:
    """Findings of all checks.

    Attributes:
        watched: Number of folders with a diagnosis, also of excluded runs.
        runs_with_findings: Number of these with at least one finding, by level.
        unread: Reasons why a diagnosis cannot be read, each with the number of runs.
        findings: Errors first, then by check, framework, algorithm and task.
    """

    folders: int
    watched: int
    runs_with_findings: dict[str, int]
    unread: tuple[tuple[str, int], ...]
    findings: tuple[CheckSummary, ...]
    notes: tuple[tuple[str, int], ...]


def read_diagnosis_summary(loaded: LoadedRuns) -> DiagnosisSummary:
    """Summarize `diagnosis.json` of every run folder; damaged files are counted by reason."""
    groups: dict[tuple[str, ...], list[tuple[StudyCell, tuple[dict[str, Any], ...]]]] = {}
    unread: collections.Counter[str] = collections.Counter()
    notes: collections.Counter[str] = collections.Counter()
    touched: collections.Counter[str] = collections.Counter()
    for item in loaded.folders:
        read = read_diagnosis(item.path)
        if read.reason:
            unread[read.reason] += read.reason != NOT_REQUESTED
            continue
        setting = item.id.framework, item.id.cell.algorithm, item.id.cell.env
        groups.setdefault(setting, []).append((item.id.cell, read.findings))
        touched.update({str(finding["level"]) for finding in read.findings})
        notes.update(str(f["id"]) for f in read.findings if f["level"] not in LISTED_LEVELS)
    findings = [
        finding for setting, runs in groups.items() for finding in _summarize_checks(setting, runs)
    ]
    return DiagnosisSummary(
        folders=len(loaded.folders),
        watched=sum(map(len, groups.values())),
        runs_with_findings={level: touched[level] for level in FINDING_LEVELS},
        unread=tuple(sorted((escape_unprintable(reason), n) for reason, n in unread.items() if n)),
        findings=tuple(sorted(findings, key=_get_sort_key)),
        notes=tuple(sorted((escape_unprintable(name), count) for name, count in notes.items())),
    )


def _get_sort_key(finding: CheckSummary) -> tuple[object, ...]:
    where = finding.framework, finding.algorithm, finding.task
    return (LISTED_LEVELS.index(finding.level), finding.check, *where)


def _summarize_checks(
    setting: tuple[str, ...], runs: Sequence[tuple[StudyCell, tuple[dict[str, Any], ...]]]
) -> list[CheckSummary]:
    """Summarize the runs of one framework, algorithm and task by check."""
    hits: dict[tuple[str, str], list[tuple[StudyCell, dict[str, Any]]]] = {}
    for cell, found in runs:
        for finding in found:
            if finding["level"] in LISTED_LEVELS:
                key = str(finding["level"]), str(finding["id"])
                hits.setdefault(key, []).append((cell, finding))
    framework, algorithm, task = setting
    made = []
    for (level, check), members in hits.items():
        first = min((finding for _, finding in members), key=operator.itemgetter("first_step"))
        made.append(
            CheckSummary(
                level=level,
                check=escape_unprintable(check),
                name=escape_unprintable(str(first["name"])),
                framework=framework,
                algorithm=algorithm,
                task=task,
                runs=len(members),
                watched=len(runs),
                first_step=first["first_step"],
                seen=escape_unprintable(str(first["seen"])),
                remedies=escape_unprintable(str(first["remedies"])),
                cells=tuple(sorted({cell for cell, _ in members})),
            )
        )
    return made
