"""Probes of PPO's policy loss."""

from collections.abc import Sequence

import numpy as np

from harness.probes import oracles, words
from harness.probes.lab import Lab
from harness.probes.ppo import readings, runs
from harness.probes.ppo.readings import kept, rows_of
from harness.probes.ppo.runs import CLIP, CODE, PAPER
from harness.probes.probe import Measurement, Probe
from harness.probes.results import Axis

EPS = 1e-8


def _normalised(lab: Lab) -> Measurement:
    run = runs.normalising(lab)
    step = kept(run, 0)
    every = run.record.stored["advantages"]
    raw = every[rows_of(run, step)]
    measured, _ = readings.surrogate_slope(run, step)
    scale = np.sqrt(1 - 1 / len(raw))
    sample = (raw - raw.mean()) / (raw.std(ddof=1) + EPS)
    others = {
        f"divided by the sample deviation (n - 1), so {scale:.4f} times as large": sample,
        "standardised over the whole rollout": (raw - every.mean()) / (every.std() + EPS),
        "standardised over the whole rollout, by the sample deviation (n - 1)": (raw - every.mean())
        / (every.std(ddof=1) + EPS),
        "not standardised": raw,
        "divided by the deviation, but not centred": raw / (raw.std(ddof=1) + EPS),
        "centred, but not divided by the deviation": raw - raw.mean(),
    }
    return readings.ordered(measured, oracles.standardised(raw), Axis("raw advantage", raw), others)


def _surrogate(lab: Lab) -> Measurement:
    run = runs.long(lab)
    steps = readings.later(run)
    ratio = np.exp(np.concatenate([readings.log_ratio(run, step) for step in steps]))
    rows = np.concatenate([rows_of(run, step) for step in steps])
    measured = np.concatenate([readings.surrogate_slope(run, step)[0] for step in steps])
    weight = run.record.stored["advantages"][rows]
    plain, inside = weight * ratio, np.abs(ratio - 1) <= CLIP
    expected = oracles.surrogate_slope(weight, ratio, CLIP)
    others = {
        "not clipped": plain,
        "the clipped objective alone, without the minimum": np.where(inside, plain, 0.0),
        "the larger of both objectives, not the smaller": np.where(
            inside | (expected == 0), plain, 0.0
        ),
    }
    return readings.ordered(measured, expected, Axis("probability ratio", ratio), others)


def _direction(lab: Lab) -> Measurement:
    run = runs.update(lab)
    shares = [readings.surrogate_slope(run, kept(run, number))[1] for number in (0, 1)]
    return Measurement(np.array(shares), np.ones(2))


def _std_pull(lab: Lab) -> Measurement:
    run = runs.update(lab)
    step = kept(run, 1)
    rows, x = rows_of(run, step), readings.samples(run)
    mean, std = readings.gaussian(step.before, readings.observations(run)[rows])
    slope, _ = readings.surrogate_slope(run, step)
    expected = -np.mean(slope[:, None] * (((x[rows] - mean) / std) ** 2 - 1), axis=0)
    return Measurement(step.gradients["policy.log_std"].ravel(), expected)


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.advantage_normalisation",
        "How are advantages standardised?",
        f"{CODE}: within the minibatch, by numpy's deviation (n)",
        "weight of each transition in the first minibatch's policy loss",
        _normalised,
        words.relation("weight of the advantage"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.policy_loss",
        "How strongly is each action made more likely, at ratios other than 1?",
        f"{PAPER}, eq. 7",
        "derivative of the objective by the log ratio, times the minibatch size",
        _surrogate,
        words.relation("pull on the policy"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.policy_gradient_direction",
        "Does the log-probability of the Gaussian alone pull on the means?",
        f"{PAPER}, eq. 6 and 7",
        "share of the gradient by the means that goes along that of the log-probability",
        _direction,
        words.listed(("first minibatch", "second minibatch")),
        tolerance=2e-3,
    ),
    Probe(
        "ppo.std_gradient",
        "How does the policy loss pull on the standard deviation?",
        f"{PAPER}, eq. 7: by the log-probability of a Gaussian",
        "derivative of the loss by each log standard deviation",
        _std_pull,
        words.relation("pull on the log standard deviation"),
        tolerance=1e-3,
    ),
)
