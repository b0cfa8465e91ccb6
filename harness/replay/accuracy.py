"""How far what is believed of priorities is from what they are under the current networks.

Equation 13 of Imp-PER (Zhang et al., 2020): the mean absolute percentage error of probabilities,
at transitions drawn as a minibatch is. `docs/replay.md` tells what each way of replaying believes.
"""

import dataclasses

import numpy as np

from harness.replay.proportional import Proportional
from harness.replay.strategy import Fresh

LOOKS = 30
"""Comparisons in a run, at equal distances; ten in each third of it."""
COMPARED = 200
"""Transitions at a comparison; ten of them give the 2000 of each of the paper's stages."""
_LOOKED_AT = 50_000
"""Transitions that the real sum is taken of; of a larger memory as many, drawn uniformly."""
_STREAM = 0x6C6F6F6B73


@dataclasses.dataclass(frozen=True)
class Errors:
    """Relative errors of probabilities, without unit.

    Attributes:
        mean: Mean of the absolute ones, as in equation 13 but not times 100.
        median: Their median, which one transition without an error does not decide.
    """

    mean: float
    median: float


def compare(strategy: Proportional, fresh: Fresh, generator: np.random.Generator) -> Errors | None:
    """How well a strategy knows the real probabilities now; None where it does not predict them.

    Args:
        strategy: Is not changed.
        fresh: Errors under the current networks.
        generator: Not the training's.
    """
    places = np.arange(strategy.size)
    if strategy.size > _LOOKED_AT:
        places = generator.integers(strategy.size, size=_LOOKED_AT)
    errors = strategy.checked(fresh(places))
    powers = strategy.powers(errors)
    total = powers.sum() * strategy.size / len(places)
    stored = strategy.probabilities(places)
    if total <= 0 or stored.sum() <= 0:
        return None
    drawn = generator.choice(len(places), COMPARED, p=stored / stored.sum())
    believed = strategy.believed(places[drawn], errors[drawn])
    if believed is None:
        return None
    real = powers[drawn] / total
    known = real > 0
    if not known.any():
        return None
    relative = np.abs(believed[known] - real[known]) / real[known]
    return Errors(float(relative.mean()), float(np.median(relative)))


class Looks:
    """When a run compares: at the middle of each of `LOOKS` equal parts of it.

    Attributes:
        taken: How many of these points are behind.
    """

    def __init__(self, seed: int, steps: int) -> None:
        """Has not looked yet.

        Args:
            seed: Of the run.
            steps: Environment transitions of the whole run.
        """
        self.taken = 0
        self._steps = steps
        self._generator = np.random.default_rng([seed, _STREAM])

    def due(self, added: int) -> bool:
        """Whether a point lies behind `added` transitions that nobody has looked at."""
        return self._behind(added) > self.taken

    def look(self, strategy: Proportional, fresh: Fresh) -> Errors | None:
        """Compares now; points that are behind together count as one."""
        self.taken = self._behind(strategy.added)
        return compare(strategy, fresh, self._generator)

    def _behind(self, added: int) -> int:
        return min(int(added * LOOKS / self._steps + 0.5), LOOKS)
