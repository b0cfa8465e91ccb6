"""Releases of Tianshou that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

VERSIONS = VersionRange(
    "tianshou",
    "2.0",
    "2.1",
    why_not_older="Before 2.0 there are policies and trainers in the place of algorithms.",
    update_modules={
        "ppo": ("tianshou.algorithm.modelfree.ppo", "tianshou.algorithm.modelfree.a2c"),
        "td3": ("tianshou.algorithm.modelfree.td3", "tianshou.algorithm.modelfree.ddpg"),
        "sac": ("tianshou.algorithm.modelfree.sac", "tianshou.algorithm.modelfree.ddpg"),
        "ddpg": ("tianshou.algorithm.modelfree.ddpg",),
        "dqn": ("tianshou.algorithm.modelfree.dqn",),
    },
)
