"""A Hydra launcher that queues a sweep on a Slurm cluster and returns.

Its options are those of `parallax.slurm.settings.SlurmSettings`, null standing for what the profile
says, and:

- `profile`: name of a file in `slurm/profiles`, or the path of one of your own;
- `dry_run`: prints the scripts and some of the runs, `full` all of them; queues nothing;
- `preflight`: whether one step of each setting is tried on this machine first; `cluster` lets a job
  do so that all others wait for;
- `preflight_processes`: how many at a time; -1 is one per core, in a job its `cpus`;
- `preflight_seconds`: how long a setting may take before it is given up.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from parallax.harness.cli.sweep_composer import SweepLauncher
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec
from parallax.slurm.settings import SlurmSettings, load_settings


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
        from parallax.slurm.preflight import read_preflight_options  # imports joblib

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

    def launch_runs(self, specs: Sequence[RunSpec], results_dir: Path) -> None:
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


def _make_default_options() -> dict[str, Any]:
    own = {
        "_target_": "hydra_plugins.parallax_slurm_launcher.SlurmLauncher",
        "profile": "default",
        "dry_run": False,
        "preflight": True,
        "preflight_processes": -1,
        "preflight_seconds": 180.0,
    }
    settings: dict[str, Any] = {field.name: None for field in dataclasses.fields(SlurmSettings)}
    times = dict.fromkeys(("default", *ALGORITHMS))
    return own | settings | {"time": times, "sbatch": {}}


ConfigStore.instance().store(
    group="hydra/launcher", name="slurm", node=_make_default_options(), provider="parallax"
)
