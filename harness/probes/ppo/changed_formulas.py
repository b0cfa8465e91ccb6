"""PPO's formulas with named quantities, in which a changed one is searched for."""

import functools
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED
from parallax.harness.probes.experiments import ProbeRun
from parallax.harness.probes.families.changed_formulas import (
    list_rows,
    measure_angle,
    measure_distance,
)
from parallax.harness.probes.formula_changes import (
    MAX_DISTANCE_SHARE,
    Formula,
    FormulaQuantities,
    differentiate_loss,
    find_changed_quantity,
)
from parallax.harness.probes.ppo import measurements
from parallax.harness.probes.ppo.experiments import CLIP, GAMMA, LAMBDA
from parallax.harness.probes.ppo.measurements import (
    RENEWED_ADVANTAGES,
    Minibatch,
    Rollout,
    compute_policy_gaussian,
)
from parallax.harness.probes.reference_networks import TANH, solve_output_gradient


def compute_policy_slopes(q: FormulaQuantities, minibatch: Minibatch) -> Tensor:
    """Return derivatives of the objective by the log-probabilities, times the rows, float[rows]."""
    leaf = torch.as_tensor(minibatch.new).requires_grad_()
    renewed = [name for name in minibatch.goal if name == RENEWED_ADVANTAGES]
    advantage = q.name("the advantage", q.choose("advantages are", minibatch.goal, renewed))
    old = q.choose("old log-probabilities are", minibatch.old)
    before = q.name("the old log-probability", old)
    log_ratio = q.name("the log ratio", q.name("the new log-probability", leaf) - before)
    ratios = {
        "the exponential": log_ratio.exp(),
        "the quotient of log-probabilities": leaf / before,
    }
    ratio = q.name("the ratio", q.choose("the ratio", ratios))
    limit = q.name("the clip range", CLIP).abs()
    inner = q.name("the ratio that is cut", ratio)
    low = 1 - q.name("the clip range below 1", limit)
    high, one = 1 + q.name("the clip range above 1", limit), torch.ones(())
    # PyTorch and JAX give the upper bound where the lower one is above it.
    cuts = {
        "between 1 minus and 1 plus the range": inner.clamp(low, high),
        "from above only": inner.minimum(high),
        "from below only": inner.maximum(low),
        "always at 1 minus the range, one constant": low.expand(inner.shape),
        "always at 1 plus the range, one constant": high.expand(inner.shape),
        "always at 1, one constant": one.expand(inner.shape),
        "always at the range, one constant": limit.expand(inner.shape),
        "between 1 minus the range and 1": inner.clamp(low, one),
        "between 1 and 1 plus the range": inner.clamp(one, high),
        "between the range and 1 plus the range": inner.clamp(limit, high),
        "the log ratio between minus and plus the range": log_ratio.clamp(-limit, limit).exp(),
        "between minus and plus the range": inner.clamp(-limit, limit),
        "between 1 over 1 plus the range and 1 plus the range": inner.clamp(1 / high, high),
    }
    clipped = q.name("the clipped ratio", q.choose("the ratio is cut", cuts))
    plain = q.name("the objective without clipping", ratio * advantage)
    weighted = q.name("the advantage in the clipped objective", advantage)
    products = {
        "the clipped ratio times the advantage": clipped * weighted,
        "the product of ratio and advantage is cut": (ratio * weighted).clamp(low, high),
    }
    cut = q.name("the clipped objective", q.choose("the clipped objective", products))
    both = torch.stack([plain, cut])
    options = {
        "the smaller of both": both.amin(0),
        "the larger of both": both.amax(0),
        "the clipped one": cut,
        "the one without clipping": plain,
        "the mean of both": both.mean(0),
        "that whose mean is smaller": both[both.mean(1).argmin()],
        "that whose mean is larger": both[both.mean(1).argmax()],
        "the new log-probability times the advantage: the ratio is 1, as if old "
        "log-probabilities were renewed": log_ratio * advantage,
    }
    each = q.name("the objective of each transition", q.choose("the objective", options))
    return differentiate_loss(each.mean(), [leaf])[0] * len(leaf)


def compute_log_prob_gradients(
    q: FormulaQuantities, run: ProbeRun, step: OptimizerStepRecord
) -> Tensor:
    """Return derivatives of the objective by means and log deviations, float[rows + 1, actions]."""
    rows = measurements.find_rollout_rows(run, step)
    seen = measurements.get_rollout_observations(run)[rows]
    stored = torch.as_tensor(measurements.compute_samples(run)[rows])
    mean, std = (torch.as_tensor(a) for a in compute_policy_gaussian(step.before, seen))
    first = [torch.as_tensor(a) for a in compute_policy_gaussian(run.weights, seen)]
    leaf, spread = mean.requires_grad_(), std[0].log().requires_grad_()
    center = q.name("the policy's mean", leaf)
    deviation = q.name("the policy's deviation", spread.exp().expand(mean.shape))
    actions = _list_actions(run, step, stored, center, deviation)
    action = q.name("the action", q.choose("log-probabilities", actions))
    density = _compute_density(action, center, deviation)
    log_prob = q.name("the log-density of each dimension", density).sum(1)
    olds = {
        "those of the stored actions": _compute_density(stored, *first).sum(1),
        "those of the same actions as the new ones": _compute_density(action, *first).sum(1),
    }
    old = q.name("the old log-probability", q.choose("old log-probabilities", olds)).detach()
    ratio = q.name("the ratio", (log_prob - old).exp())
    weight = q.name("the advantage", measurements.get_advantage_weights(run)[rows])
    objective = torch.minimum(ratio * weight, ratio.clamp(1 - CLIP, 1 + CLIP) * weight)
    by_mean, by_spread = differentiate_loss(objective.mean(), [leaf, spread])
    return torch.vstack([by_mean, by_spread])


def _list_actions(
    run: ProbeRun, step: OptimizerStepRecord, stored: Tensor, center: Tensor, deviation: Tensor
) -> dict[str, Tensor]:
    # Actions whose log-probabilities a loss may have, float[rows, actions]; the right ones first.
    data = run.experiment.scripted_data
    drawn = np.resize(data.get_batch_noise(step.env_steps), stored.shape)
    sampled = center + deviation * torch.as_tensor(drawn)
    bounds = (torch.tensor(bound, dtype=torch.float64) for bound in (data.low, data.high))
    return {
        "those of the stored actions": stored,
        "those of newly sampled actions": sampled.detach(),
        "those of newly sampled actions, whose gradients count": sampled,
        "those of the policy's means": center.detach(),
        "those of the policy's means, whose gradients count": center,
        "those of the stored actions cut at the bounds": stored.clamp(*bounds),
        "those of tanh of the stored actions": stored.tanh(),
        "those of the actions of the next row": stored.roll(-1, 0),
        "those of the actions of the previous row": stored.roll(1, 0),
    }


def _compute_density(action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return -((action - mean) / std).square() / 2 - std.log() - float(np.log(2 * np.pi)) / 2


def compute_value_slopes(q: FormulaQuantities, minibatch: Minibatch, clips: bool) -> Tensor:
    """Return derivatives of the value loss by the values, times half the rows, float[rows]."""
    leaf = torch.as_tensor(minibatch.new).requires_grad_()
    old = torch.as_tensor(q.choose("old values are", minibatch.old))
    returns = torch.as_tensor(q.choose("returns are", minibatch.goal))
    value, before = q.name("the value", leaf), q.name("the old value", old)
    target = q.name("the value's target", returns)
    q.name("the advantage", returns - old)
    limit = q.name("the clip range", CLIP).abs()
    start = q.name("the old value that is subtracted", before)
    change = q.name("the change of the value", value - start)
    clipped = q.name("the clipped value", before + change.clamp(-limit, limit))
    errors = {
        "clipped": clipped - q.name("the target in the clipped error", target),
        "plain": value - q.name("the target in the plain error", target),
    }
    losses = {name: q.name(f"the {name} error", error) ** 2 for name, error in errors.items()}
    options = {"the plain error": losses["plain"], "the clipped error": losses["clipped"]}
    larger = {"the larger of both": losses["plain"].maximum(losses["clipped"])}
    options = {**larger, **options} if clips else {**options, **larger}
    options["the smaller of both"] = losses["plain"].minimum(losses["clipped"])
    options["the absolute error"] = losses["plain"].sqrt()
    each = q.name("the loss of each transition", q.choose("the value loss", options))
    return differentiate_loss(each.mean(), [leaf])[0] * len(leaf) / 2


def compute_advantages(
    q: FormulaQuantities, rewards: Array, values: Array, next_values: Array, ends: NDArray[np.int64]
) -> tuple[Tensor, Tensor]:
    """Return advantages and value targets of a rollout, each float[steps] or [steps, copies]."""
    gamma, lam = q.name("the discount", GAMMA), q.name("lambda", LAMBDA)
    places, kinds = list_rows(ends.astype(np.int64).tobytes(), ends.shape)
    q.mark_rows(kinds)

    # Next values may also be values, which follow them in the pool that `take` selects from.
    before = {
        f"the values before {name.removeprefix('those of ')}": at + ends.size
        for name, at in places.items()
    }

    def take(name: str, array: Array | Tensor) -> Tensor:
        pool = torch.cat([torch.as_tensor(array).ravel(), torch.as_tensor(values).ravel()])
        known = {**places, **before} if name == "next values are" else places
        return pool[q.choose(name, known)]

    # Some frameworks store the value at a time limit with the reward, and drop it at any end.
    after = np.concatenate([values[1:], next_values[-1:]])
    is_cut = q.name("the time limits that add a value", ends == TRUNCATED).numpy()
    bonus = GAMMA * next_values * is_cut
    forms = {
        "those of the next states": (rewards, next_values, TERMINATED),
        "those of the following steps, at time limits in the reward": (rewards + bonus, after, 0),
        "those of the following steps": (rewards, after, 0),
    }
    paid, seen, last = q.choose("next values", forms, [*forms][1:])
    masks = {
        "the end of the task": ends == TERMINATED,
        "any end": ends > 0,
        "none": ends < 0,
        "a time limit": ends == TRUNCATED,
    }
    over = {"any end": masks["any end"], **masks}
    masks = masks if last else over
    final, stops = (
        take("ends are", torch.as_tensor(1.0 * q.choose(name, cuts)))
        for name, cuts in (("next values are dropped at", masks), ("sums stop at", over))
    )
    final, stops = q.name("the mask of next values", final), q.name("the mask of sums", stops)
    q.join("the mask of ends", ("the mask of next values", "the mask of sums"))
    reward = q.name("the reward", take("rewards are", paid))
    value = q.name("the value", take("values are", values))
    following = q.name("the next value", take("next values are", seen))
    discounted = q.name("the discounted next value", gamma * (1 - final) * following)
    target = q.name("the one-step target", reward + discounted)
    error = q.name("the one-step error", target - value)
    decay = q.name("the discount of sums", gamma * lam)
    share = q.name("the share of later errors", decay * (1 - stops))
    # Each sum is its error and a share of the next one: a triangular system per environment.
    errors, shares = (x.broadcast_to(value.shape).reshape(len(value), -1).T for x in (error, share))
    system = torch.eye(len(value)) - torch.diag_embed(shares[:, :-1], offset=1)
    sums = torch.linalg.solve_triangular(system, errors[..., None], upper=True)[..., 0]
    advantage = q.name("the advantage", sums.T.reshape(value.shape))
    baselines = {
        "the value": value,
        "the next value, or 0 after ends of the task": (1 - final) * following,
    }
    added = q.name("the value added", q.choose("to the advantage is added", baselines))
    return advantage, q.name("the value's target", advantage + added)


def explain_normalized_advantages(
    minibatches: Sequence[tuple[Array, Array, NDArray[np.bool_]]], every: Array, eps: float
) -> str:
    """Return which quantity of normalized advantages differs from the paper's, or "".

    Args:
        minibatches: Advantages of some minibatches, measured weights of their transitions in the
            policy loss, and which of these are known.
        every: Advantages of the whole rollout.
        eps: Constant that is added to the deviation.
    """

    def compute_weights(q: FormulaQuantities, raw: Array, known: NDArray[np.bool_]) -> Tensor:
        advantage, whole = q.name("the advantage", raw), torch.as_tensor(every)
        pools = {
            "over the minibatch, with n in the denominator": (advantage, whole, 0),
            "over the minibatch, with n - 1 in the denominator": (advantage, whole, 1),
            "over the whole rollout, with n in the denominator": (whole, advantage, 0),
            "over the whole rollout, with n - 1 in the denominator": (whole, advantage, 1),
        }
        pool, other, ddof = q.choose("standardization", pools, [*pools][1:])
        means = {
            "the mean of these": pool.mean(),
            "0": 0 * pool.mean(),
            "the mean of the whole rollout or the minibatch": other.mean(),
            "the median": pool.median(),
        }
        centre = q.name("the mean", q.choose("what is subtracted", means))
        centred = q.name("the centred advantage", advantage - centre)
        deviations = {
            "the standard deviation": pool.std(correction=ddof),
            "the variance": pool.var(correction=ddof),
            "the deviation of the whole rollout or the minibatch": other.std(correction=ddof),
            "the root mean square": pool.square().mean().sqrt(),
            "the mean square": pool.square().mean(),
            "the mean absolute deviation": (pool - pool.mean()).abs().mean(),
            "the mean magnitude": pool.abs().mean(),
            "the range": pool.amax() - pool.amin(),
            "the largest value": pool.amax(),
            "the largest magnitude": pool.abs().amax(),
            "the largest distance from the mean": (pool - pool.mean()).abs().amax(),
            "the norm": pool.norm(),
            "the norm of the centred ones": (pool - pool.mean()).norm(),
            "the sum of magnitudes": pool.abs().sum(),
            "the mean": pool.mean(),
        }
        deviation = q.name("the deviation", q.choose("the divisor", deviations))
        constant = q.name("the constant that is added to the deviation", eps)
        return q.name("the normalized advantage", centred / (deviation + constant))[known]

    parts = [functools.partial(compute_weights, raw=raw, known=m) for raw, _, m in minibatches]
    found = [weights[mask] for _, weights, mask in minibatches]
    return find_changed_quantity(parts, found, measure_distance)


def explain_policy_slopes(found: Array, minibatches: Sequence[Minibatch]) -> str:
    """Return which quantity of the policy loss differs, up to a factor of the loss.

    Args:
        found: Derivatives of the objective by log-probabilities, of one minibatch after another.
        minibatches: What each is computed from.
    """
    measured = np.split(found, np.cumsum([len(each.new) for each in minibatches])[:-1])
    parts = [functools.partial(compute_policy_slopes, minibatch=each) for each in minibatches]
    return find_changed_quantity(parts, measured, measure_angle)


def explain_log_probs(run: ProbeRun, steps: Sequence[OptimizerStepRecord]) -> str:
    """Return of which other actions or densities the policy loss has log-probabilities."""
    found = []
    for step in steps:
        seen = measurements.get_rollout_observations(run)[measurements.find_rollout_rows(run, step)]
        pull = solve_output_gradient(step.gradients, step.before, "policy", seen, TANH)
        found.append(-np.vstack([pull, step.gradients["policy.log_std"].reshape(1, -1)]))
    parts = [functools.partial(compute_log_prob_gradients, run=run, step=step) for step in steps]
    if words := find_changed_quantity(parts, found, measure_angle):
        return words
    # Whatever the ratios are, pulls go along the log-probability of the actions that it is of.
    right, *others = _compare_directions(run, steps, found).items()
    name = next((name for name, fits in others if all(fits)), "")
    return f"log-probabilities: {name}, not {right[0]}" if name else ""


def _compare_directions(
    run: ProbeRun, steps: Sequence[OptimizerStepRecord], found: Sequence[Array]
) -> dict[str, list[bool]]:
    fits: dict[str, list[bool]] = {}
    for step, (*pulls, _) in zip(steps, found, strict=True):
        rows = measurements.find_rollout_rows(run, step)
        seen = measurements.get_rollout_observations(run)[rows]
        mean, std = (torch.as_tensor(a) for a in compute_policy_gaussian(step.before, seen))
        stored = torch.as_tensor(measurements.compute_samples(run)[rows])
        for name, action in _list_actions(run, step, stored, mean, std).items():
            way, pull = ((action - mean) / std**2).numpy(), np.array(pulls)
            along = (way * pull).sum(1) / np.maximum((way**2).sum(1), 1e-30)
            rest = np.abs(pull - along[:, None] * way).max()
            fits.setdefault(name, []).append(rest < MAX_DISTANCE_SHARE * np.abs(pull).max())
    return fits


def explain_value_slopes(found: Array, minibatches: Sequence[Minibatch], clips: bool) -> str:
    """Return which quantity of the value loss differs, up to a factor of the loss.

    Args:
        found: Derivatives of the loss by values, of one minibatch after another.
        minibatches: What each is computed from.
        clips: Whether values are clipped.
    """
    measured = np.split(found, np.cumsum([len(each.new) for each in minibatches])[:-1])
    parts = [
        functools.partial(compute_value_slopes, minibatch=each, clips=clips) for each in minibatches
    ]
    return find_changed_quantity(parts, measured, measure_angle)


def explain_advantages(
    found: Array, rollouts: Sequence[Rollout], rows: Sequence[NDArray[np.bool_]], of_targets: bool
) -> str:
    """Return which quantity of advantages or value targets differs from the paper's, or "".

    Args:
        found: The measured numbers, of one rollout after another.
        rollouts: What they are computed from.
        rows: The steps of each rollout that were measured.
        of_targets: Whether the numbers are value targets, not advantages.
    """

    def make_part(rollout: Rollout, mask: NDArray[np.bool_]) -> Formula:
        return lambda q: compute_advantages(q, *rollout)[int(of_targets)][mask]

    parts = [make_part(*each) for each in zip(rollouts, rows, strict=True)]
    measured = np.split(found, np.cumsum([mask.sum() for mask in rows])[:-1])
    return find_changed_quantity(parts, measured, measure_distance, ("rollout", "environment"))
