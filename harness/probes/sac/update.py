"""Probes of SAC's updates: critics, policy, temperature."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas, setups
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import RELU, output, output_gradient
from harness.probes.probe import Measurement, Probe, listed, relation
from harness.probes.readings import batch, critic_slopes, steps_of
from harness.probes.results import Array
from harness.probes.sac import trainings
from harness.probes.sac.std import STD
from harness.probes.sac.trainings import PAPER
from harness.probes.shared import critics
from harness.probes.shared.critics import Targets, Terms, twin_values, with_ends

TERMS = ("weight of the entropy", "weight of the smaller critic", "of the larger critic")


def temperature(weights: Parameters) -> float:
    """The temperature itself."""
    return float(np.exp(weights["temperature.log"].reshape(-1)[0]))


def sample(run: Run, weights: Parameters, observations: Array) -> tuple[Array, Array]:
    """Actions of the policy with the dictated noise, and their log-probabilities."""
    mean = output(weights, "policy", observations, RELU, "mean")
    x = mean + STD * run.experiment.dictation.batch_noise[: len(mean)]
    return np.tanh(x), formulas.squashed_log_prob(x, mean, np.full_like(mean, STD))


def _next_values(run: Run) -> tuple[Array, Array, Array]:
    # Target and online critics at the next action, float[2, rows], and its log-probability.
    weights, data = steps_of(run, "critic1")[0].before, batch(run)
    action, log_prob = sample(run, weights, data.next_observations)
    inputs = np.hstack([data.next_observations, action])
    target, online = (
        np.array([output(weights, f"critic{i}{suffix}", inputs, RELU)[:, 0] for i in (1, 2)])
        for suffix in ("_target", "")
    )
    return target, online, log_prob


def targets(run: Run) -> Targets:
    """The paper's targets in the first update, and others by what they are."""
    twins, online, log_prob = _next_values(run)
    heat = temperature(run.weights)
    smaller, bonus = twins.min(axis=0), -heat * log_prob
    others = {n: v + bonus for n, v in twin_values(twins[0], twins[1]).items()}
    others |= {
        "without the entropy": smaller,
        "entropy subtracted, not added": smaller - bonus,
        "log temperature in place of the temperature": smaller - np.log(heat) * log_prob,
        "the online critics' values": online.min(axis=0) + bonus,
    }
    return with_ends(run, formulas.soft_value(twins, log_prob, heat), others)


def terms(run: Run) -> Terms:
    """What the paper's targets are summed from, with their weights."""
    twins, _, log_prob = _next_values(run)
    gamma = run.hyperparameters.gamma
    return {
        "reward": (batch(run).rewards, 1.0),
        "next value": (twins.min(axis=0), gamma),
        "log-probability": (log_prob, -gamma * temperature(run.weights)),
    }


def _policy_terms(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    terms, _ = policy_terms(run, steps_of(run, "policy")[0])
    return Measurement(terms, np.array([1.0, 1.0, 0.0]))


def _policy_clipping(lab: Lab) -> Measurement:
    quiet, loud = (_critic_weight(of(lab)) for of in (trainings.update, trainings.loud))
    return Measurement(np.array([loud / quiet]), np.ones(1))


def _critic_weight(run: Run) -> float:
    return float(np.abs(policy_terms(run, steps_of(run, "policy")[0])[0][1:]).sum())


def _critics_seen(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    step = steps_of(run, "policy")[0]
    old, new = run.weights, steps_of(run, "critic1")[0].after
    misfits = [policy_terms(run, step, critics_then)[1] for critics_then in (old, new)]
    return Measurement(np.array([float(np.argmin(misfits))]), np.ones(1))


def policy_terms(
    run: Run, step: Step, critics_then: Parameters | None = None
) -> tuple[Array, float]:
    """Weights of entropy, smaller and larger critic in the policy's gradient, and what is left."""
    data, weights = batch(run), step.before if critics_then is None else critics_then
    gradient = output_gradient(
        step.gradients, step.before, "policy", data.observations, RELU, "mean"
    ).ravel()
    action, _ = sample(run, step.before, data.observations)
    smaller, larger = critic_slopes(weights, data.observations, action)
    inner = 1 - action**2
    terms = (2 * temperature(run.weights) * action, -inner * smaller, -inner * larger)
    basis = np.stack([term.ravel() / len(action) for term in terms], axis=1)
    found = np.linalg.lstsq(basis, gradient, rcond=None)[0]
    return np.asarray(found, float), float(np.abs(basis @ found - gradient).max())


PROBES: Sequence[Probe] = (
    *critics.probes(
        "sac", trainings.update, trainings.loud, targets, terms, f"{PAPER}, eq. 5", half=True
    ),
    Probe(
        "sac.policy_terms",
        "What does the policy climb?",
        f"{PAPER}, eq. 7 and 9, with the smaller critic",
        ", ".join(TERMS),
        _policy_terms,
        listed(TERMS),
    ),
    critics.policy_clipping_probe("sac", _policy_clipping, f"{PAPER}, algorithm 1"),
    critics.critics_seen_probe("sac", _critics_seen, f"{PAPER}, algorithm 1"),
)


ON_LOG = "the loss is linear in the log temperature, so the pull lacks the temperature as a factor"


def pulls(lab: Lab) -> tuple[Array, Array, float]:
    """Gradients by the log temperature, mean log-probabilities, and the temperature.

    Of trainings with little and with much noise.
    """
    found, means = [], []
    for run in trainings.quiet_and_noisy(lab):
        step = steps_of(run, "temperature")[0]
        found.append(step.gradients["temperature.log"].reshape(-1)[0])
        means.append(sample(run, step.before, batch(run).observations)[1].mean())
    return np.array(found), np.array(means), temperature(run.weights)


def _gradient(lab: Lab) -> Measurement:
    found, means, heat = pulls(lab)
    apart = means - setups.ACTIONS
    return Measurement(found, -heat * apart, alternatives={ON_LOG: -apart})


def _target_entropy(lab: Lab) -> Measurement:
    found, means, _ = pulls(lab)
    slope, start = np.polyfit(means, found, 1)
    return Measurement(np.array([start / slope]), np.array([-float(setups.ACTIONS)]))


TEMPERATURE_PROBES: Sequence[Probe] = (
    Probe(
        "sac.temperature_gradient",
        "How strongly is the temperature pulled?",
        f"{PAPER}, eq. 18: the loss is linear in the temperature itself",
        "gradient by the log temperature, under little and under much noise; temperature 0.5",
        _gradient,
        relation("pull on the log temperature"),
    ),
    Probe(
        "sac.target_entropy",
        "Which entropy does the temperature steer to?",
        f"{PAPER}, appendix D: minus the number of actions",
        "nats, for two action dimensions",
        _target_entropy,
        relation("target entropy"),
    ),
)
