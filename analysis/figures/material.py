"""What all figures are made from: verdicts, aggregates and curves of one results folder."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping

import numpy as np

from analysis.answers import Answers, answer_runs
from analysis.curves import Curve, make_panels
from analysis.groups import Group
from analysis.intervals import Interval, interval
from analysis.naming import suffix
from analysis.options import Options
from analysis.overall import Overall, overall
from analysis.runs import Cell, Loaded

Setting = tuple[str, str, str]  # study, algorithm, variant


@dataclasses.dataclass(frozen=True, eq=False)
class Material:
    """All that can be drawn.

    Attributes:
        loaded: Runs, and folders that are not used.
        answers: Verdicts, and the groups behind them.
        overall: Aggregates over tasks.
        curves: Learning curve of each setting and framework with a run.
        finals: Final score with its interval, for the same.
        method: Method of the intervals.
    """

    loaded: Loaded
    answers: Answers
    overall: tuple[Overall, ...]
    curves: Mapping[tuple[Cell, str], Curve]
    finals: Mapping[tuple[Cell, str], Interval]
    method: str

    @functools.cached_property
    def groups(self) -> dict[tuple[Cell, str], Group]:
        """Every group by setting and framework."""
        return {(group.cell, group.framework): group for group in self.answers.groups}

    @functools.cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Study, algorithm and variant of everything that has a run used, in order."""
        return tuple(
            sorted({(cell.study, cell.algorithm, cell.variant) for cell, _ in self.curves})
        )

    def cells(self, study: str, algorithm: str | None, variant: str) -> tuple[Cell, ...]:
        """The settings with a run used, in order; of all algorithms where None."""
        return tuple(
            sorted(
                {
                    cell
                    for cell, _ in self.curves
                    if (cell.study, cell.variant) == (study, variant)
                    and algorithm in (None, cell.algorithm)
                }
            )
        )

    def suffix(self, study: str, variant: str, algorithm: str | None = None) -> tuple[str, str]:
        """Study and variant for a file's name, as far as they are needed to tell files apart."""
        return suffix((cell for cell, _ in self.curves), study, variant, algorithm)

    def context(self, study: str, variant: str) -> str:
        """Study and variant in words, for captions."""
        return f"study {study}" + (f", {variant}" if variant else "")


def gather(loaded: Loaded, options: Options, method: str = "t") -> Material:
    """Judges and aggregates everything in a results folder.

    Args:
        loaded: What was found.
        options: Settings of the verdicts; their seed is that of all resampling.
        method: One of `analysis.intervals.METHODS`, for drawn intervals.
    """
    answers = answer_runs(loaded, options)
    rng = np.random.default_rng(options.seed)
    curves = {
        (panel.cell, curve.framework): dataclasses.replace(curve, seeds=())
        for panel in make_panels(loaded, method, rng)
        for curve in panel.curves
    }
    finals = {
        (group.cell, group.framework): interval(group.scores, method, rng)
        for group in answers.groups
        if group.scores is not None and group.n
    }
    return Material(loaded, answers, overall(answers.groups, options), curves, finals, method)


def frameworks_of(keys: Iterable[tuple[Cell, str]]) -> list[str]:
    """Every framework among them, sorted."""
    return sorted({name for _, name in keys})
