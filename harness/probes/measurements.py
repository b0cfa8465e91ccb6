"""Reading answers off a run: what upstream's gradients say about its losses."""

import contextlib
import dataclasses

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord, Parameters
from parallax.harness.probes.experiments import ProbeRun
from parallax.harness.probes.probe import UnmeasuredError
from parallax.harness.probes.reference_networks import (
    HIDDEN_LAYERS,
    RELU,
    compute_input_gradient,
    compute_output,
    solve_output_gradient,
)


@dataclasses.dataclass(frozen=True)
class CriticMinibatch:
    """The minibatch of off-policy updates, as the critics saw it.

    Attributes:
        observations: float[rows, observations].
        actions: float[rows, actions], as the framework stored them.
        rewards: float[rows].
        next_observations: float[rows, observations], before any reset.
        ends: int[rows], see `parallax.harness.contract.probing.scripted_env`.
    """

    observations: Array
    actions: Array
    rewards: Array
    next_observations: Array
    ends: Array


UNKNOWN_OBSERVATIONS = "its networks were shown something else than observations of the run"
SUBSTITUTE_NETWORKS_NOTE = "its agent takes any network, and these were lent to it by the probe"
MAX_UPDATES = 5
"""How many updates are read: what is stale, adds up or is reset shows after the first."""


def find_minibatch(run: ProbeRun, step: OptimizerStepRecord | None = None) -> CriticMinibatch:
    """The minibatch of a step of critics, of the first one unless another is given.

    Which transitions they are is told by the observations that critics were shown.

    Raises:
        Unmeasured: Critics were shown something else than transitions of the run.
    """
    chosen = list_critic_updates(run)[0] if step is None else step
    return run.get_or_compute(
        ("batch", id(chosen)), lambda: (chosen, _find_minibatch(run, chosen))
    )[1]


def _find_minibatch(run: ProbeRun, step: OptimizerStepRecord) -> CriticMinibatch:
    if not step.pairs:
        raise UnmeasuredError("its critics saw no minibatch")
    if run.experiment.scripted_data.choices:
        rows = _find_discrete_action_rows(run, step)
        return _build_minibatch(run, rows, run.actions()[rows])
    found = []
    for pairs in step.pairs:
        # Some frameworks show critics what comes next without leaving gradients out.
        with contextlib.suppress(UnmeasuredError):
            found.append(_match_transitions(run, pairs))
    if not found:
        raise UnmeasuredError(UNKNOWN_OBSERVATIONS)
    rows, actions, _ = min(found, key=lambda shown: shown[2])
    return _build_minibatch(run, rows, actions)


def _find_discrete_action_rows(run: ProbeRun, step: OptimizerStepRecord) -> NDArray[np.intp]:
    # What is predicted comes first: some frameworks show networks what comes next as well.
    size = run.hyperparameters.batch_size
    whole = [shown for shown in step.pairs if len(shown) == size]
    if not whole:
        raise UnmeasuredError("its network saw no minibatch")
    return find_transition_rows(run, whole[0])


def _build_minibatch(run: ProbeRun, rows: NDArray[np.intp], actions: Array) -> CriticMinibatch:
    transitions = [run.transitions[row] for row in rows]
    return CriticMinibatch(
        np.array([t.observation for t in transitions]),
        actions,
        np.array([t.reward for t in transitions]),
        np.array([t.next_observation for t in transitions]),
        np.array([t.end for t in transitions]),
    )


def _match_transitions(run: ProbeRun, pairs: Array) -> tuple[NDArray[np.intp], Array, float]:
    # Rows of the run, actions as shown, and how far these are from a linear map of those taken:
    # critics are shown actions of the policy, too, when the policy learns.
    size = run.experiment.scripted_data.observations.shape[1]
    rows = find_transition_rows(run, pairs[:, :size])
    taken, shown, rest = run.actions()[rows], pairs[:, size:], 0.0
    for have, want in zip(taken.T, shown.T, strict=True):
        basis = np.stack([have, np.ones_like(have)], axis=1)
        fit = np.linalg.lstsq(basis, want, rcond=None)[0]
        rest = max(rest, float(np.abs(basis @ fit - want).max()))
    return rows, shown, rest


def find_transition_rows(run: ProbeRun, observations: Array) -> NDArray[np.intp]:
    """Which transitions of a run start in these observations.

    Raises:
        Unmeasured: In some of them none does.
    """
    known = {t.observation.tobytes(): row for row, t in enumerate(run.transitions)}
    rows = [known.get(np.ascontiguousarray(o).tobytes(), -1) for o in observations]
    if -1 in rows:
        raise UnmeasuredError(UNKNOWN_OBSERVATIONS)
    return np.array(rows, dtype=np.intp)


def list_network_steps(run: ProbeRun, network: str) -> list[OptimizerStepRecord]:
    """Optimiser steps that move a network and of which gradients were kept.

    Raises:
        Unmeasured: There are none.
    """
    found = [s for s in run.record.steps if network in s.networks and s.before]
    if not found:
        raise UnmeasuredError(f"its optimisers took no step on {network}")
    return found


def list_critic_updates(run: ProbeRun) -> list[OptimizerStepRecord]:
    """The first steps of all critics: two steps as one where each has an optimiser of its own.

    Raises:
        Unmeasured: There are none.
    """
    found = run.get_or_compute("critic updates", lambda: _list_critic_updates(run))
    if not found:
        raise UnmeasuredError("its optimisers took no step on all critics")
    return found


def _list_critic_updates(run: ProbeRun) -> list[OptimizerStepRecord]:
    found: list[OptimizerStepRecord] = []
    critics_of = set(list_critic_names(run))
    for step in run.record.steps:
        if not step.before or not step.after or not critics_of & set(step.networks):
            continue
        half = found and not critics_of <= set(found[-1].networks)
        if half and step.networks[0] not in found[-1].networks:
            found[-1] = merge_steps(found[-1], step)
        else:
            found.append(step)
    return [step for step in found if critics_of <= set(step.networks)][:MAX_UPDATES]


def list_critic_names(run: ProbeRun) -> tuple[str, ...]:
    """Canonical names of the critics that are there, without their targets."""
    there = {name.split(".")[0] for name in run.record.created}
    return tuple(name for name in ("critic1", "critic2") if name in there)


def merge_steps(first: OptimizerStepRecord, second: OptimizerStepRecord) -> OptimizerStepRecord:
    """Two steps of one update, each of other networks, as one."""
    return dataclasses.replace(
        first,
        networks=first.networks + second.networks,
        settings={**second.settings, **first.settings},
        gradients={**second.gradients, **first.gradients},
        after=second.after,
        pairs=first.pairs + second.pairs,
    )


def get_gradient(step: OptimizerStepRecord, name: str) -> Array:
    """What an optimiser found of one array.

    Raises:
        Unmeasured: It is not trained.
    """
    if name not in step.gradients:
        raise UnmeasuredError(f"its optimiser got no gradient of {name}: it is not trained")
    return step.gradients[name]


def get_weights_before_update(run: ProbeRun, step: OptimizerStepRecord) -> Parameters:
    """Weights before the first optimiser step since the environment's last."""
    return next(s.before for s in run.record.steps if s.before and s.env_steps == step.env_steps)


def get_update_noise(run: ProbeRun, step: OptimizerStepRecord, rows: int) -> Array:
    """Noise that an update drew for as many actions, float[rows, actions]."""
    return run.experiment.scripted_data.noise(step.env_steps)[:rows]


@dataclasses.dataclass(frozen=True)
class CriticReading:
    """What the gradients of two critics say about their common loss.

    Attributes:
        slope: Second derivative of the loss by the prediction, times the rows, per row.
        target: What predictions are drawn to, per row.
        predictions: Of both critics, float[2, rows].
    """

    slope: Array
    target: Array
    predictions: Array


def read_critics(run: ProbeRun, step: OptimizerStepRecord) -> CriticReading:
    """Solves loss and target from the gradients of one critic step.

    Both critics learn from one target y, so their gradients by the prediction Q_i are
    k (Q_i - y) with a common k; the two equations give k and y at each row. `slope` is there for
    rows where the critics differ.
    """
    # The step is kept as well, so that no other gets its number.
    return run.get_or_compute(("critics", id(step)), lambda: (step, _read_critics(run, step)))[1]


def _read_critics(run: ProbeRun, step: OptimizerStepRecord) -> CriticReading:
    data, (_, activation) = find_minibatch(run, step), HIDDEN_LAYERS[run.experiment.algorithm]
    inputs = np.hstack([data.observations, data.actions])
    names = ("critic1", "critic2")
    predictions = np.array(
        [compute_output(step.before, n, inputs, activation)[:, 0] for n in names]
    )
    gradients = np.array(
        [
            solve_output_gradient(step.gradients, step.before, n, inputs, activation)[:, 0]
            for n in names
        ]
    )
    apart, pull = predictions[0] - predictions[1], gradients[0] - gradients[1]
    rows = np.flatnonzero(np.abs(apart) > 0.2 * np.abs(apart).max())
    common = float(apart @ pull / (apart @ apart))
    return CriticReading(
        slope=pull[rows] / apart[rows] * len(apart),
        target=(predictions - gradients / common).mean(axis=0),
        predictions=predictions,
    )


def measure_polyak_shares(run: ProbeRun, network: str) -> Array:
    """Shares of the online network in the first moves of its target, by least squares.

    Raises:
        Unmeasured: The target did not move.
    """
    moves = [steps for _, steps, name in run.record.target_moves if name == f"{network}_target"]
    kept = [taken for taken in moves if taken and run.record.steps[taken - 1].after]
    if not kept:
        raise UnmeasuredError(f"the target of {network} did not move")
    return np.array([_measure_polyak_share(run, network, taken) for taken in kept[:MAX_UPDATES]])


def _measure_polyak_share(run: ProbeRun, network: str, taken: int) -> float:
    last, following = run.record.steps[taken - 1], run.record.steps[taken : taken + 1]
    before, online = last.before, last.after
    after = following[0].before if following and following[0].before else None
    if after is None:
        after = run.record.final
    shares = []
    for name, old in before.items():
        way = (online[name.replace("_target", "")] - old).ravel()
        if name.startswith(f"{network}_target.") and way.any():
            shares.append(float(way @ (after[name] - old).ravel() / (way @ way)))
    # All arrays go the same share; where one does not, that one tells.
    middle = float(np.median(shares))
    return max(shares, key=lambda share: abs(share - middle) > 1e-2 * abs(middle))


def compute_critic_slopes(
    weights: Parameters, observations: Array, actions: Array
) -> tuple[Array, Array]:
    """Derivatives of the smaller and of the larger critic by the action, float[rows, actions]."""
    inputs, size = np.hstack([observations, actions]), actions.shape[1]
    values = [compute_output(weights, f"critic{i}", inputs, RELU) for i in (1, 2)]
    slopes = [compute_input_gradient(weights, f"critic{i}", inputs)[:, -size:] for i in (1, 2)]
    first = values[0] < values[1]
    return np.where(first, *slopes), np.where(first, *slopes[::-1])


def check_recipe_networks(run: ProbeRun, *networks: str) -> None:
    """Whether networks are the recipe's own.

    Raises:
        Unmeasured: They are not, so that nothing is known of them.
    """
    if set(networks) & set(run.record.substitute_networks):
        raise UnmeasuredError(SUBSTITUTE_NETWORKS_NOTE)


def summarize_spread(values: Array) -> Array:
    """Smallest, median and largest."""
    return np.quantile(values, [0.0, 0.5, 1.0])
