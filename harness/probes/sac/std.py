"""How SAC's policy turns its network's output into a standard deviation."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import interpolate

from harness.probes import setups
from harness.probes.lab import Lab
from harness.probes.networks import single
from harness.probes.results import Array

NUDGE = 0.02
SEARCH = ((3.0, 13), (0.3, 7), (0.02, 5), (0.001, 3))
"""Half widths and numbers of points, each within the error of the interpolation before."""
MIDDLE, NOISE = -1.0, 0.3
"""Where the search begins, and the standard normal number that the policy acts with in it."""
STD = 0.6
"""Standard deviation that all implementations are given where it is not the question."""


def measured_std(lab: Lab, raw: Array, name: str) -> Array:
    """The policy's standard deviation where its network puts out `raw`.

    The policy acts with mean 0 and dictated noise e, so the action is tanh(std e), or std e where
    it is not squashed. Where that is too small for float32, the noise is enlarged and the training
    repeated.
    """
    noise = np.full_like(raw, NUDGE)
    for repeat in range(5):
        actions = np.abs(_acts(lab, raw, noise, f"{name} {repeat}"))
        small = actions < 0.01
        if not small.any():
            break
        # Below 1e-6 the action says no more than that it is small.
        noise[small] *= np.where(actions < 1e-6, 1e4, 0.2 / np.maximum(actions, 1e-6))[small]
    return _before_squashing(lab, actions) / noise


def squashes(lab: Lab) -> bool:
    """Whether tanh squashes what the policy draws: then no action is beyond 1, however wide."""
    return lab.once("squashes", lambda: bool(_first_search(lab)[1].max() <= 1))


def _before_squashing(lab: Lab, actions: Array) -> Array:
    return np.arctanh(np.minimum(actions, 1 - 1e-7)) if squashes(lab) else actions


def raw_for(lab: Lab, std: float) -> float:
    """What the network must put out for a standard deviation, on this implementation's map."""
    return lab.once(("raw for", std), lambda: _search(lab, std))


def _search(lab: Lab, std: float) -> float:
    raw = MIDDLE
    for width, points in SEARCH:
        grid, actions = _searched(lab, raw, width, points)
        raw = float(np.interp(np.log(std), np.log(_before_squashing(lab, actions) / NOISE), grid))
    return raw


def _first_search(lab: Lab) -> tuple[Array, Array]:
    return _searched(lab, MIDDLE, *SEARCH[0])


def _searched(lab: Lab, raw: float, width: float, points: int) -> tuple[Array, Array]:
    # What the network puts out, and how large actions are there.
    grid = single(np.linspace(raw - width, raw + width, points))
    name = f"sac std within {width}"
    return grid, np.abs(_acts(lab, grid, np.full_like(grid, NOISE), name))


AROUND, POINTS = 1.5, 31
"""Where the map is known around `STD`, and at how many places."""


def std_near(lab: Lab) -> Callable[[Array], Array]:
    """The implementation's map from its network's output to a standard deviation, near `STD`."""
    return lab.once("std near", lambda: _near(lab))


def _near(lab: Lab) -> Callable[[Array], Array]:
    middle = raw_for(lab, STD)
    grid = single(np.linspace(middle - AROUND, middle + AROUND, POINTS))
    actions = np.abs(_acts(lab, grid, np.full_like(grid, NOISE), "sac std around"))
    known = interpolate.CubicSpline(grid, np.log(_before_squashing(lab, actions) / NOISE))
    return lambda raw: np.exp(known(raw))


def same_policy(lab: Lab, weights: dict[str, Array], std: float = STD) -> dict[str, Array]:
    """Weights with which the policy's standard deviation is `std` everywhere."""
    weights["policy.std.weight"] = np.zeros_like(weights["policy.std.weight"])
    weights["policy.std.bias"] = np.full_like(weights["policy.std.bias"], raw_for(lab, std))
    return weights


def _acts(lab: Lab, raw: Array, noise: Array, name: str) -> Array:
    # Actions where the network's mean is 0 and its other output `raw`.
    weights = setups.weights(lab, "sac")
    setups.pass_through(weights, "policy", "std")
    world = setups.dictation(lab, len(raw), ends=False)
    world.observations[:-1, 0] = raw
    world.acting_noise[:] = noise[:, None]
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    frozen: dict[str, Any] = dict.fromkeys(rates, setups.NO_LEARNING)
    frozen |= setups.seldom(lab, "sac", len(raw))
    experiment = setups.off_policy(name, "sac", world, weights, warm_up=0, batch_size=2, **frozen)
    return lab.run(experiment).record.stored["actions"][:, 0]
