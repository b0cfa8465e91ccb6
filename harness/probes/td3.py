"""Probes of twin delayed deep deterministic policy gradient."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.probes import off_policy, oracles, setups, words
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import RELU, input_gradient, output, output_gradient
from harness.probes.probe import Measurement, Probe
from harness.probes.readings import batch, critics, steps_of
from harness.probes.results import Array, Axis
from harness.probes.world import Dictation

PAPER = "Fujimoto et al. 2018 (arXiv:1802.09477)"
NOISE, CLIP, EXPLORATION = 0.2, 0.5, 0.1
"""The paper's values, as shares of half the action range."""
RATES: dict[str, Any] = {"policy_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
SAME: dict[str, Any] = {**RATES, "target_policy_noise": NOISE, "target_noise_clip": CLIP}
LOW, HIGH = -1.0, 3.0
CENTRES = np.repeat([0.0, 1.5], setups.ROWS // 2)
"""Target policy before tanh: rows in the middle of the range, and rows near its end."""
NOISES = np.tile(np.linspace(-4.0, 4.0, setups.ROWS // 2), 2)


def update_run(lab: Lab) -> Run:
    """A few updates with the paper's noise on actions from -1 to 1."""
    weights = setups.weights("td3")
    return lab.run(setups.off_policy("td3 update", "td3", 7, weights, 9, **SAME, policy_delay=2))


def loud_run(lab: Lab) -> Run:
    """The same with huge rewards."""
    world, weights = off_policy.loud_world(setups.ROWS + 2), setups.weights("td3")
    return lab.run(setups.off_policy("td3 loud", "td3", 2, weights, 3, world=world, **SAME))


def smoothing_run(lab: Lab) -> Run:
    """Target critics that pass on the next action, with the framework's own noise."""
    weights = setups.weights("td3")
    for i in (1, 2):
        setups.pass_through(weights, f"critic{i}_target", "out", shift=8.0)
        weights[f"critic{i}_target.0.weight"][0] = 0.0
        weights[f"critic{i}_target.0.weight"][0, setups.OBSERVATIONS] = 1.0
    setups.pass_through(weights, "policy_target", "out", shift=8.0)
    world = _wide_world(setups.ROWS + 2)
    world.rewards[:] = 0.0
    world.observations[1 : setups.ROWS + 1, 0] = CENTRES
    world.batch_noise[: setups.ROWS] = NOISES[:, None]
    return lab.run(setups.off_policy("td3 smoothing", "td3", 2, weights, 3, world=world, **RATES))


def acting_run(lab: Lab) -> Run:
    """The policy acts with dictated noise from the first step on and does not learn."""
    weights = setups.weights("td3")
    setups.pass_through(weights, "policy", "out", shift=8.0)
    world = _wide_world(setups.ROWS)
    world.observations[: setups.ROWS, 0] = CENTRES
    world.acting_noise[:] = NOISES[:, None]
    return lab.run(_frozen("td3 acting", weights, world))


def expected_target(run: Run) -> Array:
    """The paper's targets in the first update, on actions from -1 to 1."""
    weights, data = steps_of(run, "critic1")[0].before, batch(run)
    mean = np.tanh(output(weights, "policy_target", data.next_observations, RELU))
    noise = run.experiment.dictation.batch_noise[: len(mean)]
    low, high = -np.ones(setups.ACTIONS), np.ones(setups.ACTIONS)
    action = oracles.smoothed_action(mean, noise, NOISE, CLIP, low, high)
    inputs = np.hstack([data.next_observations, action])
    values = [output(weights, f"critic{i}_target", inputs, RELU)[:, 0] for i in (1, 2)]
    smaller = np.minimum(*values)
    return oracles.td_target(data.rewards, data.ends == 1, run.hyperparameters.gamma, smaller)


def _measure_target_action(lab: Lab) -> Measurement:
    run = smoothing_run(lab)
    shown = critics(run, steps_of(run, "critic1")[0]).target / run.hyperparameters.gamma
    # Critics see actions in the unit in which they are stored.
    stored, taken = run.record.stored["actions"].ravel(), run.actions().ravel()
    scale, shift = np.polyfit(taken, stored, 1)
    mean = _centres()
    bounds = np.array([LOW]), np.array([HIGH])
    expected = oracles.smoothed_action(mean, NOISES, NOISE, CLIP, *bounds)
    return Measurement((shown - shift) / scale, expected, _axis())


def _measure_acting(lab: Lab) -> Measurement:
    run = acting_run(lab)
    noisy = _centres() + EXPLORATION * (HIGH - LOW) / 2 * NOISES
    return Measurement(run.actions()[:, 0], np.clip(noisy, LOW, HIGH), _axis())


def _measure_policy_terms(lab: Lab) -> Measurement:
    run = update_run(lab)
    step = steps_of(run, "policy")[0]
    return Measurement(_policy_terms(run, step, step.before)[0], np.array([1.0, 0.0]))


def _measure_critics_seen(lab: Lab) -> Measurement:
    run = update_run(lab)
    step = steps_of(run, "policy")[0]
    earlier = [s for s in steps_of(run, "critic1") if s.env_steps <= step.env_steps][-1]
    misfits = [_policy_terms(run, step, seen)[1] for seen in (earlier.before, earlier.after)]
    return Measurement(np.array([float(np.argmin(misfits))]), np.ones(1))


def _policy_terms(run: Run, step: Step, critics_then: Parameters) -> tuple[Array, float]:
    # Weights of critic 1 and critic 2 in the policy's gradient, and what they leave.
    data = batch(run)
    gradient = output_gradient(step.gradients, step.before, "policy", data.observations, RELU)
    action = np.tanh(output(step.before, "policy", data.observations, RELU))
    inputs, inner = np.hstack([data.observations, action]), 1 - action**2
    terms = [
        -inner * input_gradient(critics_then, f"critic{i}", inputs)[:, -setups.ACTIONS :]
        for i in (1, 2)
    ]
    basis = np.stack([term.ravel() / len(action) for term in terms], axis=1)
    weights = np.linalg.lstsq(basis, gradient.ravel(), rcond=None)[0]
    return np.asarray(weights, float), float(np.abs(basis @ weights - gradient.ravel()).max())


def _wide_world(steps: int) -> Dictation:
    bounds = (LOW,) * setups.ACTIONS, (HIGH,) * setups.ACTIONS
    return setups.dictation(steps, low=bounds[0], high=bounds[1], ends=False)


def _frozen(name: str, weights: dict[str, Array], world: Dictation) -> Experiment:
    rates: dict[str, Any] = dict.fromkeys(RATES, setups.NO_LEARNING)
    return setups.off_policy(name, "td3", 0, weights, warm_up=0, world=world, batch_size=2, **rates)


def _centres() -> Array:
    return np.asarray((LOW + HIGH) / 2 + (HIGH - LOW) / 2 * np.tanh(CENTRES))


def _axis() -> Axis:
    return Axis("standard normal noise; middle of the range, then near its end", NOISES)


PROBES: Sequence[Probe] = (
    Probe(
        "td3.exploration",
        "Which action does the policy take with noise, where actions range from -1 to 3?",
        f"{PAPER}, section 6.1: Gaussian noise with standard deviation 0.1",
        "action, in action units",
        _measure_acting,
        words.relation("action"),
    ),
    Probe(
        "td3.target_action",
        "Which next action do targets use, where actions range from -1 to 3?",
        f"{PAPER}, eq. 14 and section 6.1: noise 0.2, cut at 0.5, actions kept within bounds",
        "action, in action units",
        _measure_target_action,
        words.relation("next action"),
    ),
    *off_policy.probes(
        "td3",
        update_run,
        loud_run,
        acting_run,
        expected_target,
        f"{PAPER}, algorithm 1",
        half=False,
    ),
    Probe(
        "td3.policy_terms",
        "What does the policy climb?",
        f"{PAPER}, algorithm 1: the first critic",
        "weight of the first and of the second critic",
        _measure_policy_terms,
        words.listed(("weight of the first critic", "of the second critic")),
    ),
    off_policy.critics_seen_probe("td3", _measure_critics_seen, f"{PAPER}, algorithm 1"),
)
