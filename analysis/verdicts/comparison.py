"""Compares frameworks in each setting by the final score of their seeds."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.data.runs import Cell, Excluded, Loaded, Run
from analysis.stats.intervals import Interval, interval, welch
from analysis.stats.moments import Floats


@dataclasses.dataclass(frozen=True)
class Score:
    """How one framework did in one setting.

    Attributes:
        framework: Its name.
        final: Final score over seeds, in units of return.
        requested: Run folders found.
        completed: Runs that meet the completeness rule.
        used: Runs behind `final`.
        last_steps: Environment steps at the last evaluation; several if seeds differ.
    """

    framework: str
    final: Interval
    requested: int
    completed: int
    used: int
    last_steps: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Furthest:
    """The two frameworks whose means are furthest apart.

    Attributes:
        higher: The framework with the higher mean.
        lower: The other.
        difference: Higher minus lower mean, with Welch's interval for this pair.
    """

    higher: str
    lower: str
    difference: Interval


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All frameworks in one setting.

    Attributes:
        cell: The setting.
        scores: One per framework, by name.
        furthest: None if fewer than two frameworks have a run that is used.
    """

    cell: Cell
    scores: tuple[Score, ...]
    furthest: Furthest | None


def compare(loaded: Loaded, method: str, rng: np.random.Generator) -> tuple[Comparison, ...]:
    """One comparison per setting that has a folder, whether or not its runs are used.

    Args:
        loaded: What was found.
        method: One of `analysis.stats.intervals.METHODS`, for the frameworks' own intervals.
        rng: Source of bootstrap resamples.
    """
    return tuple(_compare_cell(cell, loaded, method, rng) for cell in loaded.cells)


def furthest_apart(finals: Mapping[str, Floats]) -> Furthest | None:
    """The pair of frameworks with the largest difference of means.

    The interval belongs to this pair alone: it is not widened for the pair having been
    chosen because it differs most.

    Args:
        finals: float[n] final scores by framework; empty ones are passed over.
    """
    present = {name: values for name, values in sorted(finals.items()) if len(values)}
    if len(present) < 2:
        return None
    higher, lower = max(
        itertools.permutations(present, 2),
        key=lambda pair: present[pair[0]].mean() - present[pair[1]].mean(),
    )
    return Furthest(higher, lower, welch(present[higher], present[lower]))


def _compare_cell(cell: Cell, loaded: Loaded, method: str, rng: np.random.Generator) -> Comparison:
    runs = [run for run in loaded.runs if run.id.cell == cell]
    excluded = [item for item in loaded.excluded if item.id.cell == cell]
    names = sorted({item.id.framework for item in loaded.folders if item.id.cell == cell})
    finals: dict[str, Floats] = {}
    scores = []
    for name in names:
        own = [run for run in runs if run.id.framework == name]
        unused = [item for item in excluded if item.id.framework == name]
        finals[name] = np.array([run.final_score for run in own], dtype=np.float64)
        scores.append(_score(name, own, unused, interval(finals[name], method, rng)))
    return Comparison(cell, tuple(scores), furthest_apart(finals))


def _score(name: str, runs: Sequence[Run], unused: Sequence[Excluded], final: Interval) -> Score:
    return Score(
        framework=name,
        final=final,
        requested=len(runs) + len(unused),
        completed=len(runs) + sum(item.completed for item in unused),
        used=len(runs),
        last_steps=tuple(sorted({int(run.timesteps[-1]) for run in runs})),
    )
