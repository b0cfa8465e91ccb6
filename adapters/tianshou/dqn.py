"""DQN with a network as in Tianshou's discrete example."""

from collections.abc import Callable
from typing import Any

import gymnasium
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.utils.net.common import Net

from adapters.tianshou.components import Settings, adam, options
from adapters.tianshou.images import Convolutions
from adapters.torch_common.convolutions import features
from envs.tasks import Task

Policy = DiscreteQLearningPolicy[Any]


def build(settings: Settings, task: Task) -> DQN[Policy]:
    """The algorithm that settings describe."""
    policy = DiscreteQLearningPolicy(
        model=_network(settings, task),
        action_space=gymnasium.spaces.Discrete(task.choices),
        **options(settings, "DiscreteQLearningPolicy"),
    )
    return DQN(policy=policy, optim=adam(settings), **options(settings, "DQN"))


def _network(settings: Settings, task: Task) -> Net | Convolutions:
    filters = options(settings, "Convolutions").get("filters")
    if filters is None:
        return _values(settings, task.observation_size, task.choices)
    values = _values(settings, features(task.image, filters), task.choices)
    return Convolutions(task.image, filters, values, task.brightest)


def _values(settings: Settings, inputs: int, choices: int) -> Net:
    arguments = options(settings, "Net")
    sizes, heads = arguments["hidden_sizes"], None
    if arguments.pop("dueling_param"):
        *sizes, last = sizes
        heads = tuple({"hidden_sizes": [last]} for _ in range(2))
    return Net(
        state_shape=inputs,
        action_shape=choices,
        hidden_sizes=sizes,
        dueling_param=heads,
    )


def each_step(model: DQN[Policy], settings: Settings) -> Callable[[int, int], None]:
    """What the trainer calls before it collects: lowers the share of random actions linearly."""
    schedule = options(settings, "training_fn")
    initial, fall = schedule["initial"], schedule["initial"] - schedule["final"]

    def lower(epoch: int, trained_steps: int) -> None:
        gone = min(1.0, (schedule["taken"] + trained_steps) / schedule["steps"])
        model.policy.set_eps_training(initial - gone * fall)

    return lower
