"""Spread between frameworks at each level of alignment, and its decomposition.

The question is how much of the difference between frameworks comes from hyperparameters, how much
from code and how much from seeds. It needs runs of the same tasks at `defaults`, `exact` and
`lockstep`.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.data.settings import (
    COMPARED_SETTINGS,
    EVAL_EPISODES,
    get_requested_hyperparameters,
    get_requested_settings,
)
from parallax.analysis.labels import get_label, group_items, split_variant
from parallax.analysis.stats.decomposition import (
    FrameworkVariance,
    ShareIntervals,
    compute_framework_p,
    compute_paired_framework_p,
    compute_spread_interval,
    decompose_spread,
    estimate_framework_variance,
)
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.stats.learning_curves import Endpoint, find_first_reach
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.stats.survival import CensoredTimes, compute_permuted_log_rank_p
from parallax.analysis.verdicts.endpoints import ScoreScale, find_solved_scale
from parallax.analysis.verdicts.groups import GroupKey, ScoreGroup, average_episodes
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.references import find_references

LEVELS = ("defaults", "exact", "lockstep")
"""Levels of the decomposition, ordered by how much is equal between frameworks."""
COMPARED_LEVEL = "exact"
"""Level at which frameworks are compared for a choice: equal hyperparameters."""
DIFFERENCE_ALPHA = 0.05
"""Significance level at which frameworks are said to differ in a level."""
SECONDARY_ENDPOINT = "last-3"
"""Endpoint for which shares are computed again, as a check."""
MIN_SEEDS = 2
_LEVEL_FIELDS = ("alignment", "steps", "intervention", "replay")  # of a level, or of its task
REACHED_SHARE = 0.9
"""Share of the way from doing nothing (0) to a solved task (1) at which a run is nearly solved."""
_OPTIONS = tuple(name for name in (*COMPARED_SETTINGS, EVAL_EPISODES) if name not in _LEVEL_FIELDS)
LATE_EVALUATIONS = 3
"""Evaluations at the end of a run that are compared with as many before them."""


@dataclasses.dataclass(frozen=True, order=True)
class LevelTask:
    """A task and algorithm that frameworks were trained on at several levels.

    Attributes:
        length: Environment steps of the runs.
        settings: Recipe and options of the runs where others of the study differ in them.
    """

    study: str
    algorithm: str
    env: str
    length: int
    settings: str = ""

    @property
    def name(self) -> str:
        """Algorithm and task, as pages name them."""
        name = f"{get_label(self.algorithm)} on {self.env}"
        return f"{name} ({self.settings})" if self.settings else name


@dataclasses.dataclass(frozen=True, eq=False)
class LevelSpread:
    """Scores of all frameworks in one task at one level.

    Attributes:
        scale: Scores that become 0 and 1; None if no solved score of the task is known.
        scores: Normalized scores by framework, float64[n]: 0 does nothing, 1 solves the task.
            A run that failed has 0.
        learned: Number of runs by framework whose final return exceeds that of every policy
            without training by the margin of equivalence.
        variance: Variance components; None with fewer than two frameworks of two seeds.
        interval: Bootstrap interval of `spread`; NaN without `variance`.
        p: p-value of "all frameworks score alike" (F test, runs permuted within each seed, or
            freely if frameworks have no two seeds in common); NaN without `variance`.
    """

    task: LevelTask
    level: str
    cell: StudyCell
    scale: ScoreScale | None
    scores: Mapping[str, FloatArray]
    groups: Mapping[str, ScoreGroup]
    learned: Mapping[str, int]
    variance: FrameworkVariance | None
    interval: tuple[float, float] = (np.nan, np.nan)
    p: float = np.nan

    @property
    def spread(self) -> float:
        """Standard deviation between the frameworks' expected scores; 0 if none is found."""
        return float(np.sqrt(max(self.variance.between, 0.0))) if self.variance else np.nan

    @property
    def n(self) -> int:
        """Number of runs with a score, failed ones included."""
        return sum(map(len, self.scores.values()))

    def format_sizes(self) -> str:
        """Return the number of runs of each framework, such as `n = 3 each`."""
        sizes = sorted({len(values) for values in self.scores.values()})
        if len(sizes) == 1:
            return f"n = {sizes[0]} each"
        return f"n = {sizes[0]} to {sizes[-1]} each" if sizes else "n = 0"


@dataclasses.dataclass(frozen=True, eq=False)
class LevelDecomposition:
    """Shares of hyperparameters, code and seeds in the variance of scores.

    Attributes:
        tasks: Tasks with runs of the same frameworks at all levels.
        frameworks: Frameworks in any of these tasks.
        has_lockstep: Whether there are runs at `lockstep`; without them code is not separated
            from what remains between frameworks with equal updates.
        shares: Over all tasks, with intervals.
        alone: Shares of each task by itself, and its part of the variance of all tasks.
        by_algorithm: Shares of the tasks of an algorithm with several, and of all others.
        equal_weights: Shares where every task has the same variance at own hyperparameters.
        without_most_influential: Shares of the tasks of each algorithm in `by_algorithm` without
            `most_influential`.
    """

    tasks: tuple[LevelTask, ...]
    frameworks: tuple[str, ...]
    has_lockstep: bool
    shares: ShareIntervals
    without_framework: Mapping[str, ShareIntervals]
    without_task: Mapping[LevelTask, ShareIntervals]
    alone: Mapping[LevelTask, tuple[ShareIntervals, float]] = dataclasses.field(
        default_factory=dict
    )
    by_algorithm: Mapping[str, tuple[ShareIntervals, ShareIntervals]] = dataclasses.field(
        default_factory=dict
    )
    equal_weights: ShareIntervals | None = None
    without_most_influential: Mapping[str, ShareIntervals] = dataclasses.field(default_factory=dict)

    @property
    def most_influential(self) -> str:
        """Framework without which the share at equal hyperparameters changes most."""
        changes = {
            name: abs(one.equal[0] - self.shares.equal[0])
            for name, one in self.without_framework.items()
            if not np.isnan(one.equal[0])
        }
        return max(changes, key=lambda name: changes[name], default="")

    @property
    def most_frequent_algorithm(self) -> str:
        """Algorithm with the most tasks, of those in `by_algorithm`."""
        counts = collections.Counter(task.algorithm for task in self.tasks)
        return max(self.by_algorithm, key=lambda one: counts[one])


@dataclasses.dataclass(frozen=True, eq=False)
class LevelResults:
    """Results on the levels of alignment of one study, as pages and figures show them.

    Attributes:
        decomposition: Shares by the study's endpoint; None where the runs do not allow them.
        secondary: The same by `SECONDARY_ENDPOINT`.
    """

    spreads: tuple[LevelSpread, ...]
    decomposition: LevelDecomposition | None
    secondary: LevelDecomposition | None
    endpoint: str

    @property
    def by_task(self) -> dict[LevelTask, dict[str, LevelSpread]]:
        """Levels of each task, in order."""
        return index_by_task(self.spreads)

    @property
    def frameworks(self) -> list[str]:
        """All frameworks with a run."""
        return sorted({name for spread in self.spreads for name in spread.groups})


def judge_alignment_levels(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[LevelResults, ...]:
    """Judge every study with runs at more than one level."""
    spreads = list_level_spreads(groups, options)
    if not spreads:
        return ()
    secondary = list_level_spreads(
        [_rescore_group(one) for one in groups if one.runs or one.failed],
        dataclasses.replace(options, endpoint=SECONDARY_ENDPOINT),
    )
    found = []
    for study in sorted({spread.task.study for spread in spreads}):
        own, other = (
            tuple(spread for spread in items if spread.task.study == study)
            for items in (spreads, secondary)
        )
        generator = np.random.default_rng(options.seed)
        found.append(
            LevelResults(
                tuple(_add_interval(spread, generator) for spread in own),
                decompose_levels(own, generator),
                decompose_levels(other, generator),
                options.chosen_endpoint.description,
            )
        )
    return tuple(found)


def index_by_task(spreads: Sequence[LevelSpread]) -> dict[LevelTask, dict[str, LevelSpread]]:
    """Return the levels of each task, in order."""
    by_task: dict[LevelTask, dict[str, LevelSpread]] = collections.defaultdict(dict)
    for spread in sorted(spreads, key=lambda one: (one.task, LEVELS.index(one.level))):
        by_task[spread.task][spread.level] = spread
    return dict(by_task)


def _rescore_group(group: ScoreGroup) -> ScoreGroup:
    endpoint = Endpoint(SECONDARY_ENDPOINT)
    return group.replace_scores(
        endpoint.score(run.timesteps, average_episodes(run)) for run in group.runs
    )


def collect_reaching_times(
    group: ScoreGroup, spread: LevelSpread, *, with_failed_runs: bool = True
) -> CensoredTimes | None:
    """Collect the steps at which the runs of a framework first were nearly solved.

    Returns:
        A run that was never nearly solved is censored at its end, a failed run at the full length.
        None without a known scale or without a run.
    """
    if spread.scale is None or not group.n + with_failed_runs * group.failed:
        return None
    threshold = spread.scale.zero + REACHED_SHARE * spread.scale.width
    pairs = [
        find_first_reach(run.timesteps, average_episodes(run), threshold) for run in group.runs
    ]
    failed = [(float(spread.task.length), False)] * (group.failed if with_failed_runs else 0)
    return CensoredTimes.from_pairs([*pairs, *failed])


def compute_late_rise(spread: LevelSpread) -> ConfidenceInterval:
    """Return how much normalized returns still rise at the end of the runs, with a t interval.

    The rise is the mean of the last `LATE_EVALUATIONS` evaluations minus that of as many before
    them. It is 0 in a flat curve. Frameworks are averaged for each seed before the interval over
    seeds is computed, since their evaluations of a seed start in the same states. Runs with fewer
    evaluations, and all without a scale, are left out.
    """
    rises: dict[int | None, list[float]] = collections.defaultdict(list)
    for group in spread.groups.values():
        for run in group.runs:
            returns = average_episodes(run)[-2 * LATE_EVALUATIONS :]
            if spread.scale and len(returns) == 2 * LATE_EVALUATIONS:
                before, last = returns.reshape(2, -1).mean(axis=1)
                rises[run.id.seed].append((last - before) / spread.scale.width)
    return compute_interval([float(np.mean(values)) for values in rises.values()])


@dataclasses.dataclass(frozen=True)
class ReachingTest:
    """Test of whether frameworks differ in when their runs are first nearly solved.

    Attributes:
        runs: Number of runs, failed ones included.
        p: p-value of the permuted log-rank test over all frameworks; NaN if too few have runs.
    """

    reached: int
    runs: int
    p: float


def compare_reaching_times(spread: LevelSpread, rng: np.random.Generator) -> ReachingTest:
    """Compare the frameworks of one task and level by a log-rank test."""
    found = [collect_reaching_times(group, spread) for group in spread.groups.values()]
    samples = [sample for sample in found if sample is not None]
    return ReachingTest(
        sum(int(sample.reached.sum()) for sample in samples),
        sum(len(sample.times) for sample in samples),
        compute_permuted_log_rank_p(samples, rng) if samples else np.nan,
    )


def list_level_spreads(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[LevelSpread, ...]:
    """List the scores of all tasks and levels of studies with more than one level.

    Runs with their own interventions or with other replay strategies belong to no level. Runs of
    different recipes or options are different tasks. A framework all of whose runs failed is at the
    level of the others with its options.
    """
    found: dict[tuple[LevelTask, str], list[ScoreGroup]] = collections.defaultdict(list)
    levels: dict[StudyCell, tuple[LevelTask, str]] = {}
    tasks = _make_tasks([group for group in groups if group.runs and find_level(group)])
    for group in sorted(groups, key=lambda one: not one.runs):
        place = dataclasses.replace(group.cell, hps="")
        level = find_level(group) if group.runs else None
        if level is not None:
            levels[place] = tasks[group.key], level
        if place in levels and (group.runs or group.failed):
            found[levels[place]].append(group)
    levels_by_study: dict[str, set[str]] = collections.defaultdict(set)
    for task, level in found:
        levels_by_study[task.study].add(level)
    return tuple(
        _make_spread(task, level, found[task, level], options)
        for task, level in sorted(found, key=lambda key: (key[0], LEVELS.index(key[1])))
        if len(levels_by_study[task.study]) > 1
    )


def find_level(group: ScoreGroup) -> str | None:
    """Return the level of alignment of a group with runs.

    Returns:
        None for runs with interventions or other replay strategies, and for other levels.
    """
    spec = group.runs[0].spec
    level, changed = spec.get("alignment"), spec.get("intervention", "none") != "none"
    replay = spec.get("replay") or {}
    is_uniform = not isinstance(replay, Mapping) or replay.get("name", "uniform") == "uniform"
    return str(level) if level in LEVELS and not changed and is_uniform else None


def _make_tasks(groups: Sequence[ScoreGroup]) -> dict[GroupKey, LevelTask]:
    """Return the task of each group; tasks of several recipes or options are named by them."""
    by_task = group_items(groups, _make_task)
    found: dict[GroupKey, LevelTask] = {}
    for task, members in by_task.items():
        options = {group.key: _describe_options(group) for group in members}
        # Frameworks have their own recipes at `defaults`.
        recipes = {
            group.key: _describe_recipe(group)
            for group in members
            if find_level(group) != "defaults"
        }
        has_options, has_recipes = (len(set(one.values())) > 1 for one in (options, recipes))
        for key, text in options.items():
            parts = [text] if has_options else []
            parts += [recipes[key]] if has_recipes and key in recipes else []
            found[key] = dataclasses.replace(task, settings=", ".join(parts))
    return found


def _make_task(group: ScoreGroup) -> LevelTask:
    cell = group.cell
    return LevelTask(cell.study, cell.algorithm, cell.env, int(group.runs[0].spec["steps"]))


def _describe_options(group: ScoreGroup) -> str:
    settings = get_requested_settings(group.runs[0])
    return ", ".join(f"{name}={settings[name]}" for name in _OPTIONS if name in settings)


def _describe_recipe(group: ScoreGroup) -> str:
    """Return the recipe of a group with runs, and the hyperparameters that its variant names."""
    parts = split_variant(group.cell.variant)
    fields = get_requested_hyperparameters(group.runs[0])
    values = [part for part in parts if part.partition("=")[0] in fields]
    return ", ".join([f"hps={group.cell.hps}", *values])


def _make_spread(
    task: LevelTask, level: str, groups: Sequence[ScoreGroup], options: VerdictOptions
) -> LevelSpread:
    scale = find_solved_scale(groups[0].cell, options)
    # Endpoints of steps give shares of training, which are on a scale from 0 to 1 already.
    zero, width = (
        (0.0, 1.0) if options.chosen_endpoint.is_steps or not scale else (scale.zero, scale.width)
    )
    scores = {
        group.framework: np.append(
            (np.asarray(group.scores) - zero) / width, np.zeros(group.failed)
        )
        for group in groups
        if scale is not None and group.scores is not None and len(group.scores) + group.failed
    }
    several = [values for values in scores.values() if len(values) >= MIN_SEEDS]
    variance = estimate_framework_variance([several]) if len(several) > 1 else None
    return LevelSpread(
        task,
        level,
        groups[0].cell,
        scale,
        scores,
        {g.framework: g for g in groups},
        {g.framework: _count_learned_runs(g, scale, options) for g in groups},
        variance,
    )


def _count_learned_runs(
    group: ScoreGroup, scale: ScoreScale | None, options: VerdictOptions
) -> int:
    if scale is None:
        return 0
    least = max([scale.zero, *(one.mean for one in find_references(group.cell, group.runs))])
    least += options.margin_share * scale.width
    return sum(run.final_score > least for run in group.runs)


def _add_interval(spread: LevelSpread, generator: np.random.Generator) -> LevelSpread:
    several = [values for values in spread.scores.values() if len(values) >= MIN_SEEDS]
    if spread.variance is None:
        return spread
    interval = compute_spread_interval([several], generator)
    paired = pair_by_seed(spread)
    if len(paired) >= MIN_SEEDS:
        p = compute_paired_framework_p(paired, generator)
    else:
        p = compute_framework_p(several, generator)
    return dataclasses.replace(spread, interval=interval, p=p)


def pair_by_seed(spread: LevelSpread, frameworks: Sequence[str] = ()) -> FloatArray:
    """Return the scores of seeds that all frameworks with two seeds have, or those named.

    Returns:
        float64[seeds, frameworks]; a failed run has 0.
    """
    found: list[dict[int | None, float]] = []
    for name in frameworks or spread.scores:
        scores = spread.scores.get(name, np.empty(0))
        if frameworks or len(scores) >= MIN_SEEDS:
            group = spread.groups[name]
            seeds = [*group.seeds, *(run.id.seed for run in group.failed_runs)]
            found.append(dict(zip(seeds, scores.tolist(), strict=False)))
    common = set.intersection(*map(set, found)) - {None} if found else set()
    rows = [[one[seed] for one in found] for seed in sorted(common, key=str)]
    return np.array(rows).reshape(len(rows), len(found))


def decompose_levels(
    spreads: Sequence[LevelSpread], generator: np.random.Generator, resamples: int = 10_000
) -> LevelDecomposition | None:
    """Decompose the variance of scores over the tasks that were trained at all levels.

    If no task was trained at `lockstep`, tasks at `defaults` and `exact` are decomposed without
    it. A framework without two seeds at each level of a task is left out of that task. A task is
    left out if fewer than two thirds of its frameworks remain, such as while runs are missing.

    Returns:
        None if no task remains, or all scores are equal.
    """
    by_task = index_by_task(spreads)
    levels: Sequence[str] = LEVELS
    names = _find_decomposed_tasks(by_task, levels)
    if not names:
        levels = LEVELS[:2]
        names = _find_decomposed_tasks(by_task, levels)
    if not names:
        return None

    def list_scores(task: LevelTask, level: str, without: str = "") -> list[FloatArray]:
        return [by_task[task][level].scores[name] for name in names[task] if name != without]

    def decompose(
        tasks: Sequence[LevelTask], without: str = "", units: Mapping[LevelTask, float] = {}
    ) -> ShareIntervals:
        scores = {
            level: [
                [one / units.get(task, 1.0) for one in list_scores(task, level, without)]
                for task in tasks
            ]
            for level in levels
        }
        return decompose_spread(scores, generator, resamples=resamples)

    tasks = sorted(names)
    frameworks = sorted(set().union(*names.values()))
    # Without one framework, two must be left: one alone has no spread.
    is_robust = min(map(len, names.values())) > 2
    shares = decompose(tasks)
    if np.isnan(shares.shares.hyperparameters):
        return None
    own = {task: estimate_framework_variance([list_scores(task, "defaults")]) for task in tasks}
    totals = {task: one.between + one.within for task, one in own.items()}
    units = {task: float(np.sqrt(total)) for task, total in totals.items() if total > 0}
    found = LevelDecomposition(
        tuple(tasks),
        tuple(frameworks),
        len(levels) == len(LEVELS),
        shares,
        {name: decompose(tasks, name) for name in frameworks if is_robust},
        {
            task: decompose([other for other in tasks if other != task])
            for task in tasks
            if len(tasks) > 1
        },
        {task: (decompose([task]), totals[task] / sum(totals.values())) for task in tasks},
        {
            algorithm: (decompose(items), decompose([one for one in tasks if one not in items]))
            for algorithm, items in group_items(tasks, lambda task: task.algorithm).items()
            if 1 < len(items) < len(tasks)
        },
        decompose(tasks, units=units) if len(tasks) > 1 else None,
    )
    if not found.most_influential:
        return found
    without = {
        algorithm: decompose(
            [task for task in tasks if task.algorithm == algorithm], found.most_influential
        )
        for algorithm in found.by_algorithm
    }
    return dataclasses.replace(found, without_most_influential=without)


def _find_decomposed_tasks(
    by_task: Mapping[LevelTask, Mapping[str, LevelSpread]], levels: Sequence[str]
) -> dict[LevelTask, list[str]]:
    """Return the tasks with runs at some levels, each with its frameworks."""
    found = {task: find_common_frameworks(one, levels) for task, one in by_task.items()}
    return {task: names for task, names in found.items() if names}


def find_common_frameworks(found: Mapping[str, LevelSpread], levels: Sequence[str]) -> list[str]:
    """Return the frameworks with two seeds at each of some levels of a task.

    Returns:
        Empty if there are fewer than two, or fewer than two thirds of those of the task.
    """
    every = sorted({name for spread in found.values() for name in spread.groups})
    names = [
        name
        for name in every
        if all(
            level in found and len(found[level].scores.get(name, ())) >= MIN_SEEDS
            for level in levels
        )
    ]
    return names if len(names) >= max(2, 2 * len(every) / 3) else []
