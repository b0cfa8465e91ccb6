"""DDPG with networks as in Tianshou's MuJoCo example."""

from tianshou.algorithm import DDPG
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.exploration import GaussianNoise, OUNoise
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorDeterministic

from adapters.tianshou.components import Settings, action_box, adam, critics, options
from envs.tasks import Task


def build(settings: Settings, task: Task) -> DDPG:
    """The algorithm that settings describe."""
    body = Net(state_shape=task.observation_size, **options(settings, "Net"))
    actor = ContinuousActorDeterministic(preprocess_net=body, action_shape=task.action_size)
    (critic,) = critics(settings, task, 1)
    gaussian = options(settings, "GaussianNoise")
    noise = GaussianNoise(**gaussian) if gaussian else OUNoise(**options(settings, "OUNoise"))
    policy = ContinuousDeterministicPolicy(
        actor=actor, exploration_noise=noise, action_space=action_box(task)
    )
    return DDPG(
        policy=policy,
        policy_optim=adam(settings, "(policy)"),
        critic=critic,
        critic_optim=adam(settings, "(critic)"),
        **options(settings, "DDPG"),
    )
