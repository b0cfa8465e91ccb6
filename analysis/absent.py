"""Runs that left no folder, but that the other folders lead one to expect."""

import collections
import dataclasses

from analysis.runs import Cell, Loaded


@dataclasses.dataclass(frozen=True)
class Absent:
    """Seeds of a framework in a setting for which there is no folder.

    Attributes:
        cell: The setting.
        framework: The framework.
        seeds: Seeds that another framework has a folder of in this setting.
        whole: Whether the framework has no folder at all in this setting, but elsewhere in the
            study with the same algorithm.
    """

    cell: Cell
    framework: str
    seeds: tuple[int, ...]
    whole: bool

    def __str__(self) -> str:
        cell = self.cell
        place = "/".join(
            part
            for part in (cell.study, cell.env, cell.algorithm, cell.hps, self.framework)
            if part
        )
        word = "seed" if len(self.seeds) == 1 else "seeds"
        return f"{place}, {cell.variant}: {word} {', '.join(map(str, self.seeds))}"


def absent_runs(loaded: Loaded) -> tuple[Absent, ...]:
    """What is missing for all frameworks of a study to have the same seeds in each setting.

    A seed that no framework has in a setting is not expected, and folders that tell no seed
    are passed over.

    Args:
        loaded: What was found.
    """
    frameworks: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    seeds: dict[Cell, dict[str, set[int]]] = collections.defaultdict(
        lambda: collections.defaultdict(set)
    )
    for item in loaded.folders:
        cell = item.id.cell
        if item.id.seed is not None:
            frameworks[cell.study, cell.algorithm].add(item.id.framework)
            seeds[cell][item.id.framework].add(item.id.seed)
    return tuple(
        Absent(cell, name, tuple(sorted(lacking)), whole=name not in found)
        for cell, found in sorted(seeds.items())
        for name in sorted(frameworks[cell.study, cell.algorithm])
        if (lacking := set().union(*found.values()) - found.get(name, set()))
    )
