"""From a sweep's overrides to its runs."""

from collections.abc import Sequence
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track

from harness.cli.app import spec_from_values
from harness.cli.composing import Composer
from harness.fields import SpecError
from harness.run_spec import RunSpec

_MANY = 100


def specs_of_sweep(
    loader: ConfigLoader, config: DictConfig, job_overrides: Sequence[Sequence[str]]
) -> tuple[list[RunSpec], Path]:
    """The runs of a sweep, checked, and the folder for their results.

    Args:
        loader: Hydra's.
        config: Configuration of the sweep itself.
        job_overrides: Overrides of each run.

    Raises:
        SpecError: A value cannot be used.
        HydraException: A configuration does not exist.
    """
    composer = Composer(loader, config, job_overrides)
    pairs = [
        spec_from_values(composer.values(overrides))
        for overrides in track(
            job_overrides,
            "Reading the sweep",
            console=Console(stderr=True),
            transient=True,
            disable=len(job_overrides) < _MANY,
        )
    ]
    places = {str(place): place for _, place in pairs}
    if len(places) > 1:
        raise SpecError(
            f"results_dir={','.join(places)} cannot be swept: all runs of a sweep go below one "
            "folder. Give one value, and sweep study.name if runs must be kept apart."
        )
    return [spec for spec, _ in pairs], pairs[0][1]
