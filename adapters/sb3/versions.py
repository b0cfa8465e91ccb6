"""Releases of Stable-Baselines3 that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

# Releases before 2.4 require gymnasium below 0.30 (their setup.py) and call what 1.0 removed.
VERSIONS = VersionRange(
    "stable-baselines3", "2.0", "2.10", companions={"2.4": ("gymnasium==0.29.1",)}
)
