"""The runs that a study asks for, read from the file in which its grid stands.

That is a file such as `harness/conf/study/cheap.yaml`: `hydra.sweeper.params` holds values by name,
and `hydra.sweeper.parts` those of each part of a study that is more than one grid.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.data.runs import Excluded, Run
from harness.record.files import Unusable, first_line

NAMES = ("algorithm", "env", "hps", "framework", "seed")


@dataclasses.dataclass(frozen=True, order=True)
class Asked:
    """One run that a study asks for.

    Attributes:
        algorithm: Algorithm.
        env: Task.
        hps: Name of the hyperparameters.
        framework: The framework.
        seed: Training seed.
    """

    algorithm: str
    env: str
    hps: str
    framework: str
    seed: int

    @property
    def setting(self) -> tuple[str, ...]:
        """All but the seed."""
        return self.algorithm, self.env, self.hps, self.framework


Choice = tuple[tuple[str, ...], ...]  # values of each name in `NAMES`; none: whatever is asked for


@dataclasses.dataclass(frozen=True)
class Grid:
    """What a study asks for.

    Attributes:
        name: What `parallax train -m study=...` calls it.
        path: The file.
        runs: Every run, once.
    """

    name: str
    path: Path
    runs: frozenset[Asked]

    def commands(self, found: Iterable[Asked]) -> tuple[str, ...]:
        """Command lines that make some runs of the grid, and no others.

        Args:
            found: The runs; those that the grid lacks are passed over.
        """
        made = self.runs & set(found)
        if made == self.runs:
            return (f"parallax train -m study={self.name}",)
        found_in: dict[tuple[str, ...], set[int]] = collections.defaultdict(set)
        for run in made:
            found_in[run.setting].add(run.seed)
        choices = [
            (*((value,) for value in setting), self._left_open(setting, found_in[setting]))
            for setting in sorted(found_in)
        ]
        choices = [self._without_all_frameworks(choice) for choice in _merged(choices, 3)]
        for axis in range(3):
            choices = _merged(choices, axis)
        return tuple(self._command(choice) for choice in choices)

    def _left_open(self, setting: tuple[str, ...], seeds: set[int]) -> tuple[str, ...]:
        """Some seeds of a setting; none where they are all that are asked for."""
        asked = {run.seed for run in self.runs if run.setting == setting}
        return () if seeds == asked else tuple(map(str, sorted(seeds)))

    def _without_all_frameworks(self, choice: Choice) -> Choice:
        """The same without naming frameworks where they are all that are asked for."""
        *cell, frameworks, seeds = choice
        asked = {run.framework for run in self.runs if [(v,) for v in run.setting[:3]] == cell}
        return (*cell, () if set(frameworks) == asked else frameworks, seeds)

    def _command(self, choice: Choice) -> str:
        words = zip(NAMES, choice, strict=True)
        told = [f"{name}={','.join(values)}" for name, values in words if values]
        return " ".join(["parallax train -m", f"study={self.name}", *told])


def _merged(choices: Sequence[Choice], axis: int) -> list[Choice]:
    """Joins choices that differ in one name only."""
    found: dict[Choice, list[str]] = collections.defaultdict(list)
    for choice in choices:
        found[(*choice[:axis], (), *choice[axis + 1 :])] += choice[axis]
    return [
        (*rest[:axis], tuple(dict.fromkeys(values)), *rest[axis + 1 :])
        for rest, values in found.items()
    ]


def asked_of(item: Run | Excluded) -> Asked | None:
    """Which run of a grid a folder stands for; None where it tells no seed."""
    cell, seed = item.id.cell, item.id.seed
    if seed is None:
        return None
    return Asked(cell.algorithm, cell.env, cell.hps, item.id.framework, seed)


def read_grid(path: Path) -> Grid:
    """Reads the grid of a study.

    Raises:
        Unusable: The file holds none, or one that sweeps something else than `NAMES`.
        OSError: It cannot be read.
    """
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
        sweeper = content["hydra"]["sweeper"]
        general, parts = sweeper.get("params") or {}, sweeper.get("parts") or [{}]
        runs = {run for part in parts for run in _runs({**general, **part})}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Unusable(f"it is no YAML: {first_line(error)}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise Unusable("it holds no hydra.sweeper.params, where a study's grid stands") from error
    return Grid(path.stem, path, frozenset(runs))


def _runs(part: Mapping[str, Any]) -> Iterable[Asked]:
    values = _values(part)
    others = [name for name, found in values.items() if name not in NAMES and len(found) > 1]
    if others or not set(NAMES) <= set(values):
        lacking = [name for name in NAMES if name not in values]
        trouble = f"it sweeps {', '.join(others)}" if others else f"it lacks {', '.join(lacking)}"
        raise Unusable(f"{trouble}; a grid has values of {', '.join(NAMES)}, and of nothing else")
    if strange := [seed for seed in values["seed"] if not seed.isdecimal()]:
        raise Unusable(f"seed={strange[0]} is no number")
    product = itertools.product(*(values[name] for name in NAMES))
    return (
        Asked(algorithm, env, hps, framework, int(seed))
        for algorithm, env, hps, framework, seed in product
    )


def _values(part: Mapping[str, Any]) -> dict[str, list[str]]:
    """The values of each name, as Hydra reads them."""
    # Loaded here: of all that reads runs, only this needs it.
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    values: dict[str, list[str]] = {}
    try:
        for one in OverridesParser.create().parse_overrides([f"{k}={v}" for k, v in part.items()]):
            several = one.is_sweep_override()
            texts = one.sweep_string_iterator() if several else [one.get_value_element_as_str()]
            values[one.get_key_element()] = list(texts)
    except HydraException as error:
        raise Unusable(first_line(error)) from error
    return values
