"""Recipes of several frameworks trained in several frameworks.

This separates the effect of a recipe from that of an implementation and measures their interaction,
which levels of alignment cannot.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.data.settings import describe_result_versions, get_requested_settings
from parallax.analysis.labels import get_label
from parallax.analysis.stats.decomposition import (
    CrossedVariance,
    FrameworkVariance,
    RecipeShares,
    estimate_crossed_variance,
    estimate_framework_variance,
    estimate_recipe_shares,
)
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.alignment_levels import (
    LEVELS,
    LevelResults,
    LevelTask,
    find_common_frameworks,
    find_level,
)
from parallax.analysis.verdicts.endpoints import ScoreScale, find_solved_scale
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

_CROSSED_RESAMPLES = 2000
_MIN_CROSSED_SEEDS = 2


@dataclasses.dataclass(frozen=True, eq=False)
class CrossedDesign:
    """Scores of all recipes in all implementations, on one task.

    Attributes:
        scores: float64[recipes, frameworks, seeds], normalized: 0 does nothing, 1 is solved; shares
            of training for endpoints of steps. A failed run has 0.
        low: Lower ends of their 95% bootstrap intervals over seeds, in the order of the
            attributes of `CrossedVariance`.
        shares: Shares of remaining differences; None unless each recipe belongs to a framework.
        requested: Settings of the runs.
        settings: Settings that set it apart from other runs of its task; empty if there are none.
        failed: Number of failed runs among the scores.
        left_out: Number of runs beyond the seeds of the smallest cell.
        has_shares_of_training: Whether the endpoint is one of steps.
        versions: Sentence on packages of which runs have several versions; empty if none.
    """

    algorithm: str
    env: str
    recipes: tuple[str, ...]
    frameworks: tuple[str, ...]
    scores: FloatArray
    variance: CrossedVariance
    low: FloatArray
    high: FloatArray
    shares: RecipeShares | None = None
    requested: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: str = ""
    failed: int = 0
    left_out: int = 0
    has_shares_of_training: bool = False
    versions: str = ""

    @property
    def name(self) -> str:
        """Algorithm and task, and the settings that set it apart."""
        name = f"{get_label(self.algorithm)} on {self.env}"
        return f"{name} ({self.settings})" if self.settings else name


def judge_crossed_designs(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[CrossedDesign, ...]:
    """Judge every task on which two or more recipes of frameworks were run at `exact`.

    Each cell is cut to the number of seeds of the smallest one, so that the layout is balanced.
    Failed runs count as 0. Designs of one task are named by study and variant.
    """
    found: dict[tuple[str, ...], dict[tuple[str, str], ScoreGroup]] = collections.defaultdict(dict)
    names = {group.framework for group in groups}
    for group in sorted(groups, key=lambda one: not one.runs):
        cell = group.cell
        key = (cell.study, cell.algorithm, cell.env, cell.variant)
        is_exact = find_level(group) == "exact" if group.runs else key in found
        if group.n + group.failed >= _MIN_CROSSED_SEEDS and cell.hps in names and is_exact:
            found[key][cell.hps, group.framework] = group
    designs = {key: _judge_design(cells, options) for key, cells in sorted(found.items())}
    judged = {key: design for key, design in designs.items() if design is not None}
    counts = collections.Counter((algorithm, env) for _, algorithm, env, _ in judged)
    return tuple(
        dataclasses.replace(design, settings=", ".join(filter(None, (key[0], key[3]))))
        if counts[key[1], key[2]] > 1
        else design
        for key, design in judged.items()
    )


def _judge_design(
    cells: dict[tuple[str, str], ScoreGroup], options: VerdictOptions
) -> CrossedDesign | None:
    recipes = tuple(sorted({recipe for recipe, _ in cells}))
    frameworks = tuple(sorted({name for _, name in cells}))
    cell = next(iter(cells.values())).cell
    scale = find_solved_scale(cell, options)
    sizes = [group.n + group.failed for group in cells.values()]
    size = min(sizes)
    # A cell without runs makes the layout unbalanced: its recipe or framework has yet to be run.
    if scale is None or min(len(recipes), len(frameworks)) < 2:
        return None
    if len(cells) < len(recipes) * len(frameworks):
        return None
    is_steps = options.chosen_endpoint.is_steps
    if is_steps:  # shares of training, which are on a scale from 0 to 1 already
        scale = dataclasses.replace(scale, zero=0.0, one=1.0)
    ordered = {key: _list_scores(group, scale)[:size] for key, group in cells.items()}
    scores = np.array(
        [[[score for _, score in ordered[one, name]] for name in frameworks] for one in recipes]
    )
    failed = sum(is_failed for items in ordered.values() for (_, is_failed), _ in items)
    run = next(run for group in cells.values() for run in group.runs)
    generator = np.random.default_rng(options.seed)
    low, high = _bootstrap_components(scores, generator)
    estimate = estimate_crossed_variance(scores)
    shares = estimate_recipe_shares(scores, generator) if recipes == frameworks else None
    names = cell.algorithm, cell.env, recipes, frameworks
    return CrossedDesign(
        *names,
        scores,
        estimate,
        low,
        high,
        shares,
        requested=get_requested_settings(run),
        failed=failed,
        left_out=sum(sizes) - size * len(sizes),
        has_shares_of_training=is_steps,
        versions=describe_result_versions(run for one in cells.values() for run in one.runs),
    )


def _list_scores(group: ScoreGroup, scale: ScoreScale) -> list[tuple[tuple[int, bool], float]]:
    """Return seed, whether the run failed, and normalized score of each run, by seed."""
    scores = [*scale.normalize(np.asarray(group.scores)).tolist(), *[0.0] * group.failed]
    runs = [(run.id.seed, False) for run in group.runs]
    runs += [(run.id.seed, True) for run in group.failed_runs]
    keys = [(-1 if seed is None else seed, is_failed) for seed, is_failed in runs]
    return sorted(zip(keys, scores, strict=True))


def _bootstrap_components(
    scores: FloatArray, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return basic bootstrap intervals over seeds (Davison & Hinkley 1997, section 5.2).

    Deviations from the means of cells are scaled so that their variance grows by n / (n - 1), since
    resampling n values makes it too small. The bootstrap treats the observed means as true ones.
    """
    n = scores.shape[2]
    means = scores.mean(axis=2, keepdims=True)
    wide = means + (scores - means) * np.sqrt(n / (n - 1))
    draws = np.empty((_CROSSED_RESAMPLES, 4))
    for number in range(_CROSSED_RESAMPLES):
        places = generator.integers(n, size=scores.shape)
        draws[number] = _to_array(
            estimate_crossed_variance(np.take_along_axis(wide, places, axis=2))
        )
    estimate = _to_array(estimate_crossed_variance(scores))
    # The bootstrap's true means are the observed ones, whose interaction includes seed noise.
    world = estimate + estimate[3] * np.array([0.0, 0.0, 1 / n, 0.0])
    below, above = np.quantile(draws - world, [0.025, 0.975], axis=0)
    return estimate - above, estimate - below


def _to_array(variance: CrossedVariance) -> FloatArray:
    return np.array(dataclasses.astuple(variance), dtype=np.float64)


def exchange_recipe(results: LevelResults, design: CrossedDesign) -> tuple[float, ...]:
    """Return the share at equal hyperparameters, over all tasks, if one task had other recipes.

    Returns:
        The share with each recipe of the design; empty if its task is not in the decomposition, or
        is there with other frameworks or settings than in the design.
    """
    found = results.decomposition
    if found is None:
        return ()
    place = design.algorithm, design.env
    tasks = [task for task in found.tasks if (task.algorithm, task.env) == place]
    levels = LEVELS if found.has_lockstep else LEVELS[:2]
    names = {task: find_common_frameworks(results.by_task[task], levels) for task in found.tasks}
    if len(tasks) != 1 or names[tasks[0]] != sorted(design.frameworks):
        return ()
    if describe_other_settings([results], design):
        return ()

    def estimate(task: LevelTask, level: str) -> FrameworkVariance:
        scores = results.by_task[task][level].scores
        return estimate_framework_variance([[scores[name] for name in names[task]]])

    own = [estimate(task, "defaults") for task in found.tasks]
    total = sum(one.between + one.within for one in own)
    before = estimate(tasks[0], "exact").between
    recipes = (estimate_framework_variance([list(row)]).between for row in design.scores)
    return tuple(found.shares.equal[0] + (one - before) / total for one in recipes)


def describe_other_settings(results: Sequence[LevelResults], design: CrossedDesign) -> str:
    """Describe the settings in which a design differs from the study's runs of its task.

    Returns:
        Empty if runs of the study at `exact` have the same settings, or are of other tasks.
    """
    spreads = [
        levels["exact"]
        for one in results
        for task, levels in one.by_task.items()
        if (task.algorithm, task.env) == (design.algorithm, design.env) and "exact" in levels
    ]
    runs = [next((r for g in one.groups.values() for r in g.runs), None) for one in spreads]
    texts = []
    for own in (get_requested_settings(run) for run in runs if run is not None):
        other = [n for n, v in design.requested.items() if own.get(n, v) != v]
        texts.append(", ".join(f"{n}={design.requested[n]}, not {own[n]}" for n in other))
    return "" if "" in texts or not texts else texts[0]
