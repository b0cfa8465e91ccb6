"""Probes of PPO's rollouts: actions, their log-probabilities, advantages and value targets."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import ACTION, ACTION_DRAWN, POLICY_LOSS, Parameters
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED, ScriptedTransition
from parallax.harness.probes.experiment_setups import HALF_RANGE
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families.critics import NEXT_EPISODE
from parallax.harness.probes.families.storage import make_action_range_probe
from parallax.harness.probes.measurements import (
    find_transition_rows,
    list_other_environments,
    list_other_rows,
)
from parallax.harness.probes.ppo import experiments, measurements
from parallax.harness.probes.ppo.experiments import (
    GAE_PAPER,
    GAMMA,
    LAMBDA,
    N_ENVS,
    PPO_CODE,
    PPO_PAPER,
)
from parallax.harness.probes.probe import (
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_relation_description,
)
from parallax.harness.probes.results import AnswerAxis

TANH_TEXT = "the sample is squashed by tanh and scaled to the range, not cut at the bounds"
SCALED_TEXT = "the sample is cut at -1 and 1 and then scaled to the range"
MIN_LINEAR_CORRELATION = 0.999
"""Smallest correlation of advantages with what they are transformed to, in the same places."""


def _get_action_bounds(run: ProbeRun) -> tuple[Array, Array]:
    d = run.experiment.scripted_data
    return np.array(d.low), np.array(d.high)


def _list_alternative_actions(run: ProbeRun, x: Array) -> dict[str, Array]:
    # Other actions that can be computed from a sample, float[rows, actions].
    low, high = _get_action_bounds(run)
    middle, half = (low + high) / 2, (high - low) / 2
    return {
        TANH_TEXT: middle + half * np.tanh(x),
        SCALED_TEXT: middle + half * np.clip(x, -1, 1),
        "not cut at the bounds": x,
    }


def _measure_action(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_out_of_bounds(cache)
    x = measurements.compute_samples(run)
    order = np.argsort(x[:, 0])
    others = {text: array[order, 0] for text, array in _list_alternative_actions(run, x).items()}
    expected = np.clip(x, *_get_action_bounds(run))[order, 0]
    axis = AnswerAxis("Gaussian sample", x[order, 0])
    return ProbeMeasurement(run.get_actions()[order, 0], expected, axis, others)


def _measure_stored_action(cache: ExperimentCache) -> ProbeMeasurement:
    runs = [experiments.run_out_of_bounds(cache, narrow) for narrow in (False, True)]
    samples = [measurements.compute_samples(run) for run in runs]
    stored = np.concatenate([run.record.stored["actions"] for run in runs])
    known = [_list_alternative_actions(run, x) for run, x in zip(runs, samples, strict=True)]
    cut = [np.clip(x, *_get_action_bounds(run)) for run, x in zip(runs, samples, strict=True)]
    others = {
        "the action taken, after it was squashed and scaled": [k[TANH_TEXT] for k in known],
        "the action taken, after it was cut": cut,
        "the action taken, after it was cut and scaled": [k[SCALED_TEXT] for k in known],
    }
    joined = {text: np.concatenate(arrays) for text, arrays in others.items()}
    return ProbeMeasurement(stored, np.concatenate(samples), alternatives=joined)


def _measure_log_prob(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_wide_bounds(cache)
    x = measurements.compute_samples(run)
    gaussian = measurements.compute_policy_gaussian(
        run.weights, measurements.get_rollout_observations(run)
    )
    others = {
        "that of the squashed and scaled action": formulas.compute_squashed_log_prob(
            x, *gaussian, HALF_RANGE
        ),
        "that of the action before it is scaled": formulas.compute_squashed_log_prob(x, *gaussian),
    }
    expected = formulas.compute_normal_log_prob(x, *gaussian)
    return ProbeMeasurement(run.record.stored["log_probs"], expected, alternatives=others)


ACTION_PROBES: Sequence[Probe] = (
    Probe(
        "ppo.action",
        "Which action is taken, where actions range from -1 to 3?",
        f"{PPO_PAPER}, section 6.1: a Gaussian; authors' code cuts it at the bounds",
        "action, in action units",
        _measure_action,
        make_relation_description("action"),
        events=(ACTION, ACTION_DRAWN),
    ),
    make_action_range_probe(
        "ppo",
        (
            experiments.run_out_of_bounds,
            functools.partial(experiments.run_out_of_bounds, narrow=True),
        ),
        f"{PPO_PAPER}, authors' code: those of the action space",
    ),
    Probe(
        "ppo.stored_action",
        "Which action does the policy learn from?",
        f"{PPO_PAPER}, authors' code: the sample before it is cut",
        "action, in action units",
        _measure_stored_action,
        make_relation_description("stored action"),
    ),
    Probe(
        "ppo.log_prob",
        "What is the log-probability of an action?",
        f"{PPO_PAPER}, section 6.1: that of the Gaussian",
        "log-probability, nats",
        _measure_log_prob,
        make_relation_description("log-probability"),
        events=(ACTION_DRAWN,),
    ),
)

SelectRows = Callable[[Sequence[ScriptedTransition]], NDArray[np.bool_]]
"""Returns which steps of a rollout to compare."""


def _make_advantage_measure(
    run_training: Callable[[ExperimentCache], ProbeRun],
    select_rows: SelectRows,
    stored_name: str = "advantages",
) -> Callable[[ExperimentCache], ProbeMeasurement]:
    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        run, is_target = run_training(cache), stored_name == "returns"
        value: list[Array] = []
        expected: list[Array] = []
        others: dict[str, list[Array]] = {}
        words: list[str] = []
        read: list[measurements.Rollout] = []
        chosen: list[NDArray[np.bool_]] = []
        previous: int | None = None
        for number, stored in measurements.list_rollouts(run):
            steps = measurements.get_rollout_transitions(run, number)
            weights, rows = measurements.get_rollout_weights(run, number), select_rows(steps)
            seen = measurements.get_rollout_observations(run, number)
            added = measurements.predict_values(weights, seen) * is_target
            value.append(stored[stored_name][rows])
            expected.append((measurements.compute_advantages(weights, steps) + added)[rows])
            begun = run.experiment.scripted_data.resets[(number + 1) * len(steps)]
            known = _list_alternative_advantages(weights, steps, run.weights, previous, begun)
            for name, array in known.items():
                others.setdefault(name, []).append((array + added)[..., rows])
            previous = steps[-1].end
            read.append(measurements.read_rollout(weights, steps))
            chosen.append(rows)
            words.append(_describe_wrong_values(weights, steps, stored, is_target))
        joined = {name: np.concatenate(arrays, axis=-1) for name, arrays in others.items()}
        return ProbeMeasurement(
            np.concatenate(value),
            np.concatenate(expected),
            alternatives=joined,
            meaning=words[0] if len({*words}) == 1 else "",
            explain=lambda: _explain_advantages(np.concatenate(value), read, chosen, is_target),
        )

    return measure


def _explain_advantages(
    found: Array,
    rollouts: Sequence[measurements.Rollout],
    rows: Sequence[NDArray[np.bool_]],
    is_target: bool = False,
) -> str:
    # PyTorch and its second of start-up are only needed here.
    from parallax.harness.probes.ppo import changed_formulas

    return changed_formulas.explain_advantages(found, rollouts, rows, is_target)


def _describe_wrong_values(
    weights: Parameters,
    steps: Sequence[ScriptedTransition],
    stored: Mapping[str, Array],
    is_target: bool = False,
) -> str:
    """Return whose values advantages or targets of one environment are made of, if of other states.

    An advantage, less the later ones that it sums, has the value after its step as a summand; a
    target, less its advantage, is the value before it.
    """
    rewards, seen, after, ends = measurements.read_rollout(weights, steps)
    later = np.append(stored["advantages"][1:], 0.0) * (ends == 0)
    used = (stored["advantages"] - GAMMA * LAMBDA * later - rewards + seen) / GAMMA
    added = stored.get("returns", np.nan) - stored["advantages"] if is_target else seen
    if found := _find_wrong_states(added, seen, seen, after, ends):
        return f"to the advantage of {found[0]} is added the value of {found[1]}"
    if found := _find_wrong_states(used, after * (ends != TERMINATED), seen, after, ends):
        return f"after {found[0]} counts the value of {found[1]}"
    return ""


STATES_NEAR_STEP = {
    -1: "the state before the previous step",
    0: "the state before the step",
    1: "the state after the step",
    2: "the state after the next step",
}
"""Descriptions of states by their place from that before a step on."""


def _find_wrong_states(
    used: Array, due: Array, seen: Array, after: Array, ends: NDArray[np.int64]
) -> tuple[str, str] | None:
    # Steps with a wrong value, and the state that it is of, if it is the same for all.
    room = 1e-3 * float(np.abs(seen).max())
    wrong = np.flatnonzero(np.abs(used - due) > room)
    steps = {(len(used) - 1,): "the last step", (len(used) - 2,): "the last step but one"}
    steps |= {
        (*np.flatnonzero(ends == TRUNCATED),): "a time limit",
        (*range(len(used)),): "each step",
    }
    for place, words in STATES_NEAR_STEP.items():
        values, at = (seen, wrong + place) if place < 1 else (after, wrong + place - 1)
        is_there = len(wrong) and at.min() >= 0 and at.max() < len(values)
        if is_there and np.abs(used[wrong] - values[at]).max() <= room:
            return steps.get((*wrong,), f"{len(wrong)} of {len(used)} steps"), words
    return None


def _list_alternative_advantages(
    weights: Parameters,
    steps: tuple[ScriptedTransition, ...],
    first: Parameters,
    previous: int | None = None,
    begun: Array | None = None,
) -> dict[str, Array]:
    # Other estimates of one environment's steps, after a step with the end `previous`, and before
    # the observation `begun` if an episode ends with the last one.
    ended = [dataclasses.replace(t, end=TERMINATED) if t.end else t for t in steps]
    reset = [
        dataclasses.replace(t, next_observation=n.observation) if t.end == TRUNCATED else t
        for t, n in itertools.pairwise(steps)
    ]
    estimate = functools.partial(measurements.compute_advantages, weights)
    last = steps[-1]
    if begun is not None and last.end:
        last = dataclasses.replace(last, end=0, next_observation=begun)
    return {
        "the end of an episode at the last step is ignored": estimate((*steps[:-1], last)),
        "nothing follows the end": estimate(ended),
        NEXT_EPISODE: estimate((*reset, steps[-1])),
        "the values of the policy that the run started with": measurements.compute_advantages(
            first, steps
        ),
        **_list_late_and_early_cuts(weights, steps, previous),
    }


def _list_late_and_early_cuts(
    weights: Parameters, steps: tuple[ScriptedTransition, ...], previous: int | None
) -> dict[str, Array]:
    # Variants: what lies beyond the rollout, whether sums or values or both are cut at the wrong
    # step, whether next values are those before the reset, and rewards with values at time limits.
    rewards, seen, after, ends = measurements.read_rollout(weights, steps)
    stored = _list_stored_values(seen, after)
    raised = rewards + GAMMA * after * (ends == TRUNCATED)
    known = (0, TERMINATED) if previous is None else (previous, previous)
    outside = ends[-1], TERMINATED  # a rollout's last step may count as an end
    shifted = {
        "after": [np.hstack([a, ends[:-2], b]) for a in (*known, *outside) for b in ends[-2:]],
        "before": [
            *(np.hstack([ends[1:-1], b, a]) for a in (0, ends[0], *outside) for b in outside),
            np.hstack([ends[1:-1], ends[-2:]]),
        ],
    }
    found: dict[str, Array] = {}
    for when, cuts in shifted.items():
        estimates = []
        for cut in cuts:
            over, final = (ends > 0, cut > 0), (ends == TERMINATED, cut == TERMINATED)
            forms = (rewards, after, final), (rewards, stored, over), (raised, stored, over)
            wrong = (0, 1), (1, 0), (1, 1)  # of the masks of values and of sums
            for (given, following, mask), (i, j) in itertools.product(forms, wrong):
                masks = mask[i].astype(float), over[j].astype(float)
                estimates.append(
                    formulas.compute_gae(given, seen, following, *masks, GAMMA, LAMBDA)
                )
        found[f"advantages are cut one step {when} the end of an episode"] = np.array(estimates)
    return found


def _list_stored_values(seen: Array, after: Array) -> Array:
    # Values after each step as they are stored: after an end, the value of the next episode.
    return np.append(seen[1:], after[-1])


def _find_episode_ends(steps: Sequence[ScriptedTransition]) -> NDArray[np.bool_]:
    return np.array([t.end > 0 for t in steps])


def _find_rows_after_last_end(steps: Sequence[ScriptedTransition]) -> NDArray[np.bool_]:
    ends = _find_episode_ends(steps)
    return np.asarray(np.arange(len(ends)) > np.flatnonzero(ends)[-1])


def _find_last_episode(steps: Sequence[ScriptedTransition]) -> NDArray[np.bool_]:
    return np.asarray(_find_episode_ends(steps)[::-1].cumsum()[::-1] == 1)


def _find_rows_inside_episodes(steps: Sequence[ScriptedTransition]) -> NDArray[np.bool_]:
    return ~_find_episode_ends(steps) & ~_find_rows_after_last_end(steps)


def _compute_parallel_advantages(run: ProbeRun) -> tuple[Array, dict[str, Array]]:
    # Advantages of all transitions, each environment on its own, and those of other formulas.
    weights, steps = run.weights, np.array(run.transitions, object).reshape(-1, N_ENVS)
    read = [measurements.read_rollout(weights, [*steps[:, copy]]) for copy in range(N_ENVS)]
    every = np.stack([ends for *_, ends in read], axis=1).astype(float)
    others: dict[str, Array] = {"": np.zeros(steps.shape)}
    following = 0.0
    for copy in reversed(range(N_ENVS)):
        own, ends, (rewards, seen, after, _) = tuple(steps[:, copy]), every[:, copy], read[copy]
        stored = _list_stored_values(seen, after)
        paper = measurements.compute_advantages(weights, own)
        estimate = functools.partial(formulas.compute_gae, gamma=GAMMA, lam=LAMBDA, values=seen)
        # Share of a sum behind the rollout's last step in the advantage of each step.
        leaked = paper + following * np.cumprod(GAMMA * LAMBDA * (ends == 0)[::-1])[::-1]
        following, known = leaked[0], _list_alternative_advantages(weights, own, weights)
        known |= {"": paper, "sums run on into the next environment": leaked}
        raised = rewards + GAMMA * after * ((every == TRUNCATED).any(axis=1) & (ends == 0))
        name = "a time limit in one environment adds a value to the rewards of all"
        cases = {name: (raised, ends, copy)}
        places = list_other_environments(copy, N_ENVS)
        ends_of_others = {
            "an end in one environment ends the episodes of all": every.max(axis=1),
            **{f"episodes end where they do in {of}": every[:, i] for of, i in places.items()},
        }
        for name, of_others in ends_of_others.items():
            cases[name] = rewards, of_others, copy
            not_last = np.append(of_others[:-1], ends[-1])
            last = np.append(ends[:-1], of_others[-1])
            cases[f"{name}, but not for the last step"] = rewards, not_last, copy
            cases[f"{name}, only for the last step"] = rewards, last, copy
        for of, i in places.items():
            cases[f"rewards are those of {of}"] = read[i][0], ends, i
        for name, (given, e, i) in cases.items():
            over, final = np.sign(e), 1.0 * (e == TERMINATED)
            known[name] = estimate(given, next_values=after, terminated=final, ended=over)
            estimate_cut = functools.partial(estimate, next_values=stored, ended=over)
            known[f"{name}; nothing follows the end"] = estimate_cut(given, terminated=over)
            given = given + GAMMA * read[i][2] * (every[:, i] == TRUNCATED)
            known[f"{name}; values are added at own limits"] = estimate_cut(given, terminated=over)
        for name, array in known.items():
            others.setdefault(name, np.zeros((*array.shape[:-1], *steps.shape)))[..., copy] = array
    paper = others.pop("").ravel()
    return paper, {name: array.reshape(*array.shape[:-2], -1) for name, array in others.items()}


def _measure_parallel_advantages(run: ProbeRun) -> ProbeMeasurement:
    stored, (expected, others) = run.record.stored, _compute_parallel_advantages(run)
    seen = np.array([t.observation for t in run.transitions])
    places = [np.flatnonzero((stored["observations"] == row).all(axis=1)) for row in seen]
    if any(len(place) != 1 for place in places):
        raise UnmeasuredError("stored observations are not those of the environments")
    found = stored["advantages"][np.concatenate(places)]
    steps = np.array(run.transitions, object).reshape(-1, N_ENVS)
    words = {
        _describe_wrong_values(run.weights, [*steps[:, copy]], {"advantages": own})
        for copy, own in enumerate(found.reshape(-1, N_ENVS).T)
    } - {""}
    meaning = words.pop() if len(words) == 1 else ""

    explain = functools.partial(_explain_parallel_advantages, run, found, np.arange(len(found)))
    return ProbeMeasurement(found, expected, alternatives=others, meaning=meaning, explain=explain)


def _explain_parallel_advantages(run: ProbeRun, found: Array, rows: NDArray[np.intp]) -> str:
    steps = np.array(run.transitions, object).reshape(-1, N_ENVS)
    read = [measurements.read_rollout(run.weights, [*row]) for row in steps.T]
    rewards, values, after, ends = (np.stack(each, axis=1) for each in zip(*read, strict=True))
    places, first = np.unique(rows, return_index=True)  # a row may be in a minibatch twice
    chosen = np.isin(np.arange(steps.size), places).reshape(steps.shape)
    return _explain_advantages(found[first], [(rewards, values, after, ends)], [chosen])


def _measure_parallel_policy_weights(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_parallel_envs(cache)
    step = measurements.get_snapshot_step(run, 0)
    samples = measurements.compute_parallel_samples(run)
    rows = find_transition_rows(run, step.observations)
    slope, _ = measurements.solve_minibatch_slope(step, step.observations, samples[rows])
    expected, others = _compute_parallel_advantages(run)
    scale, shift = _fit_standardization(run)
    grid = expected.reshape(-1, N_ENVS)
    others["advantages are ordered by environment, other data by step"] = grid.T.ravel()
    others["advantages are ordered by step, other data by environment"] = (
        grid.ravel().reshape(N_ENVS, -1).T.ravel()
    )
    found = {name: scale * array[..., rows] + shift for name, array in others.items()}
    for axis, name in enumerate(("for each environment alone", "at each step alone")):
        parts = [(grid - grid.mean(axis, keepdims=True), grid.std(axis, ddof=n)) for n in (0, 1)]
        each = [(part / np.expand_dims(std, axis)).ravel()[rows] for part, std in parts]
        found[f"standardised {name}"] = np.array(each)
    pool = scale * expected + shift
    ends = np.array([t.end for t in run.transitions]).reshape(grid.shape)
    for of, places in list_other_rows(ends).items():
        found[f"advantages are those of {of}"] = pool[places.ravel()[rows]]
    nearest = pool[np.abs(slope[:, None] - pool).argmin(axis=1)]
    found["the advantages of other transitions"] = nearest
    explain = functools.partial(_explain_parallel_advantages, run, (slope - shift) / scale, rows)
    words = measurements.describe_missing_pulls(slope, pool[rows])
    return ProbeMeasurement(slope, pool[rows], None, found, meaning=words, explain=explain)


def _fit_standardization(run: ProbeRun) -> tuple[float, float]:
    """Return factor and summand by which a framework standardizes a whole rollout; else 1 and 0."""
    transformed = measurements.get_transformed_advantages(run)
    if transformed is None:
        return 1.0, 0.0
    advantages = run.record.stored["advantages"]
    if abs(np.corrcoef(advantages, transformed)[0, 1]) > MIN_LINEAR_CORRELATION:
        scale, shift = np.polyfit(advantages, transformed, 1)
    else:  # standardized ones may be stored in places of others
        scale = transformed.std() / advantages.std()
        shift = transformed.mean() - scale * advantages.mean()
    return float(scale), float(shift)


ADVANTAGE_UNIT = "advantage, in units of return, of three rollouts"
ADVANTAGE_PROBES: Sequence[Probe] = (
    Probe(
        "ppo.gae",
        "What are the advantages within whole episodes?",
        GAE_PAPER,
        ADVANTAGE_UNIT,
        _make_advantage_measure(experiments.run_three_rollouts, _find_rows_inside_episodes),
        make_relation_description("advantage"),
    ),
    Probe(
        "ppo.termination",
        "What is the advantage of a step that terminates an episode?",
        f"{GAE_PAPER}: nothing follows",
        ADVANTAGE_UNIT,
        _make_advantage_measure(experiments.run_three_rollouts, _find_episode_ends),
        make_relation_description("advantage at the end of the task"),
    ),
    Probe(
        "ppo.truncation",
        "What is the advantage of a step that a time limit truncates?",
        "Pardo et al. 2018 (arXiv:1712.00378), section 3: bootstrap with the value of that state",
        ADVANTAGE_UNIT,
        _make_advantage_measure(experiments.run_truncated_episodes, _find_episode_ends),
        make_relation_description("advantage at a time limit"),
    ),
    Probe(
        "ppo.rollout_end",
        "Which advantages have the steps before the cut at the end of the rollout?",
        f"{GAE_PAPER}, {PPO_PAPER}, eq. 11: bootstrap with the value of the state after the cut",
        ADVANTAGE_UNIT,
        _make_advantage_measure(experiments.run_three_rollouts, _find_rows_after_last_end),
        make_relation_description("advantage before the cut"),
    ),
    Probe(
        "ppo.rollout_end_at_end",
        "Which advantages has the last episode of a rollout that ends where the task does?",
        f"{GAE_PAPER}: nothing follows",
        "advantage, in units of return",
        _make_advantage_measure(
            lambda cache: experiments.run_minibatches(cache, 24, 8), _find_last_episode
        ),
        make_relation_description("advantage of a last episode"),
    ),
    Probe(
        "ppo.gae_with_copies",
        f"What are the advantages of a rollout on {N_ENVS} parallel environments?",
        f"{GAE_PAPER}, each environment on its own",
        ADVANTAGE_UNIT,
        lambda cache: _measure_parallel_advantages(experiments.run_parallel_envs(cache)),
        make_relation_description("advantage"),
    ),
    Probe(
        "ppo.truncation_with_copies",
        "What are the advantages where time limits truncate some parallel environments?",
        "Pardo et al. 2018 (arXiv:1712.00378), section 3: bootstrap with the value of that state",
        "advantage, in units of return, at each step of all environments",
        lambda cache: _measure_parallel_advantages(experiments.run_parallel_time_limits(cache)),
        make_relation_description("advantage with time limits"),
    ),
    Probe(
        "ppo.policy_loss_with_copies",
        f"What is the gradient of the policy loss with {N_ENVS} parallel environments?",
        f"{PPO_PAPER}, eq. 7: by the advantage in its own environment",
        "derivative of the objective by the log ratio, times the minibatch size",
        _measure_parallel_policy_weights,
        make_relation_description("pull on the policy"),
        tolerance=1e-3,
        events=(POLICY_LOSS,),
    ),
    Probe(
        "ppo.value_target",
        "What is the target of the value network?",
        f"{PPO_PAPER}, eq. 9; {PPO_CODE}: advantage plus value",
        "in units of return",
        _make_advantage_measure(
            experiments.run_three_rollouts, lambda steps: np.full(len(steps), True), "returns"
        ),
        make_relation_description("value target"),
    ),
)


def _measure_stored_reward(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_truncated_episodes(cache)
    if "rewards" not in run.record.stored:
        raise UnmeasuredError("what it stores was not read")
    steps = run.transitions[: experiments.ROLLOUT_STEPS]
    rows = np.flatnonzero([t.end == TRUNCATED for t in steps])
    given = np.array([steps[row].reward for row in rows])
    after = [*run.transitions[1:], run.transitions[-1]]
    next_values, reset_values = (
        measurements.predict_values(run.weights, np.array(observations))
        for observations in (
            [steps[row].next_observation for row in rows],
            [after[row].observation for row in rows],
        )
    )
    text = "the reward plus the discounted value of the {}"
    others = {
        text.format("state that was cut"): given + GAMMA * next_values,
        text.format("first state of the next episode"): given + GAMMA * reset_values,
    }
    return ProbeMeasurement(run.record.stored["rewards"][rows], given, alternatives=others)


STORED_REWARD_PROBE = Probe(
    "ppo.stored_reward",
    "Which reward is stored where a time limit cuts?",
    f"{PPO_PAPER}, algorithm 1: that of the environment",
    "in units of reward",
    _measure_stored_reward,
    make_relation_description("stored reward"),
)
