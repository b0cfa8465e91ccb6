"""Releases of sbx that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

VERSIONS = VersionRange(
    "sbx-rl",
    "0.13",
    "0.29",
    update_modules={
        name: (f"sbx.{name}.{name}", f"sbx.{name}.policies", "sbx.common.policies")
        for name in ("ppo", "td3", "sac", "dqn")
    },
)
