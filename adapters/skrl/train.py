"""Trains with skrl's step trainer, which leaves the loop to its user.

One call is one step of the environment and the updates that follow; agents are skrl's own.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from skrl import config
from skrl.agents.torch import Agent
from skrl.envs.wrappers.torch import wrap_env
from skrl.trainers.torch import StepTrainer
from skrl.utils import set_seed

from adapters.skrl.build import build
from adapters.skrl.models import Spaces
from adapters.skrl.state import whole
from adapters.torch_common.parameters import copies, loadable
from harness.contract.adapter import Context, Loadable, MakeEnv, Monitor, Native, Weights
from harness.contract.algorithms import ALGORITHMS

METRICS = {
    "Loss / Policy loss": "loss/policy",
    "Loss / Value loss": "loss/value",
    "Loss / Critic loss": "loss/critic",
    "Loss / Q-network loss": "loss/critic",
    "Coefficient / Entropy coefficient": "temperature",
    "Learning / Learning rate": "learning_rate",
    "Policy / Standard deviation": "policy/std",
    "Q-network / Q1 (mean)": "q/mean",
}
"""skrl's names to those in the trace."""
TEMPERATURE = "Loss / Entropy loss"
"""Of SAC the temperature's; PPO has its bonus for entropy under the same name."""
RECORD_EVERY = 100
"""Environment steps of algorithms with a replay buffer between records of the trace."""
TRAINER = {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}


def train(
    algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Trains to the end."""
    settings = native.settings
    config.torch.device = device = context.device
    set_seed(settings["seed"])
    made = make_env()
    env = wrap_env(clipped(made), wrapper="gymnasium", verbose=False)
    agent = build(algorithm, settings, Spaces.of(env, settings["seed"], device))
    trainer = StepTrainer(env=env, agents=agent, cfg={"timesteps": native.total_steps, **TRAINER})
    tell(agent, algorithm, settings, monitor)
    loop = {"taken": 0}
    monitor.attach(
        lambda observations: greedy(agent, observations),
        lambda: copies(parameters(agent)),
        restorable(agent),
        whole({"agent": agent, "trainer": trainer, "env": env, "loop": loop}, [monitor, made]),
    )
    while loop["taken"] < native.total_steps:
        monitor.boundary()
        trainer.train(timestep=loop["taken"], timesteps=native.total_steps)
        loop["taken"] += 1


def clipped(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The task with actions cut at their bounds, which skrl's Gaussian policies go beyond."""
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Box):
        return env
    cut = lambda action: np.clip(action, space.low, space.high)  # noqa: E731
    return gymnasium.wrappers.TransformAction(env, cut, space)


def tell(agent: Agent, algorithm: str, settings: Mapping[str, Any], monitor: Monitor) -> None:
    """Hands to the monitor what the agent would write to files, some of it only if it does."""

    def hand_over(*, timestep: int, timesteps: int) -> None:
        tracked = {name: float(np.mean(values)) for name, values in agent.tracking_data.items()}
        agent.tracking_data.clear()
        monitor.record(metrics(algorithm, tracked))

    agent.write_tracking_data = hand_over
    on_policy = ALGORITHMS[algorithm].family == "on-policy"
    agent.write_interval = settings["PPO_CFG.rollouts"] if on_policy else RECORD_EVERY


def metrics(algorithm: str, tracked: Mapping[str, float]) -> dict[str, float]:
    """Values by their names in the trace."""
    known = {METRICS[name]: value for name, value in tracked.items() if name in METRICS}
    if algorithm == "sac" and TEMPERATURE in tracked:
        known["loss/temperature"] = tracked[TEMPERATURE]
    return known


def greedy(agent: Agent, observations: NDArray[np.float32]) -> NDArray[Any]:
    """The policy's own actions without noise, or the choice of the largest value."""
    network = agent.models.get("policy") or agent.models["q_network"]
    seen = torch.as_tensor(np.asarray(observations, np.float32), device=agent.device)
    with torch.no_grad():
        found = network.compute({"observations": seen.flatten(1)}, role="policy")[0].cpu()
    if "policy" in agent.models:
        return np.asarray(found, np.float32)
    return np.asarray(torch.argmax(found, dim=1), np.int64)


def parameters(agent: Agent) -> dict[str, torch.Tensor]:
    """Every parameter, as the tensor that the agent computes with."""
    found = {
        f"{role}.{name}": value
        for role, model in agent.models.items()
        for name, value in model.named_parameters()
    }
    if hasattr(agent, "log_entropy_coefficient"):
        found["log_entropy_coefficient"] = agent.log_entropy_coefficient
    return found


def restorable(agent: Agent) -> Loadable:
    """How weights get into the agent, and into the file that `Agent.load` reads."""
    by_name = loadable(lambda: parameters(agent), dict)

    def restore(weights: Weights) -> None:
        by_name.restore(weights)
        if hasattr(agent, "log_entropy_coefficient"):  # the agent computes with a copy
            agent._entropy_coefficient = torch.exp(agent.log_entropy_coefficient.detach())

    return Loadable(restore, lambda path: agent.save(str(path)), by_name.suffix)
