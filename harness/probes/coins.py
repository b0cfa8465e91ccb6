"""Random numbers that decide whether an action is random, and what they are compared with.

Implementations draw a number between 0 and 1 and compare it with the share of random actions. The
numbers drawn here tell what they are compared with, so that one run shows the whole schedule.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.probes.results import Array

Tell = Callable[[float], None]
"""Is told what a number is compared with."""
COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
"""Comparisons that are told of, by Python's names of them."""


class Coin(float):
    """One number."""

    tell: Tell

    def __lt__(self, other: Any) -> bool:
        return self._compared("lt", other)

    def __le__(self, other: Any) -> bool:
        return self._compared("le", other)

    def __gt__(self, other: Any) -> bool:
        return self._compared("gt", other)

    def __ge__(self, other: Any) -> bool:
        return self._compared("ge", other)

    def _compared(self, how: str, other: Any) -> bool:
        self.tell(float(other))
        return bool(COMPARISONS[how](float(self), float(other)))


class Coins(np.ndarray[Any, Any]):
    """Numbers for all copies of the environment at once."""

    tell: Tell

    def __lt__(self, other: Any) -> Any:
        return self._compared("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared("ge", other)

    def _compared(self, how: str, other: Any) -> Any:
        self.tell(float(np.max(other)))
        return COMPARISONS[how](self.view(np.ndarray), other)


def coin(value: float, tell: Tell) -> Coin:
    """A number that tells what it is compared with."""
    made = Coin(value)
    made.tell = tell
    return made


def coins(value: float, count: int, tell: Tell) -> Array:
    """As many such numbers, float[count]."""
    made = np.full(count, value).view(Coins)
    made.tell = tell
    return made


def scores(pick: int, rows: int, choices: int) -> Array:
    """Random numbers of which that of one choice is the largest, float[rows, choices]."""
    found = np.zeros((rows, choices))
    found[:, pick] = 1.0
    return found
