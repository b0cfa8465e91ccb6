"""Levels of alignment in words: causes of differences, and guidance for users."""

import collections
import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from parallax.analysis.data.settings import describe_result_versions
from parallax.analysis.figures.alignment_levels import (
    LEVEL_LABELS,
    format_estimate,
    format_share,
    list_share_rows,
    name_share,
)
from parallax.analysis.labels import MISSING, describe_recipe, format_count, format_range, get_label
from parallax.analysis.report.document import (
    Block,
    Code,
    Grid,
    Listing,
    ReportSection,
    Strong,
    Words,
    join_words,
)
from parallax.analysis.report.sections.crossed_design import describe_recipe_dependence
from parallax.analysis.report.tables import format_bare_p_value
from parallax.analysis.stats.decomposition import ShareIntervals
from parallax.analysis.stats.learning_curves import compute_steps_to_threshold
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.survival import estimate_survival
from parallax.analysis.verdicts.alignment_levels import (
    LATE_EVALUATIONS,
    LEVELS,
    REACHED_SHARE,
    SECONDARY_ENDPOINT,
    LevelDecomposition,
    LevelResults,
    LevelSpread,
    collect_reaching_times,
    compare_reaching_times,
    compute_late_rise,
)
from parallax.analysis.verdicts.code_differences import (
    list_applied_interventions,
    list_remaining_differences,
)
from parallax.analysis.verdicts.crossed_design import CrossedDesign
from parallax.analysis.verdicts.groups import ScoreGroup, average_episodes

LEVELS_HEADING = "Hyperparameters or code?"
CHOICE_HEADING = "Which framework? All of them at equal hyperparameters"
_MAX_NOT_LEARNED = 0.1  # of a framework's runs, rounded, for it to count as converging on a task
_MAX_NAMED_TASKS = 2
_MAX_FINDINGS = 3
_COMPARED = "exact"
_ALPHA = 0.05


def make_level_section(results: LevelResults, reached: Sequence[Block] = ()) -> ReportSection:
    """Return the section of a report, without its first figure."""
    return ReportSection(LEVELS_HEADING, make_level_blocks(results, reached=reached), "levels")


def make_level_blocks(
    results: LevelResults,
    figures: Sequence[Block] = (),
    causes: Sequence[Block] = (),
    reached: Sequence[Block] = (),
    crossed: Sequence[CrossedDesign] = (),
) -> tuple[Block, ...]:
    """Return the answer, the figure, the findings, and the tables behind them.

    Figures follow the answer, causes the findings, `reached` the table for choosing a framework.
    """
    recipes = tuple(filter(None, (describe_recipe_dependence(one, results) for one in crossed)))
    return (
        (Strong(describe_shares(results)),),
        *figures,
        Listing((*list_level_findings(results), *recipes)),
        *causes,
        ReportSection(
            CHOICE_HEADING, (*make_choice_blocks(results), *reached, *make_reaching_blocks(results))
        ),
        ReportSection("How sure is this?", describe_robustness(results, has_causes=bool(causes))),
        ReportSection("Runs at each level", make_run_blocks(results)),
    )


def describe_shares(results: LevelResults) -> str:
    """Return the answer to the section's question, or why there is none yet."""
    found = results.decomposition
    if found is None:
        lacking = " and ".join(
            LEVEL_LABELS[level]
            for level in LEVELS[:2]
            if not any(spread.level == level for spread in results.spreads)
        )
        why = f"no run with {lacking}"
        if not lacking:
            why = "too few runs at both levels of one task, or all scores are equal"
        return f"Not answered yet: {why}."
    own, left = found.shares.own, found.shares.equal
    answer = (
        f"across these {len(found.frameworks)} frameworks, different hyperparameters explain "
        f"{format_share(*own)} of the variance of scores "
        f"({results.endpoint.partition(' (')[0]}), and other differences between frameworks "
        f"{format_share(*left)}; the rest is between seeds"
    )
    scope, sentence = _describe_scope(results, found), answer[0].upper() + answer[1:]
    if own[1] <= 0 and left[1] <= 0:
        return f"Inconclusive: {answer} ({scope})."
    if own[1] <= 0 or left[1] <= 0:
        shown = "the second is shown" if left[1] > 0 else "the first is shown"
        return f"{sentence}. Only {shown} to be above 0 ({scope})."
    order = " Which of the two is larger is not shown"
    _, low, high = found.shares.excess
    return f"{sentence}{f'.{order}' if low <= 0 <= high else ''} ({scope})."


def _describe_scope(results: LevelResults, found: LevelDecomposition) -> str:
    """Return the tasks that the shares are of, and their runs per framework and level."""
    envs = len({task.env for task in found.tasks})
    tasks = f"{len(found.tasks)} pairs of algorithm and task, {envs} tasks"
    if len(found.tasks) <= _MAX_NAMED_TASKS:
        tasks = " and ".join(task.name for task in found.tasks)
    counts = [
        group.n
        for spread in results.spreads
        if spread.task in found.tasks
        for group in spread.groups.values()
    ]
    return f"{tasks}; {format_range(counts)} runs per framework and level of alignment"


def list_level_findings(results: LevelResults) -> tuple[str, ...]:
    """Return at most three findings of at most 30 words, selected by a rule and never by hand.

    They state the share of code, and how far the shares depend on one framework and on the
    endpoint. If the study is too small for one, the largest spread at equal hyperparameters
    replaces it.
    """
    found = results.decomposition
    texts = []
    if found and found.has_lockstep:
        texts.append(_describe_code_share(found.shares))
    if found and found.most_influential:
        texts.append(_describe_sensitivity(found))
    if results.secondary and results.secondary.tasks == (found and found.tasks):
        texts.append(_describe_secondary(results.secondary))
    exact = [levels[_COMPARED] for levels in results.by_task.values() if _COMPARED in levels]
    known = [spread for spread in exact if spread.variance is not None]
    if known:
        most = max(known, key=lambda spread: spread.spread)
        texts.append(
            f"At equal hyperparameters, {most.task.name} has the largest spread: "
            f"{_format_spread(most)}; frameworks "
            f"{'differ' if most.p < _ALPHA else 'are not shown to differ'}."
        )
    if exact:
        texts.append(_describe_learned(exact))
    return tuple(texts[:_MAX_FINDINGS])


def _describe_code_share(shares: ShareIntervals) -> str:
    """Return the share of known differences in update code."""
    return (
        "The other differences include known ones in the code of an update: "
        f"{_format_tested_share(shares.code)}."
    )


def _format_tested_share(share: tuple[float, float, float]) -> str:
    """Return a share with its interval, and whether it is shown to be above 0."""
    return format_share(*share) + ", not shown to be above 0" * (share[1] <= 0)


def _describe_secondary(found: LevelDecomposition) -> str:
    return (
        f"If the score is the mean of the last {SECONDARY_ENDPOINT.partition('-')[2]} evaluations, "
        f"other differences explain {_format_tested_share(found.shares.equal)}."
    )


def _format_spread(spread: LevelSpread) -> str:
    low, high = spread.interval
    return f"{spread.spread:.2f} [{low:.2f}, {high:.2f}]"


def _describe_sensitivity(found: LevelDecomposition) -> str:
    """Return the shares without the framework that changes the remaining share most."""
    name = found.most_influential
    shares = found.without_framework[name]
    text = (
        f"Without {get_label(name)}, hyperparameters explain {format_share(*shares.own)} and other "
        f"differences {_format_tested_share(shares.equal)}"
    )
    if found.by_algorithm:
        algorithm = found.most_frequent_algorithm
        with_all, without = (
            format_share(*one.equal)
            for one in (found.by_algorithm[algorithm][0], found.without_most_influential[algorithm])
        )
        text += f"; in {get_label(algorithm)}, {without} instead of {with_all}"
    return f"{text}."


def _describe_learned(spreads: Sequence[LevelSpread]) -> str:
    learned = sum(sum(spread.learned.values()) for spread in spreads)
    used = sum(_count_runs(spread)[2] for spread in spreads)
    return (
        f"{learned} of {used} runs at equal hyperparameters learned: they end above doing "
        "nothing, random actions and the untrained policy by a tenth of the way to solved."
    )


def make_choice_blocks(results: LevelResults) -> tuple[Block, ...]:
    """Return one table per algorithm for a reader who chooses a framework."""
    by_algorithm: dict[str, list[dict[str, LevelSpread]]] = collections.defaultdict(list)
    for task, levels in results.by_task.items():
        if _COMPARED in levels:
            by_algorithm[task.algorithm].append(levels)
    if not by_algorithm:
        return ("There are no runs at equal hyperparameters.",)
    rows: list[tuple[Words, ...]] = []
    for algorithm, tasks in by_algorithm.items():
        names = sorted({name for levels in tasks for name in levels[_COMPARED].groups})
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
        "A task is learned if at most a tenth of the framework's runs, rounded to whole runs, did "
        "not learn. "
        "Steps to 90% of the way to solved: median over seeds, as fine as evaluations are apart; a "
        "dash means that more than half of the runs on a task do not get there. CPU time: training "
        "without evaluations, mean over runs that recorded it; a dash means that none did. Both "
        "are divided by the median framework's value, so that 1.0 is typical. Tasks where half of "
        "the frameworks or more have no value are left out. Removed differences: known differences "
        "in code, by the interventions that remove them at the level of equal update code. They "
        "need not change a score.",
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
        spread = levels[_COMPARED]
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
    tried = [levels[_COMPARED] for levels in tasks if name in levels[_COMPARED].groups]
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
        - _read_interventions(levels[_COMPARED].groups.get(name))
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


def describe_robustness(results: LevelResults, *, has_causes: bool = False) -> tuple[Block, ...]:
    """Return the shares without each framework and task, by another endpoint, and the limits."""
    limits, found = Listing(_list_limits(results, has_causes=has_causes)), results.decomposition
    if found is None:
        return (limits,)
    heads = tuple(name_share(name) for name, *_ in list_share_rows(found))
    rows = tuple((label, *cells) for label, cells in _list_shares(results, found))
    return (Grid(("shares", *heads), rows), limits)


def _list_limits(results: LevelResults, *, has_causes: bool) -> tuple[str, ...]:
    """Return what the shares depend on and do not say."""
    notes = (
        "The statement is on these frameworks, tasks, recipes and versions; they are no sample "
        "of others.",
        describe_result_versions(
            run
            for levels in results.by_task.values()
            for spread in levels.values()
            for group in spread.groups.values()
            for run in group.runs
        ),
        "The spread is the square root of the component between frameworks of a one-way "
        "analysis of variance, (mean square between - mean square within) / n. With B this "
        "component and W that of seeds, summed over rows, the shares are (B own - B equal), "
        "(B equal - B equal code), B equal code and W own, each over B own + W own.",
        "Intervals are basic bootstrap intervals over seeds alone, with deviations widened by "
        "the square root of n / (n - 1); with few seeds they are too short.",
        _describe_rises(results),
        "Known update code is what the level of equal update code removes. The rest is all else, "
        "such as initial weights, which are each framework's own at every level.",
        "Own hyperparameters are those of a framework's script or library for the algorithm, "
        "mostly made for other tasks. Equal hyperparameters are one recipe per row: "
        f"{_list_recipes(results)}.",
        "A framework that is the same at two levels has the same runs there, which are "
        "resampled together.",
        "Variances are added over tasks: tasks on which frameworks differ much count most. "
        "With equal weights, every task has the same variance at own hyperparameters.",
        _describe_overrides(results),
        _describe_exact_changes(results),
        "Frameworks, recipes and implementations count as samples in these formulas (divisors are "
        "their numbers minus 1), which makes their components larger than those of a fixed set.",
        "Hyperparameters are made equal first: what recipe and code do only together counts as "
        "a remaining difference, and how well recipes suit their own framework counts for "
        "hyperparameters.",
        "Causes are named only where a difference was removed at equal hyperparameters and "
        "trained again."
        if has_causes
        else "No cause is named: no single difference that was removed at equal "
        "hyperparameters and trained again is shown to explain a gap.",
        "Findings are the largest of several values, which chance makes larger.",
        "A score averaged over training is below 1 also where a task is solved in the end.",
        _describe_late_rises(results),
    )
    return tuple(filter(None, notes))


def _list_shares(results: LevelResults, found: LevelDecomposition) -> list[tuple[str, list[str]]]:
    """Return the shares over all tasks, and over parts of the study, each with its label."""
    shares = [(f"all: {', '.join(task.name for task in found.tasks)}", found.shares)]
    shares += [(f"without {get_label(k)}", one) for k, one in found.without_framework.items()]
    shares += [(f"without {task.name}", one) for task, one in found.without_task.items()]
    if found.equal_weights:
        shares.append(("all, each with equal weight", found.equal_weights))
    for algorithm, (only, others) in found.by_algorithm.items():
        shares.append((f"only {get_label(algorithm)}", only))
        shares.append((f"without {get_label(algorithm)}", others))
    if len(found.tasks) > 1:
        for task, (only, part) in found.alone.items():
            shares.append((f"only {task.name} ({part:.0%} of the variance)", only))
    rows = [(label, _format_shares(found, one)) for label, one in shares]
    if results.secondary and results.secondary.has_lockstep == found.has_lockstep:
        label = f"mean of the last {SECONDARY_ENDPOINT.partition('-')[2]} evaluations"
        rows.append((label, _format_shares(results.secondary, results.secondary.shares)))
    return rows


def _list_recipes(results: LevelResults) -> str:
    """Return the recipe of each task at equal hyperparameters."""
    return "; ".join(
        f"{describe_recipe(levels[_COMPARED].cell.hps)}"
        f"{_describe_own_values(levels[_COMPARED], levels.get('defaults'))} for {task.name}"
        for task, levels in results.by_task.items()
        if _COMPARED in levels
    )


def _describe_own_values(spread: LevelSpread, defaults: LevelSpread | None) -> str:
    """Return the values that the study itself sets at a level and not at `defaults`."""
    set_for_all = _list_overridden(defaults) if defaults else set()
    values = {
        f"{name}={run.spec['hyperparameters'][name]}"
        for group in spread.groups.values()
        for run in group.runs
        for name in set(run.spec.get("overridden", ())) - set_for_all
    }
    return f" with {', '.join(sorted(values))}" if values else ""


def _list_overridden(spread: LevelSpread) -> set[str]:
    return {
        str(field)
        for group in spread.groups.values()
        for run in group.runs
        for field in run.spec.get("overridden", ())
    }


def _describe_exact_changes(results: LevelResults) -> str:
    """Return the changes of code that runs have at equal hyperparameters, not with their own."""
    found: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for task, levels in results.by_task.items():
        if _COMPARED in levels and "defaults" in levels:
            for name, group in levels[_COMPARED].groups.items():
                before = levels["defaults"].groups.get(name)
                found[name, task.algorithm] |= _list_changes(group) - _list_changes(before)
    texts = [
        f"{', '.join(sorted(names))} ({get_label(framework)}'s {get_label(algorithm)})"
        for (framework, algorithm), names in sorted(found.items())
        if names
    ]
    return (
        "Equal hyperparameters include changes of code without which a value would have another "
        f"meaning in a framework, and these count for hyperparameters: {'; '.join(texts)}."
        if texts
        else ""
    )


def _list_changes(group: ScoreGroup | None) -> set[str]:
    """Return the interventions of a group's runs without patches, which only set values."""
    runs = group.runs if group else ()
    return set().union(*map(list_applied_interventions, runs))


def _describe_overrides(results: LevelResults) -> str:
    """Return the settings at `defaults` that the study sets for all frameworks."""
    own = (spread for spread in results.spreads if spread.level == "defaults")
    fields = sorted(set().union(*map(_list_overridden, own)))
    also = f", and {', '.join(fields)}" if fields else ""
    return (
        "Own hyperparameters: all but the number of steps, one environment at a time and the "
        f"evaluations{also}, which the study sets for all."
    )


def _format_shares(found: LevelDecomposition, shares: ShareIntervals) -> list[str]:
    rows = list_share_rows(dataclasses.replace(found, shares=shares))
    return [format_share(*values) for _, *values in rows]


def _describe_rises(results: LevelResults) -> str:
    """Return where the spread is larger at equal update code than at equal hyperparameters."""
    rises = []
    for task, levels in results.by_task.items():
        before, after = levels.get(_COMPARED), levels.get("lockstep")
        if before and after and after.spread > before.spread:
            apart = after.interval[0] > before.interval[1]
            rises.append(f"{task.name} (intervals {'do not ' * apart}overlap)")
    where = f"With equal update code the spread is larger in {', '.join(rises)}"
    return f"{where}; the reason is not known." if rises else ""


def _describe_late_rises(results: LevelResults) -> str:
    """Return the tasks whose curves still rise at the end at equal hyperparameters."""
    rising = [
        f"{task.name} ({format_estimate(rise)})"
        for task, levels in results.by_task.items()
        if _COMPARED in levels and (rise := compute_late_rise(levels[_COMPARED])).low > 0
    ]
    if not rising:
        return ""
    return (
        "At equal hyperparameters curves still rise between the last "
        f"{2 * LATE_EVALUATIONS} evaluations in {', '.join(rising)}; longer runs can give other "
        "shares."
    )


def make_run_blocks(results: LevelResults) -> tuple[Block, ...]:
    """Return the runs requested, completed and used of every task and level, and missing ones."""
    corrected = adjust_holm([spread.p for spread in results.spreads])
    p_values = dict(zip(((one.task, one.level) for one in results.spreads), corrected, strict=True))
    rows: list[tuple[str, ...]] = []
    for task, levels in results.by_task.items():
        for level in LEVELS:
            cells = ["no runs", *[MISSING] * 6]
            if level in levels:
                cells = _list_run_cells(levels[level], results, p_values[task, level])
            rows.append((task.name, LEVEL_LABELS[level], *cells))
    heads = ("task", "level", "frameworks", "requested/completed/used", "learned", "spread", "p")
    also = ("rise at the end", "returns from 0 to 1")
    scales = {
        f"{task.name} ({spread.scale.source})": None
        for task, levels in results.by_task.items()
        for spread in levels.values()
        if spread.scale
    }
    return (
        Grid((*heads, *also), tuple(rows)),
        f"Scores are the {results.endpoint}. Learned: the final return is above each policy "
        "without training by a margin. Failed runs count as 0. p: F test of equal frameworks, with "
        "runs permuted within each seed, since runs of a seed are evaluated from the same states; "
        "corrected by Holm's method over the rows. Rise at the end: "
        f"mean of the last {LATE_EVALUATIONS} evaluations minus that of the {LATE_EVALUATIONS} "
        "before, on the scale from 0 to 1, with a 95% t interval over seeds; 0 in a flat curve. "
        "Scales:",
        Listing(tuple(scales)),
        _describe_unused_tasks(results),
    )


def _list_run_cells(spread: LevelSpread, results: LevelResults, p: float) -> list[str]:
    """Return the cells of a task and level in the table of runs."""
    requested, completed, used = _count_runs(spread)
    scale = spread.scale
    return [
        f"{len(spread.scores)} of {len(results.frameworks)}",
        f"{requested}/{completed}/{used}",
        f"{sum(spread.learned.values())} of {used}",
        _format_spread(spread) if spread.variance else MISSING,
        format_bare_p_value(p),
        format_estimate(compute_late_rise(spread)),
        f"{scale.zero:.4g} to {scale.one:.4g}" if scale else MISSING,
    ]


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
        if spread.level == _COMPARED and p < _ALPHA
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


def _count_runs(spread: LevelSpread) -> tuple[int, int, int]:
    groups = spread.groups.values()
    return (
        sum(group.requested for group in groups),
        sum(group.completed for group in groups),
        sum(group.n for group in groups),
    )


def _describe_unused_tasks(results: LevelResults) -> str:
    """Return the tasks that no share includes; empty if there are none."""
    found = results.decomposition
    left = [task for task in results.by_task if found is None or task not in found.tasks]
    if not left:
        return ""
    return (
        f"{format_count(len(left), 'task')} not in the shares, since runs of some levels lack: "
        f"{', '.join(task.name for task in left)}."
    )
