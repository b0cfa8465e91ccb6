"""Probes that count what happens over a run of DQN."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes.dqn import trainings
from harness.probes.dqn.exploration import undecided
from harness.probes.dqn.trainings import ALGORITHM
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, listed
from harness.probes.results import Array
from harness.probes.setups import ROWS

NEVER = -1.0
NAMES = (
    "environment steps",
    "warm-up steps",
    "environment steps at the first update",
    "updates",
    "environment steps between two updates",
    "target updates",
    "environment steps at the first target update",
    "updates until then",
    "environment steps between two target updates",
)


def counted(run: Run) -> Array:
    """The counts of `NAMES`; -1 for what never happens."""
    updates = [step.env_steps for step in run.record.steps]
    moves = [(steps, taken) for steps, taken, _ in run.record.target_moves]
    at = [steps for steps, _ in moves]
    return np.array(
        [
            len(run.transitions),
            undecided(run),
            updates[0] if updates else NEVER,
            len(updates),
            between(sorted(set(updates))),
            len(moves),
            at[0] if moves else NEVER,
            moves[0][1] if moves else NEVER,
            between(at),
        ],
        dtype=float,
    )


EVEN_NAMES = ("environment steps", "environment steps at the first update", "updates")


def _even(lab: Lab) -> Measurement:
    run = trainings.acting(lab)
    steps, updates = len(run.transitions), [step.env_steps for step in run.record.steps]
    value = [steps, updates[0] if updates else NEVER, len(updates)]
    return Measurement(np.array(value, float), np.array([steps, steps, 1.0]))


def between(steps: Sequence[int]) -> float:
    """The longest time from one event to the next; `NEVER` where there are not two."""
    return float(np.max(np.diff(steps))) if len(steps) > 1 else NEVER


def _expected(run: Run) -> Array:
    hp, asked = run.hyperparameters, len(run.experiment.dictation.rewards)
    cadence = hp.cadence(asked)
    every = hp.env_steps_per_round
    interval = hp.target_interval_in_updates()
    rounds_before = (interval - 1) // hp.gradient_steps_per_round
    return np.array(
        [
            asked,
            cadence.random_steps,
            cadence.first_update,
            cadence.gradient_steps,
            every,
            cadence.gradient_steps // interval,
            cadence.first_update + rounds_before * every,
            interval,
            hp.target_update_interval,
        ],
        dtype=float,
    )


def _probe(name: str, question: str, runner: Callable[[Lab], Run]) -> Probe:
    return Probe(
        name,
        question,
        f"{ALGORITHM}: every so many steps an update once the warm-up is over, every so many "
        "updates a copy to the target after the last of them",
        ", ".join(NAMES),
        lambda lab: Measurement(counted(runner(lab)), _expected(runner(lab))),
        listed(NAMES),
        counts=True,
    )


PROBES: Sequence[Probe] = (
    _probe(
        "dqn.counts",
        "What happens how often, and when for the first time?",
        trainings.counting,
    ),
    _probe(
        "dqn.counts_with_copies",
        "What happens how often with 4 copies of the environment, by transitions?",
        trainings.copies,
    ),
    Probe(
        "dqn.counts_of_even_rounds",
        f"What happens how often in {ROWS} steps, told to update every {ROWS}, without a warm-up?",
        f"{ALGORITHM}: an update every so many steps",
        ", ".join(EVEN_NAMES),
        _even,
        listed(EVEN_NAMES),
        counts=True,
    ),
)
