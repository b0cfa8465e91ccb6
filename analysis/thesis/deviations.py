"""Whether the deviations recovered from the thesis' intervals can be those of five runs."""

from collections.abc import Sequence

import numpy as np

from analysis.groups import Group
from analysis.published import split_version

TASK, TOP = "InvertedPendulum", 1000.0  # no return there is below 0 or above 1000


def deviations(groups: Sequence[Group]) -> list[str]:
    """The section on recovered deviations."""
    own = [group for group in groups if split_version(group.cell.env)[0] == TASK]
    possible = sum(_possible(group) for group in own)
    solved = sum(float(group.moments.sd) == 0 for group in own)
    return [
        "## Recovered deviations",
        "Standard deviations are recovered from the intervals, mean ± 1.96·d/√5 with the "
        'population deviation d. "800.6 ± 349.6" on InvertedPendulum is what four runs at 1000 '
        f"and one at 3 give. No return on that task is below 0 or above {TOP:g}, so that d² is at "
        f"most mean·({TOP:g} - mean): {possible} of {len(own)} cells agree with that, and "
        f"{solved} of them are five runs at {TOP:g} with no deviation at all.",
    ]


def _possible(group: Group) -> bool:
    """Whether five returns between 0 and TOP can have this mean and deviation, but for rounding."""
    n, half = float(group.moments.n), group.rounding
    population = float(group.moments.sd) * np.sqrt((n - 1) / n)
    least = max(0.0, population - half * np.sqrt(n) / 1.96)
    means = np.clip(float(group.moments.mean) + np.array([-half, 0, half]), 0, TOP)
    return bool(least**2 <= max(means * (TOP - means)))
