"""When a run counts as complete: the one rule, for sweeps, jobs, status, validation and analysis.

A run is complete if its record says that it was completed and is as the run wrote it, its last
evaluation is at the last scheduled step, and every return is a number.
"""

from typing import TYPE_CHECKING

from harness.record.files import Unusable, first_line

if TYPE_CHECKING:
    from harness.record.evaluations import Evaluations

# Returns are recorded as float32: what it cannot hold is not a return.
_LARGEST = 3.4028234663852886e38


def why_unfinished(status: str, failure: str | None) -> str:
    """Why a record tells of no completed run, in a line; empty where it does.

    Args:
        status: Of the record.
        failure: Of the record.
    """
    if status == "completed":
        return ""
    return f"failed: {first_line(failure or '')}" if status == "failed" else status


def check_complete(evaluations: "Evaluations", scheduled: int) -> None:
    """Checks the half of the rule that concerns evaluations.

    Args:
        evaluations: All of a run's.
        scheduled: The last scheduled environment step.

    Raises:
        Unusable: The evaluations end elsewhere, or a return is not finite.
    """
    last = int(evaluations.timesteps[-1])
    if last != scheduled:
        word = "too short" if last < scheduled else "too long"
        raise Unusable(f"{word}: last evaluation at step {last:,} of {scheduled:,}")
    check_finite(evaluations)


def check_finite(evaluations: "Evaluations") -> None:
    """Checks that every return is a number.

    Raises:
        Unusable: A return is not finite.
    """
    bad = ~(abs(evaluations.results) <= _LARGEST)
    if bad.any():
        at = int(evaluations.timesteps[bad.any(axis=1)][0])
        count = f"{int(bad.sum())} of {evaluations.results.size}"
        raise Unusable(f"non-finite returns: {count}, first at step {at:,}")
