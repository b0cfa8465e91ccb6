"""Releases of Tianshou that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

# Algorithms are policies with other arguments before 2.0.
VERSIONS = VersionRange(
    "tianshou",
    "2.0",
    "2.1",
    update_modules={
        "ppo": ("tianshou.algorithm.modelfree.ppo", "tianshou.algorithm.modelfree.a2c"),
        "td3": ("tianshou.algorithm.modelfree.td3", "tianshou.algorithm.modelfree.ddpg"),
        "sac": ("tianshou.algorithm.modelfree.sac", "tianshou.algorithm.modelfree.ddpg"),
        "ddpg": ("tianshou.algorithm.modelfree.ddpg",),
        "dqn": ("tianshou.algorithm.modelfree.dqn",),
    },
)
