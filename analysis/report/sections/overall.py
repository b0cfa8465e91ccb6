"""Aggregates over all tasks, pooled and paired comparisons, and the omnibus test."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    describe_recipe,
    describe_sizes_used,
    find_own_parts,
    format_count,
    format_higher_minus_lower_interval,
    format_number,
    format_p_value,
    format_range,
    format_setting,
    get_label,
    split_main_variants,
)
from parallax.analysis.report.document import LinkedSentence, Listing, QuestionAnswer
from parallax.analysis.report.tables import (
    Column,
    Table,
    make_count_column,
    make_csv_column,
    make_interval_columns,
    make_number_column,
    make_p_value_column,
    make_pair_columns,
    make_setting_columns,
    make_text_column,
    make_used_column,
    make_verdict_column,
)
from parallax.analysis.stats.aggregates import AGGREGATE_NAMES
from parallax.analysis.stats.pooling import MIN_TASKS
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.overall import (
    MIN_PAIRS,
    OmnibusVerdict,
    OverallScores,
    PairedVerdict,
    PooledPair,
)
from parallax.analysis.verdicts.study import StudyVerdicts

MIN_CORRELATION_PAIRS = 4
"""With fewer pairs of seeds, a correlation is close to -1 or 1 whatever the scores."""


@dataclasses.dataclass(frozen=True, eq=False)
class AggregatedFramework:
    """One framework's aggregates over all tasks, by its place among those of one recipe."""

    scores: OverallScores
    index: int
    groups: tuple[ScoreGroup, ...]

    @property
    def framework(self) -> str:
        """Name of the framework."""
        return self.scores.aggregates.names[self.index]

    @property
    def cell(self) -> StudyCell:
        """The setting, without a task."""
        item = self.scores
        return StudyCell(item.study, "", item.algorithm, item.hps, item.variant)

    def get_point(self, number: int) -> float:
        """Return an aggregate, by its place in `AGGREGATE_NAMES`."""
        return float(self.scores.aggregates.point[self.index, number])

    def get_ends(self, number: int) -> tuple[float, float]:
        """Return both ends of an aggregate's interval."""
        found = self.scores.aggregates
        return float(found.low[self.index, number]), float(found.high[self.index, number])


def make_overall_table(verdicts: StudyVerdicts) -> Table[AggregatedFramework]:
    """Return a table with a row for each framework, algorithm and set of hyperparameters."""
    rows = [
        AggregatedFramework(
            item, i, tuple(g for g in verdicts.groups if _is_in_aggregate(g, item, framework))
        )
        for item in verdicts.overall
        for i, framework in enumerate(item.aggregates.names)
    ]
    columns: tuple[Column[AggregatedFramework], ...] = (
        *make_setting_columns(lambda i: i.cell, [row.cell for row in rows], omit=["env"]),
        make_text_column("framework", "framework", lambda i: i.framework, get_label),
        *(
            column
            for number, name in enumerate(AGGREGATE_NAMES)
            for column in _make_aggregate_columns(number, name)
        ),
        make_count_column("tasks", "tasks", lambda i: len(i.scores.tasks)),
        make_text_column(
            "left_out",
            "left out" * any(row.scores.left_out for row in rows),
            lambda i: "; ".join(i.scores.left_out),
        ),
        Column("", "n per task", lambda i: i.scores.aggregates.seeds[i.index], format_range, min),
    )
    return Table("t-overall", "Aggregates over all tasks", columns, tuple(rows), lambda i: i.groups)


def _make_aggregate_columns(number: int, name: str) -> list[Column[AggregatedFramework]]:
    better = " (lower is better)" if name == "optimality_gap" else ""
    return [
        make_number_column(name, name.replace("_", " ") + better, lambda i: i.get_point(number)),
        *make_interval_columns(f"{name}_low", f"{name}_high", lambda i: i.get_ends(number)),
    ]


def _is_in_aggregate(group: ScoreGroup, item: OverallScores, framework: str) -> bool:
    return (
        group.cell.suite_key == (item.study, item.algorithm, item.hps, item.variant)
        and group.cell.env in item.tasks
        and group.framework == framework
    )


PAIRED_TABLE = "t-paired"
MIN_USEFUL_CORRELATION = 0.3  # correlation from which pairing gains power, by benchmarks/pooling.py


def answer_paired(verdicts: StudyVerdicts) -> QuestionAnswer:
    """Answer whether frameworks differ seed by seed, where seeds share initial states."""
    items, question = verdicts.paired, "Do frameworks differ seed by seed?"
    if not items:
        text = (
            f"No two frameworks have {MIN_PAIRS} equal seeds that were evaluated from the same "
            "initial states in a setting, which comparing seed by seed takes."
        )
        return QuestionAnswer(question, LinkedSentence(text))
    cells = [item.item.cell for item in items]
    alpha = verdicts.options.alpha
    chosen, begun = split_main_variants(items, verdicts.main_cells, lambda item: item.item.cell)
    parts = [
        _link_paired(
            f"{begin}: {_describe_paired_counts(own, alpha)}. {_describe_correlation(own)}", own
        )
        for begin, own in begun
    ]
    text = (
        f"In {format_count(len(chosen), 'pair')} of frameworks, runs of equal seeds were evaluated "
        f"from the same initial states (n = {format_range(len(item.seeds) for item in chosen)} "
        f"seeds each): at {alpha:.0%}, {_describe_paired_counts(chosen, alpha)}. "
        f"{_describe_correlation(chosen)} Pairing gains power from a correlation of about "
        f"{MIN_USEFUL_CORRELATION:g} on and costs some below. This changes no verdict, since "
        "choosing whichever test says more would be wrong. Intervals in this section are of "
        "differences seed by seed; the verdicts' intervals of the same gaps are Welch's, which "
        "also hold without equal seeds."
    )
    clear = [item for item in chosen if item.p_holm < alpha]
    clear.sort(key=lambda item: (item.p_holm, item.result.p))
    findings = [_describe_paired_finding(item, cells) for item in clear]
    return QuestionAnswer(question, _link_paired(text, chosen), tuple(parts), tuple(findings))


def _describe_paired_counts(items: Sequence[PairedVerdict], alpha: float) -> str:
    """Return how many pairs are significant by each of both tests, with and without correction."""
    p_values = [(i.p_holm, i.item.p_holm, i.result.p, i.item.p_welch) for i in items]
    paired, welch, paired_alone, welch_alone = (np.array(p_values) < alpha).sum(axis=0)
    return (
        f"{paired} of {len(items)} differ by the paired test after Holm's correction, "
        f"{welch} by Welch's; uncorrected {paired_alone} and {welch_alone}"
    )


def _describe_correlation(items: Sequence[PairedVerdict]) -> str:
    known = [
        item.result.correlation
        for item in items
        if item.result.n >= MIN_CORRELATION_PAIRS and not math.isnan(item.result.correlation)
    ]
    if not known:
        return f"A correlation of scores needs at least {MIN_CORRELATION_PAIRS} seeds of both."
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    return (
        f"The correlation of their scores is {middle:.2f} in the middle, and between {low:.2f} and "
        f"{high:.2f} in half of the pairs."
    )


def _link_paired(text: str, items: Sequence[PairedVerdict]) -> LinkedSentence:
    groups = [group for item in items for group in (item.item.first, item.item.second)]
    return LinkedSentence(text, tuple(groups), PAIRED_TABLE)


def _describe_paired_finding(item: PairedVerdict, cells: Sequence[StudyCell]) -> LinkedSentence:
    found = item.result
    first, second = item.item.first.framework, item.item.second.framework
    high, low = (first, second) if found.difference > 0 else (second, first)
    interval = format_higher_minus_lower_interval(found.difference, found.low, found.high)
    text = (
        f"{format_setting(item.item.cell, cells)}: {get_label(high)} scores higher than "
        f"{get_label(low)} by "
        f"{format_number(abs(found.difference))} on the same seeds (n = {found.n}), 95% interval "
        f"{interval}, corrected {format_p_value(item.p_holm)}; the verdict is {item.item.verdict}."
    )
    return _link_paired(text, [item])


def make_paired_table(items: Sequence[PairedVerdict]) -> Table[PairedVerdict]:
    """Return a table with a row for each pair of frameworks in a setting, seed by seed."""
    columns: tuple[Column[PairedVerdict], ...] = (
        *make_setting_columns(lambda i: i.item.cell, [item.item.cell for item in items]),
        *make_pair_columns(lambda i: i.item.first.framework, lambda i: i.item.second.framework),
        make_count_column("pairs", "n", lambda i: i.result.n),
        make_text_column("seeds", "seeds", lambda i: " ".join(map(str, i.seeds))),
        make_number_column("difference", "difference", lambda i: i.result.difference),
        *make_interval_columns("low", "high", lambda i: (i.result.low, i.result.high)),
        make_p_value_column("p_paired", "p paired", lambda i: i.result.p),
        make_number_column("correlation", "correlation", lambda i: i.result.correlation),
        make_csv_column("n_first", lambda i: i.item.first.n),
        make_csv_column("n_second", lambda i: i.item.second.n),
        make_p_value_column("p_welch", "p Welch", lambda i: i.item.p_welch),
        make_p_value_column("p_paired_holm", "p paired corrected", lambda i: i.p_holm),
        make_p_value_column("p_welch_holm", "p Welch corrected", lambda i: i.item.p_holm),
    )
    title = "Every pair of frameworks seed by seed"
    return Table(
        PAIRED_TABLE, title, columns, tuple(items), lambda i: (i.item.first, i.item.second)
    )


POOLED_TABLE, POOLED_TASKS_TABLE = "t-pooled", "t-pooled-tasks"


def answer_pooled(verdicts: StudyVerdicts) -> QuestionAnswer:
    """Answer whether two frameworks differ over all tasks, where single tasks are inconclusive."""
    items, question = verdicts.pooled, "Are two frameworks apart over all tasks together?"
    if not items:
        text = (
            f"No two frameworks share {MIN_TASKS} tasks with a deviation, a known scale and two "
            "seeds under equal hyperparameters, which pooling over tasks takes."
        )
        return QuestionAnswer(question, LinkedSentence(text))
    cells = [item.cell for item in items]
    alpha = verdicts.options.alpha
    chosen, begun = split_main_variants(items, verdicts.main_cells, lambda item: item.cell)
    parts = [
        _link_pooled(f"{begin}: {_describe_pooled_counts(own, alpha)}.", own)
        for begin, own in begun
    ]
    text = (
        f"Of {format_count(len(chosen), 'pair')} of frameworks under equal hyperparameters, each "
        f"pooled over {format_range(len(item.items) for item in chosen)} tasks: at {alpha:.0%}, "
        f"{_describe_pooled_counts(chosen, alpha)}. Differences are in normalized scores: shares "
        f"of the way from {verdicts.options.zero_description}, to the published score, or to that "
        "of a solved task where none is published. Where no scale is known, they are shares of the "
        "scale of the margin. The correction is Holm's, over the pairs of an algorithm. This "
        f"changes no verdict. {describe_sizes_used([g.n for g in _list_pooled_groups(chosen)])}"
    )
    clear = sorted((i for i in chosen if i.p_holm < alpha), key=lambda i: (i.p_holm, i.pooled.p))
    findings = [_describe_pooled_finding(item, cells) for item in clear]
    return QuestionAnswer(question, _link_pooled(text, chosen), tuple(parts), tuple(findings))


def _describe_pooled_counts(items: Sequence[PooledPair], alpha: float) -> str:
    alone = sum(item.pooled.p < alpha for item in items)
    after = sum(item.p_holm < alpha for item in items)
    return (
        f"the mean difference is shown to be other than 0 in {after} of {len(items)} after "
        f"correction, in {alone} uncorrected"
    )


def _list_pooled_groups(items: Sequence[PooledPair]) -> list[ScoreGroup]:
    return [group for pair in items for item in pair.items for group in (item.first, item.second)]


def _link_pooled(text: str, items: Sequence[PooledPair]) -> LinkedSentence:
    return LinkedSentence(text, tuple(_list_pooled_groups(items)), POOLED_TABLE)


def _describe_pooled_finding(item: PooledPair, cells: Sequence[StudyCell]) -> LinkedSentence:
    found, cell, groups = item.pooled, item.cell, _list_pooled_groups([item])
    sizes = [group.n for group in groups]
    first, second = (g.framework for g in (item.items[0].first, item.items[0].second))
    high, low = (first, second) if found.mean > 0 else (second, first)
    parts = [part for part in find_own_parts(cell, cells) if part]
    special = f" ({', '.join(parts)})" if parts else ""
    interval = format_higher_minus_lower_interval(found.mean, found.low, found.high)
    text = (
        f"{get_label(cell.algorithm)} under {describe_recipe(cell.hps)}{special}: "
        f"{get_label(high)} scores higher than {get_label(low)} by "
        f"{format_number(abs(found.mean))} in normalized score, 95% interval {interval}, over "
        f"{len(item.items)} tasks, between which the difference varies with a "
        f"deviation of {format_number(found.sd_between_tasks)}; corrected "
        f"{format_p_value(item.p_holm)}. {describe_sizes_used(sizes)}"
    )
    return _link_pooled(text, [item])


def make_pooled_table(items: Sequence[PooledPair]) -> Table[PooledPair]:
    """Return a table with a row for each pair of frameworks under one set of hyperparameters."""
    columns: tuple[Column[PooledPair], ...] = (
        *make_setting_columns(lambda i: i.cell, [item.cell for item in items], omit=["env"]),
        *make_pair_columns(
            lambda i: i.items[0].first.framework, lambda i: i.items[0].second.framework
        ),
        make_number_column("mean", "mean difference", lambda i: i.pooled.mean),
        *make_interval_columns("low", "high", lambda i: (i.pooled.low, i.pooled.high)),
        make_p_value_column("p", "p", lambda i: i.pooled.p),
        make_p_value_column("p_holm", "p corrected", lambda i: i.p_holm),
        make_number_column(
            "between", "deviation between tasks", lambda i: i.pooled.sd_between_tasks
        ),
        make_count_column("tasks", "tasks", lambda i: len(i.items)),
        make_text_column(
            "left_out",
            "left out" * any(item.left_out for item in items),
            lambda i: ", ".join(i.left_out),
        ),
        make_used_column(lambda i: _list_pooled_groups([i])),
    )
    title = "Mean differences over tasks, in normalized scores"
    return Table(POOLED_TABLE, title, columns, tuple(items), lambda i: _list_pooled_groups([i]))


@dataclasses.dataclass(frozen=True, eq=False)
class PooledTask:
    """One task of a pair of frameworks that is pooled over tasks, by its place in the pair."""

    pair: PooledPair
    index: int

    @property
    def item(self) -> PairVerdict:
        """The pair on this task alone."""
        return self.pair.items[self.index]

    @property
    def scale(self) -> float:
        """Units of return that count as 1."""
        return self.pair.scales[self.index]


def make_pooled_tasks_table(items: Sequence[PooledPair]) -> Table[PooledTask]:
    """Return a table with a row for each task of each pair; differences are shares of a scale."""
    rows = [PooledTask(pair, i) for pair in items for i in range(len(pair.items))]
    columns: tuple[Column[PooledTask], ...] = (
        *make_setting_columns(lambda i: i.item.cell, [row.item.cell for row in rows]),
        *make_pair_columns(lambda i: i.item.first.framework, lambda i: i.item.second.framework),
        make_csv_column("n_first", lambda i: i.item.first.n),
        make_csv_column("n_second", lambda i: i.item.second.n),
        make_csv_column("scale", lambda i: i.scale),
        make_number_column("difference", "difference alone", lambda i: i.item.difference / i.scale),
        *make_interval_columns(
            "low", "high", lambda i: (i.item.low / i.scale, i.item.high / i.scale)
        ),
        make_number_column("pooled", "pooled", lambda i: float(i.pair.pooled.estimates[i.index])),
        *make_interval_columns(
            "pooled_low",
            "pooled_high",
            lambda i: (float(i.pair.pooled.lows[i.index]), float(i.pair.pooled.highs[i.index])),
        ),
        make_csv_column("tasks", lambda i: len(i.pair.items)),
        make_csv_column("left_out", lambda i: ", ".join(i.pair.left_out)),
        make_csv_column("mean_over_tasks", lambda i: i.pair.pooled.mean),
        make_csv_column("mean_low", lambda i: i.pair.pooled.low),
        make_csv_column("mean_high", lambda i: i.pair.pooled.high),
        make_csv_column("p_mean", lambda i: i.pair.pooled.p),
        make_csv_column("deviation_between_tasks", lambda i: i.pair.pooled.sd_between_tasks),
        make_csv_column("p_mean_holm", lambda i: i.pair.p_holm),
        make_used_column(lambda i: [i.item.first, i.item.second]),
    )
    title = "Each task alone, and drawn towards the mean over tasks"
    return Table(
        POOLED_TASKS_TABLE, title, columns, tuple(rows), lambda i: (i.item.first, i.item.second)
    )


def make_omnibus_table(items: Sequence[OmnibusVerdict]) -> Table[OmnibusVerdict]:
    """Return a table with a row for all pairs of one algorithm and variant."""
    columns: tuple[Column[OmnibusVerdict], ...] = (
        make_text_column("study", "study", lambda i: i.study),
        make_text_column("algorithm", "algorithm", lambda i: i.algorithm, get_label),
        make_text_column("variant", "variant", lambda i: i.variant),
        make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        make_count_column("different", "different pairs", lambda i: i.different),
        make_count_column("pairs", "pairs", lambda i: i.count.tests),
        make_count_column(
            "significant_uncorrected", "significant, uncorrected", lambda i: i.count.observed
        ),
        make_number_column(
            "expected_under_null",
            "expected if nothing differed",
            lambda i: i.count.expected_under_null,
        ),
        make_csv_column("max_under_null", lambda i: i.count.max_under_null),
        make_p_value_column("p", "p", lambda i: i.count.p),
        make_csv_column("simulated_studies", lambda i: i.count.simulated_studies),
    )
    title = "Whether frameworks differ at all"
    return Table("t-omnibus", title, columns, tuple(items), lambda i: ())


def format_omnibus(item: OmnibusVerdict) -> str:
    """Format an omnibus verdict as a line."""
    count, under = item.count, f", {item.variant}" if item.variant else ""
    return (
        f"{get_label(item.algorithm)} in study {item.study}{under}: {item.verdict}; "
        f"{count.observed} of {count.tests} pairs significant, uncorrected, "
        f"{count.expected_under_null:.1f} if nothing differed (p = {count.p:.4f})"
    )


def describe_omnibus(verdicts: StudyVerdicts) -> Listing | str:
    """Return a list of whether frameworks of each algorithm differ at all; empty if unknown."""
    known = [item for item in verdicts.omnibus if item.count.tests]
    if not known:
        return ""
    cells = {cell.variant_key: cell for cell in verdicts.groups_by_cell}
    shown = [cells[item.study, item.algorithm, item.variant] for item in known]
    items = tuple(
        f"{_name_variant(cell, shown)}: {item.verdict}; "
        f"{item.count.observed} of {format_count(item.count.tests, 'pair')} significant, "
        f"uncorrected, {item.count.expected_under_null:.1f} on average if nothing differed, "
        f"{format_p_value(item.count.p)}."
        for item, cell in zip(known, shown, strict=True)
    )
    lead = (
        "Do frameworks differ at all, even where no single pair can be named? Significant pairs of "
        "all tasks and recipes above are compared with simulated studies in which nothing differs"
    )
    return Listing(items, lead)


def _name_variant(cell: StudyCell, cells: Sequence[StudyCell]) -> str:
    """Return an algorithm, with the settings and study that set it apart from other variants."""
    parts = find_own_parts(cell, [other for other in cells if other.algorithm == cell.algorithm])
    parts += [f"study {cell.study}"] * (len({other.study for other in cells}) > 1)
    return get_label(cell.algorithm) + (f" ({', '.join(parts)})" if parts else "")
