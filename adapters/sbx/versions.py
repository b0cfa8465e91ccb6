"""Releases of sbx that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

VERSIONS = VersionRange("sbx-rl", "0.13", "0.29")
