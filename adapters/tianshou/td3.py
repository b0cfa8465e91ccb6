"""TD3 with networks as in Tianshou's MuJoCo example."""

from tianshou.algorithm import TD3
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.exploration import GaussianNoise
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorDeterministic

from adapters.tianshou.components import Settings, action_box, options, twin_critics
from envs.tasks import Task


def build(settings: Settings, task: Task) -> TD3:
    """The algorithm that settings describe."""
    body = Net(state_shape=task.observation_size, **options(settings, "Net"))
    actor = ContinuousActorDeterministic(preprocess_net=body, action_shape=task.action_size)
    critics = twin_critics(settings, task)
    noise = GaussianNoise(**options(settings, "GaussianNoise"))
    policy = ContinuousDeterministicPolicy(
        actor=actor, exploration_noise=noise, action_space=action_box(task)
    )
    return TD3(policy=policy, **critics, **options(settings, "TD3"))
