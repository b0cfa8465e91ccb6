"""Consistency on the page: do frameworks score the same under equal settings?"""

import collections
import math
from collections.abc import Sequence

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.escaping import format_table
from parallax.analysis.labels import (
    MISSING,
    escape_markdown,
    find_own_parts,
    format_number,
    format_range,
    format_seeds_needed,
    get_label,
)
from parallax.analysis.report.document import (
    ReportSection,
    SortableTable,
    TableCell,
    format_list,
    list_setting_columns,
    make_interval_cell,
    make_interval_columns,
    make_number_cell,
    make_p_value_cell,
    make_setting_columns,
    make_size_columns,
    make_sizes_cell,
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
    format_verdict_counts,
    group_by_variant,
    make_answer,
    split_main_variants,
)
from parallax.analysis.report.render_csv import TableRow
from parallax.analysis.report.sections import hyperparameters, vs_random
from parallax.analysis.verdicts.consistency import DIFFERENT, EQUIVALENT, INCONCLUSIVE, PairVerdict
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.sequential import SequentialVerdict
from parallax.analysis.verdicts.study import StudyVerdicts
from parallax.analysis.verdicts.vs_random import RandomVerdict

_VERDICT_ORDER = (DIFFERENT, EQUIVALENT, INCONCLUSIVE)


def answer_consistency(verdicts: StudyVerdicts, links: RunLinks) -> QuestionAnswer:
    """Do frameworks score the same under equal settings?"""
    items = verdicts.consistency
    question = "Do frameworks score the same under the same hyperparameters?"
    if not items:
        text = "No two frameworks have a run used in the same setting."
        return make_answer(
            "consistency",
            question,
            LinkedSentence(text, ()),
            _describe_defaults(verdicts, links),
            (),
        )
    cells = [item.cell for item in items]
    aside = [item for item in items if not verdicts.is_main_variant(item.cell)]
    main = [item for item in items if verdicts.is_main_variant(item.cell)]
    items, aside = (tuple(main), aside) if main else (items, [])
    parts = []
    for _, own in group_by_variant(items, cells, lambda item: item.cell):
        text = f"{get_label(own[0].cell.algorithm)}: {_describe_study_part(own, verdicts)}"
        parts.append(LinkedSentence(text, _link_pairs(own, links), "t-consistency"))
    for words, own in group_by_variant(aside, cells, lambda item: item.cell):
        text = f"Apart from these, {words}: {_describe_study_part(own, verdicts)}"
        parts.append(LinkedSentence(text, _link_pairs(own, links), "t-consistency"))
    parts += _describe_defaults(verdicts, links)
    clear = sorted(
        (item for item in items if item.verdict != INCONCLUSIVE),
        key=lambda i: (i.verdict != DIFFERENT, i.p_holm, -abs(i.hedges_g[0]), i.cell),
    )
    findings = [
        _describe_finding(group[0], cells, links, verdicts)
        if len(group) == 1
        else _describe_outlier_framework(name, group, cells, links)
        for name, group in group_by_outlier_framework(clear)
    ]
    headline = LinkedSentence(
        _format_headline(items, verdicts.options), _link_pairs(items, links), "t-consistency"
    )
    return make_answer("consistency", question, headline, parts, findings)


def _describe_defaults(verdicts: StudyVerdicts, links: RunLinks) -> tuple[LinkedSentence, ...]:
    """A sentence for each algorithm and variant whose frameworks ran under their own defaults."""
    _, begun = split_main_variants(
        verdicts.defaults, verdicts.is_main_variant, lambda item: item.cell
    )
    found = []
    for words, own in begun:
        counts = format_verdict_counts([item.verdict for item in own], _VERDICT_ORDER)
        text = f"{words}, each framework under its own defaults: {counts}."
        text += _describe_failures(own, verdicts.options.alpha) + _describe_learned_count(
            own, verdicts
        )
        found.append(LinkedSentence(text, _link_pairs(own, links), "t-defaults"))
    return tuple(found)


def _describe_study_part(own: Sequence[PairVerdict], verdicts: StudyVerdicts) -> str:
    """Counts of one algorithm and variant, and whether there is any difference."""
    cell = own[0].cell
    text = f"{format_verdict_counts([item.verdict for item in own], _VERDICT_ORDER)}."
    for item in verdicts.omnibus:
        if (item.study, item.algorithm, item.variant) == (cell.study, cell.algorithm, cell.variant):
            count = item.count
            text += (
                f" {item.verdict.capitalize()}: {count.observed} of {count.tests} significant one "
                f"by one, {count.expected_under_null:.1f} if nothing differed ({format_p_value(count.p)})."
            )
    return (
        text
        + _describe_failures(own, verdicts.options.alpha)
        + _describe_learned_count(own, verdicts)
    )


def _describe_failures(own: Sequence[PairVerdict], alpha: float) -> str:
    """How many runs of each framework failed, and in how many pairs that differs."""
    groups: dict[str, dict[StudyCell, tuple[int, int]]] = {}
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
        f"{get_label(name)} {sum(k for k, _ in cells.values())} of {sum(n for _, n in cells.values())}"
        for name, cells in sorted(groups.items())
    )
    differ = sum(item.failures.p_holm < alpha for item in known)
    return f" Failed runs: {told}; they differ in {format_count(differ, 'pair')}."


def _describe_learned_count(own: Sequence[PairVerdict], verdicts: StudyVerdicts) -> str:
    cells = {item.cell for item in own}
    found = [item for cell in cells for item in verdicts.vs_random_by_cell.get(cell, ())]
    above = vs_random.count_above_random(found)
    return f" Means above random actions: {above}." if above != MISSING else ""


def _format_headline(items: Sequence[PairVerdict], options: VerdictOptions) -> str:
    words = format_verdict_counts([item.verdict for item in items], _VERDICT_ORDER)
    head = (
        f"Of {format_count(len(items), 'pair')} of frameworks in equal settings: {words}. Different: at "
        f"{options.alpha:.0%} after Holm's correction over {_describe_families(items)}. Equivalent: shown "
        f"to be within {options.margin_description}, even if runs that were not seen fail as often as "
        "these leave possible. Undecided is neither. "
        + describe_group_sizes(group for item in items for group in (item.first, item.second))
    )
    needed = sorted(
        item.seeds_needed
        for item in items
        if item.verdict == INCONCLUSIVE and not math.isnan(item.seeds_needed)
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


def _describe_families(items: Sequence[PairVerdict]) -> str:
    sizes = sorted({item.family_size for item in items})
    number_of = len({item.family for item in items})
    tests = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
    return f"{tests} tests" + (f" in each of {number_of} families" if number_of > 1 else "")


def _link_pairs(items: Sequence[PairVerdict], links: RunLinks) -> tuple[int, ...]:
    return links.of(group for item in items for group in (item.first, item.second))


def _describe_finding(
    item: PairVerdict, cells: Sequence[StudyCell], links: RunLinks, verdicts: StudyVerdicts
) -> LinkedSentence:
    high, low = sorted((item.first, item.second), key=lambda g: -float(g.moments.mean))
    p = item.p_holm if item.verdict == DIFFERENT else item.p_equivalence_holm
    text = (
        f"{format_setting(item.cell, cells)}: {_format_score(high)} and {_format_score(low)} are "
        f"{item.verdict}: they are {format_number(abs(item.difference))} apart, 95% interval "
        f"{format_higher_minus_lower_interval(item.difference, item.low, item.high)}, corrected {format_p_value(p)}"
        f"{vs_random.remark_on_pair(item, verdicts.vs_random)}."
    )
    if item.verdict == EQUIVALENT:
        way = f"{format_number(item.margin.zero)} to {format_number(item.margin.reference)}"
        text += (
            f" The margin is {format_number(item.margin.size)}, a share of {way} "
            f"({item.margin.source}); runs are taken to end between {format_number(item.range.low)} and "
            f"{format_number(item.range.high)} ({item.range.source})."
        )
    return LinkedSentence(text, links.of([high, low]), "t-consistency")


def group_by_outlier_framework(items: Sequence[PairVerdict]) -> list[tuple[str, list[PairVerdict]]]:
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
                (group.framework, sign) for item in pairs for group, sign in _list_sides(item)
            )
            side, _ = max(sides.items(), key=lambda entry: entry[1])
            own = [
                item
                for item in pairs
                if verdict == EQUIVALENT
                or side in [(group.framework, sign) for group, sign in _list_sides(item)]
            ]
            causes.append(("" if verdict == EQUIVALENT else side[0], own))
            pairs = [item for item in pairs if item not in own]
    return sorted(causes, key=lambda cause: items.index(cause[1][0]))


def _list_sides(item: PairVerdict) -> list[tuple[ScoreGroup, bool]]:
    """Both groups, and whether each is the higher one."""
    return [(item.first, item.difference > 0), (item.second, item.difference <= 0)]


def _describe_outlier_framework(
    name: str, items: Sequence[PairVerdict], cells: Sequence[StudyCell], links: RunLinks
) -> LinkedSentence:
    """Several pairs in one sentence."""
    cell = items[0].cell
    several = len({item.cell.hps for item in items}) > 1
    place = f"{cell.env}, {get_label(cell.algorithm)}" if several else format_setting(cell, cells)
    gaps = sorted(abs(item.difference) for item in items)
    apart = (
        format_number(gaps[0])
        if len(gaps) == 1
        else f"{format_number(gaps[0])} to {format_number(gaps[-1])}"
    )
    under = ", ".join(sorted({item.cell.hps for item in items}))
    if not name:
        p = max(item.p_equivalence_holm for item in items)
        text = f"{place}: {format_count(len(items), 'pair')} are equivalent, {apart} apart"
    else:
        p = max(item.p_holm for item in items)
        others = sorted({g.framework for i in items for g, _ in _list_sides(i)} - {name})
        above = any(group.framework == name and high for group, high in _list_sides(items[0]))
        text = (
            f"{place}: {get_label(name)} scores {'higher' if above else 'lower'} than "
            f"{' and '.join(map(get_label, others))}, by {apart} in {format_count(len(items), 'pair')}"
        )
    text += f"{f', under {under}' if several else ''}; corrected {format_p_value(p)} or less."
    groups = [group for item in items for group in (item.first, item.second)]
    return LinkedSentence(
        text, links.of(groups), "t-consistency", f"{name} {items[0].verdict}".strip()
    )


def _format_score(group: ScoreGroup) -> str:
    mean = format_number(float(group.moments.mean))
    return f"{get_label(group.framework)} ({mean}, n = {group.n})"


def make_consistency_table(verdicts: StudyVerdicts, links: RunLinks) -> SortableTable:
    """One row per pair of frameworks in a setting."""
    return _make_pairs_table(
        "t-consistency", "Every pair of frameworks", verdicts.consistency, links
    )


def make_defaults_table(verdicts: StudyVerdicts, links: RunLinks) -> SortableTable:
    """One row per pair of frameworks, each under its own defaults."""
    title = "Every pair of frameworks, each under its own defaults"
    return _make_pairs_table("t-defaults", title, verdicts.defaults, links)


def _make_pairs_table(
    name: str, title: str, items: Sequence[PairVerdict], links: RunLinks
) -> SortableTable:
    heads = list_setting_columns([item.cell for item in items])
    names = (
        *("difference", "95% interval", "p corrected", "p permuted", "p equivalence", "margin"),
        *("failed", "p failed", "P(first better)", "seeds needed"),
    )
    columns = [(name, False) for name, _ in heads] + [("first", False), ("second", False)]
    columns += [("verdict", False), *((name, True) for name in names)]
    columns += [("n", True), ("mind", False)]
    rows = tuple(
        (
            (*(TableCell(get(item.cell)) for _, get in heads), *_make_pair_cells(item)),
            links.of([item.first, item.second]),
        )
        for item in items
    )
    return SortableTable(name, title, tuple(columns), rows)


def _make_pair_cells(item: PairVerdict) -> list[TableCell]:
    return [
        TableCell(item.first.framework),
        TableCell(item.second.framework),
        TableCell(item.verdict, kind=item.verdict),
        make_number_cell(item.difference),
        make_interval_cell(item.low, item.high),
        *map(make_p_value_cell, (item.p_holm, item.p_permutation, item.p_equivalence_holm)),
        make_number_cell(item.margin.size),
        TableCell(" ".join(item.failures.counts), _format_sort_key(item.failures.difference)),
        make_p_value_cell(item.failures.p_holm),
        make_number_cell(item.improvement[0]),
        make_number_cell(item.seeds_needed, format_seeds_needed(item.seeds_needed)),
        TableCell(
            f"{make_sizes_cell(item.first).text} {make_sizes_cell(item.second).text}",
            str(min(item.first.n, item.second.n)),
        ),
        TableCell("; ".join(item.caveats)),
    ]


def _format_sort_key(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def make_setting_sections(
    verdicts: StudyVerdicts, pairs: Sequence[PairVerdict]
) -> tuple[ReportSection, ...]:
    """A section for each algorithm, task and recipe that two frameworks or more were run in.

    Args:
        verdicts: Those of the study.
        pairs: Which of them it is about: `main_consistency` or `main_defaults`.
    """
    cells = sorted({item.cell for item in pairs}, key=lambda cell: (cell.algorithm, cell))
    sections = []
    for cell in cells:
        own = [item for item in pairs if item.cell == cell]
        groups = verdicts.groups_by_cell.get(cell, ())
        heading = format_setting_with_recipe(cell, groups, cells)
        found = verdicts.vs_random_by_cell.get(cell, ())
        blocks = _render_setting(own, groups, found, verdicts.options)
        sections.append(ReportSection(heading, (*blocks, _render_pairs_table(own))))
    return tuple(sections)


def format_setting_with_recipe(
    cell: StudyCell, groups: Sequence[ScoreGroup], cells: Sequence[StudyCell]
) -> str:
    """A setting in words, with what is held of its recipe and the steps that runs were scored at.

    Args:
        cell: The setting.
        groups: Its groups.
        cells: All settings; what is the same in all of the algorithm's is left out.
    """
    parts = find_own_parts(cell, [other for other in cells if other.algorithm == cell.algorithm])
    parts += [f"study {cell.study}"] * (len({other.study for other in cells}) > 1)
    own = f" ({', '.join(part for part in parts if part)})" if any(parts) else ""
    steps = sorted({step for group in groups for step in group.steps})
    at = " to ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1]))) if steps else ""
    after = f", after {at} steps" if at else ""
    own += hyperparameters.describe_recipe_coverage(group.runs for group in groups)
    return (
        f"{get_label(cell.algorithm)} on {cell.env} under {describe_recipe(cell.hps)}{own}{after}"
    )


def make_setting_summary(verdicts: StudyVerdicts, pairs: Sequence[PairVerdict]) -> str:
    """A table of each setting: who is above random actions, how many pairs are decided how."""
    if not pairs:
        return ""
    rows = []
    for cell in sorted({item.cell for item in pairs}, key=lambda cell: (cell.algorithm, cell)):
        own = [item for item in pairs if item.cell == cell]
        counts = [
            str(sum(item.verdict == verdict for item in own))
            for verdict in (DIFFERENT, EQUIVALENT, INCONCLUSIVE)
        ]
        named = [
            get_label(cell.algorithm),
            cell.env,
            describe_recipe(cell.hps),
            format_size_range(own),
        ]
        found = verdicts.vs_random_by_cell.get(cell, ())
        above = vs_random.count_above_random(found) + vs_random.format_below_count(found)
        margin = " to ".join(dict.fromkeys(format_number(size) for size in _get_margin_range(own)))
        rows.append([*named, above, margin, str(len(own)), *counts])
    heads = ["algorithm", "task", "hyperparameters", "n", "above random actions", "margin"]
    heads += ["pairs", DIFFERENT, EQUIVALENT, INCONCLUSIVE]
    return format_table(rows, heads)


def _get_margin_range(pairs: Sequence[PairVerdict]) -> tuple[float, float]:
    sizes = [item.margin.size for item in pairs]
    return min(sizes), max(sizes)


def _render_setting(
    pairs: Sequence[PairVerdict],
    groups: Sequence[ScoreGroup],
    found: Sequence[RandomVerdict],
    options: VerdictOptions,
) -> tuple[str, ...]:
    blocks = [
        _describe_run_counts(groups),
        *filter(None, [vs_random.describe_vs_random(found, pairs)]),
    ]
    for verdict, lead in (
        (DIFFERENT, "Different"),
        (EQUIVALENT, f"Equivalent within {options.margin_share:.0%}"),
    ):
        own = [item for item in pairs if item.verdict == verdict]
        own.sort(key=lambda item: -abs(item.difference))
        head = f"{lead}: {len(own) or 'none'} of {format_count(len(pairs), 'pair')}"
        head += f" (n = {format_size_range(pairs)})" * (not own)
        blocks.append(format_list(head, [describe_pair(item) for item in own]))
    undecided = [item for item in pairs if item.verdict == INCONCLUSIVE]
    blocks += [
        _describe_inconclusive(undecided, len(pairs), options),
        _describe_equivalent_so_far(pairs, options),
    ]
    if not all(item.range.known for item in pairs):
        blocks.append(
            "Parallax has no published score of this algorithm on this task and no range of its "
            "scores was given, so that no number of runs can show frameworks to be equivalent here."
        )
    return tuple(blocks)


def _describe_equivalent_so_far(pairs: Sequence[PairVerdict], options: VerdictOptions) -> str:
    """Pairs that only runs not seen keep from being equivalent."""
    found = [
        f"{get_label(item.first.framework)} and {get_label(item.second.framework)}"
        for item in pairs
        if item.is_limited_by_unobserved_failures
    ]
    if not found:
        return ""
    return (
        f"Of the undecided, {format_count(len(found), 'pair')} would be equivalent but for runs that "
        f"were not seen, by two one-sided tests at {options.alpha:.0%}, one by one: "
        f"{', '.join(found)}."
    )


def _describe_run_counts(groups: Sequence[ScoreGroup]) -> str:
    sizes = {group.framework: (group.requested, group.completed, group.n) for group in groups}
    found = [*sizes.values()]
    usual = max(sorted(set(found), reverse=True), key=found.count)
    odd = [
        f"{get_label(name)} {'/'.join(map(str, size))}"
        for name, size in sizes.items()
        if size != usual
    ]
    text = f"{format_count(len(sizes), 'framework')}, runs requested/completed/used: "
    text += f"{'/'.join(map(str, usual))} of each"
    text += f", but {', '.join(odd)}." if odd else "."
    return text + hyperparameters.describe_equal_hyperparameters(
        [run for group in groups for run in group.runs]
    )


def describe_pair(item: PairVerdict) -> str:
    """Two frameworks, how far they are apart with the 95% interval, n and the corrected p-value."""
    high, low = sorted((item.first, item.second), key=lambda group: -float(group.moments.mean))
    text = (
        f"{get_label(high.framework)} ({format_number(float(high.moments.mean))}) above "
        f"{get_label(low.framework)} ({format_number(float(low.moments.mean))}) by "
        f"{format_number(abs(item.difference))}, 95% interval "
        f"{format_higher_minus_lower_interval(item.difference, item.low, item.high)}, n = {high.n} and {low.n}"
    )
    if item.verdict == EQUIVALENT:
        p = format_p_value(item.p_equivalence_holm)
        return f"{text}, margin {format_number(item.margin.size)}, corrected {p}"
    return f"{text}, corrected {format_p_value(item.p_holm)}"


def _render_pairs_table(pairs: Sequence[PairVerdict]) -> str:
    """A table of all pairs, folded."""
    rows = [
        [
            f"{get_label(item.first.framework)} less {get_label(item.second.framework)}",
            format_number(item.difference),
            f"\\[{format_number(item.low)}, {format_number(item.high)}]",
            f"{item.first.n} and {item.second.n}",
            escape_markdown(format_p_value(item.p_holm).removeprefix("p = ").removeprefix("p ")),
            item.verdict,
            escape_markdown(format_seeds_needed(item.seeds_needed))
            if item.verdict == INCONCLUSIVE
            else "",
        ]
        for item in pairs
    ]
    heads = ["pair", "difference", "95% interval", "n", "corrected p", "verdict"]
    heads.append("seeds needed")
    table = format_table(rows, heads)
    lead = f"<summary>All {format_count(len(pairs), 'pair')}</summary>"
    return f"<details>{lead}\n\n{table}\n\n</details>"


def _describe_inconclusive(
    items: Sequence[PairVerdict], total: int, options: VerdictOptions
) -> str:
    if not items:
        return f"Undecided: none of {format_count(total, 'pair')}."
    gaps = sorted(abs(item.difference) for item in items)
    known = [item for item in items if not math.isnan(item.low)]
    apart = " to ".join(dict.fromkeys((format_number(gaps[0]), format_number(gaps[-1]))))
    text = (
        f"Undecided: {len(items)} of {format_count(total, 'pair')}, by n = {format_size_range(items)} runs "
        f"per framework. {'Their means are' if len(items) > 1 else 'Its means are'} {apart} apart."
    )
    if known:
        widest = max(known, key=lambda item: item.high - item.low)
        text += (
            f" The widest 95% interval, of {get_label(widest.first.framework)} less "
            f"{get_label(widest.second.framework)}, is [{format_number(widest.low)}, {format_number(widest.high)}]."
        )
    needed = sorted(item.seeds_needed for item in items if not math.isnan(item.seeds_needed))
    if needed:
        middle = needed[len(needed) // 2]
        seeds = f"at least {middle:.0f}" if math.isfinite(middle) else "more than 1,000"
        who = "Half of them" if len(items) > 1 else "It"
        text += (
            f" {who} would need {seeds} seeds per framework for {options.power:.0%} power, "
            "if the measured values were the true ones."
        )
    return text


def format_size_range(items: Sequence[PairVerdict]) -> str:
    """The least and the largest number of runs behind a mean."""
    return format_range(group.n for item in items for group in (item.first, item.second))


def make_consistency_row(item: PairVerdict) -> TableRow:
    """One pair of frameworks in one setting."""
    return {
        **make_setting_columns(item.cell),
        "first": item.first.framework,
        "second": item.second.framework,
        "verdict": item.verdict,
        "detectable": item.detectable,
        **make_size_columns("first", item.first),
        **make_size_columns("second", item.second),
        "difference": item.difference,
        "low": item.low,
        "high": item.high,
        "p_welch": item.p_welch,
        "p_permutation": item.p_permutation,
        "p_holm": item.p_holm,
        "p_tost": item.p_tost,
        "p_unobserved_failures": item.p_unobserved_failures,
        "p_equivalence": item.p_equivalence,
        "p_equivalence_holm": item.p_equivalence_holm,
        "margin": item.margin.size,
        "margin_from": item.margin.zero,
        "margin_to": item.margin.reference,
        "margin_of": item.margin.source,
        "range_low": item.range.low,
        "range_high": item.range.high,
        "range_of": item.range.source,
        **_make_failure_columns(item),
        "family": item.family,
        "family_size": item.family_size,
        "seeds_needed": item.seeds_needed,
        **make_interval_columns("hedges_g", item.hedges_g),
        **make_interval_columns("improvement", item.improvement),
        "is_rounding_sensitive": item.is_rounding_sensitive,
        "caveats": "; ".join(item.caveats),
    }


def _make_failure_columns(item: PairVerdict) -> TableRow:
    found = item.failures
    first, second = found.failed or ("", "")
    return {
        "failed_below": found.threshold,
        "first_failed": first,
        "second_failed": second,
        "p_failed": found.p,
        "p_failed_holm": found.p_holm,
        **make_interval_columns("failed_difference", (found.difference, found.low, found.high)),
    }


def make_sequential_row(item: SequentialVerdict) -> TableRow:
    """One pair of frameworks in one setting, after the looks so far."""
    return {
        **make_setting_columns(item.first.cell),
        "first": item.first.framework,
        "second": item.second.framework,
        "verdict": item.verdict,
        **make_size_columns("first", item.first),
        **make_size_columns("second", item.second),
        "checks": " ".join(map(str, item.check_sizes)),
        "next_check": item.next_check_size or "",
        "p_holm": item.p,
        "p_permutation": item.p_permutation,
        "p_equivalence_holm": item.p_equivalence,
        "family": item.family,
    }
