"""Reads evaluations.npz and applies the rule of what makes a run complete."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EVALUATIONS_FILE = "evaluations.npz"

Arrays = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]


class UnusableError(Exception):
    """Why a run cannot be used, in a few words."""


def read_evaluations(folder: Path) -> Arrays:
    """The three arrays of a run's evaluations.

    Args:
        folder: The run folder.

    Returns:
        timesteps int64[E], results float64[E, episodes], ep_lengths int64[E, episodes],
        all read-only, with E and episodes at least 1.

    Raises:
        UnusableError: The file is missing, cannot be read, or has other contents.
    """
    path = folder / EVALUATIONS_FILE
    if not path.exists():
        raise UnusableError(f"missing {EVALUATIONS_FILE}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            arrays = data["timesteps"], data["results"], data["ep_lengths"]
    except Exception as error:  # damaged archives raise a dozen different types
        raise UnusableError(f"corrupted {EVALUATIONS_FILE}: {first_line(error)}") from error
    return _checked(*arrays)


def check_complete(timesteps: NDArray[np.int64], results: NDArray[np.float64], end: int) -> None:
    """Checks the half of the completeness rule that concerns evaluations.

    Args:
        timesteps: int64[E], environment steps at each evaluation.
        results: float64[E, episodes], returns.
        end: The last scheduled environment step.

    Raises:
        UnusableError: The evaluations end elsewhere, or a return is not finite.
    """
    last = int(timesteps[-1])
    if last != end:
        word = "too short" if last < end else "too long"
        raise UnusableError(f"{word}: last evaluation at step {last:,} of {end:,}")
    check_finite(timesteps, results)


def check_finite(timesteps: NDArray[np.int64], results: NDArray[np.float64]) -> None:
    """Checks that every return is a number.

    Args:
        timesteps: int64[E], environment steps at each evaluation.
        results: float64[E, episodes], returns.

    Raises:
        UnusableError: A return is not finite.
    """
    # Returns are recorded as float32: what it cannot hold is not a return.
    bad = ~(np.abs(results) <= np.finfo(np.float32).max)
    if bad.any():
        at = int(timesteps[bad.any(axis=1)][0])
        count = f"{np.count_nonzero(bad)} of {results.size}"
        raise UnusableError(f"non-finite returns: {count}, first at step {at:,}")


def first_line(error: object) -> str:
    """The telling line of an error text, printable and at most 200 characters long.

    That is the first line, or the last one of a Python traceback.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__ if isinstance(error, Exception) else "no reason recorded"
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return "".join(char for char in line if char.isprintable())[:200]


def _checked(timesteps: Any, results: Any, ep_lengths: Any) -> Arrays:
    shapes = f"timesteps {timesteps.shape}, results {results.shape}, ep_lengths {ep_lengths.shape}"
    if timesteps.ndim != 1 or results.ndim != 2 or not results.size:
        raise UnusableError(f"corrupted {EVALUATIONS_FILE}: empty or of other dimensions: {shapes}")
    if results.shape[0] != timesteps.shape[0] or ep_lengths.shape != results.shape:
        raise UnusableError(f"corrupted {EVALUATIONS_FILE}: shapes do not agree: {shapes}")
    kinds = timesteps.dtype.kind, results.dtype.kind, ep_lengths.dtype.kind
    if kinds[0] not in "iu" or kinds[1] not in "fiu" or kinds[2] not in "iu":
        raise UnusableError(f"corrupted {EVALUATIONS_FILE}: values are not of numeric types")
    arrays = timesteps.astype(np.int64), results.astype(np.float64), ep_lengths.astype(np.int64)
    if np.any(np.diff(arrays[0]) <= 0):
        raise UnusableError(f"corrupted {EVALUATIONS_FILE}: timesteps do not increase")
    for array in arrays:
        array.setflags(write=False)
    return arrays
