"""Equivalence margins, score ranges, and the bound on possible unobserved failures."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.published import (
    get_best_published_score,
    get_return_bounds,
    get_solved_score,
    get_top_score,
)
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats import unobserved_failures
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.endpoints import RANDOM, find_reference_means
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions


@dataclasses.dataclass(frozen=True)
class EquivalenceMargin:
    """An equivalence margin.

    Attributes:
        size: In units of return.
        reference: Upper end of the scale that the margin is a share of, in units of return.
        zero: Lower end of that scale.
    """

    size: float
    reference: float
    zero: float
    source: str


@dataclasses.dataclass(frozen=True)
class ScoreRange:
    """Range of scores that a run of a task can end with.

    Attributes:
        low: Least score; NaN if unknown.
        high: Largest score; NaN if unknown.
        source: Source of the range, in words.
    """

    low: float
    high: float
    source: str

    @functools.cached_property
    def known(self) -> bool:
        """Return whether the range is known."""
        return not math.isnan(self.low + self.high)


def compute_margin(groups: Sequence[ScoreGroup], options: VerdictOptions) -> EquivalenceMargin:
    """Compute the equivalence margin for groups of one setting.

    The margin is a share of the distance from the score of random actions to the published score
    of the algorithm on the task, or to the score of a solved task where nothing is published; with
    `options.margin_of` = `score`, of that score itself. A range given for the task takes
    precedence. If neither is known, the margin is a share of the mean absolute score of the
    compared runs.
    """
    whole, zero, source = _find_scale(groups, options)
    return EquivalenceMargin(options.margin_share * abs(whole - zero), whole, zero, source)


def _find_scale(groups: Sequence[ScoreGroup], options: VerdictOptions) -> tuple[float, float, str]:
    cell = groups[0].cell
    if options.chosen_endpoint.is_steps:
        return 1.0, 0.0, "length of training"
    given = options.range_by_env.get(cell.env)
    if given:
        return given[1], given[0], "the range given for the task"
    found = get_top_score(cell.algorithm, cell.env)
    if found is None:
        mean = sum(abs(float(group.moments.mean)) for group in groups) / len(groups)
        return mean, 0.0, "compared runs"
    random = _find_random(cell, options) if options.margin_of == "scale" else None
    return found[0], random[0] if random else 0.0, found[1]


def _find_random(cell: StudyCell, options: VerdictOptions) -> tuple[float, str] | None:
    return find_reference_means(cell.env, options).get(RANDOM)


def compute_failure_threshold(groups: Sequence[ScoreGroup], options: VerdictOptions) -> float:
    """Compute the score below which a run of a setting counts as failed; NaN without a scale.

    It lies at `options.failed_share` of the distance from random actions to the published score (of
    a solved task where nothing is published), or of the range given for the task.
    """
    cell = groups[0].cell
    ends = options.range_by_env.get(cell.env)
    if ends is None:
        random, top = _find_random(cell, options), get_top_score(cell.algorithm, cell.env)
        if random is None or top is None:
            return math.nan
        ends = random[0], top[0]
    low, high = ends
    return low + options.failed_share * (high - low)


def find_score_range(pair: Sequence[ScoreGroup], options: VerdictOptions) -> ScoreRange:
    """Return the range in which all runs of a setting are assumed to end, observed or not.

    The bounds that the task's rewards imply, where there are some; otherwise from the score of
    random actions to the best published score of the algorithm on the task, or to that of a solved
    task where nothing is published. The range is widened to include all compared runs. A range
    given for the task takes precedence.
    """
    cell = pair[0].cell
    if options.chosen_endpoint.is_steps:
        return ScoreRange(0.0, 1.0, "length of training")
    given, ends = options.range_by_env.get(cell.env), get_return_bounds(cell.env)
    random, best = _find_random(cell, options), get_best_published_score(cell.algorithm, cell.env)
    top, solved = "the best published score", get_solved_score(cell.env)
    if best is None and solved is not None:
        best, top = solved[0], "the score of a solved task"
    if given:
        low, high, source = *given, "given"
    elif all(map(math.isfinite, ends)):
        low, high, source = *ends, "what the task's rewards allow"
    elif random is not None and best is not None:
        low, high, source = random[0], best, f"random actions to {top}"
        low = ends[0] if math.isfinite(ends[0]) else low
        high = ends[1] if math.isfinite(ends[1]) else high
        if any(map(math.isfinite, ends)):
            source = "what the task's rewards allow, and random actions"
    else:
        return ScoreRange(math.nan, math.nan, "not known")
    seen = [_get_extremes(group) for group in pair if group.n]
    return ScoreRange(
        min([low, *(least for least, _ in seen)]),
        max([high, *(largest for _, largest in seen)]),
        source,
    )


def compute_unobserved_p(
    pair: GroupPair, ends: ScoreRange, margin: float, size: int | None = None
) -> float:
    """Compute the p-value of "the means differ by the margin or more" from the score range alone.

    It allows for failures too rare to be observed in a few seeds (`stats.unobserved_failures`).
    Without a known range it is 1, so that nothing is equivalent.

    Args:
        pair: Two frameworks in one setting.
        ends: Their `find_score_range`.
        margin: Size of the margin of equivalence.
        size: Number of seeds of each to use, the first by number; None for all.
    """
    one, two = (group.moments if group.scores is None else group.scores[:size] for group in pair)
    if min(group.n for group in pair) < 2 or (size or 2) < 2:
        return math.nan
    if not ends.known:
        return 1.0
    return unobserved_failures.compute_difference_p(one, two, (ends.low, ends.high), margin)


def compute_min_runs(pair: GroupPair, options: VerdictOptions) -> float:
    """Compute the runs of each framework below which equivalence can hardly be shown.

    A rare value at distance `room` from the mean shifts the mean by the margin if its frequency
    is margin / room. It is absent from n runs with probability (1 - margin / room)^n, which must
    be below alpha: n >= log(alpha) / log(1 - margin / room). For a single test without
    correction; infinite if no range is known.
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
    pairs: Sequence[GroupPair], ranges: Sequence[ScoreRange]
) -> tuple[FloatArray, FloatArray]:
    """Compute how far unobserved runs can lie from the means, in opposite directions.

    Of the two directions, the one with more room is returned. `ranges` has the `find_score_range`
    of each pair.

    Returns:
        Two float[pairs], for the first and the second framework; infinite without a known range.
    """
    found = []
    for (first, second), ends in zip(pairs, ranges, strict=True):
        if not ends.known or not (first.n and second.n):
            found.append((math.inf, math.inf))
            continue
        means = float(first.moments.mean), float(second.moments.mean)
        found.append(choose_unobserved_distances(means, (ends.low, ends.high)))
    values = np.array(found, dtype=np.float64).reshape(-1, 2)
    return values[:, 0], values[:, 1]


def choose_unobserved_distances(
    means: tuple[float, float], ends: tuple[float, float]
) -> tuple[float, float]:
    """Return how far unobserved runs can lie from two means, in the direction with more room.

    `ends` has the least and the largest possible score.
    """
    (a, b), (low, high) = means, ends
    return max(((high - a, b - low), (a - low, high - b)), key=lambda way: max(way) + min(way) / 4)


def _get_extremes(group: ScoreGroup) -> tuple[float, float]:
    if group.scores is None:
        return float(group.moments.mean), float(group.moments.mean)
    return float(group.scores.min()), float(group.scores.max())
