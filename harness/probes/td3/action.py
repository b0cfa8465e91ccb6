"""Probes of TD3's actions: the policy's, exploration, and target smoothing."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.lab import Lab
from harness.probes.probe import Measurement, Probe, listed, relation
from harness.probes.readings import critic_updates, critics
from harness.probes.results import Array, Axis
from harness.probes.setups import HALF, HIGH, LOW
from harness.probes.shared.storage import action_unit
from harness.probes.td3 import trainings
from harness.probes.td3.trainings import CENTRES, CLIP, EXPLORATION, NOISE, NOISES, PAPER

MIDDLE = CENTRES == 0
GENTLE = MIDDLE & (np.abs(NOISES) < 2)
"""Rows in which no noise is cut, with the paper's values."""
EDGES = ("lower bound 1", "upper bound 1", "lower bound 2", "upper bound 2")


def policy_action(lab: Lab, algorithm: str = "td3") -> Measurement:
    """The policy's actions without noise, against tanh, scaled."""
    expected = (LOW[0] + HIGH[0]) / 2 + HALF * np.tanh(trainings.OUTPUTS)
    return Measurement(
        trainings.still(lab, algorithm).actions()[:, 0], expected, Axis("output", trainings.OUTPUTS)
    )


def _exploration(lab: Lab) -> Measurement:
    noisy = trainings.centres() + EXPLORATION * HALF * NOISES
    expected = np.clip(noisy, LOW[0], HIGH[0])
    actions = trainings.acting(lab).actions()[:, 0]
    share = _share(actions)
    other = np.clip(trainings.centres() + share * HALF * NOISES, LOW[0], HIGH[0])
    others = {"not cut at the bounds": noisy, _with(share): other}
    return Measurement(actions, expected, _axis(), others)


def exploration_scale(lab: Lab, algorithm: str = "td3") -> Measurement:
    """How large the noise is by default."""
    actions = trainings.acting(lab, algorithm).actions()[:, 0]
    return Measurement(np.array([_share(actions)]), np.array([EXPLORATION]))


def warm_up(lab: Lab, algorithm: str = "td3") -> Measurement:
    """Actions of the warm-up, against those of the action space."""
    run = trainings.warming(lab, algorithm)
    count = run.hyperparameters.learning_starts - 1
    drawn = -1 + 2 * run.experiment.dictation.random_actions[:count]
    noise = EXPLORATION * run.experiment.dictation.acting_noise[:count]
    noisy = np.clip(drawn + noise, -1, 1)
    text = "exploration noise is added to random actions as well"
    return Measurement(run.actions()[:count], drawn, alternatives={text: noisy})


def _target_action(lab: Lab) -> Measurement:
    bounds = np.array(LOW[:1]), np.array(HIGH[:1])
    expected = formulas.smoothed_action(trainings.centres(), NOISES, NOISE, CLIP, *bounds)
    actions = next_actions(lab, 0)
    share, most = _share(actions), _most(actions)
    other = formulas.smoothed_action(trainings.centres(), NOISES, share, most, *bounds)
    others = {f"{_with(share)}, cut at {most:.4g}": other}
    return Measurement(actions, expected, _axis(), others)


def _target_noise_scale(lab: Lab) -> Measurement:
    return Measurement(np.array([_share(next_actions(lab, 0))]), np.array([NOISE]))


def _target_noise_clip(lab: Lab) -> Measurement:
    most = _most(next_actions(lab, 0))
    free = np.abs(NOISES).max() * _share(next_actions(lab, 0))
    return Measurement(
        np.array([most]), np.array([CLIP]), alternatives={"not cut": np.array([free])}
    )


def _target_bounds(lab: Lab) -> Measurement:
    seen = [next_actions(lab, dimension) for dimension in (0, 1)]
    value = np.array([edge for actions in seen for edge in (actions.min(), actions.max())])
    return Measurement(value, np.array([LOW[0], HIGH[0], LOW[1], HIGH[1]]))


def next_actions(lab: Lab, dimension: int) -> Array:
    """Actions in the targets of the smoothing run, in action units, float[rows]."""
    run = trainings.smoothing(lab, dimension)
    shown = critics(run, critic_updates(run)[0]).target / run.hyperparameters.gamma
    # Critics see actions in the unit in which they are stored.
    scale, shift, _ = action_unit(run, dimension)
    return np.asarray((shown - shift) / scale)


def _share(actions: Array) -> float:
    # Standard deviation of the noise as a share of half the range, where nothing is cut.
    slope = np.polyfit(NOISES[GENTLE], actions[GENTLE], 1)[0]
    return round(float(slope / HALF), 9)


def _with(share: float) -> str:
    if not share:
        return "without noise"
    return f"as the paper's, with noise of {share:.4g} of half the range"


def _most(actions: Array) -> float:
    # The largest noise as a share of half the range, in its middle.
    return float(np.abs(actions[MIDDLE] - (LOW[0] + HIGH[0]) / 2).max() / HALF)


def _axis() -> Axis:
    return Axis("standard normal noise; middle of the range, then near its ends", NOISES)


PROBES: Sequence[Probe] = (
    Probe(
        "td3.policy_action",
        "Which action does the policy take without noise, where actions range from -1 to 3?",
        f"{PAPER}, appendix C: tanh of the output, scaled to the range",
        "action, in action units",
        policy_action,
        relation("action"),
    ),
    Probe(
        "td3.exploration",
        "Which action does the policy take with noise, where actions range from -1 to 3?",
        f"{PAPER}, section 6.1: Gaussian noise with standard deviation 0.1",
        "action, in action units",
        _exploration,
        relation("action"),
    ),
    Probe(
        "td3.exploration_scale",
        "How large is the exploration noise, by default?",
        f"{PAPER}, section 6.1: 0.1; authors' code: of half the action range",
        "standard deviation, as a share of half the action range",
        exploration_scale,
        relation("exploration noise"),
    ),
    Probe(
        "td3.warm_up_action",
        "Which actions are taken during the warm-up?",
        f"{PAPER}, section 6.1: drawn uniformly at random",
        "action, in action units",
        warm_up,
        relation("random action"),
    ),
    Probe(
        "td3.target_action",
        "Which next action do targets use, by default, where actions range from -1 to 3?",
        f"{PAPER}, eq. 14 and section 6.1: noise 0.2, cut at 0.5, actions kept within bounds",
        "action, in action units",
        _target_action,
        relation("next action"),
    ),
    Probe(
        "td3.target_noise_scale",
        "How large is the noise in targets, by default?",
        f"{PAPER}, section 6.1: 0.2; authors' code: of half the action range",
        "standard deviation, as a share of half the action range",
        _target_noise_scale,
        relation("target noise"),
    ),
    Probe(
        "td3.target_noise_clip",
        "Where is the noise in targets cut, by default?",
        f"{PAPER}, section 6.1: at 0.5; authors' code: of half the action range",
        "largest noise, as a share of half the action range",
        _target_noise_clip,
        relation("largest target noise"),
    ),
    Probe(
        "td3.target_action_bounds",
        "Where are next actions cut that noise takes out of the range, per dimension?",
        "the authors' code: at the bounds of the action space, here -1 to 3 and -2 to 2",
        "smallest and largest next action, in action units",
        _target_bounds,
        listed(EDGES),
    ),
)
