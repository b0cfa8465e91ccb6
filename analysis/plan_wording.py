"""A plan of further seeds in words."""

import math
from collections.abc import Sequence

from analysis.needs import Need
from analysis.numbers import number
from analysis.planning import Plan


def counts(plan: Plan, most: int, sequential: bool) -> list[str]:
    """How many pairs are decided, planned for and left."""
    beyond = (
        f"{plan.beyond} stay undecided at {most} seeds"
        if sequential
        else f"{plan.beyond} would need more than {most} seeds and are left"
    )
    lines = [f"Pairs of frameworks: {plan.decided} decided, {plan.planned} to go on with, {beyond}"]
    if plan.not_ours:
        lines.append(f"{plan.not_ours} undecided pairs hold runs that were not made here")
    return lines


def costs(plan: Plan) -> list[str]:
    """What there is to run, in which settings, and what it costs."""
    if not plan.needs:
        return ["Nothing to run."]
    begun, failed = (
        sum(getattr(need, name) for need in plan.needs) for name in ("begun", "failed")
    )
    lines = [f"Runs to make: {plan.runs}, {begun} of them begun before and not complete"]
    if failed:
        lines.append(
            f"{failed} of these failed: if they fail again, --replace-failed takes other seeds, "
            "which flatters a framework whose runs diverge"
        )
    if plan.known:
        hours = math.fsum(need.core_hours for need in plan.known)
        lines.append(f"Cost: {_hours(hours)}, by the runs' own timings")
    unknown = plan.runs - sum(len(need.seeds) for need in plan.known)
    if unknown:
        lines.append(f"Cost of {unknown} runs unknown: no complete run tells a time")
    return lines + [_need_line(need) for need in plan.needs]


def _need_line(need: Need) -> str:
    cell = need.cell
    cost = "" if math.isnan(need.core_hours) else f" ({_hours(need.core_hours)})"
    return (
        f"  {cell.env}, {cell.algorithm}, {cell.hps}, {need.framework}: "
        f"{'seeds' if len(need.seeds) > 1 else 'seed'} {_ranges(need.seeds)}{cost}"
    )


def _ranges(seeds: Sequence[int]) -> str:
    """Seeds in few words: 5 to 9, 12."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(
        f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts
    )


def _hours(value: float) -> str:
    return f"{f'{value:,.0f}' if value >= 1000 else number(value)} core-hours"
