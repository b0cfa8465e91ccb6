"""Releases of skrl that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

_MODELS = {"ppo": "gaussian", "sac": "gaussian"}
VERSIONS = VersionRange(
    "skrl",
    "2.0",
    "2.2",
    why_not_older="Before 2.0 options are dictionaries, and models take other inputs.",
    update_modules={
        name: (
            f"skrl.agents.torch.{name}.{name}",
            f"skrl.models.torch.{_MODELS.get(name, 'deterministic')}",
        )
        for name in ("ppo", "td3", "sac", "dqn", "ddpg")
    },
)
