"""Probes of SAC's updates of critics and policy."""

from collections.abc import Sequence

import numpy as np

from harness.probes import oracles, words
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import RELU, output, output_gradient
from harness.probes.probe import Measurement, Probe
from harness.probes.readings import batch, critic_slopes, steps_of
from harness.probes.results import Array
from harness.probes.sac import runs
from harness.probes.sac.runs import PAPER
from harness.probes.sac.std import STD
from harness.probes.shared import critics
from harness.probes.shared.targets import Targets, Terms, twin_values, with_ends

TERMS = ("weight of the entropy", "weight of the smaller critic", "of the larger critic")


def temperature(weights: Parameters) -> float:
    """The temperature itself."""
    return float(np.exp(weights["temperature.log"].reshape(-1)[0]))


def sample(run: Run, weights: Parameters, observations: Array) -> tuple[Array, Array]:
    """Actions of the policy with the dictated noise, and their log-probabilities."""
    mean = output(weights, "policy", observations, RELU, "mean")
    x = mean + STD * run.experiment.dictation.batch_noise[: len(mean)]
    return np.tanh(x), oracles.squashed_log_prob(x, mean, np.full_like(mean, STD))


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
    return with_ends(run, oracles.soft_value(twins, log_prob, heat), others)


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
    run = runs.update(lab)
    terms, _ = policy_terms(run, steps_of(run, "policy")[0])
    return Measurement(terms, np.array([1.0, 1.0, 0.0]))


def _policy_clipping(lab: Lab) -> Measurement:
    quiet, loud = (_critic_weight(of(lab)) for of in (runs.update, runs.loud))
    return Measurement(np.array([loud / quiet]), np.ones(1))


def _critic_weight(run: Run) -> float:
    return float(np.abs(policy_terms(run, steps_of(run, "policy")[0])[0][1:]).sum())


def _critics_seen(lab: Lab) -> Measurement:
    run = runs.update(lab)
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
    *critics.probes("sac", runs.update, runs.loud, targets, terms, f"{PAPER}, eq. 5", half=True),
    Probe(
        "sac.policy_terms",
        "What does the policy climb?",
        f"{PAPER}, eq. 7 and 9, with the smaller critic",
        ", ".join(TERMS),
        _policy_terms,
        words.listed(TERMS),
    ),
    critics.policy_clipping_probe("sac", _policy_clipping, f"{PAPER}, algorithm 1"),
    critics.critics_seen_probe("sac", _critics_seen, f"{PAPER}, algorithm 1"),
)
