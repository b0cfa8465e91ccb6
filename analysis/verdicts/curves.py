"""Learning curves as arrays: per framework the mean over seeds and its interval."""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.data.runs import Cell, Loaded, Run
from analysis.stats.intervals import bounds
from analysis.stats.moments import Floats

Steps = NDArray[np.int64]

# Share of the data's own range that intervals may add above and below.
_HEADROOM = 0.3


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """One framework in one setting.

    Attributes:
        framework: Its name.
        seeds: Per seed its int64[E] steps and float64[E] mean returns.
        steps: int64[K], evaluation steps that all seeds share.
        mean: float64[K], mean over seeds of the mean return.
        low: float64[K], lower end of the interval; NaN at one seed.
        high: float64[K], upper end.
        left_out: Evaluations of single seeds that others do not have.
    """

    framework: str
    seeds: tuple[tuple[Steps, Floats], ...]
    steps: Steps
    mean: Floats
    low: Floats
    high: Floats
    left_out: int


@dataclasses.dataclass(frozen=True)
class Panel:
    """All frameworks in one setting.

    Attributes:
        cell: The setting.
        curves: One per framework with at least one run used, by name.
        requested: Run folders found, by framework.
    """

    cell: Cell
    curves: tuple[Curve, ...]
    requested: Mapping[str, int]

    @property
    def sizes(self) -> dict[str, str]:
        """Runs used/requested, by framework."""
        used = {curve.framework: len(curve.seeds) for curve in self.curves}
        return {name: f"{used.get(name, 0)}/{n}" for name, n in sorted(self.requested.items())}


def make_panels(loaded: Loaded, method: str, rng: np.random.Generator) -> tuple[Panel, ...]:
    """The curves of every setting that has a folder."""
    panels = []
    for cell in loaded.cells:
        runs = [run for run in loaded.runs if run.id.cell == cell]
        names = sorted({run.id.framework for run in runs})
        own = {name: [run for run in runs if run.id.framework == name] for name in names}
        curves = tuple(make_curve(name, own[name], method, rng) for name in names)
        requested = collections.Counter(
            item.id.framework for item in loaded.folders if item.id.cell == cell
        )
        panels.append(Panel(cell, curves, requested))
    return tuple(panels)


def make_curve(framework: str, runs: Sequence[Run], method: str, rng: np.random.Generator) -> Curve:
    """Aggregates one framework's seeds at the evaluation steps that all of them share.

    Args:
        framework: Its name.
        runs: At least one run.
        method: One of `analysis.stats.intervals.METHODS`.
        rng: Source of bootstrap resamples.
    """
    seeds = tuple((run.timesteps, run.results.mean(axis=1)) for run in runs)
    steps = functools.reduce(np.intersect1d, [at for at, _ in seeds])
    shared = np.array([returns[np.isin(at, steps)] for at, returns in seeds])
    left_out = sum(len(at) - len(steps) for at, _ in seeds)
    return Curve(framework, seeds, steps, *bounds(shared, method, rng), left_out)


def y_range(curves: Sequence[Curve]) -> tuple[float, float, bool]:
    """Limits of the return axis that keep the curves readable.

    Args:
        curves: At least one curve.

    Returns:
        Lower and upper limit, and whether they cut an interval off.
    """
    data = np.concatenate([returns for curve in curves for _, returns in curve.seeds])
    ends = np.concatenate([end for curve in curves for end in (curve.low, curve.high)])
    return limits(data, ends)


def limits(data: Floats, ends: Floats, headroom: float = _HEADROOM) -> tuple[float, float, bool]:
    """Limits of an axis that hold all data, and the ends of intervals unless they are far off.

    Args:
        data: float[n], n at least 1.
        ends: float[m], ends of intervals; those that are NaN do not count.
        headroom: Share of the data's range that intervals may add above and below.

    Returns:
        Lower and upper limit, and whether they cut an interval off.
    """
    ends = ends[np.isfinite(ends)]
    bottom, top = float(data.min()), float(data.max())
    room = headroom * (top - bottom) or max(1.0, 0.05 * abs(top))
    reach_low = min(bottom, *ends) if len(ends) else bottom
    reach_high = max(top, *ends) if len(ends) else top
    cut = reach_low < bottom - room or reach_high > top + room
    low, high = max(reach_low, bottom - room), min(reach_high, top + room)
    edge = 0.05 * (high - low) or room
    return float(low - edge), float(high + edge), bool(cut)
