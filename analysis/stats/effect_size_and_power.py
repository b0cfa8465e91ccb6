"""Effect sizes with intervals, and the number of seeds needed to decide a comparison.

Hedges' g and the probability of improvement; power assumes that the measured means and deviations
are the true ones.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from parallax.analysis.stats.moments import Z_975, FloatArray, SampleMoments
from parallax.analysis.stats.unobserved_failures import compute_unobserved_allowance


def compute_hedges_g(
    first: SampleMoments, second: SampleMoments
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the difference in pooled standard deviations, for small samples, with its interval.

    Correction and variance after Hedges (1981) and Hedges and Olkin (1985); the interval uses
    Student's t quantile in place of the normal one.

    Args:
        first: Moments of n values each.
        second: Moments of m values each, of the same shape.

    Returns:
        g, low and high, each float[...]; infinite where both samples are constant and differ,
        NaN where either has fewer than two values.
    """
    n, m = first.n, second.n
    freedom = n + m - 2
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = np.sqrt(((n - 1) * first.sd**2 + (m - 1) * second.sd**2) / freedom)
        gap = first.mean - second.mean
        # Rounding errors must not turn equal constants into an effect.
        d = np.where((pooled == 0) & (gap == 0), 0.0, gap / pooled)
        # J(f) = Gamma(f / 2) / (sqrt(f / 2) Gamma((f - 1) / 2)) of Hedges (1981), by logarithms,
        # because Gamma overflows from f = 344 on.
        correction = np.exp(
            special.gammaln(freedom / 2)
            - special.gammaln((freedom - 1) / 2)
            - np.log(freedom / 2) / 2
        )
        g = correction * d
        variance = (n + m) / (n * m) + g**2 / (2 * (n + m))
        half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
        low, high = np.where(np.isinf(g), g, g - half), np.where(np.isinf(g), g, g + half)
    return np.asarray(g), low, high


def improvement_from_samples(first: FloatArray, second: FloatArray) -> float:
    """Compute the share of pairs in which the first value is larger; ties count half.

    That is the Mann-Whitney statistic divided by n m.

    Args:
        first: float[n], n at least 1.
        second: float[m], m at least 1.
    """
    return float((np.sign(np.subtract.outer(first, second)).mean() + 1) / 2)


def improvement_from_moments(first: SampleMoments, second: SampleMoments) -> FloatArray:
    """Compute the chance that a value of the first is larger, for normal values."""
    spread = np.sqrt(first.sd**2 + second.sd**2)
    gap = first.mean - second.mean
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((spread == 0) & (gap == 0), 0.0, gap / spread)
    return np.asarray(stats.norm.cdf(ratio))


def compute_improvement_interval(
    theta: ArrayLike, n: ArrayLike, m: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return the 95% interval for a probability of improvement.

    Newcombe's method 5 (Statistics in Medicine 25, 2006, 559-573): each end is 1.96 standard
    errors from the estimate, with the standard error computed at that end. The interval does
    not shrink to a point where one sample lies wholly above the other.

    Args:
        theta: float[...], estimates in [0, 1].
        n: float[...], size of the first sample, at least 2.
        m: float[...], size of the second.

    Returns:
        low and high, each float[...].
    """
    estimate, n, m = (np.asarray(item, dtype=np.float64) for item in (theta, n, m))
    return _solve_newcombe_end(estimate, n, m, 0.0), _solve_newcombe_end(estimate, n, m, 1.0)


def _solve_newcombe_end(
    estimate: FloatArray, n: FloatArray, m: FloatArray, outer: float
) -> FloatArray:
    inside, outside = estimate.copy(), np.full(estimate.shape, outer)
    inner_size = (n + m) / 2 - 1
    for _ in range(60):
        middle = (inside + outside) / 2
        # Hanley and McNeil's variance (1982), with (n + m) / 2 in place of both sizes.
        bend = (1 - middle) / (2 - middle) + middle / (1 + middle)
        variance = middle * (1 - middle) * (1 + inner_size * bend) / (n * m)
        near = (middle - estimate) ** 2 <= Z_975**2 * variance
        inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
    return np.where(np.isnan(estimate), np.nan, (inside + outside) / 2)


DEFAULT_POWER = 0.8
MAX_SEEDS = 1000
_LARGE_SHIFT = 1000.0  # standard errors; scipy's series are slow far beyond
MIN_PERMUTATION_SEEDS = 4  # of 8 values there are 70 splits, of 6 only 20


def compute_difference_power(
    gap: ArrayLike, sds: tuple[ArrayLike, ArrayLike], n: ArrayLike, alpha: ArrayLike
) -> FloatArray:
    """Compute the power of Welch's two-sided test for a true difference.

    From the noncentral t distribution with Satterthwaite's degrees of freedom.

    Args:
        gap: float[...], true difference of means.
        sds: The two true standard deviations, each float[...].
        n: float[...], seeds per framework, at least 2.
        alpha: float[...], level of the test.
    """
    error, freedom = _compute_standard_error(sds, n)
    critical = stats.t.isf(np.asarray(alpha) / 2, freedom)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.abs(gap) / error
    near = np.minimum(shift, _LARGE_SHIFT)
    # scipy returns NaN for the tail on the other side where it is almost 0.
    wrong_side = np.nan_to_num(stats.nct.cdf(-critical, freedom, near))
    power = np.minimum(stats.nct.sf(critical, freedom, near) + wrong_side, 1.0)
    # Far from 0 only the estimated deviation varies, whose square is chi-square / freedom.
    far = stats.chi2.cdf(freedom * (shift / critical) ** 2, freedom)
    power = np.where(shift > _LARGE_SHIFT, far, power)
    # Constant samples: they differ with certainty, or not at all.
    return np.asarray(np.where(error == 0, np.asarray(gap) != 0, power), np.float64)


def compute_equivalence_power(
    gap: ArrayLike,
    sds: tuple[ArrayLike, ArrayLike],
    n: ArrayLike,
    alpha: ArrayLike,
    margin: ArrayLike,
    rooms: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
) -> FloatArray:
    """Compute the power to show that a true difference is within the margin.

    By two one-sided tests and the bound of `stats.unobserved_failures`.

    Args:
        gap: float[...], true difference of means.
        sds: The two true standard deviations, each float[...].
        n: float[...], seeds per framework, at least 2.
        alpha: float[...], level of the test.
        margin: float[...], largest difference that counts as equivalent.
        rooms: Largest distance of an unobserved run from each mean, float[...] each; infinite if
            unknown, 0 for two one-sided tests alone.
    """
    error, freedom = _compute_standard_error(sds, n)
    known = np.isfinite(rooms[0]) & np.isfinite(rooms[1])
    lower, upper = (np.where(known, room, 0.0) for room in rooms)
    hidden = compute_unobserved_allowance(n, alpha, (lower, upper))
    with np.errstate(divide="ignore", invalid="ignore"):
        critical = np.where(error == 0, 0.0, stats.t.isf(np.asarray(alpha), freedom) * error)
        # The squares of quantiles of independent parts approximately add up.
        critical = np.maximum(critical, np.hypot(hidden, stats.norm.isf(alpha) * error))
        # Power at the nearer end of the margin, minus the chance to fail at the farther end.
        near = (np.asarray(margin) - np.abs(gap) - critical) / error
        far = (np.asarray(margin) + np.abs(gap) - critical) / error
    power = np.maximum(0.0, stats.t.cdf(near, freedom) + stats.t.cdf(far, freedom) - 1)
    sure = np.abs(gap) + critical < np.asarray(margin)
    return np.where(known, np.where(error == 0, sure, power), 0.0).astype(np.float64)


def estimate_seeds_needed(
    gap: FloatArray,
    sds: tuple[FloatArray, FloatArray],
    alpha: FloatArray,
    margin: FloatArray,
    power: float = DEFAULT_POWER,
    rooms: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
    grid: FloatArray | None = None,
) -> FloatArray:
    """Return seeds per framework at which a verdict (different or equivalent) is likely.

    Args:
        gap: float[k], differences of means.
        sds: The two standard deviations, each float[k].
        alpha: float[k], levels of the tests.
        margin: float[k], margins of equivalence.
        power: Requested probability of a verdict.
        rooms: Largest distance of an unobserved run from each mean, float[k] each.
        grid: Sizes to choose from, increasing; if None, every size up to 50, then in steps.

    Returns:
        float[k], whole numbers up to `MAX_SEEDS`; infinite where more are needed, NaN
        where a deviation is not known.
    """
    sizes = _make_size_grid() if grid is None else grid
    n = sizes.reshape((len(sizes), 1))
    # With fewer seeds, no permutation test of two samples is significant at 5%.
    found = np.where(n < MIN_PERMUTATION_SEEDS, 0.0, compute_difference_power(gap, sds, n, alpha))
    chance = np.maximum(found, compute_equivalence_power(gap, sds, n, alpha, margin, rooms))
    enough = chance >= power
    needed = np.where(enough.any(axis=0), sizes[enough.argmax(axis=0)], np.inf)
    return np.where(np.isnan(gap) | np.isnan(sds[0]) | np.isnan(sds[1]), np.nan, needed)


def estimate_seed_range(
    pair: tuple[SampleMoments, SampleMoments],
    alpha: float,
    margin: float,
    rng: np.random.Generator,
    power: float = DEFAULT_POWER,
    rooms: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, float]:
    """Estimate the 80% range of the seeds needed, from the uncertainty of the measured values.

    True means and deviations are drawn given the measured ones of normal samples, and the seeds
    needed are estimated for each draw.

    Args:
        pair: Moments of the scores of the two frameworks, one number each.
        alpha: Level of the tests.
        margin: Margin of equivalence.
        rng: Source of the draws.
        power: Requested probability of a verdict.
        rooms: Largest distance of an unobserved run from each mean.

    Returns:
        Low and high end; infinite above `MAX_SEEDS`, NaN if a deviation is unknown or if the
        values of each sample are all equal.
    """
    means, sds, sizes = ([float(getattr(x, name)) for x in pair] for name in ("mean", "sd", "n"))
    if not np.isfinite([*means, *sds]).all() or min(sizes) < 2 or not any(sds):
        return float("nan"), float("nan")
    # (n - 1) s^2 / sigma^2 of a normal sample has a chi-square distribution (n - 1).
    drawn = [
        sd * np.sqrt((n - 1) / rng.chisquare(n - 1, _DRAWS))
        for sd, n in zip(sds, sizes, strict=True)
    ]
    error = np.sqrt(sum(sd**2 / n for sd, n in zip(drawn, sizes, strict=True)))
    gaps = means[0] - means[1] + error * rng.standard_normal(_DRAWS)
    same = np.full(_DRAWS, 1.0)
    needed = estimate_seeds_needed(
        gaps,
        (drawn[0], drawn[1]),
        same * alpha,
        same * margin,
        power,
        (same * rooms[0], same * rooms[1]),
        _COARSE_GRID,
    )
    # Quantiles without interpolation: some draws need infinitely many seeds.
    low, high = np.quantile(needed, _SEED_RANGE_QUANTILES, method="inverted_cdf")
    return float(low), float(high)


_SEED_RANGE_QUANTILES = (0.1, 0.9)
_DRAWS = 200
_COARSE_GRID = np.unique(np.round(np.geomspace(2, MAX_SEEDS, 60)))


def _make_size_grid() -> FloatArray:
    """Return every size up to 50, then steps of about 3%: estimates are not more precise."""
    coarse = np.unique(np.ceil(np.geomspace(50, MAX_SEEDS, 100)))
    return np.concatenate([np.arange(2.0, 50.0), coarse])


def _compute_standard_error(
    sds: tuple[ArrayLike, ArrayLike], n: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    first, second = (np.asarray(sd, dtype=np.float64) ** 2 / np.asarray(n) for sd in sds)
    total = first + second
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (np.asarray(n) - 1) * total**2 / (first**2 + second**2)
    return np.sqrt(total), np.where(total == 0, np.inf, freedom)
