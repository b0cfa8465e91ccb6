"""Probes of TD3's updates."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas, setups
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import RELU, input_gradient, output, output_gradient
from harness.probes.probe import Measurement, Probe, listed
from harness.probes.readings import UPDATES, batch, critic_updates, noise_of, steps_of
from harness.probes.results import Array
from harness.probes.shared import critics
from harness.probes.shared.critics import Targets, Terms, twin_values, with_ends
from harness.probes.td3 import trainings
from harness.probes.td3.trainings import CLIP, NOISE, PAPER


def _next_values(
    run: Run, step: Step, policy: str, suffix: str, std: float, cut: bool = True
) -> tuple[Array, Array]:
    # Both critics at the next action, with noise of some standard deviation.
    weights, data = step.before, batch(run, step)
    low, high = -np.ones(setups.ACTIONS), np.ones(setups.ACTIONS)
    mean = np.tanh(output(weights, policy, data.next_observations, RELU))
    noise = noise_of(run, step, len(mean))
    action = mean + formulas.smoothing_noise(noise, std, CLIP, low, high)
    if cut:
        action = np.clip(action, low, high)
    inputs = np.hstack([data.next_observations, action])
    first, second = (output(weights, f"critic{i}{suffix}", inputs, RELU)[:, 0] for i in (1, 2))
    return first, second


def targets(run: Run, step: Step) -> Targets:
    """The paper's targets of an update, and others by what they are."""
    first, second = _next_values(run, step, "policy_target", "_target", NOISE)
    still = _next_values(run, step, "policy_target", "_target", 0.0)
    beyond = _next_values(run, step, "policy_target", "_target", NOISE, cut=False)
    online_policy = _next_values(run, step, "policy", "_target", NOISE)
    online_critics = _next_values(run, step, "policy_target", "", NOISE)
    values = twin_values(first, second) | {
        "next actions that noise takes beyond the bounds are not cut": np.minimum(*beyond),
        "no noise in the next action": np.minimum(*still),
        "the online policy's next action": np.minimum(*online_policy),
        "the online critics' values": np.minimum(*online_critics),
    }
    return with_ends(run, step, np.minimum(first, second), values)


def terms(run: Run, step: Step) -> Terms:
    """What the paper's targets are summed from, with their weights."""
    value = np.minimum(*_next_values(run, step, "policy_target", "_target", NOISE))
    gamma = run.hyperparameters.gamma
    return {"reward": (batch(run, step).rewards, 1.0), "next value": (value, gamma)}


def _policy_terms(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    found = [policy_terms(run, step)[0] for step in steps_of(run, "policy")[:UPDATES]]
    return Measurement(np.array(found), np.tile([1.0, 0.0], (len(found), 1)))


def _policy_clipping(lab: Lab) -> Measurement:
    quiet, loud = (_policy_pull(of(lab)) for of in (trainings.update, trainings.loud))
    return Measurement(np.array([loud / quiet]), np.ones(1))


def _policy_pull(run: Run) -> float:
    return float(np.abs(policy_terms(run, steps_of(run, "policy")[0])[0]).sum())


def _critics_seen(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    step = steps_of(run, "policy")[0]
    earlier = [s for s in critic_updates(run) if s.env_steps <= step.env_steps][-1]
    misfits = [policy_terms(run, step, seen)[1] for seen in (earlier.before, earlier.after)]
    return Measurement(np.array([float(np.argmin(misfits))]), np.ones(1))


def policy_terms(
    run: Run, step: Step, critics_then: Parameters | None = None
) -> tuple[Array, float]:
    """Weights of critic 1 and critic 2 in the policy's gradient, and what they leave."""
    weights, seen = step.before if critics_then is None else critics_then, step.observations
    gradient = output_gradient(step.gradients, step.before, "policy", seen, RELU)
    action = np.tanh(output(step.before, "policy", seen, RELU))
    inputs, inner = np.hstack([seen, action]), 1 - action**2
    terms = [
        -inner * input_gradient(weights, f"critic{i}", inputs)[:, -setups.ACTIONS :] for i in (1, 2)
    ]
    basis = np.stack([term.ravel() / len(action) for term in terms], axis=1)
    found = np.linalg.lstsq(basis, gradient.ravel(), rcond=None)[0]
    return np.asarray(found, float), float(np.abs(basis @ found - gradient.ravel()).max())


QUESTIONS = critics.Questions(
    "td3",
    trainings.update,
    trainings.loud,
    trainings.learning_copies,
    trainings.full,
    targets,
    terms,
    f"{PAPER}, algorithm 1",
    half=False,
)
PROBES: Sequence[Probe] = (
    *QUESTIONS.probes(),
    Probe(
        "td3.policy_terms",
        "What does the policy climb?",
        f"{PAPER}, algorithm 1: the first critic",
        f"weight of the first and of the second critic, in the first {UPDATES} steps",
        _policy_terms,
        listed(("weight of the first critic", "of the second critic")),
    ),
    critics.policy_clipping_probe("td3", _policy_clipping, f"{PAPER}, algorithm 1"),
    critics.critics_seen_probe("td3", _critics_seen, f"{PAPER}, algorithm 1"),
)
