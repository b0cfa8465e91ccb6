"""Probes of what can be set, and of what is set by default."""

from harness.probes.probe import Probe
from harness.probes.settings import defaults, details, options

PROBES: tuple[Probe, ...] = (*options.PROBES, *defaults.PROBES, *details.PROBES)
