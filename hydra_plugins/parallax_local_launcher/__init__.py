"""A Hydra launcher that runs a sweep on all cores of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.config_store import ConfigStore

from parallax.harness.cli.hydra_app import report_outcomes
from parallax.harness.cli.sweep_composer import SweepLauncher
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.sweep.sweep import list_sweep, run_sweep


class LocalLauncher(SweepLauncher):
    """Checks every run of the sweep first, then runs as many at a time as there are cores."""

    def __init__(self, n_jobs: int = -1, malloc: str = "none", dry_run: bool = False) -> None:
        super().__init__()
        self.dry_run = dry_run
        self.n_jobs = n_jobs
        self.malloc = malloc

    def launch_runs(self, specs: Sequence[RunSpec], results_dir: Path) -> None:
        """Run the sweep, or list its runs."""
        if self.dry_run:
            print(*list_sweep(specs, results_dir, self.n_jobs, self.malloc), sep="\n")
            return
        report_outcomes(run_sweep(specs, results_dir, self.n_jobs, self.malloc), results_dir)


@dataclass
class LocalLauncherConf:
    """Options of `hydra/launcher=local`.

    Attributes:
        n_jobs: Runs at a time, each in a process of its own; -1 is one per core.
        malloc: The runs' memory allocator: `none` is the system's, `tcmalloc` is often faster where
            it is installed, a path names a library. It changes no result.
        dry_run: Whether to list the runs instead; so does `parallax train --dry-run`.
    """

    _target_: str = "hydra_plugins.parallax_local_launcher.LocalLauncher"
    n_jobs: int = -1
    malloc: str = "none"
    dry_run: bool = False


ConfigStore.instance().store(
    group="hydra/launcher", name="local", node=LocalLauncherConf, provider="parallax"
)
