"""A Hydra launcher that runs a sweep on all cores of this machine."""

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore

__all__ = ["LocalLauncher"]


@dataclass
class LocalLauncherConf:
    """Options of `hydra/launcher=local`.

    Attributes:
        n_jobs: Runs at a time, each in a process of its own; -1 is one per core.
        malloc: The runs' memory allocator: `none` is the system's, `tcmalloc` is often faster where
            it is installed, a path names a library. It changes no result.
    """

    _target_: str = "hydra_plugins.parallax_local_launcher.launcher.LocalLauncher"
    n_jobs: int = -1
    malloc: str = "none"


ConfigStore.instance().store(
    group="hydra/launcher", name="local", node=LocalLauncherConf, provider="parallax"
)
