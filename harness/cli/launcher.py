"""What the launchers share: a sweep is checked as a whole, and runs have processes of their own."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from harness.contract.run_spec import RunSpec


class SweepLauncher(Launcher):
    """Hydra's launcher interface on a function of all runs."""

    def __init__(self) -> None:
        self._context: HydraContext | None = None
        self._config: DictConfig | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keeps what `launch` needs; the task function is not used."""
        self._context = hydra_context
        self._config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Composes every run and hands them over.

        Raises:
            SpecError: A run cannot be carried out as asked; nothing was started.
            RunsFailed: Some runs did not complete, or were not queued.
        """
        # Hydra imports every plugin at start-up; the harness is needed only here.
        from harness.cli.composing import specs_of_sweep

        assert self._context is not None and self._config is not None
        specs, results_dir = specs_of_sweep(
            self._context.config_loader, self._config, job_overrides
        )
        self.launch_runs(specs, results_dir)
        return [
            JobReturn(overrides=list(overrides), status=JobStatus.COMPLETED)
            for overrides in job_overrides
        ]

    @abstractmethod
    def launch_runs(self, specs: "Sequence[RunSpec]", results_dir: Path) -> None:
        """Runs or queues them."""
