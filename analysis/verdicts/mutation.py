"""Which faults test generators tell from healthy trainings, after muPRL's pipeline.

A replay of the originals' own training decides which mutant configurations can be killed at all and
which are trivial. The others say how good a test generator is: its mutation score is the share of
pairs that it kills, and the sensitivity is how much a strong generator gains on a weak one.
"""

import dataclasses
import math
from collections.abc import Sequence

from analysis.data.outcomes import Mutant, Setting
from analysis.stats.killing import (
    Killing,
    Score,
    Triviality,
    closest,
    killing,
    mean_of,
    sensitivity,
    triviality,
)

REPLAY, WEAK, STRONG = "replay", "weak", "strong"


@dataclasses.dataclass(frozen=True, eq=False)
class Configuration:
    """One mutant configuration.

    Attributes:
        mutant: What was played.
        replay: What the replay of the training kills; None where it was not played.
        trivial: Whether it fails wherever its original does not.
        weak: What the weak generator kills; None where it has no tests.
        strong: What the strong generator kills; None where it has no tests.
    """

    mutant: Mutant
    replay: Killing | None
    trivial: Triviality | None
    weak: Killing | None
    strong: Killing | None

    @property
    def is_killable(self) -> bool:
        """Whether the replay kills it."""
        return self.replay is not None and self.replay.is_killed

    @property
    def is_trivial(self) -> bool:
        """Whether it is trivial."""
        return self.trivial is not None and self.trivial.is_trivial

    @property
    def counts(self) -> bool:
        """Whether it counts for mutation scores."""
        return self.is_killable and not self.is_trivial


@dataclasses.dataclass(frozen=True, eq=False)
class Operator:
    """All configurations of one operator.

    Attributes:
        name: Of the operator.
        configurations: In the order of their values.
        weak: Mutation score of the weak generator: mean killing rate over what counts.
        strong: That of the strong one.
        sensitivity: How much the strong one gains; not a number where a score is none.
        paired: The same over the configurations for which both generators have tests.
        chosen: The configuration that counts and is closest to the original; None for none.
    """

    name: str
    configurations: tuple[Configuration, ...]
    weak: Score
    strong: Score
    sensitivity: float
    paired: float
    chosen: Configuration | None

    @property
    def killable(self) -> int:
        """Configurations that can be killed."""
        return sum(item.is_killable for item in self.configurations)

    @property
    def trivial(self) -> int:
        """Configurations that are trivial."""
        return sum(item.is_trivial for item in self.configurations)


@dataclasses.dataclass(frozen=True, eq=False)
class Mutation:
    """Everything about one setting.

    Attributes:
        setting: Originals and what was played.
        published: Whether the numbers are those of the published code.
        operators: By the order of their names.
        weak: Mean mutation score of the weak generator over operators.
        strong: That of the strong one.
        sensitivity: Mean of the operators' sensitivities, as in the paper's Table III.
    """

    setting: Setting
    published: bool
    operators: tuple[Operator, ...]
    weak: Score
    strong: Score
    sensitivity: Score


def mutation(setting: Setting, *, published: bool = False) -> Mutation:
    """Judges all mutants of a setting.

    Args:
        setting: What was played.
        published: Whether by the published code where it departs from the paper.
    """
    names = list(dict.fromkeys(item.operator for item in setting.mutants))
    operators = tuple(_operator(name, setting, published) for name in names)
    return Mutation(
        setting,
        published,
        operators,
        mean_of([item.weak.value for item in operators]),
        mean_of([item.strong.value for item in operators]),
        mean_of([item.sensitivity for item in operators]),
    )


def _operator(name: str, setting: Setting, published: bool) -> Operator:
    found = [_configuration(item, published) for item in setting.mutants if item.operator == name]
    found.sort(key=lambda item: -math.inf if item.mutant.value is None else item.mutant.value)
    counting = [item for item in found if item.counts]
    both = [item for item in counting if item.weak is not None and item.strong is not None]
    weak, strong = _scores(counting)
    return Operator(
        name,
        tuple(found),
        weak,
        strong,
        sensitivity(weak.value, strong.value, published=published),
        sensitivity(*(score.value for score in _scores(both)), published=published),
        _closest(found),
    )


def _scores(found: Sequence[Configuration]) -> tuple[Score, Score]:
    """Mutation scores of the weak and of the strong generator."""
    return (
        mean_of([_rate(item.weak) for item in found]),
        mean_of([_rate(item.strong) for item in found]),
    )


def _configuration(item: Mutant, published: bool) -> Configuration:
    tests = {name: found for name, found in item.tests.items() if found.original}
    killed = {name: killing(*found.pairs, published=published) for name, found in tests.items()}
    replay = tests.get(REPLAY)
    return Configuration(
        item,
        killed.get(REPLAY),
        triviality(*replay.pairs, published=published) if replay else None,
        killed.get(WEAK),
        killed.get(STRONG),
    )


def _rate(found: Killing | None) -> float:
    return math.nan if found is None else found.rate


def _closest(found: Sequence[Configuration]) -> Configuration | None:
    original = next((item.mutant.original_value for item in found), None)
    if original is None:
        return next((item for item in found if item.counts), None)
    values = [math.inf if c.mutant.value is None else c.mutant.value for c in found]
    at = closest(values, original, [item.counts for item in found])
    return None if at is None else found[at]
