"""Averages of what updates report, between two records of the trace."""

from collections.abc import Mapping

import torch


class Means:
    """Collects tensors without reading them, so that updates need not wait."""

    def __init__(self) -> None:
        self.updates = 0
        self._values: dict[str, list[torch.Tensor]] = {}

    def add(self, metrics: Mapping[str, torch.Tensor]) -> None:
        """Adds what one update reports; a metric may be missing in some."""
        self.updates += 1
        for name, value in metrics.items():
            self._values.setdefault(name, []).append(value)

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        means = {name: torch.stack(values).mean().item() for name, values in self._values.items()}
        self.updates, self._values = 0, {}
        return means
