"""How long runs that are under way will still take."""

from collections.abc import Mapping, Sequence


def remaining_seconds(
    left: Sequence[tuple[str, str, int]], speeds: Mapping[tuple[str, str], float], jobs: int
) -> float | None:
    """Expected time until all runs have ended; None while no speed is known.

    Args:
        left: Framework, algorithm and steps still to take of each run.
        speeds: Environment steps per second of (framework, algorithm). A pair not seen yet
            is expected to be as fast as the slowest seen of its algorithm, or of all.
        jobs: Runs at a time.
    """
    if not speeds:
        return None
    total = 0.0
    for framework, algorithm, steps in left:
        same = [speed for (_, name), speed in speeds.items() if name == algorithm]
        speed = speeds.get((framework, algorithm), min(same or speeds.values()))
        total += steps / speed
    return total / min(jobs, max(len(left), 1))
