"""Variance of scores: between frameworks by levels of alignment, seeds, evaluation episodes.

The variance of a score between frameworks is estimated at each level. Its decrease from each
framework's own hyperparameters to equal ones is attributed to hyperparameters, its decrease from
equal hyperparameters to equal updates to code. The six trained frameworks are not a random sample:
the results say nothing about other frameworks.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.stats.two_sample import TIE_TOLERANCE, merge_ties

Scores = Sequence[Sequence[NDArray[np.float64]]]
"""Scores by task and framework: one array of seeds each."""


@dataclasses.dataclass(frozen=True)
class FrameworkVariance:
    """Variance components of scores, summed over tasks.

    Attributes:
        between: Variance between the frameworks' expected scores. Unbiased, so that it can be
            below zero where frameworks agree.
        within: Variance between seeds of one framework.
    """

    between: float
    within: float


@dataclasses.dataclass(frozen=True)
class VarianceShares:
    """Shares of the variance of a score at each framework's own hyperparameters; they add up to 1.

    Attributes:
        hyperparameters: Share that equal hyperparameters remove.
        code: Share that equal updates remove after that.
        residual: Share that remains between frameworks with equal updates.
    """

    hyperparameters: float
    code: float
    residual: float
    seeds: float

    @property
    def array(self) -> NDArray[np.float64]:
        """float64[4], in the order of the attributes."""
        return np.array([getattr(self, field.name) for field in dataclasses.fields(self)])


SHARE_NAMES = tuple(field.name for field in dataclasses.fields(VarianceShares))


@dataclasses.dataclass(frozen=True, eq=False)
class ShareIntervals:
    """Variance shares with bootstrap intervals over seeds.

    Attributes:
        low: Lower bounds, float64[4], in the order of `SHARE_NAMES`.
        equal: Share that remains between frameworks at equal hyperparameters (code and residual):
            estimate, lower and upper bound.
        excess: Share of hyperparameters minus `equal`: estimate, lower and upper bound.
    """

    shares: VarianceShares
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    equal: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    excess: tuple[float, float, float] = (math.nan, math.nan, math.nan)

    @property
    def own(self) -> tuple[float, float, float]:
        """Share of hyperparameters: estimate, lower and upper bound."""
        return self.shares.hyperparameters, float(self.low[0]), float(self.high[0])

    @property
    def code(self) -> tuple[float, float, float]:
        """Share of code: estimate, lower and upper bound."""
        return self.shares.code, float(self.low[1]), float(self.high[1])


def estimate_framework_variance(scores: Scores) -> FrameworkVariance:
    """Estimate variance components of one level by the analysis of variance.

    For one task, the mean squares of a one-way layout are `MS_within` and `MS_between`, and the
    component between frameworks is `(MS_between - MS_within) / n0`, where `n0` is the number of
    seeds, or its usual replacement for unequal numbers (Searle, Casella & McCulloch 1992,
    section 3.6).

    Args:
        scores: At least two frameworks per task with at least two seeds each.

    Raises:
        ValueError: There are fewer.
    """
    parts = [_estimate_task_variance(list(task)) for task in scores]
    if not parts:
        raise ValueError("give at least one task")
    return FrameworkVariance(sum(p.between for p in parts), sum(p.within for p in parts))


def _estimate_task_variance(groups: Sequence[NDArray[np.float64]]) -> FrameworkVariance:
    counts = np.array([len(group) for group in groups])
    if len(groups) < 2 or counts.min() < 2:
        raise ValueError("each task needs two frameworks with two seeds each")
    means = np.array([group.mean() for group in groups])
    squares = np.array([((group - group.mean()) ** 2).sum() for group in groups])
    between, within = _estimate_components(counts, means, squares)
    return FrameworkVariance(float(between), float(within))


def _estimate_components(
    counts: NDArray[np.int64], means: NDArray[np.float64], squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the components between and within frameworks, float64[...].

    Args:
        counts: int64[frameworks], seeds.
        means: float64[..., frameworks].
        squares: float64[..., frameworks], sums of squared deviations from the means.
    """
    total = counts.sum()
    grand = means @ counts / total
    within = squares.sum(axis=-1) / (total - len(counts))
    between = (means - grand[..., None]) ** 2 @ counts / (len(counts) - 1)
    usual_count = (total - (counts**2).sum() / total) / (len(counts) - 1)
    return (between - within) / usual_count, within


def compute_variance_shares(
    defaults: FrameworkVariance, exact: FrameworkVariance, lockstep: FrameworkVariance
) -> VarianceShares:
    """Divide the variance at own hyperparameters by those at equal ones and at equal updates."""
    levels = (np.array(dataclasses.astuple(one)) for one in (defaults, exact, lockstep))
    return VarianceShares(*_divide_variances(*levels).tolist())


def _divide_variances(
    defaults: NDArray[np.float64], exact: NDArray[np.float64], lockstep: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the shares, float64[..., 4], of variances between and within, float64[..., 2]."""
    total = defaults.sum(axis=-1)
    own, equal, equal_code = (one[..., 0] for one in (defaults, exact, lockstep))
    parts = np.stack([own - equal, equal - equal_code, equal_code, defaults[..., 1]], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total[..., None] > 0, parts / total[..., None], np.nan)


def decompose_spread(
    levels: Mapping[str, Scores],
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 10_000,
) -> ShareIntervals:
    """Estimate variance shares with bootstrap intervals over seeds.

    Without scores at `lockstep` the residual is unknown: it is set to 0, and the whole variance
    that remains at equal hyperparameters is attributed to code. `levels` has the scores at
    `defaults`, `exact` and `lockstep`, with tasks and frameworks in the same order. A framework
    with equal scores at two levels has the same runs there, which are resampled together.
    """
    drawn: _DrawnRows = {}
    found = [
        _bootstrap_framework_variance(levels[name], generator, resamples, drawn)
        if name in levels
        else _BootstrappedVariance(*(np.zeros(size) for size in (2, 2, (resamples, 2))))
        for name in ("defaults", "exact", "lockstep")
    ]
    estimate, world, draws = (
        _divide_variances(*(getattr(one, name) for one in found))
        for name in ("estimate", "world", "draws")
    )
    low, high = _compute_basic_interval(estimate, world, draws, confidence)

    def combine(weights: Sequence[float]) -> tuple[float, float, float]:
        """Return a sum of weighted shares, with its interval."""
        values = [array @ np.array(weights) for array in (estimate, world, draws)]
        point, world_point, drawn = (one[..., None] for one in values)
        ends = _compute_basic_interval(point, world_point, drawn, confidence)
        return float(values[0]), float(ends[0][0]), float(ends[1][0])

    shares = VarianceShares(*estimate.tolist())
    return ShareIntervals(shares, low, high, combine([0, 1, 1, 0]), combine([1, -1, -1, 0]))


def compute_spread_interval(
    scores: Scores,
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 10_000,
) -> tuple[float, float]:
    """Compute a bootstrap interval of the standard deviation between frameworks.

    Returns:
        Lower and upper end: square roots of those of the variance, 0 where these are below 0.
    """
    found = _bootstrap_framework_variance(scores, generator, resamples)
    ends = _compute_basic_interval(found.estimate, found.world, found.draws, confidence)
    low, high = (float(np.sqrt(max(end[0], 0.0))) for end in ends)
    return low, high


def compute_framework_p(
    groups: Sequence[NDArray[np.float64]], generator: np.random.Generator, permutations: int = 4999
) -> float:
    """Compute the p-value of "all frameworks score alike": F test, runs permuted between them.

    Args:
        groups: At least two frameworks of one task, float64[n] each.
        generator: Source of the permutations.
        permutations: Their number.

    Returns:
        NaN if all scores are equal, or each framework has one.
    """
    if max(map(len, groups)) < 2 or np.ptp(np.concatenate(groups)) == 0:
        return math.nan
    observed = stats.f_oneway(*groups).statistic
    result = stats.permutation_test(
        groups,
        lambda *parts, axis: merge_ties(stats.f_oneway(*parts, axis=axis).statistic, observed),
        alternative="greater",
        vectorized=True,
        n_resamples=permutations,
        rng=generator,
    )
    return float(result.pvalue)


def compute_paired_framework_p(
    scores: NDArray[np.float64], generator: np.random.Generator, permutations: int = 4999
) -> float:
    """Compute the p-value of "all frameworks score alike", with runs permuted within each seed.

    Runs of a seed share the initial states of evaluations, and with them part of their scores. Each
    permutation leaves sums of squares of seeds and of all scores as they are, so that the variance
    of the frameworks' means orders permutations as the F statistic of frameworks and seeds does.

    Args:
        scores: float64[seeds, frameworks], at least two of each.
        generator: Source of the permutations.
        permutations: Their number.

    Returns:
        NaN if no seed has different scores.
    """
    if not np.ptp(scores, axis=1).any():
        return math.nan
    tiled = np.broadcast_to(scores, (permutations, *scores.shape))
    drawn = generator.permuted(tiled, axis=2).mean(axis=1).var(axis=1)
    observed = scores.mean(axis=0).var()
    # Equal sums of floats in another order differ by rounding.
    at_least = np.count_nonzero(drawn >= observed * (1 - TIE_TOLERANCE))
    return float((at_least + 1) / (permutations + 1))


@dataclasses.dataclass(frozen=True, eq=False)
class _BootstrappedVariance:
    """Variance between and within frameworks: estimates, bootstrap draws, and their true values.

    The bootstrap treats the observed means as the true ones. Noise of the seeds makes these vary
    more than the estimate says. So basic intervals (Davison & Hinkley 1997, section 5.2) use the
    deviations of draws from the variance of the observed means, not from the estimate.

    Attributes:
        estimate: float64[2], between and within.
        world: float64[2], true values in the bootstrap.
        draws: float64[resamples, 2].
    """

    estimate: NDArray[np.float64]
    world: NDArray[np.float64]
    draws: NDArray[np.float64]


def _compute_basic_interval(
    estimate: NDArray[np.float64],
    world: NDArray[np.float64],
    draws: NDArray[np.float64],
    confidence: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    tail, apart = (1 - confidence) / 2, draws - world
    known = np.isfinite(apart).any(axis=0)  # NumPy warns of columns that are all NaN
    quantiles = np.nanquantile(np.where(known, apart, 0.0), [tail, 1 - tail], axis=0)
    below, above = np.where(known, quantiles, np.nan)
    return estimate - above, estimate - below


_DrawnRows: TypeAlias = dict[tuple[int, int, bytes], NDArray[np.int64]]


def _bootstrap_framework_variance(
    scores: Scores, generator: np.random.Generator, resamples: int, drawn: _DrawnRows | None = None
) -> _BootstrappedVariance:
    """Resample seeds within each task and framework.

    `drawn` collects the rows that were drawn, by task, framework and scores.

    Deviations of n seeds from their mean are scaled by sqrt(n / (n - 1)). Otherwise the variance
    of resamples is too small by a factor (n - 1) / n (Davison & Hinkley 1997, section 2.4).
    """
    estimate, drawn = estimate_framework_variance(scores), {} if drawn is None else drawn
    world, draws = np.zeros(2), np.zeros((resamples, 2))
    for place, task in enumerate(scores):
        counts = np.array([len(group) for group in task])
        means, squares = np.empty((2, resamples, len(task)))
        for number, group in enumerate(task):
            n = len(group)
            wide = group.mean() + (group - group.mean()) * np.sqrt(n / (n - 1))
            key = place, number, group.tobytes()
            if key not in drawn:
                drawn[key] = generator.integers(n, size=(resamples, n))
            values = wide[drawn[key]]
            means[:, number] = values.mean(axis=1)
            # The sum of squares around the resample's own mean.
            squares[:, number] = values.var(axis=1) * n
        draws += np.stack(_estimate_components(counts, means, squares), axis=1)
        world[0] += np.var([group.mean() for group in task], ddof=1)
        degrees = counts - 1
        world[1] += degrees @ [group.var(ddof=1) for group in task] / degrees.sum()
    return _BootstrappedVariance(np.array([estimate.between, estimate.within]), world, draws)


@dataclasses.dataclass(frozen=True)
class CrossedVariance:
    """Variance components of a crossed design of recipes and implementations.

    Attributes:
        recipe: Variance between recipes, averaged over implementations.
        implementation: Variance between implementations, averaged over recipes.
        interaction: Variance that neither explains alone.
    """

    recipe: float
    implementation: float
    interaction: float
    seeds: float


def estimate_crossed_variance(scores: NDArray[np.float64]) -> CrossedVariance:
    """Estimate the components of a balanced two-way layout by its expected mean squares.

    Recipes and implementations are random effects (Searle, Casella & McCulloch 1992, section 4.3),
    so that components are comparable; negative estimates are not set to zero.

    Args:
        scores: float64[recipes, implementations, seeds], at least two of each.

    Raises:
        ValueError: There are fewer.
    """
    recipes, implementations, seeds = scores.shape
    if min(scores.shape) < 2:
        raise ValueError("at least two recipes, implementations and seeds are needed")
    cells = scores.mean(axis=2)
    rows, columns, grand = cells.mean(axis=1), cells.mean(axis=0), cells.mean()
    ms_recipe = implementations * seeds * ((rows - grand) ** 2).sum() / (recipes - 1)
    ms_implementation = recipes * seeds * ((columns - grand) ** 2).sum() / (implementations - 1)
    rest = cells - rows[:, None] - columns[None, :] + grand
    ms_interaction = seeds * (rest**2).sum() / ((recipes - 1) * (implementations - 1))
    ms_seeds = ((scores - cells[..., None]) ** 2).sum() / (recipes * implementations * (seeds - 1))
    return CrossedVariance(
        # With random effects the interaction, not the seeds, is the error term of main effects.
        recipe=float((ms_recipe - ms_interaction) / (implementations * seeds)),
        implementation=float((ms_implementation - ms_interaction) / (recipes * seeds)),
        interaction=float((ms_interaction - ms_seeds) / seeds),
        seeds=float(ms_seeds),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class RecipeShares:
    """Shares of the variance with each framework's own recipe, from all recipes in all frameworks.

    Attributes:
        own: Share of differences between frameworks, each with its own recipe.
        equal: Share of differences between frameworks that all have one recipe,
            float64[recipes].
        low: Lower ends of 95% bootstrap intervals of `equal`, float64[recipes].
        recipes: Share of differences between recipes in one framework, mean over frameworks.
    """

    own: float
    equal: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    recipes: float


def estimate_recipe_shares(
    scores: NDArray[np.float64], generator: np.random.Generator, resamples: int = 10_000
) -> RecipeShares:
    """Estimate the differences that remain between frameworks with the same recipe, per recipe.

    Args:
        scores: float64[recipes, frameworks, seeds]; recipe i is that of framework i.
        generator: Source of the resamples of seeds.
        resamples: Their number.
    """
    drawn: _DrawnRows = {}

    def bootstrap(groups: Sequence[NDArray[np.float64]]) -> _BootstrappedVariance:
        return _bootstrap_framework_variance([groups], generator, resamples, drawn)

    own = bootstrap([scores[i, i] for i in range(len(scores))])
    equal = [bootstrap(list(row)) for row in scores]
    estimate, world, draws = (
        np.stack([getattr(one, name)[..., 0] for one in equal], axis=-1)
        / getattr(own, name).sum(axis=-1, keepdims=True)
        for name in ("estimate", "world", "draws")
    )
    low, high = _compute_basic_interval(estimate, world, draws, 0.95)
    columns = [estimate_framework_variance([list(one)]).between for one in scores.swapaxes(0, 1)]
    total = own.estimate.sum()
    return RecipeShares(
        float(own.estimate[0] / total), estimate, low, high, float(np.mean(columns) / total)
    )


@dataclasses.dataclass(frozen=True)
class VarianceComponents:
    """One-way random-effects model: score = mean + seed + noise of the episodes.

    Attributes:
        episodes: Episodes per evaluation; the smallest number if seeds differ.
        total: Variance of scores over seeds, s^2, as tests use it.
        noise: Part of it that comes from the finite number of episodes.
        between: `total - noise`, the variance of true scores between seeds; unbiased, so it can be
            negative.
    """

    n: int
    episodes: int
    total: float
    noise: float

    @property
    def between(self) -> float:
        """Variance of true scores between seeds."""
        return self.total - self.noise

    @property
    def noise_share(self) -> float:
        """Share of the variance of scores that is noise, at most 1; NaN if nothing varies."""
        return min(1.0, self.noise / self.total) if self.total > 0 else math.nan

    def propose_episodes(self, share: float = 0.1) -> float:
        """Return the episodes that keep noise below a share of the variance between seeds.

        Noise shrinks in proportion to the number of episodes m: m = m0 noise / (share between).

        Returns:
            A whole number, at least 1; infinite if no variance between seeds is left.
        """
        if self.noise <= 0:
            return 1.0
        if self.between <= 0:
            return math.inf
        # A rounding error above a whole number must not add an episode.
        return max(1.0, math.ceil(self.episodes * self.noise / (share * self.between) - 1e-9))


def estimate_components(
    returns: list[FloatArray], weights: list[FloatArray], scores: FloatArray
) -> VarianceComponents:
    """Separate the noise of evaluation from the variance between seeds.

    A score is a weighted sum of evaluation means. Its noise is sum of w_e^2 s_e^2 / m over the
    evaluations e, with the sample variance s_e^2 of the m returns of one evaluation. For the last
    evaluation alone this is the analysis of variance: noise / total = MS within / MS between.

    Args:
        returns: Per seed float[E, m], m at least 2.
        weights: Per seed float[E], weight of each evaluation in the score.
        scores: float[n], n at least 2, the scores.
    """
    noise = [
        float((weight**2 * part.var(axis=1, ddof=1) / part.shape[1]).sum())
        for part, weight in zip(returns, weights, strict=True)
    ]
    episodes = min(part.shape[1] for part in returns)
    return VarianceComponents(
        len(scores), episodes, float(np.var(scores, ddof=1)), float(np.mean(noise))
    )
