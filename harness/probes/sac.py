"""Probes of soft actor-critic."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.probes import off_policy, oracles, setups, words
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import RELU, output, output_gradient
from harness.probes.probe import Measurement, Probe
from harness.probes.readings import batch, critic_slopes, critics, steps_of
from harness.probes.results import Array, Axis, Comparison
from harness.probes.sac_std import STD, measured_std, same_policy
from harness.probes.world import Dictation

PAPER = "Haarnoja et al. 2018b (arXiv:1812.05905)"
RAW = np.arange(-25.0, 8.01, 0.5)
"""Inputs of the standard-deviation map."""
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
"""Bounds in the code of SAC's authors."""
RATES = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
RATE = 1e-3
WIDE = (-1.0, -1.0), (3.0, 3.0)


def update_run(lab: Lab) -> Run:
    """A few updates from weights with which every implementation is the same policy."""
    weights = same_policy(lab, setups.weights("sac"))
    return lab.run(setups.off_policy("sac update", "sac", 6, weights, 18, **_changes()))


def loud_run(lab: Lab) -> Run:
    """The same with huge rewards."""
    weights = same_policy(lab, setups.weights("sac"))
    world = off_policy.loud_world(setups.ROWS + 2)
    return lab.run(setups.off_policy("sac loud", "sac", 2, weights, 3, world=world, **_changes()))


def wide_run(lab: Lab) -> Run:
    """Target critics that are 0, so that targets show log-probabilities; actions from -1 to 3."""
    world = setups.dictation(setups.ROWS + 2, low=WIDE[0], high=WIDE[1], ends=False)
    return lab.run(_entropy_only(lab, "sac wide", world))


def squash_run(lab: Lab) -> Run:
    """The same with actions from -1 to 1 and noise far into the tails."""
    world = setups.dictation(setups.ROWS + 2, ends=False)
    world.batch_noise[: setups.ROWS] = (tails() / STD)[:, None]
    return lab.run(_entropy_only(lab, "sac squash", world))


def tails() -> Array:
    """Distances from the mean before squashing."""
    return np.linspace(-11.0, 11.0, setups.ROWS)


def _measure_std_map(lab: Lab) -> Measurement:
    value = np.log(measured_std(lab, RAW, "sac std map"))
    expected = np.clip(RAW, LOG_STD_MIN, LOG_STD_MAX)
    return Measurement(value, expected, Axis("network output", RAW))


def expected_target(run: Run) -> Array:
    """The paper's targets in the first update."""
    step, data = steps_of(run, "critic1")[0], batch(run)
    action, log_prob = _sample(run, step.before, data.next_observations)
    inputs = np.hstack([data.next_observations, action])
    values = [output(step.before, f"critic{i}_target", inputs, RELU)[:, 0] for i in (1, 2)]
    soft = oracles.soft_value(np.array(values), log_prob, temperature(run.weights))
    return oracles.td_target(data.rewards, data.ends == 1, run.hyperparameters.gamma, soft)


def _measure_log_prob(lab: Lab) -> Measurement:
    return _log_prob(wide_run(lab), 2.0)


def _measure_squash_correction(lab: Lab) -> Measurement:
    measured = _log_prob(squash_run(lab), 1.0)
    return Measurement(measured.value, measured.expected, Axis("distance from the mean", tails()))


def _measure_policy_terms(lab: Lab) -> Measurement:
    run = update_run(lab)
    step = steps_of(run, "policy")[0]
    terms, _ = _policy_terms(run, step, step.before)
    return Measurement(terms, np.array([1.0, 1.0, 0.0]))


def _measure_critics_seen(lab: Lab) -> Measurement:
    run = update_run(lab)
    step = steps_of(run, "policy")[0]
    old, new = run.weights, steps_of(run, "critic1")[0].after
    misfits = [_policy_terms(run, step, critics_then)[1] for critics_then in (old, new)]
    return Measurement(np.array([float(np.argmin(misfits))]), np.ones(1))


def _policy_terms(run: Run, step: Step, critics_then: Parameters) -> tuple[Array, float]:
    # Weights of entropy, smaller and larger critic in the policy's gradient, and what is left.
    data = batch(run)
    gradient = output_gradient(
        step.gradients, step.before, "policy", data.observations, RELU, "mean"
    ).ravel()
    action, _ = _sample(run, step.before, data.observations)
    smaller, larger = critic_slopes(critics_then, data.observations, action)
    inner = 1 - action**2
    terms = (2 * temperature(run.weights) * action, -inner * smaller, -inner * larger)
    basis = np.stack([term.ravel() / len(action) for term in terms], axis=1)
    weights = np.linalg.lstsq(basis, gradient, rcond=None)[0]
    return np.asarray(weights, float), float(np.abs(basis @ weights - gradient).max())


def temperature(weights: Parameters) -> float:
    """The temperature itself."""
    return float(np.exp(weights["temperature.log"].reshape(-1)[0]))


def temperature_pulls(lab: Lab) -> tuple[Array, Array, float]:
    """Gradients by the log temperature, mean log-probabilities, and the temperature.

    Two trainings that move no weight, one with little and one with much noise.
    """
    pulls, means = [], []
    for spread in (0.5, 1.5):
        world = setups.dictation(setups.ROWS + 2)
        world.batch_noise[:] *= spread
        weights = same_policy(lab, setups.weights("sac"))
        rates: dict[str, Any] = dict.fromkeys(RATES, setups.NO_LEARNING)
        experiment = setups.off_policy(
            f"sac noise {spread}", "sac", 2, weights, 4, world=world, **rates, policy_delay=1
        )
        run = lab.run(experiment)
        step = steps_of(run, "temperature")[0]
        pulls.append(step.gradients["temperature.log"].reshape(-1)[0])
        means.append(_sample(run, step.before, batch(run).observations)[1].mean())
    return np.array(pulls), np.array(means), temperature(run.weights)


def _measure_temperature_gradient(lab: Lab) -> Measurement:
    pulls, means, heat = temperature_pulls(lab)
    return Measurement(pulls, -heat * (means - setups.ACTIONS))


def _measure_target_entropy(lab: Lab) -> Measurement:
    pulls, means, _ = temperature_pulls(lab)
    slope, start = np.polyfit(means, pulls, 1)
    return Measurement(np.array([start / slope]), np.array([-float(setups.ACTIONS)]))


def _changes() -> dict[str, Any]:
    return {**dict.fromkeys(RATES, RATE), "policy_delay": 1}


def _entropy_only(lab: Lab, name: str, world: Dictation) -> Experiment:
    weights = same_policy(lab, setups.weights("sac"))
    for key, array in weights.items():
        if "_target" in key or key.startswith("policy.mean"):
            weights[key] = np.zeros_like(array)
    world.rewards[:] = 0.0
    return setups.off_policy(name, "sac", 2, weights, 3, world=world, **_changes())


def _log_prob(run: Run, half_range: float) -> Measurement:
    # Targets are -gamma temperature log-probability.
    target = critics(run, steps_of(run, "critic1")[0]).target
    noise = run.experiment.dictation.batch_noise[: len(target)]
    still = np.zeros_like(noise)
    expected = oracles.squashed_log_prob(STD * noise, still, still + STD, half_range)
    return Measurement(-target / (run.hyperparameters.gamma * temperature(run.weights)), expected)


def _sample(run: Run, weights: Parameters, observations: Array) -> tuple[Array, Array]:
    mean = output(weights, "policy", observations, RELU, "mean")
    x = mean + STD * run.experiment.dictation.batch_noise[: len(mean)]
    return np.tanh(x), oracles.squashed_log_prob(x, mean, np.full_like(mean, STD))


def _std_words(comparison: Comparison, measurement: Measurement) -> str:
    lowest, highest = measurement.value.min(), measurement.value.max()
    return (
        f"log standard deviation from {lowest:.2f} to {highest:.2f} where the network puts out "
        f"{RAW[0]:g} to {RAW[-1]:g}; the authors' code cuts at {LOG_STD_MIN:g} and {LOG_STD_MAX:g}"
    )


def _tail_words(comparison: Comparison, measurement: Measurement) -> str:
    apart = np.abs(measurement.value - measurement.expected) > 0.05
    if not apart.any():
        return words.relation("log-probability")(comparison, measurement)
    nearest = np.abs(tails()[apart]).min()
    return (
        f"log-probability off by more than 0.05 from {nearest:.1f} on, up to {comparison.size:.3g}"
    )


PROBES: Sequence[Probe] = (
    Probe(
        "sac.std_map",
        "Which standard deviation does the policy make of its network's output?",
        "Haarnoja et al. 2018, authors' code: log std cut at -20 and 2",
        "log standard deviation before squashing",
        _measure_std_map,
        _std_words,
    ),
    Probe(
        "sac.log_prob",
        "Which log-probability has an action, where actions range from -1 to 3?",
        "Haarnoja et al. 2018 (arXiv:1801.01290), appendix C, eq. 21, of the action taken",
        "log-probability, nats",
        _measure_log_prob,
        words.relation("log-probability"),
    ),
    Probe(
        "sac.squash_correction",
        "How is the log-probability corrected for squashing, far into the tails?",
        "Haarnoja et al. 2018 (arXiv:1801.01290), appendix C, eq. 21",
        "log-probability, nats",
        _measure_squash_correction,
        _tail_words,
    ),
    *off_policy.probes(
        "sac", update_run, loud_run, wide_run, expected_target, f"{PAPER}, eq. 5", half=True
    ),
    Probe(
        "sac.policy_terms",
        "What does the policy climb?",
        f"{PAPER}, eq. 7 and 9, with the smaller critic",
        "weight of the entropy term, of the smaller and of the larger critic",
        _measure_policy_terms,
        words.listed(("entropy weight", "weight of the smaller critic", "of the larger critic")),
    ),
    off_policy.critics_seen_probe("sac", _measure_critics_seen, f"{PAPER}, algorithm 1"),
    Probe(
        "sac.temperature_gradient",
        "How strongly is the temperature pulled?",
        f"{PAPER}, eq. 18: the loss is linear in the temperature itself",
        "gradient by the log temperature, at three updates",
        _measure_temperature_gradient,
        words.relation("pull on the log temperature"),
    ),
    Probe(
        "sac.target_entropy",
        "Which entropy does the temperature steer to?",
        f"{PAPER}, appendix D: minus the number of actions",
        "nats, for two action dimensions",
        _measure_target_entropy,
        words.relation("target entropy"),
    ),
)
