"""From a sweep's overrides to its runs."""

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track

from harness.cli.app import spec_from_config
from harness.fields import SpecError
from harness.run_spec import RunSpec

_SEED = re.compile(r"seed=(\d+)")
_MANY = 100


def specs_of_sweep(
    loader: ConfigLoader, config: DictConfig, job_overrides: Sequence[Sequence[str]]
) -> tuple[list[RunSpec], Path]:
    """The runs of a sweep, checked, and the folder for their results.

    Hydra takes a tenth of a second to compose one run, so runs that differ in the seed only
    are composed once.

    Args:
        loader: Hydra's.
        config: Configuration of the sweep itself.
        job_overrides: Overrides of each run.

    Raises:
        SpecError: A value cannot be used.
        HydraException: A configuration does not exist.
    """
    composed: dict[tuple[str, ...], DictConfig] = {}
    pairs = []
    for overrides in track(
        job_overrides,
        "Reading the sweep",
        console=Console(stderr=True),
        transient=True,
        disable=len(job_overrides) < _MANY,
    ):
        seeds = [match[1] for match in map(_SEED.fullmatch, overrides) if match]
        rest = tuple(override for override in overrides if not _SEED.fullmatch(override))
        if rest not in composed:
            composed[rest] = loader.load_sweep_config(config, list(rest))
        if seeds:
            composed[rest].seed = int(seeds[-1])
        pairs.append(spec_from_config(composed[rest]))
    places = {str(place): place for _, place in pairs}
    if len(places) > 1:
        raise SpecError(
            f"results_dir={','.join(places)} cannot be swept: all runs of a sweep go below one "
            "folder. Give one value, and sweep study.name if runs must be kept apart."
        )
    return [spec for spec, _ in pairs], pairs[0][1]
