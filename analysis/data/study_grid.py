"""Grid of a study: the runs that its configuration requests.

It is read from a file such as `harness/conf/study/short_runs.yaml`: `hydra.sweeper.params` has the
values by name, and `hydra.sweeper.parts` those of each part of a study with more than one grid.
"""

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from parallax.analysis.data.runs import CompletedRun, ExcludedRun
from parallax.harness.record.files import (
    UnusableError,
    escape_unprintable,
    read_bounded,
    summarize_error,
)

_MOST_BYTES = 2**18  # of the file
_MOST_RUNS, _MOST_VALUES, _MOST_PARTS = 1_000_000, 100_000, 1_000
_LONGEST, _DEEPEST = 10_000, 16  # of the values of one name
_TOO_MANY = f"it requests more than {_MOST_RUNS:,} runs or {_MOST_PARTS:,} parts: name fewer values"

AXIS_NAMES = ("algorithm", "env", "hps", "framework", "seed")


@dataclasses.dataclass(frozen=True, order=True)
class RequestedRun:
    """One run that a study requests."""

    algorithm: str
    env: str
    hps: str
    framework: str
    seed: int

    @property
    def setting(self) -> tuple[str, ...]:
        """All fields except the seed."""
        return self.algorithm, self.env, self.hps, self.framework


# Values of each name in `AXIS_NAMES`; an empty tuple for all that are requested.
AxisValues = tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class StudyGrid:
    """All runs that a study requests.

    Attributes:
        name: Its name in `parallax train -m study=...`.
    """

    name: str
    path: Path
    runs: frozenset[RequestedRun]

    def format_commands(self, found: Iterable[RequestedRun]) -> tuple[str, ...]:
        """Return command lines that train those of some runs that are in the grid."""
        made = self.runs & set(found)
        if made == self.runs:
            return (f"parallax train -m study={self.name}",)
        found_in: dict[tuple[str, ...], set[int]] = collections.defaultdict(set)
        for run in made:
            found_in[run.setting].add(run.seed)
        choices = [
            (*((value,) for value in setting), self._omit_all_seeds(setting, found_in[setting]))
            for setting in sorted(found_in)
        ]
        choices = [self._omit_all_frameworks(choice) for choice in _merge_axis(choices, 3)]
        for axis in range(3):
            choices = _merge_axis(choices, axis)
        return tuple(self._format_command(choice) for choice in choices)

    def _omit_all_seeds(self, setting: tuple[str, ...], seeds: set[int]) -> tuple[str, ...]:
        """Return the seeds of a setting; an empty tuple if they are all that are requested."""
        requested = {run.seed for run in self.runs if run.setting == setting}
        return () if seeds == requested else tuple(map(str, sorted(seeds)))

    def _omit_all_frameworks(self, choice: AxisValues) -> AxisValues:
        """Return the choice, without frameworks if they are all that are requested."""
        *cell, frameworks, seeds = choice
        requested = {run.framework for run in self.runs if [(v,) for v in run.setting[:3]] == cell}
        return (*cell, () if set(frameworks) == requested else frameworks, seeds)

    def _format_command(self, choice: AxisValues) -> str:
        words = zip(AXIS_NAMES, choice, strict=True)
        options = [f"{name}={','.join(values)}" for name, values in words if values]
        return " ".join(["parallax train -m", f"study={self.name}", *options])


def _merge_axis(choices: Sequence[AxisValues], axis: int) -> list[AxisValues]:
    """Merge choices that differ in the values of one axis only."""
    found: dict[AxisValues, list[str]] = collections.defaultdict(list)
    for choice in choices:
        found[(*choice[:axis], (), *choice[axis + 1 :])] += choice[axis]
    return [
        (*rest[:axis], tuple(dict.fromkeys(values)), *rest[axis + 1 :])
        for rest, values in found.items()
    ]


def requested_run_from_folder(item: CompletedRun | ExcludedRun) -> RequestedRun | None:
    """Return the requested run that a folder belongs to; None if its seed is unknown."""
    cell, seed = item.id.cell, item.id.seed
    if seed is None:
        return None
    return RequestedRun(cell.algorithm, cell.env, cell.hps, item.id.framework, seed)


def read_grid(path: Path) -> StudyGrid:
    """Read the grid of a study.

    Raises:
        UnusableError: The file has no grid, or the grid sweeps other names than `AXIS_NAMES` or is
            larger than any study.
        OSError: It cannot be read.
    """
    from omegaconf._utils import get_yaml_loader  # as Hydra reads it; refuses a name twice

    try:
        text = read_bounded(path, _MOST_BYTES).decode("utf-8")
        content = yaml.load(text, get_yaml_loader())
        sweeper = content["hydra"]["sweeper"]
        general, parts = sweeper.get("params") or {}, sweeper.get("parts") or [{}]
        runs: list[RequestedRun] = []  # with repetitions, which take as long
        for part in parts:
            runs += _expand_part({**general, **part})
            if len(runs) > _MOST_RUNS or len(parts) > _MOST_PARTS:
                raise UnusableError(_TOO_MANY)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnusableError(f"it is not valid YAML: {summarize_error(error)}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise UnusableError(
            "it holds no hydra.sweeper.params, which holds a study's grid"
        ) from error
    except RecursionError as error:
        raise UnusableError("it is nested too deeply") from error
    except (ValueError, OverflowError) as error:  # such as a number of thousands of digits
        raise UnusableError(summarize_error(error)) from error
    return StudyGrid(path.stem, path, frozenset(runs))


def _expand_part(part: Mapping[str, Any]) -> set[RequestedRun]:
    values = _parse_sweep_values(part)
    others = [name for name, found in values.items() if name not in AXIS_NAMES and len(found) > 1]
    if others or not set(AXIS_NAMES) <= set(values):
        lacking = [name for name in AXIS_NAMES if name not in values]
        trouble = f"it sweeps {', '.join(others)}" if others else f"it lacks {', '.join(lacking)}"
        raise UnusableError(
            f"{trouble}; a grid has values of {', '.join(AXIS_NAMES)}, and of nothing else"
        )
    for seed in values["seed"]:
        if not seed.isdecimal() or not int(seed) < 2**32:
            raise UnusableError(f"seed={seed[:20]} is not a whole number from 0 to {2**32 - 1}")
    if math.prod(len(values[name]) for name in AXIS_NAMES) > _MOST_RUNS:
        raise UnusableError(_TOO_MANY)
    product = itertools.product(*(values[name] for name in AXIS_NAMES))
    return {
        RequestedRun(algorithm, env, hps, framework, int(seed))
        for algorithm, env, hps, framework, seed in product
    }


def _parse_sweep_values(part: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the values of each name, as Hydra reads them."""
    # Imported here because no other code that reads runs needs it.
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import RangeSweep
    from hydra.errors import HydraException

    values: dict[str, list[str]] = {}
    texts = [_override(name, value) for name, value in part.items()]
    try:
        for one in OverridesParser.create().parse_overrides(texts):
            name = one.get_key_element()
            if not one.is_sweep_override():
                values[name] = [one.get_value_element_as_str()]
                continue
            sweep = one.value()
            if isinstance(sweep, RangeSweep):
                _check_range(name, sweep)
            found = list(itertools.islice(one.sweep_string_iterator(), _MOST_VALUES + 1))
            if len(found) > _MOST_VALUES:
                raise UnusableError(f"{name} has more than {_MOST_VALUES:,} values: name fewer")
            if not found:
                raise UnusableError(f"{name} has no values: name at least one")
            values[name] = found
    except HydraException as error:
        raise UnusableError(summarize_error(error)) from error
    return values


def _override(name: Any, value: Any) -> str:
    """Return one line of the grid as Hydra reads it; a list in YAML is not a sweep."""
    if not isinstance(name, str) or not isinstance(value, str | int | float):
        raise UnusableError(
            f"{escape_unprintable(str(name)[:80])} is a {type(value).__name__}: write its "
            "values in one line, such as `seed: range(0,10)` or `env: A-v1,B-v1`"
        )
    text = f"{name}={value}"
    if len(text) > _LONGEST:
        raise UnusableError(
            f"{escape_unprintable(name[:80])} has {len(text):,} characters: at most {_LONGEST:,}"
        )
    depth = deepest = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise UnusableError(
            f"{escape_unprintable(name[:80])} is nested {deepest} deep: at most {_DEEPEST}"
        )
    return text


def _check_range(name: str, sweep: Any) -> None:
    """Reject a range with too many values before they are listed.

    Raises:
        UnusableError: It has too many values, or its step never reaches the end.
    """
    start, stop, step = (float(one) for one in (sweep.start, sweep.stop, sweep.step))
    if not step or not abs((stop - start) / step) <= _MOST_VALUES:
        raise UnusableError(
            f"{name}=range({start:g},{stop:g},{step:g}) has more than {_MOST_VALUES:,} values or "
            f"no end: write one such as range(0,10)"
        )
