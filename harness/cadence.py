"""How often a run acts at random and updates, as the hyperparameters say."""

import dataclasses
import math

from harness.spec import PPO, SAC, TD3, Hyperparameters


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
    """What the definitions in `harness.spec` make of `steps` environment transitions.

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
