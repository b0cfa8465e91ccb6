"""Which frameworks of a setting are better than random actions, in words."""

from collections.abc import Sequence

from parallax.analysis.labels import MISSING, format_number, get_label
from parallax.analysis.report.document import make_setting_columns, make_size_columns
from parallax.analysis.report.phrases import format_count
from parallax.analysis.report.render_csv import TableRow
from parallax.analysis.verdicts.consistency import EQUIVALENT, PairVerdict
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.vs_random import (
    BETTER_THAN_RANDOM,
    INCONCLUSIVE,
    NOT_TESTED,
    WORSE_THAN_RANDOM,
    RandomVerdict,
)

_VERDICT_LEADS = {
    WORSE_THAN_RANDOM: "Below them",
    INCONCLUSIVE: "Neither above nor below",
    NOT_TESTED: "Not tested",
}


def count_above_random(items: Sequence[RandomVerdict]) -> str:
    """Such as `4 of 6`, of those tested; a dash where there is nothing to hold them against."""
    tested = [item for item in items if item.verdict != NOT_TESTED]
    return f"{_count_above(tested)} of {len(tested)}" if tested else MISSING


def format_below_count(items: Sequence[RandomVerdict]) -> str:
    """How many are shown to be worse, such as `, 2 below`; empty where none is."""
    count = sum(item.verdict == WORSE_THAN_RANDOM for item in items)
    return f", {count} below" if count else ""


def describe_vs_random(items: Sequence[RandomVerdict], pairs: Sequence[PairVerdict]) -> str:
    """Who of a setting is above random actions, and who is not shown to be, with n and interval.

    Args:
        items: All frameworks of the setting; none where random actions were not measured.
        pairs: Its pairs; it is said where some are equivalent that may both have learned nothing.
    """
    if not items:
        return ""
    row, above = items[0].random, count_above_random(items)
    found = [
        f"Random actions score {format_number(row.mean)} ({row.trials} episodes)."
        + (f" Above them: {above} tested frameworks." if above != MISSING else "")
    ]
    found += [
        "\n".join(
            f"- {lead}: {_format_difference(item)}." for item in items if item.verdict == verdict
        )
        for verdict, lead in _VERDICT_LEADS.items()
    ]
    flat = _select_not_above(items)
    alike = sum(
        item.verdict == EQUIVALENT and item.first in flat and item.second in flat for item in pairs
    )
    if alike:
        found.append(
            f"Equivalent and not above random actions: {format_count(alike, 'pair')}, which may only say "
            "that neither has learned."
        )
    return "\n\n".join(filter(None, found))


def remark_on_pair(item: PairVerdict, items: Sequence[RandomVerdict]) -> str:
    """What must be said beside a pair of which one or both are not shown to have learned.

    Args:
        item: The pair.
        items: Of any settings.
    """
    flat = _select_not_above(items)
    own = [group for group in (item.first, item.second) if group in flat]
    if len(own) == 2:
        return "; neither is shown to be above random actions"
    return f"; {get_label(own[0].framework)} is not shown to be above random actions" if own else ""


def is_clearly_above_random(item: PairVerdict, items: Sequence[RandomVerdict]) -> bool:
    """Whether both of a pair are above random actions by more than the pair's margin.

    Args:
        item: The pair.
        items: Of any settings.
    """
    own = [found for found in items if found.group in (item.first, item.second)]
    return all(
        found.verdict in (BETTER_THAN_RANDOM, NOT_TESTED) and found.difference > item.margin.size
        for found in own
    )


def _count_above(items: Sequence[RandomVerdict]) -> int:
    return sum(item.verdict == BETTER_THAN_RANDOM for item in items)


def _select_not_above(items: Sequence[RandomVerdict]) -> list[ScoreGroup]:
    return [item.group for item in items if item.verdict in (WORSE_THAN_RANDOM, INCONCLUSIVE)]


def _format_difference(item: RandomVerdict) -> str:
    name = f"{get_label(item.group.framework)} ({format_number(float(item.group.moments.mean))})"
    if item.verdict == NOT_TESTED:
        return f"{name}, n = 1"
    return (
        f"{name}, difference {format_number(item.difference)}, 95% interval "
        f"[{format_number(item.low)}, {format_number(item.high)}], n = {item.group.n}"
    )


def make_vs_random_row(item: RandomVerdict) -> TableRow:
    """One framework in one setting against random actions."""
    return {
        **make_setting_columns(item.group.cell),
        "framework": item.group.framework,
        "verdict": item.verdict,
        **make_size_columns("ours", item.group),
        "random_mean": item.random.mean,
        "random_sd": item.random.spread,
        "random_episodes": item.random.trials,
        "difference": item.difference,
        "low": item.low,
        "high": item.high,
        "p": item.p,
        "source": item.random.source,
    }
