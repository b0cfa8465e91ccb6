"""Pairs of frameworks over all tasks at once, on the page: partial pooling."""

from collections.abc import Sequence

from analysis.data.runs import Cell
from analysis.report.links import Links
from analysis.report.statements import (
    AnswerInWords,
    Sentence,
    answer,
    ends_from_above,
    main_first,
    p_text,
    plural,
    recipe_words,
    sizes,
)
from analysis.report.tables import SortableTable, Value, amount, ends, p_value, setting_columns
from analysis.stats.pooling import LEAST
from analysis.verdicts.groups import Group
from analysis.verdicts.pooling import PooledPair
from analysis.verdicts.study import StudyVerdicts
from analysis.words import label, number, own_parts, span

TABLE, TASKS = "t-pooled", "t-pooled-tasks"


def pooled(verdicts: StudyVerdicts, links: Links) -> AnswerInWords:
    """Are two frameworks apart over all tasks, where single tasks cannot tell?"""
    items, question = verdicts.pooled, "Are two frameworks apart over all tasks together?"
    if not items:
        text = (
            f"No two frameworks share {LEAST} tasks with a deviation, a known scale and two seeds "
            "under equal hyperparameters, which pooling over tasks takes."
        )
        return AnswerInWords("pooled", question, Sentence(text, ()), (), (), 0)
    cells = [item.cell for item in items]
    alpha = verdicts.options.alpha
    chosen, begun = main_first(items, verdicts.is_main, lambda item: item.cell)
    parts = [
        Sentence(f"{begin}: {_counts(own, alpha)}.", links.of(_groups(own)), TABLE)
        for begin, own in begun
    ]
    text = (
        f"Of {plural(len(chosen), 'pair')} of frameworks under equal hyperparameters, each pooled "
        f"over {span(len(item.items) for item in chosen)} tasks: at {alpha:.0%}, "
        f"{_counts(chosen, alpha)}. Differences are shares of the way from random actions to the "
        "published score. The correction is Holm's, over the pairs of an algorithm. No verdict "
        f"hangs on this. {sizes(_groups(chosen))}"
    )
    clear = sorted((i for i in chosen if i.p_holm < alpha), key=lambda i: (i.p_holm, i.pooled.p))
    findings = [_finding(item, cells, links) for item in clear]
    return answer(
        "pooled", question, Sentence(text, links.of(_groups(chosen)), TABLE), parts, findings
    )


def _counts(items: Sequence[PooledPair], alpha: float) -> str:
    alone = sum(item.pooled.p < alpha for item in items)
    after = sum(item.p_holm < alpha for item in items)
    return (
        f"the mean difference is shown to be other than 0 in {after} of {len(items)} after "
        f"correction, in {alone} one by one"
    )


def _groups(items: Sequence[PooledPair]) -> list[Group]:
    return [group for pair in items for item in pair.items for group in (item.first, item.second)]


def _finding(item: PooledPair, cells: Sequence[Cell], links: Links) -> Sentence:
    found, cell = item.pooled, item.cell
    first, second = (g.framework for g in (item.items[0].first, item.items[0].second))
    high, low = (first, second) if found.mean > 0 else (second, first)
    parts = [part for part in own_parts(cell, cells) if part]
    special = f" ({', '.join(parts)})" if parts else ""
    interval = ends_from_above(found.mean, found.low, found.high)
    text = (
        f"{label(cell.algorithm)} under {recipe_words(cell.hps)}{special}: {label(high)} scores "
        f"higher than {label(low)} by {number(abs(found.mean))} of the way, 95% interval "
        f"{interval}, over {len(item.items)} tasks, between which the "
        f"difference varies with a deviation of {number(found.between)}; corrected "
        f"{p_text(item.p_holm)}. {sizes(_groups([item]))}"
    )
    return Sentence(text, links.of(_groups([item])), TABLE)


def pooled_table(verdicts: StudyVerdicts, links: Links) -> SortableTable:
    """One row per pair of frameworks under one set of hyperparameters."""
    items = verdicts.pooled
    heads = [head for head in setting_columns([item.cell for item in items]) if head[0] != "task"]
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    names = (
        *("mean difference", "95% interval", "p", "p corrected", "deviation between tasks"),
        *("tasks", "n"),
    )
    rows = tuple(
        (
            (
                *(Value(get(pair.cell)) for _, get in heads),
                Value(pair.items[0].first.framework),
                Value(pair.items[0].second.framework),
                amount(pair.pooled.mean),
                ends(pair.pooled.low, pair.pooled.high),
                p_value(pair.pooled.p),
                p_value(pair.p_holm),
                amount(pair.pooled.between),
                Value(str(len(pair.items)), str(len(pair.items))),
                _used(_groups([pair])),
            ),
            links.of(_groups([pair])),
        )
        for pair in items
    )
    title = "Mean differences over tasks, as shares of the way from random to published"
    return SortableTable(TABLE, title, (*columns, *((name, True) for name in names)), rows)


def pooled_tasks_table(verdicts: StudyVerdicts, links: Links) -> SortableTable:
    """One row per task of each pair: alone, and in the light of the other tasks."""
    items = verdicts.pooled
    heads = setting_columns([item.cell for pair in items for item in pair.items])
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    names = ("difference alone", "95% interval", "pooled", "95% interval", "n")
    rows = []
    for pair in items:
        found = pair.pooled
        for i, (item, scale) in enumerate(zip(pair.items, pair.scales, strict=True)):
            values = (
                *(Value(get(item.cell)) for _, get in heads),
                Value(item.first.framework),
                Value(item.second.framework),
                amount(item.difference / scale),
                ends(item.low / scale, item.high / scale),
                amount(float(found.estimates[i])),
                ends(float(found.lows[i]), float(found.highs[i])),
                _used([item.first, item.second]),
            )
            rows.append((values, links.of([item.first, item.second])))
    title = "Each task alone, and drawn towards the mean over tasks"
    return SortableTable(TASKS, title, (*columns, *((name, True) for name in names)), tuple(rows))


def _used(groups: Sequence[Group]) -> Value:
    used = [group.n for group in groups]
    return Value(span(used), str(min(used)))
