"""Probes of R2D2's priorities: how likely sequences are to be drawn, and what they weigh."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.contract import Step
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, Unmeasured, relation
from harness.probes.r2d2 import sequences, trainings
from harness.probes.r2d2.trainings import BETA, EXPONENT, PAPER, SHARE
from harness.probes.readings import UPDATES, steps_of
from harness.probes.results import Array, Axis

ATOM = 1e-6
"""What is added to errors, so that each can be drawn; the paper has no such number."""


def _updates(run: Run) -> list[Step]:
    return steps_of(run, "critic1")


def likely(run: Run, share: float = SHARE, updates: int | None = None) -> Array:
    """Probabilities of the sequences that are stored, after some updates.

    Args:
        run: The training, with one environment.
        share: Eta.
        updates: How many updates have told their errors; the sequences are those of the next one,
            or of the end. None is all.

    Returns:
        float[sequences], in the order in which they were stored.
    """
    steps, cut = _updates(run), sequences.cut(run)
    number = {s.begin: place for place, s in enumerate(cut)}
    told = steps if updates is None else steps[:updates]
    clocks = [step.env_steps for step in steps] + [len(run.transitions)]
    errors, largest = np.zeros(0), 1.0
    for place, clock in enumerate(clocks[: len(told) + 1]):
        stored = sum(s.begin + s.length <= clock for s in cut)
        # What has not been learned from yet is as likely as what is most likely so far.
        errors = np.append(errors, np.full(stored - len(errors), largest - ATOM))
        if place == len(told):
            break
        for s in sequences.minibatch(run, told[place]):
            found = sequences.errors(run, s, told[place].before)
            errors[number[s.begin]] = formulas.sequence_priority(found, share)
            largest = max(largest, errors[number[s.begin]] + ATOM)
    powers = (errors + ATOM) ** EXPONENT
    return np.asarray(powers / powers.sum())


def _priorities(lab: Lab) -> Measurement:
    run = trainings.prioritised(lab)
    found = run.record.stored.get("probabilities")
    if found is None:
        raise Unmeasured("what it draws sequences by was not told")
    others = {
        "of the largest error alone": likely(run, 1.0),
        "of the mean error alone": likely(run, 0.0),
    }
    axis = Axis("number of the sequence", np.arange(len(found), dtype=float))
    return Measurement(np.asarray(found, float), likely(run), axis, others)


def _weights(lab: Lab) -> Measurement:
    run = trainings.prioritised(lab)
    number = {s.begin: place for place, s in enumerate(sequences.cut(run))}
    value, expected, plain = [], [], []
    for done, step in enumerate(_updates(run)[:UPDATES]):
        drawn, probabilities = sequences.minibatch(run, step), likely(run, updates=done)
        chances = probabilities[[number[s.begin] for s in drawn]]
        weights = formulas.importance_weights(chances, len(probabilities), BETA)
        expected.append(weights)
        plain.append((1 / (len(probabilities) * chances)) ** BETA)
        for s, pull in zip(drawn, sequences.pulls(run, step), strict=True):
            errors = sequences.errors(run, s, step.before)
            value.append(float(pull @ errors / (errors @ errors)))
    others = {
        "none": np.ones(len(value)),
        "not divided by the largest of the minibatch": np.concatenate(plain),
    }
    return Measurement(np.array(value), np.concatenate(expected), None, others)


def _probe(
    name: str, question: str, answer: str, quantity: str, measure: Callable[[Lab], Measurement]
) -> Probe:
    words = relation(name.replace("_", " "))
    citation = f"{PAPER}, section 2.3 and table 2: {answer}"
    return Probe(f"r2d2.{name}", question, citation, quantity, measure, words, tolerance=5e-3)


PROBES: Sequence[Probe] = (
    _probe(
        "priorities",
        "How likely is each sequence to be drawn, after some updates?",
        f"by ({SHARE:g} of its largest error and {1 - SHARE:.1g} of their mean) to the power of "
        f"{EXPONENT:g}",
        "probability of each sequence that is stored",
        _priorities,
    ),
    _probe(
        "importance_weights",
        "What do the sequences of a minibatch weigh?",
        f"(1 / (N P)) to the power of {BETA:g}, over the largest of them",
        "pull on its values over their errors, of each sequence of the first updates",
        _weights,
    ),
)
