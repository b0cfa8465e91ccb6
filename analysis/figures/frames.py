"""Ends of axes that keep data readable, however wide their intervals are."""

from collections.abc import Sequence

import numpy as np

from analysis.stats.moments import Floats
from analysis.verdicts.curves import Curve

# Share of the data's own range that intervals may add above and below.
_HEADROOM = 0.3


def y_range(curves: Sequence[Curve]) -> tuple[float, float, bool]:
    """Limits of the return axis that keep the curves readable.

    Args:
        curves: At least one curve.

    Returns:
        Lower and upper limit, and whether they cut an interval off.
    """
    data = np.concatenate([returns for curve in curves for _, returns in curve.seeds])
    ends = np.concatenate([end for curve in curves for end in (curve.low, curve.high)])
    return limits(data, ends)


def limits(data: Floats, ends: Floats, headroom: float = _HEADROOM) -> tuple[float, float, bool]:
    """Limits of an axis that hold all data, and the ends of intervals unless they are far off.

    Args:
        data: float[n], n at least 1.
        ends: float[m], ends of intervals; those that are NaN do not count.
        headroom: Share of the data's range that intervals may add above and below.

    Returns:
        Lower and upper limit, and whether they cut an interval off.
    """
    ends = ends[np.isfinite(ends)]
    bottom, top = float(data.min()), float(data.max())
    room = headroom * (top - bottom) or max(1.0, 0.05 * abs(top))
    reach_low = min(bottom, *ends) if len(ends) else bottom
    reach_high = max(top, *ends) if len(ends) else top
    cut = reach_low < bottom - room or reach_high > top + room
    low, high = max(reach_low, bottom - room), min(reach_high, top + room)
    edge = 0.05 * (high - low) or room
    return float(low - edge), float(high + edge), bool(cut)
