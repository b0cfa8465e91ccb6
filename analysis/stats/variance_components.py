"""Variance components of scores: noise of evaluation episodes against variance between seeds."""

import dataclasses
import math

import numpy as np

from parallax.analysis.stats.moments import FloatArray


@dataclasses.dataclass(frozen=True)
class VarianceComponents:
    """One-way random-effects model: score = mean + seed + noise of the episodes.

    Attributes:
        n: Number of seeds.
        episodes: Episodes per evaluation; the smallest number if seeds differ.
        total: Variance of scores over seeds, s^2: what tests call the variance of seeds.
        noise: Part of it that comes from the finite number of episodes.
        between: `total - noise`, the variance of true scores between seeds; unbiased, and negative
            where chance makes it so.
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
