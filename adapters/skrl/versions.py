"""Releases of skrl that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

_MODELS = {"ppo": "gaussian", "sac": "gaussian"}
# Options are dictionaries and models take other inputs before 2.0.
VERSIONS = VersionRange(
    "skrl",
    "2.0",
    "2.2",
    update_modules={
        name: (
            f"skrl.agents.torch.{name}.{name}",
            f"skrl.models.torch.{_MODELS.get(name, 'deterministic')}",
        )
        for name in ("ppo", "td3", "sac", "dqn", "ddpg")
    },
)
