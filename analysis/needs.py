"""Seeds that a framework still has to run in a setting, and what they cost."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Sequence

from analysis.groups import Group
from analysis.runs import Cell, Loaded, Run, RunId

Place = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Need:
    """Seeds that one framework still has to run in one setting.

    Attributes:
        cell: The setting.
        framework: The framework.
        seeds: Seeds to run, those with a folder that is not complete among them.
        begun: How many of them have such a folder.
        failed: How many of those have failed.
        core_hours: What all of them cost; NaN where no run tells.
    """

    cell: Cell
    framework: str
    seeds: tuple[int, ...]
    begun: int
    failed: int
    core_hours: float


class Stock:
    """What the runs there tell of those to come."""

    def __init__(self, loaded: Loaded, replace_failed: bool) -> None:
        """Notes costs and unfinished runs.

        Args:
            loaded: All runs.
            replace_failed: Whether seeds whose runs failed are passed over.
        """
        self._hours = _core_hours(loaded.runs)
        self._begun = {item.id for item in loaded.excluded if not item.completed}
        failed = {item.id for item in loaded.excluded if item.reason.startswith("failed")}
        self._failed, self._barred = failed, failed if replace_failed else set()

    def need(self, group: Group, size: int) -> Need:
        """What a group lacks of a number of seeds: the lowest ones that are not complete."""
        cell, name = group.cell, group.framework
        names = (RunId(cell, name, seed) for seed in itertools.count())
        free = (run for run in names if run.seed not in group.seeds and run not in self._barred)
        new = list(itertools.islice(free, max(0, size - group.n)))
        exact, rough = _places(cell, name)
        each = self._hours.get(exact, self._hours.get(rough, math.nan))
        return Need(
            cell,
            name,
            tuple(run.seed for run in new if run.seed is not None),
            sum(run in self._begun for run in new),
            sum(run in self._failed for run in new),
            len(new) * each,
        )


def _places(cell: Cell, framework: str) -> tuple[Place, Place]:
    """A setting, and all tasks and hyperparameters of its algorithm."""
    rough = framework, cell.algorithm, cell.variant
    return (*rough, cell.env, cell.hps), rough


def _core_hours(runs: Sequence[Run]) -> dict[Place, float]:
    """Mean core-hours of a run, by both places."""
    found: dict[Place, list[float]] = collections.defaultdict(list)
    for run in runs:
        hours = run.seconds * run.spec.get("threads", 1) / 3600
        for place in _places(run.id.cell, run.id.framework):
            if not math.isnan(hours):
                found[place].append(hours)
    return {place: math.fsum(values) / len(values) for place, values in found.items()}
