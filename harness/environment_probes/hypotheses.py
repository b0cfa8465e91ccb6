"""Search for the smallest set of changes to a definition that explains measured numbers."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TOLERANCE = 2e-3
"""Relative: implementations sum in float32, and first statistics are of one or two numbers."""
MAX_CHANGES = 3
"""Largest number of changed factors besides settings and those that may all change together."""


@dataclasses.dataclass(frozen=True)
class Factor:
    """One respect in which implementations may differ from a definition.

    Attributes:
        name: Keyword of the simulation.
        values: Values by their meaning in words; the first one is the definition.
        is_setting: Whether the values are constants, which do not count as a difference.
    """

    name: str
    values: Mapping[str, Any]
    is_setting: bool = False


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Changes of a definition that reproduce the measured numbers.

    Attributes:
        differences: Changes in words.
        settings: Constants in words, whether as in the definition or not.
        largest_error: Largest difference from the definition, relative.
        explained: Whether the changes reproduce the numbers.
    """

    differences: tuple[str, ...]
    settings: tuple[str, ...]
    largest_error: float
    explained: bool


def compute_error(measured: Array, predicted: Array) -> Array:
    """Return the difference of numbers, relative to those above 1."""
    error = np.abs(measured - predicted) / np.maximum(1.0, np.abs(predicted))
    return np.where(np.isfinite(error), error, np.inf)


@dataclasses.dataclass(frozen=True)
class ScaledParts:
    """Numbers before they are scaled, with the statistics that scale them, each float[n]."""

    values: Array
    mean: Array
    var: Array


Simulation = Callable[..., ScaledParts]
Finish = tuple[str, Callable[[ScaledParts], Array]]
"""Conversion of parts to the returned numbers: its constants in words, and a function."""


def explain_numbers(
    measured: Array,
    simulate: Simulation,
    factors: Sequence[Factor],
    finishes: Sequence[Finish],
    combined: Sequence[str] = (),
) -> Explanation:
    """Return the explanation with the fewest changed factors; settings do not count.

    Args:
        measured: Numbers, float[n]; NaN where nothing was measured.
        simulate: Returns the predicted parts for a value of each factor.
        factors: The factors; the first value of each is the definition.
        finishes: Possible scalings with their constants.
        combined: Names of factors that may all change together.
    """
    valid = ~np.isnan(measured)
    parts = simulate(**{factor.name: next(iter(factor.values.values())) for factor in factors})
    # Use the constants with the smallest error, so that the rest is not due to constants.
    errors = [compute_error(measured, finish(parts))[valid] for _, finish in finishes]
    error = min(errors, key=lambda found: float(np.median(found)) if len(found) else 0.0)
    largest = float(min(error.max(initial=0.0), 1e6))
    if not valid.any():
        return Explanation((), (), np.inf, False)
    for names in _list_choices(factors, combined):
        parts = simulate(**{factor.name: factor.values[names[factor.name]] for factor in factors})
        for constants, finish in finishes:
            predicted = finish(parts)
            if compute_error(measured, predicted)[valid].max(initial=0.0) > TOLERANCE:
                continue
            differences = tuple(
                names[factor.name]
                for factor in factors
                if not factor.is_setting and names[factor.name] != next(iter(factor.values))
            )
            settings = tuple(names[factor.name] for factor in factors if factor.is_setting)
            return Explanation(differences, (*settings, constants), largest, True)
    return Explanation((), (), largest, False)


def _list_choices(
    factors: Sequence[Factor], combined: Sequence[str]
) -> Iterator[Mapping[str, str]]:
    """Yield the names of values by factor, combinations with the fewest changes first."""
    settings = [factor for factor in factors if factor.is_setting]
    others = [factor for factor in factors if not factor.is_setting]
    fixed = [
        dict(zip((s.name for s in settings), names, strict=True))
        for names in itertools.product(*(s.values for s in settings))
    ]
    base = {factor.name: next(iter(factor.values)) for factor in others}
    deep = [factor for factor in others if factor.name in combined]
    for count in range(max(MAX_CHANGES, len(deep)) + 1):
        pool = others if count <= MAX_CHANGES else deep
        for changed in itertools.combinations(pool, count):
            for names in itertools.product(*(list(factor.values)[1:] for factor in changed)):
                choice = base | {f.name: n for f, n in zip(changed, names, strict=True)}
                for constants in fixed:
                    yield choice | constants
