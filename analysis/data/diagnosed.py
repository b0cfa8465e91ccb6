"""What the diagnosis found in runs while they trained, gathered over run folders."""

import collections
import dataclasses
from collections.abc import Sequence

from analysis.data.runs import Cell, Excluded, Loaded, Run
from harness.record.diagnosis import LEVELS, read_diagnosis
from harness.record.files import visible

TOLD = LEVELS[:2]
"""Levels that are told one by one; notes are counted."""

_UNASKED = "it was not asked for"


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one check found in the runs of one framework, algorithm and task.

    Attributes:
        level: `error` or `warning`.
        check: Its id.
        name: What it finds, in words.
        framework: Framework.
        algorithm: Algorithm.
        task: Task.
        runs: Runs it was found in.
        watched: Runs of these that have a diagnosis.
        first_step: The earliest environment step at which it was found.
        seen: What was seen then.
        remedies: What to do.
        cells: Settings of the runs it was found in.
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
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class Diagnosed:
    """All of them.

    Attributes:
        folders: Run folders looked at.
        watched: Those that have a diagnosis, also of runs that are not used.
        touched: Of these, runs with at least one finding, by level.
        unread: Why a diagnosis cannot be read, each reason with the number of runs.
        findings: Errors first, then by check, framework, algorithm and task.
        notes: How often which check left a note.
    """

    folders: int
    watched: int
    touched: dict[str, int]
    unread: tuple[tuple[str, int], ...]
    findings: tuple[Finding, ...]
    notes: tuple[tuple[str, int], ...]


def read_diagnosed(loaded: Loaded) -> Diagnosed:
    """Reads `diagnosis.json` of every run folder; what is damaged is counted with its reason."""
    groups: dict[tuple[str, ...], list[tuple[Cell, tuple[dict[str, object], ...]]]] = {}
    unread: collections.Counter[str] = collections.Counter()
    notes: collections.Counter[str] = collections.Counter()
    touched: collections.Counter[str] = collections.Counter()
    for item in loaded.folders:
        read = read_diagnosis(item.path)
        if read.reason:
            unread[read.reason] += read.reason != _UNASKED
            continue
        groups.setdefault(_setting(item), []).append((item.id.cell, read.findings))
        touched.update({str(finding["level"]) for finding in read.findings})
        notes.update(str(f["id"]) for f in read.findings if f["level"] not in TOLD)
    findings = [finding for setting, runs in groups.items() for finding in _findings(setting, runs)]
    return Diagnosed(
        folders=len(loaded.folders),
        watched=sum(map(len, groups.values())),
        touched={level: touched[level] for level in LEVELS},
        unread=tuple(sorted((visible(reason), n) for reason, n in unread.items() if n)),
        findings=tuple(sorted(findings, key=_order)),
        notes=tuple(sorted((visible(name), count) for name, count in notes.items())),
    )


def _order(finding: Finding) -> tuple[object, ...]:
    where = finding.framework, finding.algorithm, finding.task
    return (TOLD.index(finding.level), finding.check, *where)


def _setting(item: Run | Excluded) -> tuple[str, ...]:
    return item.id.framework, item.id.cell.algorithm, item.id.cell.env


def _findings(
    setting: tuple[str, ...], runs: Sequence[tuple[Cell, tuple[dict[str, object], ...]]]
) -> list[Finding]:
    """Of the runs of one framework, algorithm and task."""
    hits: dict[tuple[str, str], list[tuple[Cell, dict[str, object]]]] = {}
    for cell, found in runs:
        for finding in found:
            if finding["level"] in TOLD:
                key = str(finding["level"]), str(finding["id"])
                hits.setdefault(key, []).append((cell, finding))
    framework, algorithm, task = setting
    made = []
    for (level, check), members in hits.items():
        first = min((finding for _, finding in members), key=_first_step)
        made.append(
            Finding(
                level=level,
                check=visible(check),
                name=visible(str(first["name"])),
                framework=framework,
                algorithm=algorithm,
                task=task,
                runs=len(members),
                watched=len(runs),
                first_step=_first_step(first),
                seen=visible(str(first["seen"])),
                remedies=visible(str(first["remedies"])),
                cells=tuple(sorted({cell for cell, _ in members})),
            )
        )
    return made


def _first_step(finding: dict[str, object]) -> int:
    step = finding["first_step"]
    return step if isinstance(step, int) else 0
