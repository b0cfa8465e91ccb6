"""A Hydra sweeper that passes all combinations of values to the launcher without composing them.

Hydra's own sweeper composes every run as a check before the launcher composes it again, which
takes minutes for a large study. Parallax's launchers check every run before they start one.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from parallax.harness.cli.sweep_composer import format_overrides

_MAX_RUNS = 200_000  # of a sweep: as many as a packed study can hold


class OnceSweeper(Sweeper):
    """Hands every combination to the launcher, in the order of the command line."""

    def __init__(
        self,
        max_batch_size: int | None = None,
        params: Mapping[str, Any] | None = None,
        parts: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Create the sweeper; Hydra calls this.

        Args:
            max_batch_size: How many runs the launcher gets at a time; None for all.
            params: Values by name that a configuration file sweeps; the command line wins.
            parts: Values by name, of each part of a study that is more than one grid, beside
                `params`. The command line picks from what the parts have.
        """
        super().__init__()
        self._batch = max_batch_size
        self._params = dict(params or {})
        self._parts = [dict(part) for part in parts or [{}]]

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Store what Hydra passes before the sweep."""
        self.config = config
        self.hydra_context = hydra_context
        self._launcher: Launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Any]:
        """Start all runs; return the launcher's results of each batch.

        Raises:
            HydraException: A value stands for an endless choice, such as `interval(0,1)`, or no
                part of the study has it.
        """
        assert self.config is not None
        runs = self._combine_runs(arguments)
        size = len(runs) if self._batch is None else self._batch
        if size < 1:
            raise HydraException(f"hydra.sweeper.max_batch_size={size} must be 1 or more, or null.")
        returned = []
        for start in range(0, len(runs), size):
            results = self._launcher.launch(runs[start : start + size], initial_job_idx=start)
            for result in results:
                _ = result.return_value  # raises what the run raised
            returned.append(results)
        return returned

    def _combine_runs(self, arguments: Sequence[str]) -> list[list[str]]:
        """Return the combinations of all parts, without those that an earlier part has."""
        general = self._parse_choices(format_overrides(self._params))
        requested = self._parse_choices(arguments)
        if len(requested.get("study", ())) > 1:  # the file of the first one would sweep all of them
            raise HydraException("study=... takes one name: each study has a grid of its own.")
        parts = [self._parse_choices(format_overrides(part)) for part in self._parts]
        restricted = [_restrict_part(part, requested) for part in parts]
        left = [part for part in restricted if all(part.values())]
        if not left:
            raise HydraException(_format_missing_values(parts, requested))
        if missing := _find_unused_values(left, requested):
            raise HydraException(_format_missing_values(parts, requested | missing))
        choices = [{**general, **requested, **part}.values() for part in left]
        _check_size(sum(math.prod(map(len, values)) for values in choices), "The sweep")
        runs: list[list[str]] = []
        for grid in itertools.starmap(itertools.product, choices):
            known = {frozenset(run) for run in runs}
            runs += [list(run) for run in grid if frozenset(run) not in known]
        return runs

    def _parse_choices(self, words: Sequence[str]) -> dict[str, list[str]]:
        assert self.hydra_context is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides(list(words))
        return {override.get_key_element(): _expand_override(override) for override in overrides}


ValuesByName = dict[str, list[str]]


def _restrict_part(part: ValuesByName, requested: ValuesByName) -> ValuesByName:
    """Return the values of a part that are requested; all of them of a name that is not."""
    return {
        name: [value for value in requested.get(name, values) if value in values]
        for name, values in part.items()
    }


def _find_unused_values(parts: Sequence[ValuesByName], requested: ValuesByName) -> ValuesByName:
    """Return requested values that no part takes; a part without the name takes all of them."""
    unused: ValuesByName = {}
    for name, values in requested.items():
        taken = {value for part in parts for value in part.get(name, values)}
        if left := [value for value in values if value not in taken]:
            unused[name] = left
    return unused


def _format_missing_values(parts: Sequence[ValuesByName], requested: ValuesByName) -> str:
    named = sorted({name for part in parts for name in part if name in requested})
    known = [
        f"{name}: {_format_values(value for part in parts for value in part.get(name, ()))}"
        for name in named
    ]
    wanted = [f"{name}={_format_values(requested[name], ',')}" for name in named]
    return (
        f"No part of the study has {' '.join(wanted)}. Its parts have {'; '.join(known)}. "
        "hydra.sweeper.parts=null drops the parts."
    )


def _format_values(overrides: Iterable[str], between: str = ", ") -> str:
    return between.join(dict.fromkeys(word.partition("=")[2] for word in overrides))


def _expand_override(override: Override) -> list[str]:
    """Return one override for each value of an override."""
    name = override.get_key_element()
    if not override.is_sweep_override():
        return [f"{name}={override.get_value_element_as_str()}"]
    if not override.is_discrete_sweep():
        raise HydraException(
            f"{override.input_line} names no values: a sweep takes a list such as "
            f"{name}=1,2,3, choice(...), range(...) or glob(...)."
        )
    swept = override.value()
    if isinstance(swept, RangeSweep):  # may hold billions of values, of which Hydra makes a list
        try:
            size = sum(1 for _ in itertools.islice(swept.range(), _MAX_RUNS + 1))
        except (ValueError, ArithmeticError):
            raise HydraException(f"{override.input_line} is no range of numbers.") from None
        _check_size(size, str(override.input_line))
    values = [f"{name}={value}" for value in override.sweep_string_iterator()]
    if not values:
        raise HydraException(
            f"{override.input_line} holds no values, so there is nothing to run: name at least "
            f"one, such as {name}=0 or {name}=range(0,3)."
        )
    return values


def _check_size(runs: int, what: str) -> None:
    if runs > _MAX_RUNS:
        raise HydraException(f"{what} is too large: a sweep can have {_MAX_RUNS:,} runs.")


@dataclass
class OnceSweeperConf:
    """Options of the sweeper.

    Attributes:
        max_batch_size: How many runs the launcher gets at a time; null for all.
        params: Values by name, as on the command line.
        parts: The same for each part of a study that is more than one grid.
    """

    _target_: str = "hydra_plugins.parallax_sweeper.OnceSweeper"
    max_batch_size: int | None = None
    params: dict[str, Any] | None = field(default_factory=dict)  # null takes no `params.NAME=`
    parts: list[dict[str, Any]] | None = None


ConfigStore.instance().store(
    group="hydra/sweeper", name="once", node=OnceSweeperConf, provider="parallax"
)
