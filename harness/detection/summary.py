"""Every verdict on every fault: those that are kept, and those that run folders tell."""

import dataclasses
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from scipy import stats

from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.detection.detectors import (
    CONFORMANCE,
    DIAGNOSIS,
    PROBES,
    SEED_COUNTS,
    DetectorVerdict,
    SettingRuns,
    TrainingSetting,
    count_false_positives,
    judge_findings,
    judge_probes,
    judge_returns,
    name_returns_detector,
    read_json_lines,
)
from parallax.harness.probes.figures import COLORS, SIZE, STYLE

DETECTORS = (PROBES, CONFORMANCE, DIAGNOSIS, *map(name_returns_detector, SEED_COUNTS))
"""In the order of tables."""
_TRAINING_OUTCOMES = ("found", "missed")


def read_probe_verdicts(path: Path) -> list[DetectorVerdict]:
    """Verdicts of the probes on mutants that train, as `benchmarks/mutants.py` writes them."""
    return [
        judge_probes(line)
        for line in read_json_lines(path)
        if line["outcome"] in _TRAINING_OUTCOMES
    ]


def read_verdicts(path: Path) -> list[DetectorVerdict]:
    """Verdicts that were written by `add`."""
    return [DetectorVerdict(**line) for line in read_json_lines(path)]


def append_verdict(path: Path, verdict: DetectorVerdict) -> None:
    """Keeps a verdict; a file that is interrupted holds whole lines."""
    with path.open("a") as file:
        file.write(json.dumps(dataclasses.asdict(verdict)) + "\n")


def judge_trainings(
    found: Mapping[TrainingSetting, SettingRuns], seconds: float = math.nan
) -> list[DetectorVerdict]:
    """What diagnosis and returns say of every mutant that has runs without it beside it.

    Args:
        found: Complete runs.
        seconds: Of processor time that one training takes.
    """
    verdicts = []
    for (framework, algorithm, name), with_fault in found.items():
        plain = found.get((framework, algorithm, NO_INTERVENTION))
        if plain is None or name == NO_INTERVENTION:
            continue
        mutant = f"{framework}/{algorithm}/{name.rpartition('-')[2]}"
        watched = [dict(sorted(of.findings.items())).values() for of in (with_fault, plain)]
        said = [judge_findings(mutant, *(list(of) for of in watched))]
        said += [judge_returns(mutant, with_fault.returns, plain.returns, n) for n in SEED_COUNTS]
        verdicts += [
            dataclasses.replace(verdict, seconds=seconds * verdict.trainings)
            for verdict in said
            if verdict is not None
        ]
    return verdicts


def describe_false_positives(found: Mapping[TrainingSetting, SettingRuns]) -> str:
    """What the diagnosis says of trainings without a fault; empty where none were watched."""
    rows = []
    for (framework, algorithm, name), plain in found.items():
        if name == NO_INTERVENTION and len(plain.findings) > 1:
            wrong, n = count_false_positives(list(plain.findings.values())), len(plain.findings)
            rows.append(f"{wrong} of {n} of {framework}'s {algorithm}")
    if not rows:
        return ""
    return f"Trainings without a fault that the diagnosis would take for faulty: {'; '.join(rows)}."


def find_common_mutants(verdicts: Iterable[DetectorVerdict]) -> list[str]:
    """Mutants on which more than the probes have a verdict."""
    by: dict[str, set[str]] = {}
    for verdict in verdicts:
        by.setdefault(verdict.mutant, set()).add(verdict.detector)
    return sorted(mutant for mutant, detectors in by.items() if detectors - {PROBES})


def format_detector_table(verdicts: Sequence[DetectorVerdict]) -> str:
    """For each detector how many faults it was asked about and found, and at what cost."""
    rows = [
        "| detector | asked about | found | trainings for one | CPU seconds for one, median |",
        "|---|---|---|---|---|",
    ]
    for name in DETECTORS:
        own = [verdict for verdict in verdicts if verdict.detector == name]
        if own:
            found = sum(verdict.found for verdict in own)
            rows.append(
                f"| {name} | {len(own)} | {found} ({found / len(own):.0%}) | "
                f"{max(v.trainings for v in own)} | {_format_median([v.seconds for v in own])} |"
            )
    return "\n".join(rows)


def format_mutant_table(verdicts: Sequence[DetectorVerdict], mutants: Sequence[str]) -> str:
    """For each mutant what each detector said: by what it was found, and after which step."""
    said = {(verdict.mutant, verdict.detector): verdict for verdict in verdicts}
    rows = [f"| mutant | {' | '.join(DETECTORS)} |", "|---" * (len(DETECTORS) + 1) + "|"]
    for mutant in mutants:
        cells = [_format_cell(said.get((mutant, name))) for name in DETECTORS]
        rows.append(f"| `{mutant}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _format_cell(verdict: DetectorVerdict | None) -> str:
    if verdict is None:
        return "not asked"
    if not verdict.found:
        return "-"
    return f"{verdict.by}, step {verdict.step}" if verdict.step else verdict.by


def _format_median(seconds: Sequence[float]) -> str:
    known = sorted(value for value in seconds if not math.isnan(value))
    return f"{known[len(known) // 2]:.1f}" if known else "those of the trainings"


CONFIDENCE_LEVEL = 0.95


def draw_detector_figure(verdicts: Sequence[DetectorVerdict]) -> str:
    """A row per detector, over the faults that were put to more than the probes, if any were."""
    chosen = set(find_common_mutants(verdicts)) or {verdict.mutant for verdict in verdicts}
    settings: Any = STYLE
    with mpl.rc_context(settings):
        drawn = Figure(figsize=SIZE, layout="constrained")
        ax = drawn.subplots()
        labels: list[str] = []
        for name in DETECTORS:
            own = [v for v in verdicts if v.detector == name and v.mutant in chosen]
            if not own:
                continue
            found, place = sum(v.found for v in own), len(labels)
            range_ = stats.binomtest(found, len(own)).proportion_ci(CONFIDENCE_LEVEL, "wilson")
            ax.plot([range_.low, range_.high], [place, place], color=COLORS[0])
            ax.plot(found / len(own), place, "o", color=COLORS[0])
            labels.append(f"{name} ({found} of {len(own)})")
        ax.set_yticks(range(len(labels)), labels)
        ax.invert_yaxis()
        ax.set_xlim(-0.03, 1.03)
        ax.set_xlabel("share of faults found, 95% interval by Wilson")
        text = io.StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
