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
from typing import Any

from hydra.core.config_store import ConfigStore

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.slurm.settings import SlurmSettings

__all__ = ["SlurmLauncher"]


def _make_default_options() -> dict[str, Any]:
    own = {
        "_target_": "hydra_plugins.parallax_slurm_launcher.launcher.SlurmLauncher",
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
