"""Numbers as people read them."""

import math

from analysis.intervals import Interval

MISSING = "-"


def number(value: float) -> str:
    """A value with four significant digits, whole above 999, never in scientific notation.

    More than six decimals are cut off; NaN is shown as a dash.
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    mantissa = f"{value:.3e}"
    rounded, exponent = float(mantissa), int(mantissa.partition("e")[2])
    if exponent >= 3:
        return f"{value:.0f}"
    text = f"{rounded:.{min(6, 3 - exponent)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def steps(value: int) -> str:
    """A count of environment steps, such as 18,432."""
    return f"{value:,}"


def brackets(interval: Interval) -> str:
    """The ends of an interval, or why there are none."""
    if not math.isnan(interval.low):
        return f"[{number(interval.low)}, {number(interval.high)}]"
    return "n = 1, no interval"
