"""Which frameworks of a setting are better than random actions, in words."""

from collections.abc import Sequence

from analysis.report.statements import plural
from analysis.verdicts.consistency import EQUIVALENT, PairVerdict
from analysis.verdicts.learning import ABOVE, Learning
from analysis.words import MISSING, label, number


def counted(items: Sequence[Learning]) -> str:
    """Such as `4 of 6`; a dash where random actions were not measured on the task."""
    return f"{sum(item.verdict == ABOVE for item in items)} of {len(items)}" if items else MISSING


def in_words(items: Sequence[Learning], pairs: Sequence[PairVerdict]) -> str:
    """Who of a setting is above random actions, and who is not shown to be, with n and interval.

    Args:
        items: All frameworks of the setting; none where random actions were not measured.
        pairs: Its pairs; it is said where some are equivalent that may both have learned nothing.
    """
    if not items:
        return ""
    row, others = items[0].random, [item for item in items if _flat(item)]
    text = (
        f"Above random actions ({number(row.mean)}, {row.trials} episodes): "
        f"{len(items) - len(others) or 'none'} of {plural(len(items), 'framework')}"
    )
    if not others:
        return f"{text}."
    listed = "\n".join(["", "", *(f"- {_apart(item)}." for item in others)])
    text = f"{text}. Not shown to be above them:{listed}"
    names = {item.group.framework for item in others}
    alike = sum(
        item.verdict == EQUIVALENT and {item.first.framework, item.second.framework} <= names
        for item in pairs
    )
    if alike:
        text += (
            f"\n\n{plural(alike, 'pair').capitalize()} of these "
            f"{'is' if alike == 1 else 'are'} equivalent, "
            "which may only say that neither has learned."
        )
    return text


def remark(item: PairVerdict, items: Sequence[Learning]) -> str:
    """What must be said beside a pair of which one or both are not shown to have learned.

    Args:
        item: The pair.
        items: Of any settings.
    """
    flat = [one.group for one in items if _flat(one)]
    own = [label(group.framework) for group in (item.first, item.second) if group in flat]
    if len(own) == 2:
        return "; neither is shown to be above random actions"
    return f"; {own[0]} is not shown to be above random actions" if own else ""


def _flat(item: Learning) -> bool:
    return item.verdict != ABOVE


def _apart(item: Learning) -> str:
    side = "above" if item.difference >= 0 else "below"
    return (
        f"{label(item.group.framework)} ({number(float(item.group.moments.mean))}) {side} by "
        f"{number(abs(item.difference))}, 95% interval of the difference "
        f"[{number(item.low)}, {number(item.high)}], n = {item.group.n}"
    )
