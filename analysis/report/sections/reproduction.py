"""Reproduction (RQ1): words and tables on whether frameworks reach the published scores."""

from collections.abc import Sequence

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    describe_sizes_used,
    format_count,
    format_number,
    format_p_value,
    format_setting,
    format_verdict_counts,
    get_label,
    group_by_variant,
)
from parallax.analysis.report import tables
from parallax.analysis.report.document import Block, LinkedSentence, Listing, QuestionAnswer
from parallax.analysis.report.sections.pairs_by_setting import format_setting_with_recipe
from parallax.analysis.verdicts.reproduction import (
    SIMILAR,
    TARGETS_TABLE,
    VERDICTS,
    ReproductionVerdict,
    describe_changed_settings,
)
from parallax.analysis.verdicts.study import StudyVerdicts


def answer_reproduction(verdicts: StudyVerdicts) -> QuestionAnswer:
    """Answer whether the frameworks reach the published scores."""
    items = [item for item in verdicts.reproduction if item.published.table == TARGETS_TABLE]
    question = "Do they reach what the original papers report?"
    if not items:
        text = "No run can be compared with a score read off the original papers: that takes the "
        text += "hyperparameters called original on one of their tasks."
        return QuestionAnswer(question, LinkedSentence(text))
    cells = [item.group.cell for item in items]
    main = [item for item in items if item.group.cell in verdicts.main_cells] or items
    others = [item for item in items if item.verdict_two_sided_test and item not in main]
    tested = [item for item in main if item.verdict_two_sided_test]
    head = _format_headline(main, tested, verdicts.options.alpha)
    parts = []
    for algorithm in sorted({item.group.cell.algorithm for item in tested}):
        own = [item for item in tested if item.group.cell.algorithm == algorithm]
        parts.append(_link_comparisons(f"{get_label(algorithm)}: {_count_two_sided(own)}.", own))
    for words, own in group_by_variant(others, cells, lambda item: item.group.cell):
        parts.append(_link_comparisons(f"Apart from these, {words}: {_count_two_sided(own)}.", own))
    findings = [
        _describe_finding(item, cells)
        for item in sorted(tested, key=lambda item: item.p)
        if item.verdict_two_sided_test != SIMILAR and not item.has_stopped_early
    ]
    return QuestionAnswer(question, _link_comparisons(head, main), tuple(parts), tuple(findings))


def _link_comparisons(text: str, items: Sequence[ReproductionVerdict]) -> LinkedSentence:
    groups = tuple(item.group for item in items)
    return LinkedSentence(text, groups, "t-reproduction", "original paper")


def _count_two_sided(items: Sequence[ReproductionVerdict]) -> str:
    return format_verdict_counts([item.verdict_two_sided_test for item in items], VERDICTS)


def _format_headline(
    items: Sequence[ReproductionVerdict], tested: Sequence[ReproductionVerdict], alpha: float
) -> str:
    thesis = format_verdict_counts([item.verdict_thesis_interval for item in tested], VERDICTS)
    head = (
        f"Of {format_count(len(tested), 'comparison')} with scores of the original papers, by a "
        f"two-sided test at {alpha:.0%} without correction: {_count_two_sided(tested)}. In the "
        f"thesis' form: {thesis}. Similar means that no difference was "
        "shown."
    )
    if tested:
        head += f" {describe_sizes_used([item.group.n for item in tested])}"
    odd = sum(bool(item.caveats) for item in tested)
    if odd:
        share = "all" if odd == len(tested) else str(odd)
        head += (
            f" In {share} of them the two numbers are not of one kind: another statistic, task "
            "version or number of steps, as the table says."
        )
    changed = sum(bool(describe_changed_settings(item.group)) for item in tested)
    if changed:
        head += (
            f" {changed} of them are of runs with an intervention or other settings than the "
            "recipe's, as the table says."
        )
    early = sum(item.has_stopped_early for item in tested)
    if early:
        head += (
            f" {early} of them stop before half of the published steps: there, worse says that "
            "training had not come as far, and nothing of what it would reach."
        )
    if len(tested) < len(items):
        head += f" {len(items) - len(tested)} more cannot be tested: fewer than two seeds."
    return head


def _describe_finding(item: ReproductionVerdict, cells: Sequence[StudyCell]) -> LinkedSentence:
    cell, row = item.group.cell, item.published
    text = (
        f"{format_setting(cell, cells)}: {get_label(item.group.framework)} is "
        f"{item.verdict_two_sided_test}, {format_number(float(item.group.moments.mean))} against "
        f"{format_number(row.mean)} (n = {item.group.n}, {format_p_value(item.p)})."
    )
    return _link_comparisons(text, [item])


def make_reproduction_table(verdicts: StudyVerdicts) -> tables.Table[ReproductionVerdict]:
    """Return a table with a row for each framework and published number."""
    items = verdicts.reproduction
    columns: tuple[tables.Column[ReproductionVerdict], ...] = (
        *tables.make_setting_columns(lambda i: i.group.cell, [item.group.cell for item in items]),
        tables.make_text_column("framework", "framework", lambda i: i.group.framework, get_label),
        tables.make_verdict_column(
            "verdict_thesis_interval", "thesis' interval", lambda i: i.verdict_thesis_interval
        ),
        tables.make_verdict_column(
            "verdict_two_sided_test", "two-sided test", lambda i: i.verdict_two_sided_test
        ),
        tables.make_number_column("", "ours", lambda i: float(i.group.moments.mean)),
        *tables.make_size_columns("ours", lambda i: i.group),
        tables.make_number_column("published_mean", "published", lambda i: i.published.mean),
        tables.make_csv_column("published_spread", lambda i: i.published.spread),
        tables.make_csv_column("published_spread_kind", lambda i: i.published.spread_kind),
        tables.make_csv_column("published_trials", lambda i: i.published.trials or ""),
        tables.make_csv_column("published_statistic", lambda i: i.published.statistic),
        tables.make_csv_column("published_steps", lambda i: i.published.steps),
        tables.make_csv_column("published_version", lambda i: i.published.version),
        tables.make_text_column(
            "table",
            "published by",
            lambda i: i.published.table,
            lambda table: _SOURCE_NAMES.get(table, table),
        ),
        tables.make_csv_column("source", lambda i: i.published.source),
        tables.make_csv_column("test", lambda i: i.test),
        tables.make_number_column("difference", "difference", lambda i: i.difference),
        *tables.make_interval_columns("low", "high", lambda i: (i.low, i.high)),
        tables.make_p_value_column("p", "p", lambda i: i.p),
        tables.make_used_column(lambda i: [i.group]),
        tables.make_text_column("caveats", "caveats", lambda i: "; ".join(i.caveats)),
    )
    return tables.Table(
        "t-reproduction", "Every published number", columns, tuple(items), lambda i: [i.group]
    )


_SOURCE_NAMES = {
    TARGETS_TABLE: "figure of the original paper",
    "thesis_tables": "the thesis",
    "ppo_paper": "PPO's paper",
    "td3_paper": "TD3's paper",
    "sac_paper": "SAC's paper",
    "cleanrl": "CleanRL",
    "tianshou": "Tianshou",
}


def describe_published(verdicts: StudyVerdicts) -> tuple[Block, ...]:
    """Return the comparisons with published numbers, and the count of those not comparable."""
    groups = [group for group in verdicts.groups if group.n]
    items = verdicts.reproduction
    comparable = [item for item in items if not item.caveats]
    blocks: list[Block] = []
    if comparable:
        tested = sorted(comparable, key=lambda item: (item.group.cell, item.group.framework))
        head = f"Of one kind with a published number: {format_count(len(tested), 'comparison')}"
        cells = [item.group.cell for item in tested]
        lines = tuple(f"{_compare_with_published(item, cells)}." for item in tested)
        blocks.append(Listing(lines, head))
    others = [item for item in items if item.caveats]
    if others:
        lead = "Nothing comparable is published. " * (not comparable)
        blocks.append(
            f"{lead}{format_count(len(others), 'comparison')} with published numbers of another "
            "kind stand in tables/reproduction.csv, each with what is another: "
            f"{_count_kinds_of_difference(others)}. The tests in that file take both numbers as if "
            "they were of one kind; nothing here rests on them."
        )
    bare = sorted(
        {(group.cell.algorithm, group.cell.env) for group in groups}
        - {(item.group.cell.algorithm, item.group.cell.env) for item in items}
    )
    if bare:
        names = ", ".join(f"{get_label(algorithm)} on {env}" for algorithm, env in bare)
        blocks.append(f"Parallax has no published number for {names} under a recipe of these runs.")
    return tuple(blocks)


def _compare_with_published(item: ReproductionVerdict, cells: Sequence[StudyCell]) -> str:
    group, cell = item.group, item.group.cell
    return (
        f"{format_setting_with_recipe(cell, [group], cells)}: {get_label(group.framework)} is "
        f"{item.verdict_two_sided_test or 'not tested'}, "
        f"{format_number(float(group.moments.mean))} against {format_number(item.published.mean)} "
        f"({item.published.source}), difference {format_number(item.difference)}, 95% interval "
        f"[{format_number(item.low)}, {format_number(item.high)}], n = {group.n}"
    )


def _count_kinds_of_difference(items: Sequence[ReproductionVerdict]) -> str:
    """Return the counts of numbers by the kind of difference, in words."""
    kinds = {"another statistic": "published: ", "another version of the task": "task "}
    kinds["another number of steps"] = "published at "
    counts = {
        words: sum(any(remark.startswith(lead) for remark in item.caveats) for item in items)
        for words, lead in kinds.items()
    }
    return ", ".join(f"{words} in {count}" for words, count in counts.items() if count)
