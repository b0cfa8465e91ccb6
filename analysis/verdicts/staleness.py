"""Strategies of starting recurrent states beside each other, by how stale their values are."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.data.runs import Cell, Run
from analysis.data.staleness import PLACES, Staleness, Strategy
from analysis.stats.intervals import Interval, interval
from analysis.stats.stages import over_runs, stage_means


@dataclasses.dataclass(frozen=True)
class Summary:
    """One strategy in one setting.

    Attributes:
        strategy: Which.
        stages: Of each place the mean over runs in each stage.
        overall: Of each place the mean over runs of the mean over stages.
        score: Return of the last evaluation, over runs.
        seeds: Of the runs.
    """

    strategy: Strategy
    stages: Mapping[str, tuple[Interval, ...]]
    overall: Mapping[str, Interval]
    score: Interval
    seeds: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Setting:
    """All strategies that were trained alike otherwise.

    Attributes:
        cell: The setting; its variant leaves out what the strategies differ in.
        framework: Which.
        strategies: Zero states before stored ones, short burn-ins before long ones.
    """

    cell: Cell
    framework: str
    strategies: tuple[Summary, ...]


OWN = ("stored_state", "burn_in")
"""Hyperparameters that say which strategy it is."""
_HASHED = "overrides="  # the name of a variant that would be too long


def settings(found: Sequence[Staleness], stages: int) -> tuple[Setting, ...]:
    """What runs recorded, by setting and strategy.

    Args:
        found: The runs.
        stages: In how many equal parts each is cut.
    """
    groups: dict[tuple[Cell, str], dict[Strategy, list[Staleness]]] = {}
    for item in found:
        cell = dataclasses.replace(item.run.id.cell, variant=_shared(item.run))
        strategies = groups.setdefault((cell, item.run.id.framework), {})
        strategies.setdefault(item.strategy, []).append(item)
    return tuple(
        Setting(
            cell, framework, tuple(_summary(s, strategies[s], stages) for s in sorted(strategies))
        )
        for (cell, framework), strategies in sorted(groups.items())
    )


def _shared(run: Run) -> str:
    """A run's variant without what strategies differ in."""
    parts = run.id.cell.variant.split(",")
    if not any(part.startswith(_HASHED) for part in parts):
        return ",".join(part for part in parts if part.partition("=")[0] not in OWN)
    asked = {n: v for n, v in run.spec["hyperparameters"].items() if n not in OWN}
    others = ("seed", "hyperparameters", "overridden")
    alike = {n: v for n, v in run.spec.items() if n not in others} | {"asked": asked}
    digest = hashlib.sha256(json.dumps(alike, sort_keys=True, default=str).encode()).hexdigest()
    return ",".join([p for p in parts if not p.startswith(_HASHED)] + [_HASHED + digest[:12]])


def _summary(strategy: Strategy, items: Sequence[Staleness], stages: int) -> Summary:
    by_stage, overall = {}, {}
    for place in PLACES:
        runs = [
            stage_means(*item.recorded[place], int(item.run.timesteps[-1]), stages)
            for item in items
        ]
        by_stage[place] = over_runs(runs)
        overall[place] = interval([np.nanmean(run) for run in runs if np.isfinite(run).any()])
    scores = interval([float(item.run.results[-1].mean()) for item in items])
    seeds = tuple(sorted(item.run.id.seed or 0 for item in items))
    return Summary(strategy, by_stage, overall, scores, seeds)
