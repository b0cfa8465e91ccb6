"""Summary of all verdicts on mutants, from files and run folders, as tables and a figure."""

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

from parallax.harness.contract.data_files import load_json_lines
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.detection.detectors import (
    CONFORMANCE,
    DIAGNOSIS,
    PROBES,
    SEED_COUNTS,
    DetectorVerdict,
    ExaminedMutant,
    SettingRuns,
    TrainingSetting,
    count_false_positives,
    judge_findings,
    judge_probes,
    judge_returns,
    name_returns_detector,
)
from parallax.harness.probes.figures import COLORS, SIZE, STYLE

DETECTORS = (PROBES, CONFORMANCE, DIAGNOSIS, *map(name_returns_detector, SEED_COUNTS))
"""Detectors in the order of the tables."""
_TRAINING_OUTCOMES = ("found", "missed")
_MUTANTS = "mutants. benchmarks/mutants.py writes them"


def read_probe_verdicts(path: Path) -> list[DetectorVerdict]:
    """Read the probes' verdicts on mutants that train, as `benchmarks/mutants.py` writes them.

    Raises:
        SpecError: The file holds something else.
    """
    return [
        judge_probes(line)
        for line in load_json_lines(path, ExaminedMutant, _MUTANTS)
        if line.outcome in _TRAINING_OUTCOMES
    ]


def read_verdicts(path: Path) -> list[DetectorVerdict]:
    """Read verdicts that `append_verdict` wrote; none if the file does not exist.

    Raises:
        SpecError: The file holds something else.
    """
    return load_json_lines(path, DetectorVerdict, "verdicts. benchmarks/detection.py writes them")


def append_verdict(path: Path, verdict: DetectorVerdict) -> None:
    """Append a verdict as one line, so that an interrupted file has whole lines."""
    with path.open("a") as file:
        file.write(json.dumps(dataclasses.asdict(verdict)) + "\n")


def judge_trainings(
    found: Mapping[TrainingSetting, SettingRuns], seconds: float = math.nan
) -> list[DetectorVerdict]:
    """Return verdicts of diagnosis and returns on mutants with runs of the unchanged code.

    Args:
        found: Complete runs by setting.
        seconds: CPU seconds of one training.
    """
    verdicts = []
    for (framework, algorithm, name), mutated in found.items():
        plain = found.get((framework, algorithm, NO_INTERVENTION))
        if plain is None or name == NO_INTERVENTION:
            continue
        mutant = f"{framework}/{algorithm}/{name.rpartition('-')[2]}"
        watched = [dict(sorted(of.findings.items())).values() for of in (mutated, plain)]
        own_verdicts = [judge_findings(mutant, *(list(of) for of in watched))]
        own_verdicts += [
            judge_returns(mutant, mutated.returns, plain.returns, n) for n in SEED_COUNTS
        ]
        verdicts += [
            dataclasses.replace(verdict, seconds=seconds * verdict.trainings)
            for verdict in own_verdicts
            if verdict is not None
        ]
    return verdicts


def describe_false_positives(found: Mapping[TrainingSetting, SettingRuns]) -> str:
    """Return a sentence on healthy trainings with findings; empty if none were diagnosed."""
    rows = []
    for (framework, algorithm, name), plain in found.items():
        if name == NO_INTERVENTION and len(plain.findings) > 1:
            wrong, n = count_false_positives(list(plain.findings.values())), len(plain.findings)
            rows.append(f"{wrong} of {n} of {framework}'s {algorithm}")
    if not rows:
        return ""
    return f"Healthy trainings with a false finding of the diagnosis: {'; '.join(rows)}."


def find_common_mutants(verdicts: Iterable[DetectorVerdict]) -> list[str]:
    """Return the mutants on which other detectors than the probes have a verdict."""
    by: dict[str, set[str]] = {}
    for verdict in verdicts:
        by.setdefault(verdict.mutant, set()).add(verdict.detector)
    return sorted(mutant for mutant, detectors in by.items() if detectors - {PROBES})


def format_detector_table(verdicts: Sequence[DetectorVerdict]) -> str:
    """Return a Markdown table: per detector the mutants tested and found, and the cost."""
    rows = [
        "| detector | mutants | found | trainings per mutant | median CPU seconds per mutant |",
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
    """Return a Markdown table: per mutant what found it, and after how many steps."""
    verdicts_by_detector = {(verdict.mutant, verdict.detector): verdict for verdict in verdicts}
    rows = [f"| mutant | {' | '.join(DETECTORS)} |", "|---" * (len(DETECTORS) + 1) + "|"]
    for mutant in mutants:
        cells = [_format_cell(verdicts_by_detector.get((mutant, name))) for name in DETECTORS]
        rows.append(f"| `{mutant}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _format_cell(verdict: DetectorVerdict | None) -> str:
    if verdict is None:
        return "not tested"
    if not verdict.found:
        return "-"
    return f"{verdict.by}, step {verdict.step}" if verdict.step else verdict.by


def _format_median(seconds: Sequence[float]) -> str:
    known = sorted(value for value in seconds if not math.isnan(value))
    return f"{known[len(known) // 2]:.1f}" if known else "as the trainings"


CONFIDENCE_LEVEL = 0.95


def draw_detector_figure(verdicts: Sequence[DetectorVerdict]) -> str:
    """Return an SVG with a row per detector, over mutants that several detectors were tested on."""
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
        ax.set_xlabel("share of mutants found, 95% interval by Wilson")
        text = io.StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
