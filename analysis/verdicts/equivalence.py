"""What counts as no difference, and whether the runs show that there is none."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.published import (
    get_best_published_score,
    get_random_score,
    get_reference_score,
    get_return_bounds,
)
from parallax.analysis.stats import unobserved_failures
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions


@dataclasses.dataclass(frozen=True)
class EquivalenceMargin:
    """A margin of equivalence.

    Attributes:
        size: In units of return.
        reference: The score that stands for the whole, in units of return.
        zero: The score that stands for nothing.
        source: Where both stand, in words.
    """

    size: float
    reference: float
    zero: float
    source: str


@dataclasses.dataclass(frozen=True)
class ScoreRange:
    """Between what scores a run of a task can end.

    Attributes:
        low: Least score; NaN where nothing is known.
        high: Largest score; NaN where nothing is known.
        source: How it is known, in words.
    """

    low: float
    high: float
    source: str

    @property
    def known(self) -> bool:
        """Whether there are ends."""
        return not math.isnan(self.low + self.high)


def compute_margin(groups: Sequence[ScoreGroup], options: VerdictOptions) -> EquivalenceMargin:
    """The margin for groups of one setting.

    A share of the way from the score of random actions to the published score of the algorithm
    on the task; with `options.margin_of` = `score`, of the published score's size. Where a range
    was given for the task, of that; where nothing is published, of the compared runs' means.

    Args:
        groups: At least one group with a run, all of one setting.
        options: Holds the share and its kind.
    """
    whole, zero, source = _find_scale(groups, options)
    return EquivalenceMargin(options.margin_share * abs(whole - zero), whole, zero, source)


def _find_scale(groups: Sequence[ScoreGroup], options: VerdictOptions) -> tuple[float, float, str]:
    cell = groups[0].cell
    given = options.get_given_range(cell.env)
    if given:
        return given[1], given[0], "the range given for the task"
    found = get_reference_score(cell.algorithm, cell.env)
    if found is None:
        mean = sum(abs(float(group.moments.mean)) for group in groups) / len(groups)
        return mean, 0.0, "compared runs"
    random = get_random_score(cell.env) if options.margin_of == "scale" else None
    if random is None:
        return found[0], 0.0, found[1]
    return found[0], random[0], found[1]


def compute_failure_threshold(groups: Sequence[ScoreGroup], options: VerdictOptions) -> float:
    """Score below which a run of the setting counts as failed; NaN where no scale is known.

    It lies `options.failed_share` of the way from random actions to the published score, or of
    the range given for the task.

    Args:
        groups: At least one group, all of one setting.
        options: Holds the share.
    """
    cell = groups[0].cell
    given, random = options.get_given_range(cell.env), get_random_score(cell.env)
    found = get_reference_score(cell.algorithm, cell.env)
    if given:
        low, high = given
    elif found is None or random is None:
        return math.nan
    else:
        low, high = random[0], found[0]
    return low + options.failed_share * (high - low)


def find_score_range(pair: Sequence[ScoreGroup], options: VerdictOptions) -> ScoreRange:
    """Between what scores any run of a setting is taken to end, seen or not.

    The task's own ends where its rewards have some; otherwise from the score of random actions to
    the best that was published of the algorithm on the task; wider where a run compared is beyond.

    Args:
        pair: Groups of one setting.
        options: May hold a range for the task.
    """
    cell = pair[0].cell
    given = options.get_given_range(cell.env)
    random, best = get_random_score(cell.env), get_best_published_score(cell.algorithm, cell.env)
    if given:
        low, high, source = *given, "given"
    elif random is not None and best is not None:
        low, high, source = random[0], best, "random actions to the best published score"
        ends = get_return_bounds(cell.env)
        low = ends[0] if math.isfinite(ends[0]) else low
        high = ends[1] if math.isfinite(ends[1]) else high
        if any(map(math.isfinite, ends)):
            source = "what the task's rewards allow" + (
                "" if all(map(math.isfinite, ends)) else ", and random actions"
            )
    else:
        return ScoreRange(math.nan, math.nan, "not known")
    seen = [_get_extremes(group) for group in pair if group.n]
    return ScoreRange(
        min([low, *(least for least, _ in seen)]),
        max([high, *(largest for _, largest in seen)]),
        source,
    )


def compute_unobserved_p(
    pair: GroupPair, options: VerdictOptions, size: int | None = None
) -> float:
    """p-value of "the means differ by the margin or more", whatever the runs not seen are like.

    It needs a known range: without one it is 1, and nothing is equivalent.

    Args:
        pair: Two frameworks in one setting.
        options: Margin and ranges.
        size: Seeds of each that count, the first by number; None for all.
    """
    ends = find_score_range(pair, options)
    margin = compute_margin(pair, options).size
    one, two = (group.moments if group.scores is None else group.scores[:size] for group in pair)
    if min(group.n for group in pair) < 2 or (size or 2) < 2:
        return math.nan
    return (
        unobserved_failures.compute_difference_p(one, two, (ends.low, ends.high), margin)
        if ends.known
        else 1.0
    )


def compute_min_runs(pair: GroupPair, options: VerdictOptions) -> float:
    """Runs of each below which the two can hardly be equivalent, however alike they score.

    With fewer, values that were not seen can be so frequent that the means differ by the margin:
    n with (1 - margin / room)^n below the level, where the room is how far an unseen value of
    either can lie from its mean. For one test; infinite where no range is known.
    """
    ends, margin = find_score_range(pair, options), compute_margin(pair, options).size
    if not ends.known:
        return math.inf
    upper, lower = sorted((float(group.moments.mean) for group in pair), reverse=True)
    room = max(ends.high - upper, lower - ends.low)
    if margin >= room:
        return 2.0
    if not margin:
        return math.inf
    return max(2.0, math.ceil(math.log(options.alpha) / math.log1p(-margin / room)))


def compute_unobserved_distances(
    pairs: Sequence[GroupPair], options: VerdictOptions
) -> tuple[FloatArray, FloatArray]:
    """How far unseen runs can lie from the means, apart from each other, float[pairs] each.

    Of the two directions the one with more room; infinite where no range is known.
    """
    found = []
    for first, second in pairs:
        ends = find_score_range((first, second), options)
        if not ends.known or not (first.n and second.n):
            found.append((math.inf, math.inf))
            continue
        a, b = float(first.moments.mean), float(second.moments.mean)
        ways = ((ends.high - a, b - ends.low), (ends.high - b, a - ends.low))
        found.append(max(ways, key=lambda way: max(way) + min(way) / 4))
    values = np.array(found, dtype=np.float64).reshape(-1, 2)
    return values[:, 0], values[:, 1]


def _get_extremes(group: ScoreGroup) -> tuple[float, float]:
    if group.scores is None:
        return float(group.moments.mean), float(group.moments.mean)
    return float(group.scores.min()), float(group.scores.max())
