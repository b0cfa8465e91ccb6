"""What a detector says of a fault."""

import dataclasses
import json
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
    """What one detector says of one fault.

    Attributes:
        mutant: Whole name, `framework/algorithm/number`.
        detector: One of `PROBES`, `CONFORMANCE`, `DIAGNOSIS_MODES`, or returns with the number of seeds.
        found: Whether it notices.
        by: Which probe, check or test; empty where it does not.
        step: Environment steps after which it did, of one training; 0 where nothing is trained.
        seconds: Of processor time, not a number where that was not measured.
        trainings: That it needs, besides those without the fault.
    """

    mutant: str
    detector: str
    found: bool
    by: str
    step: int
    seconds: float
    trainings: int = 0


def judge_probes(line: Mapping[str, Any]) -> DetectorVerdict:
    """The verdict in a line of what `benchmarks/mutants.py` writes.

    Raises:
        LookupError: It is another line.
    """
    found = line["outcome"] == "found"
    by = str(line["by"]) if found else ""
    return DetectorVerdict(str(line["mutant"]), PROBES, found, by, 0, float(line["seconds"]))


def judge_returns(
    mutant: str, changed: Mapping[int, float], plain: Mapping[int, float], count: int
) -> DetectorVerdict | None:
    """Whether the paired test tells final returns apart; None where there are fewer pairs.

    Args:
        mutant: Whole name.
        changed: Final return by seed, with the fault.
        plain: The same without.
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
    """The name of the test with so many pairs."""
    return f"{RETURNS}, n={count}"


def compute_paired_p(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Student's paired two-sided p-value; 1 where nothing differs, 0 where all do by the same."""
    apart = one - other
    if np.ptp(apart) == 0:
        return float(apart[0] == 0)
    return float(stats.ttest_rel(one, other).pvalue)


def judge_findings(
    mutant: str,
    changed: Sequence[Iterable[Mapping[str, Any]]],
    plain: Sequence[Iterable[Mapping[str, Any]]],
) -> DetectorVerdict | None:
    """Whether the diagnosis of a training says what it says of none without the fault.

    Args:
        mutant: Whole name.
        changed: Findings of each training with the fault; the first is asked.
        plain: Of each without.
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
    """How many trainings without a fault would be found, each against the others.

    Args:
        plain: Findings of each.
    """
    ids = [{finding["id"] for finding in findings} for findings in plain]
    rest = [set[str]().union(*ids[:n], *ids[n + 1 :]) for n in range(len(ids))]
    return sum(bool(own - others) for own, others in zip(ids, rest, strict=True))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a file; none where there is none.

    Raises:
        ValueError: A line is no JSON.
    """
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


CONFORMANCE_CHECKS = (
    "test_updates_are_as_many_as_announced",
    "test_steps_taken_are_the_steps_reported",
    "test_what_is_announced_is_what_the_schema_defines",
)
"""Those that train and count; the others ask what a hyperparameter means, or how a run ends."""


def judge_conformance(mutant: CodeMutant) -> DetectorVerdict:
    """Makes a mutant in this process and asks until a check fails.

    Args:
        mutant: What is changed; the process has upstream's own code again afterwards.
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
    """What complete runs of one setting say.

    Attributes:
        returns: Mean final return by seed.
        findings: Of the diagnosis, by seed; only of runs that it watched.
    """

    returns: Mapping[int, float]
    findings: Mapping[int, tuple[Mapping[str, Any], ...]]


def read_setting_runs(folder: Path) -> dict[TrainingSetting, SettingRuns]:
    """All complete runs below a folder that have a mutant or nothing changed."""
    returns: dict[TrainingSetting, dict[int, float]] = {}
    findings: dict[TrainingSetting, dict[int, tuple[Mapping[str, Any], ...]]] = {}
    for file in sorted(folder.rglob(RUN_FILE)):
        reading = read_run(file.parent, with_evaluations=True)
        if reading.record is None or reading.evaluations is None:
            continue
        spec = reading.record.spec
        name = spec.intervention
        if name != NO_INTERVENTION and not is_mutant_name(name):
            continue
        setting = (spec.framework, spec.algorithm, name)
        last = reading.evaluations.results[-1]
        returns.setdefault(setting, {})[spec.seed] = float(last.mean())
        told = read_diagnosis(file.parent)
        if not told.reason:
            findings.setdefault(setting, {})[spec.seed] = told.findings
    return {key: SettingRuns(found, findings.get(key, {})) for key, found in returns.items()}
