"""Probes of SAC's updates: critics, policy, temperature."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from harness.probes import formulas, setups
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import RELU, output, output_gradient
from harness.probes.probe import Measurement, Probe, listed, relation
from harness.probes.readings import (
    UPDATES,
    batch,
    critic_slopes,
    critic_updates,
    gradient_of,
    noise_of,
    start_of_update,
    steps_of,
)
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


def sample(run: Run, step: Step, observations: Array) -> tuple[Array, Array]:
    """Actions of the policy with the dictated noise, and their log-probabilities."""
    mean = output(step.before, "policy", observations, RELU, "mean")
    std = np.full_like(mean, STD)
    if run.experiment.std is not None:
        std = run.experiment.std(output(step.before, "policy", observations, RELU, "std"))
    x = mean + std * noise_of(run, step, len(mean))
    if not run.experiment.squashed:
        return x, formulas.normal_log_prob(x, mean, std)
    return np.tanh(x), formulas.squashed_log_prob(x, mean, std)


def _next_values(run: Run, step: Step) -> tuple[Array, Array, Array]:
    # Target and online critics at the next action, float[2, rows], and its log-probability.
    weights, data = step.before, batch(run, step)
    action, log_prob = sample(run, step, data.next_observations)
    inputs = np.hstack([data.next_observations, action])
    target, online = (
        np.array([output(weights, f"critic{i}{suffix}", inputs, RELU)[:, 0] for i in (1, 2)])
        for suffix in ("_target", "")
    )
    return target, online, log_prob


def targets(run: Run, step: Step) -> Targets:
    """The paper's targets of an update, and others by what they are."""
    twins, online, log_prob = _next_values(run, step)
    heat, first = temperature(start_of_update(run, step)), temperature(run.weights)
    smaller, bonus = twins.min(axis=0), -heat * log_prob
    others = {n: v + bonus for n, v in twin_values(twins[0], twins[1]).items()}
    others |= {
        "without the entropy": smaller,
        "entropy subtracted, not added": smaller - bonus,
        "log temperature in place of the temperature": smaller - np.log(heat) * log_prob,
        "the temperature that the run started with": smaller - first * log_prob,
        "the online critics' values": online.min(axis=0) + bonus,
    }
    return with_ends(run, step, formulas.soft_value(twins, log_prob, heat), others)


def terms(run: Run, step: Step) -> Terms:
    """What the paper's targets are summed from, with their weights."""
    twins, _, log_prob = _next_values(run, step)
    gamma, heat = run.hyperparameters.gamma, temperature(start_of_update(run, step))
    return {
        "reward": (batch(run, step).rewards, 1.0),
        "next value": (twins.min(axis=0), gamma),
        "log-probability": (log_prob, -gamma * heat),
    }


def _policy_terms(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    found = [policy_terms(run, step)[0] for step in steps_of(run, "policy")[:UPDATES]]
    return Measurement(np.array(found), np.tile([1.0, 1.0, 0.0], (len(found), 1)))


def _policy_clipping(lab: Lab) -> Measurement:
    quiet, loud = (_critic_weight(of(lab)) for of in (trainings.update, trainings.loud))
    return Measurement(np.array([loud / quiet]), np.ones(1))


def _critic_weight(run: Run) -> float:
    return float(np.abs(policy_terms(run, steps_of(run, "policy")[0])[0][1:]).sum())


def _critics_seen(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    step, first = steps_of(run, "policy")[0], critic_updates(run)[0]
    misfits = [policy_terms(run, step, then)[1] for then in (first.before, first.after)]
    return Measurement(np.array([float(np.argmin(misfits))]), np.ones(1))


def policy_terms(
    run: Run, step: Step, critics_then: Parameters | None = None
) -> tuple[Array, float]:
    """Weights of entropy, smaller and larger critic in the policy's gradient, and what is left."""
    weights, seen = step.before if critics_then is None else critics_then, step.observations
    gradient = output_gradient(step.gradients, step.before, "policy", seen, RELU, "mean").ravel()
    action, _ = sample(run, step, seen)
    slopes = critic_slopes(weights, seen, action)
    heat = temperature(start_of_update(run, step))
    if run.experiment.squashed:
        inner = 1 - action**2
        terms = (2 * heat * action, *(-inner * slope for slope in slopes))
    else:
        pull = output_gradient(step.gradients, step.before, "policy", seen, RELU, "std").ravel()
        gradient = np.concatenate([gradient, pull])
        terms = _terms_by_both(run, step, heat, slopes)
    basis = np.stack([term.ravel() / len(action) for term in terms], axis=1)
    found = np.linalg.lstsq(basis, gradient, rcond=None)[0]
    return np.asarray(found, float), float(np.abs(basis @ found - gradient).max())


def _terms_by_both(
    run: Run, step: Step, heat: float, slopes: tuple[Array, Array]
) -> tuple[Array, ...]:
    # Without squashing the entropy does not depend on means: by means, then by the other output.
    raw = output(step.before, "policy", step.observations, RELU, "std")
    map_of, nudge = run.experiment.std, 1e-4
    assert map_of is not None
    log_slope = (np.log(map_of(raw + nudge)) - np.log(map_of(raw - nudge))) / (2 * nudge)
    spread = map_of(raw) * noise_of(run, step, len(raw)) * log_slope
    entropy = np.stack([np.zeros_like(raw), -heat * log_slope])
    return entropy, *(np.stack([-slope, -slope * spread]) for slope in slopes)


QUESTIONS = critics.Questions(
    "sac",
    trainings.update,
    trainings.loud,
    trainings.learning_copies,
    trainings.full,
    targets,
    terms,
    f"{PAPER}, eq. 5",
    half=True,
)
PROBES: Sequence[Probe] = (
    *QUESTIONS.probes(),
    Probe(
        "sac.policy_terms",
        "What does the policy climb?",
        f"{PAPER}, eq. 7 and 9, with the smaller critic",
        f"per policy step, in the first {UPDATES}: {', '.join(TERMS)}",
        _policy_terms,
        listed(TERMS),
        tolerance=5e-4,
    ),
    critics.policy_clipping_probe("sac", _policy_clipping, f"{PAPER}, algorithm 1"),
    critics.critics_seen_probe("sac", _critics_seen, f"{PAPER}, algorithm 1"),
)


HEAT = "temperature"
ON_LOG = "the loss is linear in the log temperature, so the pull lacks the temperature as a factor"


@dataclasses.dataclass(frozen=True)
class Pulls:
    """What pulled on the temperature, per update.

    Attributes:
        gradient: By the log temperature.
        before: Mean log-probability under the policy before its step.
        after: The same after it.
        temperature: Then.
    """

    gradient: Array
    before: Array
    after: Array
    temperature: Array


def pulls(run: Run) -> Pulls:
    """The first steps of the temperature."""
    steps = steps_of(run, "temperature")[:UPDATES]
    found = [gradient_of(step, "temperature.log").reshape(-1)[0] for step in steps]
    policies = [(start_of_update(run, step), step.before) for step in steps]
    before, after = (
        np.array([_mean_log_prob(run, s, both[i]) for s, both in zip(steps, policies, strict=True)])
        for i in (0, 1)
    )
    heat = [temperature(step.before) for step in steps]
    return Pulls(np.array(found), before, after, np.array(heat))


def _mean_log_prob(run: Run, step: Step, weights: Parameters) -> float:
    then = dataclasses.replace(step, before=weights)
    return float(sample(run, then, step.observations)[1].mean())


def _gradient(lab: Lab) -> Measurement:
    # At several temperatures, or a factor could not be told from the temperature.
    seen = [pulls(of(lab)) for of in (trainings.update, trainings.loud)]
    found, heat = (np.concatenate([getattr(p, n) for p in seen]) for n in ("gradient", HEAT))
    apart, late = (
        np.concatenate([getattr(p, n) for p in seen]) - setups.ACTIONS for n in ("before", "after")
    )
    others = {
        ON_LOG: -apart,
        f"{ON_LOG}, under the policy after its step": -late,
        "under the policy after its step": -heat * late,
    }
    return Measurement(found, -heat * apart, alternatives=others)


def _target_entropy(lab: Lab) -> Measurement:
    seen = [pulls(run) for run in trainings.quiet_and_noisy(lab)]
    found, means = (np.array([getattr(p, n)[0] for p in seen]) for n in ("gradient", "before"))
    slope, start = np.polyfit(means, found, 1)
    return Measurement(np.array([start / slope]), np.array([-float(setups.ACTIONS)]))


TEMPERATURE_PROBES: Sequence[Probe] = (
    Probe(
        "sac.temperature_gradient",
        "How strongly is the temperature pulled?",
        f"{PAPER}, eq. 18: the loss is linear in the temperature itself",
        "gradient by the log temperature, at temperatures near 0.5 and near 0.2",
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
