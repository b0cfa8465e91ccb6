"""Probes of TD3's updates."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas, setups
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import RELU, input_gradient, output, output_gradient
from harness.probes.probe import Measurement, Probe, listed
from harness.probes.readings import (
    UPDATES,
    batch,
    critic_names,
    critic_slopes,
    critic_updates,
    noise_of,
    steps_of,
)
from harness.probes.results import Array
from harness.probes.shared import critics
from harness.probes.shared.critics import Targets, Terms, twin_values, with_ends
from harness.probes.td3 import trainings
from harness.probes.td3.trainings import CLIP, NOISE, PAPER

SMALLER = "the smaller of both critics"


def next_values(
    run: Run, step: Step, policy: str, suffix: str, std: float, cut: bool = True
) -> tuple[Array, ...]:
    """All critics at the next action, each float[rows].

    Args:
        run: The training.
        step: Of the critics.
        policy: Which one takes the action, by canonical name.
        suffix: Of the critics' names.
        std: Standard deviation of the noise on the action.
        cut: Whether actions are kept within the bounds.
    """
    weights, data = step.before, batch(run, step)
    low, high = -np.ones(setups.ACTIONS), np.ones(setups.ACTIONS)
    mean = np.tanh(output(weights, policy, data.next_observations, RELU))
    noise = noise_of(run, step, len(mean))
    action = mean + formulas.smoothing_noise(noise, std, CLIP, low, high)
    if cut:
        action = np.clip(action, low, high)
    inputs = np.hstack([data.next_observations, action])
    names = (f"{name}{suffix}" for name in critic_names(run))
    return tuple(output(weights, name, inputs, RELU)[:, 0] for name in names)


def targets(run: Run, step: Step) -> Targets:
    """The paper's targets of an update, and others by what they are."""
    first, second = next_values(run, step, "policy_target", "_target", NOISE)
    still = next_values(run, step, "policy_target", "_target", 0.0)
    beyond = next_values(run, step, "policy_target", "_target", NOISE, cut=False)
    online_policy = next_values(run, step, "policy", "_target", NOISE)
    online_critics = next_values(run, step, "policy_target", "", NOISE)
    values = twin_values(first, second) | {
        "next actions that noise takes beyond the bounds are not cut": np.minimum(*beyond),
        "no noise in the next action": np.minimum(*still),
        "the online policy's next action": np.minimum(*online_policy),
        "the online critics' values": np.minimum(*online_critics),
    }
    return with_ends(run, step, np.minimum(first, second), values)


def terms(run: Run, step: Step) -> Terms:
    """What the paper's targets are summed from, with their weights."""
    value = np.minimum(*next_values(run, step, "policy_target", "_target", NOISE))
    gamma = run.hyperparameters.gamma
    return {"reward": (batch(run, step).rewards, 1.0), "next value": (value, gamma)}


def climbed(lab: Lab, algorithm: str = "td3") -> Measurement:
    """Weights of the critics in what the policy climbs; the paper's is the first."""
    run = trainings.update(lab, algorithm)
    steps = steps_of(run, "policy")[:UPDATES]
    found = np.array([policy_terms(run, step)[0] for step in steps])
    others: dict[str, Array] = {}
    if len(critic_names(run)) > 1:
        pulls = (_pulls(run, step, step.before) for step in steps)
        others[SMALLER] = np.array([_fitted(each, smaller)[0] for each, (smaller, _) in pulls])
    return Measurement(found, np.tile(np.eye(1, found.shape[1]), (len(found), 1)), None, others)


def policy_clipping(lab: Lab, algorithm: str = "td3") -> Measurement:
    """Pull on the policy where critics are steep, as a share of what is due."""
    quiet, loud = (_policy_pull(of(lab, algorithm)) for of in (trainings.update, trainings.loud))
    return Measurement(np.array([loud / quiet]), np.ones(1))


def _policy_pull(run: Run) -> float:
    step = steps_of(run, "policy")[0]
    each, by_size = _pulls(run, step, step.before)
    fits = [_fitted(terms, _pull(step)) for terms in (each, by_size) if terms]
    return float(np.abs(min(fits, key=lambda fit: fit[1])[0]).sum())


def critics_seen(lab: Lab, algorithm: str = "td3") -> Measurement:
    """Whether the policy's step sees critics from before or after theirs."""
    run = trainings.update(lab, algorithm)
    step = steps_of(run, "policy")[0]
    earlier = [s for s in critic_updates(run) if s.env_steps <= step.env_steps][-1]
    misfits = [policy_terms(run, step, seen)[1] for seen in (earlier.before, earlier.after)]
    return Measurement(np.array([float(np.argmin(misfits))]), np.ones(1))


def policy_terms(
    run: Run, step: Step, critics_then: Parameters | None = None
) -> tuple[Array, float]:
    """Weights of all critics in the policy's gradient, and what they leave."""
    each, _ = _pulls(run, step, step.before if critics_then is None else critics_then)
    return _fitted(each, _pull(step))


def _pull(step: Step) -> Array:
    return output_gradient(step.gradients, step.before, "policy", step.observations, RELU).ravel()


def _pulls(run: Run, step: Step, weights: Parameters) -> tuple[list[Array], list[Array]]:
    # On the policy's outputs by each critic, and by the smaller and the larger where there are two.
    seen = step.observations
    action = np.tanh(output(step.before, "policy", seen, RELU))
    inputs, inner = np.hstack([seen, action]), (1 - action**2) / len(action)
    each = [
        input_gradient(weights, name, inputs)[:, -setups.ACTIONS :] for name in critic_names(run)
    ]
    by_size = critic_slopes(weights, seen, action) if len(each) > 1 else ()
    laid = [[(-inner * slope).ravel() for slope in slopes] for slopes in (each, by_size)]
    return laid[0], laid[1]


def _fitted(terms: list[Array], pull: Array) -> tuple[Array, float]:
    basis = np.stack(terms, axis=1)
    found = np.linalg.lstsq(basis, pull, rcond=None)[0]
    return np.asarray(found, float), float(np.abs(basis @ found - pull).max())


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
        climbed,
        listed(("weight of the first critic", "of the second critic")),
        tolerance=5e-4,
    ),
    critics.policy_clipping_probe("td3", policy_clipping, f"{PAPER}, algorithm 1"),
    critics.critics_seen_probe("td3", critics_seen, f"{PAPER}, algorithm 1"),
)
