"""Aggregates over all tasks, as a sortable table."""

import math
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    escape_markdown,
    find_own_parts,
    format_number,
    format_range,
    get_label,
)
from parallax.analysis.report.document import (
    SortableTable,
    TableCell,
    list_setting_columns,
    make_interval_cell,
    make_number_cell,
    make_p_value_cell,
    make_setting_columns,
)
from parallax.analysis.report.phrases import (
    LinkedSentence,
    QuestionAnswer,
    RunLinks,
    describe_group_sizes,
    describe_recipe,
    format_count,
    format_higher_minus_lower_interval,
    format_p_value,
    format_setting,
    make_answer,
    split_main_variants,
)
from parallax.analysis.report.render_csv import TableRow
from parallax.analysis.stats.aggregates import AGGREGATE_NAMES
from parallax.analysis.stats.pooling import MIN_TASKS
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.omnibus import OmnibusVerdict
from parallax.analysis.verdicts.overall import OverallScores
from parallax.analysis.verdicts.sensitivity import MIN_PAIRS, PairedVerdict, PooledPair
from parallax.analysis.verdicts.study import StudyVerdicts


def make_overall_table(
    items: Sequence[OverallScores], verdicts: StudyVerdicts, links: RunLinks
) -> SortableTable:
    """One row per framework, algorithm and set of hyperparameters, over all tasks."""
    heads = list_setting_columns(
        [StudyCell(i.study, "", i.algorithm, i.hps, i.variant) for i in items]
    )
    heads = [head for head in heads if head[0] != "task"]
    columns = [(name, False) for name, _ in heads] + [("framework", False)]
    for name in AGGREGATE_NAMES:
        better = " (lower is better)" if name == "optimality_gap" else ""
        columns += [(name.replace("_", " ") + better, True), ("95% interval", True)]
    columns += [("tasks", True), ("n per task", True)]
    rows = []
    for item in items:
        cell = StudyCell(item.study, "", item.algorithm, item.hps, item.variant)
        for i, framework in enumerate(item.aggregates.names):
            found = item.aggregates
            numbers = [
                value
                for k in range(len(AGGREGATE_NAMES))
                for value in (
                    make_number_cell(float(found.point[i, k])),
                    make_interval_cell(float(found.low[i, k]), float(found.high[i, k])),
                )
            ]
            used = sorted(set(found.seeds[i]))
            span = " to ".join(map(str, dict.fromkeys((used[0], used[-1]))))
            groups = [
                group for group in verdicts.groups if _is_in_aggregate(group, item, framework)
            ]
            values = (*(TableCell(get(cell)) for _, get in heads), TableCell(framework), *numbers)
            extra = (
                TableCell(str(len(item.tasks)), str(len(item.tasks))),
                TableCell(span, str(used[0])),
            )
            rows.append(((*values, *extra), links.of(groups)))
    return SortableTable("t-overall", "Aggregates over all tasks", tuple(columns), tuple(rows))


def _is_in_aggregate(group: ScoreGroup, item: OverallScores, framework: str) -> bool:
    cell = group.cell
    return (
        (cell.study, cell.algorithm, cell.hps, cell.variant)
        == (item.study, item.algorithm, item.hps, item.variant)
        and cell.env in item.tasks
        and group.framework == framework
    )


PAIRED_TABLE = "t-paired"
MIN_USEFUL_CORRELATION = 0.3  # correlation from which pairing gains power, by benchmarks/pooling.py


def answer_paired(verdicts: StudyVerdicts, links: RunLinks) -> QuestionAnswer:
    """Do frameworks differ seed by seed, where seeds share initial states?"""
    items, question = verdicts.paired, "Do frameworks differ seed by seed?"
    if not items:
        text = (
            f"No two frameworks have {MIN_PAIRS} equal seeds that were evaluated from the same initial "
            "states in a setting, which comparing seed by seed takes."
        )
        return QuestionAnswer("paired", question, LinkedSentence(text, ()), (), (), 0)
    cells = [item.item.cell for item in items]
    alpha = verdicts.options.alpha
    chosen, begun = split_main_variants(
        items, verdicts.is_main_variant, lambda item: item.item.cell
    )
    parts = [
        LinkedSentence(
            f"{begin}: {_describe_paired_counts(own, alpha)}. {_describe_correlation(own)}",
            links.of(_list_paired_groups(own)),
            PAIRED_TABLE,
        )
        for begin, own in begun
    ]
    text = (
        f"In {format_count(len(chosen), 'pair')} of frameworks, runs of equal seeds were evaluated from "
        f"the same initial states (n = {format_range(len(item.seeds) for item in chosen)} seeds each): "
        f"at {alpha:.0%}, {_describe_paired_counts(chosen, alpha)}. {_describe_correlation(chosen)} Pairing gains power "
        f"from a correlation of about {MIN_USEFUL_CORRELATION:g} on and costs some below. No verdict hangs on this, "
        "since choosing whichever test says more would be wrong."
    )
    clear = sorted(
        (item for item in chosen if item.p_holm < alpha), key=lambda i: (i.p_holm, i.result.p)
    )
    findings = [_describe_paired_finding(item, cells, links) for item in clear]
    return make_answer(
        "paired",
        question,
        LinkedSentence(text, links.of(_list_paired_groups(chosen)), PAIRED_TABLE),
        parts,
        findings,
    )


def _describe_paired_counts(items: Sequence[PairedVerdict], alpha: float) -> str:
    """Significant tests of both kinds, on the same pairs."""
    after = [sum(p < alpha for p in own) for own in _list_p_values(items, True)]
    alone = [sum(p < alpha for p in own) for own in _list_p_values(items, False)]
    return (
        f"{after[0]} of {len(items)} differ by the paired test after Holm's correction, "
        f"{after[1]} by Welch's; one by one {alone[0]} and {alone[1]}"
    )


def _list_p_values(
    items: Sequence[PairedVerdict], corrected: bool
) -> tuple[list[float], list[float]]:
    if corrected:
        return [i.p_holm for i in items], [i.item.p_holm for i in items]
    return [i.result.p for i in items], [i.item.p_welch for i in items]


def _describe_correlation(items: Sequence[PairedVerdict]) -> str:
    known = [i.result.correlation for i in items if not math.isnan(i.result.correlation)]
    if not known:
        return "No correlation of their scores is known."
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    return (
        f"The correlation of their scores is {middle:.2f} in the middle, and between {low:.2f} and "
        f"{high:.2f} in half of the pairs."
    )


def _list_paired_groups(items: Sequence[PairedVerdict]) -> list[ScoreGroup]:
    return [group for item in items for group in (item.item.first, item.item.second)]


def _describe_paired_finding(
    item: PairedVerdict, cells: Sequence[StudyCell], links: RunLinks
) -> LinkedSentence:
    found = item.result
    first, second = item.item.first.framework, item.item.second.framework
    high, low = (first, second) if found.difference > 0 else (second, first)
    interval = format_higher_minus_lower_interval(found.difference, found.low, found.high)
    text = (
        f"{format_setting(item.item.cell, cells)}: {get_label(high)} scores higher than {get_label(low)} by "
        f"{format_number(abs(found.difference))} on the same seeds (n = {found.n}), 95% interval "
        f"{interval}, corrected {format_p_value(item.p_holm)}; by Welch's test "
        f"{format_p_value(item.item.p_holm)}; the verdict is {item.item.verdict}."
    )
    return LinkedSentence(text, links.of(_list_paired_groups([item])), PAIRED_TABLE)


def make_paired_table(verdicts: StudyVerdicts, links: RunLinks) -> SortableTable:
    """One row per pair of frameworks in a setting."""
    items = verdicts.paired
    heads = list_setting_columns([item.item.cell for item in items])
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    names = (
        *("difference", "95% interval", "p paired", "p paired corrected", "p Welch"),
        *("p Welch corrected", "correlation", "n"),
    )
    columns += [(name, True) for name in names] + [("seeds", False)]
    rows = tuple(
        (
            (*(TableCell(get(item.item.cell)) for _, get in heads), *_make_paired_cells(item)),
            links.of(_list_paired_groups([item])),
        )
        for item in items
    )
    return SortableTable(
        PAIRED_TABLE, "Every pair of frameworks seed by seed", tuple(columns), rows
    )


def _make_paired_cells(item: PairedVerdict) -> list[TableCell]:
    found = item.result
    return [
        TableCell(item.item.first.framework),
        TableCell(item.item.second.framework),
        make_number_cell(found.difference),
        make_interval_cell(found.low, found.high),
        *map(make_p_value_cell, (found.p, item.p_holm, item.item.p_welch, item.item.p_holm)),
        make_number_cell(found.correlation),
        TableCell(str(found.n), str(found.n)),
        TableCell(" ".join(map(str, item.seeds))),
    ]


POOLED_TABLE, POOLED_TASKS_TABLE = "t-pooled", "t-pooled-tasks"


def answer_pooled(verdicts: StudyVerdicts, links: RunLinks) -> QuestionAnswer:
    """Are two frameworks apart over all tasks, where single tasks cannot tell?"""
    items, question = verdicts.pooled, "Are two frameworks apart over all tasks together?"
    if not items:
        text = (
            f"No two frameworks share {MIN_TASKS} tasks with a deviation, a known scale and two seeds "
            "under equal hyperparameters, which pooling over tasks takes."
        )
        return QuestionAnswer("pooled", question, LinkedSentence(text, ()), (), (), 0)
    cells = [item.cell for item in items]
    alpha = verdicts.options.alpha
    chosen, begun = split_main_variants(items, verdicts.is_main_variant, lambda item: item.cell)
    parts = [
        LinkedSentence(
            f"{begin}: {_describe_pooled_counts(own, alpha)}.",
            links.of(_list_pooled_groups(own)),
            POOLED_TABLE,
        )
        for begin, own in begun
    ]
    text = (
        f"Of {format_count(len(chosen), 'pair')} of frameworks under equal hyperparameters, each pooled "
        f"over {format_range(len(item.items) for item in chosen)} tasks: at {alpha:.0%}, "
        f"{_describe_pooled_counts(chosen, alpha)}. Differences are shares of the way from random actions to the "
        "published score. The correction is Holm's, over the pairs of an algorithm. No verdict "
        f"hangs on this. {describe_group_sizes(_list_pooled_groups(chosen))}"
    )
    clear = sorted((i for i in chosen if i.p_holm < alpha), key=lambda i: (i.p_holm, i.pooled.p))
    findings = [_describe_pooled_finding(item, cells, links) for item in clear]
    return make_answer(
        "pooled",
        question,
        LinkedSentence(text, links.of(_list_pooled_groups(chosen)), POOLED_TABLE),
        parts,
        findings,
    )


def _describe_pooled_counts(items: Sequence[PooledPair], alpha: float) -> str:
    alone = sum(item.pooled.p < alpha for item in items)
    after = sum(item.p_holm < alpha for item in items)
    return (
        f"the mean difference is shown to be other than 0 in {after} of {len(items)} after "
        f"correction, in {alone} one by one"
    )


def _list_pooled_groups(items: Sequence[PooledPair]) -> list[ScoreGroup]:
    return [group for pair in items for item in pair.items for group in (item.first, item.second)]


def _describe_pooled_finding(
    item: PooledPair, cells: Sequence[StudyCell], links: RunLinks
) -> LinkedSentence:
    found, cell = item.pooled, item.cell
    first, second = (g.framework for g in (item.items[0].first, item.items[0].second))
    high, low = (first, second) if found.mean > 0 else (second, first)
    parts = [part for part in find_own_parts(cell, cells) if part]
    special = f" ({', '.join(parts)})" if parts else ""
    interval = format_higher_minus_lower_interval(found.mean, found.low, found.high)
    text = (
        f"{get_label(cell.algorithm)} under {describe_recipe(cell.hps)}{special}: {get_label(high)} scores "
        f"higher than {get_label(low)} by {format_number(abs(found.mean))} of the way, 95% interval "
        f"{interval}, over {len(item.items)} tasks, between which the "
        f"difference varies with a deviation of {format_number(found.sd_between_tasks)}; corrected "
        f"{format_p_value(item.p_holm)}. {describe_group_sizes(_list_pooled_groups([item]))}"
    )
    return LinkedSentence(text, links.of(_list_pooled_groups([item])), POOLED_TABLE)


def make_pooled_table(verdicts: StudyVerdicts, links: RunLinks) -> SortableTable:
    """One row per pair of frameworks under one set of hyperparameters."""
    items = verdicts.pooled
    heads = [
        head for head in list_setting_columns([item.cell for item in items]) if head[0] != "task"
    ]
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    names = (
        *("mean difference", "95% interval", "p", "p corrected", "deviation between tasks"),
        *("tasks", "n"),
    )
    rows = tuple(
        (
            (
                *(TableCell(get(pair.cell)) for _, get in heads),
                TableCell(pair.items[0].first.framework),
                TableCell(pair.items[0].second.framework),
                make_number_cell(pair.pooled.mean),
                make_interval_cell(pair.pooled.low, pair.pooled.high),
                make_p_value_cell(pair.pooled.p),
                make_p_value_cell(pair.p_holm),
                make_number_cell(pair.pooled.sd_between_tasks),
                TableCell(str(len(pair.items)), str(len(pair.items))),
                _make_used_cell(_list_pooled_groups([pair])),
            ),
            links.of(_list_pooled_groups([pair])),
        )
        for pair in items
    )
    title = "Mean differences over tasks, as shares of the way from random to published"
    return SortableTable(POOLED_TABLE, title, (*columns, *((name, True) for name in names)), rows)


def make_pooled_tasks_table(verdicts: StudyVerdicts, links: RunLinks) -> SortableTable:
    """One row per task of each pair: alone, and in the light of the other tasks."""
    items = verdicts.pooled
    heads = list_setting_columns([item.cell for pair in items for item in pair.items])
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    names = ("difference alone", "95% interval", "pooled", "95% interval", "n")
    rows = []
    for pair in items:
        found = pair.pooled
        for i, (item, scale) in enumerate(zip(pair.items, pair.scales, strict=True)):
            values = (
                *(TableCell(get(item.cell)) for _, get in heads),
                TableCell(item.first.framework),
                TableCell(item.second.framework),
                make_number_cell(item.difference / scale),
                make_interval_cell(item.low / scale, item.high / scale),
                make_number_cell(float(found.estimates[i])),
                make_interval_cell(float(found.lows[i]), float(found.highs[i])),
                _make_used_cell([item.first, item.second]),
            )
            rows.append((values, links.of([item.first, item.second])))
    title = "Each task alone, and drawn towards the mean over tasks"
    return SortableTable(
        POOLED_TASKS_TABLE, title, (*columns, *((name, True) for name in names)), tuple(rows)
    )


def _make_used_cell(groups: Sequence[ScoreGroup]) -> TableCell:
    used = [group.n for group in groups]
    return TableCell(format_range(used), str(min(used)))


def make_paired_row(item: PairedVerdict) -> TableRow:
    """One pair of frameworks in one setting, seed by seed."""
    found = item.result
    return {
        **make_setting_columns(item.item.cell),
        "first": item.item.first.framework,
        "second": item.item.second.framework,
        "pairs": found.n,
        "seeds": " ".join(map(str, item.seeds)),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p_paired": found.p,
        "correlation": found.correlation,
        "n_first": item.item.first.n,
        "n_second": item.item.second.n,
        "p_welch": item.item.p_welch,
        "p_paired_holm": item.p_holm,
        "p_welch_holm": item.item.p_holm,
    }


def make_pooled_rows(pair: PooledPair) -> list[TableRow]:
    """One row per task; differences in shares of the way that margins are a share of."""
    found = pair.pooled
    return [
        {
            **make_setting_columns(item.cell),
            "first": item.first.framework,
            "second": item.second.framework,
            "n_first": item.first.n,
            "n_second": item.second.n,
            "scale": scale,
            "difference": item.difference / scale,
            "low": item.low / scale,
            "high": item.high / scale,
            "pooled": found.estimates[i],
            "pooled_low": found.lows[i],
            "pooled_high": found.highs[i],
            "tasks": len(pair.items),
            "mean_over_tasks": found.mean,
            "mean_low": found.low,
            "mean_high": found.high,
            "p_mean": found.p,
            "sd_between_tasks": found.sd_between_tasks,
            "p_mean_holm": pair.p_holm,
        }
        for i, (item, scale) in enumerate(zip(pair.items, pair.scales, strict=True))
    ]


def make_omnibus_row(item: OmnibusVerdict) -> TableRow:
    """All pairs of one algorithm and variant."""
    return {
        "study": item.study,
        "algorithm": item.algorithm,
        "variant": item.variant,
        "verdict": item.verdict,
        "different": item.different,
        "pairs": item.count.tests,
        "significant_uncorrected": item.count.observed,
        "expected_under_null": item.count.expected_under_null,
        "max_under_null": item.count.max_under_null,
        "p": item.count.p,
        "simulated_studies": item.count.simulated_studies,
    }


def format_omnibus(item: OmnibusVerdict) -> str:
    """The same as a line."""
    count, under = item.count, f", {item.variant}" if item.variant else ""
    return (
        f"{get_label(item.algorithm)} in study {item.study}{under}: {item.verdict}; {count.observed} "
        f"of {count.tests} pairs significant one by one, {count.expected_under_null:.1f} if nothing differed "
        f"(p = {count.p:.4f})"
    )


def describe_omnibus(verdicts: StudyVerdicts) -> str:
    """Whether frameworks differ at all, be it that no pair can be named, for each algorithm."""
    known = [item for item in verdicts.omnibus if item.count.tests]
    if not known:
        return ""
    several = len({item.variant for item in known}) > len({item.algorithm for item in known})
    lines = [
        f"- {get_label(item.algorithm)}{f' ({escape_markdown(item.variant)})' * several}: {item.verdict}; "
        f"{item.count.observed} of {format_count(item.count.tests, 'pair')} significant one by one, "
        f"{item.count.expected_under_null:.1f} on average if nothing differed, {escape_markdown(format_p_value(item.count.p))}."
        for item in known
    ]
    lead = (
        "Do frameworks differ at all, be it that no pair can be named? Pairs of all tasks and "
        "recipes above, against studies made up of the same scores in which nothing differs:"
    )
    return "\n".join([lead, "", *lines])
