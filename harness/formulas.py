"""The papers' formulas in NumPy float64, each written once.

Shapes: `rows` transitions, `actions` action dimensions. This module does not know frameworks.
"""

from collections.abc import Mapping

import numpy as np

from parallax.harness.contract.adapter import Array


def compute_normal_log_prob(x: Array, mean: Array, std: Array) -> Array:
    """Return the log-density of a diagonal Gaussian, float[rows]."""
    z = (x - mean) / std
    return np.asarray(-(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi)).sum(axis=-1))


def compute_squashed_log_prob(
    x: Array, mean: Array, std: Array, half_range: Array | float = 1.0
) -> Array:
    """Return the log-density of h tanh(x) with x Gaussian (Haarnoja et al. 2018, app. C, eq. 21).

    Args:
        x: Before squashing, float[rows, actions].
        mean: Mean of x.
        std: Standard deviation of x.
        half_range: h, half the action range.
    """
    # log(1 - tanh(x)^2) without cancellation.
    log_slope = 2 * (np.log(2.0) - x - np.logaddexp(0.0, -2 * x))
    correction = (log_slope + np.log(half_range * np.ones_like(x))).sum(axis=-1)
    return np.asarray(compute_normal_log_prob(x, mean, std) - correction)


def compute_td_target(reward: Array, terminated: Array, gamma: float, next_value: Array) -> Array:
    """Return the reward plus the discounted next value, which is 0 after a termination.

    Args:
        reward: float[rows].
        terminated: 1 where the task ended, else 0 (time limits included); float[rows].
        gamma: Discount factor.
        next_value: float[rows].
    """
    return np.asarray(reward + gamma * (1 - terminated) * next_value)


def compute_soft_value(next_values: Array, next_log_prob: Array, temperature: float) -> Array:
    """Return the value of a state with entropy regularisation (Haarnoja et al. 2018b, eq. 3).

    Args:
        next_values: Both target critics at the next action, float[2, rows].
        next_log_prob: Log-density of the next action, float[rows].
        temperature: Weight of the entropy.
    """
    return np.asarray(next_values.min(axis=0) - temperature * next_log_prob)


def compute_smoothed_action(
    mean: Array, noise: Array, std: float, clip: float, low: Array, high: Array
) -> Array:
    """Return TD3's target action (Fujimoto et al. 2018, eq. 14 and authors' code).

    Args:
        mean: Mean of the target policy in action units, float[rows, actions].
        noise: Standard normal.
        std: Standard deviation of the noise, as a share of half the action range.
        clip: Bound of the noise, same unit.
        low: Smallest action.
        high: Largest action.
    """
    return np.asarray(
        np.clip(mean + compute_smoothing_noise(noise, std, clip, low, high), low, high)
    )


def compute_smoothing_noise(
    noise: Array, std: float, clip: float, low: Array, high: Array
) -> Array:
    """Return the noise of TD3's target action, in action units; see `compute_smoothed_action`."""
    return np.asarray((high - low) / 2 * np.clip(noise * std, -clip, clip))


def compute_gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    ended: Array,
    gamma: float,
    lam: float,
) -> Array:
    """Return generalised advantage estimates (Schulman et al. 2016, eq. 16), float[steps].

    Args:
        rewards: float[steps].
        values: Values of the state before each step.
        next_values: Values of the state after each step, before any reset.
        terminated: 1 where the task ended: nothing follows.
        ended: 1 where the episode ended in any way: the sum stops.
        gamma: Discount factor.
        lam: Weight of longer sums.
    """
    deltas = compute_td_target(rewards, terminated, gamma, next_values) - values
    advantages, following = np.zeros_like(deltas), 0.0
    for t in reversed(range(len(deltas))):
        following = deltas[t] + gamma * lam * (1 - ended[t]) * following
        advantages[t] = following
    return advantages


def standardize_advantages(advantages: Array) -> Array:
    """Return advantages with mean 0 and deviation 1, as in PPO's authors' code (numpy's std)."""
    # np.std divides by n; frameworks that use torch.std divide by n - 1.
    return np.asarray((advantages - advantages.mean()) / (advantages.std() + 1e-8))


def compute_surrogate_slope(advantages: Array, ratio: Array, clip: float) -> Array:
    """Return PPO's clipped objective (Schulman et al. 2017, eq. 7), differentiated by log ratio."""
    # Where the clipped term is the smaller one, it is constant; elsewhere d r / d log r = r.
    raised = (advantages > 0) & (ratio > 1 + clip)
    lowered = (advantages < 0) & (ratio < 1 - clip)
    return np.asarray(np.where(raised | lowered, 0.0, advantages * ratio))


def compute_clipped_value_slope(values: Array, old: Array, returns: Array, clip: float) -> Array:
    """Return the derivative of max((V - R)^2, (V_clipped - R)^2) by V, as in openai/baselines."""
    clipped = old + np.clip(values - old, -clip, clip)
    # Inside the clip both squares are equal, and so are their derivatives.
    inside = np.abs(values - old) < clip
    plain = (values - returns) ** 2 >= (clipped - returns) ** 2
    return np.asarray(np.where(plain | inside, 2 * (values - returns), 0.0))


def compute_gaussian_entropy(log_std: Array) -> float:
    """Return the entropy of a diagonal Gaussian, in nats."""
    return float(np.sum(log_std + 0.5 * np.log(2 * np.pi * np.e)))


def estimate_kl(log_ratio: Array) -> float:
    """Return the mean of (r - 1) - log r, a non-negative estimate of KL(old, new)."""
    # k3 of Schulman, "Approximating KL Divergence" (2020), where samples come from the old policy.
    # expm1 is exact where the ratio is close to 1, as it is after a single update.
    return float(np.mean(np.expm1(log_ratio) - log_ratio))


class ReferenceAdam:
    """Adam's steps (Kingma & Ba 2015, algorithm 1), with moments stored by name."""

    def __init__(self) -> None:
        self._moments: dict[str, tuple[int, Array, Array]] = {}

    def step(self, name: str, gradient: Array, settings: Mapping[str, float]) -> Array:
        """Return the change of a parameter for its next gradient.

        Args:
            name: Name of the parameters, by which their moments are stored.
            gradient: Any shape.
            settings: `lr`, `eps`, `beta1`, `beta2`; the paper's if another optimizer lacks them.
        """
        one, two = settings.get("beta1", 0.9), settings.get("beta2", 0.999)
        nothing = np.zeros_like(gradient)
        count, mean, square = self._moments.get(name, (0, nothing, nothing))
        mean, square = one * mean + (1 - one) * gradient, two * square + (1 - two) * gradient**2
        self._moments[name] = (count := count + 1), mean, square
        # eps is added after the bias correction, as in algorithm 1 and PyTorch; the paper's
        # reordered form ("epsilon hat"), which TensorFlow used, adds it before.
        deviation = np.sqrt(square / (1 - two**count)) + settings.get("eps", 1e-8)
        return np.asarray(-settings["lr"] * mean / (1 - one**count) / deviation)


def rescale_values(values: Array, epsilon: float) -> Array:
    """Return h(x) of Pohlen et al. 2018 (arXiv:1805.11593), proposition A.2, as used by R2D2.

    Args:
        values: x, in units of return; any shape.
        epsilon: Slope of h far from 0.
    """
    grown = np.sign(values) * (np.sqrt(np.abs(values) + 1) - 1)
    return np.asarray(grown + epsilon * values)


def invert_rescaling(values: Array, epsilon: float) -> Array:
    """Return x with h(x) = values, by bisection, as a check of the papers' closed form."""
    aim = np.asarray(values, float)
    reach = np.max(np.abs(aim), initial=1.0) / epsilon  # |h(x)| is at least epsilon |x|
    low, high = np.full_like(aim, -reach), np.full_like(aim, reach)
    # Each halving doubles the precision: 200 exceed that of float64 from any start.
    for _ in range(200):
        middle = (low + high) / 2
        below = rescale_values(middle, epsilon) < aim
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def compute_n_step_targets(
    rewards: Array, next_values: Array, terminated: bool, gamma: float, steps: int
) -> Array:
    """Return n-step targets of a sequence (Kapturowski et al. 2019, section 2.3).

    If fewer than `steps` rewards are left in the sequence, all of these are summed.

    Args:
        rewards: float[steps of the sequence], in order.
        next_values: Values of the states that they lead to, in units of return; same length.
        terminated: Whether the task ended with the last of them.
        gamma: Discount factor.
        steps: Rewards that are summed, n.
    """
    targets = []
    for first in range(len(rewards)):
        some = rewards[first : first + steps]
        last = first + len(some) - 1
        bootstrap = 0.0 if terminated and last == len(rewards) - 1 else next_values[last]
        powers = gamma ** np.arange(len(some) + 1)
        targets.append(float(powers[:-1] @ some + powers[-1] * bootstrap))
    return np.array(targets)


def compute_sequence_priority(errors: Array, share: float) -> float:
    """Return eta max |error| + (1 - eta) mean |error| (Kapturowski et al. 2019, section 2.3).

    Args:
        errors: Errors of a sequence's steps.
        share: Eta.
    """
    sizes = np.abs(errors)
    return float(share * sizes.max() + (1 - share) * sizes.mean())


def compute_importance_weights(probabilities: Array, stored: int, exponent: float) -> Array:
    """Return importance weights over their maximum (Schaul et al. 2016, sec. 3.4), float[rows].

    Args:
        probabilities: Probabilities with which the items of the minibatch were drawn.
        stored: Number of items that they were drawn from.
        exponent: Beta.
    """
    weights = (1 / (stored * probabilities)) ** exponent
    return np.asarray(weights / weights.max())


def compute_actor_epsilons(base: float, exponent: float, actors: int) -> Array:
    """Return the epsilons of several actors (Horgan et al. 2018, section 4)."""
    return np.array([base ** (1 + exponent * i / (actors - 1)) for i in range(actors)])


def compute_dueling_values(value: Array, advantages: Array) -> Array:
    """Return action values of a dueling network (Wang et al. 2016, eq. 9), float[rows, actions].

    Args:
        value: Values of states, float[rows, 1].
        advantages: float[rows, choices].
    """
    return np.asarray(value + advantages - advantages.mean(axis=1, keepdims=True))


def compute_lstm_step(
    inputs: Array, hidden: Array, cell: Array, weights: Mapping[str, Array]
) -> Array:
    """Return the next state of an LSTM (Gers et al. 2000, without peepholes).

    Args:
        inputs: float[inputs].
        hidden: Hidden state, float[units].
        cell: Cell state, float[units].
        weights: `lstm_input` and `lstm_state`, each with `.weight` float[4 units, ...] and `.bias`:
            input gate, forget gate, candidate and output gate, in this order.

    Returns:
        The next two states, float[2, units].
    """
    drive = weights["lstm_input.weight"] @ inputs + weights["lstm_input.bias"]
    # Two biases, of which the paper has one, and the order of gates as in torch.nn.LSTM.
    drive = drive + weights["lstm_state.weight"] @ hidden + weights["lstm_state.bias"]
    entering, forget, candidate, output = np.split(drive, 4)
    cell = _compute_sigmoid(forget) * cell + _compute_sigmoid(entering) * np.tanh(candidate)
    return np.stack([_compute_sigmoid(output) * np.tanh(cell), cell])


def _compute_sigmoid(x: Array) -> Array:
    # 1 / (1 + exp(-x)) would overflow for large negative x.
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))
