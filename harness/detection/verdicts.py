"""What a detector says of a fault."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

PROBES, CONFORMANCE, DIAGNOSIS, RETURNS = "probes", "conformance", "diagnosis", "returns"
SEEDS = (5, 10)
"""Pairs of seeds at which returns are tested."""
LEVEL = 0.05


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What one detector says of one fault.

    Attributes:
        mutant: Whole name, `framework/algorithm/number`.
        detector: One of `PROBES`, `CONFORMANCE`, `DIAGNOSIS`, or returns with the number of seeds.
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


def of_probes(line: Mapping[str, Any]) -> Verdict:
    """The verdict in a line of what `benchmarks/mutants.py` writes.

    Raises:
        LookupError: It is another line.
    """
    found = line["outcome"] == "found"
    by = str(line["by"]) if found else ""
    return Verdict(str(line["mutant"]), PROBES, found, by, 0, float(line["seconds"]))


def of_returns(
    mutant: str, changed: Mapping[int, float], plain: Mapping[int, float], count: int
) -> Verdict | None:
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
    p = paired_p(*(np.array([of[seed] for seed in seeds]) for of in (changed, plain)))
    by = f"p={p:.2g}" if p < LEVEL else ""
    return Verdict(mutant, returns(count), bool(by), by, 0, float("nan"), count)


def returns(count: int) -> str:
    """The name of the test with so many pairs."""
    return f"{RETURNS}, n={count}"


def paired_p(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Student's paired two-sided p-value; 1 where nothing differs, 0 where all do by the same."""
    apart = one - other
    if np.ptp(apart) == 0:
        return float(apart[0] == 0)
    return float(stats.ttest_rel(one, other).pvalue)


def of_findings(
    mutant: str,
    changed: Sequence[Iterable[Mapping[str, Any]]],
    plain: Sequence[Iterable[Mapping[str, Any]]],
) -> Verdict | None:
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
        return Verdict(mutant, DIAGNOSIS, False, "", 0, float("nan"), 1)
    first = min(new, key=lambda one: one["first_step"])
    return Verdict(mutant, DIAGNOSIS, True, first["name"], first["first_step"], float("nan"), 1)


def false_alarms(plain: Sequence[Iterable[Mapping[str, Any]]]) -> int:
    """How many trainings without a fault would be found, each against the others.

    Args:
        plain: Findings of each.
    """
    ids = [{finding["id"] for finding in findings} for findings in plain]
    rest = [set[str]().union(*ids[:n], *ids[n + 1 :]) for n in range(len(ids))]
    return sum(bool(own - others) for own, others in zip(ids, rest, strict=True))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a file; none where there is none.

    Raises:
        ValueError: A line is no JSON.
    """
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.strip()]
