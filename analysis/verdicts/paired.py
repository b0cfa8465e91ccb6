"""Frameworks compared seed by seed, where seeds were evaluated from the same initial states."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from analysis.data.runs import Run
from analysis.stats.paired import Paired, paired
from analysis.stats.pairwise import holm
from analysis.verdicts.consistency import PairVerdict

LEAST = 2  # pairs


@dataclasses.dataclass(frozen=True, eq=False)
class PairedVerdict:
    """Two frameworks in one setting, over the seeds that both have.

    Attributes:
        item: The verdict, which does not pair.
        seeds: Seeds that went in.
        result: The paired test.
        p_holm: Its p-value, corrected over the pairs of the verdict's family that have one.
    """

    item: PairVerdict
    seeds: tuple[int, ...]
    result: Paired
    p_holm: float


def paired_verdicts(items: Sequence[PairVerdict]) -> tuple[PairedVerdict, ...]:
    """Pairs runs of equal seeds whose last evaluations began in the same initial states.

    These follow from the task, the seed, the study's `evaluation_seed`, the number of the
    evaluation and that of its episodes.

    Args:
        items: Verdicts on pairs; those without two such seeds are left out.
    """
    found: dict[str, list[tuple[PairVerdict, tuple[int, ...], Paired]]] = {}
    for item in items:
        first, second = (_by_states(group.runs) for group in (item.first, item.second))
        shared = sorted(set(first) & set(second))
        if len(shared) >= LEAST:
            one, two = (
                np.array([runs[key].final_score for key in shared]) for runs in (first, second)
            )
            entry = item, tuple(key[0] for key in shared), paired(one, two)
            found.setdefault(item.family, []).append(entry)
    judged = {
        id(item): PairedVerdict(item, seeds, result, float(p))
        for family in found.values()
        for (item, seeds, result), p in zip(
            family, holm([result.p for _, _, result in family]), strict=True
        )
    }
    return tuple(judged[id(item)] for item in items if id(item) in judged)


def _by_states(runs: Sequence[Run]) -> dict[tuple[int, int, int, int], Run]:
    """Runs by what their last evaluation's initial states follow from."""
    return {
        (run.id.seed, int(run.spec["evaluation_seed"]), len(run.timesteps), run.results.shape[1]): (
            run
        )
        for run in runs
        if run.id.seed is not None and isinstance(run.spec.get("evaluation_seed"), int)
    }
