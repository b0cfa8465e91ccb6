"""Implements Hydra's launcher interface on `harness.sweep.sweep`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.launcher import SweepLauncher

if TYPE_CHECKING:
    from harness.contract.run_spec import RunSpec


class LocalLauncher(SweepLauncher):
    """Checks every run of the sweep first, then runs as many at a time as there are cores."""

    def __init__(self, n_jobs: int = -1, malloc: str = "none") -> None:
        super().__init__()
        self.n_jobs = n_jobs
        self.malloc = malloc

    def launch_runs(self, specs: "Sequence[RunSpec]", results_dir: Path) -> None:
        """Runs the sweep."""
        from harness.cli.app import report
        from harness.sweep.sweep import run_all

        report(run_all(specs, results_dir, self.n_jobs, self.malloc), results_dir)
