"""Probes of what can be set, and of what is set by default."""

from harness.probes.probe import Probe
from harness.probes.settings import defaults, options, single_statements

PROBES: tuple[Probe, ...] = (*options.PROBES, *defaults.PROBES, *single_statements.PROBES)
