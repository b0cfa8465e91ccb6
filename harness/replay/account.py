"""What a way of replaying costs in a training: CPU seconds, by what they were spent on."""

import dataclasses
import time


@dataclasses.dataclass
class Account:
    """Sums over a training so far; a training that goes on from a checkpoint goes on from them.

    CPU time of the process, so that neighbours on the machine make no difference.

    Attributes:
        minibatches: How many were drawn.
        sampling: Drawing places and reading the transitions, corrections of priorities included.
        sweeping: Asking the networks for the errors of the whole memory.
        priorities: Correcting weights and noting errors.
        learning: From a minibatch in hand to the end of the last optimiser step that it led to,
            without `priorities`.
        measuring: Comparing predicted priorities with real ones, which no training needs.
    """

    minibatches: int = 0
    sampling: float = 0.0
    sweeping: float = 0.0
    priorities: float = 0.0
    learning: float = 0.0
    measuring: float = 0.0
    _since: float | None = None

    @property
    def aside(self) -> float:
        """What is done now and then while a minibatch is drawn."""
        return self.sweeping + self.measuring

    def told(self) -> dict[str, float]:
        """All sums by name, in seconds but for `minibatches`."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: float(getattr(self, name)) for name in names if name != "_since"}

    def clock(self) -> float:
        """CPU seconds of this process."""
        return time.process_time()

    def spent(self, what: str, started: float) -> None:
        """Adds the seconds since `started` to one of the sums; they are no learning."""
        seconds = self.clock() - started
        setattr(self, what, getattr(self, what) + seconds)
        if self._since is not None:
            self._since += seconds

    def in_hand(self) -> None:
        """A minibatch has been drawn, and is learned from now."""
        self.minibatches += 1
        self._since = self.clock()

    def stepped(self) -> None:
        """An optimiser has stepped."""
        if self._since is not None:
            now = self.clock()
            self.learning += now - self._since
            self._since = now

    def over(self) -> None:
        """What follows is no learning from the minibatch in hand."""
        self._since = None
