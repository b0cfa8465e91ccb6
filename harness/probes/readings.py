"""Reading answers off a run: what upstream's gradients say about its losses."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from harness.probes.contract import Parameters, Step
from harness.probes.lab import Run
from harness.probes.networks import HIDDEN, RELU, input_gradient, output, output_gradient
from harness.probes.probe import Unmeasured
from harness.probes.results import Array


@dataclasses.dataclass(frozen=True)
class Batch:
    """The minibatch of off-policy updates, as the critics saw it.

    Attributes:
        observations: float[rows, observations].
        actions: float[rows, actions], as the framework stored them.
        rewards: float[rows].
        next_observations: float[rows, observations], before any reset.
        ends: int[rows], see `harness.probes.world`.
    """

    observations: Array
    actions: Array
    rewards: Array
    next_observations: Array
    ends: Array


def batch(run: Run) -> Batch:
    """The first transitions of a run: what the dictated indices draw."""
    rows = run.hyperparameters.batch_size
    transitions = run.transitions[:rows]
    return Batch(
        np.array([t.observation for t in transitions]),
        run.record.stored["actions"][:rows],
        np.array([t.reward for t in transitions]),
        np.array([t.next_observation for t in transitions]),
        np.array([t.end for t in transitions]),
    )


def steps_of(run: Run, network: str) -> list[Step]:
    """Optimiser steps that move a network and of which gradients were kept.

    Raises:
        Unmeasured: There are none.
    """
    found = [s for s in run.record.steps if network in s.networks and s.before]
    if not found:
        raise Unmeasured(f"its optimisers took no step on {network}")
    return found


@dataclasses.dataclass(frozen=True)
class CriticReading:
    """What the gradients of two critics say about their common loss.

    Attributes:
        slope: Second derivative of the loss by the prediction, times the rows, per row.
        target: What predictions are drawn to, per row.
        rows: Which rows `slope` is known at: those where the critics differ.
        misfit: Largest part of a gradient that no common target explains, as a share.
    """

    slope: Array
    target: Array
    rows: NDArray[np.intp]
    misfit: float


def critics(run: Run, step: Step) -> CriticReading:
    """Solves loss and target from the gradients of one critic step.

    Both critics learn from one target y, so their gradients by the prediction Q_i are
    k (Q_i - y) with a common k; the two equations give k and y at each row.
    """
    data, (_, activation) = batch(run), HIDDEN[run.experiment.algorithm]
    inputs = np.hstack([data.observations, data.actions])
    predictions, gradients = [], []
    for name in ("critic1", "critic2"):
        predictions.append(output(step.before, name, inputs, activation)[:, 0])
        gradients.append(
            output_gradient(step.gradients, step.before, name, inputs, activation)[:, 0]
        )
    apart, pull = predictions[0] - predictions[1], gradients[0] - gradients[1]
    rows = np.flatnonzero(np.abs(apart) > 0.2 * np.abs(apart).max())
    common = float(apart @ pull / (apart @ apart))
    targets = np.array([p - g / common for p, g in zip(predictions, gradients, strict=True)])
    misfit = float(np.abs(pull - common * apart).max() / np.abs(pull).max())
    return CriticReading(
        slope=pull[rows] / apart[rows] * len(apart),
        target=targets.mean(axis=0),
        rows=rows,
        misfit=misfit,
    )


def expected_rows(run: Run, end: int) -> NDArray[np.intp]:
    """Rows of the minibatch whose step ended as `end` says.

    Raises:
        Unmeasured: There are none.
    """
    rows = np.flatnonzero(batch(run).ends == end)
    if not len(rows):
        raise Unmeasured("no such transition in the minibatch")
    return rows


def polyak(run: Run, network: str) -> float:
    """Share of the online network in the first move of its target, by least squares.

    Raises:
        Unmeasured: The target did not move.
    """
    moves = [steps for _, steps, name in run.record.target_moves if name == f"{network}_target"]
    if not moves:
        raise Unmeasured(f"the target of {network} did not move")
    taken = run.record.steps[: moves[0]]
    before, online = taken[-1].before, taken[-1].after
    following = run.record.steps[moves[0] :]
    after = following[0].before if following and following[0].before else run.record.final
    way, moved = [], []
    for name, old in before.items():
        if name.startswith(f"{network}_target."):
            way.append((online[name.replace("_target", "")] - old).ravel())
            moved.append((after[name] - old).ravel())
    line, step = np.concatenate(way), np.concatenate(moved)
    return float(line @ step / (line @ line))


def critic_slopes(weights: Parameters, observations: Array, actions: Array) -> tuple[Array, Array]:
    """Derivatives of the smaller and of the larger critic by the action, float[rows, actions]."""
    inputs, size = np.hstack([observations, actions]), actions.shape[1]
    values = [output(weights, f"critic{i}", inputs, RELU) for i in (1, 2)]
    slopes = [input_gradient(weights, f"critic{i}", inputs)[:, -size:] for i in (1, 2)]
    first = values[0] < values[1]
    return np.where(first, *slopes), np.where(first, *slopes[::-1])


def spread(values: Array) -> Array:
    """Smallest, median and largest."""
    return np.quantile(values, [0.0, 0.5, 1.0])
