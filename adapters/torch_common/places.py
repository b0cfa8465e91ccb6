"""Names upstream's file and line that single numbers in torch were made in."""

from typing import Any

import torch

from harness.probes.places import upstream_line


class Scalars:
    """Which lines made the single numbers that losses are summed from."""

    def __init__(self) -> None:
        self._lines: dict[int, str] = {}

    def note(self, result: Any, arguments: tuple[Any, ...]) -> None:
        """An operation made `result`; sums that no framework forms are those of their parts."""
        if not isinstance(result, torch.Tensor) or result.dim() != 0:
            return
        try:
            line = upstream_line() or "; ".join(
                dict.fromkeys(
                    self._lines[a.data_ptr()]
                    for a in arguments
                    if isinstance(a, torch.Tensor) and a.data_ptr() in self._lines
                )
            )
            if line:
                self._lines[result.data_ptr()] = line
        except RuntimeError:  # within vmap a tensor has no place of its own
            return

    def line(self, place: int) -> str:
        """Where the number at a place was made; empty where that is not known."""
        return self._lines.get(place, "")
