"""Hydra's own sweeper without its check of every run, which the launchers make anyway."""

from collections.abc import Sequence
from dataclasses import dataclass

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf
from hydra.core.config_store import ConfigStore


class OnceSweeper(BasicSweeper):
    """Leaves the composition of each run to the launcher: twice takes minutes for a big study."""

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Nothing: the launchers compose and check every run before they start one."""


@dataclass
class OnceSweeperConf(BasicSweeperConf):
    """Options of the sweeper."""

    _target_: str = "hydra_plugins.parallax_sweeper.OnceSweeper"


ConfigStore.instance().store(
    group="hydra/sweeper", name="once", node=OnceSweeperConf, provider="parallax"
)
