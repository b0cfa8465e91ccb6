"""Which frameworks of a setting are better than random actions, in words."""

from collections.abc import Sequence

from analysis.report.statements import plural
from analysis.verdicts.consistency import EQUIVALENT, PairVerdict
from analysis.verdicts.groups import Group
from analysis.verdicts.learning import ABOVE, BELOW, NOT_SHOWN, UNTESTED, Learning
from analysis.words import MISSING, label, number

_LEADS = {BELOW: "Below them", NOT_SHOWN: "Neither above nor below", UNTESTED: "Not tested"}


def counted(items: Sequence[Learning]) -> str:
    """Such as `4 of 6`, of those tested; a dash where there is nothing to hold them against."""
    tested = [item for item in items if item.verdict != UNTESTED]
    return f"{_above(tested)} of {len(tested)}" if tested else MISSING


def below(items: Sequence[Learning]) -> str:
    """How many are shown to be worse, such as `, 2 below`; empty where none is."""
    count = sum(item.verdict == BELOW for item in items)
    return f", {count} below" if count else ""


def in_words(items: Sequence[Learning], pairs: Sequence[PairVerdict]) -> str:
    """Who of a setting is above random actions, and who is not shown to be, with n and interval.

    Args:
        items: All frameworks of the setting; none where random actions were not measured.
        pairs: Its pairs; it is said where some are equivalent that may both have learned nothing.
    """
    if not items:
        return ""
    row, above = items[0].random, counted(items)
    found = [
        f"Random actions score {number(row.mean)} ({row.trials} episodes)."
        + (f" Above them: {above} tested frameworks." if above != MISSING else "")
    ]
    found += [
        "\n".join(f"- {lead}: {_apart(item)}." for item in items if item.verdict == verdict)
        for verdict, lead in _LEADS.items()
    ]
    flat = _flat(items)
    alike = sum(
        item.verdict == EQUIVALENT and item.first in flat and item.second in flat for item in pairs
    )
    if alike:
        found.append(
            f"Equivalent and not above random actions: {plural(alike, 'pair')}, which may only say "
            "that neither has learned."
        )
    return "\n\n".join(filter(None, found))


def remark(item: PairVerdict, items: Sequence[Learning]) -> str:
    """What must be said beside a pair of which one or both are not shown to have learned.

    Args:
        item: The pair.
        items: Of any settings.
    """
    flat = _flat(items)
    own = [group for group in (item.first, item.second) if group in flat]
    if len(own) == 2:
        return "; neither is shown to be above random actions"
    return f"; {label(own[0].framework)} is not shown to be above random actions" if own else ""


def clearly(item: PairVerdict, items: Sequence[Learning]) -> bool:
    """Whether both of a pair are above random actions by more than the pair's margin.

    Args:
        item: The pair.
        items: Of any settings.
    """
    own = [found for found in items if found.group in (item.first, item.second)]
    return all(
        found.verdict in (ABOVE, UNTESTED) and found.difference > item.margin.size for found in own
    )


def _above(items: Sequence[Learning]) -> int:
    return sum(item.verdict == ABOVE for item in items)


def _flat(items: Sequence[Learning]) -> list[Group]:
    return [item.group for item in items if item.verdict in (BELOW, NOT_SHOWN)]


def _apart(item: Learning) -> str:
    name = f"{label(item.group.framework)} ({number(float(item.group.moments.mean))})"
    if item.verdict == UNTESTED:
        return f"{name}, n = 1"
    return (
        f"{name}, difference {number(item.difference)}, 95% interval "
        f"[{number(item.low)}, {number(item.high)}], n = {item.group.n}"
    )
