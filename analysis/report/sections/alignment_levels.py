"""Answer of a study with levels of alignment: shares, findings, and runs at each level."""

from collections.abc import Sequence

from parallax.analysis.figures.alignment_levels import LEVEL_LABELS, format_estimate, format_share
from parallax.analysis.labels import MISSING, format_count, format_range, get_label
from parallax.analysis.report.document import Block, Grid, Listing, ReportSection, Strong
from parallax.analysis.report.sections.crossed_design import describe_recipe_dependence
from parallax.analysis.report.sections.framework_choice import (
    CHOICE_HEADING,
    make_choice_blocks,
    make_reaching_blocks,
)
from parallax.analysis.report.sections.level_robustness import describe_robustness
from parallax.analysis.report.tables import format_bare_p_value
from parallax.analysis.stats.decomposition import ShareIntervals
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.verdicts.alignment_levels import (
    COMPARED_LEVEL,
    DIFFERENCE_ALPHA,
    LATE_EVALUATIONS,
    LEVELS,
    SECONDARY_ENDPOINT,
    LevelDecomposition,
    LevelResults,
    LevelSpread,
    compute_late_rise,
)
from parallax.analysis.verdicts.crossed_design import CrossedDesign

LEVELS_HEADING = "Hyperparameters or code?"
_MAX_NAMED_TASKS, _MAX_NAMED_ENVS = 2, 3
_MAX_FINDINGS = 3


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
    envs = sorted({task.env for task in found.tasks})
    where = f"{', '.join(envs[:-1])} and {envs[-1]}" if 1 < len(envs) <= _MAX_NAMED_ENVS else ""
    tasks = f"{len(found.tasks)} pairs of algorithm and task, {where or f'{len(envs)} tasks'}"
    if len(found.tasks) <= _MAX_NAMED_TASKS:
        tasks = " and ".join(task.name for task in found.tasks)
    counts = [
        group.n
        for spread in results.spreads
        if spread.task in found.tasks
        for group in spread.groups.values()
    ]
    return f"{tasks}; {format_range(counts)} runs per framework at each level in the figure"


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
    exact = [
        levels[COMPARED_LEVEL] for levels in results.by_task.values() if COMPARED_LEVEL in levels
    ]
    known = [spread for spread in exact if spread.variance is not None]
    if known:
        most = max(known, key=lambda spread: spread.spread)
        texts.append(
            f"At equal hyperparameters, {most.task.name} has the largest spread: "
            f"{_format_spread(most)}; frameworks "
            f"{'differ' if most.p < DIFFERENCE_ALPHA else 'are not shown to differ'}."
        )
    if exact:
        texts.append(_describe_learned(exact))
    return tuple(texts[:_MAX_FINDINGS])


def _describe_code_share(shares: ShareIntervals) -> str:
    """Return the share of known differences in update code."""
    return (
        "Among the other differences, known differences in the code of an update explain "
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
        text += f"; in {get_label(algorithm)}, these explain {without} instead of {with_all}"
    return f"{text}."


def _describe_learned(spreads: Sequence[LevelSpread]) -> str:
    learned = sum(sum(spread.learned.values()) for spread in spreads)
    used = sum(_count_runs(spread)[2] for spread in spreads)
    return (
        f"{learned} of {used} runs at equal hyperparameters learned: they end above doing "
        "nothing, random actions and the untrained policy by a tenth of the way to solved."
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
