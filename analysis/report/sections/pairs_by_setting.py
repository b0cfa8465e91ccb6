"""Pairs of frameworks in each setting: runs, verdicts, and differences between the runs."""

import math
from collections.abc import Sequence

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    describe_recipe,
    find_own_parts,
    format_count,
    format_higher_minus_lower_interval,
    format_number,
    format_p_value,
    format_range,
    format_seeds_needed,
    format_steps,
    get_label,
)
from parallax.analysis.report import document, tables
from parallax.analysis.report.sections import hyperparameters, learning
from parallax.analysis.report.sections.consistency import (
    VERDICT_ORDER,
    describe_bottom_score,
    describe_intention_to_treat,
    describe_seeds_needed,
    name_statement,
)
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import DIFFERENT, EQUIVALENT, INCONCLUSIVE
from parallax.analysis.verdicts.study import StudyVerdicts


def make_setting_sections(
    verdicts: StudyVerdicts, pairs: Sequence[PairVerdict]
) -> tuple[document.ReportSection, ...]:
    """Return a section for each algorithm, task and recipe of some pairs."""
    cells = sorted({item.cell for item in pairs}, key=lambda cell: (cell.algorithm, cell))
    lines = describe_intention_to_treat(verdicts)
    sections = []
    for cell in cells:
        own = [item for item in pairs if item.cell == cell]
        groups = verdicts.groups_by_cell.get(cell, ())
        heading = format_setting_with_recipe(cell, groups, cells)
        on_learning = learning.describe_learning(
            verdicts.learning_by_cell.get(cell, ()), verdicts.vs_random_by_cell.get(cell, ()), own
        )
        blocks = _describe_setting(own, groups, on_learning, verdicts.options)
        failed = tuple(
            line
            for line, item in zip(lines, verdicts.intention_to_treat, strict=True)
            if item.cell == cell
        )
        if failed:
            blocks += (document.Listing(failed, describe_bottom_score(verdicts)),)
        sections.append(document.ReportSection(heading, (*blocks, _make_pairs_grid(own))))
    return tuple(sections)


def format_setting_with_recipe(
    cell: StudyCell, groups: Sequence[ScoreGroup], cells: Sequence[StudyCell]
) -> str:
    """Return a setting in words, with its recipe's coverage and the steps runs were scored at.

    Values that all settings of the algorithm share are left out.
    """
    parts = find_own_parts(cell, [other for other in cells if other.algorithm == cell.algorithm])
    parts += [f"study {cell.study}"] * (len({other.study for other in cells}) > 1)
    own = f" ({', '.join(part for part in parts if part)})" if any(parts) else ""
    at = format_range((step for group in groups for step in group.steps), format_steps)
    after = f", after {at} steps" if at else ""
    own += hyperparameters.describe_recipe_coverage(group.runs for group in groups)
    return (
        f"{get_label(cell.algorithm)} on {cell.env} under {describe_recipe(cell.hps)}{own}{after}"
    )


def make_setting_summary(
    verdicts: StudyVerdicts, pairs: Sequence[PairVerdict]
) -> document.Grid | str:
    """Return a table of settings: frameworks that have learned, pairs by verdict."""
    if not pairs:
        return ""
    rows: list[tuple[str, ...]] = []
    several = len({item.cell.study for item in pairs}) > 1
    for cell in sorted({item.cell for item in pairs}, key=lambda cell: (cell.algorithm, cell)):
        own = [item for item in pairs if item.cell == cell]
        counts = [str(sum(item.verdict == verdict for item in own)) for verdict in VERDICT_ORDER]
        named = [
            *[cell.study] * several,
            get_label(cell.algorithm),
            cell.env,
            describe_recipe(cell.hps),
            format_size_range(own),
        ]
        found = verdicts.vs_random_by_cell.get(cell, ())
        learned = learning.count_learned(verdicts.learning_by_cell.get(cell, ()))
        learned += learning.format_below_count(found)
        margin = format_range((item.margin.size for item in own), format_number)
        rows.append((*named, learned, margin, str(len(own)), *counts))
    heads = ("algorithm", "task", "hyperparameters", "n", "shown to learn", "margin", "pairs")
    return document.Grid((*["study"] * several, *heads, *VERDICT_ORDER), tuple(rows))


def _describe_setting(
    pairs: Sequence[PairVerdict],
    groups: Sequence[ScoreGroup],
    blocks_on_learning: Sequence[document.Block],
    options: VerdictOptions,
) -> tuple[document.Block, ...]:
    blocks: list[document.Block] = [_describe_run_counts(groups), *blocks_on_learning]
    for verdict, lead in (
        (DIFFERENT, "Different"),
        (EQUIVALENT, f"Equivalent within {options.margin_share:.0%}"),
    ):
        own = [item for item in pairs if item.verdict == verdict]
        own.sort(key=lambda item: -abs(item.difference))
        head = f"{lead}: {len(own) or 'none'} of {format_count(len(pairs), 'pair')}"
        head += f" (n = {format_size_range(pairs)})" * (not own)
        blocks.append(document.Listing(tuple(f"{describe_pair(item)}." for item in own), head))
    inconclusive = [item for item in pairs if item.verdict == INCONCLUSIVE]
    blocks += [
        _describe_inconclusive(inconclusive, len(pairs), options),
        _describe_equivalent_so_far(pairs, options),
    ]
    if not all(item.range.known for item in pairs):
        blocks.append(
            "Parallax has no published score of this algorithm on this task and no range of its "
            "scores was given, so that no number of runs can show frameworks to be equivalent here."
        )
    return tuple(blocks)


def _describe_equivalent_so_far(pairs: Sequence[PairVerdict], options: VerdictOptions) -> str:
    """Return a sentence on pairs that would be equivalent without possible unobserved failures."""
    found = [
        f"{get_label(item.first.framework)} and {get_label(item.second.framework)}"
        for item in pairs
        if item.is_limited_by_unobserved_failures
    ]
    if not found:
        return ""
    return (
        f"{format_count(len(found), 'pair')} would be equivalent but for possible unobserved "
        f"failures, by two one-sided tests at {options.alpha:.0%}, uncorrected: {', '.join(found)}."
    )


def _describe_run_counts(groups: Sequence[ScoreGroup]) -> document.Words:
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
    runs = [run for group in groups for run in group.runs]
    return (text, *hyperparameters.describe_equal_hyperparameters(runs))


def describe_pair(item: PairVerdict) -> str:
    """Return how far two frameworks are apart, with 95% interval, n and corrected p-value."""
    high, low = sorted((item.first, item.second), key=lambda group: -float(group.moments.mean))
    text = (
        f"{get_label(high.framework)} ({format_number(float(high.moments.mean))}) above "
        f"{get_label(low.framework)} ({format_number(float(low.moments.mean))}) by "
        f"{format_number(abs(item.difference))}, 95% interval "
        f"{format_higher_minus_lower_interval(item.difference, item.low, item.high)}, n = {high.n} "
        f"and {low.n}"
    )
    if item.verdict == EQUIVALENT:
        p = format_p_value(item.p_equivalence_holm)
        return f"{text}, margin {format_number(item.margin.size)}, corrected {p}"
    return f"{text}, corrected {format_p_value(item.p_holm)}"


def _make_pairs_grid(pairs: Sequence[PairVerdict]) -> document.Grid:
    """Return a table of all pairs, folded."""
    rows = tuple(
        (
            f"{get_label(item.first.framework)} - {get_label(item.second.framework)}",
            format_number(item.difference),
            f"[{format_number(item.low)}, {format_number(item.high)}]",
            f"{item.first.n} and {item.second.n}",
            tables.format_bare_p_value(item.p_holm),
            name_statement(item) + (", same algorithm" if item.is_same_algorithm else ""),
            format_seeds_needed(item.seeds_needed) if item.verdict == INCONCLUSIVE else "",
            _join_differences(item) or "none",
        )
        for item in pairs
    )
    heads = (
        *("pair", "difference", "95% interval", "n", "corrected p", "verdict", "seeds needed"),
        "other hyperparameters; differences in code, by the interventions that remove them",
    )
    return document.Grid(heads, rows, f"All {format_count(len(pairs), 'pair')}")


def format_unequal_fields(item: PairVerdict) -> str:
    """Return the hyperparameters that have other values in the runs of a pair."""
    return ", ".join(hyperparameters.list_unequal_fields((*item.first.runs, *item.second.runs)))


def _join_differences(item: PairVerdict) -> str:
    return "; ".join(filter(None, (format_unequal_fields(item), format_code_differences(item))))


def format_code_differences(item: PairVerdict) -> str:
    """Return the interventions of the reference form that each lacks, and remaining differences."""
    sides = [group.runs for group in (item.first, item.second) if group.runs]
    return "; ".join(filter(None, map(hyperparameters.format_remaining_differences, sides)))


def _describe_inconclusive(
    items: Sequence[PairVerdict], total: int, options: VerdictOptions
) -> str:
    if not items:
        return f"Inconclusive: none of {format_count(total, 'pair')}."
    known = [item for item in items if not math.isnan(item.low)]
    apart = format_range((abs(item.difference) for item in items), format_number)
    text = (
        f"Inconclusive: {len(items)} of {format_count(total, 'pair')} (n = "
        f"{format_size_range(items)} runs "
        f"per framework). {'Their means are' if len(items) > 1 else 'Its means are'} {apart} apart."
    )
    if known:
        widest = max(known, key=lambda item: item.high - item.low)
        text += (
            f" The widest 95% interval, of {get_label(widest.first.framework)} - "
            f"{get_label(widest.second.framework)}, is [{format_number(widest.low)}, "
            f"{format_number(widest.high)}]."
        )
    return f"{text} {describe_seeds_needed(items, options)}".rstrip()


def format_size_range(items: Sequence[PairVerdict]) -> str:
    """Return the least and the largest number of runs behind a mean."""
    return format_range(group.n for item in items for group in (item.first, item.second))
