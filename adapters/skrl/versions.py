"""Releases of skrl that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

# Options are dictionaries and models take other inputs before 2.0.
VERSIONS = VersionRange("skrl", "2.0", "2.2")
