"""Probes of recurrent replay distributed DQN."""

from harness.probes.probe import Probe
from harness.probes.r2d2 import counts, memory, priorities, targets, trainings
from harness.probes.shared import optimizers

PROBES: tuple[Probe, ...] = (
    *targets.PROBES,
    *memory.PROBES,
    *priorities.PROBES,
    *counts.PROBES,
    optimizers.step_probe("r2d2", trainings.bandit, ("critic1",)),
)
