"""Probes of SAC's policy: its standard deviation, actions and log-probabilities."""

from collections.abc import Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import ACTION, ACTION_DRAWN
from parallax.harness.probes.experiment_setups import ACTION_SIZE, HALF_RANGE, WIDE_HIGH, WIDE_LOW
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.measurements import list_critic_updates, read_critics
from parallax.harness.probes.probe import (
    Probe,
    ProbeMeasurement,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.results import AnswerAxis, AnswerComparison
from parallax.harness.probes.sac import experiments
from parallax.harness.probes.sac.experiments import (
    OUTPUTS,
    POLICY_STD,
    SAC_FIRST_PAPER,
    is_squashed,
    measure_std,
)
from parallax.harness.probes.sac.updates import get_temperature

STD_OUTPUTS = np.arange(-25.0, 8.01, 0.5)
"""Inputs of the standard-deviation map."""
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
"""Bounds in the code of SAC's authors."""
UNSQUASHED_TEXT = "that of a Gaussian: actions are not squashed"
AVERAGED_TEXT = "the logarithm of tanh's derivative is the mean over action dimensions, not the sum"
ADDED_TEXT = "the logarithm of tanh's derivative is added, not subtracted"


def _measure_std_map(cache: ExperimentCache) -> ProbeMeasurement:
    value = np.log(measure_std(cache, STD_OUTPUTS, "sac std map"))
    expected = np.clip(STD_OUTPUTS, LOG_STD_MIN, LOG_STD_MAX)
    return ProbeMeasurement(value, expected, AnswerAxis("network output", STD_OUTPUTS))


def _measure_std_bounds(cache: ExperimentCache) -> ProbeMeasurement:
    value = _measure_std_map(cache).value
    return ProbeMeasurement(np.array([value[0], value[-1]]), np.array([LOG_STD_MIN, LOG_STD_MAX]))


def _measure_action(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_frozen_policy(cache)
    noise = run.experiment.scripted_data.acting_noise[:, 0]
    x = OUTPUTS + POLICY_STD * noise
    expected = (WIDE_LOW[0] + WIDE_HIGH[0]) / 2 + HALF_RANGE * np.tanh(x)
    text = "a Gaussian sample that is not squashed, cut at the bounds"
    others = {text: np.clip(x, WIDE_LOW[0], WIDE_HIGH[0])}
    found = run.get_actions()[:, 0]

    def explain() -> str:
        # PyTorch and its second of start-up are only needed here.
        from parallax.harness.probes.families import action_formulas

        bounds = (WIDE_LOW[0], WIDE_HIGH[0])
        return action_formulas.explain_action(
            found, OUTPUTS, noise, POLICY_STD, bounds, is_sample=True
        )

    return ProbeMeasurement(found, expected, AnswerAxis("output", OUTPUTS), others, explain=explain)


def _measure_log_prob(cache: ExperimentCache) -> ProbeMeasurement:
    value, noise = _read_log_probs(experiments.run_wide_bounds(cache))
    expected = _compute_squashed_log_prob(noise, HALF_RANGE)
    inside = _compute_squashed_log_prob(noise, 1.0)
    text = "that of the action before it is scaled to its range: {:+.3f}"
    apart = float(np.mean(inside - expected))
    plain = _compute_gaussian_log_prob(noise)
    others = {text.format(apart): inside, UNSQUASHED_TEXT: plain, ADDED_TEXT: 2 * plain - expected}
    others[AVERAGED_TEXT] = _average_correction(np.stack([expected, inside]), plain)
    others[f"{ADDED_TEXT}, and the action is not scaled to its range"] = 2 * plain - inside
    return ProbeMeasurement(value, expected, alternatives=others)


def _measure_squash_correction(cache: ExperimentCache) -> ProbeMeasurement:
    value, noise = _read_log_probs(experiments.run_tanh_tails(cache))
    text = "not corrected for squashing" if is_squashed(cache) else UNSQUASHED_TEXT
    expected, plain = _compute_squashed_log_prob(noise, 1.0), _compute_gaussian_log_prob(noise)
    axis = AnswerAxis("distance from the mean", experiments.compute_tail_distances())
    others = {text: plain, ADDED_TEXT: 2 * plain - expected}
    others[AVERAGED_TEXT] = _average_correction(expected, plain)
    return ProbeMeasurement(value, expected, axis, others)


def _average_correction(squashed: Array, plain: Array) -> Array:
    return np.asarray(plain + (squashed - plain) / ACTION_SIZE)


def _read_log_probs(run: ProbeRun) -> tuple[Array, Array]:
    # Targets are -gamma * temperature * log-probability. Returns log-probabilities and noise.
    target = read_critics(run, list_critic_updates(run)[0]).target
    value = -target / (run.hyperparameters.gamma * get_temperature(run.weights))
    return value, run.experiment.scripted_data.batch_noise[: len(target)]


def _compute_gaussian_log_prob(noise: Array) -> Array:
    still = np.zeros_like(noise)
    return formulas.compute_normal_log_prob(POLICY_STD * noise, still, still + POLICY_STD)


def _compute_squashed_log_prob(noise: Array, half_range: float) -> Array:
    still = np.zeros_like(noise)
    return formulas.compute_squashed_log_prob(
        POLICY_STD * noise, still, still + POLICY_STD, half_range
    )


def _describe_std_map(comparison: AnswerComparison, measurement: ProbeMeasurement) -> str:
    lowest, highest = measurement.value.min(), measurement.value.max()
    return (
        f"log standard deviation from {lowest:.2f} to {highest:.2f} where the network outputs "
        f"{STD_OUTPUTS[0]:g} to {STD_OUTPUTS[-1]:g}; the authors' code cuts at {LOG_STD_MIN:g} and "
        f"{LOG_STD_MAX:g}"
    )


def _describe_tail_errors(comparison: AnswerComparison, measurement: ProbeMeasurement) -> str:
    apart = np.abs(measurement.value - measurement.expected) > 0.05
    if not apart.any():
        return make_relation_description("log-probability")(comparison, measurement)
    nearest = np.abs(experiments.compute_tail_distances()[apart]).min()
    return (
        f"log-probability off by more than 0.05 from {nearest:.1f} on, up to {comparison.size:.3g}"
    )


PROBES: Sequence[Probe] = (
    Probe(
        "sac.std_map",
        "How does the policy map its network's output to a standard deviation?",
        "Haarnoja et al. 2018, authors' code: log std cut at -20 and 2",
        "log standard deviation before squashing",
        _measure_std_map,
        _describe_std_map,
        tolerance=1e-3,
    ),
    Probe(
        "sac.std_bounds",
        "Between which bounds is the log standard deviation?",
        "Haarnoja et al. 2018, authors' code: -20 and 2",
        f"log standard deviation where the network outputs {STD_OUTPUTS[0]:g} and "
        f"{STD_OUTPUTS[-1]:g}",
        _measure_std_bounds,
        make_entry_description(("lower bound", "upper bound")),
        tolerance=1e-3,
    ),
    Probe(
        "sac.action",
        "Which action is taken, where actions range from -1 to 3?",
        f"{SAC_FIRST_PAPER}, appendix C: tanh of the Gaussian sample, scaled to the range",
        "action, in action units",
        _measure_action,
        make_relation_description("action"),
        events=(ACTION, ACTION_DRAWN),
    ),
    Probe(
        "sac.log_prob",
        "What is the log-probability of an action where actions range from -1 to 3?",
        f"{SAC_FIRST_PAPER}, appendix C, eq. 21, of the action taken",
        "log-probability, nats",
        _measure_log_prob,
        make_relation_description("log-probability"),
        events=(ACTION_DRAWN,),
    ),
    Probe(
        "sac.squash_correction",
        "How is the log-probability corrected for squashing, far into the tails?",
        f"{SAC_FIRST_PAPER}, appendix C, eq. 21",
        "log-probability, nats",
        _measure_squash_correction,
        _describe_tail_errors,
        events=(ACTION_DRAWN,),
    ),
)
