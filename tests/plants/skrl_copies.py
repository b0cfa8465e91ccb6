"""Faults of several environments in the algorithms of skrl that have a replay buffer.

They were written from skrl's sources after its probes answered with several environments, and
before one of them was planted. A fault counts as named if the answer contains `says`.
"""

from skrl.agents.torch.ddpg import DDPG
from skrl.agents.torch.dqn import DQN
from skrl.agents.torch.sac import SAC
from skrl.agents.torch.td3 import TD3
from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper
from skrl.memories.torch import Memory, RandomMemory
from skrl.resources.noises.torch import OrnsteinUhlenbeckNoise

from parallax.adapters.skrl import train
from parallax.adapters.skrl.agents import RandomActionModel
from tests.plants.blind_spots import NamedPlant
from tests.plants.planting import method


def _skrl(subject, algorithm, name, owner, function, old, new, probe, says):
    planted = method(owner, function, old, new)
    return NamedPlant(
        name, "skrl", algorithm, planted, f"{algorithm}.{probe}", "", subject=subject, says=says
    )


STORE = "self.tensors[name][self.memory_index].copy_(tensor)\n        self.memory_index += 1"
"""Where the memory stores a step of all environments."""


def _store(what):
    return STORE.replace("(tensor)", f"({what})")


PLANTS = (
    _skrl(
        "time limits",
        "td3",
        "time limits of all environments but the first are ends",
        GymnasiumWrapper,
        "step",
        "# save observation and info",
        "terminated[1:] |= truncated[1:]\n    # save observation and info",
        "stored_with_copies",
        "ends of the task",
    ),
    _skrl(
        "time limits",
        "sac",
        "ends of the first environment for all",
        Memory,
        "add_samples",
        STORE,
        _store('tensor[:1] if name == "terminated" else tensor'),
        "stored_with_copies",
        "ends of the task",
    ),
    _skrl(
        "autoreset",
        "td3",
        "last observations are those after the reset, as in skrl's wrapper",
        train.ParallelEnvironments,
        "step",
        "if ended:",
        "if False:",
        "stored_with_copies",
        "next observations",
    ),
    _skrl(
        "autoreset",
        "ddpg",
        "last observations of the first environment only",
        train.ParallelEnvironments,
        "step",
        "if ended:",
        "ended = [i for i in ended if i == 0]\n    if ended:",
        "stored_with_copies",
        "next observations",
    ),
    _skrl(
        "autoreset",
        "dqn",
        "an episode begins with the last observation of the one before",
        train,
        "train",
        "if isinstance(env, ParallelEnvironments):",
        "if False:",
        "stored_with_copies",
        "observations",
    ),
    _skrl(
        "autoreset",
        "sac",
        "next observations of the environment beside",
        Memory,
        "add_samples",
        STORE,
        _store('tensor.roll(1, 0) if name == "next_observations" else tensor'),
        "stored_with_copies",
        "next observations",
    ),
    _skrl(
        "exploration",
        "td3",
        "one noise for all environments",
        TD3,
        "act",
        "self._exploration_noise.sample(actions.shape)",
        "self._exploration_noise.sample(actions[:1].shape)",
        "own_draws",
        "act as another one",
    ),
    _skrl(
        "exploration",
        "ddpg",
        "only the first environment explores",
        DDPG,
        "act",
        "noises = self._exploration_noise.sample(actions.shape)",
        "noises = self._exploration_noise.sample(actions.shape); noises[1:] = 0",
        "own_draws",
        "act as another one",
    ),
    _skrl(
        "exploration",
        "ddpg",
        "one Ornstein-Uhlenbeck process for all environments",
        OrnsteinUhlenbeckNoise,
        "sample",
        "self.distribution.sample(size)",
        "self.distribution.sample(size[-1:]).expand(size)",
        "shared_exploration",
        "with another one's random numbers",
    ),
    _skrl(
        "exploration",
        "dqn",
        "one decision to explore for all environments",
        DQN,
        "act",
        "torch.rand(actions.shape[0], device=self.device)",
        "torch.rand(1, device=self.device).expand(actions.shape[0])",
        "shared_exploration",
        "with another one's random numbers",
    ),
    _skrl(
        "exploration",
        "sac",
        "one warm-up action for all environments",
        RandomActionModel,
        "random_act",
        "drawn = [torch.as_tensor(self.action_space.sample()).reshape(-1) for _ in range(count)]",
        "drawn = [torch.as_tensor(self.action_space.sample()).reshape(-1)] * count",
        "own_draws",
        "act as another one",
    ),
    _skrl(
        "schedules",
        "dqn",
        "exploration schedule counts steps of all environments a second time",
        DQN,
        "act",
        "self.cfg.exploration_scheduler(timestep, timesteps)",
        "self.cfg.exploration_scheduler(timestep * len(actions), timesteps)",
        "exploration_schedule_with_copies",
        "it counts each step",
    ),
    _skrl(
        "schedules",
        "td3",
        "warm-up is shorter by the number of environments",
        TD3,
        "act",
        "if timestep < self.cfg.random_timesteps:",
        "if timestep * len(observations) < self.cfg.random_timesteps:",
        "counts_with_copies",
        "warm-up steps",
    ),
    _skrl(
        "schedules",
        "sac",
        "learning starts earlier by the number of environments",
        SAC,
        "post_interaction",
        "if timestep >= self.cfg.learning_starts:",
        "if timestep * self.memory.num_envs >= self.cfg.learning_starts:",
        "counts_with_copies",
        "first update",
    ),
    _skrl(
        "schedules",
        "ddpg",
        "gradient steps are divided by the number of environments",
        DDPG,
        "update",
        "range(self.cfg.gradient_steps)",
        "range(max(1, self.cfg.gradient_steps // self.memory.num_envs))",
        "counts_with_copies",
        "critic steps",
    ),
    _skrl(
        "schedules",
        "dqn",
        "target interval counts steps of all environments",
        DQN,
        "update",
        "if not self._update_counter % self.cfg.target_update_interval:",
        "if not self._update_counter * self.memory.num_envs % self.cfg.target_update_interval:",
        "counts_with_copies",
        "target updates",
    ),
    _skrl(
        "replay capacity",
        "td3",
        "the memory is full when its size is reached by all environments together",
        Memory,
        "add_samples",
        "if self.memory_index >= self.memory_size:",
        "if self.memory_index * self.num_envs >= self.memory_size:",
        "full_buffer_with_copies",
        "different ones",
    ),
    _skrl(
        "replay capacity",
        "sac",
        "size counts steps of all environments as one",
        Memory,
        "__len__",
        "self.memory_index * self.num_envs + self.env_index",
        "self.memory_index + self.env_index",
        "stored_with_copies",
        "observations",
    ),
    _skrl(
        "replay capacity",
        "dqn",
        "only the first environment is sampled",
        RandomMemory,
        "sample",
        "indexes = torch.randperm(size, dtype=torch.long)[:batch_size]",
        "indexes = torch.randperm(size, dtype=torch.long)[:batch_size] "
        "// self.num_envs * self.num_envs",
        "own_draws",
        "no minibatch draws from",
    ),
    _skrl(
        "replay capacity",
        "ddpg",
        "the last environment is not stored",
        Memory,
        "add_samples",
        STORE,
        STORE.replace(
            "[self.memory_index].copy_(tensor)", "[self.memory_index, :-1].copy_(tensor[:-1])"
        ),
        "stored_with_copies",
        "observations",
    ),
)
