"""Releases of Stable-Baselines3 that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

_POLICIES = "stable_baselines3.common.policies"
# Releases before 2.4 require gymnasium below 0.30 (their setup.py) and call what 1.0 removed.
VERSIONS = VersionRange(
    "stable-baselines3",
    "2.0",
    "2.10",
    why_not_older="Before 2.0 tasks are those of gym, not of Gymnasium.",
    companions={"2.4": ("gymnasium==0.29.1",)},
    update_modules={
        "ppo": ("stable_baselines3.ppo.ppo", _POLICIES),
        **{
            name: (
                f"stable_baselines3.{name}.{name}",
                f"stable_baselines3.{name}.policies",
                _POLICIES,
            )
            for name in ("td3", "sac", "dqn")
        },
    },
)
