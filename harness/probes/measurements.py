"""Measurements from a run: losses, targets and minibatches solved from upstream's gradients.

The gradient of a layer is the sum over the minibatch of (gradient by the output) x (input). With
fewer rows than units the gradients by the outputs can be solved for, row by row. So a loss need not
be read from upstream's code: it is computed from the gradients that upstream's optimizer received.
"""

import collections
import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord, Parameters
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED
from parallax.harness.probes.experiments import ProbeRun, compute_once
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
    """Minibatch of an off-policy update, as the critics received it.

    Attributes:
        observations: float[rows, observations].
        actions: float[rows, actions], in the unit that `fit_critic_action_unit` returns.
        rewards: float[rows].
        next_observations: float[rows, observations], before any reset.
        ends: int[rows], see `parallax.harness.contract.probing.scripted_env`.
    """

    observations: Array
    actions: Array
    rewards: Array
    next_observations: Array
    ends: Array


NEXT_PREDICTIONS = "its critics predict at the next observations of the minibatch"
UNKNOWN_OBSERVATIONS = "its networks received inputs that are not observations of the run"
SUBSTITUTE_NETWORKS_NOTE = "its agent takes any network, and these came from the probe"
MAX_UPDATES = 5
"""Number of updates that are read: stale or accumulated state is visible only after the first."""


@compute_once
def find_minibatch(run: ProbeRun, step: OptimizerStepRecord) -> CriticMinibatch:
    """Return the minibatch of an optimizer step of the critics.

    Transitions are identified by the observations among the critics' inputs.

    Raises:
        UnmeasuredError: The critics' inputs are not transitions of the run.
    """
    if not step.critic_inputs:
        raise UnmeasuredError("its critics received no minibatch")
    if run.experiment.scripted_data.n_discrete_actions:
        rows = _find_discrete_action_rows(run, step)
        return _build_minibatch(run, rows, run.get_actions()[rows])
    found = []
    for inputs in step.critic_inputs:
        # Some frameworks pass next observations through the critics with gradients enabled.
        with contextlib.suppress(UnmeasuredError):
            found.append(_match_transitions(run, inputs))
    if not found:
        size = run.experiment.scripted_data.observations.shape[1]
        after = {t.next_observation.tobytes() for t in run.transitions}
        shown = [row[:size] for inputs in step.critic_inputs for row in inputs]
        if all(np.ascontiguousarray(row).tobytes() in after for row in shown):
            raise UnmeasuredError(NEXT_PREDICTIONS)
        known = {t.observation.tobytes() for t in run.transitions}
        unknown = [row for row in shown if np.ascontiguousarray(row).tobytes() not in known]
        raise UnmeasuredError(UNKNOWN_OBSERVATIONS + describe_observations(run, unknown))
    rows, actions, _ = min(found, key=lambda shown: shown[2])
    return _build_minibatch(run, rows, actions)


def _find_discrete_action_rows(run: ProbeRun, step: OptimizerStepRecord) -> NDArray[np.intp]:
    # Predictions come first: some frameworks then pass next observations through as well.
    size = run.hyperparameters.batch_size
    whole = [shown for shown in step.critic_inputs if len(shown) == size]
    if not whole:
        raise UnmeasuredError("its network received no minibatch")
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


def _match_transitions(run: ProbeRun, inputs: Array) -> tuple[NDArray[np.intp], Array, float]:
    # Rows of the run, actions among the inputs, and their distance from a linear map of the
    # actions taken: in the policy's update critics receive actions of the policy instead.
    size = run.experiment.scripted_data.observations.shape[1]
    rows = find_transition_rows(run, inputs[:, :size])
    taken, shown, rest = run.get_actions()[rows], inputs[:, size:], 0.0
    for have, want in zip(taken.T, shown.T, strict=True):
        basis = np.stack([have, np.ones_like(have)], axis=1)
        fit = np.linalg.lstsq(basis, want, rcond=None)[0]
        rest = max(rest, float(np.abs(basis @ fit - want).max()))
    return rows, shown, rest


def find_transition_rows(run: ProbeRun, observations: Array) -> NDArray[np.intp]:
    """Return the rows of the transitions of a run that start in these observations.

    Raises:
        UnmeasuredError: No transition starts in one of them.
    """
    known = {t.observation.tobytes(): row for row, t in enumerate(run.transitions)}
    rows = [known.get(np.ascontiguousarray(o).tobytes(), -1) for o in observations]
    if -1 in rows:
        unknown = [o for o, row in zip(observations, rows, strict=True) if row == -1]
        raise UnmeasuredError(UNKNOWN_OBSERVATIONS + describe_observations(run, unknown))
    return np.array(rows, dtype=np.intp)


def describe_observations(run: ProbeRun, observations: Sequence[Array]) -> str:
    """Return which observations of a run these are if not the expected ones, after a colon."""
    data, steps = run.experiment.scripted_data, run.transitions
    known = {
        "observations of other steps": [t.observation for t in steps],
        "last observations of episodes": [t.next_observation for t in steps if t.end],
        "observations after the steps": [t.next_observation for t in steps],
        "observations after a reset": [*data.resets],
        "zeros": [np.zeros_like(steps[0].observation)],
    }
    seen = {np.asarray(o, float).tobytes() for o in observations}
    pools = {words: {np.asarray(o, float).tobytes() for o in pool} for words, pool in known.items()}
    words = next((words for words, pool in pools.items() if seen <= pool), "")
    return f": {words}, for {len(observations)} inputs" if words else ""


def fit_critic_action_unit(run: ProbeRun, dimension: int) -> tuple[float, float]:
    """Return scale and shift from the actions taken to those that critics see."""
    seen = find_minibatch(run, list_critic_updates(run)[0])
    taken = run.get_actions()[find_transition_rows(run, seen.observations), dimension]
    scale, shift = np.polyfit(taken, seen.actions[:, dimension], 1)
    return float(scale), float(shift)


def describe_critic_actions(run: ProbeRun) -> str:
    """Return whose actions critics see, if they are not a linear function of those taken."""
    step = list_critic_updates(run)[0]
    seen = find_minibatch(run, step)
    taken = run.get_actions()[find_transition_rows(run, seen.observations)]
    basis = np.hstack([taken, np.ones((len(taken), 1))])
    fitted = basis @ np.linalg.lstsq(basis, seen.actions, rcond=None)[0]
    if np.abs(fitted - seen.actions).max() < 1e-3 * np.abs(seen.actions).max():
        return ""
    ends = np.array([t.end for t in run.transitions]).reshape(-1, run.experiment.n_envs)
    rows = find_transition_rows(run, seen.observations)
    for of, others in list_other_rows(ends).items():
        basis = np.hstack([run.get_actions()[others.ravel()[rows]], np.ones((len(taken), 1))])
        chosen = np.arange(len(rows))
        for _ in range(3):  # a place beyond the first or last one has other actions
            fit = np.linalg.lstsq(basis[chosen], seen.actions[chosen], rcond=None)[0]
            apart = np.abs(basis @ fit - seen.actions).max(axis=1)
            chosen = np.argsort(apart)[: max(len(rows) * 9 // 10, 4)]
        if apart[chosen].max() < 1e-3 * np.abs(seen.actions).max():
            return f"critics learn from the actions of {of} in place of those that were taken"
    names = {"policy": "the policy", "policy_target": "the target policy"}
    head = "mean" if run.experiment.algorithm == "sac" else "out"
    for name, whose in names.items():
        if f"{name}.0.weight" not in step.before:
            continue
        action = np.tanh(compute_output(step.before, name, seen.observations, RELU, head)[:, 0])
        own, shown = (each - each.mean() for each in (action, seen.actions[:, 0]))
        if measure_misfit(own, shown) < 1e-3:
            return f"critics learn from actions of {whose} in place of those that were taken"
    return "critics learn from other actions than those that were taken"


def list_network_steps(run: ProbeRun, network: str) -> list[OptimizerStepRecord]:
    """Return the optimizer steps that move a network and whose gradients were saved.

    Raises:
        UnmeasuredError: There are none, or the policy received no inputs in them.
    """
    found = [s for s in run.record.steps if network in s.networks and s.before]
    if not found:
        raise make_missing_step_error(run, network)
    if network == "policy" and not np.size(found[0].observations):
        still = not any(np.any(gradient) for s in found for gradient in s.gradients.values())
        never = ", and its gradients are 0, so that it never learns" if still else ""
        raise UnmeasuredError(f"the policy receives no inputs in its optimizer step{never}")
    return found


def make_missing_step_error(run: ProbeRun, networks: str) -> UnmeasuredError:
    """Return the error of networks that no optimizer moves, with those that one does move."""
    words = describe_optimizers(run)
    return UnmeasuredError(
        f"its optimizers took no step on {networks}" + (f": {words}" if words else "")
    )


@compute_once
def list_critic_updates(run: ProbeRun) -> list[OptimizerStepRecord]:
    """Return the first updates of all critics, two steps merged if each has its own optimizer.

    Raises:
        UnmeasuredError: There are none.
    """
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
    updates = [step for step in found if critics_of <= set(step.networks)][:MAX_UPDATES]
    if not updates:
        raise make_missing_step_error(run, "all critics")
    return updates


NEXT_OBSERVATIONS = "the policy learns at the next observations of the minibatch"


def learns_at_next_observations(run: ProbeRun, step: OptimizerStepRecord) -> bool:
    """Return whether a step of the policy has the next observations of a critics' minibatch."""

    def sort_rows(observations: Array) -> list[bytes]:
        return sorted(row.tobytes() for row in np.asarray(observations, np.float32))

    seen = sort_rows(step.observations)
    with contextlib.suppress(UnmeasuredError):
        found = [find_minibatch(run, update) for update in list_critic_updates(run)]
        of_own = any(seen == sort_rows(data.observations) for data in found)
        return not of_own and any(seen == sort_rows(data.next_observations) for data in found)
    return False


def list_critic_names(run: ProbeRun) -> tuple[str, ...]:
    """Return canonical names of the critics of a run, without their targets."""
    there = {name.split(".")[0] for name in run.record.created}
    return tuple(name for name in ("critic1", "critic2") if name in there)


def merge_steps(first: OptimizerStepRecord, second: OptimizerStepRecord) -> OptimizerStepRecord:
    """Merge two optimizer steps of one update that move different networks."""
    return dataclasses.replace(
        first,
        networks=first.networks + second.networks,
        settings={**second.settings, **first.settings},
        gradients={**second.gradients, **first.gradients},
        after=second.after,
        critic_inputs=first.critic_inputs + second.critic_inputs,
    )


def get_gradient(step: OptimizerStepRecord, name: str) -> Array:
    """Return the gradient of one array as the optimizer received it.

    Raises:
        UnmeasuredError: The array is not trained.
    """
    if name not in step.gradients:
        raise UnmeasuredError(f"its optimizer got no gradient of {name}: it is not trained")
    return step.gradients[name]


def get_weights_before_update(run: ProbeRun, step: OptimizerStepRecord) -> Parameters:
    """Return the weights before the first optimizer step of an update cycle."""
    return next(s.before for s in run.record.steps if s.before and s.env_steps == step.env_steps)


def get_update_noise(run: ProbeRun, step: OptimizerStepRecord, rows: int) -> Array:
    """Return the noise that an update drew for a batch of `rows` actions, float[rows, actions]."""
    return run.experiment.scripted_data.get_batch_noise(step.env_steps)[:rows]


@dataclasses.dataclass(frozen=True)
class CriticReading:
    """Loss and target of two critics, read from their gradients.

    Attributes:
        slope: Second derivative of the loss by the prediction, times the rows, per row.
        target: Target of the predictions, per row.
        predictions: Predictions of both critics, float[2, rows].
        gradients: Derivatives of the loss by them, float[2, rows].
    """

    slope: Array
    target: Array
    predictions: Array
    gradients: Array


@compute_once
def read_critics(run: ProbeRun, step: OptimizerStepRecord) -> CriticReading:
    """Solve for loss and target from the gradients of one update of both critics.

    Both critics learn from one target y, so their gradients by the prediction Q_i are
    k (Q_i - y) with a common k; the two equations give k and y at each row. `slope` covers the
    rows in which the critics differ enough.
    """
    data, (_, activation) = find_minibatch(run, step), HIDDEN_LAYERS[run.experiment.algorithm]
    inputs = np.hstack([data.observations, data.actions])
    names = list_critic_names(run)
    if len(names) < 2:
        raise UnmeasuredError("it has one critic, not two")
    predictions = np.array(
        [compute_output(step.before, n, inputs, activation)[:, 0] for n in names]
    )
    gradients = np.array(
        [
            solve_output_gradient(step.gradients, step.before, n, inputs, activation)[:, 0]
            for n in names
        ]
    )
    # The difference of both equations: g_1 - g_2 = k (Q_1 - Q_2), k by least squares.
    distance, slope = predictions[0] - predictions[1], gradients[0] - gradients[1]
    rows = np.flatnonzero(np.abs(distance) > 0.2 * np.abs(distance).max())
    common = float(distance @ slope / (distance @ distance))
    return CriticReading(
        slope=slope[rows] / distance[rows] * len(distance),
        target=(predictions - gradients / common).mean(axis=0),
        predictions=predictions,
        gradients=gradients,
    )


@dataclasses.dataclass(frozen=True)
class TargetShares:
    """Shares of the way to the online network by which a target network moved.

    Attributes:
        names: Canonical names of the target's arrays.
        shares: By array and move: 0 if the array does not move, infinite if it moves in another
            direction than to the online network, NaN if it is already equal to it.
        roundings: What the rounding of float32 may change in each share.
    """

    names: tuple[str, ...]
    shares: Array
    roundings: Array

    def find_furthest_from(self, tau: float) -> Array:
        """Return, for each array, the share that is furthest from `tau`; NaN if it has none."""
        shares = np.where(np.abs(self.shares - tau) <= self.roundings, tau, self.shares)
        distance = np.nan_to_num(np.abs(shares - tau), nan=-1.0, posinf=np.inf)
        return np.asarray(shares[np.arange(len(self.names)), distance.argmax(axis=1)])


def measure_target_shares(run: ProbeRun, network: str) -> TargetShares:
    """Return how far each array of a target network moved in its first updates.

    A target moves at those optimizer steps after which any of its arrays differs. A target that
    never moves is measured at the updates of its network.

    Raises:
        UnmeasuredError: No step of its network was saved.
    """
    saved = [number for number, step in enumerate(run.record.steps) if step.before and step.after]
    names = tuple(n for n in run.record.created if n.startswith(f"{network}_target."))
    moves = [n for n in saved if _has_target_moved(run, names, n)][:MAX_UPDATES]
    learns = [n for n in saved if network in run.record.steps[n].networks][:MAX_UPDATES]
    if not learns:
        raise make_missing_step_error(run, network)
    shares = [[_measure_target_share(run, name, n) for n in moves or learns] for name in names]
    return TargetShares(names, *np.moveaxis(np.array(shares), -1, 0))


def _read_after_move(run: ProbeRun, number: int) -> Parameters:
    # Weights before the next optimizer step, because targets have moved by then.
    following = run.record.steps[number + 1 : number + 2]
    if following and not following[0].before:
        return run.record.steps[number].before  # not saved: nothing is known of this move
    return following[0].before if following else run.record.final


def _has_target_moved(run: ProbeRun, names: Sequence[str], number: int) -> bool:
    before, after = run.record.steps[number].before, _read_after_move(run, number)
    return any(not np.array_equal(before[name], after[name]) for name in names)


MAX_DETOUR = 1e-2
"""Largest share of a target's move that may be in another direction, due to rounding."""


def _measure_target_share(run: ProbeRun, name: str, number: int) -> tuple[float, float]:
    # Also returns its rounding: that of a weight, over a way along which those of many average out.
    step, after = run.record.steps[number], _read_after_move(run, number)
    way = (step.after[name.replace("_target", "")] - step.before[name]).ravel()
    moved = (after[name] - step.before[name]).ravel()
    rounding = np.finfo(np.float32).eps * np.abs(step.before[name]).ravel()
    moved = np.where((np.abs(moved) <= 2 * rounding).all(), 0.0, moved)
    if not way.any():
        return (float("inf") if moved.any() else float("nan")), 0.0
    share = float(way @ moved / (way @ way))
    size = np.linalg.norm(after[name]) / np.sqrt(way.size)
    detour = np.linalg.norm(moved - share * way)
    share = share if detour <= MAX_DETOUR * np.linalg.norm(moved) else float("inf")
    return share, float(np.finfo(np.float32).eps * size / np.linalg.norm(way))


def describe_detour(run: ProbeRun, name: str) -> str:
    """Return which weighted sum of two arrays a target's array becomes; empty if of no two.

    Args:
        run: The training.
        name: Canonical name of an array that does not move to its online network.
    """
    network, online = name.partition("_target.")[0], name.replace("_target.", ".")
    steps = [n for n, step in enumerate(run.record.steps) if step.before and step.after]
    moves = [n for n in steps if _has_target_moved(run, (name,), n)][:MAX_UPDATES]
    if not moves:
        return ""
    before, after = (
        np.concatenate([weights[name].ravel() for weights in arrays])
        for arrays in (
            [run.record.steps[n].before for n in moves],
            [_read_after_move(run, n) for n in moves],
        )
    )
    layer, shape = name.partition(".")[2], run.record.steps[moves[0]].before[name].shape
    others = [
        other
        for other, array in run.record.steps[moves[0]].after.items()
        if other.partition(".")[2] == layer and array.shape == shape and other != name
    ]
    for other in sorted(others, key=lambda each: each != online):
        given = np.concatenate([run.record.steps[n].after[other].ravel() for n in moves])
        own, share = np.linalg.lstsq(np.stack([before, given], axis=1), after, rcond=None)[0]
        rest = np.linalg.norm(after - own * before - share * given)
        if rest > MAX_DETOUR * np.linalg.norm(after - before):
            continue
        whose = "the online network" if other == online else other.partition(".")[0]
        if abs(share) < MAX_DETOUR * abs(1 - own):
            return f"are multiplied by {own:.4g}"
        tau = run.hyperparameters.tau
        if abs(own + share - 1) < MAX_DETOUR * abs(share):
            words = describe_share(share, tau)
            return f"move by {share:.3g}{words} to {whose} in place of {network}"
        is_due = np.isclose(own, 1 - tau, rtol=SHARE_TOLERANCE)
        part = f"{own:.4g}{'' if is_due else describe_share(own, tau)}"
        return (
            f"become {part} times themselves plus {share:.4g}{describe_share(share, tau)} "
            f"times {whose}"
        )
    return ""


SHARE_TOLERANCE = 2e-3
"""Relative deviation of a share from a function of tau that counts as rounding."""


def describe_share(share: float, tau: float) -> str:
    """Return which function of tau a share is, after a comma; empty if it is none or tau is 1."""
    known = {
        "a copy": 1.0,  # the first that fits counts
        "1 minus tau, as if the shares of target and network had changed places": 1 - tau,
        "minus tau, away from the network": -tau,
        "1 plus tau": 1 + tau,
        "tau squared": tau**2,
        "1 minus tau squared": 1 - tau**2,
        "the square root of tau": tau**0.5,
        "as in two moves by tau": 1 - (1 - tau) ** 2,
        "half of tau": tau / 2,
        "twice tau": 2 * tau,
        "1 over tau": 1 / max(tau, 1e-30),
    }
    fits = (words for words, x in known.items() if abs(share - x) <= SHARE_TOLERANCE * abs(x))
    words = next(fits, "") if tau < 1 else ""
    return f" ({words})" if words else ""


def describe_optimizers(run: ProbeRun) -> str:
    """Return the networks that optimizers update, if one updates others than its own, or "".

    An optimizer has one network, both critics, or all networks.
    """
    trained = {name.split(".")[0] for name in run.record.created if "_target." not in name}
    steps = collections.Counter(step.assigned or step.networks for step in run.record.steps)
    critics_of = {name for name in trained if name.startswith("critic")}
    usual = [critics_of, trained, *({name} for name in trained)]
    missing = trained - {name for step in run.record.steps for name in step.networks}
    several = {name for name in trained if sum(name in assigned for assigned in steps) > 1}
    if all(set(assigned) in usual for assigned in steps) and not missing and not several:
        return ""
    words = [
        f"{' and '.join(assigned) or 'no network'} ({n} steps)" for assigned, n in steps.items()
    ]
    never = [f"{name} never learns" for name in sorted(missing)]
    return "; ".join([f"optimizers hold the weights of {', '.join(words)}", *never])


def name_arrays(names: Sequence[str], everything: Sequence[str]) -> str:
    """Describe some of the arrays of networks in as few words as possible.

    Args:
        names: Canonical names, such as `critic1_target.0.bias`.
        everything: Names of all arrays in question.
    """
    chosen, whole = set(names), set(everything)
    if chosen == whole:
        return "all arrays"
    parts: list[str] = []
    for kind, plural in (("bias", "biases"), ("weight", "weights")):
        of_kind = {name for name in whole if name.endswith(f".{kind}")}
        if of_kind == chosen:
            return f"the {plural} of all networks"
    for network in dict.fromkeys(name.split(".")[0] for name in everything):
        own = {name for name in whole if name.split(".")[0] == network}
        if not own & chosen:
            continue
        kinds = {name.rsplit(".", 1)[1] for name in own & chosen}
        if own <= chosen:
            parts.append(f"all of {network}")
        elif len(kinds) == 1 and {n for n in own if n.endswith(tuple(kinds))} <= chosen:
            parts.append(f"the {'biases' if kinds == {'bias'} else 'weights'} of {network}")
        else:
            parts += [name for name in everything if name in own & chosen]
    return ", ".join(parts)


def compute_critic_slopes(
    weights: Parameters, observations: Array, actions: Array
) -> tuple[Array, Array]:
    """Return derivatives of the smaller and the larger critic by the action, [rows, actions]."""
    inputs, size = np.hstack([observations, actions]), actions.shape[1]
    values = [compute_output(weights, f"critic{i}", inputs, RELU) for i in (1, 2)]
    slopes = [compute_input_gradient(weights, f"critic{i}", inputs)[:, -size:] for i in (1, 2)]
    first = values[0] < values[1]
    return np.where(first, *slopes), np.where(first, *slopes[::-1])


def list_other_environments(own: int, n_envs: int) -> dict[str, int]:
    """Return the numbers of environments that are taken for one by mistake, by their names."""
    return {
        "the first environment": 0,
        "the last environment": n_envs - 1,
        "the next environment": (own + 1) % n_envs,
        "the environment before": (own - 1) % n_envs,
    }


def list_other_rows(ends: NDArray[np.int64]) -> dict[str, NDArray[np.intp]]:
    """Return the rows that are taken for each row by mistake, of the shape of `ends`, by name.

    Args:
        ends: Kind of each step, int[steps, copies].
    """
    rows, n_envs = np.arange(ends.size).reshape(ends.shape), ends.shape[1]
    begun = np.maximum.accumulate(np.where(np.roll(ends, 1, 0) > 0, rows, rows[:1]), axis=0)
    over = np.minimum.accumulate(np.where(ends > 0, rows, rows[-1:])[::-1], axis=0)[::-1]
    after = np.roll(rows, -1, axis=0)
    found = {
        "the step before": np.roll(rows, 1, axis=0),
        "the step after": after,
        "the step two before": np.roll(rows, 2, axis=0),
        "the step two later": np.roll(rows, -2, axis=0),
        "the step after in the episode": np.where((ends > 0) | (rows >= rows[-1:]), rows, after),
        "the first step": rows[:1] + 0 * rows,
        "the last step": rows[-1:] + 0 * rows,
        "the first step of the episode": begun,
        "the last step of the episode": over,
        "the same place from the end": rows[::-1],
    }
    if n_envs > 1:
        others = [list_other_environments(copy, n_envs) for copy in range(n_envs)]
        found |= {of: rows[:, [each[of] for each in others]] for of in others[0]}
        ended = np.take_along_axis(rows, (ends > 0).argmax(1)[:, None], axis=1) + 0 * rows
        found["an environment that ended then"] = ended
        found["the place with steps and environments exchanged"] = rows.reshape(n_envs, -1).T
    return found


def list_row_kinds(ends: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Return rows that may be treated differently, bool of the shape of `ends`, by name."""
    rows, copies = np.indices(ends.shape)
    begins = (rows == 0) | (np.roll(ends, 1, 0) > 0)
    found = {
        "at time limits": ends == TRUNCATED,
        "at terminations": ends == TERMINATED,
        "at ends of episodes": ends > 0,
        "within episodes": ends == 0,
        "at first steps of episodes": begins,
        "at the first step": rows == 0,
        "but for the first step": rows > 0,
        "at the last step": rows == len(ends) - 1,
        "but for the last step": rows < len(ends) - 1,
        "in the first environment": copies == 0,
        "but for the first environment": copies > 0,
    }
    return {name: mask for name, mask in found.items() if 0 < mask.sum() < mask.size}


def check_recipe_networks(run: ProbeRun, *networks: str) -> None:
    """Check that networks are those of the recipe.

    Raises:
        UnmeasuredError: They are substitutes, so the recipe's networks are unknown.
    """
    if set(networks) & set(run.record.substitute_networks):
        raise UnmeasuredError(SUBSTITUTE_NETWORKS_NOTE)


def measure_misfit(known: Array, found: Array) -> float:
    """Return the distance of an array from the nearest multiple of another, as a share of it."""
    factor = float(known @ found) / max(float(known @ known), 1e-30)
    return float(np.abs(found - factor * known).max()) / max(float(np.abs(found).max()), 1e-30)


def summarize_spread(values: Array) -> Array:
    """Return the smallest, the median and the largest value."""
    return np.quantile(values, [0.0, 0.5, 1.0])
