"""SAC with networks as in Tianshou's MuJoCo example."""

from typing import Any

from tianshou.algorithm import SAC
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic

from adapters.tianshou.components import Settings, action_box, options, twin_critics
from envs.tasks import Task


def build(settings: Settings, task: Task) -> SAC[Any]:
    """The algorithm that settings describe."""
    body = Net(state_shape=task.observation_size, **options(settings, "Net"))
    actor = ContinuousActorProbabilistic(
        preprocess_net=body, action_shape=task.action_size, unbounded=True, conditioned_sigma=True
    )
    critics = twin_critics(settings, task)
    rate = settings["AdamOptimizerFactory(alpha).lr"]
    alpha = AutoAlpha(**options(settings, "AutoAlpha"), optim=AdamOptimizerFactory(lr=rate))
    policy = SACPolicy(actor=actor, action_space=action_box(task))
    return SAC(policy=policy, alpha=alpha, **critics, **options(settings, "SAC"))
