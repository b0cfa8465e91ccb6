"""DQN, or double DQN, with models as in skrl's torch_gymnasium_cartpole_dqn.py."""

from skrl.agents.torch.ddqn import DDQN, DDQN_CFG
from skrl.agents.torch.dqn import DQN, DQN_CFG

from adapters.skrl.build import Parts, Settings
from adapters.skrl.models import Choices, Spaces

AGENTS = {"DQN": (DQN, DQN_CFG), "DDQN": (DDQN, DDQN_CFG)}


def parts(settings: Settings, spaces: Spaces) -> Parts:
    """The agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    roles = ("q_network", "target_q_network")
    return Parts(*AGENTS[settings["agent"]], {role: Choices(spaces, hidden) for role in roles})
