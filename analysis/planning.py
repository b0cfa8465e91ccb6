"""Which further seeds would decide what is undecided, and what they cost."""

import collections
import dataclasses
import math
from collections.abc import Sequence

from analysis.consistency import UNDECIDED, PairVerdict
from analysis.groups import Group, by_cell, groups_of_runs
from analysis.needs import Need, Stock
from analysis.runs import Cell, Loaded, Run
from analysis.stopping import StoppingVerdict

Key = tuple[Cell, str]
Pair = tuple[Group, Group]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        needs: By setting and framework.
        planned: Undecided pairs that the seeds are for.
        beyond: Undecided pairs that would need more seeds than allowed.
        decided: Pairs with a verdict.
        not_ours: Undecided pairs whose runs this project did not make and cannot repeat.
    """

    needs: tuple[Need, ...]
    planned: int
    beyond: int
    decided: int
    not_ours: int

    @property
    def runs(self) -> int:
        """How many runs there are to make."""
        return sum(len(need.seeds) for need in self.needs)

    @property
    def known(self) -> tuple[Need, ...]:
        """Needs whose cost is known."""
        return tuple(need for need in self.needs if not math.isnan(need.core_hours))


def plan_once(
    verdicts: Sequence[PairVerdict],
    loaded: Loaded,
    most: int,
    step: int,
    replace_failed: bool = False,
) -> Plan:
    """As many seeds as each undecided pair needs, by its own estimate.

    Where that is no more than there are: `step` more. Without any test: as many as the other has.

    Args:
        verdicts: All pairs.
        loaded: All runs.
        most: Seeds per framework that are never exceeded.
        step: Seeds to add where the estimate is of no help.
        replace_failed: Take new seeds in place of those whose runs failed.
    """
    goals = [((item.first, item.second), _goal(item, step)) for item in verdicts]
    return _plan([*goals, *_untested(groups_of_runs(loaded))], loaded, most, replace_failed)


def plan_next_look(
    verdicts: Sequence[StoppingVerdict], loaded: Loaded, replace_failed: bool = False
) -> Plan:
    """The seeds of the next look for every pair that is still open."""
    goals = [((item.first, item.second), float(item.next_size)) for item in verdicts]
    most = max((item.next_size for item in verdicts), default=0)
    plan = _plan(goals, loaded, most, replace_failed)
    ended = sum(item.verdict == UNDECIDED and not item.next_size for item in verdicts)
    return dataclasses.replace(plan, beyond=ended, decided=plan.decided - ended)


def _goal(item: PairVerdict, step: int) -> float:
    if item.verdict != UNDECIDED:
        return 0
    if math.isnan(item.seeds_needed):
        return max(2, item.first.n, item.second.n)
    smaller = min(item.first.n, item.second.n)
    return item.seeds_needed if item.seeds_needed > smaller else smaller + step


def _untested(groups: Sequence[Group]) -> list[tuple[Pair, float]]:
    """Frameworks without any usable run, beside each one that has some."""
    return [
        ((group, other), max(2, other.n))
        for members in by_cell(groups).values()
        for group in members
        for other in members
        if not group.n and other.n
    ]


def _plan(
    goals: Sequence[tuple[Pair, float]], loaded: Loaded, most: int, replace_failed: bool
) -> Plan:
    wanted = collections.Counter[Key]()
    counts = collections.Counter[str]()
    for pair, size in goals:
        kind = _kind(pair, size, most)
        counts[kind] += 1
        if kind == "planned":
            wanted |= {(group.cell, group.framework): int(size) for group in pair}
    stock = Stock(loaded, replace_failed)
    groups = {(group.cell, group.framework): group for group in groups_of_runs(loaded)}
    needs = [stock.need(groups[key], wanted[key]) for key in sorted(wanted)]
    kinds = (counts[name] for name in ("planned", "beyond", "decided", "not ours"))
    return Plan(tuple(need for need in needs if need.seeds), *kinds)


def _kind(pair: Pair, size: float, most: int) -> str:
    if not size:
        return "decided"
    if not any(group.runs for group in pair):
        return "empty"  # no run tells how to make another; each is listed as not used
    if not all(_ours(run) for group in pair for run in group.runs):
        return "not ours"
    return "planned" if size <= most else "beyond"


def _ours(run: Run) -> bool:
    return "steps" in run.spec and "overridden" in run.spec
