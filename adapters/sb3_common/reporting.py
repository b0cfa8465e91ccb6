"""What a training of SB3's base classes tells the monitor."""

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from harness.contract.adapter import Monitor


class MonitorWriter(KVWriter):
    """An SB3 log output that hands what is logged to the monitor."""

    def __init__(self, monitor: Monitor, names: Mapping[str, str]) -> None:
        """Logs nothing yet.

        Args:
            monitor: Who is told.
            names: SB3's names of logged values to those of the trace.
        """
        self._monitor, self._names = monitor, names

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0
    ) -> None:
        """Passes on the values that have a name in the trace."""
        names = self._names
        known = {names[key]: float(key_values[key]) for key in key_values if key in names}
        if "train/loss" in key_values and "train/value_loss" not in key_values:  # of DQN
            known["loss/critic"] = float(key_values["train/loss"])
        if "train/entropy_loss" in key_values:  # SB3 logs minus the entropy
            known["policy/entropy"] = -float(key_values["train/entropy_loss"])
        self._monitor.record(known)

    def close(self) -> None:
        """Nothing is open."""


class Rounds(BaseCallback):
    """Tells the monitor of the head of SB3's loop: all steps so far are learned from."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self._monitor = monitor

    def _on_rollout_start(self) -> None:
        self._monitor.boundary()

    def _on_step(self) -> bool:
        return True
