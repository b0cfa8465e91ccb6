"""Comparison of each framework with random actions: sentences and a table."""

from collections.abc import Sequence

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import MISSING, format_count, format_number, get_label
from parallax.analysis.report.document import Block, Listing
from parallax.analysis.report.tables import (
    Column,
    Table,
    make_csv_column,
    make_interval_columns,
    make_number_column,
    make_p_value_column,
    make_setting_columns,
    make_size_columns,
    make_text_column,
    make_verdict_column,
)
from parallax.analysis.verdicts.consistency import EQUIVALENT, PairVerdict
from parallax.analysis.verdicts.references import (
    BETTER_THAN_RANDOM,
    INCONCLUSIVE,
    NOT_TESTED,
    WORSE_THAN_RANDOM,
    RandomVerdict,
)

_VERDICT_LEADS = {
    WORSE_THAN_RANDOM: "Worse than random",
    INCONCLUSIVE: "Neither better nor worse than random",
    NOT_TESTED: "Not tested",
}


def count_better_than_random(items: Sequence[RandomVerdict]) -> str:
    """Format a count such as `4 of 6` tested; a dash if random actions were not measured."""
    tested = [item for item in items if item.verdict != NOT_TESTED]
    return f"{_count_better(tested)} of {len(tested)}" if tested else MISSING


def format_below_count(items: Sequence[RandomVerdict]) -> str:
    """Return the number that is worse than random, such as `, 2 worse`; empty if none is."""
    count = sum(item.verdict == WORSE_THAN_RANDOM for item in items)
    return f", {count} worse" if count else ""


def describe_vs_random(items: Sequence[RandomVerdict], pairs: Sequence[PairVerdict]) -> list[Block]:
    """Describe which frameworks of a setting are better than random, and which are not shown to be.

    Args:
        items: All frameworks of the setting; none where random actions were not measured.
        pairs: Its pairs; it is said where some are equivalent that may both have learned nothing.
    """
    if not items:
        return []
    row, better = items[0].random, count_better_than_random(items)
    found: list[Block] = [
        f"Random actions score {format_number(row.mean)} ({row.trials} episodes)."
        + (f" Better than random: {better} tested frameworks." if better != MISSING else "")
    ]
    for verdict, lead in _VERDICT_LEADS.items():
        own = [f"{_format_difference(item)}." for item in items if item.verdict == verdict]
        found += [Listing(tuple(own), lead)] if own else []
    flat = _select_not_better(items)
    alike = sum(
        item.verdict == EQUIVALENT and {item.first.key, item.second.key} <= flat for item in pairs
    )
    if alike:
        found.append(
            f"Equivalent, but not better than random: {format_count(alike, 'pair')}. Perhaps "
            "neither framework has learned."
        )
    return found


def remark_on_pair(item: PairVerdict, items: Sequence[RandomVerdict]) -> str:
    """Return the caveat on a pair of which one or both are not shown to have learned.

    Args:
        item: The pair.
        items: Of any settings.
    """
    flat = _select_not_better(items)
    own = [group for group in (item.first, item.second) if group.key in flat]
    if len(own) == 2:
        return "; neither is shown to be better than random"
    return f"; {get_label(own[0].framework)} is not shown to be better than random" if own else ""


def _count_better(items: Sequence[RandomVerdict]) -> int:
    return sum(item.verdict == BETTER_THAN_RANDOM for item in items)


def _select_not_better(items: Sequence[RandomVerdict]) -> set[tuple[StudyCell, str]]:
    # By key: their scores are final returns, whatever endpoint the pairs have.
    return {item.group.key for item in items if item.verdict in (WORSE_THAN_RANDOM, INCONCLUSIVE)}


def _format_difference(item: RandomVerdict) -> str:
    name = f"{get_label(item.group.framework)} ({format_number(float(item.group.moments.mean))})"
    if item.verdict == NOT_TESTED:
        return f"{name}, n = 1"
    return (
        f"{name}, difference {format_number(item.difference)}, 95% interval "
        f"[{format_number(item.low)}, {format_number(item.high)}], n = {item.group.n}"
    )


def make_vs_random_table(items: Sequence[RandomVerdict]) -> Table[RandomVerdict]:
    """Return a table with a row for each framework in each setting."""
    columns: tuple[Column[RandomVerdict], ...] = (
        *make_setting_columns(lambda i: i.group.cell, [item.group.cell for item in items]),
        make_text_column("framework", "framework", lambda i: i.group.framework, get_label),
        make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        *make_size_columns("ours", lambda i: i.group),
        make_number_column("random_mean", "random actions", lambda i: i.random.mean),
        make_csv_column("random_sd", lambda i: i.random.spread),
        make_csv_column("random_episodes", lambda i: i.random.trials),
        make_number_column("difference", "difference", lambda i: i.difference),
        *make_interval_columns("low", "high", lambda i: (i.low, i.high)),
        make_p_value_column("p", "p", lambda i: i.p),
        make_csv_column("source", lambda i: i.random.source),
    )
    title = "Every framework against random actions"
    return Table("t-vs-random", title, columns, tuple(items), lambda i: [i.group])
