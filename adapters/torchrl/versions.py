"""Releases of TorchRL that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

# Each minor version loads with its own tensordict only.
VERSIONS = VersionRange(
    "torchrl",
    "0.9",
    "0.15",
    why_not_older="Up to 0.7 they refuse Gymnasium 1, or losses lack options; 0.8's PPO differs.",
    companions={
        "0.10": ("tensordict==0.9.1",),
        "0.11": ("tensordict==0.10.0",),
        "0.12": ("tensordict==0.11.0",),
        "0.13": ("tensordict==0.12.4",),
        "0.14": ("tensordict==0.13.0",),
    },
    update_modules={
        "ppo": ("torchrl.objectives.ppo", "torchrl.objectives.value.advantages"),
        "td3": ("torchrl.objectives.td3",),
        "sac": ("torchrl.objectives.sac",),
        "ddpg": ("torchrl.objectives.ddpg",),
        "dqn": ("torchrl.objectives.dqn",),
    },
)
