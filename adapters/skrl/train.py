"""Trains with skrl's step trainer, which leaves the loop to its user.

One call is one step of the environment and the updates that follow; agents are skrl's own.
"""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray
from skrl import config
from skrl.agents.torch import Agent
from skrl.envs.wrappers.torch import wrap_env
from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper
from skrl.memories.torch import Memory
from skrl.utils import set_seed

from parallax.adapters.skrl.agents import ModelSpaces, build_agent
from parallax.adapters.skrl.versions import IS_BEFORE_2, STATE_NAME, StepTrainer
from parallax.adapters.torch_common.acceleration import accelerate_networks
from parallax.adapters.torch_common.state import (
    make_checkpointable,
    make_policy_io,
    restore_tensors,
    select_distinct,
    weights_from_parameters,
)
from parallax.harness.contract.adapter import (
    Checkpointable,
    MakeEnv,
    Monitor,
    PolicyIO,
    RunContext,
    Weights,
)
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.state_codec import ObjectCodec, State
from parallax.harness.contract.translation import NativeConfig


def make_agent_checkpointable(parts: Mapping[str, Any], outside: list[Any]) -> Checkpointable:
    """Return the interface that saves and restores a training's state."""
    trainer, env = parts["trainer"], parts["env"]
    others = lambda: [*outside, env._env, env.unwrapped, trainer._progress]  # noqa: E731
    return make_checkpointable(parts, others, ObjectCodec(Memory, _read_memory, _write_memory))


def _read_memory(memory: Memory, read: Callable[[Any], State]) -> State:
    # Views of the tensors would be serialized a second time.
    indices = memory.filled, memory.env_index, memory.memory_index
    tensors = {name: read(tensor) for name, tensor in memory.tensors.items()}
    return {"tensors": tensors, "indices": [int(index) for index in indices]}


def _write_memory(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    restore_tensors(live.tensors, state["tensors"], write)
    filled, live.env_index, live.memory_index = state["indices"]
    live.filled = bool(filled)
    return live


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
"""skrl's names of metrics to names in the trace."""
ENTROPY_LOSS = "Loss / Entropy loss"
"""The temperature's loss in SAC; PPO has its entropy bonus under the same name."""
RECORD_EVERY = 100
"""Environment steps of algorithms with a replay buffer between records of the trace."""
TRAINER_OPTIONS = {
    "headless": True,
    "disable_progressbar": True,
    "close_environment_at_exit": False,
}


def train(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Train to the end."""
    settings = native.settings
    config.torch.device = device = context.device
    set_seed(settings["seed"])
    made = [make_env() for _ in range(context.n_envs)]
    env = wrap_environments([clip_actions(each) for each in made])
    env._device = torch.device(device)  # without it the GPU of any machine that has one
    agent = build_agent(algorithm, settings, ModelSpaces.from_env(env, settings["seed"], device))
    accelerate_networks(context.acceleration, *agent.models.values())
    options = {"timesteps": native.framework_steps, **TRAINER_OPTIONS}
    scopes = {"agents_scope": [(0, env.num_envs)]} if IS_BEFORE_2 else {}
    trainer = StepTrainer(env=env, agents=agent, cfg=options, **scopes)
    report_to_monitor(agent, algorithm, settings, monitor)
    loop = {"taken": 0}
    monitor.attach(
        lambda observations: predict_actions(agent, observations),
        lambda: weights_from_parameters(get_parameters(agent)),
        make_agent_policy_io(agent),
        make_agent_checkpointable(
            {"agent": agent, "trainer": trainer, "env": env, "loop": loop}, [monitor, *made]
        ),
    )
    while loop["taken"] < native.framework_steps:
        monitor.safe_point()
        if IS_BEFORE_2:  # each call wraps what it finds in one more list
            trainer.agents = agent
        trainer.train(timestep=loop["taken"], timesteps=native.framework_steps)
        if isinstance(env, ParallelEnvironments):
            setattr(trainer, STATE_NAME, env.first_observations)
        loop["taken"] += 1


class ParallelEnvironments(GymnasiumWrapper):
    """Several environments, whose steps return the last observation of an episode that ends.

    skrl's wrapper leaves resets to gymnasium. By default, gymnasium resets in the step after an
    end, and skrl stores that step as a transition. With resets in the same step, skrl takes the
    first observation of the next episode for the last one of this episode. Here a step returns the
    last one, as with a single environment; the loop passes the first one of the next episode.
    """

    def __init__(self, envs: list[gymnasium.Env[Any, Any]]) -> None:
        makers = [lambda env=env: env for env in envs]
        super().__init__(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP))

    def step(self, actions: torch.Tensor) -> tuple[Any, Any, Any, Any, Any]:
        """Take a step in each environment."""
        observations, rewards, terminated, truncated, infos = super().step(actions)
        self.first_observations = observations  # what the next actions are for, after resets
        ended = (terminated | truncated)[:, 0].nonzero()[:, 0].tolist()
        if ended:
            final = np.stack([infos["final_obs"][i] for i in ended])
            observations = observations.clone()
            observations[ended] = torch.as_tensor(final.reshape(len(ended), -1)).to(observations)
        return observations, rewards, terminated, truncated, infos


def wrap_environments(envs: list[gymnasium.Env[Any, Any]]) -> Any:
    """Return one environment in skrl's wrapper, or several in ours."""
    if len(envs) == 1:
        return wrap_env(envs[0], wrapper="gymnasium", verbose=False)
    return ParallelEnvironments(envs)


def clip_actions(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return the task with clipped actions; skrl's Gaussian policies go beyond the bounds."""
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Box):
        return env
    cut = lambda action: np.clip(action, space.low, space.high)  # noqa: E731
    return gymnasium.wrappers.TransformAction(env, cut, space)


def report_to_monitor(
    agent: Agent, algorithm: str, settings: Mapping[str, Any], monitor: Monitor
) -> None:
    """Pass the values that the agent logs to the monitor; some exist only if logging is on."""

    def hand_over(timestep: int, timesteps: int) -> None:
        tracked = {name: float(np.mean(values)) for name, values in agent.tracking_data.items()}
        agent.tracking_data.clear()
        monitor.record(rename_metrics(algorithm, tracked))

    agent.write_tracking_data = hand_over
    on_policy = ALGORITHMS[algorithm].family == "on-policy"
    steps = max(RECORD_EVERY // agent.memory.num_envs, 1)
    agent.write_interval = settings["PPO_CFG.rollouts"] if on_policy else steps


def rename_metrics(algorithm: str, tracked: Mapping[str, float]) -> dict[str, float]:
    """Return values by their names in the trace."""
    known = {METRICS[name]: value for name, value in tracked.items() if name in METRICS}
    if np.isnan(known.get("policy/std", 0)):  # discrete actions have no standard deviation
        del known["policy/std"]
    if algorithm == "sac" and ENTROPY_LOSS in tracked:
        known["loss/temperature"] = tracked[ENTROPY_LOSS]
    return known


def predict_actions(agent: Agent, observations: NDArray[np.float32]) -> NDArray[Any]:
    """Return the policy's own actions without noise, or the discrete ones of largest value."""
    network = agent.models.get("policy") or agent.models["q_network"]
    seen = torch.as_tensor(np.asarray(observations, np.float32), device=agent.device)
    with torch.no_grad():
        found = network.compute({"observations": seen.flatten(1)}, role="policy")[0].cpu()
    if isinstance(agent.action_space, gymnasium.spaces.Box):
        return np.asarray(found, np.float32)
    return np.asarray(torch.argmax(found, dim=1), np.int64)


def get_parameters(agent: Agent) -> dict[str, torch.Tensor]:
    """Return every parameter, as the tensor that the agent computes with."""
    found = {
        f"{role}.{name}": value
        for role, model in agent.models.items()
        for name, value in model.named_parameters()
    }
    if hasattr(agent, "log_entropy_coefficient"):
        found["log_entropy_coefficient"] = agent.log_entropy_coefficient
    return select_distinct(found)


def make_agent_policy_io(agent: Agent) -> PolicyIO:
    """Return functions that load weights into the agent and save files for `Agent.load`."""
    by_name = make_policy_io(lambda: get_parameters(agent), dict)

    def restore(weights: Weights) -> None:
        by_name.restore(weights)
        if hasattr(agent, "log_entropy_coefficient"):  # the agent computes with a copy
            agent._entropy_coefficient = torch.exp(agent.log_entropy_coefficient.detach())

    return PolicyIO(restore, lambda path: agent.save(str(path)), by_name.suffix)
