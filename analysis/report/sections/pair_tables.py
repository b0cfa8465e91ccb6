"""Tables of all pairs of frameworks, for pages and CSV files."""

from collections.abc import Callable, Sequence

from parallax.analysis.labels import format_seeds_needed
from parallax.analysis.report import tables
from parallax.analysis.report.sections.pairs_by_setting import (
    format_code_differences,
    format_unequal_fields,
)
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.sequential import SequentialVerdict
from parallax.analysis.verdicts.study import StudyVerdicts


def make_consistency_table(verdicts: StudyVerdicts) -> tables.Table[PairVerdict]:
    """Return a table with a row for each pair of frameworks in a setting."""
    return _make_pairs_table("t-consistency", "Every pair of frameworks", verdicts.consistency)


def make_defaults_table(verdicts: StudyVerdicts) -> tables.Table[PairVerdict]:
    """Return a table with a row for each pair of frameworks under library defaults."""
    title = "Every pair of frameworks under library defaults"
    return _make_pairs_table("t-defaults", title, verdicts.defaults)


def make_intention_to_treat_table(verdicts: StudyVerdicts) -> tables.Table[PairVerdict]:
    """Return a table with a row for each pair with a failed run, which counts at the bottom."""
    title = "Pairs with failed runs, which count at the bottom of the task's range"
    return _make_pairs_table("t-intention-to-treat", title, verdicts.intention_to_treat)


def _make_pairs_table(
    name: str, title: str, items: Sequence[PairVerdict]
) -> tables.Table[PairVerdict]:
    columns: tuple[tables.Column[PairVerdict], ...] = (
        *tables.make_setting_columns(lambda i: i.cell, [item.cell for item in items]),
        *tables.make_pair_columns(lambda i: i.first.framework, lambda i: i.second.framework),
        tables.make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        tables.make_text_column("statement", "statement", lambda i: i.statement.text),
        tables.make_csv_column("same_algorithm", lambda i: i.is_same_algorithm),
        tables.make_csv_column("hyperparameter_differences", format_unequal_fields),
        tables.make_csv_column("code_differences", format_code_differences),
        tables.make_csv_column("p_mean", lambda i: i.statement.p_mean),
        tables.make_csv_column("tolerated_failure_rate", lambda i: i.statement.tolerated_failures),
        tables.make_csv_column("failure_rate_limit", lambda i: i.statement.failure_limit),
        tables.make_csv_column("first_diverged", lambda i: i.first.failed),
        tables.make_csv_column("second_diverged", lambda i: i.second.failed),
        tables.make_csv_column("p_log_rank", lambda i: i.p_log_rank),
        tables.make_csv_column("detectable", lambda i: i.detectable),
        *tables.make_size_columns("first", lambda i: i.first),
        *tables.make_size_columns("second", lambda i: i.second),
        tables.make_number_column("difference", "difference", lambda i: i.difference),
        *tables.make_interval_columns("low", "high", lambda i: (i.low, i.high)),
        tables.make_csv_column("p_welch", lambda i: i.p_welch),
        tables.make_csv_column("p_permutation", lambda i: i.p_permutation),
        tables.make_p_value_column("p_holm", "p corrected", lambda i: i.p_holm),
        tables.make_csv_column("p_tost", lambda i: i.p_tost),
        tables.make_csv_column("p_unobserved_failures", lambda i: i.p_unobserved_failures),
        tables.make_csv_column("p_equivalence", lambda i: i.p_equivalence),
        tables.make_p_value_column(
            "p_equivalence_holm", "p equivalence", lambda i: i.p_equivalence_holm
        ),
        tables.make_number_column("margin", "margin", lambda i: i.margin.size),
        tables.make_csv_column("margin_from", lambda i: i.margin.zero),
        tables.make_csv_column("margin_to", lambda i: i.margin.reference),
        tables.make_csv_column("margin_of", lambda i: i.margin.source),
        tables.make_csv_column("range_low", lambda i: i.range.low),
        tables.make_csv_column("range_high", lambda i: i.range.high),
        tables.make_csv_column("range_of", lambda i: i.range.source),
        tables.Column(
            "",
            "failed",
            lambda i: i.failures,
            lambda failures: " ".join(failures.counts),
            lambda failures: failures.difference,
        ),
        tables.make_csv_column("failed_below", lambda i: i.failures.threshold),
        tables.make_csv_column("first_failed", lambda i: (i.failures.failed or ("", ""))[0]),
        tables.make_csv_column("second_failed", lambda i: (i.failures.failed or ("", ""))[1]),
        tables.make_csv_column("p_failed", lambda i: i.failures.p),
        tables.make_csv_column("p_failed_holm", lambda i: i.failures.p_holm),
        *_make_estimate_columns(
            "failed_difference", lambda i: (i.failures.difference, i.failures.low, i.failures.high)
        ),
        tables.make_csv_column("family", lambda i: i.family),
        tables.make_csv_column("family_size", lambda i: i.family_size),
        tables.make_number_column(
            "seeds_needed", "seeds needed", lambda i: i.seeds_needed, format_seeds_needed
        ),
        *_make_estimate_columns("hedges_g", lambda i: i.hedges_g),
        tables.make_number_column("", "P(first better)", lambda i: i.improvement[0]),
        *_make_estimate_columns("improvement", lambda i: i.improvement),
        tables.make_csv_column("is_rounding_sensitive", lambda i: i.is_rounding_sensitive),
        tables.Column(
            "",
            "n",
            lambda i: (i.first, i.second),
            lambda groups: " ".join(map(tables.format_sizes, groups)),
            lambda groups: min(group.n for group in groups),
        ),
        tables.make_text_column("caveats", "caveats", lambda i: "; ".join(i.caveats)),
    )
    return tables.Table(name, title, columns, tuple(items), lambda i: (i.first, i.second))


def _make_estimate_columns(
    key: str, get_values: Callable[[PairVerdict], tuple[float, float, float]]
) -> list[tables.Column[PairVerdict]]:
    """Return an estimate and both ends of its interval, for CSV files."""
    return [
        tables.make_csv_column(key, lambda i: get_values(i)[0]),
        tables.make_csv_column(f"{key}_low", lambda i: get_values(i)[1]),
        tables.make_csv_column(f"{key}_high", lambda i: get_values(i)[2]),
    ]


def make_sequential_table(items: Sequence[SequentialVerdict]) -> tables.Table[SequentialVerdict]:
    """Return a table with a row for each pair of frameworks, after the checks so far."""
    columns: tuple[tables.Column[SequentialVerdict], ...] = (
        *tables.make_setting_columns(lambda i: i.first.cell, [item.first.cell for item in items]),
        *tables.make_pair_columns(lambda i: i.first.framework, lambda i: i.second.framework),
        tables.make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        *tables.make_size_columns("first", lambda i: i.select_used(i.first)),
        *tables.make_size_columns("second", lambda i: i.select_used(i.second)),
        tables.make_csv_column("checks", lambda i: " ".join(map(str, i.check_sizes))),
        tables.make_csv_column("next_check", lambda i: i.next_check_size or ""),
        tables.make_csv_column("p_holm", lambda i: i.p),
        tables.make_csv_column("p_permutation", lambda i: i.p_permutation),
        tables.make_csv_column("p_equivalence_holm", lambda i: i.p_equivalence),
        tables.make_csv_column("family", lambda i: i.family),
    )
    title = "Every pair of frameworks, by the sequential test"
    return tables.Table("t-sequential", title, columns, tuple(items), lambda i: (i.first, i.second))
