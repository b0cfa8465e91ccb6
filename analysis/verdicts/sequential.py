"""Group-sequential consistency verdicts, valid at a check after every batch of seeds.

The tests are those of `consistency.py`; their p-values are corrected for repeated checks
(`stats/group_sequential.py`) and then by Holm's method.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from parallax.analysis.stats import two_sample
from parallax.analysis.stats.group_sequential import (
    compute_one_sided_sequential_p,
    compute_sequential_p,
)
from parallax.analysis.stats.moments import FloatArray, compute_moments, stack_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.verdicts.consistency import (
    DIFFERENT,
    EQUIVALENT,
    INCONCLUSIVE,
    judge_by_family,
)
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup, list_group_pairs
from parallax.analysis.verdicts.margins import compute_margin, compute_unobserved_p
from parallax.analysis.verdicts.options import VerdictOptions


@dataclasses.dataclass(frozen=True)
class SequentialSchedule:
    """Schedule of checks, fixed before the first seed is trained.

    Attributes:
        batch: Seeds per framework between two checks, at least 2.
        max_seeds: Seeds per framework after which a pair stays inconclusive; a multiple of `batch`.
    """

    batch: int
    max_seeds: int

    def __post_init__(self) -> None:
        if self.batch < 2 or self.max_seeds < self.batch or self.max_seeds % self.batch:
            raise ValueError(
                f"batch={self.batch} and max_seeds={self.max_seeds} do not fit: give a batch of at "
                "least 2 seeds and a multiple of it as max_seeds."
            )

    def sizes(self, n: int) -> tuple[int, ...]:
        """Return the seeds at each check that n seeds allow."""
        return tuple(range(self.batch, min(n, self.max_seeds) + 1, self.batch))


@dataclasses.dataclass(frozen=True, eq=False)
class SequentialVerdict:
    """Verdict on two frameworks in one setting after the checks so far.

    Attributes:
        verdict: `different`, `equivalent` or `inconclusive`; valid whenever training stops.
        check_sizes: Seeds per framework at each check so far; others are used at the next one.
        p: Group-sequential p-value of "no difference" after Holm's correction over the family.
        p_equivalence: The same for "differs by the margin or more".
        p_permutation: Group-sequential p-value of the permutation test; NaN where not needed.
        next_check_size: Seeds per framework at the next check; 0 if decided or at the end.
    """

    first: ScoreGroup
    second: ScoreGroup
    verdict: str
    check_sizes: tuple[int, ...]
    p: float
    p_equivalence: float
    p_permutation: float
    family: str
    next_check_size: int


def judge_sequentially(
    groups: Sequence[ScoreGroup], options: VerdictOptions, schedule: SequentialSchedule
) -> tuple[SequentialVerdict, ...]:
    """Judge every pair of frameworks in every setting at the checks that its seeds allow.

    Each check uses the first seeds by number. Corrected levels lie far out in the tails, where
    Welch's approximation is too liberal, so the degrees of freedom of the smaller sample are used.
    """
    pairs = list_group_pairs(group for group in groups if group.scores is not None)
    return judge_by_family(
        pairs, options, functools.partial(_judge_sequential_family, schedule=schedule)
    )


def _judge_sequential_family(
    pairs: Sequence[GroupPair], family: str, options: VerdictOptions, schedule: SequentialSchedule
) -> list[SequentialVerdict]:
    sizes = [schedule.sizes(min(first.n, second.n)) for first, second in pairs]
    bare = np.array(
        [
            _compute_p_values(pair, size, options, schedule)
            for pair, size in zip(pairs, sizes, strict=True)
        ]
    )
    corrected = np.array([adjust_holm(column) for column in bare.T]).T
    verdicts = []
    for pair, size, (p, p_equivalence) in zip(pairs, sizes, corrected, strict=True):
        permutation = (
            _compute_permutation_p(pair, size, options, schedule) if p < options.alpha else np.nan
        )
        word = INCONCLUSIVE
        if p_equivalence < options.alpha:
            word = EQUIVALENT
        elif permutation < options.alpha:
            word = DIFFERENT
        next_size = (size[-1] if size else 0) + schedule.batch
        if word != INCONCLUSIVE or next_size > schedule.max_seeds:
            next_size = 0
        verdicts.append(
            SequentialVerdict(
                *pair, word, size, float(p), float(p_equivalence), permutation, family, next_size
            )
        )
    return verdicts


def _compute_p_values(
    pair: GroupPair, sizes: Sequence[int], options: VerdictOptions, schedule: SequentialSchedule
) -> tuple[float, float]:
    if not sizes:
        return float("nan"), float("nan")
    samples = [
        stack_moments([compute_moments(part) for part in _select_scores_at_checks(group, sizes)])
        for group in pair
    ]
    item = two_sample.use_smallest_degrees_of_freedom(
        two_sample.compute_contrast(samples[:1], samples[1:]), samples
    )
    alike = np.maximum(
        two_sample.compute_equivalence_p(item, compute_margin(pair, options).size),
        [compute_unobserved_p(pair, options, size) for size in sizes],
    )
    return (
        float(
            compute_sequential_p(two_sample.compute_two_sided_p(item), sizes, schedule.max_seeds)
        ),
        float(compute_one_sided_sequential_p(alike, sizes, schedule.max_seeds)),
    )


def _compute_permutation_p(
    pair: GroupPair, sizes: Sequence[int], options: VerdictOptions, schedule: SequentialSchedule
) -> float:
    p = [
        two_sample.compute_permutation_p(first, second, np.random.default_rng(options.seed))
        for first, second in zip(
            *(_select_scores_at_checks(group, sizes) for group in pair), strict=True
        )
    ]
    return float(compute_sequential_p(np.array(p), sizes, schedule.max_seeds))


def _select_scores_at_checks(group: ScoreGroup, sizes: Sequence[int]) -> list[FloatArray]:
    assert group.scores is not None
    return [group.scores[:size] for size in sizes]
