"""Generalised advantage estimates of PPO's rollouts."""

import numpy as np

from harness.probes import oracles
from harness.probes.contract import Parameters
from harness.probes.lab import Run
from harness.probes.ppo.readings import start, transitions, values
from harness.probes.ppo.runs import GAMMA, LAMBDA
from harness.probes.results import Array
from harness.probes.world import TERMINATED, Transition


def advantages(
    run: Run,
    rollout: int = 0,
    lam: float = LAMBDA,
    bootstraps: bool = False,
    runs_on: bool = False,
) -> Array:
    """Generalised advantage estimates of a rollout of one environment.

    Args:
        run: The training.
        rollout: Which rollout.
        lam: Weight of longer sums.
        bootstraps: Whether the value after the end of the task counts: it should not.
        runs_on: Whether sums run on across ends: they should not.
    """
    steps = transitions(run, rollout)
    return advantages_of(start(run, rollout), steps, lam, bootstraps, runs_on)


def advantages_of(
    weights: Parameters,
    steps: tuple[Transition, ...],
    lam: float = LAMBDA,
    bootstraps: bool = False,
    runs_on: bool = False,
) -> Array:
    """The same for steps that follow each other."""
    ends = np.array([t.end for t in steps])
    return oracles.gae(
        np.array([t.reward for t in steps]),
        values(weights, np.array([t.observation for t in steps])),
        values(weights, np.array([t.next_observation for t in steps])),
        np.where(bootstraps, 0.0, ends == TERMINATED),
        np.where(runs_on, 0.0, ends > 0),
        GAMMA,
        lam,
    )
