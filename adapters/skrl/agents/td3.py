"""TD3 with models as in skrl's torch_gymnasium_pendulum_td3.py."""

from skrl.agents.torch.td3 import TD3, TD3_CFG

from adapters.skrl.build import Parts, Settings
from adapters.skrl.models import Actor, Critic, Spaces


def parts(settings: Settings, spaces: Spaces) -> Parts:
    """The agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    models = {role: Actor(spaces, hidden) for role in ("policy", "target_policy")}
    critics = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
    models |= {role: Critic(spaces, hidden) for role in critics}
    return Parts(TD3, TD3_CFG, models)
