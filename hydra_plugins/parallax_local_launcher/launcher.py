"""Implements Hydra's launcher interface on `harness.sweep`."""

from collections.abc import Sequence

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class LocalLauncher(Launcher):
    """Checks every run of the sweep first, then runs as many at a time as there are cores."""

    def __init__(self, n_jobs: int = -1) -> None:
        self.n_jobs = n_jobs
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
        """Runs the sweep.

        Raises:
            SpecError: A run cannot be carried out as asked; nothing was started.
            RunsFailed: Some runs did not complete.
        """
        # Hydra imports every plugin at start-up; the harness is needed only here.
        from harness.app import report
        from harness.sweep import run_all
        from harness.sweep_specs import specs_of_sweep

        assert self._context is not None and self._config is not None
        specs, results_dir = specs_of_sweep(
            self._context.config_loader, self._config, job_overrides
        )
        outcomes = run_all(specs, results_dir, self.n_jobs)
        report(outcomes, results_dir)
        return [
            JobReturn(overrides=list(overrides), status=JobStatus.COMPLETED)
            for overrides in job_overrides
        ]
