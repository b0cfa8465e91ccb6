"""DDPG with models as in skrl's torch_gymnasium_pendulum_ddpg.py."""

from skrl.agents.torch.ddpg import DDPG, DDPG_CFG

from adapters.skrl.build import Parts, Settings
from adapters.skrl.models import Actor, Critic, Spaces


def parts(settings: Settings, spaces: Spaces) -> Parts:
    """The agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    models = {role: Actor(spaces, hidden) for role in ("policy", "target_policy")}
    models |= {role: Critic(spaces, hidden) for role in ("critic", "target_critic")}
    return Parts(DDPG, DDPG_CFG, models)
