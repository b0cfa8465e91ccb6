"""Verdicts of detectors (probes, conformance, diagnosis, returns) on injected bugs."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from parallax.harness.conformance.update_counts import UpdateCountConformance
from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.contract.upstream_code import silence_output
from parallax.harness.interventions.mutants import CodeMutant, is_mutant_name
from parallax.harness.interventions.source import SourceReplacement
from parallax.harness.record.diagnosis import read_diagnosis
from parallax.harness.record.layout import RUN_FILE
from parallax.harness.record.reading import read_run

PROBES, CONFORMANCE, DIAGNOSIS, RETURNS = "probes", "conformance", "diagnosis", "returns"
SEED_COUNTS = (5, 10)
"""Pairs of seeds at which returns are tested."""
SIGNIFICANCE_LEVEL = 0.05


@dataclasses.dataclass(frozen=True)
class DetectorVerdict:
    """Verdict of one detector on one mutant.

    Attributes:
        mutant: Full name, `framework/algorithm/number`.
        detector: `PROBES`, `CONFORMANCE`, `DIAGNOSIS`, or returns with the number of pairs.
        found: Whether the detector finds it.
        by: Name of the probe, check or test that finds it; otherwise empty.
        step: Environment steps of one training after which it did; 0 if nothing is trained.
        seconds: CPU seconds; NaN if not measured.
        trainings: Trainings with the mutant that it needs.
    """

    mutant: str
    detector: str
    found: bool
    by: str
    step: int
    seconds: float
    trainings: int = 0


@dataclasses.dataclass(frozen=True)
class ExaminedMutant:
    """Line that `benchmarks/mutants.py` wrote.

    Attributes:
        mutant: Full name, `framework/algorithm/number`.
        outcome: `found` or `missed` by the probes, `equivalent`, or that it does not train.
        by: Name of the probe that finds it.
        seconds: CPU seconds.
    """

    mutant: str
    outcome: str
    by: str
    seconds: float


def judge_probes(line: ExaminedMutant) -> DetectorVerdict:
    """Return the verdict of the probes in a line."""
    found = line.outcome == "found"
    return DetectorVerdict(line.mutant, PROBES, found, line.by if found else "", 0, line.seconds)


def judge_returns(
    mutant: str, changed: Mapping[int, float], plain: Mapping[int, float], count: int
) -> DetectorVerdict | None:
    """Return the verdict of a paired test on final returns, or None if there are too few pairs.

    Args:
        mutant: Full name.
        changed: Final return by seed, with the mutant.
        plain: Final return by seed without it.
        count: Pairs, the first by seed.
    """
    seeds = sorted(changed.keys() & plain.keys())[:count]
    if len(seeds) < count:
        return None
    p = compute_paired_p(*(np.array([of[seed] for seed in seeds]) for of in (changed, plain)))
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
    """Return the verdict of the diagnosis: it finds what it finds in no healthy training.

    Args:
        mutant: Full name.
        changed: Findings of each training with the mutant; the first counts.
        plain: Findings of each training without it.
    """
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
    """Return the number of healthy trainings with a finding that none of the others has.

    Args:
        plain: Findings of each.
    """
    ids = [{finding["id"] for finding in findings} for findings in plain]
    rest = [set[str]().union(*ids[:n], *ids[n + 1 :]) for n in range(len(ids))]
    return sum(bool(own - others) for own, others in zip(ids, rest, strict=True))


CONFORMANCE_CHECKS = (
    "test_updates_are_as_many_as_announced",
    "test_steps_taken_are_the_steps_reported",
    "test_what_is_announced_is_what_the_schema_defines",
)
"""Checks that train and count; the others are about hyperparameters and ends of runs."""


def judge_conformance(mutant: CodeMutant) -> DetectorVerdict:
    """Apply a mutant in this process and run conformance checks until one fails.

    Args:
        mutant: The mutant; upstream's own code is restored afterwards.
    """
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


@dataclasses.dataclass(frozen=True)
class SettingRuns:
    """Results of complete runs of one setting.

    Attributes:
        returns: Mean final return by seed.
        findings: Findings of the diagnosis by seed, for runs that were diagnosed.
    """

    returns: Mapping[int, float]
    findings: Mapping[int, tuple[Mapping[str, Any], ...]]


def read_setting_runs(folder: Path) -> dict[TrainingSetting, SettingRuns]:
    """Read all complete runs below a folder that have a mutant or no intervention."""
    returns: dict[TrainingSetting, dict[int, float]] = {}
    findings: dict[TrainingSetting, dict[int, tuple[Mapping[str, Any], ...]]] = {}
    for file in sorted(folder.rglob(RUN_FILE)):
        reading = read_run(file.parent, with_evaluations=True)
        if reading.record is None or reading.evaluations is None or reading.record.imported:
            continue
        spec = reading.record.spec
        name = spec.intervention
        if name != NO_INTERVENTION and not is_mutant_name(name):
            continue
        setting = (spec.framework, spec.algorithm, name)
        last = reading.evaluations.results[-1]
        returns.setdefault(setting, {})[spec.seed or 0] = float(last.mean())
        diagnosis = read_diagnosis(file.parent)
        if not diagnosis.reason:
            findings.setdefault(setting, {})[spec.seed or 0] = diagnosis.findings
    return {key: SettingRuns(found, findings.get(key, {})) for key, found in returns.items()}
