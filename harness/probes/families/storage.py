"""Probes of the contents of a replay buffer, and of the evaluated policy."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import ACTION, CRITIC_LOSS, MINIBATCH_DRAWN
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED
from parallax.harness.probes.experiment_setups import (
    BATCH_ROWS,
    BOUND_NAMES,
    WIDE_HIGH,
    WIDE_LOW,
    OffPolicyRuns,
    build_off_policy_experiment,
    make_continuous_data,
    make_weights,
)
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families.critics import NEXT_EPISODE
from parallax.harness.probes.measurements import (
    check_recipe_networks,
    describe_critic_actions,
    fit_critic_action_unit,
    list_other_rows,
)
from parallax.harness.probes.probe import (
    GREEDY,
    LOOP,
    UPDATE,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    describe_counts,
    make_count_probe,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.reference_networks import (
    HIDDEN_LAYERS,
    POLICY_HEADS,
    compute_output,
    round_to_float32,
)
from parallax.harness.probes.results import AnswerComparison

DRAW_NAMES = (
    "oldest left out",
    "newest left out",
    "transitions drawn",
    "one can be drawn twice: 0 no or 1 yes",
)
FULL_BUFFER_NAMES = (
    "transitions stored",
    "different ones",
    "older than the buffer is large",
    "that never were",
    "places left out before",
    "places left out after",
    "transitions drawn",
)
"""Counts of a full buffer."""
OUTDATED = FULL_BUFFER_NAMES.index("older than the buffer is large")
ACTION_UNIT_NAMES = tuple(
    f"{what} {dimension}"
    for dimension in (1, 2)
    for what in ("scale", "shift", "excess beyond the bounds")
)
"""Relation of stored actions to those taken, per dimension."""
OWN_UNITS = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
"""The same where the action that was taken is stored."""
CRITIC_UNIT_NAMES = ("scale 1", "shift 1", "scale 2", "shift 2")
"""Relation of the actions that critics see to those taken, per dimension."""
MIN_SHARE_OF_WRONG = 0.5
"""Share of wrong rows that must be those of other steps: the first or last ones may be others."""
BOUND_MARGIN = 1e-4
"""Numbers that differ by less count as equal in float32."""


def make_storage_probes(
    runs: OffPolicyRuns, wide: Callable[[ExperimentCache], ProbeRun] | None
) -> Sequence[Probe]:
    """Return the probes of stored transitions and of the first minibatch.

    Args:
        runs: Trainings of an algorithm with a replay buffer.
        wide: Some steps with actions from -1 to 3 and from -2 to 2; None for discrete actions.
    """
    algorithm, run = runs.algorithm, runs.run_update

    def transitions(cache: ExperimentCache) -> ProbeMeasurement:
        wrong = count_wrong_entries(run(cache))
        return _describe_wrong_parts(run(cache), wrong, range(len(run(cache).transitions)))

    def sampling(cache: ExperimentCache) -> ProbeMeasurement:
        value, size = measure_index_draws(run(cache)), run(cache).hyperparameters.batch_size
        return ProbeMeasurement(value, np.array([0.0, 0.0, float(size), 1.0]))

    def choices(cache: ExperimentCache) -> ProbeMeasurement:
        stored = np.asarray(run(cache).record.stored["actions"], float).reshape(-1)
        return ProbeMeasurement(stored, run(cache).get_actions()[:, 0])

    def actions(cache: ExperimentCache) -> ProbeMeasurement:
        assert wide is not None
        runs = wide(cache), _run_wide_warm_up(cache, algorithm)
        try:
            fits = np.ravel([_fit_stored_action_unit(runs, dimension) for dimension in (0, 1)])
        except UnmeasuredError:
            if words := _describe_warm_up_units(*runs):
                return ProbeMeasurement(np.full(6, np.nan), OWN_UNITS, meaning=words)
            fits = np.ravel([_fit_noiseless_action(runs[0], dimension) for dimension in (0, 1)])
            return ProbeMeasurement(fits, 0 * fits, meaning=NOISELESS_TEXT)
        # Rounded, since a fit of float32 numbers finds shifts of 1e-9.
        return ProbeMeasurement(np.round(fits, 8), OWN_UNITS)

    return (
        Probe(
            f"{algorithm}.stored_transition",
            "Are transitions stored as they were, with the last observation of an episode?",
            "the papers' algorithms: yes",
            "transitions of which a part is stored wrongly",
            transitions,
            make_entry_description(STORED_PARTS),
            counts=True,
        ),
        Probe(
            f"{algorithm}.replay_sampling",
            "From which transitions is the first minibatch drawn?",
            "the papers' algorithms: from all there are",
            ", ".join(DRAW_NAMES),
            sampling,
            _describe_draws,
            counts=True,
            events=(MINIBATCH_DRAWN,),
        ),
        Probe(
            f"{algorithm}.stored_action",
            "Which actions are stored?",
            "the papers' algorithms: those that were taken",
            "number of the action, at each step",
            choices,
            make_relation_description("stored action"),
            counts=True,
        )
        if wide is None
        else Probe(
            f"{algorithm}.stored_action",
            "Which action is stored, where actions range from -1 to 3 and from -2 to 2?",
            "the papers' algorithms: the action that was taken",
            "from the action taken to the one stored: " + ", ".join(ACTION_UNIT_NAMES),
            actions,
            make_entry_description(ACTION_UNIT_NAMES),
        ),
    )


def make_critic_action_probe(algorithm: str) -> Probe:
    """Return the probe of the unit in which critics see actions.

    Args:
        algorithm: `td3`, `sac` or `ddpg`.
    """

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        run = _run_wide_warm_up(cache, algorithm)
        fits = np.ravel([fit_critic_action_unit(run, dimension) for dimension in (0, 1)])
        words, due = describe_critic_actions(run), np.array([1.0, 0.0, 1.0, 0.0])
        return ProbeMeasurement(np.round(fits, 6), due, meaning=words)

    return Probe(
        f"{algorithm}.critic_action",
        "In which unit do critics see actions, where they range from -1 to 3 and from -2 to 2?",
        "the papers' algorithms: in that of the task",
        f"from the action taken to the one that critics see: {', '.join(CRITIC_UNIT_NAMES)}",
        measure,
        make_entry_description(CRITIC_UNIT_NAMES),
        events=(CRITIC_LOSS,),
    )


def _describe_draws(comparison: AnswerComparison, measurement: ProbeMeasurement) -> str:
    text = make_entry_description(DRAW_NAMES)(comparison, measurement)
    return text.replace(f"{DRAW_NAMES[-1]} is 0, not 1", "none is in a minibatch twice")


def make_buffer_probes(runs: OffPolicyRuns) -> Sequence[Probe]:
    """Return the probes of a full replay buffer, and of one that parallel environments share.

    Args:
        runs: Trainings of an algorithm with a replay buffer.
    """

    def full_buffer(cache: ExperimentCache) -> ProbeMeasurement:
        run = runs.run_full_buffer(cache)
        size, batch = run.hyperparameters.buffer_size, run.hyperparameters.batch_size
        found = [*_count_buffer_rows(run), *measure_index_draws(run, size)[:3]]
        due = np.array([size, size, 0, 0, 0, 0, batch], float)
        return _describe_old_places(run, ProbeMeasurement(np.array(found), due))

    def transitions(cache: ExperimentCache) -> ProbeMeasurement:
        run = runs.run_parallel_update(cache)
        return _describe_wrong_parts(run, _count_wrong_rows(run), find_stored_rows(run))

    def capacity(cache: ExperimentCache) -> ProbeMeasurement:
        run = runs.run_full_parallel_buffer(cache)
        size = run.hyperparameters.buffer_size
        counts = ProbeMeasurement(_count_buffer_rows(run), np.array([size, size, 0.0, 0.0]))
        return _describe_old_places(run, counts)

    return (
        make_count_probe(
            f"{runs.algorithm}.full_buffer",
            "What does a full buffer hold, and from which of it are minibatches drawn?",
            "the papers' algorithms: the newest transitions; from all of them",
            FULL_BUFFER_NAMES,
            full_buffer,
            part=UPDATE,
        ),
        Probe(
            f"{runs.algorithm}.stored_with_copies",
            "Are transitions of parallel environments stored as they were, also at time limits?",
            "the papers' algorithms: yes, with the observation before the reset",
            "transitions that are missing or of which a part is stored wrongly: "
            + ", ".join(STORED_PARTS),
            transitions,
            make_entry_description(STORED_PARTS),
            counts=True,
            part=LOOP,
        ),
        make_count_probe(
            f"{runs.algorithm}.full_buffer_with_copies",
            "What does a full buffer of parallel environments hold?",
            "the papers' algorithms: the newest transitions of all, as many as one environment's",
            FULL_BUFFER_NAMES[:4],
            capacity,
        ),
    )


def _count_buffer_rows(run: ProbeRun) -> Array:
    # All, different, outdated and unknown transitions in a buffer that is full.
    rows, newest = find_stored_rows(run), len(run.transitions)
    old = sum(0 <= row < newest - run.hyperparameters.buffer_size for row in set(rows))
    return np.array([len(rows), len({*rows} - {-1}), old, rows.count(-1)], float)


def _describe_old_places(run: ProbeRun, counts: ProbeMeasurement) -> ProbeMeasurement:
    # Names the place of a full buffer that still has the transition which it got first.
    if not counts.value[OUTDATED]:
        return counts
    rows, n_old = find_stored_rows(run), len(run.transitions) - run.hyperparameters.buffer_size
    n_envs = run.experiment.n_envs
    places = {place // n_envs + 1 for place, row in enumerate(rows) if 0 <= row == place < n_old}
    if not places or len(rows) > run.hyperparameters.buffer_size:
        return counts
    shown = ", ".join(map(str, sorted(places)))
    words = f"place {shown} of the buffer is never overwritten"
    names = FULL_BUFFER_NAMES[: len(counts.value)]
    meaning = describe_counts(names, np.asarray(counts.value), np.asarray(counts.expected), words)
    return dataclasses.replace(counts, meaning=meaning)


STORED_PARTS = ("observations", "rewards", "next observations", "ends of the task")


def _list_given_arrays(run: ProbeRun) -> dict[str, Array]:
    # What a buffer should hold of each step, by part, float[steps, numbers].
    steps = run.transitions
    return {
        "observations": np.array([t.observation for t in steps]),
        "next observations": np.array([t.next_observation for t in steps]),
        "rewards": np.array([[t.reward] for t in steps]),
        "ends of the task": np.array([[float(t.end == TERMINATED)] for t in steps]),
    }


def _read_stored_part(run: ProbeRun, part: str) -> Array:
    name = "terminated" if part == STORED_PARTS[-1] else part.replace(" ", "_")
    array = np.asarray(run.record.stored[name], float)
    return array.reshape(len(array), -1)


def _describe_wrong_parts(run: ProbeRun, wrong: Array, rows: Sequence[int]) -> ProbeMeasurement:
    # `rows` are the run's rows of the stored transitions, -1 for unknown ones.
    steps, n_envs, after = run.transitions, run.experiment.n_envs, run.record.stored
    limits = [
        np.abs(after["next_observations"][place] - steps[row + n_envs].observation).max()
        for place, row in enumerate(rows)
        if 0 <= row < len(steps) - n_envs and steps[row].end == TRUNCATED
    ]
    counts = ProbeMeasurement(wrong, np.zeros_like(wrong))
    causes = [NEXT_EPISODE] if limits and max(limits) <= BOUND_MARGIN else []
    if wrong[1] and not np.any(after["rewards"] % 1):
        causes.append("stored rewards are whole numbers")
    causes += [] if causes else _list_wrong_sources(run, rows)
    if not causes:
        return counts
    words = describe_counts(STORED_PARTS, wrong, np.zeros_like(wrong)).replace(", not 0", "")
    return dataclasses.replace(counts, meaning="; ".join([words, *causes]))


def _list_wrong_sources(run: ProbeRun, rows: Sequence[int]) -> list[str]:
    """Return of which other steps or environments the wrongly stored arrays are."""
    steps, n_envs, given = run.transitions, run.experiment.n_envs, _list_given_arrays(run)
    places, of = np.array([(p, row) for p, row in enumerate(rows) if row >= 0]).T
    ends = np.array([t.end for t in steps]).reshape(-1, n_envs)
    at = {name: other.ravel()[of] for name, other in list_other_rows(ends).items()}
    found = []
    for part, array in given.items():
        stored = _read_stored_part(run, part)[places]
        wrong = np.abs(stored - array[of]).max(axis=1) > BOUND_MARGIN
        if part == "next observations":
            wrong &= [steps[row].end != TERMINATED for row in of]
        for source, (when, chosen) in itertools.product(given, ({"the step": of} | at).items()):
            if not wrong.any() or given[source].shape != array.shape:
                continue
            apart = np.abs(stored[wrong] - given[source][chosen[wrong]]).max(axis=1)
            if np.mean(apart <= BOUND_MARGIN) > MIN_SHARE_OF_WRONG:
                found.append(f"wrong {part} are the {source} of {when}")
                break
        else:
            if wrong.sum() > 1 and np.ptp(stored[wrong], axis=0).max() <= BOUND_MARGIN:
                one = np.abs(array - stored[wrong][0]).max(axis=1) <= BOUND_MARGIN
                which = f"that of step {one.argmax() + 1}" if one.any() else "that of no step"
                found.append(f"wrong {part} are always the same, {which}")
    return found


def _count_wrong_rows(run: ProbeRun) -> Array:
    """Count transitions of parallel environments that are missing or stored wrongly, by part.

    Stored rows are identified by their observation, in any order.
    """
    stored, at = run.record.stored, find_stored_rows(run)
    first = {row: place for place, row in reversed(list(enumerate(at))) if row >= 0}
    wrong = np.zeros(len(STORED_PARTS))
    for row, transition in enumerate(run.transitions):
        if row not in first:
            wrong[0] += 1
            continue
        place = first[row]
        after = np.abs(stored["next_observations"][place] - transition.next_observation).max()
        wrong[1] += abs(stored["rewards"][place] - transition.reward) > BOUND_MARGIN
        wrong[2] += after > BOUND_MARGIN and transition.end != TERMINATED
        wrong[3] += bool(stored["terminated"][place]) != (transition.end == TERMINATED)
    return wrong


def find_stored_rows(run: ProbeRun) -> list[int]:
    """Return the run's rows of the transitions in a buffer, -1 for unknown ones."""
    # Environments that are reset together have one observation: their rewards tell them apart.
    known: dict[bytes, list[int]] = {}
    for row, transition in enumerate(run.transitions):
        known.setdefault(transition.observation.tobytes(), []).append(row)
    stored = run.record.stored
    observations = np.ascontiguousarray(stored["observations"], dtype=float)
    return [
        min(
            known.get(observation.tobytes(), [-1]),
            key=lambda row: abs(run.transitions[row].reward - reward),
        )
        for observation, reward in zip(observations, stored["rewards"], strict=True)
    ]


def measure_index_draws(run: ProbeRun, size: int | None = None) -> Array:
    """Return the range from which the first minibatch was drawn; see `DRAW_NAMES`.

    Args:
        run: The training.
        size: Number of transitions in the buffer; None for all until then.

    Raises:
        UnmeasuredError: Indices were not drawn as random integers.
    """
    step = next((s for s in run.record.steps if "critic1" in s.networks), None)
    draws = [draw for draw in run.draws if step and draw.steps == step.env_steps]
    # A second draw selects the parallel environment.
    if not draws:
        raise UnmeasuredError("its indices are not drawn as random whole numbers")
    draw = max(draws, key=lambda draw: draw.high - draw.low)
    newest = (draw.steps if size is None else size) - draw.high
    # Only the first indices of a permutation are used.
    first = step.critic_inputs[:1] if step and not draw.with_replacement else ()
    count = min([draw.count, *map(len, first)])
    return np.array([float(n) for n in (draw.low, newest, count, draw.with_replacement)])


def count_wrong_entries(run: ProbeRun) -> Array:
    """Count the rows of each stored array that differ from the environment's output.

    Raises:
        UnmeasuredError: The buffer does not contain the whole run.
    """
    given, count = _list_given_arrays(run), len(run.record.stored["rewards"])
    if count != len(run.transitions):
        raise UnmeasuredError(f"the buffer holds {count} of {len(run.transitions)} transitions")
    apart = (np.abs(_read_stored_part(run, part) - given[part]) for part in STORED_PARTS)
    return np.array([float((each > BOUND_MARGIN).any(axis=1).sum()) for each in apart])


def _run_wide_warm_up(cache: ExperimentCache, algorithm: str) -> ProbeRun:
    # Random actions may be stored in other units than those of the policy. The last steps are for
    # the first update.
    data = make_continuous_data(cache, BATCH_ROWS + 3, WIDE_LOW, WIDE_HIGH, ends=False)
    weights = make_weights(cache, algorithm)
    name = f"{algorithm} wide warm-up"
    return cache.run(build_off_policy_experiment(name, algorithm, data, weights, snapshots=3))


def _fit_stored_action_unit(
    runs: Sequence[ProbeRun], dimension: int, rows: int | None = None
) -> tuple[float, float, float]:
    """Return scale and shift from actions taken to actions stored, and the largest deviation.

    Actions that were taken at a bound may be stored without clipping.

    Args:
        runs: The trainings.
        dimension: Dimension of the actions.
        rows: Number of first actions to compare; None for all.

    Raises:
        UnmeasuredError: The map is not linear within the bounds.
    """
    stored = np.concatenate([run.record.stored["actions"][:rows, dimension] for run in runs])
    taken = np.concatenate([run.get_actions()[:rows, dimension] for run in runs])
    d = runs[0].experiment.scripted_data
    low, high = d.low[dimension] + BOUND_MARGIN, d.high[dimension] - BOUND_MARGIN
    inside = (taken > low) & (taken < high)
    scale, shift = np.polyfit(taken[inside], stored[inside], 1)
    apart = np.abs(scale * taken + shift - stored)
    if apart[inside].max() > BOUND_MARGIN:
        raise UnmeasuredError("stored actions are no linear function of those taken")
    return float(scale), float(shift), float(apart.max()) if apart.max() > BOUND_MARGIN else 0.0


def _describe_warm_up_units(acting: ProbeRun, warm_up: ProbeRun) -> str:
    """Return in which units random actions are stored if others than the policy's, else nothing."""
    first, units = warm_up.hyperparameters.learning_starts - 1, []
    for run, rows in ((acting, None), (warm_up, first)):
        try:
            units.append(_name_unit([_fit_stored_action_unit([run], i, rows) for i in (0, 1)]))
        except UnmeasuredError:
            break
    if len(units) == 1:
        return "random actions of the warm-up are stored as others than those that were taken"
    text = "random actions of the warm-up are stored {1}, those of the policy {0}"
    return text.format(*units) if units else ""


def _name_unit(fits: Sequence[tuple[float, float, float]]) -> str:
    low, high = np.array(WIDE_LOW), np.array(WIDE_HIGH)
    half, none = (high - low) / 2, 0 * low
    known = {
        "in units of the task": (none + 1, none),
        "between -1 and 1": (1 / half, -(high + low) / 2 / half),
        "between 0 and 1": (0.5 / half, -0.5 * low / half),
        "as shares of half the range, not centred": (1 / half, none),
        "as shares of the upper bound": (1 / high, none),
    }
    scale, shift, _ = np.round(np.array(fits).T, 4) + 0.0
    names = (n for n, unit in known.items() if np.allclose((scale, shift), unit, atol=BOUND_MARGIN))
    return next(names, f"as {scale} times the action, {shift} added")


NOISELESS_TEXT = "the policy's action without its noise is stored"


def _fit_noiseless_action(run: ProbeRun, dimension: int) -> tuple[float, float, float]:
    # The same for the policy's action without noise, or what it outputs before it is squashed.
    stored, algorithm = run.record.stored["actions"][:, dimension], run.experiment.algorithm
    seen = np.array([t.observation for t in run.transitions])
    (head,) = POLICY_HEADS.get(algorithm, ("out",))[:1]
    output = compute_output(run.weights, "policy", seen, HIDDEN_LAYERS[algorithm][1], head)
    for action in (np.tanh(output[:, dimension]), output[:, dimension]):
        scale, shift = np.polyfit(action, stored, 1)
        apart = float(np.abs(scale * action + shift - stored).max())
        if apart < BOUND_MARGIN < abs(scale):
            return float(scale), float(shift), apart
    raise UnmeasuredError("stored actions are no linear function of those taken")


OBSERVATION_SCALE = 30.0
"""Factor of observations with which the policy's outputs exceed all bounds."""


def make_greedy_probe(
    algorithm: str,
    runs: Sequence[Callable[[ExperimentCache], ProbeRun]],
    head: str,
    paper: str,
    squashed: bool = True,
) -> Probe:
    """Return the probe of the actions of the evaluated policy.

    Args:
        algorithm: Name of the algorithm.
        runs: Run trainings on wide and on narrow bounds.
        head: Layer of the policy that outputs the mean.
        paper: Citation.
        squashed: Whether the paper squashes the mean by tanh; otherwise it clips at the bounds.
    """

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        done = [run(cache) for run in runs]
        for run in done:
            check_recipe_networks(run, "policy")
        found = [_compare_greedy_actions(run, head) for run in done]
        outputs, *arrays = zip(*found, strict=True)
        value, cut, tanh, scaled, unscaled = (np.concatenate(each) for each in arrays)
        expected, other = (tanh, cut) if squashed else (cut, tanh)
        text = f"the mean is {'cut at the bounds' if squashed else 'squashed by tanh'}"
        others = {text: other, "the mean is cut at -1 and 1 and then scaled to the range": scaled}
        others["tanh of the mean, which is not scaled to the range"] = unscaled

        def explain() -> str:
            # PyTorch and its second of start-up are only needed here.
            from parallax.harness.probes.families import action_formulas

            data = [run.experiment.scripted_data for run in done]
            bounds = [(np.array(d.low), np.array(d.high)) for d in data]
            return action_formulas.explain_greedy_actions(arrays[0], outputs, bounds, squashed)

        return ProbeMeasurement(value, expected, alternatives=others, explain=explain)

    return Probe(
        f"{algorithm}.greedy_action",
        "Which action is taken without noise in an evaluation, within and beyond the bounds?",
        paper,
        "action, in action units, at the end of a short training",
        measure,
        make_relation_description("greedy action"),
        part=GREEDY,
    )


def _compare_greedy_actions(run: ProbeRun, head: str) -> tuple[Array, ...]:
    # The network's outputs, the evaluated actions, and those of clipping, squashing, clipping
    # before scaling, and squashing without scaling.
    d, algorithm = run.experiment.scripted_data, run.experiment.algorithm
    near = np.array([t.observation for t in run.transitions])
    seen = round_to_float32(np.concatenate([near, OBSERVATION_SCALE * near]))
    mean = compute_output(run.record.final, "policy", seen, HIDDEN_LAYERS[algorithm][1], head)
    low, high = np.array(d.low), np.array(d.high)
    middle, half = (low + high) / 2, (high - low) / 2
    squashed, scaled = np.tanh(mean), np.clip(mean, -1, 1)
    taken = run.monitor.predict_greedy(seen)
    others = middle + half * squashed, middle + half * scaled, squashed
    return mean, taken, np.clip(mean, low, high), *others


def make_action_range_probe(
    algorithm: str, runs: Sequence[Callable[[ExperimentCache], ProbeRun]], paper: str
) -> Probe:
    """Return the probe of the bounds of actions whose policy exceeds them.

    Args:
        algorithm: `td3` or `sac`.
        runs: Trainings on wide and on narrow bounds.
        paper: Citation.
    """

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        value: list[float] = []
        expected: list[float] = []
        for run_training in runs:
            run = run_training(cache)
            actions, data = run.get_actions(), run.experiment.scripted_data
            for dimension, bounds in enumerate(zip(data.low, data.high, strict=True)):
                value += [actions[:, dimension].min(), actions[:, dimension].max()]
                expected += bounds
        return ProbeMeasurement(np.array(value), np.array(expected))

    return Probe(
        f"{algorithm}.action_bounds",
        "Between which bounds are actions, where the policy and its noise go far beyond?",
        f"{paper}; here -1 to 3 and -2 to 2, then -0.1 to 0.5 and -0.5 to 0.1",
        f"smallest and largest action, in action units: {', '.join(BOUND_NAMES)}",
        measure,
        make_entry_description(BOUND_NAMES),
        tolerance=1e-3,
        events=(ACTION,),
    )
