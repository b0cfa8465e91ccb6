"""Probes that count what happens over a run of R2D2, and what its actors do."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.dqn.counts import NEVER, between
from harness.probes.lab import Lab
from harness.probes.probe import Measurement, Probe, Unmeasured, listed, relation
from harness.probes.r2d2 import sequences, trainings
from harness.probes.r2d2.trainings import ACTORS, BASE, PAPER, REFRESH, ROUND, SPREAD
from harness.probes.readings import steps_of
from harness.probes.results import Array

NAMES = (
    "environment steps",
    "environment steps at the first update",
    "updates",
    "environment steps between two rounds",
    "target updates",
    "environment steps at the first target update",
    "updates until then",
    "environment steps between two target updates",
)
STORED = ("sequences", "begins that differ", "lengths that differ", "burn-ins that differ")
HORGAN = "Horgan et al. 2018 (arXiv:1803.00933), section 4"


def _counts(lab: Lab) -> Measurement:
    run = trainings.counting(lab)
    hp, steps = run.hyperparameters, len(run.experiment.dictation.rewards)
    updates = [step.env_steps for step in run.record.steps]
    moves = [(at, taken) for at, taken, _ in run.record.target_moves]
    value = [
        len(run.transitions),
        updates[0] if updates else NEVER,
        len(updates),
        between(sorted(set(updates))),
        len(moves),
        *(moves[0] if moves else (NEVER, NEVER)),
        between([at for at, _ in moves]),
    ]
    rounds = (steps - hp.learning_starts) // ROUND + 1
    interval = hp.target_update_interval * trainings.UPDATES // ROUND
    copies = rounds * trainings.UPDATES // interval
    before = (interval - 1) // trainings.UPDATES * ROUND
    expected = [
        steps,
        hp.learning_starts,
        rounds * trainings.UPDATES,
        ROUND,
        copies,
        hp.learning_starts + before,
        interval,
        hp.target_update_interval,
    ]
    return Measurement(np.array(value, float), np.array(expected, float))


def _refreshed(lab: Lab) -> Measurement:
    run = trainings.counting(lab)
    found = []
    for step in steps_of(run, "critic1"):
        actor = step.before.get("actor.out.weight")
        if actor is None:
            raise Unmeasured("what its actors act with was not told")
        if np.array_equal(actor, step.before["critic1.out.weight"]):
            found.append(step.env_steps)
    hp = run.hyperparameters
    every = -(-REFRESH // ROUND) * ROUND  # at the head of a round
    first = range(hp.learning_starts, len(run.transitions) + 1, ROUND)
    expected = [at for at in first if (at - ROUND) % every == 0]
    return Measurement(np.array(found, float), np.array(expected, float))


def _stored(lab: Lab) -> Measurement:
    run = trainings.counting(lab)
    cut, held = sequences.cut(run), run.record.stored
    if "begins" not in held:
        raise Unmeasured("how it cuts sequences was not told")
    due: dict[str, Array] = {
        "begins": np.array([s.offset for s in cut], float),
        "lengths": np.array([s.length for s in cut], float),
        "burned": np.array([sequences.burned(run, s) for s in cut], float),
    }
    number = min(len(cut), len(held["begins"]))
    differ = [float(np.sum(held[name][:number] != due[name][:number])) for name in due]
    value = np.array([len(held["begins"]), *differ], float)
    return Measurement(value, np.array([len(cut), 0, 0, 0], float))


def _exploration(lab: Lab) -> Measurement:
    run = trainings.actors(lab)
    if not run.thresholds:
        raise Unmeasured("it compares no random number with its shares of random actions")
    # Coins are also tossed when a collector finds out what its policy puts out.
    found = np.array([share for steps, share in run.thresholds if steps])
    rounds = len(run.transitions) // ACTORS - 1
    return Measurement(found, np.tile(formulas.actor_epsilons(BASE, SPREAD, ACTORS), rounds))


PROBES: Sequence[Probe] = (
    Probe(
        "r2d2.counts",
        "What happens how often, and when for the first time?",
        f"{PAPER}: updates go on while actors act, and the target is copied every so many of them; "
        "here by environment steps, once the warm-up is over",
        ", ".join(NAMES),
        _counts,
        listed(NAMES),
        counts=True,
    ),
    Probe(
        "r2d2.actor_refresh",
        f"When have actors the learner's parameters, told to get them every {REFRESH} steps, in "
        f"rounds of {ROUND}?",
        f"{PAPER}, table 2: every so many steps; here at the head of the round after",
        "environment steps at the updates that find them equal",
        _refreshed,
        relation("environment steps"),
        counts=True,
    ),
    Probe(
        "r2d2.sequences",
        f"Which sequences are stored, of {trainings.LENGTH} steps that overlap by "
        f"{trainings.OVERLAP}?",
        f"{PAPER}, section 2.3: one begins so much later than the one before, none crosses the end "
        "of an episode; here the last may be shorter",
        ", ".join(STORED),
        _stored,
        listed(STORED),
        counts=True,
    ),
    Probe(
        "r2d2.exploration",
        f"How often does each of {ACTORS} actors take a random action?",
        f"{HORGAN}: base^(1 + exponent i / (N - 1)), of {BASE:g} and {SPREAD:g}",
        "share of random actions, by actor, from the second step on",
        _exploration,
        relation("share"),
        tolerance=1e-5,
    ),
)
