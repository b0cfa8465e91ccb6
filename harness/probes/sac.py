"""Probes of soft actor-critic."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.probes import oracles, setups
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import RELU, output, single
from harness.probes.probe import Measurement, Probe
from harness.probes.readings import batch, critics, steps_of
from harness.probes.results import Array, Axis, Comparison
from harness.probes.world import TRUNCATED

RAW = np.arange(-25.0, 8.01, 0.5)
"""Inputs of the standard-deviation map."""
NUDGE = 0.02
STD = 0.6
"""Standard deviation that all implementations are given in update probes."""
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
"""Bounds in the code of SAC's authors."""


def measured_std(lab: Lab, raw: Array, name: str) -> Array:
    """The policy's standard deviation where its network puts out `raw`.

    The policy acts with mean 0 and dictated noise e, so the action is tanh(std e). Where that
    is too small for float32, the noise is enlarged and the training repeated.
    """
    noise = np.full_like(raw, NUDGE)
    for repeat in range(5):
        actions = np.abs(_acts(lab, raw, noise, f"{name} {repeat}"))
        small = actions < 0.01
        if not small.any():
            break
        # Below 1e-6 the action says no more than that it is small.
        noise[small] *= np.where(actions < 1e-6, 1e4, 0.2 / np.maximum(actions, 1e-6))[small]
    return np.asarray(np.arctanh(np.minimum(actions, 1 - 1e-7)) / noise)


def _acts(lab: Lab, raw: Array, noise: Array, name: str) -> Array:
    # Actions where the network's mean is 0 and its other output `raw`.
    weights = setups.weights("sac")
    for key, value in weights.items():
        if key.startswith("policy"):
            weights[key] = np.zeros_like(value)
    shift = 40.0  # keeps the hidden unit that passes the observation on above 0
    weights["policy.0.weight"][0, 0] = weights["policy.1.weight"][0, 0] = 1.0
    weights["policy.0.bias"][0] = shift
    weights["policy.std.weight"][:, 0], weights["policy.std.bias"][:] = 1.0, -shift
    world = setups.dictation(len(raw), ends=False)
    world.observations[:-1, 0] = raw
    world.acting_noise[:] = noise[:, None]
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    frozen: dict[str, Any] = dict.fromkeys(rates, setups.NO_LEARNING)
    experiment = setups.off_policy(
        name, "sac", 0, weights, warm_up=0, world=world, batch_size=2, **frozen
    )
    return lab.run(experiment).record.stored["actions"][:, 0]


def raw_for(lab: Lab, std: float) -> float:
    """What the network must put out for a standard deviation, on this implementation's map."""
    grid = single(np.linspace(-4.0, 2.0, 25))
    for name in ("sac std coarse", "sac std fine"):
        stds = measured_std(lab, grid, name)
        raw = float(np.interp(std, stds, grid))
        grid = single(np.linspace(raw - 0.02, raw + 0.02, 9))
    return raw


def update_run(lab: Lab) -> Run:
    """A few updates from weights with which every implementation is the same policy."""
    weights = setups.weights("sac")
    weights["policy.std.weight"][:] = 0.0
    weights["policy.std.bias"][:] = raw_for(lab, STD)
    return lab.run(setups.off_policy("sac update", "sac", 6, weights, 9, policy_delay=1))


def std_map(lab: Lab) -> Measurement:
    value = np.log(measured_std(lab, RAW, "sac std map"))
    expected = np.clip(RAW, LOG_STD_MIN, LOG_STD_MAX)
    return Measurement(value, expected, Axis("network output", RAW))


def critic_slope(lab: Lab) -> Measurement:
    run = update_run(lab)
    slope = critics(run, steps_of(run, "critic1")[0]).slope
    return Measurement(slope, np.ones_like(slope))


def expected_target(run: Run) -> Array:
    """The paper's targets in the first update."""
    step, data = steps_of(run, "critic1")[0], batch(run)
    mean = output(step.before, "policy", data.next_observations, RELU, "mean")
    x = mean + STD * run.experiment.dictation.batch_noise[: len(mean)]
    inputs = np.hstack([data.next_observations, np.tanh(x)])
    values = [output(step.before, f"critic{i}_target", inputs, RELU)[:, 0] for i in (1, 2)]
    return oracles.soft_target(
        data.rewards,
        data.ends == 1,
        run.hyperparameters.gamma,
        np.array(values),
        oracles.squashed_log_prob(x, mean, np.full_like(mean, STD)),
        float(np.exp(run.weights["temperature.log"][0])),
    )


def critic_target(lab: Lab) -> Measurement:
    run = update_run(lab)
    kept = batch(run).ends != TRUNCATED
    target = critics(run, steps_of(run, "critic1")[0]).target
    return Measurement(target[kept], expected_target(run)[kept])


def _std_words(comparison: Comparison, measurement: Measurement) -> str:
    lowest, highest = measurement.value.min(), measurement.value.max()
    return (
        f"log standard deviation from {lowest:.2f} to {highest:.2f} where the network puts out "
        f"{RAW[0]:g} to {RAW[-1]:g}; the authors' code cuts at {LOG_STD_MIN:g} and {LOG_STD_MAX:g}"
    )


def _slope_words(comparison: Comparison, measurement: Measurement) -> str:
    if comparison.kind == "factor":
        return f"the loss is {comparison.size:.4g} times the paper's half mean squared error"
    return "the loss is not a multiple of a squared distance to one common target"


def _target_words(comparison: Comparison, measurement: Measurement) -> str:
    return f"targets differ by up to {np.abs(measurement.value - measurement.expected).max():.4g}"


PROBES: Sequence[Probe] = (
    Probe(
        "sac.std_map",
        "Which standard deviation does the policy make of its network's output?",
        "Haarnoja et al. 2018, authors' code: log std cut at -20 and 2",
        "log standard deviation before squashing",
        std_map,
        _std_words,
    ),
    Probe(
        "sac.critic_loss_factor",
        "How strongly is a critic drawn to its target?",
        "Haarnoja et al. 2018b (arXiv:1812.05905), eq. 5: one half of the squared error",
        "second derivative of the critic loss by a prediction, times the minibatch size",
        critic_slope,
        _slope_words,
    ),
    Probe(
        "sac.critic_target",
        "What are critics drawn to?",
        "Haarnoja et al. 2018b (arXiv:1812.05905), eq. 3 and 5; the smaller of two critics",
        "target value, in units of return",
        critic_target,
        _target_words,
    ),
)

__all__ = ["PROBES", "Experiment"]
