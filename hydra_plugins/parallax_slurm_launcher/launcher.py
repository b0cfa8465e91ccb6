"""Implements Hydra's launcher interface on `parallax.slurm.launch`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from parallax.harness.cli.sweep_composer import SweepLauncher

if TYPE_CHECKING:
    from parallax.harness.contract.run_spec import RunSpec


class SlurmLauncher(SweepLauncher):
    """Checks every run of the sweep, queues what is not complete or under way, and returns."""

    def __init__(
        self,
        profile: str,
        dry_run: bool | str,
        preflight: Any,
        preflight_processes: int,
        preflight_seconds: float,
        **settings: Any,
    ) -> None:
        super().__init__()
        self._profile = profile
        self._dry_run = dry_run
        self._preflight_options = (preflight, preflight_processes, preflight_seconds)
        self._overrides = settings

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Read the profile too, before the time is spent to compose many runs.

        Raises:
            SpecError: The profile or a setting is not valid.
        """
        from parallax.harness.contract.fields import SpecError
        from parallax.slurm.preflight import read_preflight_options
        from parallax.slurm.settings import load_settings

        if self._dry_run not in (True, False, "full"):
            raise SpecError(
                f"hydra.launcher.dry_run={self._dry_run!r} must be true, false, or full, which "
                "names every run."
            )
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
        overrides = {
            name: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            for name, value in self._overrides.items()
        }
        self._settings = load_settings(self._profile, overrides)
        self._preflight = read_preflight_options(*self._preflight_options)

    def launch_runs(self, specs: "Sequence[RunSpec]", results_dir: Path) -> None:
        """Queue the sweep."""
        from parallax.slurm.launch import launch_sweep

        launch_sweep(
            specs,
            results_dir,
            self._settings,
            preflight=self._preflight,
            dry_run=bool(self._dry_run),
            every_run=self._dry_run == "full",
        )
        if self._dry_run and self._dry_run != "full":
            print("hydra.launcher.dry_run=full names every run.")
