"""Plan of further seeds: how many are needed to decide inconclusive pairs, and what they cost."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Sequence

from parallax.analysis.data.runs import CompletedRun, LoadedRuns, RunId, StudyCell
from parallax.analysis.labels import format_number, format_ranges, format_seeds_needed
from parallax.analysis.plan.suite_needs import SuiteNeed, find_suite_goals
from parallax.analysis.verdicts.consistency import (
    PairVerdict,
    compute_holm_levels,
    estimate_pair_seed_range,
)
from parallax.analysis.verdicts.groups import (
    GroupKey,
    GroupPair,
    ScoreGroup,
    group_by_cell,
    group_runs,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.ranking import RankingVerdict
from parallax.analysis.verdicts.sequential import SequentialVerdict
from parallax.analysis.verdicts.statements import INCONCLUSIVE

CostKey = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SeedNeed:
    """Seeds that one framework has yet to run in one setting.

    Attributes:
        seeds: Seeds to run, including those with an incomplete run folder.
        begun: Number of these with an incomplete folder.
        failed: Number of those that failed.
        core_hours: Cost of all; NaN if no run has a timing.
        size: Estimated number of seeds in total.
        low: Lower end of the 80% range of the estimate; NaN if unknown.
    """

    cell: StudyCell
    framework: str
    seeds: tuple[int, ...]
    begun: int
    failed: int
    core_hours: float
    size: int = 0
    low: float = math.nan
    high: float = math.nan


class RunInventory:
    """Costs and unfinished seeds of existing runs, from which further ones are planned."""

    def __init__(self, loaded: LoadedRuns, replace_failed: bool) -> None:
        """Record costs and unfinished runs; seeds of failed runs to replace are skipped."""
        self._hours = _estimate_core_hours(loaded.runs)
        self._begun = {item.id for item in loaded.excluded if not item.completed}
        failed = {item.id for item in loaded.excluded if item.failed}
        self._failed, self._barred = failed, failed if replace_failed else set()

    def compute_need(self, group: ScoreGroup, size: int) -> SeedNeed:
        """Return the seeds that a group still needs to have `size`: the lowest incomplete ones."""
        cell, name = group.cell, group.framework
        names = (RunId(cell, name, seed) for seed in itertools.count())
        free = (run for run in names if run.seed not in group.seeds and run not in self._barred)
        new = list(itertools.islice(free, max(0, size - group.n)))
        exact, rough = _get_cost_keys(cell, name)
        each = self._hours.get(exact, self._hours.get(rough, math.nan))
        return SeedNeed(
            cell,
            name,
            tuple(run.seed for run in new if run.seed is not None),
            sum(run in self._begun for run in new),
            sum(run in self._failed for run in new),
            len(new) * each,
        )


def _get_cost_keys(cell: StudyCell, framework: str) -> tuple[CostKey, CostKey]:
    """Return an exact key, and one for all tasks and hyperparameters of the algorithm."""
    rough = framework, cell.algorithm, cell.variant
    return (*rough, cell.env, cell.hps), rough


def _estimate_core_hours(runs: Sequence[CompletedRun]) -> dict[CostKey, float]:
    """Return the mean core-hours of a run by both of its cost keys."""
    found: dict[CostKey, list[float]] = collections.defaultdict(list)
    for run in runs:
        hours = run.seconds * run.spec.get("threads", 1) / 3600
        for place in _get_cost_keys(run.id.cell, run.id.framework):
            if not math.isnan(hours):
                found[place].append(hours)
    return {place: math.fsum(values) / len(values) for place, values in found.items()}


SeedRange = tuple[float, float]
_UNKNOWN_RANGE: SeedRange = (math.nan, math.nan)


@dataclasses.dataclass(frozen=True)
class SeedGoal:
    """Number of seeds that two groups should have.

    Attributes:
        size: Seeds of each; 0 if the pair is decided.
        ends: 80% range of the estimated size.
    """

    pair: GroupPair
    size: float
    ends: SeedRange = _UNKNOWN_RANGE


@dataclasses.dataclass(frozen=True)
class SeedPlan:
    """Further seeds to run.

    Attributes:
        planned: Number of inconclusive pairs that the seeds are for.
        over_limit: Number of inconclusive pairs that need more seeds than allowed.
        not_repeatable: Number of inconclusive pairs whose runs were made by another project, or
            have conflicting settings on one path.
        rankings: Number of inconclusive pairs of rankings that the seeds are for as well.
        rankings_over_limit: Number of inconclusive pairs of rankings that need too many seeds.
    """

    needs: tuple[SeedNeed, ...]
    planned: int
    over_limit: int
    decided: int
    not_repeatable: int
    rankings: int = 0
    rankings_over_limit: int = 0

    @property
    def runs(self) -> int:
        """Return the number of runs to make."""
        return sum(len(need.seeds) for need in self.needs)

    @property
    def known(self) -> tuple[SeedNeed, ...]:
        """Needs whose cost is known."""
        return tuple(need for need in self.needs if not math.isnan(need.core_hours))


def plan_seeds(
    verdicts: Sequence[PairVerdict],
    loaded: LoadedRuns,
    most: int,
    step: int,
    replace_failed: bool = False,
    options: VerdictOptions | None = None,
    rankings: Sequence[RankingVerdict] = (),
) -> SeedPlan:
    """Plan as many seeds as each inconclusive pair and ranking needs by its own estimate.

    If the estimate is not above the present number, `step` seeds are added. A framework without
    runs gets as many as the other has. No framework gets more than `most`. With `replace_failed`,
    other seeds take the place of those whose runs failed.
    """
    chosen = options or VerdictOptions()
    levels = compute_holm_levels(verdicts, chosen.alpha)
    goals = []
    for item, level in zip(verdicts, levels, strict=True):
        size = _estimate_goal_size(item, step)
        ends = estimate_pair_seed_range(item, level, chosen) if size else _UNKNOWN_RANGE
        goals.append(SeedGoal((item.first, item.second), size, ends))
    goals += _make_untested_goals(group_runs(loaded))
    by_ranking, beyond = _make_ranking_goals(rankings, most)
    # A ranking is decided by the runs of two settings: if one cannot be repeated, it stays open.
    by_ranking = [
        found
        for found in by_ranking
        if all(_classify_goal(goal.pair, goal.size, most) == "planned" for goal in found)
    ]
    ranking_goals = [goal for found in by_ranking for goal in found]
    plan = _make_plan(goals, loaded, most, replace_failed, ranking_goals)
    return dataclasses.replace(plan, rankings=len(by_ranking), rankings_over_limit=beyond)


def plan_suite_seeds(
    needs: Sequence[SuiteNeed], loaded: LoadedRuns, most: int, replace_failed: bool = False
) -> SeedPlan:
    """Plan the seeds of every task that decide inconclusive pairs over all tasks.

    No framework gets more than `most` per task.
    """
    groups: dict[tuple[str, ...], dict[str, ScoreGroup]] = collections.defaultdict(dict)
    for group in group_runs(loaded):
        groups[*group.cell.suite_key, group.cell.env][group.framework] = group
    goals = [
        SeedGoal((one, two), max(need.needed, need.size + 1), (need.low, need.high))
        for one, two, need in find_suite_goals(needs, groups)
    ]
    plan = _make_plan(goals, loaded, most, replace_failed)
    inconclusive = [need for need in needs if need.is_open]
    beyond = sum(max(need.needed, need.size + 1) > most for need in inconclusive)
    return dataclasses.replace(
        plan,
        planned=len(inconclusive) - beyond,
        over_limit=beyond,
        decided=len(needs) - len(inconclusive),
    )


def _make_ranking_goals(
    rankings: Sequence[RankingVerdict], most: int
) -> tuple[list[list[SeedGoal]], int]:
    """Return the goals of inconclusive pairs of rankings, and how many need too many seeds."""
    found, beyond = [], 0
    for ranking in rankings:
        groups = {ranked.framework: ranked.groups for ranked in ranking.rankings}
        for pair in ranking.pairs:
            if pair.verdict != INCONCLUSIVE or math.isnan(pair.seeds_needed):
                continue
            if pair.seeds_needed > most:
                beyond += 1
                continue
            sides = zip(groups[pair.first], groups[pair.second], strict=True)
            found.append([SeedGoal(two, pair.seeds_needed) for two in sides])
    return found, beyond


def plan_next_check(
    verdicts: Sequence[SequentialVerdict], loaded: LoadedRuns, replace_failed: bool = False
) -> SeedPlan:
    """Plan the seeds of the next check for every inconclusive pair."""
    goals = [SeedGoal((item.first, item.second), float(item.next_check_size)) for item in verdicts]
    most = max((item.next_check_size for item in verdicts), default=0)
    plan = _make_plan(goals, loaded, most, replace_failed)
    ended = sum(item.verdict == INCONCLUSIVE and not item.next_check_size for item in verdicts)
    return dataclasses.replace(plan, over_limit=ended, decided=plan.decided - ended)


def _estimate_goal_size(item: PairVerdict, step: int) -> float:
    if item.verdict != INCONCLUSIVE:
        return 0
    if math.isnan(item.seeds_needed):
        return max(2, item.first.n, item.second.n)
    smaller = min(item.first.n, item.second.n)
    return item.seeds_needed if item.seeds_needed > smaller else smaller + step


def _make_untested_goals(groups: Sequence[ScoreGroup]) -> list[SeedGoal]:
    """Return frameworks without a usable run, each paired with a framework that has some."""
    return [
        SeedGoal((group, other), max(2, other.n))
        for members in group_by_cell(groups).values()
        for group in members
        for other in members
        if not group.n and other.n
    ]


def _make_plan(
    goals: Sequence[SeedGoal],
    loaded: LoadedRuns,
    most: int,
    replace_failed: bool,
    ranking_goals: Sequence[SeedGoal] = (),
) -> SeedPlan:
    """Plan the seeds that reach all goals; only `goals` are counted as pairs of frameworks."""
    kinds = [_classify_goal(goal.pair, goal.size, most) for goal in goals]
    counts = collections.Counter(kinds)
    planned = [goal for goal, kind in zip(goals, kinds, strict=True) if kind == "planned"]
    wanted: dict[GroupKey, SeedGoal] = {}
    for goal in (*planned, *ranking_goals):
        for group in goal.pair:
            if group.key not in wanted or goal.size > wanted[group.key].size:
                wanted[group.key] = goal
    inventory = RunInventory(loaded, replace_failed)
    groups = {group.key: group for group in group_runs(loaded)}
    needs = [
        dataclasses.replace(
            inventory.compute_need(groups[key], int(goal.size)),
            size=int(goal.size),
            low=goal.ends[0],
            high=goal.ends[1],
        )
        for key, goal in sorted(wanted.items(), key=lambda item: item[0])
    ]
    return SeedPlan(
        tuple(need for need in needs if need.seeds),
        planned=counts["planned"],
        over_limit=counts["over limit"],
        decided=counts["decided"],
        not_repeatable=counts["not repeatable"],
    )


def _classify_goal(pair: GroupPair, size: float, most: int) -> str:
    """Return `decided`, `empty`, `not repeatable`, `planned` or `over limit`."""
    if not size:
        return "decided"
    if not any(group.runs for group in pair):
        return "empty"  # there is no run whose settings could be repeated
    if not all(_is_repeatable(run) for group in pair for run in group.runs):
        return "not repeatable"
    return "planned" if size <= most else "over limit"


def _is_repeatable(run: CompletedRun) -> bool:
    return "steps" in run.spec and "overridden" in run.spec and not run.has_conflicting_settings


def format_pair_counts(plan: SeedPlan, most: int, sequential: bool) -> list[str]:
    """Return lines on how many pairs are decided, planned for and left out."""
    beyond = (
        f"{plan.over_limit} stay inconclusive at {most} seeds"
        if sequential
        else f"{plan.over_limit} would need more than {most} seeds and are left"
    )
    lines = [f"Pairs of frameworks: {plan.decided} decided, {plan.planned} to go on with, {beyond}"]
    if plan.rankings or plan.rankings_over_limit:
        lines.append(
            f"Pairs of rankings: {plan.rankings} to go on with, {plan.rankings_over_limit} would "
            f"need more than {most} seeds and are left"
        )
    if plan.not_repeatable:
        lines.append(
            f"{plan.not_repeatable} inconclusive pairs cannot be repeated: their runs are of "
            "another project, or have conflicting settings"
        )
    return lines


def format_costs(plan: SeedPlan, most: int) -> list[str]:
    """Return lines on the runs to make, their settings and their cost."""
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
        lines.append(
            f"Cost: {_format_core_hours(hours)}, by the runs' own timings"
            f"{_format_cost_range(plan.known, most)}"
        )
    unknown = plan.runs - sum(len(need.seeds) for need in plan.known)
    if unknown:
        lines.append(f"Cost of {unknown} runs unknown: no complete run has a timing")
    several = len({need.cell.study for need in plan.needs}) > 1
    return lines + [_format_need(need, several) for need in plan.needs]


def _format_cost_range(needs: Sequence[SeedNeed], most: int) -> str:
    """Return the costs at both ends of the estimates' ranges, in words; empty without a range."""
    if all(math.isnan(need.low) for need in needs):
        return ""
    ends = []
    for name in ("low", "high"):
        runs = [
            len(need.seeds)
            if math.isnan(getattr(need, name))
            else min(getattr(need, name), most) - (need.size - len(need.seeds))
            for need in needs
        ]
        each = [need.core_hours / len(need.seeds) for need in needs]
        ends.append(math.fsum(max(0.0, n) * hours for n, hours in zip(runs, each, strict=True)))
    low, high = (_format_core_hours(value) for value in ends)
    return f"; {low} to {high} over the 80% ranges below, with at most {most} seeds"


def _format_need(need: SeedNeed, several: bool) -> str:
    cell = need.cell
    cost = "" if math.isnan(need.core_hours) else f" ({_format_core_hours(need.core_hours)})"
    study = f"study {cell.study}" if several else ""
    setting = (study, cell.env, cell.algorithm, cell.hps, cell.variant, need.framework)
    return (
        f"  {', '.join(part for part in setting if part)}: "
        f"{'seeds' if len(need.seeds) > 1 else 'seed'} {format_ranges(need.seeds, 3)}"
        f"{cost}{_format_estimate_range(need)}"
    )


def _format_estimate_range(need: SeedNeed) -> str:
    """Return the range of an estimate that comes from few runs, in words."""
    if math.isnan(need.low):
        return ""
    ends = f"{format_seeds_needed(need.low)} to {format_seeds_needed(need.high)}"
    return f"; in total {ends} (80% range; {need.size} by the measured values)"


def _format_core_hours(value: float) -> str:
    return f"{f'{value:,.0f}' if value >= 1000 else format_number(value)} core-hours"
