"""Probes of R2D2's loss and targets."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.contract import Step
from harness.probes.dqn.losses import pull_of_head
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, relation
from harness.probes.r2d2 import network, sequences, trainings
from harness.probes.r2d2.sequences import Sequence as Drawn
from harness.probes.r2d2.trainings import COARSE, DISCOUNT, FINE, PAPER, SUMMED
from harness.probes.readings import critic_updates
from harness.probes.results import Array, Axis

WANG = "Wang et al. 2016 (arXiv:1511.06581), eq. 9"
Told = Callable[[Run, Step, Drawn], Array]
"""Something of each step of a sequence, by a formula, float[length]."""


def _pulls(run: Run) -> Array:
    return np.concatenate(
        [sequences.pulls(run, s)[place] for s, place, _ in sequences.distinct(run)]
    )


def _all(run: Run, told: Told) -> Array:
    return np.concatenate([told(run, step, drawn) for step, _, drawn in sequences.distinct(run)])


def _predictions(run: Run, step: Step, drawn: Drawn) -> Array:
    return sequences.predictions(run, drawn, step.before)


def _targets(run: Run, step: Step, drawn: Drawn) -> Array:
    return sequences.targets(run, drawn, step.before)


def _read(run: Run) -> Array:
    """What predictions are drawn to, where the loss is half the squared error."""
    return _all(run, _predictions) - _pulls(run)


def _loss(lab: Lab) -> Measurement:
    run = trainings.bandit(lab)
    errors = _all(run, lambda r, step, drawn: sequences.errors(r, drawn, step.before))
    lengths = _all(run, lambda r, step, drawn: np.full(drawn.length, float(drawn.length)))
    others = {
        "twice the paper's": 2 * errors,
        "the mean over a sequence's steps": errors / lengths,
        "the mean over as many steps as a sequence may have": errors / trainings.LENGTH,
        "the error cut at -1 and 1": np.clip(errors, -1, 1),
    }
    return Measurement(_pulls(run), errors, Axis("error", errors), others)


def _rescaled(lab: Lab) -> Measurement:
    run = trainings.rewarded(lab)
    paid = _all(run, lambda r, step, drawn: sequences.rewards(r, drawn))
    others = {
        "rewards as they are": paid,
        "without the linear part": formulas.rescaled(paid, 0.0),
        "rewards cut at -1 and 1": np.clip(paid, -1, 1),
    }
    return Measurement(_read(run), formulas.rescaled(paid, COARSE), Axis("reward", paid), others)


def _restored(lab: Lab) -> Measurement:
    run = trainings.future(lab)

    def best(run: Run, step: Step, drawn: Drawn) -> Array:
        layers = network.part(step.before, "critic1_target")
        return np.asarray(sequences.values(run, drawn, layers).max(axis=1)[1:])

    following, expected = _all(run, best), _all(run, _targets)
    others = {
        "without the inverse": np.where(
            expected, formulas.rescaled(DISCOUNT * following, COARSE), 0
        ),
        "the discounted value, without h and its inverse": np.where(
            expected, DISCOUNT * following, 0
        ),
    }
    axis = Axis("value of what follows, as the network has it", following)
    return Measurement(_read(run), expected, axis, others)


def _summed(last: bool) -> Callable[[Lab], Measurement]:
    # Of steps with as many rewards left in their sequence as are summed, or of the others.
    def measure(lab: Lab) -> Measurement:
        run = trainings.several(lab)
        left = _all(run, lambda r, step, drawn: drawn.length - np.arange(drawn.length, dtype=float))
        these = (left < SUMMED) if last else (left >= SUMMED)
        value, expected = _read(run)[these], _all(run, _targets)[these]
        return Measurement(value, expected, Axis("rewards left in the sequence", left[these]))

    return measure


def _double(lab: Lab) -> Measurement:
    run = trainings.double(lab)
    largest = _all(run, lambda r, step, drawn: sequences.targets(r, drawn, step.before, False))
    others = {"the largest value of the target network": largest}
    return Measurement(_read(run), _all(run, _targets), None, others)


def _norm(lab: Lab) -> Measurement:
    steps = critic_updates(trainings.clipped(lab))[:2]
    norms = [np.sqrt(sum(np.sum(g**2) for g in step.gradients.values())) for step in steps]
    return Measurement(np.array(norms), np.full(len(norms), trainings.NORM))


def _heads(lab: Lab) -> Measurement:
    run = trainings.dueling(lab)
    step = critic_updates(run)[0]
    layers = network.part(step.before, "critic1")
    drawn = {s.begin: s for s in sequences.minibatch(run, step)}.values()
    shown = np.vstack([sequences.shown(run, s, layers)[:-1] for s in drawn])
    chosen = np.concatenate([sequences.actions(run, s) for s in drawn])
    value = pull_of_head(step, shown, "value")
    advantage = pull_of_head(step, shown, "advantage")
    taken = np.eye(advantage.shape[1])[chosen]
    best = np.eye(taken.shape[1])[network.head(layers, shown, "advantage", "advantage0").argmax(1)]
    others = {
        "advantages without their mean taken off": value * taken,
        "the largest advantage is taken off": value * (taken - best),
    }
    expected = value * (taken - 1 / taken.shape[1])
    return Measurement(advantage, expected, None, others)


def _target(
    name: str, question: str, citation: str, measure: Callable[[Lab], Measurement]
) -> Probe:
    quantity = "what predictions are drawn to, in the network's units, in the first updates"
    words = relation("target")
    return Probe(f"r2d2.{name}", question, citation, quantity, measure, words, tolerance=2e-3)


PROBES: Sequence[Probe] = (
    Probe(
        "r2d2.sequence_loss",
        "How strongly is a value drawn to its target, by the error?",
        f"{PAPER} does not tell; here half the squared error, summed over a sequence's steps",
        "derivative of the loss by the prediction, times the sequences of the minibatch",
        _loss,
        relation("pull on the value"),
        tolerance=2e-3,
    ),
    _target(
        "rescaled_reward",
        f"What are values drawn to without a future, by the reward, at an epsilon of {COARSE:g}?",
        f"{PAPER}, section 2.3: h of it",
        _rescaled,
    ),
    _target(
        "inverse_rescaling",
        f"What are values drawn to without rewards, by what follows, at an epsilon of {COARSE:g}?",
        f"{PAPER}, section 2.3: h of the discounted inverse of h of it",
        _restored,
    ),
    _target(
        "n_step_target",
        f"What are values drawn to, told to sum {SUMMED} rewards, at an epsilon of {FINE:g}?",
        f"{PAPER}, section 2.3: h of their discounted sum and bootstrap",
        _summed(last=False),
    ),
    _target(
        "last_steps_target",
        "What are values drawn to where fewer rewards are left in the sequence than are summed?",
        f"{PAPER} does not tell; here those left and what is behind them, but for the task's end",
        _summed(last=True),
    ),
    _target(
        "double_q",
        "Whose choice is valued in targets of double Q-learning?",
        f"{PAPER}, section 2.3: that of the online network",
        _double,
    ),
    Probe(
        "r2d2.gradient_clipping",
        f"Which norm have gradients that are clipped at {trainings.NORM}?",
        "Pascanu et al. 2013 (arXiv:1211.5063), algorithm 1: that norm, over all layers",
        "norm, in the first two updates",
        _norm,
        relation("norm"),
        tolerance=1e-3,
    ),
    Probe(
        "r2d2.dueling_head",
        "How is a pull on a value shared out among the advantages of a duelling network?",
        f"{WANG}: the mean of the advantages is taken off",
        "derivative of the loss by each advantage, times a constant",
        _heads,
        relation("pull on the advantages"),
        tolerance=5e-3,
    ),
)
