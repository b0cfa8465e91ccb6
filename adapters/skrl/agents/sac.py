"""SAC with models as in skrl's torch_gymnasium_pendulum_sac.py."""

from skrl.agents.torch.sac import SAC, SAC_CFG

from adapters.skrl.build import Parts, Settings
from adapters.skrl.models import Critic, GaussianActor, Spaces


def parts(settings: Settings, spaces: Spaces) -> Parts:
    """The agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    critics = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
    models = {"policy": GaussianActor(spaces, hidden)}
    models |= {role: Critic(spaces, hidden) for role in critics}
    return Parts(SAC, SAC_CFG, models)
