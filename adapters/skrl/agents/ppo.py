"""PPO with models as in skrl's torch_gymnasium_pendulum_ppo.py."""

from skrl.agents.torch.ppo import PPO, PPO_CFG

from adapters.skrl.build import Parts, Settings
from adapters.skrl.models import GaussianActor, Spaces, Value


def parts(settings: Settings, spaces: Spaces) -> Parts:
    """The agent's class and its models."""
    hidden = settings["models.hidden_sizes"]
    models = {"policy": GaussianActor(spaces, hidden), "value": Value(spaces, hidden)}
    return Parts(PPO, PPO_CFG, models)
