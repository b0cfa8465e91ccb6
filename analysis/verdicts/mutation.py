"""Mutation verdicts after muPRL: which injected faults the test generators detect.

The replay of the originals' training configurations decides which mutant configurations are
killable and which are trivial. The weak and the strong generator are then scored: the mutation
score is the share of pairs that a generator kills, and the sensitivity the relative gain of the
strong over the weak one.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from parallax.analysis.data.mutation_outcomes import MutantResults, MutationSetting
from parallax.analysis.stats import mutation_score

REPLAY: Final = "replay"
WEAK: Final = "weak"
STRONG: Final = "strong"


@dataclasses.dataclass(frozen=True, eq=False)
class MutantVerdict:
    """Verdict on one mutant configuration.

    Attributes:
        mutant: Its test results.
        replay: Kills by the replay of training configurations; None if there was none.
        trivial: Whether it fails wherever its original succeeds.
        weak: Kills by the weak generator; None if it has no tests.
        strong: Kills by the strong generator; None if it has no tests.
    """

    mutant: MutantResults
    replay: mutation_score.KillResult | None
    trivial: mutation_score.TrivialityResult | None
    weak: mutation_score.KillResult | None
    strong: mutation_score.KillResult | None

    @property
    def is_killable(self) -> bool:
        """Return whether the replay kills it."""
        return self.replay is not None and self.replay.is_killed

    @property
    def is_trivial(self) -> bool:
        """Return whether it is trivial."""
        return self.trivial is not None and self.trivial.is_trivial

    @property
    def counts(self) -> bool:
        """Return whether it enters mutation scores: killable and not trivial."""
        return self.is_killable and not self.is_trivial


@dataclasses.dataclass(frozen=True, eq=False)
class OperatorVerdict:
    """Verdict on all configurations of one operator.

    Attributes:
        configurations: In the order of their values.
        weak: Mutation score of the weak generator: mean killing rate of configurations that count.
        sensitivity: Relative gain of the strong one over the weak one; NaN if a score is NaN.
        paired: Sensitivity over the configurations for which both generators have tests.
        closest_to_original: The configuration that enters scores and is closest to the original
            value; None if there is none.
    """

    name: str
    configurations: tuple[MutantVerdict, ...]
    weak: mutation_score.MeanScore
    strong: mutation_score.MeanScore
    sensitivity: float
    paired: float
    closest_to_original: MutantVerdict | None

    @property
    def killable(self) -> int:
        """Configurations that can be killed."""
        return sum(item.is_killable for item in self.configurations)

    @property
    def trivial(self) -> int:
        """Configurations that are trivial."""
        return sum(item.is_trivial for item in self.configurations)


@dataclasses.dataclass(frozen=True, eq=False)
class MutationVerdict:
    """Verdict on all mutants of one setting.

    Attributes:
        published: Whether the definitions are those of the published code.
        weak: Mean mutation score of the weak generator over operators.
        sensitivity: Mean of the operators' sensitivities, as in the paper's Table III.
    """

    setting: MutationSetting
    published: bool
    operators: tuple[OperatorVerdict, ...]
    weak: mutation_score.MeanScore
    strong: mutation_score.MeanScore
    sensitivity: mutation_score.MeanScore


def judge_mutation(setting: MutationSetting, *, as_published_code: bool = False) -> MutationVerdict:
    """Judge all mutants of a setting, by the paper or, where they differ, by its published code."""
    names = list(dict.fromkeys(item.operator for item in setting.mutants))
    operators = tuple(_judge_operator(name, setting, as_published_code) for name in names)
    return MutationVerdict(
        setting,
        as_published_code,
        operators,
        mutation_score.compute_mean_score([item.weak.value for item in operators]),
        mutation_score.compute_mean_score([item.strong.value for item in operators]),
        mutation_score.compute_mean_score([item.sensitivity for item in operators]),
    )


def _judge_operator(name: str, setting: MutationSetting, published: bool) -> OperatorVerdict:
    found = [_judge_mutant(item, published) for item in setting.mutants if item.operator == name]
    found.sort(key=lambda item: -math.inf if item.mutant.value is None else item.mutant.value)
    counting = [item for item in found if item.counts]
    both = [item for item in counting if item.weak is not None and item.strong is not None]
    weak, strong = _compute_mutation_scores(counting)
    return OperatorVerdict(
        name,
        tuple(found),
        weak,
        strong,
        mutation_score.compute_sensitivity(weak.value, strong.value, as_published_code=published),
        mutation_score.compute_sensitivity(
            *(score.value for score in _compute_mutation_scores(both)), as_published_code=published
        ),
        _find_closest_mutant(found),
    )


def _compute_mutation_scores(
    found: Sequence[MutantVerdict],
) -> tuple[mutation_score.MeanScore, mutation_score.MeanScore]:
    """Compute the mutation scores of the weak and of the strong generator."""
    return (
        mutation_score.compute_mean_score([_get_killing_rate(item.weak) for item in found]),
        mutation_score.compute_mean_score([_get_killing_rate(item.strong) for item in found]),
    )


def _judge_mutant(item: MutantResults, published: bool) -> MutantVerdict:
    tests = {name: found for name, found in item.tests.items() if found.original}
    killed = {
        name: mutation_score.evaluate_kill(*found.pairs, as_published_code=published)
        for name, found in tests.items()
    }
    replay = tests.get(REPLAY)
    return MutantVerdict(
        item,
        killed.get(REPLAY),
        mutation_score.evaluate_triviality(*replay.pairs, as_published_code=published)
        if replay
        else None,
        killed.get(WEAK),
        killed.get(STRONG),
    )


def _get_killing_rate(found: mutation_score.KillResult | None) -> float:
    return math.nan if found is None else found.rate


def _find_closest_mutant(found: Sequence[MutantVerdict]) -> MutantVerdict | None:
    original = next((item.mutant.original_value for item in found), None)
    if original is None:
        return next((item for item in found if item.counts), None)
    values = [math.inf if c.mutant.value is None else c.mutant.value for c in found]
    at = mutation_score.find_closest_value(values, original, [item.counts for item in found])
    return None if at is None else found[at]
