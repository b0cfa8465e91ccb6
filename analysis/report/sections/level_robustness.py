"""Robustness of the shares of a study with levels, and what they depend on and do not say."""

import collections
import dataclasses

from parallax.analysis.data.settings import describe_result_versions
from parallax.analysis.figures.alignment_levels import (
    format_estimate,
    format_share,
    list_share_rows,
    name_share,
)
from parallax.analysis.labels import describe_recipe, get_label
from parallax.analysis.report.document import Block, Grid, Listing
from parallax.analysis.stats.decomposition import ShareIntervals
from parallax.analysis.verdicts.alignment_levels import (
    COMPARED_LEVEL,
    LATE_EVALUATIONS,
    SECONDARY_ENDPOINT,
    LevelDecomposition,
    LevelResults,
    LevelSpread,
    compute_late_rise,
)
from parallax.analysis.verdicts.code_differences import list_applied_interventions
from parallax.analysis.verdicts.groups import ScoreGroup


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
        "The shares hold for these frameworks, tasks, recipes and versions, which are not a "
        "random sample of others.",
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
        "If a framework is the same at two levels, both levels have the same runs, which are "
        "resampled together.",
        "Variances are added over tasks, so tasks on which frameworks differ much count most. "
        "With equal weights, every task has the same variance at own hyperparameters.",
        _describe_overrides(results),
        _describe_exact_changes(results),
        "Frameworks, recipes and implementations count as samples in these formulas (divisors are "
        "their numbers minus 1), which makes their components larger than those of a fixed set.",
        "Hyperparameters are made equal first. So an effect that recipe and code have only "
        "together counts as another difference, and how well recipes suit their own framework "
        "counts as an effect of hyperparameters.",
        "Causes are named only where a difference was removed at equal hyperparameters and "
        "trained again."
        if has_causes
        else "No cause is named: no single difference that was removed at equal "
        "hyperparameters and trained again is shown to explain a gap.",
        "Findings are the largest of several values, so chance makes them too large on average.",
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
        f"{describe_recipe(levels[COMPARED_LEVEL].cell.hps)}"
        f"{_describe_own_values(levels[COMPARED_LEVEL], levels.get('defaults'))} for {task.name}"
        for task, levels in results.by_task.items()
        if COMPARED_LEVEL in levels
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
        if COMPARED_LEVEL in levels and "defaults" in levels:
            for name, group in levels[COMPARED_LEVEL].groups.items():
                before = levels["defaults"].groups.get(name)
                found[name, task.algorithm] |= _list_changes(group) - _list_changes(before)
    texts = [
        f"{', '.join(sorted(names))} ({get_label(framework)}'s {get_label(algorithm)})"
        for (framework, algorithm), names in sorted(found.items())
        if names
    ]
    return (
        "Equal hyperparameters include changes of code without which a value would have another "
        "meaning in a framework. Their effects count as effects of hyperparameters: "
        f"{'; '.join(texts)}."
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
        "With own hyperparameters, the study still sets for all frameworks: the number of steps, "
        f"one environment, the evaluations{also}."
    )


def _format_shares(found: LevelDecomposition, shares: ShareIntervals) -> list[str]:
    rows = list_share_rows(dataclasses.replace(found, shares=shares))
    return [format_share(*values) for _, *values in rows]


def _describe_rises(results: LevelResults) -> str:
    """Return where the spread is larger at equal update code than at equal hyperparameters."""
    rises = []
    for task, levels in results.by_task.items():
        before, after = levels.get(COMPARED_LEVEL), levels.get("lockstep")
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
        if COMPARED_LEVEL in levels and (rise := compute_late_rise(levels[COMPARED_LEVEL])).low > 0
    ]
    if not rising:
        return ""
    return (
        "At equal hyperparameters curves still rise between the last "
        f"{2 * LATE_EVALUATIONS} evaluations in {', '.join(rising)}; longer runs can give other "
        "shares."
    )
