"""Tables for choosing a framework: runs that learned, steps and time, at equal hyperparameters."""

import collections
import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from parallax.analysis.figures.alignment_levels import LEVEL_LABELS
from parallax.analysis.labels import MISSING, format_count, get_label
from parallax.analysis.report.document import Block, Code, Grid, Listing, Words, join_words
from parallax.analysis.report.tables import format_bare_p_value
from parallax.analysis.stats.learning_curves import compute_steps_to_threshold
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.survival import estimate_survival
from parallax.analysis.verdicts.alignment_levels import (
    COMPARED_LEVEL,
    DIFFERENCE_ALPHA,
    LEVELS,
    REACHED_SHARE,
    LevelResults,
    LevelSpread,
    collect_reaching_times,
    compare_reaching_times,
)
from parallax.analysis.verdicts.code_differences import list_remaining_differences
from parallax.analysis.verdicts.groups import ScoreGroup, average_episodes

CHOICE_HEADING = "Which framework? All of them at equal hyperparameters"
_MAX_NOT_LEARNED = 0.1  # of a framework's runs, rounded, for it to count as converging on a task


def make_choice_blocks(results: LevelResults) -> tuple[Block, ...]:
    """Return one table per algorithm for a reader who chooses a framework."""
    by_algorithm: dict[str, list[dict[str, LevelSpread]]] = collections.defaultdict(list)
    for task, levels in results.by_task.items():
        if COMPARED_LEVEL in levels:
            by_algorithm[task.algorithm].append(levels)
    if not by_algorithm:
        return ("There are no runs at equal hyperparameters.",)
    rows: list[tuple[Words, ...]] = []
    for algorithm, tasks in by_algorithm.items():
        names = sorted({name for levels in tasks for name in levels[COMPARED_LEVEL].groups})
        steps = _compare_frameworks(_measure_tasks(tasks, _compute_median_steps), names)
        timed = _measure_tasks(tasks, _compute_mean_cpu_seconds)
        cpu = _compare_frameworks(timed, names)
        for name in names:
            rows.append(
                (
                    get_label(algorithm),
                    get_label(name),
                    _count_converged(tasks, name),
                    _format_ratio(steps[name]),
                    _format_cpu_ratio(cpu[name], timed, name),
                    _list_code_differences(algorithm, name, tasks),
                )
            )
    heads = ("algorithm", "framework", "runs that learned", "steps to 90%", "CPU time")
    return (
        Grid((*heads, "removed differences"), tuple(rows)),
        "A framework has learned a task if at most a tenth of its runs (rounded to whole runs) did "
        "not learn. "
        "Steps to 90%: steps until an evaluation first reaches 90% of the way to solved, median "
        "over seeds; a dash means that more than half of the runs on a task do not reach it. CPU "
        "time: training without evaluations, mean over runs that recorded it; a dash means that "
        "none did. Both are divided by the median framework's value, so that 1.0 is typical. Tasks "
        "where half of the frameworks or more have no value are left out. Removed differences: "
        "known differences in code, by the interventions that remove them at the level of equal "
        "update code. They need not change a score.",
    )


TaskMeasure = tuple[LevelSpread, dict[str, float]]
"""A task at equal hyperparameters, and a quantity of each framework."""


def _measure_tasks(
    tasks: Sequence[Mapping[str, LevelSpread]], measure: Callable[[ScoreGroup, LevelSpread], float]
) -> list[TaskMeasure]:
    """Return a quantity on the tasks where the median framework has a value.

    Older runs have no CPU time, and some tasks are too hard for most frameworks.
    """
    found = []
    for levels in tasks:
        spread = levels[COMPARED_LEVEL]
        values = {name: measure(group, spread) for name, group in spread.groups.items()}
        if sum(map(math.isfinite, values.values())) > len(values) / 2:
            found.append((spread, values))
    return found


def _compare_frameworks(tasks: Sequence[TaskMeasure], names: Sequence[str]) -> dict[str, float]:
    """Return the geometric mean over tasks of a measure relative to the median framework's."""
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for _, values in tasks:
        median = float(np.median([one for one in values.values() if math.isfinite(one)]))
        for name, value in values.items():
            ratios[name].append(value / median)
    return {
        name: float(np.exp(np.mean(np.log(values)))) if values else math.nan
        for name, values in ratios.items()
    }


def _compute_median_steps(group: ScoreGroup, spread: LevelSpread) -> float:
    if spread.scale is None:
        return math.nan
    score = spread.scale.zero + REACHED_SHARE * spread.scale.width
    curves = [(run.timesteps, average_episodes(run)) for run in group.runs]
    return compute_steps_to_threshold(curves, score).median


def _compute_mean_cpu_seconds(group: ScoreGroup, spread: LevelSpread) -> float:
    seconds = _list_cpu_seconds(group)
    return float(np.mean(seconds)) if seconds else math.nan


def _list_cpu_seconds(group: ScoreGroup) -> list[float]:
    """Return the CPU times of runs that recorded them; older runs did not."""
    return [run.training_cpu_seconds for run in group.runs if run.training_cpu_seconds > 0]


def _format_cpu_ratio(value: float, tasks: Sequence[TaskMeasure], name: str) -> str:
    """Format a ratio of CPU times, with the number of runs where not all recorded theirs."""
    groups = [found for spread, _ in tasks if (found := spread.groups.get(name))]
    timed, used = sum(len(_list_cpu_seconds(one)) for one in groups), sum(one.n for one in groups)
    partly = math.isfinite(value) and timed < used
    return _format_ratio(value) + (f" ({timed} of {used} runs)" if partly else "")


def _format_ratio(value: float) -> str:
    return f"{value:.1f}" if math.isfinite(value) else MISSING


def _count_converged(tasks: Sequence[Mapping[str, LevelSpread]], name: str) -> str:
    tried = [levels[COMPARED_LEVEL] for levels in tasks if name in levels[COMPARED_LEVEL].groups]
    learned = [spread.learned[name] for spread in tried]
    counts = [spread.groups[name].n + spread.groups[name].failed for spread in tried]
    done = sum(
        n - one <= round(_MAX_NOT_LEARNED * n) for one, n in zip(learned, counts, strict=True)
    )
    return f"{sum(learned)} of {sum(counts)} ({done} of {format_count(len(tried), 'task')})"


def _list_code_differences(
    algorithm: str, name: str, tasks: Sequence[Mapping[str, LevelSpread]]
) -> Words:
    """Return the interventions of runs at `lockstep`, or else those of the reference form."""
    found = [
        _read_interventions(levels["lockstep"].groups[name])
        - _read_interventions(levels[COMPARED_LEVEL].groups.get(name))
        for levels in tasks
        if "lockstep" in levels and name in levels["lockstep"].groups
    ]
    changes: Collection[str] | None = set().union(*found)
    if not found:
        changes = list_remaining_differences(algorithm, name, ())
    if changes is None:
        return "not known"
    return join_words([(Code(one),) for one in sorted(changes)], ", ") or "nothing"


def _read_interventions(group: ScoreGroup | None) -> set[str]:
    """Return the names of all interventions of a group's runs, patches included."""
    return {name for run in (group.runs if group else ()) for name in run.interventions}


def make_reaching_blocks(results: LevelResults) -> tuple[Block, ...]:
    """Return for every task and level whether frameworks differ in when they are nearly solved."""
    spreads = [
        levels[level]
        for levels in results.by_task.values()
        for level in LEVELS
        if level in levels and levels[level].scale is not None
    ]
    if not spreads:
        return ()
    rng = np.random.default_rng(0)
    tests = [compare_reaching_times(spread, rng) for spread in spreads]
    corrected = adjust_holm(np.array([test.p for test in tests]))
    rows = tuple(
        (
            *(spread.task.name, LEVEL_LABELS[spread.level]),
            f"{test.reached} of {test.runs}",
            *(format_bare_p_value(p) for p in (test.p, float(holm))),
        )
        for spread, test, holm in zip(spreads, tests, corrected, strict=True)
    )
    orders = tuple(
        _describe_reaching_order(spread)
        for spread, p in zip(spreads, corrected, strict=True)
        if spread.level == COMPARED_LEVEL and p < DIFFERENCE_ALPHA
    )
    heads = ("task", "level", f"runs that reached {REACHED_SHARE:.0%}", "p", "corrected p")
    return (
        "Do frameworks differ in when a run first gets there? Log-rank test over all frameworks of "
        "a row, with runs permuted between them; corrected by Holm's method over the rows.",
        Grid(heads, rows),
        Listing(
            orders,
            "At equal hyperparameters, frameworks are shown to differ in this time"
            if orders
            else "At equal hyperparameters, no difference in this time is shown",
        ),
    )


def _describe_reaching_order(spread: LevelSpread) -> str:
    """Return the frameworks of a task from the fastest to the slowest, with their median steps."""
    medians = {
        name: estimate_survival(sample).median
        for name, group in spread.groups.items()
        if (sample := collect_reaching_times(group, spread)) is not None
    }
    shown = ", ".join(
        f"{get_label(name)} {f'{steps:,.0f}' if math.isfinite(steps) else 'never in half its runs'}"
        for name, steps in sorted(medians.items(), key=lambda item: (item[1], item[0]))
    )
    return f"{spread.task.name}, median steps to {REACHED_SHARE:.0%}: {shown}."
