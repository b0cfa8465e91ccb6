"""Q-value discrepancies that runs with a recurrent memory have recorded."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.data.runs import Run
from harness.record.files import Unusable
from harness.record.layout import TRACE_FILE

PLACES = ("first", "last")
"""Steps of a sequence that discrepancies are told of."""


@dataclasses.dataclass(frozen=True, order=True)
class Strategy:
    """How a sequence's recurrent state is found.

    Attributes:
        stored_state: Whether it starts from the one that the actor had; else from zeros.
        burn_in: Steps that bring it up to date.
    """

    stored_state: bool
    burn_in: int

    @property
    def title(self) -> str:
        """In words."""
        return f"{'stored' if self.stored_state else 'zero'} state, burn-in {self.burn_in}"


@dataclasses.dataclass(frozen=True, eq=False)
class Staleness:
    """What one run recorded.

    Attributes:
        run: The run.
        strategy: Its hyperparameters.
        recorded: Of each place the environment steps, int64[n], and discrepancies, float64[n].
    """

    run: Run
    strategy: Strategy
    recorded: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]


def read_staleness(runs: Sequence[Run]) -> tuple[list[Staleness], list[Run]]:
    """What runs recorded of it, and those that recorded nothing.

    Args:
        runs: Complete runs of any algorithm.
    """
    from harness.record import trace  # pyarrow takes half a second to load

    found, without = [], []
    for run in runs:
        held = run.held
        if not {"stored_state", "burn_in"} <= held.keys():
            without.append(run)
            continue
        file = run.path / TRACE_FILE
        try:
            told = {place: trace.values(file, f"discrepancy/{place}") for place in PLACES}
        except Unusable:
            without.append(run)
            continue
        if not any(len(steps) for steps, _ in told.values()):
            without.append(run)
            continue
        strategy = Strategy(bool(held["stored_state"]), int(held["burn_in"]))
        found.append(Staleness(run, strategy, told))
    return found, without
