"""Table I, targets: recomputed by the formula, with tolerance, time limits no ends."""

from collections.abc import Callable
from typing import Any

import numpy as np

from harness.diagnosis.check import ERROR, THROUGHOUT, Check, Seen
from harness.diagnosis.signals import Signals

_VARIANTS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("as if no episode ever ended", lambda r, g, v, t, c: r + g * v),
    ("without the discount factor", lambda r, g, v, t, c: r + v * (1 - t)),
    ("without the value of what follows", lambda r, g, v, t, c: r + 0 * v),
    ("with time limits taken for ends", lambda r, g, v, t, c: r + g * v * (1 - np.maximum(t, c))),
)


def recomputed(signals: Signals, threshold: float) -> Seen | None:
    """Whether targets are reward plus discounted value of what follows, none where tasks end."""
    given = signals.values["targets"]
    reward, value = np.asarray(given["rewards"], float), np.asarray(given["next_values"], float)
    ended, cut = np.asarray(given["terminated"], float), np.asarray(given["truncated"], float)
    target, gamma = np.asarray(given["targets"], float), float(given["gamma"])
    right = reward + gamma * value * (1 - ended)
    scale = max(float(np.abs(right).max(initial=0.0)), 1e-6)
    error = float(np.abs(target - right).max(initial=0.0)) / scale
    if error <= threshold:
        return None
    names = [
        name
        for name, form in _VARIANTS
        if np.abs(target - form(reward, gamma, value, ended, cut)).max() <= threshold * scale
    ]
    how = f"; they are what one gets {names[0]}" if names else ""
    wrong = int((np.abs(target - right) > threshold * scale).sum())
    return Seen(
        f"{wrong} of {target.size} targets differ from the formula, by up to {error:.2g} of their "
        f"size{how}.",
        error,
    )


CHECKS = (
    Check(
        "QTR_d1",
        "targets are computed wrongly",
        THROUGHOUT,
        ERROR,
        ("targets",),
        1e-4,
        "own: relative tolerance; RLExplorer compares bit by bit and takes time limits for ends",
        recomputed,
        "ends of episodes, discount or next values are left out or mixed up.",
        "targets = reward + gamma * next value * (1 - terminated); keep terminated in the buffer.",
        "n-step returns and entropy terms, which must be in next_values.",
    ),
)
"""What is asked of targets, where a training tells them."""
