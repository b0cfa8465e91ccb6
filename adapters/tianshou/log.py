"""Tianshou's statistics of updates, by the names of the trace."""

from typing import Any

from tianshou.utils import LazyLogger

from harness.adapter import Monitor

METRICS = {
    "actor_loss": "loss/policy",
    "vf_loss": "loss/value",
    "ent_loss": "policy/entropy",
    "alpha": "temperature",
    "alpha_loss": "loss/temperature",
}
"""Fields of Tianshou's statistics to names in the trace."""


class MonitorLogger(LazyLogger):
    """Hands statistics of updates to the monitor, and keeps nothing."""

    def __init__(self, monitor: Monitor, every: int) -> None:
        """Hands on what every `every`-th training step reports."""
        super().__init__()
        self.update_interval = every
        self._monitor = monitor

    def write(self, step_type: str, step: int, data: dict[str, Any]) -> None:
        """Records what has a name in the trace."""
        if step_type.startswith("update"):
            self._monitor.record(metrics(data))


def metrics(data: dict[str, Any]) -> dict[str, float]:
    """Values by their names in the trace; means where Tianshou has statistics of a rollout."""
    known = {METRICS[name]: _mean(value) for name, value in data.items() if name in METRICS}
    if "critic1_loss" in data:
        known["loss/critic"] = data["critic1_loss"] + data["critic2_loss"]
    return known


def _mean(value: Any) -> float:
    return float(value["mean"] if isinstance(value, dict) else value)
