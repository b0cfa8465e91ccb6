"""Verdicts on consistency that may be taken after every batch of seeds."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from analysis.stats import pairwise
from analysis.stats.moments import Floats, moments, stack
from analysis.stats.sequential import one_sided_sequential_p, sequential_p
from analysis.verdicts.consistency import DIFFERENT, EQUIVALENT, UNDECIDED, family_of
from analysis.verdicts.equivalence import margin_of, unseen_p
from analysis.verdicts.groups import Group, by_cell
from analysis.verdicts.options import Options

Pair = tuple[Group, Group]


@dataclasses.dataclass(frozen=True)
class Looks:
    """When one looks, fixed before the first seed.

    Attributes:
        batch: Seeds per framework between two looks, at least 2.
        most: Seeds per framework after which a pair stays undecided; a multiple of `batch`.
    """

    batch: int
    most: int

    def __post_init__(self) -> None:
        if self.batch < 2 or self.most < self.batch or self.most % self.batch:
            raise ValueError(
                f"batch={self.batch} and most={self.most}: give a batch of at least 2 seeds, and "
                "a multiple of it as the most."
            )

    def sizes(self, n: int) -> tuple[int, ...]:
        """Seeds at each look that n seeds allow."""
        return tuple(range(self.batch, min(n, self.most) + 1, self.batch))


@dataclasses.dataclass(frozen=True, eq=False)
class StoppingVerdict:
    """Two frameworks in one setting, after the looks so far.

    Attributes:
        first: A framework, with all its seeds.
        second: The other.
        verdict: `different`, `equivalent` or `undecided`; it holds whenever one stops.
        sizes: Seeds per framework at each look so far; the rest waits for the next look.
        p: Group-sequential p-value of "no difference" after Holm's correction over the family.
        p_equivalence: The same for "differs by the margin or more".
        p_permutation: Group-sequential p-value of the permutation test; NaN where not needed.
        family: What was corrected over.
        next_size: Seeds per framework at the next look; 0 where decided or at the end.
    """

    first: Group
    second: Group
    verdict: str
    sizes: tuple[int, ...]
    p: float
    p_equivalence: float
    p_permutation: float
    family: str
    next_size: int


def stopping_verdicts(
    groups: Sequence[Group], options: Options, looks: Looks
) -> tuple[StoppingVerdict, ...]:
    """A verdict for every pair of frameworks in every setting.

    The rule stands in docs/statistics.md. Far tails are needed, where Welch's degrees of freedom
    are too many: those of the smaller sample are used. Each look takes the first seeds by number.

    Args:
        groups: Final scores of runs.
        options: Level, margin, family and seed of the permutations.
        looks: When one looks.
    """
    pairs = [
        pair
        for members in by_cell(group for group in groups if group.scores is not None).values()
        for pair in itertools.combinations(members, 2)
    ]
    families = [family_of(first.cell, options.family) for first, _ in pairs]
    verdicts: dict[int, StoppingVerdict] = {}
    for name in sorted(set(families)):
        members = [i for i, family in enumerate(families) if family == name]
        found = _family_verdicts([pairs[i] for i in members], name, options, looks)
        verdicts.update(zip(members, found, strict=True))
    return tuple(verdicts[i] for i in range(len(pairs)))


def _family_verdicts(
    pairs: Sequence[Pair], family: str, options: Options, looks: Looks
) -> list[StoppingVerdict]:
    sizes = [looks.sizes(min(first.n, second.n)) for first, second in pairs]
    bare = np.array(
        [_p_values(pair, size, options, looks) for pair, size in zip(pairs, sizes, strict=True)]
    )
    corrected = np.array([pairwise.holm(column) for column in bare.T]).T
    verdicts = []
    for pair, size, (p, p_equivalence) in zip(pairs, sizes, corrected, strict=True):
        permutation = _permutation(pair, size, options, looks) if p < options.alpha else np.nan
        word = UNDECIDED
        if p_equivalence < options.alpha:
            word = EQUIVALENT
        elif permutation < options.alpha:
            word = DIFFERENT
        next_size = (size[-1] if size else 0) + looks.batch
        if word != UNDECIDED or next_size > looks.most:
            next_size = 0
        verdicts.append(
            StoppingVerdict(
                *pair, word, size, float(p), float(p_equivalence), permutation, family, next_size
            )
        )
    return verdicts


def _p_values(
    pair: Pair, sizes: Sequence[int], options: Options, looks: Looks
) -> tuple[float, float]:
    if not sizes:
        return float("nan"), float("nan")
    samples = [stack([moments(part) for part in _looks_at(group, sizes)]) for group in pair]
    item = pairwise.with_least_freedom(pairwise.contrast(samples[:1], samples[1:]), samples)
    alike = np.maximum(
        pairwise.equivalence_p(item, margin_of(pair, options).size),
        [unseen_p(pair, options, size) for size in sizes],
    )
    return (
        float(sequential_p(pairwise.two_sided_p(item), sizes, looks.most)),
        float(one_sided_sequential_p(alike, sizes, looks.most)),
    )


def _permutation(pair: Pair, sizes: Sequence[int], options: Options, looks: Looks) -> float:
    p = [
        pairwise.permutation_p(first, second, np.random.default_rng(options.seed))
        for first, second in zip(*(_looks_at(group, sizes) for group in pair), strict=True)
    ]
    return float(sequential_p(np.array(p), sizes, looks.most))


def _looks_at(group: Group, sizes: Sequence[int]) -> list[Floats]:
    assert group.scores is not None
    return [group.scores[:size] for size in sizes]
