"""Consistency on the page: do frameworks score the same under equal settings?"""

import collections
import math
from collections.abc import Sequence

from analysis.data.runs import Cell
from analysis.report import learned
from analysis.report.links import Links
from analysis.report.statements import (
    AnswerInWords,
    Sentence,
    answer,
    by_variant,
    ends_from_above,
    main_first,
    p_text,
    plural,
    sizes,
    verdict_counts,
    where,
)
from analysis.report.tables import (
    SortableTable,
    Value,
    amount,
    ends,
    p_value,
    setting_columns,
    size_values,
)
from analysis.verdicts.consistency import DIFFERENT, EQUIVALENT, UNDECIDED, PairVerdict
from analysis.verdicts.defaults import members
from analysis.verdicts.groups import Group
from analysis.verdicts.options import Options
from analysis.verdicts.study import StudyVerdicts
from analysis.words import MISSING, label, number, seeds_words

_ORDER = (DIFFERENT, EQUIVALENT, UNDECIDED)


def consistency(verdicts: StudyVerdicts, links: Links) -> AnswerInWords:
    """Do frameworks score the same under equal settings?"""
    items = verdicts.consistency
    question = "Do frameworks score the same under the same hyperparameters?"
    if not items:
        text = "No two frameworks have a run used in the same setting."
        return answer(
            "consistency", question, Sentence(text, ()), _as_they_come(verdicts, links), ()
        )
    cells = [item.cell for item in items]
    aside = [item for item in items if not verdicts.is_main(item.cell)]
    main = [item for item in items if verdicts.is_main(item.cell)]
    items, aside = (tuple(main), aside) if main else (items, [])
    parts = []
    for _, own in by_variant(items, cells, lambda item: item.cell):
        text = f"{label(own[0].cell.algorithm)}: {_part(own, verdicts)}"
        parts.append(Sentence(text, _both(own, links), "t-consistency"))
    for words, own in by_variant(aside, cells, lambda item: item.cell):
        text = f"Apart from these, {words}: {_part(own, verdicts)}"
        parts.append(Sentence(text, _both(own, links), "t-consistency"))
    parts += _as_they_come(verdicts, links)
    clear = sorted(
        (item for item in items if item.verdict != UNDECIDED),
        key=lambda i: (i.verdict != DIFFERENT, i.p_holm, -abs(i.hedges_g[0]), i.cell),
    )
    findings = [
        _finding(group[0], cells, links, verdicts)
        if len(group) == 1
        else _cause(name, group, cells, links)
        for name, group in by_cause(clear)
    ]
    headline = Sentence(_headline(items, verdicts.options), _both(items, links), "t-consistency")
    return answer("consistency", question, headline, parts, findings)


def _as_they_come(verdicts: StudyVerdicts, links: Links) -> tuple[Sentence, ...]:
    """A sentence for each algorithm and variant whose frameworks ran under their own defaults."""
    _, begun = main_first(verdicts.defaults, verdicts.is_main, lambda item: item.cell)
    found = []
    for words, own in begun:
        counts = verdict_counts([item.verdict for item in own], _ORDER)
        text = f"{words}, each framework under its own defaults: {counts}."
        text += _failed(own, verdicts.options.alpha) + _learned(own, verdicts)
        found.append(Sentence(text, _both(own, links), "t-defaults"))
    return tuple(found)


def _part(own: Sequence[PairVerdict], verdicts: StudyVerdicts) -> str:
    """Counts of one algorithm and variant, and whether there is any difference."""
    cell = own[0].cell
    text = f"{verdict_counts([item.verdict for item in own], _ORDER)}."
    for item in verdicts.existence:
        if (item.study, item.algorithm, item.variant) == (cell.study, cell.algorithm, cell.variant):
            count = item.count
            text += (
                f" {item.verdict.capitalize()}: {count.observed} of {count.tests} significant one "
                f"by one, {count.mean:.1f} if nothing differed ({p_text(count.p)})."
            )
    return text + _failed(own, verdicts.options.alpha) + _learned(own, verdicts)


def _failed(own: Sequence[PairVerdict], alpha: float) -> str:
    """How many runs of each framework failed, and in how many pairs that differs."""
    groups: dict[str, dict[Cell, tuple[int, int]]] = {}
    known = [item for item in own if item.failures.known]
    for item in known:
        found = zip(
            (item.first, item.second), item.failures.failed, item.failures.sizes, strict=True
        )
        for group, failed, size in found:
            groups.setdefault(group.framework, {})[item.cell] = failed, size
    if not known:
        return ""
    told = ", ".join(
        f"{label(name)} {sum(k for k, _ in cells.values())} of {sum(n for _, n in cells.values())}"
        for name, cells in sorted(groups.items())
    )
    differ = sum(item.failures.p_holm < alpha for item in known)
    return f" Failed runs: {told}; they differ in {plural(differ, 'pair')}."


def _learned(own: Sequence[PairVerdict], verdicts: StudyVerdicts) -> str:
    cells = {item.cell for item in own}
    groups = [group for cell in cells for group in members(cell, verdicts.groups)]
    found = [item for item in verdicts.learning if item.group in groups]
    above = learned.counted(found)
    return f" Means above random actions: {above}." if above != MISSING else ""


def _headline(items: Sequence[PairVerdict], options: Options) -> str:
    words = verdict_counts([item.verdict for item in items], _ORDER)
    head = (
        f"Of {plural(len(items), 'pair')} of frameworks in equal settings: {words}. Different: at "
        f"{options.alpha:.0%} after Holm's correction over {_families(items)}. Equivalent: shown "
        f"to be within {options.margin_words}, even if runs that were not seen fail as often as "
        "these leave possible. Undecided is neither. "
        + sizes(group for item in items for group in (item.first, item.second))
    )
    needed = sorted(
        item.seeds_needed
        for item in items
        if item.verdict == UNDECIDED and not math.isnan(item.seeds_needed)
    )
    if needed:
        middle = needed[len(needed) // 2]
        seeds = f"at least {middle:.0f}" if math.isfinite(middle) else "more than 1,000"
        head += (
            f" Half of the undecided pairs would need {seeds} seeds per framework for "
            f"{options.power:.0%} power, if the measured values were the true ones: "
            "python -m analysis plan lists them with their cost."
        )
    return head


def _families(items: Sequence[PairVerdict]) -> str:
    sizes = sorted({item.family_size for item in items})
    number_of = len({item.family for item in items})
    tests = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
    return f"{tests} tests" + (f" in each of {number_of} families" if number_of > 1 else "")


def _both(items: Sequence[PairVerdict], links: Links) -> tuple[int, ...]:
    return links.of(group for item in items for group in (item.first, item.second))


def _finding(
    item: PairVerdict, cells: Sequence[Cell], links: Links, verdicts: StudyVerdicts
) -> Sentence:
    high, low = sorted((item.first, item.second), key=lambda g: -float(g.moments.mean))
    p = item.p_holm if item.verdict == DIFFERENT else item.p_equivalence_holm
    text = (
        f"{where(item.cell, cells)}: {_score(high)} and {_score(low)} are "
        f"{item.verdict}: they are {number(abs(item.difference))} apart, 95% interval "
        f"{ends_from_above(item.difference, item.low, item.high)}, corrected {p_text(p)}"
        f"{learned.remark(item, verdicts.learning)}."
    )
    if item.verdict == EQUIVALENT:
        way = f"{number(item.margin.zero)} to {number(item.margin.reference)}"
        text += (
            f" The margin is {number(item.margin.size)}, a share of {way} "
            f"({item.margin.source}); runs are taken to end between {number(item.range.low)} and "
            f"{number(item.range.high)} ({item.range.source})."
        )
    return Sentence(text, links.of([high, low]), "t-consistency")


def by_cause(items: Sequence[PairVerdict]) -> list[tuple[str, list[PairVerdict]]]:
    """Pairs that one framework's standing apart explains, together, the clearest first.

    Within a task and algorithm, the framework that most of the different pairs have on the same
    side takes these, then the next one. Pairs that are equivalent stay together by task.

    Args:
        items: Decided pairs, the clearest first.

    Returns:
        The framework's name, empty for pairs that are equivalent, and its pairs.
    """
    left: dict[tuple[str, ...], list[PairVerdict]] = {}
    for item in items:
        cell = item.cell
        key = (item.verdict, cell.study, cell.env, cell.algorithm, cell.variant)
        left.setdefault(key, []).append(item)
    causes = []
    for (verdict, *_), pairs in left.items():
        while pairs:
            sides = collections.Counter(
                (group.framework, sign) for item in pairs for group, sign in _sides(item)
            )
            side, _ = max(sides.items(), key=lambda entry: entry[1])
            own = [
                item
                for item in pairs
                if verdict == EQUIVALENT
                or side in [(group.framework, sign) for group, sign in _sides(item)]
            ]
            causes.append(("" if verdict == EQUIVALENT else side[0], own))
            pairs = [item for item in pairs if item not in own]
    return sorted(causes, key=lambda cause: items.index(cause[1][0]))


def _sides(item: PairVerdict) -> list[tuple[Group, bool]]:
    """Both groups, and whether each is the higher one."""
    return [(item.first, item.difference > 0), (item.second, item.difference <= 0)]


def _cause(
    name: str, items: Sequence[PairVerdict], cells: Sequence[Cell], links: Links
) -> Sentence:
    """Several pairs in one sentence."""
    cell = items[0].cell
    several = len({item.cell.hps for item in items}) > 1
    place = f"{cell.env}, {label(cell.algorithm)}" if several else where(cell, cells)
    gaps = sorted(abs(item.difference) for item in items)
    apart = number(gaps[0]) if len(gaps) == 1 else f"{number(gaps[0])} to {number(gaps[-1])}"
    under = ", ".join(sorted({item.cell.hps for item in items}))
    if not name:
        p = max(item.p_equivalence_holm for item in items)
        text = f"{place}: {plural(len(items), 'pair')} are equivalent, {apart} apart"
    else:
        p = max(item.p_holm for item in items)
        others = sorted({g.framework for i in items for g, _ in _sides(i)} - {name})
        above = any(group.framework == name and high for group, high in _sides(items[0]))
        text = (
            f"{place}: {label(name)} scores {'higher' if above else 'lower'} than "
            f"{' and '.join(map(label, others))}, by {apart} in {plural(len(items), 'pair')}"
        )
    text += f"{f', under {under}' if several else ''}; corrected {p_text(p)} or less."
    groups = [group for item in items for group in (item.first, item.second)]
    return Sentence(text, links.of(groups), "t-consistency", f"{name} {items[0].verdict}".strip())


def _score(group: Group) -> str:
    mean = number(float(group.moments.mean))
    return f"{label(group.framework)} ({mean}, n = {group.n})"


def consistency_table(verdicts: StudyVerdicts, links: Links) -> SortableTable:
    """One row per pair of frameworks in a setting."""
    return _pairs_table("t-consistency", "Every pair of frameworks", verdicts.consistency, links)


def defaults_table(verdicts: StudyVerdicts, links: Links) -> SortableTable:
    """One row per pair of frameworks, each under its own defaults."""
    title = "Every pair of frameworks, each under its own defaults"
    return _pairs_table("t-defaults", title, verdicts.defaults, links)


def _pairs_table(
    name: str, title: str, items: Sequence[PairVerdict], links: Links
) -> SortableTable:
    heads = setting_columns([item.cell for item in items])
    names = (
        *("difference", "95% interval", "p corrected", "p permuted", "p equivalence", "margin"),
        *("failed", "p failed", "P(first better)", "seeds needed"),
    )
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    columns += [("verdict", False), *((name, True) for name in names)]
    columns += [("n", True), ("mind", False)]
    rows = tuple(
        (
            (*(Value(get(item.cell)) for _, get in heads), *_pair_values(item)),
            links.of([item.first, item.second]),
        )
        for item in items
    )
    return SortableTable(name, title, tuple(columns), rows)


def _pair_values(item: PairVerdict) -> list[Value]:
    return [
        Value(item.first.framework),
        Value(item.second.framework),
        Value(item.verdict, kind=item.verdict),
        amount(item.difference),
        ends(item.low, item.high),
        *map(p_value, (item.p_holm, item.p_permutation, item.p_equivalence_holm)),
        amount(item.margin.size),
        Value(" ".join(item.failures.counts), _sort(item.failures.difference)),
        p_value(item.failures.p_holm),
        amount(item.improvement[0]),
        amount(item.seeds_needed, seeds_words(item.seeds_needed)),
        Value(
            f"{size_values(item.first).text} {size_values(item.second).text}",
            str(min(item.first.n, item.second.n)),
        ),
        Value("; ".join(item.remarks)),
    ]


def _sort(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
