"""Probes of TD3's actions: the policy's, exploration, and target smoothing."""

import functools
from collections.abc import Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import ACTION
from parallax.harness.probes.experiment_setups import HALF_RANGE, WIDE_HIGH, WIDE_LOW
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.measurements import (
    fit_critic_action_unit,
    list_critic_updates,
    read_critics,
)
from parallax.harness.probes.probe import (
    SETTINGS,
    Probe,
    ProbeMeasurement,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.results import AnswerAxis
from parallax.harness.probes.td3 import experiments
from parallax.harness.probes.td3.experiments import (
    CENTER_OUTPUTS,
    EXPLORATION_NOISE,
    NOISE_GRID,
    TARGET_NOISE,
    TARGET_NOISE_CLIP,
    TD3_PAPER,
)

IS_CENTER_ROW = CENTER_OUTPUTS == 0
IS_UNCLIPPED_ROW = IS_CENTER_ROW & (np.abs(NOISE_GRID) < 2)
"""Rows in which no noise is clipped with the paper's values."""
ONE_NOISE = "the same noise for all transitions of a minibatch"
UNIFORM_NOISE = "noise of a uniform distribution, not a normal one"
NOISE_TOLERANCE = 1e-4
"""Noise that differs by less, in action units, counts as equal."""
TARGET_BOUND_NAMES = ("lower bound 1", "upper bound 1", "lower bound 2", "upper bound 2")


def measure_policy_action(cache: ExperimentCache, algorithm: str = "td3") -> ProbeMeasurement:
    """Compare the policy's actions without noise with scaled tanh."""
    expected = (WIDE_LOW[0] + WIDE_HIGH[0]) / 2 + HALF_RANGE * np.tanh(experiments.OUTPUT_GRID)
    found = experiments.run_noiseless_policy(cache, algorithm).get_actions()[:, 0]
    explain = functools.partial(_explain_action, found, experiments.OUTPUT_GRID, None)
    axis = AnswerAxis("output", experiments.OUTPUT_GRID)
    return ProbeMeasurement(found, expected, axis, explain=explain)


def _explain_action(found: Array, outputs: Array, noise: Array | None) -> str:
    # PyTorch and its second of start-up are only needed here.
    from parallax.harness.probes.families import action_formulas

    drawn, std = (noise, EXPLORATION_NOISE) if noise is not None else (0 * outputs, 0.0)
    return action_formulas.explain_action(found, outputs, drawn, std, (WIDE_LOW[0], WIDE_HIGH[0]))


def _measure_exploration(cache: ExperimentCache) -> ProbeMeasurement:
    noisy = experiments.compute_center_actions() + EXPLORATION_NOISE * HALF_RANGE * NOISE_GRID
    expected = np.clip(noisy, WIDE_LOW[0], WIDE_HIGH[0])
    actions = experiments.run_frozen_policy(cache).get_actions()[:, 0]
    share = _fit_noise_scale(actions)
    other = np.clip(
        experiments.compute_center_actions() + share * HALF_RANGE * NOISE_GRID,
        WIDE_LOW[0],
        WIDE_HIGH[0],
    )
    others = {"not cut at the bounds": noisy, _describe_noise_scale(share): other}
    explain = functools.partial(_explain_action, actions, CENTER_OUTPUTS, NOISE_GRID)
    return ProbeMeasurement(actions, expected, _make_noise_axis(), others, explain=explain)


def measure_exploration_scale(cache: ExperimentCache, algorithm: str = "td3") -> ProbeMeasurement:
    """Measure the default size of the exploration noise."""
    actions = experiments.run_frozen_policy(cache, algorithm).get_actions()[:, 0]
    return ProbeMeasurement(np.array([_fit_noise_scale(actions)]), np.array([EXPLORATION_NOISE]))


def measure_warm_up(cache: ExperimentCache, algorithm: str = "td3") -> ProbeMeasurement:
    """Compare actions of the warm-up with samples of the action space."""
    run = experiments.run_noisy_warm_up(cache, algorithm)
    count = run.hyperparameters.learning_starts - 1
    drawn = -1 + 2 * run.experiment.scripted_data.random_actions[:count]
    noise = EXPLORATION_NOISE * run.experiment.scripted_data.acting_noise[:count]
    noisy = np.clip(drawn + noise, -1, 1)
    text = "exploration noise is added to random actions as well"
    found = run.get_actions()[:count]

    def explain() -> str:
        # PyTorch and its second of start-up are only needed here.
        from parallax.harness.probes.families import action_formulas

        numbers = run.experiment.scripted_data.random_actions[:count]
        return action_formulas.explain_random_actions(found, numbers, (-1.0, 1.0))

    return ProbeMeasurement(found, drawn, alternatives={text: noisy}, explain=explain)


def _measure_target_action(cache: ExperimentCache) -> ProbeMeasurement:
    bounds = np.array(WIDE_LOW[:1]), np.array(WIDE_HIGH[:1])
    centers = experiments.compute_center_actions()
    expected = formulas.compute_smoothed_action(
        centers, NOISE_GRID, TARGET_NOISE, TARGET_NOISE_CLIP, *bounds
    )
    run, actions = experiments.run_target_smoothing(cache, 0), read_next_actions(cache, 0)
    share, most = _fit_noise_scale(actions), _measure_largest_noise(actions)
    other = formulas.compute_smoothed_action(centers, NOISE_GRID, share, most, *bounds)
    others = {f"{_describe_noise_scale(share)}, cut at {most:.4g}": other}
    std, limit = run.hyperparameters.target_policy_noise, run.hyperparameters.target_noise_clip
    others["noise is cut before it is multiplied by its standard deviation"] = np.array(
        [
            np.clip(centers + unit * std * np.clip(NOISE_GRID, -end, end), *np.ravel(bounds))
            for unit in (1.0, HALF_RANGE)
            for end in (limit, limit * HALF_RANGE)
        ]
    )
    if _has_one_noise(actions):
        others = {_describe_one_noise(cache, actions): actions}
    # One number per row for all dimensions: the script then gives its first numbers in a row.
    drawn = run.experiment.scripted_data.get_batch_noise(list_critic_updates(run)[0].env_steps)
    shared = np.resize(drawn, NOISE_GRID.shape)
    near = IS_CENTER_ROW & (np.abs(shared) < 2)
    share = round(float(np.polyfit(shared[near], actions[near], 1)[0] / HALF_RANGE), 6)
    others["the same noise in all dimensions of an action"] = formulas.compute_smoothed_action(
        centers, shared, share, most, *bounds
    )
    return ProbeMeasurement(actions, expected, _make_noise_axis(), others)


def _measure_target_noise_scale(cache: ExperimentCache) -> ProbeMeasurement:
    actions = read_next_actions(cache, 0)
    scale = np.array([_fit_noise_scale(actions)])
    others = {_describe_one_noise(cache, actions): scale} if _has_one_noise(actions) else {}
    return ProbeMeasurement(scale, np.array([TARGET_NOISE]), alternatives=others)


def _measure_target_noise_clip(cache: ExperimentCache) -> ProbeMeasurement:
    actions = read_next_actions(cache, 0)
    most = np.array([_measure_largest_noise(actions)])
    free = np.array([np.abs(NOISE_GRID).max() * _fit_noise_scale(actions)])
    one = _has_one_noise(actions)
    others = {_describe_one_noise(cache, actions): most} if one else {"not cut": free}
    return ProbeMeasurement(most, np.array([TARGET_NOISE_CLIP]), alternatives=others)


def _measure_target_bounds(cache: ExperimentCache) -> ProbeMeasurement:
    seen = [read_next_actions(cache, dimension) for dimension in (0, 1)]
    value = np.array([edge for actions in seen for edge in (actions.min(), actions.max())])
    return ProbeMeasurement(value, np.array([WIDE_LOW[0], WIDE_HIGH[0], WIDE_LOW[1], WIDE_HIGH[1]]))


def read_next_actions(cache: ExperimentCache, dimension: int) -> Array:
    """Return next actions in the targets of the smoothing run, in action units, float[rows]."""
    run = experiments.run_target_smoothing(cache, dimension)
    shown = read_critics(run, list_critic_updates(run)[0]).target / run.hyperparameters.gamma
    scale, shift = fit_critic_action_unit(run, dimension)
    return np.asarray((shown - shift) / scale)


def _fit_noise_scale(actions: Array) -> float:
    # Standard deviation of the noise as a share of half the range, where nothing is clipped.
    slope = np.polyfit(NOISE_GRID[IS_UNCLIPPED_ROW], actions[IS_UNCLIPPED_ROW], 1)[0]
    return round(float(slope / HALF_RANGE), 6)


def _describe_noise_scale(share: float) -> str:
    if not share:
        return "without noise"
    return f"as the paper's, with noise of {share:.4g} of half the range"


def _measure_largest_noise(actions: Array) -> float:
    # The largest noise as a share of half the range, in its middle.
    return float(
        np.abs(actions[IS_CENTER_ROW] - (WIDE_LOW[0] + WIDE_HIGH[0]) / 2).max() / HALF_RANGE
    )


def _has_one_noise(actions: Array) -> bool:
    # Whether actions of the same mean are the same but for rounding, and away from that mean.
    noise = actions[IS_UNCLIPPED_ROW] - (WIDE_LOW[0] + WIDE_HIGH[0]) / 2
    return bool(np.ptp(noise) < NOISE_TOLERANCE < np.abs(noise).min())


def _describe_one_noise(cache: ExperimentCache, actions: Array) -> str:
    # The script has normal numbers for each action, but the same uniform ones for all.
    run = experiments.run_target_smoothing(cache, 0)
    row = list_critic_updates(run)[0].env_steps
    uniform = run.experiment.scripted_data.random_actions[row - 1 : row + 1, 0]
    noise = np.median(actions[IS_UNCLIPPED_ROW] - (WIDE_LOW[0] + WIDE_HIGH[0]) / 2) / HALF_RANGE
    units = np.outer((1, 1 / HALF_RANGE), (TARGET_NOISE, TARGET_NOISE_CLIP))
    sizes = np.outer(units, [*uniform, *(2 * uniform - 1)])
    if np.abs(sizes - noise).min() < NOISE_TOLERANCE:
        return UNIFORM_NOISE
    most = run.hyperparameters.target_noise_clip
    end = {1: "largest", -1: "smallest"}.get(round(noise / most, 3)) if most else None
    return f"all noise is {noise:.4g}, the {end} allowed" if end else ONE_NOISE


def _make_noise_axis() -> AnswerAxis:
    return AnswerAxis("standard normal noise; middle of the range, then near its ends", NOISE_GRID)


ACTION_PROBES: Sequence[Probe] = (
    Probe(
        "td3.policy_action",
        "Which action does the policy take without noise, where actions range from -1 to 3?",
        f"{TD3_PAPER}, appendix C: tanh of the output, scaled to the range",
        "action, in action units",
        measure_policy_action,
        make_relation_description("action"),
        events=(ACTION,),
    ),
    Probe(
        "td3.exploration",
        "Which action does the policy take with noise, where actions range from -1 to 3?",
        f"{TD3_PAPER}, section 6.1: Gaussian noise with standard deviation 0.1",
        "action, in action units",
        _measure_exploration,
        make_relation_description("action"),
        events=(ACTION,),
    ),
    Probe(
        "td3.exploration_scale",
        "How large is the exploration noise, by default?",
        f"{TD3_PAPER}, section 6.1: 0.1; authors' code: of half the action range",
        "standard deviation, as a share of half the action range",
        measure_exploration_scale,
        make_relation_description("exploration noise"),
        part=SETTINGS,
        events=(ACTION,),
    ),
    Probe(
        "td3.warm_up_action",
        "Which actions are taken during the warm-up?",
        f"{TD3_PAPER}, section 6.1: drawn uniformly at random",
        "action, in action units",
        measure_warm_up,
        make_relation_description("random action"),
        events=(ACTION,),
    ),
    Probe(
        "td3.target_action",
        "Which next action do targets use, by default, where actions range from -1 to 3?",
        f"{TD3_PAPER}, eq. 14 and section 6.1: noise 0.2, cut at 0.5, actions clipped",
        "action, in action units",
        _measure_target_action,
        make_relation_description("next action"),
    ),
    Probe(
        "td3.target_noise_scale",
        "How large is the noise in targets, by default?",
        f"{TD3_PAPER}, section 6.1: 0.2; authors' code: of half the action range",
        "standard deviation, as a share of half the action range",
        _measure_target_noise_scale,
        make_relation_description("target noise"),
        part=SETTINGS,
    ),
    Probe(
        "td3.target_noise_clip",
        "Where is the noise in targets cut, by default?",
        f"{TD3_PAPER}, section 6.1: at 0.5; authors' code: of half the action range",
        "largest noise, as a share of half the action range",
        _measure_target_noise_clip,
        make_relation_description("largest target noise"),
        part=SETTINGS,
    ),
    Probe(
        "td3.target_action_bounds",
        "Where are next actions cut that noise takes out of the range, per dimension?",
        "the authors' code: at the bounds of the action space, here -1 to 3 and -2 to 2",
        "smallest and largest next action, in action units",
        _measure_target_bounds,
        make_entry_description(TARGET_BOUND_NAMES),
    ),
)


def measure_exploration_unit(cache: ExperimentCache, algorithm: str = "td3") -> ProbeMeasurement:
    """Compare actions with noise of a given size with the paper's."""
    noises, run = experiments.NOISE_GRID, experiments.run_out_of_bounds(cache, algorithm)
    centers, noise = experiments.compute_center_actions(), experiments.EXPLORATION_NOISE * noises
    low, high = WIDE_LOW[0], WIDE_HIGH[0]
    scaled = (low + high) / 2 + HALF_RANGE * np.clip(centers + noise, -1, 1)
    others = {
        "noise in the units of actions, not of half the range": np.clip(centers + noise, low, high),
        "the action in its own units is taken for one between -1 and 1, and scaled again": scaled,
        "no noise": np.clip(centers + 0 * noise, low, high),
    }
    expected = np.clip(centers + HALF_RANGE * noise, low, high)
    axis, found = AnswerAxis("standard normal noise", noises), run.get_actions()[:, 0]
    explain = functools.partial(_explain_action, found, CENTER_OUTPUTS, noises)
    return ProbeMeasurement(found, expected, axis, others, explain=explain)


EXPLORATION_UNIT_PROBE = Probe(
    "td3.exploration_unit",
    "Which action is taken with noise of 0.1 of half the range, where it is from -1 to 3?",
    f"{TD3_PAPER}, section 6.1: noise on the action, clipped at the bounds",
    "action, in action units",
    measure_exploration_unit,
    make_relation_description("action"),
    events=(ACTION,),
)
