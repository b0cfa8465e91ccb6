"""Noise of evaluations: few episodes add variance to that between seeds."""

import collections
import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from parallax.analysis.data.runs import CompletedRun, StudyCell
from parallax.analysis.stats.decomposition import VarianceComponents, estimate_components
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

NEGLIGIBLE_NOISE = 0.1  # of the variance between seeds
MAX_COST = 0.02  # of the time of training
MIN_SEEDS, MIN_EPISODES = 3, 2


@dataclasses.dataclass(frozen=True)
class EvaluationNoise:
    """Evaluation noise in one setting, over its frameworks.

    Attributes:
        components: Means over frameworks, weighted by their degrees of freedom.
        cost: Share of a run's time that its evaluations took; NaN if not recorded.
        proposed: Episodes that make noise less than a tenth of the variance between seeds, or as
            many as cost 2% of training, whichever is less; infinite if neither is known.
        is_limited_by_cost: Whether the cost decided.
    """

    cell: StudyCell
    frameworks: int
    components: VarianceComponents
    cost: float
    proposed: float
    is_limited_by_cost: bool


def measure_evaluation_noise(
    groups: Iterable[ScoreGroup], options: VerdictOptions
) -> tuple[EvaluationNoise, ...]:
    """Measure the evaluation noise of every setting with enough seeds and episodes.

    Args:
        groups: Scores and their runs.
        options: The endpoint; the result is empty for steps to a threshold, which have no model.
    """
    found: dict[StudyCell, list[tuple[VarianceComponents, tuple[CompletedRun, ...]]]] = (
        collections.defaultdict(list)
    )
    for group in groups:
        components = _measure_group(group, options)
        if components is not None:
            found[group.cell].append((components, group.runs))
    return tuple(_combine_components(cell, found[cell]) for cell in sorted(found))


def _measure_group(group: ScoreGroup, options: VerdictOptions) -> VarianceComponents | None:
    endpoint = options.chosen_endpoint
    enough = group.n >= MIN_SEEDS and len(group.runs) == group.n and group.scores is not None
    if endpoint.is_steps or not enough:
        return None
    if min(run.results.shape[1] for run in group.runs) < MIN_EPISODES:
        return None
    assert group.scores is not None
    weights = [endpoint.compute_weights(run.timesteps) for run in group.runs]
    return estimate_components([run.results for run in group.runs], weights, group.scores)


def _combine_components(
    cell: StudyCell, parts: list[tuple[VarianceComponents, tuple[CompletedRun, ...]]]
) -> EvaluationNoise:
    freedom = np.array([part.n - 1 for part, _ in parts], dtype=np.float64)
    total, noise = (
        float(np.average([getattr(part, name) for part, _ in parts], weights=freedom))
        for name in ("total", "noise")
    )
    episodes = min(part.episodes for part, _ in parts)
    both = VarianceComponents(sum(part.n for part, _ in parts), episodes, total, noise)
    shares = [share for _, runs in parts for run in runs if not math.isnan(share := _get_cost(run))]
    cost = float(np.mean(shares)) if shares else math.nan
    needed = both.propose_episodes(NEGLIGIBLE_NOISE)
    # Evaluations took `cost` of a run's time, and their time is proportional to their episodes.
    most = math.floor(episodes * MAX_COST * (1 - cost) / cost) if cost > 0 else math.inf
    limited = max(most, episodes) < needed
    return EvaluationNoise(
        cell, len(parts), both, cost, max(most, episodes) if limited else needed, limited
    )


def _get_cost(run: CompletedRun) -> float:
    """Compute the share of the run's time that evaluations took; NaN if unknown."""
    if math.isnan(run.seconds) or not run.seconds or math.isnan(run.evaluation_seconds):
        return math.nan
    return min(1.0, run.evaluation_seconds / run.seconds)
