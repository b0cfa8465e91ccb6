"""A Hydra launcher that queues a sweep on a Slurm cluster and returns.

Its options are those of `slurm.settings.Settings`, null standing for what the profile says, and:

- `profile`: name of a file in `slurm/profiles`, or the path of one of your own;
- `dry_run`: prints the scripts and some of the runs, `full` all of them; queues nothing;
- `preflight`: whether one step of each setting is tried on this machine first; `cluster` lets a job
  do so that all others wait for;
- `preflight_processes`: how many at a time; -1 is one per core, in a job its `cpus`;
- `preflight_seconds`: how long a setting may take before it is given up.
"""

import dataclasses
from typing import Any

from hydra.core.config_store import ConfigStore

from harness.contract.algorithms import ALGORITHMS
from hydra_plugins.parallax_slurm_launcher.launcher import SlurmLauncher
from slurm.settings import Settings

__all__ = ["SlurmLauncher"]


<<<<<<< HEAD
def _options() -> dict[str, Any]:
    own = {
        "_target_": "hydra_plugins.parallax_slurm_launcher.launcher.SlurmLauncher",
        "profile": "default",
        "dry_run": False,
        "preflight": True,
        "preflight_processes": -1,
        "preflight_seconds": 180.0,
    }
    settings: dict[str, Any] = {field.name: None for field in dataclasses.fields(Settings)}
    times = dict.fromkeys(("default", *ALGORITHMS))
    return own | settings | {"time": times, "sbatch": {}}
=======
def _no_times() -> dict[str, str | None]:
    return dict.fromkeys(("default", "ppo", "td3", "sac"))


@dataclass
class SlurmLauncherConf:
    """Options of `hydra/launcher=slurm`; null stands for what the profile says.

    Attributes:
        profile: Name of a file in `slurm/profiles`, or the path of one of your own.
        dry_run: Prints the scripts and some of the runs, `full` all of them; queues nothing.
        preflight: Whether one step of each setting is tried on this machine first; `cluster`
            lets a job do so that all others wait for.
        preflight_processes: How many at a time; -1 is one per core, in a job its `cpus`.
        preflight_seconds: How long a setting may take before it is given up.
        time: Time limit of one run by algorithm, as HH:MM:SS.
        mem_gb: Memory of a job in GB.
        cpus: Processors of a job.
        partition: Slurm's partition.
        account: Account that is charged.
        qos: Quality of service.
        constraint: Features that nodes must have.
        setup: Shell lines before the run.
        python: Interpreter on the nodes.
        sbatch: Further options of sbatch by their long names.
        parallelism: Jobs at a time; 0 is no limit but the cluster's.
        runs_per_job: Runs that share a job, one after another.
        signal_seconds: How long before its end a job is warned.
        timeout_restarts: How often a run that had its whole time is started again.
        preemption_restarts: How often a preempted job asks to be queued again.
        malloc: The runs' memory allocator on the nodes: `none`, `tcmalloc`, or a library's path.
    """

    _target_: str = "hydra_plugins.parallax_slurm_launcher.launcher.SlurmLauncher"
    profile: str = "default"
    dry_run: Any = False
    preflight: Any = True
    preflight_processes: int = -1
    preflight_seconds: float = 180.0
    time: dict[str, str | None] = field(default_factory=_no_times)
    mem_gb: float | None = None
    cpus: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    setup: list[str] | None = None
    python: str | None = None
    sbatch: dict[str, Any] = field(default_factory=dict)
    parallelism: int | None = None
    runs_per_job: int | None = None
    signal_seconds: int | None = None
    timeout_restarts: int | None = None
    preemption_restarts: int | None = None
    malloc: str | None = None
>>>>>>> 0727d1c (Allocators and shares, under way)


ConfigStore.instance().store(
    group="hydra/launcher", name="slurm", node=_options(), provider="parallax"
)
