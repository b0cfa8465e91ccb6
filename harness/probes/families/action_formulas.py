"""Formulas of actions and exploration with named quantities, in which a changed one is found."""

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from parallax.harness.contract.adapter import Array
from parallax.harness.probes.families.changed_formulas import measure_distance
from parallax.harness.probes.formula_changes import (
    Formula,
    FormulaQuantities,
    find_changed_quantity,
)

Bounds = tuple[Array | float, Array | float]
"""Smallest and largest action."""


def compute_action(
    q: FormulaQuantities,
    outputs: Array,
    noise: Array,
    std: float,
    bounds: Bounds,
    is_sample: bool,
    squashes: bool = True,
) -> Tensor:
    """Return actions of a policy with noise, of the shape of its outputs.

    Args:
        q: Names the quantities.
        outputs: Outputs of the policy's network.
        noise: Standard normal numbers.
        std: Standard deviation of the noise, as a share of half the range, or of the output's.
        bounds: Smallest and largest action.
        is_sample: Whether noise is added to the output, not to the action.
        squashes: Whether samples are squashed and scaled, not cut at the bounds.
    """
    output, drawn = q.name("the policy's output", outputs), q.name("the normal number", noise)
    low, high = q.name("the smallest action", bounds[0]), q.name("the largest action", bounds[1])
    middle = q.name("the middle of the range", (low + high) / 2)
    half = q.name("half the range", (high - low) / 2)
    spread = q.name("the noise", q.name("the deviation of the noise", std) * drawn)
    sample = q.name("the sample", output + spread)
    cut = {"at the bounds": (low, high), "at -1 and 1": (-1, 1), "nowhere": (-np.inf, np.inf)}

    def scale(x: Tensor) -> Tensor:
        return middle + half * torch.tanh(x)

    if is_sample:
        forms = {
            "squashed and scaled": scale(sample),
            "as it is": sample,
            "cut at -1 and 1, and scaled": middle + half * sample.clamp(-1, 1),
            "squashed, not scaled": torch.tanh(sample),
            "scaled without tanh": middle + half * sample,
        }
        if not squashes:
            forms = {"as it is": sample, **forms}
        action = q.choose("the sample in the action", forms)
    else:
        plain = q.name("the action without noise", scale(output))
        squashed = torch.tanh(output)
        deviation = q.name("the deviation in units of actions", half * std)
        added = q.name("the noise in units of actions", deviation * drawn)
        places = {
            "to the action, as a share of half the range": plain + added,
            "to the action, in its units": plain + spread,
            "before tanh": scale(sample),
            "to none": plain,
            "multiplied by the action": plain + added * plain,
            "multiplied by the action before it is scaled": middle + half * squashed * (1 + spread),
            "as a factor of the action": plain * added,
            "as a factor of the action before it is scaled": middle + half * squashed * spread,
            "in place of the action": middle + added,
            "with the opposite sign": plain - added,
            "to tanh of the output, which is not scaled": squashed + spread,
        }
        action = q.choose("noise is added", places)
    low, high = (torch.as_tensor(edge, dtype=torch.float64) for edge in q.choose("cut", cut))
    return q.name("the action", action).clamp(low, high)


def explain_greedy_actions(
    found: Sequence[Array], outputs: Sequence[Array], bounds: Sequence[Bounds], squashes: bool
) -> str:
    """Return which quantity of actions without noise differs from the paper's, or "".

    Args:
        found: Evaluated actions of each training, float[rows, actions].
        outputs: Outputs of the policy's network, of the same shape.
        bounds: Smallest and largest action of each training.
        squashes: Whether outputs are squashed and scaled, not cut at the bounds.
    """

    def make_part(output: Array, edges: Bounds) -> Formula:
        noise = np.zeros_like(output)
        return lambda q: compute_action(q, output, noise, 0.0, edges, True, squashes)

    parts = [make_part(*each) for each in zip(outputs, bounds, strict=True)]
    return find_changed_quantity(parts, found, measure_distance, ("run", "dimension"))


def explain_random_actions(found: Array, numbers: Array, bounds: Bounds) -> str:
    """Return which quantity of random actions differs from the paper's, or "".

    Args:
        found: Actions, float[steps, actions].
        numbers: Uniform numbers between 0 and 1, of the same shape.
        bounds: Smallest and largest action.
    """

    def compute_random_action(q: FormulaQuantities) -> Tensor:
        low = q.name("the smallest action", bounds[0])
        high = q.name("the largest action", bounds[1])
        drawn = q.name("the uniform number", numbers)
        added = q.name("the distance from the smallest action", (high - low) * drawn)
        return q.name("the random action", low + added)

    axes = ("warm-up", "dimension")
    return find_changed_quantity([compute_random_action], [found], measure_distance, axes)


def explain_annealing(found: Array, count: int, start: float) -> str:
    """Return which quantity of a linear schedule differs from the paper's, or "".

    Args:
        found: Values of all rollouts, equally many of each.
        count: Number of rollouts.
        start: First value.
    """
    repeats = len(found) // count

    def compute_schedule(q: FormulaQuantities) -> Tensor:
        steps = np.arange(float(len(found)))
        counts = {
            "rollouts": (steps // repeats, float(count)),
            "gradient steps": (steps, float(count * repeats)),
            "epochs of a rollout": (np.mod(steps, repeats), float(repeats)),
        }
        begun, all_of = q.choose("it counts", counts)
        done = q.name("the number that are done", begun)
        share = q.name("the share that is done", done / q.name("the number in all", all_of))
        left = q.name("the share that is left", 1 - share)
        forms = {
            "linear": left,
            "quadratic": left**2,
            "a square root": left.clamp(min=0).sqrt(),
            "a cosine": (1 + torch.cos(np.pi * share)) / 2,
            "1 over 1 plus the number": 1 / (1 + done),
            "half of it after each": 0.5**done,
            "the product of all shares so far": left.reshape(count, -1).cumprod(0).ravel(),
        }
        factor = q.name("the factor", q.choose("the schedule", forms))
        return q.name("the first value", start) * factor

    axes = ("run", "dimension")
    return find_changed_quantity([compute_schedule], [found], measure_distance, axes)


def explain_action(
    found: Array, outputs: Array, noise: Array, std: float, bounds: Bounds, is_sample: bool = False
) -> str:
    """Return which quantity of actions differs from the paper's, or ""; see `compute_action`."""
    part = functools.partial(
        compute_action, outputs=outputs, noise=noise, std=std, bounds=bounds, is_sample=is_sample
    )
    return find_changed_quantity([part], [found], measure_distance, ("run", "dimension"))


def compute_epsilon(
    q: FormulaQuantities,
    steps: Array,
    line: tuple[float, float, float],
    warm_up: float,
    cycle: int = 1,
) -> Tensor:
    """Return the share of random actions before each step, float[steps].

    Args:
        q: Names the quantities.
        steps: Numbers of earlier steps.
        line: First and last epsilon, and the number of steps between them.
        warm_up: Number of first steps that are random.
        cycle: Steps of an update cycle.
    """
    counts = {
        "each step": torch.as_tensor(steps),
        "update cycles": torch.as_tensor(steps // cycle * cycle),
        "steps after the warm-up": torch.as_tensor(steps - warm_up),
        "updates": torch.as_tensor((steps - warm_up).clip(0) // cycle),
    }
    done = q.name("the number of steps", q.choose("it counts", counts, ["update cycles"]))
    first = q.name("the first epsilon", line[0])
    last, length = q.name("the last epsilon", line[1]), q.name("the length of the line", line[2])
    share = q.name("the share of the line", done / length)
    ends = {"at its end": share.clamp(max=1), "nowhere": share, "at 0 and 1": share.clamp(0, 1)}
    fallen = q.name("the share that epsilon has fallen", q.choose("the line is cut", ends))
    forms = {
        "linear": first + fallen * (last - first),
        "exponential": first * (last / first) ** fallen,
        "quadratic": first + fallen**2 * (last - first),
        "a cosine": last + (first - last) * (1 + torch.cos(np.pi * fallen)) / 2,
    }
    epsilon = q.name("epsilon", q.choose("the schedule", forms))
    starts = q.name("the warm-up", warm_up)
    shown = torch.where(torch.as_tensor(steps) < starts, torch.ones_like(epsilon), epsilon)
    q.mark_rows({"after the warm-up": torch.as_tensor(steps >= warm_up)})
    return shown.clamp(0, 1)


def explain_epsilon(
    found: Array, steps: Array, line: tuple[float, float, float], warm_up: float, cycle: int = 1
) -> str:
    """Return which quantity of epsilon's schedule differs from the paper's, or ""."""
    part = functools.partial(compute_epsilon, steps=steps, line=line, warm_up=warm_up, cycle=cycle)
    return find_changed_quantity([part], [found], measure_distance, ("run", "dimension"))
