"""The papers' formulas with named quantities, in which a changed one is searched for."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED
from parallax.harness.probes.experiment_setups import ACTION_SIZE
from parallax.harness.probes.experiments import ProbeRun, compute_once
from parallax.harness.probes.formula_changes import (
    Formula,
    FormulaQuantities,
    differentiate_loss,
    find_changed_quantity,
)
from parallax.harness.probes.measurements import (
    CriticMinibatch,
    find_minibatch,
    find_transition_rows,
    get_update_noise,
    get_weights_before_update,
    list_critic_names,
    list_critic_updates,
    list_other_rows,
    list_row_kinds,
    measure_misfit,
)
from parallax.harness.probes.reference_networks import RELU, solve_output_gradient
from parallax.harness.probes.relation import RELATION_TOLERANCE
from parallax.harness.probes.sac.experiments import POLICY_STD

SMOOTHING_STDS, SMOOTHING_CLIP = (0.2, 0.1), 0.5
"""Usual deviations and limit of TD3's noise in next actions, which DDPG does not have."""
MAX_SQUASHED = 1 - 1e-6
"""Largest magnitude of an action whose sample before tanh is computed."""
TRAINED = "those of the critics"
ONLY_CRITIC = "that of DDPG's only critic"
ORDINALS = {"critic1": "the first critic", "critic2": "the second critic"}


def _make_tensor(array: Array | float) -> Tensor:
    return torch.as_tensor(np.array(array, dtype=float))  # a copy: JAX's arrays are read-only


def _append_zeros(array: Array) -> Tensor:
    return _make_tensor(np.concatenate([array, 0 * array[:1]]))


@functools.cache
def list_rows(
    ends: bytes, shape: tuple[int, ...]
) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """Return rows that may stand for those of steps, the right ones first, and kinds of rows.

    Args:
        ends: Content of the kinds of ends, int[steps] or [steps, copies].
        shape: Its shape, which all results have.
    """
    kinds = np.frombuffer(ends, np.int64).reshape(shape)
    grid = kinds.reshape(len(kinds), -1)
    own = {"those of the step": np.arange(grid.size)}
    others = {f"those of {of}": rows for of, rows in list_other_rows(grid).items()}
    found = (own | others), list_row_kinds(grid)
    places, masks = (
        {name: torch.as_tensor(array.reshape(shape).copy()) for name, array in each.items()}
        for each in found
    )
    return places, masks


class StepWeights(dict[str, Tensor]):
    """Weights before a step by name, with outputs of their networks: a search repeats most."""

    def __init__(self, step: OptimizerStepRecord) -> None:
        """Read the weights."""
        super().__init__({name: _make_tensor(array) for name, array in step.before.items()})
        self.run = functools.lru_cache(maxsize=2000)(self._run)

    def _run(self, network: str, layer: str, shape: tuple[int, ...], inputs: bytes) -> Tensor:
        array = np.frombuffer(inputs).reshape(shape)
        return run_network(dict(self), network, torch.as_tensor(array.copy()), layer)


@compute_once
def read_weights(run: ProbeRun, step: OptimizerStepRecord) -> StepWeights:
    """Return the weights before a step."""
    return StepWeights(step)


def run_network(
    weights: Mapping[str, Tensor], network: str, inputs: Tensor, layer: str = "out"
) -> Tensor:
    """Return the output of a network with two hidden ReLU layers, float[rows, outputs]."""
    if isinstance(weights, StepWeights) and not inputs.requires_grad:
        return weights.run(network, layer, tuple(inputs.shape), inputs.numpy().tobytes()).clone()
    for name in ("0", "1", layer):
        weight, bias = (weights[f"{network}.{name}.{part}"] for part in ("weight", "bias"))
        inputs = inputs @ weight.T + bias
        inputs = inputs if name == layer else torch.relu(inputs)
    return inputs


def combine_critics(values: Sequence[Tensor]) -> Mapping[str, Tensor]:
    """Return values of both critics combined in usual ways, the paper's first."""
    both = torch.stack([*values])
    means = both.mean(1)
    return {
        "the smaller of both critics": both.amin(0),
        "the larger of both critics": both.amax(0),
        "the mean of both critics": both.mean(0),
        "the sum of both critics": both.sum(0),
        "the first critic": both[0],
        "the second critic": both[-1],
        "the critic whose mean over the minibatch is smaller": both[means.argmin()],
    }


@dataclasses.dataclass(frozen=True)
class TargetData:
    """What targets are computed from, float[rows]: rewards, next states, ends, and the discount."""

    rewards: Tensor
    next_observations: Tensor
    ends: Tensor
    gamma: float


@dataclasses.dataclass(frozen=True)
class TargetRows:
    """Rows that a minibatch's targets may be computed from, by description.

    Attributes:
        at: Numbers of steps, int[rows]; the right ones first.
        masks: Kinds of the minibatch's rows, bool[rows].
        states: Next states, float[rows, size]; the right ones first.
        rewards: Rewards of all steps, float[steps + 1].
        kinds: Ends of all steps, float[steps + 1].
    """

    at: Mapping[str, Tensor]
    masks: Mapping[str, Tensor]
    states: Mapping[str, Tensor]
    rewards: Tensor
    kinds: Tensor


@compute_once
def list_target_rows(run: ProbeRun, step: OptimizerStepRecord) -> TargetRows:
    """Return the rows for the targets of an update."""
    steps, n_envs = run.transitions, run.experiment.n_envs
    kinds = np.array([t.end for t in steps]).reshape(-1, n_envs)
    places, masks = list_rows(kinds.astype(np.int64).tobytes(), kinds.shape)
    rows = find_transition_rows(run, find_minibatch(run, step).observations)
    at = {name: place.ravel()[rows] for name, place in places.items()}
    # A memory that is not full has zeros in the place before the first.
    earlier = torch.as_tensor(np.where(rows < n_envs, len(steps), rows - n_envs))
    at["those of the step before, or zeros at the first"] = earlier
    rewards, before, after = (
        _append_zeros(np.array([getattr(t, name) for t in steps]))
        for name in ("reward", "observation", "next_observation")
    )
    begun = {f"those before {name.removeprefix('those of ')}": i for name, i in at.items()}
    begun["those before the step after, of the next episode at ends"] = begun.pop(
        "those before the step after"
    )
    states = {name: after[i] for name, i in at.items()}
    states |= {name: before[i] for name, i in begun.items()}
    of_rows = {name: mask.ravel()[rows] for name, mask in masks.items()}
    return TargetRows(at, of_rows, states, rewards, _append_zeros(kinds.ravel()))


def choose_target_data(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord
) -> TargetData:
    """Return the data of a minibatch's targets, parts of which may be those of other steps."""
    rows = list_target_rows(run, step)
    rewards, at, gamma = rows.rewards, rows.at, run.hyperparameters.gamma
    q.mark_rows(rows.masks)
    reward = rewards[q.choose("rewards are", at)]
    state = q.choose("next states are", rows.states)
    end = rows.kinds[q.choose("ends are", at)]
    later = at["those of the step after in the episode"]
    summed = reward + gamma * rewards[later] * (later != at["those of the step"])
    after = rows.states["those of the step after in the episode"]
    forms = {
        "one reward and the value of the state after it": TargetData(reward, state, end, gamma),
        TWO_STEPS: TargetData(summed, after, rows.kinds[later], gamma**2),
    }
    return q.choose("the terms", forms)


TWO_STEPS = "the sum of two rewards, and the value of the state after the second step"


def compute_target(q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord) -> Tensor:
    """Return the targets of TD3, SAC, DDPG or DQN in an update, float[rows]."""
    data = choose_target_data(q, run, step)
    reward, kinds = q.name("the reward", data.rewards), data.ends
    masks = {
        "the end of the task": kinds == TERMINATED,
        "any end": kinds > 0,
        "a time limit": kinds == TRUNCATED,
        "no end of the task": kinds != TERMINATED,
    }
    ended = q.name("the mask of ends", q.choose("the mask of ends", masks))
    value = _NEXT_VALUES[run.experiment.algorithm](q, run, step, data.next_observations)
    gamma = q.name("the discount", data.gamma)
    following = q.name("the discounted next value", gamma * (1 - ended) * value)
    return q.name("the target", reward + following)


def _compute_values(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord, state: Tensor, action: Tensor
) -> Tensor:
    # Value of an action in the next state by the target critics, float[rows].
    names, weights = list_critic_names(run), read_weights(run, step)
    data = find_minibatch(run, step)
    seen = q.name("the next observation that critics see", state)
    before = q.name("the observation before the step", data.observations)
    if q.is_plain:
        inputs = torch.hstack([seen, action])
        for name in names:
            value = run_network(weights, name, inputs)[:, 0]
            q.name(f"the next value of {ORDINALS[name]}", value)
    q.name("the action that was taken", data.actions)
    suffix = q.choose("next values", {"those of target networks": "_target", "online ones": ""})
    values = []
    for name in names:
        observations = {"the next one": seen, "that before the step": before}
        own = q.choose(f"the observation that {ORDINALS[name]} sees", observations)
        value = run_network(weights, name + suffix, torch.hstack([own, action]))[:, 0]
        values.append(q.name(f"the next value of the target network of {ORDINALS[name]}", value))
    if len(values) == 1:
        return q.name("the next value", values[0])
    members = [f"the next value of the target network of {ORDINALS[name]}" for name in names]
    q.join("the next value of each target network", members)
    options = combine_critics(values)
    q.parts["that of the larger critic"] = options["the larger of both critics"]
    q.parts["that of the smaller critic"] = options["the smaller of both critics"]
    if run.experiment.algorithm == "ddpg":
        options = {ONLY_CRITIC: options["the first critic"], **options}
    return q.name("the next value", q.choose("the next value", options))


def _compute_deterministic_next_values(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord, state: Tensor
) -> Tensor:
    weights = read_weights(run, step)
    seen = q.name("the next observation that the policy sees", state)
    before = _make_tensor(find_minibatch(run, step).observations)
    policies = {
        "that of the target policy": ("policy_target", seen),
        "that of the online policy": ("policy", seen),
        "that of the target policy before the step": ("policy_target", before),
        "that of the online policy before the step": ("policy", before),
    }
    output = run_network(weights, *q.choose("the policy of next actions", policies))
    action = q.name("the next action", torch.tanh(output))
    numbers = get_update_noise(run, step, len(action))
    if run.experiment.algorithm == "td3":
        hp = run.hyperparameters
        action = _smooth_action(q, action, numbers, hp.target_policy_noise, hp.target_noise_clip)
    else:
        smoothed = {}
        for std in SMOOTHING_STDS:
            noise = (std * _make_tensor(numbers)).clamp(-SMOOTHING_CLIP, SMOOTHING_CLIP)
            smoothed[f"with noise of {std:g}"] = (action + noise).clamp(-1, 1)
        action = q.choose("the next action", {"without noise": action, **smoothed})
    return _compute_values(q, run, step, state, action)


def _smooth_action(
    q: FormulaQuantities, action: Tensor, numbers: Array, noise_std: float, clip: float
) -> Tensor:
    # TD3's target policy smoothing (Fujimoto et al. 2018, eq. 14).
    std = q.name("the deviation of target noise", noise_std)
    limit = q.name("the limit of target noise", clip)
    drawn = q.name("the standard normal number", numbers)
    noise = q.name("target noise before it is cut", std * drawn)
    limit = limit.abs()
    cuts = {
        "on both sides": noise.clamp(-limit, limit),
        "from above only": noise.minimum(limit),
        "from below only": noise.maximum(-limit),
        "before it is multiplied by its deviation": std * drawn.clamp(-limit, limit),
        "not at all": noise,
    }
    cut = q.name("target noise", q.choose("target noise is cut", cuts))
    noisy = q.name("the next action with noise", action + cut)
    bounds = {
        "cut at the bounds": noisy.clamp(-1, 1),
        "not cut at the bounds": noisy,
        "cut at the limit of the noise": noisy.clamp(-limit, limit),
    }
    chosen = q.choose("the next action", bounds, ["not cut at the bounds"])
    return q.name("the next action that critics see", chosen)


def compute_squashed_sample(
    q: FormulaQuantities,
    run: ProbeRun,
    mean: Tensor,
    raw: Tensor,
    drawn: Array,
    stored: Array | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a sample of SAC's policy and its log-probability, float[rows, actions] and [rows].

    Log-probabilities may be those of `stored` actions in its place.
    """
    stds = run.experiment.std(raw.detach().numpy()) if run.experiment.std else POLICY_STD
    std = q.name("the policy's deviation", stds * np.ones(mean.shape))
    noise = q.name("the standard normal number", drawn)
    sample = counted = q.name("the sample", mean + std * noise)
    if stored is not None:
        places = _make_tensor(stored)
        if run.experiment.squashed:
            places = torch.atanh(places.clamp(-MAX_SQUASHED, MAX_SQUASHED))
        others = {"those of the minibatch": places, "the policy's means": mean}
        samples = {"the policy's samples": sample, **others}
        counted = q.choose("actions of the log-probability", samples)
    measured = q.name("the sample in the log-density", counted)
    distance = q.name("the sample's distance from the mean", (measured - mean) / std)
    log_std = q.name("the logarithm of the deviation", std.log())
    squared = q.name("the squared distance from the mean", distance**2)
    constant = q.name("the constant of the log-density", np.log(2 * np.pi) / 2)
    density = q.name("the log-density of each dimension", -squared / 2 - log_std - constant)
    q.name("the negative entropy of the Gaussian", -(log_std + 0.5 + constant).sum(1))
    if not run.experiment.squashed:
        return sample, q.name("the log-probability", density.sum(1))
    corrected = q.name("the sample in the correction for tanh", counted)
    squashed = q.name("the action in the correction for tanh", torch.tanh(corrected))
    square = q.name("the squared action in the correction for tanh", squashed**2)
    slopes = {
        "1 minus the squared action": 1 - square,
        "1 minus the action, squared": (1 - squashed) ** 2,
        "1 minus the action's magnitude": 1 - squashed.abs(),
    }
    slope = q.name("the slope of tanh", q.choose("the slope of tanh", slopes))
    logs = q.name("the logarithm of tanh's slope", slope.log())
    sums = {"summed over dimensions": logs.sum(1), "averaged over dimensions": logs.mean(1)}
    correction = q.choose("the logarithm of tanh's slope", sums)
    correction = q.name("the correction for tanh", correction)
    log_prob = q.name("the log-probability", density.sum(1) - correction)
    q.name("the log-density before squashing", density.sum(1))
    return q.name("the action", torch.tanh(sample)), log_prob


def _name_temperature(q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord) -> Tensor:
    now, first = (
        _make_tensor(weights["temperature.log"]).ravel()[0]
        for weights in (get_weights_before_update(run, step), run.weights)
    )
    options = {"the learned one": now.exp(), "its logarithm": now, "that of the start": first.exp()}
    return q.name("the temperature", q.choose("the temperature", options))


def _compute_soft_next_values(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord, state: Tensor
) -> Tensor:
    data, weights = find_minibatch(run, step), read_weights(run, step)
    after = q.name("the next observation that the policy sees", state)
    before, drawn = _make_tensor(data.observations), get_update_noise(run, step, len(after))

    def sample(seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = q.name("the policy's mean", run_network(weights, "policy", seen, "mean"))
        raw = run_network(weights, "policy", seen, "std")
        return torch.tanh(mean), *compute_squashed_sample(q, run, mean, raw, drawn)

    _, early, early_log_prob = sample(before)
    mean, action, log_prob = sample(after)
    samples = {
        "those in the next observations": (action, log_prob),
        "those in the current observations": (early, early_log_prob),
        "with log-probabilities of actions in the current observations": (action, early_log_prob),
        "in the current observations, with log-probabilities in the next": (early, log_prob),
        "the policy's mean, with log-probabilities of its sample": (mean, log_prob),
    }
    action, log_prob = q.choose("next actions", samples)
    value = _compute_values(q, run, step, state, action)
    entropy = q.name("the entropy term", _name_temperature(q, run, step) * log_prob)
    forms = {
        "discounted": value - entropy,
        "not discounted": value - entropy / run.hyperparameters.gamma,
    }
    return q.name("the next value with entropy", q.choose("the entropy is", forms))


def _compute_discrete_next_values(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord, state: Tensor
) -> Tensor:
    seen = q.name("the next observation", state)
    q.name("the observation before the step", find_minibatch(run, step).observations)
    target, online = (
        run_network(read_weights(run, step), n, seen) for n in ("critic1_target", "critic1")
    )
    target = q.name("next values of the target network", target)
    online = q.name("next values of the online network", online)
    rows = torch.arange(len(seen))
    taken = torch.as_tensor(find_minibatch(run, step).actions[:, 0].astype(int))
    largest = {
        "the largest": target.amax(1),
        "that of the online network's choice": target[rows, online.argmax(1)],
        "the online network's of the target's choice": online[rows, target.argmax(1)],
        "that of the action that was taken": target[rows, taken],
        "the softmax-weighted mean": (target.softmax(1) * target).sum(1),
        "the mean": target.mean(1),
        "the smallest": target.amin(1),
        "the number of the action with the largest": target.argmax(1).double(),
        "the number of the online network's choice": online.argmax(1).double(),
    }
    before = _make_tensor(find_minibatch(run, step).observations)
    for network, whose in (("critic1", "the online network"), ("critic1_target", "itself")):
        chosen = run_network(read_weights(run, step), network, before).argmax(1)
        largest[f"that of the action chosen by {whose} at the current observation"] = target[
            rows, chosen
        ]
    if getattr(run.hyperparameters, "double_q", False):
        key = "that of the online network's choice"
        largest = {key: largest.pop(key), **largest}
    return q.name("the next value", q.choose("the next value", largest))


_NEXT_VALUES = {
    "td3": _compute_deterministic_next_values,
    "ddpg": _compute_deterministic_next_values,
    "sac": _compute_soft_next_values,
    "dqn": _compute_discrete_next_values,
}


def compute_critic_gradients(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord
) -> Tensor:
    """Return derivatives of the critics' loss by their predictions, float[critics, rows]."""
    data, names = find_minibatch(run, step), list_critic_names(run)
    discrete = run.experiment.scripted_data.n_discrete_actions
    seen = _make_tensor(data.observations)
    inputs = seen if discrete else torch.hstack([seen, _make_tensor(data.actions)])
    weights = read_weights(run, step)
    outputs = [run_network(weights, name, inputs).requires_grad_() for name in names]
    taken = data.actions[:, 0].astype(int) if discrete else np.zeros(len(seen), dtype=int)
    rows = np.arange(len(seen))
    target = compute_target(q, run, step).detach()
    values = [output[rows, taken] for output in outputs]
    targets = [target] * len(names)
    if len(names) > 1:
        options = {
            "the one of both critics": target,
            "the value of the first critic": values[0].detach(),
            "the value of the first critic, with a gradient": values[0],
        }
        targets[1] = q.choose("the target of the second critic", options)
    terms, losses = list[Tensor](), list[Tensor]()
    for name, value, due in zip(names, values, targets, strict=True):
        of_transitions, of_critic = _compute_critic_loss(q, ORDINALS[name], value, due, run)
        terms.append(of_transitions)
        losses.append(of_critic)
    total = torch.stack(losses)
    forms = {"the sum": total.sum(), "the product": total.prod()}
    if len(names) > 1:
        for what in ("value", "error", "loss"):
            q.join(f"the {what} of each critic", [f"the {what} of {ORDINALS[n]}" for n in names])
        each = torch.stack(terms)
        forms |= {
            "the larger one of each transition": each.amax(0).mean(),
            "the smaller one of each transition": each.amin(0).mean(),
            "that of the first critic alone": total[0],
            "that of the second critic alone": total[1],
            "the larger one": total.amax(),
            "the smaller one": total.amin(),
        }
    pulls = differentiate_loss(q.choose("the loss of both", forms), outputs)
    return torch.stack([pull[rows, taken] for pull in pulls])


def _compute_critic_loss(
    q: FormulaQuantities, critic: str, values: Tensor, target: Tensor, run: ProbeRun
) -> tuple[Tensor, Tensor]:
    # The loss of each transition, and of all.
    predicted = q.name(f"the value of {critic}", values)
    error = q.name(f"the error of {critic}", predicted - q.name(f"the target of {critic}", target))
    bend = getattr(run.hyperparameters, "huber_delta", None) or 1.0
    zero = torch.zeros_like(error)
    huber = torch.nn.functional.huber_loss(error, zero, reduction="none", delta=bend)
    shapes = {"squared": error**2, "Huber's": huber, "absolute": error.abs(), "cubed": error**3}
    if getattr(run.hyperparameters, "huber_delta", None):
        shapes = {"Huber's": shapes.pop("Huber's"), **shapes}
    shape = q.choose("the error in the loss", shapes)
    each = q.name(f"the loss of each transition of {critic}", shape)
    means = {"a mean over the minibatch": each.mean(), "the root of it": each.mean().sqrt()}
    return each, q.name(f"the loss of {critic}", q.choose("the loss of a critic", means))


def compute_policy_gradient(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord
) -> Tensor:
    """Return derivatives of TD3's, DDPG's or SAC's policy loss by means, float[rows, actions]."""
    weights, seen = read_weights(run, step), _make_tensor(step.observations)
    is_soft = run.experiment.algorithm == "sac"
    head = "mean" if is_soft else "out"
    outputs = run_network(weights, "policy", seen, head).requires_grad_()
    output = q.name("the policy's output", outputs)
    penalty = torch.zeros(len(seen))
    if is_soft:
        raw = run_network(weights, "policy", seen, "std")
        drawn = get_update_noise(run, step, len(seen))
        stored = data.actions if (data := _find_shared_minibatch(run, step)) else None
        action, log_prob = compute_squashed_sample(q, run, output, raw, drawn, stored)
        temperature = _name_temperature(q, run, step)
        penalty = q.name("the entropy term", temperature * log_prob)
    else:
        action = q.name("the policy's action", torch.tanh(output))
    values = _judge_action(q, run, step, action)
    options, usual = {"": values[0]}, list[str]()
    if len(values) > 1:
        options, usual = dict(combine_critics(values)), ["the smaller of both critics"]
        if not is_soft:  # TD3 maximizes the first critic
            options = {"the first critic": options.pop("the first critic"), **options}
    value = q.choose("what the policy maximizes", options, usual)
    value = q.name("the value that the policy maximizes", value)
    terms = {"the log-probability": penalty - value}
    if is_soft:
        terms["the value"] = log_prob - temperature * value
        terms["both"] = temperature * (log_prob - value)
    each = q.choose("the temperature multiplies", terms)
    each = q.name("the policy's loss of each transition", each)
    losses = {"a mean over the minibatch": each.mean(), "a sum over the minibatch": each.sum()}
    return differentiate_loss(q.choose("the policy's loss", losses), [outputs])[0]


def _judge_action(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord, action: Tensor
) -> list[Tensor]:
    # The value of a policy's action by each critic, float[rows].
    names, versions = list_critic_names(run), _list_critic_versions(run, step)
    shared = q.choose("values", versions)
    places = {"the observations that the policy sees": _make_tensor(step.observations)}
    judged = {"the policy's": action}
    if data := _find_shared_minibatch(run, step):
        places["the next observations"] = _make_tensor(data.next_observations)
        judged["that of the minibatch"] = _make_tensor(data.actions)
    seen = q.choose("what critics see", places)
    known = {**versions, TRAINED: shared} if len(names) > 1 else {TRAINED: shared}
    own = {_name_one_critic(words): each for words, each in known.items()}
    values = []
    for name in names:
        chosen = q.choose(f"the action that {ORDINALS[name]} judges", judged)
        then, suffix = q.choose(f"the value of {ORDINALS[name]}", own)
        values.append(run_network(then, name + suffix, torch.hstack([seen, chosen]))[:, 0])
    return values


def _list_critic_versions(
    run: ProbeRun, step: OptimizerStepRecord
) -> dict[str, tuple[Mapping[str, Tensor], str]]:
    # Weights, and the suffix of the networks, that a policy's step may maximize.
    weights = read_weights(run, step)
    found = {TRAINED: (weights, ""), "of target networks": (weights, "_target")}
    earlier = [each for each in list_critic_updates(run) if each.env_steps <= step.env_steps][-2:]
    for words, update in zip(("their step", "their previous step"), earlier[::-1], strict=False):
        found[f"those of the critics before {words}"] = read_weights(run, update), ""
    start = {name: _make_tensor(a) for name, a in run.weights.items() if "critic" in name}
    return found | {"those of the critics at the start of the training": (start, "")}


def _name_one_critic(words: str) -> str:
    # The same words for one critic in place of all.
    words = words.replace("of target networks", "that of its target network")
    return words.replace("those", "that").replace("critics", "critic").replace("their", "its")


def _find_shared_minibatch(run: ProbeRun, step: OptimizerStepRecord) -> CriticMinibatch | None:
    # The minibatch of the critics and the policy, if they share one.
    for update in list_critic_updates(run):
        data = find_minibatch(run, update)
        if np.array_equal(data.observations, step.observations):
            return data
    return None


def compute_temperature_gradient(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord
) -> Tensor:
    """Return the derivative of SAC's temperature loss by the log temperature, float[1]."""
    now, start = (
        {name: _make_tensor(a) for name, a in weights.items() if not name.startswith("critic")}
        for weights in (step.before, get_weights_before_update(run, step))
    )
    leaf = now["temperature.log"].ravel()[:1].requires_grad_()
    factors = {
        "the temperature": (leaf.exp(), start),
        "its logarithm": (leaf, start),
        "the temperature, under the policy after its step": (leaf.exp(), now),
        "its logarithm, under the policy after its step": (leaf, now),
    }
    usual = ("its logarithm", "its logarithm, under the policy after its step")
    factor, weights = q.choose("the factor in the loss", factors, usual)
    places = {"those of the observations": _make_tensor(step.observations)}
    if data := _find_shared_minibatch(run, step):
        places["those of the next observations"] = _make_tensor(data.next_observations)
    seen = q.choose("the log-probabilities", places)
    mean, raw = (run_network(weights, "policy", seen, head) for head in ("mean", "std"))
    drawn, stored = get_update_noise(run, step, len(seen)), data.actions if data else None
    _, log_prob = compute_squashed_sample(q, run, mean, raw, drawn, stored)
    aim = q.name("the target entropy", -float(ACTION_SIZE))
    apart = q.name("the distance of the log-probability from its target", log_prob + aim)
    return differentiate_loss(-(factor * apart).mean(), [leaf])[0]


def explain_temperature_gradients(
    steps: Sequence[tuple[ProbeRun, OptimizerStepRecord]], found: Array
) -> str:
    """Return which quantity of the temperature's loss differs from the paper's, or "".

    Args:
        steps: Steps of the temperature, each with its training.
        found: Derivatives by the log temperature, of each step.
    """
    parts = [functools.partial(compute_temperature_gradient, run=r, step=s) for r, s in steps]
    return find_changed_quantity(parts, np.split(found, len(found)), measure_distance)


def explain_policy_gradient(
    run: ProbeRun, steps: Sequence[OptimizerStepRecord], rests: Sequence[float]
) -> str:
    """Return which quantity of the policy's loss differs, if weights do not explain it.

    Args:
        run: The training.
        steps: Steps of the policy.
        rests: The largest part of each step's gradient that no weighted sum of terms explains.
    """
    head = "mean" if run.experiment.algorithm == "sac" else "out"
    found = [
        solve_output_gradient(s.gradients, s.before, "policy", s.observations, RELU, head)
        for s in steps
    ]
    if max(rests) < RELATION_TOLERANCE * max(float(np.abs(each).max()) for each in found):
        return ""
    parts = [functools.partial(compute_policy_gradient, run=run, step=step) for step in steps]
    return find_changed_quantity(parts, found, measure_distance)


def measure_distance(one: Array, other: Array) -> float:
    """Return the largest difference of two arrays, as a share of the second one's largest."""
    return float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30))


def explain_targets(
    run: ProbeRun, read: Sequence[tuple[OptimizerStepRecord, NDArray[np.intp]]], found: Array
) -> str:
    """Return which quantity of the targets differs from the paper's, or "" if no change gives them.

    Args:
        run: The training.
        read: The updates, and the rows of each whose targets were read.
        found: Those targets, one after another.
    """

    def make_part(step: OptimizerStepRecord, rows: NDArray[np.intp]) -> Formula:
        return lambda q: compute_target(q, run, step)[rows]

    measured = np.split(found, np.cumsum([len(rows) for _, rows in read])[:-1])
    words = find_changed_quantity([make_part(*each) for each in read], measured, measure_distance)
    return f"target: {words}" if words else ""


def explain_critic_gradients(
    run: ProbeRun, steps: Sequence[OptimizerStepRecord], found: Sequence[Array]
) -> str:
    """Return which quantity of the critics' loss differs, up to a factor of the loss.

    Args:
        run: The training.
        steps: Updates of the critics.
        found: Derivatives of the loss by predictions in each, float[critics, rows].
    """
    parts = [functools.partial(compute_critic_gradients, run=run, step=step) for step in steps]
    return find_changed_quantity(parts, found, measure_angle)


def measure_angle(one: Array, other: Array) -> float:
    """Return the distance of an array from the nearest positive multiple of another, as a share."""
    is_along = float(np.sum(one * other)) > 0
    return measure_misfit(one.ravel(), other.ravel()) if is_along else np.inf
