"""Sentences and tables on whether frameworks have learned and beat random actions."""

from collections.abc import Collection, Sequence

from parallax.analysis.labels import MISSING, format_count, format_number, format_range, get_label
from parallax.analysis.report import tables
from parallax.analysis.report.document import Block, Listing
from parallax.analysis.verdicts import references
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.endpoints import UNTRAINED
from parallax.analysis.verdicts.groups import GroupKey, ScoreGroup
from parallax.analysis.verdicts.statements import EQUIVALENT
from parallax.analysis.verdicts.study import StudyVerdicts

_VERDICT_LEADS = {
    references.WORSE_THAN_RANDOM: "Worse than random",
    references.INCONCLUSIVE: "Not shown to be better or worse than random",
}


def count_learned(items: Sequence[references.LearningVerdict]) -> str:
    """Format a count such as `4 of 6` tested frameworks; a dash if none could be tested."""
    tested = [item for item in items if item.verdict != references.NOT_TESTED]
    return f"{sum(item.is_learned for item in tested)} of {len(tested)}" if tested else MISSING


def format_below_count(items: Sequence[references.RandomVerdict]) -> str:
    """Return the number that is worse than random, such as `, 2 worse than random`."""
    count = sum(item.verdict == references.WORSE_THAN_RANDOM for item in items)
    return f", {count} worse than random" if count else ""


def describe_learning(
    learning: Sequence[references.LearningVerdict],
    vs_random: Sequence[references.RandomVerdict],
    pairs: Sequence[PairVerdict],
) -> list[Block]:
    """Describe which frameworks of a setting have learned, and which are not shown to have.

    Args:
        learning: All frameworks of the setting.
        vs_random: The same against random actions; empty if these were not measured.
        pairs: Its pairs; equivalent ones in which neither is shown to have learned are counted.
    """
    tested = [item for item in learning if item.verdict != references.NOT_TESTED]
    found: list[Block] = []
    if tested:
        scores = dict.fromkeys(
            f"{one.name} {format_number(one.mean)}"
            for item in tested
            for one in item.references
            if one.name != UNTRAINED
        )
        margins = format_range((item.margin for item in tested), format_number)
        found.append(
            f"Shown to have learned: {count_learned(tested)} tested frameworks, by final returns. "
            f"References: {', '.join(scores) or 'the untrained policy alone'}. Learned is above "
            f"all of them by the margin of {margins}."
        )
    for verdict, lead in _VERDICT_LEADS.items():
        own = [f"{_format_difference(item)}." for item in vs_random if item.verdict == verdict]
        found += [Listing(tuple(own), lead)] if own else []
    untested = [
        item for item in learning if item.verdict == references.NOT_TESTED and item.references
    ]
    names = [f"{_name_group(item.group)}, n = {item.group.n}." for item in untested]
    found += [Listing(tuple(names), "Not tested")] if names else []
    # By key, since these groups have final returns as scores, whatever the endpoint of the pairs.
    flat = {item.group.key for item in learning if item.verdict == references.NOT_SHOWN}
    alike = sum(
        item.verdict == EQUIVALENT and {item.first.key, item.second.key} <= flat for item in pairs
    )
    if alike:
        found.append(
            f"Equivalent, but not shown to have learned: {format_count(alike, 'pair')}. What "
            "learns nothing scores alike."
        )
    return found


def remark_on_pair(item: PairVerdict, not_learned: Collection[GroupKey]) -> str:
    """Return the caveat on a pair of which one or both are not shown to have learned."""
    own = [group for group in (item.first, item.second) if group.key in not_learned]
    if len(own) == 2:
        return "; neither is shown to have learned"
    return f"; {get_label(own[0].framework)} is not shown to have learned" if own else ""


def _name_group(group: ScoreGroup) -> str:
    return f"{get_label(group.framework)} ({format_number(float(group.moments.mean))})"


def _format_difference(item: references.RandomVerdict) -> str:
    return (
        f"{_name_group(item.group)}, difference {format_number(item.difference)}, 95% interval "
        f"[{format_number(item.low)}, {format_number(item.high)}], n = {item.group.n}"
    )


def make_vs_random_table(
    items: Sequence[references.RandomVerdict],
) -> tables.Table[references.RandomVerdict]:
    """Return a table with a row for each framework in each setting."""
    columns: tuple[tables.Column[references.RandomVerdict], ...] = (
        *tables.make_setting_columns(lambda i: i.group.cell, [item.group.cell for item in items]),
        tables.make_text_column("framework", "framework", lambda i: i.group.framework, get_label),
        tables.make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        *tables.make_size_columns("ours", lambda i: i.group),
        tables.make_number_column("random_mean", "random actions", lambda i: i.random.mean),
        tables.make_csv_column("random_sd", lambda i: float(i.random.moments.sd)),
        tables.make_csv_column("random_episodes", lambda i: int(i.random.moments.n)),
        tables.make_number_column("difference", "difference", lambda i: i.difference),
        *tables.make_interval_columns("low", "high", lambda i: (i.low, i.high)),
        tables.make_p_value_column("p", "p", lambda i: i.p),
        tables.make_csv_column("source", lambda i: i.random.source),
    )
    title = "Final returns of every framework against random actions"
    return tables.Table("t-vs-random", title, columns, tuple(items), lambda i: [i.group])


def make_learning_table(verdicts: StudyVerdicts) -> tables.Table[references.LearningVerdict]:
    """Return a table with a row for each framework in each setting: has it learned?"""
    columns: tuple[tables.Column[references.LearningVerdict], ...] = (
        *tables.make_setting_columns(
            lambda i: i.group.cell, [item.group.cell for item in verdicts.learning]
        ),
        tables.make_text_column("framework", "framework", lambda i: i.group.framework, get_label),
        tables.make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        *tables.make_size_columns("ours", lambda i: i.group),
        tables.make_text_column(
            "references",
            "references",
            lambda i: "; ".join(f"{one.name} {format_number(one.mean)}" for one in i.references),
        ),
        tables.make_number_column("difference", "above the best of them", lambda i: i.difference),
        tables.make_number_column("margin", "margin", lambda i: i.margin),
        tables.make_p_value_column("p", "p", lambda i: i.p),
    )
    title = "Final returns of every framework against policies without training"
    return tables.Table("t-learning", title, columns, verdicts.learning, lambda i: [i.group])
