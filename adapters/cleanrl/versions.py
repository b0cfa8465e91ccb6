"""Releases of CleanRL that this adapter drives."""

from parallax.harness.contract.versions import VersionRange

# Its scripts are checked by their hash; those of 1.1.0 make environments and log in another way.
VERSIONS = VersionRange("cleanrl", "1.2", "1.3")
