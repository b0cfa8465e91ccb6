"""What to run: each algorithm's unified hyperparameters, and how often it acts and learns."""

import dataclasses
import math
from typing import Any

from harness.contract.fields import bounded

SCHEDULES = ("constant", "linear")


@dataclasses.dataclass(frozen=True)
class PPO:
    """Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347).

    Attributes:
        learning_rate: Adam step size of policy and value network, at the start of the run.
        learning_rate_schedule: `constant`, or `linear` from the start value to 0.
        rollout_steps: Environment transitions per round, all environments together.
        minibatch_size: Transitions per gradient step.
        epochs: Passes over each rollout.
        gamma: Discount factor per environment step.
        gae_lambda: Exponential weight of generalised advantage estimation.
        clip_range: Half-width of the interval around 1 that the probability ratio is clipped to.
        clip_range_schedule: `constant`, or `linear` from the start value to 0.
        value_clip_range: Largest change of a value prediction, in units of return; null is off.
        normalize_advantage: Whether advantages get zero mean and unit deviation.
        ent_coef: Weight of the entropy bonus.
        vf_coef: Weight of what the framework calls the value loss. CleanRL's value loss
            contains a further factor 1/2.
        max_grad_norm: Gradient norm to clip at; null is off.
        target_kl: Approximate KL divergence that ends the epochs early; null is off.
        adam_eps: Adam's denominator constant.
        hidden_sizes: Units per hidden layer, of policy and value network alike.
        bootstrap_truncation: Whether a time limit is bootstrapped through.
    """

    learning_rate: float = bounded(above=0)
    learning_rate_schedule: str = bounded(choices=SCHEDULES)
    rollout_steps: int = bounded(minimum=1)
    minibatch_size: int = bounded(minimum=1)
    epochs: int = bounded(minimum=1)
    gamma: float = bounded(minimum=0, maximum=1)
    gae_lambda: float = bounded(minimum=0, maximum=1)
    clip_range: float = bounded(above=0)
    clip_range_schedule: str = bounded(choices=SCHEDULES)
    value_clip_range: float | None = bounded(above=0)
    normalize_advantage: bool = bounded()
    ent_coef: float = bounded(minimum=0)
    vf_coef: float = bounded(minimum=0)
    max_grad_norm: float | None = bounded(above=0)
    target_kl: float | None = bounded(above=0)
    adam_eps: float = bounded(above=0)
    hidden_sizes: tuple[int, ...] = bounded(minimum=1, filled=True)
    bootstrap_truncation: bool = bounded()


@dataclasses.dataclass(frozen=True)
class TD3:
    """Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

    Attributes:
        policy_learning_rate: Adam step size of the policy.
        critic_learning_rate: Adam step size of both critics.
        batch_size: Transitions per gradient step.
        buffer_size: Transitions the replay buffer holds.
        learning_starts: Environment transitions with uniformly random actions and no update.
        tau: Weight of the online network in a target update.
        gamma: Discount factor per environment step.
        env_steps_per_round: Environment transitions between rounds of gradient steps.
        gradient_steps_per_round: Critic gradient steps in a round.
        exploration_noise: Standard deviation of the Gaussian added to actions while
            collecting, as a share of half the action range; 0 is off.
        policy_delay: Critic steps per policy and target update.
        target_policy_noise: Standard deviation of target smoothing, same unit.
        target_noise_clip: Bound of target smoothing, same unit.
        adam_eps: Adam's denominator constant, policy and critics.
        hidden_sizes: Units per hidden layer, of policy and critics alike.
        bootstrap_truncation: Whether a time limit is bootstrapped through.
    """

    policy_learning_rate: float = bounded(above=0)
    critic_learning_rate: float = bounded(above=0)
    batch_size: int = bounded(minimum=1)
    buffer_size: int = bounded(minimum=1)
    learning_starts: int = bounded(minimum=0)
    tau: float = bounded(above=0, maximum=1)
    gamma: float = bounded(minimum=0, maximum=1)
    env_steps_per_round: int = bounded(minimum=1)
    gradient_steps_per_round: int = bounded(minimum=1)
    exploration_noise: float = bounded(minimum=0)
    policy_delay: int = bounded(minimum=1)
    target_policy_noise: float = bounded(minimum=0)
    target_noise_clip: float = bounded(minimum=0)
    adam_eps: float = bounded(above=0)
    hidden_sizes: tuple[int, ...] = bounded(minimum=1, filled=True)
    bootstrap_truncation: bool = bounded()


@dataclasses.dataclass(frozen=True)
class SAC:
    """Soft actor-critic with a learned temperature (Haarnoja et al. 2019, arXiv:1812.05905).

    Attributes:
        policy_learning_rate: Adam step size of the policy.
        critic_learning_rate: Adam step size of both critics.
        temperature_learning_rate: Adam step size of the temperature.
        batch_size: Transitions per gradient step.
        buffer_size: Transitions the replay buffer holds.
        learning_starts: Environment transitions with uniformly random actions and no update.
        tau: Weight of the online network in a target update.
        gamma: Discount factor per environment step.
        env_steps_per_round: Environment transitions between rounds of gradient steps.
        gradient_steps_per_round: Critic gradient steps in a round.
        policy_delay: Critic steps between policy updates. CleanRL makes up for the delay
            with as many policy steps at once.
        target_update_interval: Critic steps between target updates.
        initial_temperature: Temperature at the start; it is learned from there.
        target_entropy: Entropy the temperature steers to, in nats; null is minus the
            number of action dimensions.
        adam_eps: Adam's denominator constant, policy and critics.
        hidden_sizes: Units per hidden layer, of policy and critics alike.
        bootstrap_truncation: Whether a time limit is bootstrapped through.
    """

    policy_learning_rate: float = bounded(above=0)
    critic_learning_rate: float = bounded(above=0)
    temperature_learning_rate: float = bounded(above=0)
    batch_size: int = bounded(minimum=1)
    buffer_size: int = bounded(minimum=1)
    learning_starts: int = bounded(minimum=0)
    tau: float = bounded(above=0, maximum=1)
    gamma: float = bounded(minimum=0, maximum=1)
    env_steps_per_round: int = bounded(minimum=1)
    gradient_steps_per_round: int = bounded(minimum=1)
    policy_delay: int = bounded(minimum=1)
    target_update_interval: int = bounded(minimum=1)
    initial_temperature: float = bounded(above=0)
    target_entropy: float | None = bounded()
    adam_eps: float = bounded(above=0)
    hidden_sizes: tuple[int, ...] = bounded(minimum=1, filled=True)
    bootstrap_truncation: bool = bounded()


Hyperparameters = PPO | TD3 | SAC

ALGORITHMS: dict[str, type[Any]] = {"ppo": PPO, "td3": TD3, "sac": SAC}


def only_of(field: str) -> str:
    """Which algorithms have a hyperparameter, in words for those who gave it to another."""
    having = [
        algorithm
        for algorithm, cls in ALGORITHMS.items()
        if field in (known.name for known in dataclasses.fields(cls))
    ]
    if not having:
        return ""
    return f"is a hyperparameter of {', '.join(having)} only: sweep algorithms apart."


# The fields that every framework exposes; the others keep each framework's own default
# under alignment=thesis (thesis, appendix D: those not in italics).
THESIS_FIELDS: dict[str, frozenset[str]] = {
    "ppo": frozenset(
        [
            "learning_rate",
            "learning_rate_schedule",
            "rollout_steps",
            "minibatch_size",
            "epochs",
            "gamma",
            "gae_lambda",
            "clip_range",
            "value_clip_range",
            "ent_coef",
            "vf_coef",
        ]
    ),
    "td3": frozenset(
        [
            "policy_learning_rate",
            "critic_learning_rate",
            "batch_size",
            "buffer_size",
            "learning_starts",
            "tau",
            "gamma",
            "policy_delay",
            "target_policy_noise",
            "target_noise_clip",
        ]
    ),
    "sac": frozenset(
        [
            "policy_learning_rate",
            "batch_size",
            "buffer_size",
            "learning_starts",
            "tau",
            "gamma",
            "initial_temperature",
        ]
    ),
}


@dataclasses.dataclass(frozen=True)
class Cadence:
    """Counts over a whole run of one environment.

    Attributes:
        random_steps: Leading environment transitions with uniformly random actions.
        first_update: Environment transitions taken when the first gradient step is made.
        gradient_steps: Gradient steps of the critic; of all networks together in PPO.
        policy_updates: Gradient steps of the policy.
        target_updates: Steps of the target networks.
    """

    random_steps: int
    first_update: int
    gradient_steps: int
    policy_updates: int
    target_updates: int


def expected_cadence(hyperparameters: Hyperparameters, steps: int) -> Cadence:
    """What the definitions above make of `steps` environment transitions.

    The first round of updates is at the end of the first round of environment steps that
    ends at or after `learning_starts`. Frameworks that are a step late declare so.
    """
    match hyperparameters:
        case PPO() as hp:
            return on_policy_cadence(hp, steps)
        case TD3() | SAC() as hp:
            every = hp.env_steps_per_round
            first = max(math.ceil(hp.learning_starts / every), 1) * every
            return off_policy_cadence(hp, steps, first)


def on_policy_cadence(hp: PPO, steps: int) -> Cadence:
    """Each rollout is cut into minibatches, the last of which may be smaller."""
    minibatches = math.ceil(hp.rollout_steps / hp.minibatch_size)
    updates = steps // hp.rollout_steps * hp.epochs * minibatches
    return Cadence(0, hp.rollout_steps, updates, updates, 0)


def off_policy_cadence(hp: TD3 | SAC, steps: int, first_update: int) -> Cadence:
    """Counts where the first round of updates is after `first_update` transitions."""
    rounds = max(0, (steps - first_update) // hp.env_steps_per_round + 1)
    updates = rounds * hp.gradient_steps_per_round
    policy = updates // hp.policy_delay
    targets = policy if isinstance(hp, TD3) else updates // hp.target_update_interval
    return Cadence(min(hp.learning_starts, steps), first_update, updates, policy, targets)
