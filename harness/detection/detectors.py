"""Verdicts of detectors (probes, conformance, diagnosis, returns) on injected bugs."""

import collections
import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import matplotlib as mpl
import msgspec
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from parallax.harness.conformance.update_counts import UpdateCountConformance
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.data_files import load_json_lines
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.contract.upstream_code import silence_output
from parallax.harness.interventions.mutants import CodeMutant, is_mutant_name
from parallax.harness.interventions.source import SourceReplacement
from parallax.harness.probes.figures import COLORS, SIZE, STYLE, figure_to_svg
from parallax.harness.record.layout import find_runs
from parallax.harness.record.lock import Count
from parallax.harness.record.reading import read_diagnosis, read_run
from parallax.harness.record.run_json import RecordedSpec, describe_differing_versions

PROBES, CONFORMANCE, DIAGNOSIS, RETURNS = "probes", "conformance", "diagnosis", "returns"
SEED_COUNTS = (5, 10)
"""Pairs of seeds at which returns are tested."""
SIGNIFICANCE_LEVEL = 0.05
_MAX_SECONDS = 1e10


@dataclasses.dataclass(frozen=True)
class DetectorVerdict:
    """Verdict of one detector on one mutant.

    Attributes:
        detector: `PROBES`, `CONFORMANCE`, `DIAGNOSIS`, or returns with the number of pairs.
        found: Whether the detector finds it.
        by: Name of the probe, check or test that finds it; otherwise empty.
        step: Environment steps of one training until it is found; 0 if nothing is trained.
        seconds: CPU seconds; NaN if not measured.
        trainings: Number of trainings with the mutant that the detector needs.
    """

    mutant: str
    detector: Annotated[
        str, msgspec.Meta(pattern=r"^(probes|conformance|diagnosis|returns, n=\d+)\Z")
    ]
    found: bool
    by: str
    step: Count
    seconds: float
    trainings: Count = 0

    def __post_init__(self) -> None:
        """Refuse impossible costs, whose median would be printed."""
        _check_verdict(self.found, self.by, self.seconds)


def _check_verdict(found: bool, by: str, seconds: float) -> None:
    if found and not by:
        raise ValueError("a bug that is found needs `by`, the name of what finds it")
    if not (0 <= seconds <= _MAX_SECONDS or math.isnan(seconds)):
        raise ValueError(f"seconds={seconds} must be from 0 to {_MAX_SECONDS:g}, or NaN")


@dataclasses.dataclass(frozen=True)
class ExaminedMutant:
    """Line of a file that `benchmarks/mutants.py` wrote.

    Attributes:
        mutant: Full name, `framework/algorithm/number`.
        outcome: `found` or `missed` by the probes, `equivalent`, or a note that it does not train.
        by: Name of the probe that finds it.
        seconds: CPU seconds.
    """

    mutant: str
    outcome: Literal["found", "missed", "equivalent", "breaks"]
    by: str
    seconds: float

    def __post_init__(self) -> None:
        """Refuse what the verdict of the probes cannot be."""
        _check_verdict(self.outcome == "found", self.by, self.seconds)


def judge_probes(line: ExaminedMutant) -> DetectorVerdict:
    """Return the verdict of the probes that a line contains."""
    found = line.outcome == "found"
    return DetectorVerdict(line.mutant, PROBES, found, line.by if found else "", 0, line.seconds)


def judge_returns(
    mutant: str, changed: Mapping[int, float], plain: Mapping[int, float], count: int
) -> DetectorVerdict | None:
    """Return the verdict of a paired test on final returns of the `count` lowest seeds, or None."""
    seeds = sorted(changed.keys() & plain.keys())[:count]
    if len(seeds) < count:
        return None
    p = compute_paired_p(*np.array([[changed[seed], plain[seed]] for seed in seeds]).T)
    by = f"p={p:.2g}" if p < SIGNIFICANCE_LEVEL else ""
    return DetectorVerdict(
        mutant, name_returns_detector(count), bool(by), by, 0, float("nan"), count
    )


def name_returns_detector(count: int) -> str:
    """Return the name of the test on returns with `count` pairs."""
    return f"{RETURNS}, n={count}"


def compute_paired_p(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return Student's paired p-value, two-sided; 1 for equal samples, 0 for a constant shift."""
    apart = one - other
    if np.ptp(apart) == 0:
        return float(apart[0] == 0)
    return float(stats.ttest_rel(one, other).pvalue)


def judge_findings(
    mutant: str,
    changed: Sequence[Iterable[Mapping[str, Any]]],
    plain: Sequence[Iterable[Mapping[str, Any]]],
) -> DetectorVerdict | None:
    """Return the verdict of the diagnosis; findings that healthy trainings have do not count."""
    if not changed or not plain:
        return None
    healthy = {finding["id"] for findings in plain for finding in findings}
    new = [one for one in changed[0] if one["id"] not in healthy]
    if not new:
        return DetectorVerdict(mutant, DIAGNOSIS, False, "", 0, float("nan"), 1)
    first = min(new, key=lambda one: one["first_step"])
    return DetectorVerdict(
        mutant, DIAGNOSIS, True, first["name"], first["first_step"], float("nan"), 1
    )


def count_false_positives(plain: Sequence[Iterable[Mapping[str, Any]]]) -> int:
    """Return the number of healthy trainings with a finding that no other one has."""
    ids = [{finding["id"] for finding in findings} for findings in plain]
    rest = [set[str]().union(*ids[:n], *ids[n + 1 :]) for n in range(len(ids))]
    return sum(bool(own - others) for own, others in zip(ids, rest, strict=True))


CONFORMANCE_CHECKS = (
    "test_updates_are_as_many_as_announced",
    "test_steps_taken_are_the_steps_reported",
    "test_what_is_announced_is_what_the_schema_defines",
)
"""Checks that train and count; the others test hyperparameters and how runs end."""


def judge_conformance(mutant: CodeMutant) -> DetectorVerdict:
    """Apply a mutant here, run conformance checks until one fails, and restore the code."""
    started, by = time.process_time(), ""
    load_adapter(mutant.framework)
    with SourceReplacement([mutant.piece]).apply_replacement(), silence_output():
        by = next((name for name in CONFORMANCE_CHECKS if _fails_check(mutant, name)), "")
    return DetectorVerdict(
        mutant.qualified_name, CONFORMANCE, bool(by), by, 0, time.process_time() - started
    )


def _fails_check(mutant: CodeMutant, name: str) -> bool:
    suite = UpdateCountConformance()
    suite.framework = mutant.framework
    check: Callable[[str], None] = getattr(suite, name)
    try:
        check(mutant.algorithm)
    except Exception:
        return True
    return False


TrainingSetting = tuple[str, str, str]
"""Framework, algorithm and intervention."""
_FREE_FIELDS = {"intervention": "", "seed": 0, "study": "", "python": None, "checkpoint_every": 0.0}
"""Fields of a specification in which compared runs may differ."""


@dataclasses.dataclass(frozen=True)
class SettingRuns:
    """Results of complete runs of one setting."""

    returns: dict[int, float]
    findings: dict[int, tuple[Mapping[str, Any], ...]]


def read_setting_runs(
    root: Path,
) -> tuple[dict[TrainingSetting, SettingRuns], collections.Counter[str], str]:
    """Read all complete runs below a folder that have a mutant or no intervention.

    Returns:
        The runs by setting, the number of other folders by the reason, and a sentence on packages
        of which runs have several versions.

    Raises:
        SpecError: There is none, or those of an algorithm differ in more than mutant and seed.
    """
    found: dict[TrainingSetting, SettingRuns] = {}
    firsts: dict[tuple[str, str], tuple[Path, RecordedSpec]] = {}
    unused: collections.Counter[str] = collections.Counter()
    provenances = []
    for folder in find_runs(root).runs:
        reading = read_run(folder, with_evaluations=True)
        if reading.record is None or reading.evaluations is None or reading.record.imported:
            unused[reading.reason or "imported from another tool"] += 1
            continue
        spec, seed = reading.record.spec, reading.record.spec.seed or 0
        name = spec.intervention
        if name != NO_INTERVENTION and not is_mutant_name(name):
            unused[f"intervention={name} is not a mutant"] += 1
            continue
        same = msgspec.structs.replace(spec, **_FREE_FIELDS)
        first, other = firsts.setdefault((spec.framework, spec.algorithm), (folder, same))
        runs = found.setdefault((spec.framework, spec.algorithm, name), SettingRuns({}, {}))
        if other != same or seed in runs.returns:
            raise SpecError(
                f"{first} and {folder} differ in more than mutant and seed, or repeat a run: name "
                "a folder that has runs of one task, recipe and setting, each once."
            )
        provenances.append(reading.record.provenance)
        runs.returns[seed] = float(reading.evaluations.results[-1].mean())
        diagnosis = read_diagnosis(folder)
        if not diagnosis.reason:
            runs.findings[seed] = diagnosis.findings
    if not found:
        raise SpecError(f"{root}: no complete run with a mutant or without an intervention.")
    return found, unused, describe_differing_versions(provenances)


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
    what = "verdicts. `mutation detectors` writes them"
    found = load_json_lines(path, DetectorVerdict, what)
    for verdict in found:
        if verdict.detector != CONFORMANCE:
            raise SpecError(
                f"{path}: {verdict.mutant}: detector={verdict.detector} must be {CONFORMANCE}: the "
                "others are measured. Remove the line."
            )
    return found


def append_verdict(path: Path, verdict: DetectorVerdict) -> None:
    """Append a verdict as one line, so that an interrupted file has only whole lines."""
    with path.open("a") as file:
        file.write(json.dumps(dataclasses.asdict(verdict)) + "\n")


def judge_trainings(
    found: Mapping[TrainingSetting, SettingRuns], seconds: float = math.nan
) -> list[DetectorVerdict]:
    """Return verdicts of diagnosis and returns on mutants that have runs of the unchanged code.

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
        findings, healthy = (
            [runs.findings[seed] for seed in sorted(runs.findings)] for runs in (mutated, plain)
        )
        own_verdicts = [judge_findings(mutant, findings, healthy)]
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
    """Return the mutants with a verdict of a detector other than the probes."""
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


def make_mutant_rows(found: Sequence[DetectorVerdict], mutants: Sequence[str]) -> list[list[str]]:
    """Return rows of cells: per mutant what each detector found, and after how many steps."""
    verdicts = {(verdict.mutant, verdict.detector): verdict for verdict in found}
    return [
        [f"`{mutant}`", *(_format_cell(verdicts.get((mutant, name))) for name in DETECTORS)]
        for mutant in mutants
    ]


def _format_cell(verdict: DetectorVerdict | None) -> str:
    if verdict is None:
        return "not tested"
    if not verdict.found:
        return "-"
    return f"{verdict.by}, step {verdict.step}" if verdict.step else verdict.by


def _format_median(seconds: Sequence[float]) -> str:
    known = [value for value in seconds if not math.isnan(value)]
    return f"{statistics.median(known):.1f}" if known else "as the trainings"


CONFIDENCE_LEVEL = 0.95


def draw_detector_figure(verdicts: Sequence[DetectorVerdict]) -> str:
    """Return an SVG with a row per detector, over mutants that several detectors were tested on."""
    chosen = set(find_common_mutants(verdicts)) or {verdict.mutant for verdict in verdicts}
    with mpl.rc_context(STYLE):
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
        return figure_to_svg(drawn)
