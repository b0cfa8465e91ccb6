"""Scores as shares of the way from random play to a human."""

from analysis.stats.moments import Floats


def human_normalised(scores: Floats, random: float, human: float) -> Floats:
    """100 (score - random) / (human - random), in percent (Mnih et al., 2015).

    Args:
        scores: float[n].
        random: Score of random play.
        human: Score of a human, another one than that of random play.
    """
    return 100.0 * (scores - random) / (human - random)
