"""Implements Hydra's launcher interface on `parallax.harness.sweep.sweep`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parallax.harness.cli.sweep_composer import SweepLauncher

if TYPE_CHECKING:
    from parallax.harness.contract.run_spec import RunSpec


class LocalLauncher(SweepLauncher):
    """Checks every run of the sweep first, then runs as many at a time as there are cores."""

    def __init__(self, n_jobs: int = -1, malloc: str = "none") -> None:
        super().__init__()
        self.n_jobs = n_jobs
        self.malloc = malloc

    def launch_runs(self, specs: "Sequence[RunSpec]", results_dir: Path) -> None:
        """Run the sweep."""
        from parallax.harness.cli.hydra_app import report_outcomes
        from parallax.harness.sweep.sweep import run_sweep

        report_outcomes(run_sweep(specs, results_dir, self.n_jobs, self.malloc), results_dir)
