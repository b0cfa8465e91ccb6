"""Decomposition of the spread between frameworks by levels of alignment.

The variance of a score between frameworks is estimated at each level. What it loses from each
framework's own hyperparameters to equal ones is ascribed to hyperparameters, what it loses from
equal hyperparameters to equal updates to code. Frameworks are the six that were trained, not a
sample: nothing here is a statement about others.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

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
        hyperparameters: What equal hyperparameters remove.
        code: What equal updates remove after that.
        residual: What is left between frameworks with equal updates.
        seeds: Variance between seeds of one framework.
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


@dataclasses.dataclass(frozen=True)
class ShareIntervals:
    """Variance shares with bootstrap intervals over seeds.

    Attributes:
        shares: The estimate.
        low: Lower bounds, float64[4], in the order of `SHARE_NAMES`.
        high: Upper bounds.
    """

    shares: VarianceShares
    low: NDArray[np.float64]
    high: NDArray[np.float64]


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
        raise ValueError("there is no task")
    return FrameworkVariance(sum(p.between for p in parts), sum(p.within for p in parts))


def _estimate_task_variance(groups: Sequence[NDArray[np.float64]]) -> FrameworkVariance:
    counts = np.array([len(group) for group in groups])
    if len(groups) < 2 or counts.min() < 2:
        raise ValueError("each task needs two frameworks with two seeds each")
    means = np.array([group.mean() for group in groups])
    total = counts.sum()
    grand = counts @ means / total
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (total - len(groups))
    between = counts @ (means - grand) ** 2 / (len(groups) - 1)
    usual_count = (total - (counts**2).sum() / total) / (len(groups) - 1)
    return FrameworkVariance(float((between - within) / usual_count), float(within))


def compute_variance_shares(
    defaults: FrameworkVariance, exact: FrameworkVariance, lockstep: FrameworkVariance
) -> VarianceShares:
    """Divide the variance at own hyperparameters into its parts.

    Args:
        defaults: At each framework's own hyperparameters.
        exact: At equal hyperparameters.
        lockstep: At equal hyperparameters and updates.
    """
    total = defaults.between + defaults.within
    if total <= 0:
        return VarianceShares(np.nan, np.nan, np.nan, np.nan)
    return VarianceShares(
        (defaults.between - exact.between) / total,
        (exact.between - lockstep.between) / total,
        lockstep.between / total,
        defaults.within / total,
    )


def decompose_spread(
    levels: Mapping[str, Scores],
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> ShareIntervals:
    """Estimate variance shares with bootstrap intervals over seeds.

    Seeds are resampled within each task and framework. In the resampled world the true means are
    the observed ones, which spread more than the estimate says, by the noise of the seeds; so the
    interval is the basic one (Davison & Hinkley 1997, section 5.2), of deviations from the values
    of that world and not from the estimate.

    Args:
        levels: Scores at `defaults`, `exact` and `lockstep`.
        generator: For the resampling.
        confidence: Of each interval.
        resamples: Number of bootstrap samples.
    """
    names = ("defaults", "exact", "lockstep")
    estimate = compute_variance_shares(*(estimate_framework_variance(levels[n]) for n in names))
    world = compute_variance_shares(*(_compute_population_variance(levels[n]) for n in names))
    draws = np.empty((resamples, len(SHARE_NAMES)))
    for number in range(resamples):
        parts = [
            estimate_framework_variance(_resample_seeds(levels[name], generator)) for name in names
        ]
        draws[number] = compute_variance_shares(*parts).array
    tail = (1 - confidence) / 2
    below, above = np.nanquantile(draws - world.array, [tail, 1 - tail], axis=0)
    return ShareIntervals(estimate, estimate.array - above, estimate.array - below)


def _resample_seeds(scores: Scores, generator: np.random.Generator) -> Scores:
    return [[generator.choice(group, len(group)) for group in task] for task in scores]


def _compute_population_variance(scores: Scores) -> FrameworkVariance:
    """Return the components of a world in which the observed scores are all there are."""
    between = within = 0.0
    for task in scores:
        means = np.array([group.mean() for group in task])
        between += float(means.var(ddof=1))
        within += float(np.mean([group.var() for group in task]))
    return FrameworkVariance(between, within)


@dataclasses.dataclass(frozen=True)
class CrossedVariance:
    """Variance components of a crossed design of recipes and implementations.

    Attributes:
        recipe: Variance between recipes, averaged over implementations.
        implementation: Variance between implementations, averaged over recipes.
        interaction: Variance that neither explains alone.
        seeds: Variance between seeds of one cell.
    """

    recipe: float
    implementation: float
    interaction: float
    seeds: float


def estimate_crossed_variance(scores: NDArray[np.float64]) -> CrossedVariance:
    """Estimate the components of a balanced two-way layout by its expected mean squares.

    Recipes and implementations are taken as random (Searle, Casella & McCulloch 1992, section
    4.3), so that components are comparable; none is cut at zero.

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
        recipe=float((ms_recipe - ms_interaction) / (implementations * seeds)),
        implementation=float((ms_implementation - ms_interaction) / (recipes * seeds)),
        interaction=float((ms_interaction - ms_seeds) / seeds),
        seeds=float(ms_seeds),
    )


def compute_shapley_values(values: Mapping[frozenset[str], float]) -> dict[str, float]:
    """Divide a gap among changes by their Shapley values.

    The value of a change is its mean contribution over all orders in which the changes are made
    (Shapley 1953). The values add up to the gap between none and all of them.

    Args:
        values: Score by the set of changes that are made; every subset, the empty one too.

    Raises:
        ValueError: A subset is missing.
    """
    names = sorted(set().union(*values))
    if len(values) != 2 ** len(names):
        raise ValueError(f"every subset of {', '.join(names)} needs a value")
    found = {}
    for name in names:
        total = 0.0
        for subset in values:
            if name not in subset:
                size = len(subset)
                weight = _count_orders(size) * _count_orders(len(names) - size - 1)
                total += weight * (values[subset | {name}] - values[subset])
        found[name] = total / _count_orders(len(names))
    return found


def _count_orders(size: int) -> int:
    return int(np.prod(np.arange(1, size + 1, dtype=np.int64)))
