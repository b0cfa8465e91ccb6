"""Implements Hydra's launcher interface on `slurm.launch`."""

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class SlurmLauncher(Launcher):
    """Checks every run of the sweep, queues what is not complete or under way, and returns."""

    def __init__(
        self,
        profile: str,
        dry_run: bool,
        preflight: bool,
        preflight_processes: int,
        **settings: Any,
    ) -> None:
        self._profile = profile
        self._dry_run = dry_run
        self._preflight = preflight_processes if preflight else 0
        self._settings = settings
        self._context: HydraContext | None = None
        self._config: DictConfig | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keeps what `launch` needs; the task function is not used, runs have own processes."""
        self._context = hydra_context
        self._config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Queues the sweep.

        Raises:
            SpecError: A run cannot be carried out as asked; nothing was queued.
            RunsFailed: Slurm refused some.
        """
        # Hydra imports every plugin at start-up; these are needed only here.
        from harness.sweep_specs import specs_of_sweep
        from slurm.launch import launch
        from slurm.profile_files import load_settings

        assert self._context is not None and self._config is not None
        overrides = {
            name: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            for name, value in self._settings.items()
        }
        settings = load_settings(self._profile, overrides)
        specs, results_dir = specs_of_sweep(
            self._context.config_loader, self._config, job_overrides
        )
        launch(specs, results_dir, settings, preflight=self._preflight, dry_run=self._dry_run)
        return [
            JobReturn(overrides=list(overrides), status=JobStatus.COMPLETED)
            for overrides in job_overrides
        ]
