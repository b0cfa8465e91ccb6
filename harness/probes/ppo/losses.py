"""Probes of PPO's value loss, entropy bonus and their sum."""

from collections.abc import Sequence

import numpy as np

from harness.probes import oracles, words
from harness.probes.lab import Lab
from harness.probes.ppo import readings, runs
from harness.probes.ppo.readings import kept, rows_of
from harness.probes.ppo.runs import CLIP, CODE, ENTROPY, PAPER, VF
from harness.probes.probe import Measurement, Probe
from harness.probes.readings import spread
from harness.probes.results import Axis


def _value_loss(lab: Lab) -> Measurement:
    measured = spread(readings.value_factor(runs.update(lab)) / VF)
    return Measurement(measured, np.full_like(measured, 2.0))


def _value_clipping(lab: Lab) -> Measurement:
    run = runs.long(lab)
    steps, factor = readings.later(run), float(np.median(readings.value_factor(run)))
    rows = np.concatenate([rows_of(run, step) for step in steps])
    seen = readings.observations(run)
    now = np.concatenate([readings.values(s.before, seen[rows_of(run, s)]) for s in steps])
    measured = np.concatenate([readings.value_slope(run, step) for step in steps]) / factor
    old, returns = readings.values(run.weights, seen)[rows], run.record.stored["returns"][rows]
    plain, inside = now - returns, np.abs(now - old) < CLIP
    clipped = old + np.clip(now - old, -CLIP, CLIP) - returns
    smaller = inside | (plain**2 < clipped**2)
    others = {
        "the clipped error alone, so no pull beyond the range": np.where(inside, plain, 0.0),
        "the smaller of both errors": np.where(smaller, plain, 0.0),
        "not clipped": plain,
    }
    expected = oracles.clipped_value_slope(now, old, returns, CLIP) / 2
    return readings.ordered(measured, expected, Axis("change of the prediction", now - old), others)


def _entropy(lab: Lab) -> Measurement:
    with_bonus, without = kept(runs.entropic(lab), 0), kept(runs.update(lab), 0)
    name = "policy.log_std"
    pull = (with_bonus.gradients[name] - without.gradients[name]).ravel() / ENTROPY
    return Measurement(pull, -np.ones_like(pull))


def _total(lab: Lab) -> Measurement:
    run = runs.entropic(lab)
    step, stored = kept(run, 0), run.record.stored
    rows = rows_of(run, step)
    seen = readings.observations(run)[rows]
    errors = readings.values(step.before, seen) - stored["returns"][rows]
    bonus = oracles.gaussian_entropy(step.before["policy.log_std"])
    policy, value = -stored["advantages"][rows].mean(), VF * float(np.mean(errors**2))
    others = {"half the value loss": np.array([policy + value / 2 - ENTROPY * bonus])}
    expected = np.array([policy + value - ENTROPY * bonus])
    return Measurement(np.array([run.record.losses[0].value]), expected, alternatives=others)


def _gradient_clipping(lab: Lab) -> Measurement:
    gradients = kept(runs.loud(lab), 0).gradients
    norm = float(np.sqrt(sum(float((g**2).sum()) for g in gradients.values())))
    return Measurement(np.array([norm]), np.array([0.5]))


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.value_loss_factor",
        "How strongly is the value drawn to its target?",
        f"{PAPER}, eq. 9: vf_coef times the mean squared error",
        "second derivative of the value loss by a prediction, times the minibatch size: "
        "smallest, median and largest",
        _value_loss,
        words.relation("pull on the value"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.value_clipping",
        "How strongly is the value drawn to its target when its change is clipped?",
        f"{CODE}: the larger of the clipped and the plain squared error",
        "derivative of the value loss by a prediction, over its second derivative",
        _value_clipping,
        words.relation("pull on the value"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.entropy_bonus",
        "How strongly does the entropy bonus pull on the log standard deviation?",
        f"{PAPER}, eq. 9: ent_coef times the entropy of the Gaussian is added to the objective",
        "derivative of the loss by each log standard deviation, over ent_coef",
        _entropy,
        words.relation("pull of the entropy bonus"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.total_loss",
        "What is differentiated?",
        f"{PAPER}, eq. 9: policy loss plus vf_coef value loss minus ent_coef entropy",
        "loss of the first minibatch",
        _total,
        words.listed(("total loss",)),
    ),
    Probe(
        "ppo.gradient_clipping",
        "Which norm has a huge gradient after clipping, by default?",
        f"{CODE}: 0.5, of all parameters together",
        "norm of the gradient that the optimiser gets",
        _gradient_clipping,
        words.relation("norm of the gradient"),
        tolerance=0.01,
    ),
)
