"""Releases of CleanRL that this adapter drives, and what differs in the scripts of 1.1.0."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from parallax.harness.contract.versions import VersionRange, parse_version

VERSIONS = VersionRange(
    "cleanrl",
    "1.1",
    "1.3",
    why_not_older="Scripts up to 0.5.0 have replay buffers and loops of another form.",
    update_modules={
        "ppo": ("cleanrl.ppo_continuous_action",),
        "td3": ("cleanrl.td3_continuous_action",),
        "sac": ("cleanrl.sac_continuous_action",),
        "ddpg": ("cleanrl.ddpg_continuous_action",),
        "dqn": ("cleanrl.dqn",),
    },
)
SCRIPTS_BEFORE_1_2: Mapping[str, str] = {
    "ppo_continuous_action.py": "965b9bdb5ac6d066f342f48b2c08e3b751a46ab3bc8cd8c9721c5cdcfd6ab020",
    "ppo.py": "bc30f6a822e570e8c4fd973c738a5a449c2fc95ef9c74fef261062e087a682a9",
    "ppo_atari.py": "b9a71b6c700c0e5fffb3fb06e86ebe15633c623207a106782df3898d92dc4631",
    "td3_continuous_action.py": "d464a156859c82d09d76983ceebd2e56e61980680ac5043ac8b1b1f131e80c3b",
    "sac_continuous_action.py": "31a7f30f0f95155b4cb863bb66f51376429a1a7fff57e8ae5487c77c0d5fb1f3",
    "ddpg_continuous_action.py": "2ba4a125099b52eefab7398841adf596689e1fdafbf27aa7aa55f3c4e6288008",
    "dqn.py": "00be4e239da50de92b4f19cd723beab821e7e8ddade8e4ef91792eb41be96bce",
}
"""The sha256 of each script in cleanrl 1.1.0."""


def is_before_1_2() -> bool:
    """Return whether the installed release is 1.1.0: its DQN copies target networks as a whole."""
    try:
        return parse_version(version("cleanrl")) < (1, 2)
    except PackageNotFoundError:
        return False
