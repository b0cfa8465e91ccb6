"""Probes of SAC's policy: its standard deviation, actions and log-probabilities."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, listed, relation
from harness.probes.readings import critic_updates, critics
from harness.probes.results import Array, Axis, Comparison
from harness.probes.sac import trainings
from harness.probes.sac.std import STD, measured_std, squashes
from harness.probes.sac.trainings import FIRST_PAPER, OUTPUTS
from harness.probes.sac.update import temperature
from harness.probes.setups import HALF, HIGH, LOW

RAW = np.arange(-25.0, 8.01, 0.5)
"""Inputs of the standard-deviation map."""
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
"""Bounds in the code of SAC's authors."""
UNSQUASHED = "that of a Gaussian: actions are not squashed"


def _std_map(lab: Lab) -> Measurement:
    value = np.log(measured_std(lab, RAW, "sac std map"))
    expected = np.clip(RAW, LOG_STD_MIN, LOG_STD_MAX)
    return Measurement(value, expected, Axis("network output", RAW))


def _std_bounds(lab: Lab) -> Measurement:
    value = _std_map(lab).value
    return Measurement(np.array([value[0], value[-1]]), np.array([LOG_STD_MIN, LOG_STD_MAX]))


def _action(lab: Lab) -> Measurement:
    run = trainings.acting(lab)
    x = OUTPUTS + STD * run.experiment.dictation.acting_noise[:, 0]
    expected = (LOW[0] + HIGH[0]) / 2 + HALF * np.tanh(x)
    text = "a Gaussian sample that is not squashed, cut at the bounds"
    others = {text: np.clip(x, LOW[0], HIGH[0])}
    return Measurement(run.actions()[:, 0], expected, Axis("output", OUTPUTS), others)


def _log_prob(lab: Lab) -> Measurement:
    value, noise = _shown(trainings.wide(lab))
    expected, inside = _expected(noise, HALF), _expected(noise, 1.0)
    text = "that of the action before it is scaled to its range: {:+.3f}"
    apart = float(np.mean(inside - expected))
    others = {text.format(apart): inside, UNSQUASHED: _gaussian(noise)}
    return Measurement(value, expected, alternatives=others)


def _squash_correction(lab: Lab) -> Measurement:
    value, noise = _shown(trainings.squash(lab))
    text = "not corrected for squashing" if squashes(lab) else UNSQUASHED
    return Measurement(
        value,
        _expected(noise, 1.0),
        Axis("distance from the mean", trainings.tails()),
        {text: _gaussian(noise)},
    )


def _shown(run: Run) -> tuple[Array, Array]:
    # Targets are -gamma temperature log-probability. Returns log-probabilities and the noise.
    target = critics(run, critic_updates(run)[0]).target
    value = -target / (run.hyperparameters.gamma * temperature(run.weights))
    return value, run.experiment.dictation.batch_noise[: len(target)]


def _gaussian(noise: Array) -> Array:
    still = np.zeros_like(noise)
    return formulas.normal_log_prob(STD * noise, still, still + STD)


def _expected(noise: Array, half_range: float) -> Array:
    still = np.zeros_like(noise)
    return formulas.squashed_log_prob(STD * noise, still, still + STD, half_range)


def _std_words(comparison: Comparison, measurement: Measurement) -> str:
    lowest, highest = measurement.value.min(), measurement.value.max()
    return (
        f"log standard deviation from {lowest:.2f} to {highest:.2f} where the network puts out "
        f"{RAW[0]:g} to {RAW[-1]:g}; the authors' code cuts at {LOG_STD_MIN:g} and {LOG_STD_MAX:g}"
    )


def _tail_words(comparison: Comparison, measurement: Measurement) -> str:
    apart = np.abs(measurement.value - measurement.expected) > 0.05
    if not apart.any():
        return relation("log-probability")(comparison, measurement)
    nearest = np.abs(trainings.tails()[apart]).min()
    return (
        f"log-probability off by more than 0.05 from {nearest:.1f} on, up to {comparison.size:.3g}"
    )


PROBES: Sequence[Probe] = (
    Probe(
        "sac.std_map",
        "Which standard deviation does the policy make of its network's output?",
        "Haarnoja et al. 2018, authors' code: log std cut at -20 and 2",
        "log standard deviation before squashing",
        _std_map,
        _std_words,
        tolerance=1e-3,
    ),
    Probe(
        "sac.std_bounds",
        "Between which bounds is the log standard deviation?",
        "Haarnoja et al. 2018, authors' code: -20 and 2",
        f"log standard deviation where the network puts out {RAW[0]:g} and {RAW[-1]:g}",
        _std_bounds,
        listed(("lower bound", "upper bound")),
        tolerance=1e-3,
    ),
    Probe(
        "sac.action",
        "Which action is taken, where actions range from -1 to 3?",
        f"{FIRST_PAPER}, appendix C: tanh of the Gaussian sample, scaled to the range",
        "action, in action units",
        _action,
        relation("action"),
    ),
    Probe(
        "sac.log_prob",
        "Which log-probability has an action, where actions range from -1 to 3?",
        f"{FIRST_PAPER}, appendix C, eq. 21, of the action taken",
        "log-probability, nats",
        _log_prob,
        relation("log-probability"),
    ),
    Probe(
        "sac.squash_correction",
        "How is the log-probability corrected for squashing, far into the tails?",
        f"{FIRST_PAPER}, appendix C, eq. 21",
        "log-probability, nats",
        _squash_correction,
        _tail_words,
    ),
)
