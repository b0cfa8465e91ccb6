"""Releases of sbx that this adapter drives."""

from collections.abc import Mapping
from typing import Any

from parallax.harness.contract.versions import VersionRange

VERSIONS = VersionRange(
    "sbx-rl",
    "0.13",
    "0.29",
    why_not_older="Older ones were not tried.",
    update_modules={
        name: (f"sbx.{name}.{name}", f"sbx.{name}.policies", "sbx.common.policies")
        for name in ("ppo", "td3", "sac", "dqn")
    },
)
LATER_ARGUMENTS: Mapping[str, Any] = {
    "target_entropy": "auto",  # SAC, 0.15.0
    "replay_buffer_kwargs": {"handle_timeout_termination": True},  # DQN, 0.22.0
}
"""Arguments that older releases lack, and the only values that those releases have."""
