"""Probes of a training without scripted random numbers: its draws, and the saved model."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import field_names
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiment_setups import WIDE_HIGH, WIDE_LOW
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.measurements import (
    find_minibatch,
    find_transition_rows,
    list_critic_updates,
)
from parallax.harness.probes.probe import (
    LOOP,
    UPDATE,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    describe_counts,
    make_count_probe,
    make_entry_description,
)

N_ENVS = 4
WARM_UP_STEPS, STEPS = 16, 48
"""Environment steps of all copies together."""
GENERATOR_EVENT_NAMES = ("events at a generator while acting", "events at a generator in updates")
DRAW_NAMES = (
    "environments that act as another one in the warm-up",
    "warm-up steps that repeat earlier actions",
    "environments that act as another one under the policy",
    "steps of the policy that repeat earlier actions",
    "minibatches that repeat an earlier one",
    "environments that no minibatch draws from",
)
COVERAGE_NAMES = tuple(
    f"{age} third of the buffer that no minibatch draws from"
    for age in ("oldest", "middle", "newest")
)
RANDOM_STEPS, EXPLORING_STEPS = 1024, 768
"""Environment steps of all copies together whose random actions, or exploration, are read."""
CYCLES = ((4, 4, 4), (4, 1, 1), (1, 1, 4), (1, 1, 1))
LONG_CYCLES = ((4, RANDOM_STEPS, 1), (4, 4, 1), (4, 4, 4), (1, RANDOM_STEPS, 1), (1, 1, 1))
"""Parallel environments, `train_freq` and `gradient_steps`, the most informative first."""
ROUNDING = 0.08
"""Deviation of shares and quantiles, and of bounds by a quarter, that is not by chance."""
ROUNDED = 1e-6
"""Differences of actions below this are rounding."""
MIN_CORRELATION = 0.42
"""Smallest correlation that is not by chance; shared random numbers have at least 0.6."""
FOLLOWER_NAMES = (
    "environments that explore with another one's random numbers",
    "action dimensions that explore with another one's random numbers",
)
EXPLORATIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "dqn": ({"exploration_initial": 0.25, "exploration_final": 0.25},),
    "ddpg": ({}, {"exploration_noise_kind": "ornstein-uhlenbeck", "exploration_noise": 0.2}),
}
"""Settings of exploration whose random numbers may be shared."""
SettingsMaker = Callable[[ExperimentCache], Mapping[str, Any]]
"""Returns hyperparameters with which all implementations of an algorithm can be compared."""


def make_randomness_probes(algorithm: str, make_settings: SettingsMaker) -> Sequence[Probe]:
    """Return the probes of an implementation's own random numbers, and of its saved model."""

    def measure_generators(cache: ExperimentCache) -> ProbeMeasurement:
        run = run_own_randomness(cache, algorithm, make_settings)
        events = run.record.generator_events
        updated = {step.env_steps for step in run.record.steps}
        in_update = [event.env_steps in updated for event in events]
        counts = np.bincount(in_update, minlength=len(GENERATOR_EVENT_NAMES)).astype(float)
        words = dict.fromkeys(
            event.description + (f" at {event.source_line}" if event.source_line else "")
            for event in events
        )
        return ProbeMeasurement(
            counts, np.zeros_like(counts), meaning=f"{len(events)} times: {'; '.join(words)}"
        )

    def measure_draws(cache: ExperimentCache) -> ProbeMeasurement:
        run = run_own_randomness(cache, algorithm, make_settings)
        warm_up = 0 if algorithm == "ppo" else WARM_UP_STEPS
        actions = run.get_actions().reshape(-1, run.experiment.n_envs, run.get_actions().shape[1])
        phases = np.split(actions, [warm_up // run.experiment.n_envs])
        data = run.experiment.scripted_data
        discrete, bounds = data.n_discrete_actions > 0, (data.low, data.high)
        counts = [n for phase in phases for n in count_repeats(phase, discrete, bounds)]
        batches = _list_minibatches(run)
        counts.append(len(batches) - len({np.sort(batch).tobytes() for batch in batches}))
        drawn_envs = {int(row) % run.experiment.n_envs for batch in batches for row in batch}
        counts.append(run.experiment.n_envs - len(drawn_envs))
        value = np.array(counts, float)
        words = describe_constant_envs(value, phases[-1])
        if algorithm == "ppo":
            words = describe_shuffles(batches, run.experiment.n_envs) or words
            if left := _count_undrawn(run, batches):
                size = run.hyperparameters.rollout_steps
                words = f"{left} of {size} transitions are in no minibatch"
        return ProbeMeasurement(value, 0 * value, meaning=words)

    def measure_coverage(cache: ExperimentCache) -> ProbeMeasurement:
        run = run_own_randomness(cache, algorithm, make_settings)
        drawn = find_drawn_thirds(
            _list_minibatches(run), [step.env_steps for step in list_critic_updates(run)]
        )
        value = np.array([float(third not in drawn) for third in range(3)])
        return ProbeMeasurement(value, 0 * value)

    def measure_reloading(cache: ExperimentCache) -> ProbeMeasurement:
        settings = run_own_randomness(cache, algorithm, make_settings).record.reloaded_settings
        if not settings:
            raise UnmeasuredError("its models are not saved and loaded with their settings")
        changed = {name: pair for name, pair in settings.items() if pair[0] != pair[1]}
        words = (f"{name} {before:g} -> {after:g}" for name, (before, after) in changed.items())
        return ProbeMeasurement(
            np.array([float(len(changed))]), np.zeros(1), meaning=f"changed: {', '.join(words)}"
        )

    def measure_sharing(cache: ExperimentCache) -> ProbeMeasurement:
        runs = (
            run_own_randomness(cache, algorithm, make_settings, EXPLORING_STEPS, **changes)
            for changes in EXPLORATIONS.get(algorithm, ({},))
            if not changes or cache.accepts_settings(algorithm, changes, STEPS)
        )
        value = np.max([count_followers(run) for run in runs], axis=0)
        if np.isnan(value).all():
            raise UnmeasuredError("it trains one environment only")
        return ProbeMeasurement(value, 0 * value)

    def measure_distribution(cache: ExperimentCache) -> ProbeMeasurement:
        steps = RANDOM_STEPS if ALGORITHMS[algorithm].actions == "discrete" else N_ENVS
        noise = {"exploration_noise"} & {*field_names(ALGORITHMS[algorithm])}
        changes: dict[str, Any] = {"learning_starts": RANDOM_STEPS, **dict.fromkeys(noise, 0.0)}
        run = run_own_randomness(cache, algorithm, make_settings, steps, **changes)
        found = measure_random_actions(run)
        value, due = np.array([*found.values()]).T
        words = "; ".join(f"{n} is {v:.4g}, not {e:g}" for n, (v, e) in found.items() if v != e)
        return ProbeMeasurement(value, due, meaning=words)

    of_random = Probe(
        f"{algorithm}.random_actions",
        "Are all actions drawn where actions are random, and with the same probability?",
        "the papers' algorithms: uniformly from the action space",
        f"share of each discrete action, within {ROUNDING:g}; or bounds, within "
        f"{ROUNDING / 4:.0%} of the range, and distance from uniform numbers",
        measure_distribution,
        make_entry_description(()),
    )
    coverage = make_count_probe(
        f"{algorithm}.replay_coverage",
        f"Are minibatches drawn from the whole buffer of {N_ENVS} environments?",
        "the papers' algorithms: from all transitions until then",
        COVERAGE_NAMES,
        measure_coverage,
        part=UPDATE,
    )
    return (
        *(() if algorithm == "ppo" else (of_random, coverage)),
        make_count_probe(
            f"{algorithm}.shared_exploration",
            f"Does each of {N_ENVS} environments, and each action dimension, explore for itself?",
            "the papers' algorithms: random numbers of its own for each action",
            FOLLOWER_NAMES,
            measure_sharing,
            part=UPDATE,
        ),
        Probe(
            f"{algorithm}.reloaded_settings",
            "Does a model have the same settings after it was saved and loaded?",
            "a loaded model trains on as the saved one would",
            "settings of the model that change",
            measure_reloading,
            make_entry_description(("settings that change",)),
            counts=True,
            part=LOOP,
        ),
        make_count_probe(
            f"{algorithm}.generators",
            "Is a random generator seeded, made anew or set back once training has begun?",
            "generators go on: a seed that is set again repeats random numbers",
            GENERATOR_EVENT_NAMES,
            measure_generators,
        ),
        make_count_probe(
            f"{algorithm}.own_draws",
            f"Do {N_ENVS} environments, steps and minibatches get random numbers of their own?",
            "the papers' algorithms: yes",
            DRAW_NAMES,
            measure_draws,
        ),
    )


def run_own_randomness(
    cache: ExperimentCache,
    algorithm: str,
    make_settings: SettingsMaker,
    exploring: int = 0,
    **changes: Any,
) -> ProbeRun:
    """Run parallel environments with a constant policy and the framework's own random numbers.

    With `exploring` steps after the warm-up, updates are few and action ranges are wide. The first
    cycles that the framework accepts are run.
    """
    cycles: list[tuple[int, dict[str, int]]] = [(N_ENVS, {})]
    if algorithm != "ppo":
        cycles = [
            (n_envs, {"train_freq": every, "gradient_steps": steps})
            for n_envs, every, steps in (LONG_CYCLES if exploring else CYCLES)
        ]
    for n_envs, cycle in cycles:
        settings = {"learning_starts": WARM_UP_STEPS, **make_settings(cache), **cycle, **changes}
        experiment = _build_experiment(cache, algorithm, settings, n_envs, exploring)
        name = f"{experiment.name} {n_envs} {cycle} {exploring} {changes}"
        with contextlib.suppress(SpecError):
            return cache.run(dataclasses.replace(experiment, name=name))
    return cache.run(experiment)


def _build_experiment(
    cache: ExperimentCache, algorithm: str, settings: Mapping[str, Any], n_envs: int, exploring: int
) -> ProbeExperiment:
    discrete = ALGORITHMS[algorithm].actions == "discrete"
    make_data = (
        experiment_setups.make_discrete_data if discrete else experiment_setups.make_continuous_data
    )
    # A single environment explores for fewer steps, where each may be followed by an update.
    more = exploring if discrete else exploring * n_envs // N_ENVS
    steps = settings["learning_starts"] + more if exploring else STEPS
    data = dataclasses.replace(make_data(cache, steps, ends=False), own_rng=True)
    if exploring and not discrete:
        data = dataclasses.replace(data, low=WIDE_LOW, high=WIDE_HIGH)
    rates = [name for name in field_names(ALGORITHMS[algorithm]) if name.endswith("learning_rate")]
    changes = {**settings, **dict.fromkeys(rates, experiment_setups.NO_LEARNING)}
    if algorithm == "ppo":
        del changes["learning_starts"]
        changes |= {"rollout_steps": steps // 2, "minibatch_size": steps // 4, "epochs": 2}
    else:
        changes |= {"batch_size": 8, "buffer_size": 1000}
    weights = experiment_setups.make_weights(cache, algorithm)
    # The policy ignores its observations, so all variation of its actions is random.
    weights |= {n: np.zeros_like(a) for n, a in weights.items() if n.startswith("policy.")}
    if exploring and discrete:
        weights["critic1.out.bias"] = 50.0 * (np.arange(data.n_discrete_actions) == 0)
    name, seed, saved = f"{algorithm} own randomness", cache.seed + 1, 0 if exploring else 24
    return ProbeExperiment(
        *(name, algorithm, data, changes, weights, saved, n_envs, seed),
        reads_actions_only=exploring > 0,
    )


def count_followers(run: ProbeRun) -> Array:
    """Count environments and action dimensions whose exploration follows that of another one.

    Exploration is what is random in actions: the choice of an action that is not greedy, or the
    change of noise beyond what remains of the last step's. NaN stands for a single one.
    """
    series = list_exploring_actions(run)
    if run.experiment.scripted_data.n_discrete_actions:
        series = (series != 0).astype(float)
    else:
        noise = series - series.mean(axis=0)
        series = noise[1:] - compute_remaining_share(noise) * noise[:-1]
    scaled = (series - series.mean(axis=0)) / np.maximum(series.std(axis=0), 1e-12)
    related = np.abs(np.einsum("tie,tjf->ijef", scaled, scaled)) / len(series) > MIN_CORRELATION
    pairs = related.any(axis=(2, 3)), np.einsum("iief->ef", related)
    found = [float(np.sum(np.tril(each, -1).any(axis=1))) for each in pairs]
    return np.array([n if len(each) > 1 else np.nan for n, each in zip(found, pairs, strict=True)])


def list_exploring_actions(run: ProbeRun) -> Array:
    """Return actions after the warm-up, float[steps, environments, action dimensions]."""
    n_envs, actions = run.experiment.n_envs, run.get_actions()
    steps = len(run.experiment.scripted_data.rewards)
    return actions[steps % n_envs + WARM_UP_STEPS : steps].reshape(-1, n_envs, actions.shape[1])


def compute_remaining_share(noise: Array) -> float:
    """Return the share of noise with mean 0 that remains in the next step."""
    return float(np.sum(noise[1:] * noise[:-1]) / max(float(np.sum(noise[:-1] ** 2)), 1e-30))


def measure_random_actions(run: ProbeRun) -> dict[str, tuple[float, float]]:
    """Return what describes the distribution of random actions, and the same of uniform ones."""
    data, start, actions = run.experiment.scripted_data, RANDOM_STEPS, run.get_actions()
    found: dict[str, tuple[float, float, float]] = {}
    count, text = data.n_discrete_actions, "random action in dimension"
    for number, (low, high) in enumerate(zip(data.low, data.high, strict=True), 1):
        x = np.sort(actions[:start, number - 1])
        apart = np.abs(x - np.linspace(x[0], x[-1], len(x))).max() / max(x[-1] - x[0], 1e-9)
        found[f"smallest {text} {number}"] = x[0], low, (high - low) / 4
        found[f"largest {text} {number}"] = x[-1], high, (high - low) / 4
        found[f"distance from uniform numbers of the {text} {number}"] = apart, 0.0, 1.0
    for when, some in (("warm-up", actions[:start]), ("exploration", actions[start:])):
        for number in range(count):
            name = f"share of action {number} of 0 to {count - 1} in the {when}"
            found[name] = float(np.mean(some == number)), 1 / count, 1.0
    near = {name: abs(v - due) < ROUNDING * unit for name, (v, due, unit) in found.items()}
    return {n: (due if near[n] else float(v), due) for n, (v, due, _) in found.items()}


def count_repeats(
    actions: Array, discrete: bool, bounds: tuple[Sequence[float], Sequence[float]] = ((), ())
) -> tuple[int, int]:
    """Count environments that act like another one, and steps that repeat earlier actions.

    Args:
        actions: float[steps, environments, action dimensions].
        discrete: Whether equal actions happen by chance, so that steps count only if all are equal.
        bounds: Smallest and largest action per dimension. Steps in which all actions are clipped
            are left out, because these may be equal by chance.
    """
    if len(bounds[0]) and not discrete:
        cut = (actions == np.array(bounds[0])) | (actions == np.array(bounds[1]))
        actions = actions[~cut.all(axis=(1, 2))]
    if not len(actions):
        return 0, 0
    steps, n_envs = actions.shape[:2]
    n_sequences = len(np.unique(actions.swapaxes(0, 1).reshape(n_envs, -1), axis=0))
    n_different = len(np.unique(actions.reshape(steps, -1), axis=0))
    return n_envs - n_sequences, 0 if discrete and n_different > 1 else steps - n_different


def _list_minibatches(run: ProbeRun) -> list[NDArray[np.intp]]:
    # Rows of the transitions in the minibatches of the first updates; of PPO, in their rollout.
    if run.experiment.algorithm == "ppo":
        size = run.hyperparameters.rollout_steps
        batches = [step.observations for step in run.record.steps if step.before]
        return [find_transition_rows(run, batch) % size for batch in batches]
    batches = [find_minibatch(run, step).observations for step in list_critic_updates(run)]
    return [find_transition_rows(run, batch) for batch in batches]


def describe_constant_envs(counts: Array, actions: Array) -> str:
    """Return counts and how many environments always act alike, or "" if none or all do.

    Args:
        counts: Numbers of `DRAW_NAMES`.
        actions: Actions under a constant policy, float[steps, environments, action dimensions].
    """
    actions = actions[1:]  # some frameworks act at random once more
    n_constant = int((np.ptp(actions, axis=0) < ROUNDED).all(axis=1).sum()) if len(actions) else 0
    if not 0 < n_constant < actions.shape[1]:
        return ""
    words = f"{n_constant} of {actions.shape[1]} environments do not explore"
    return describe_counts(DRAW_NAMES, counts, 0 * counts, words) if counts.any() else ""


def find_drawn_thirds(batches: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> set[int]:
    """Return the thirds of the buffer from which transitions were drawn: 0 is the oldest.

    The first five minibatches have 40 transitions, so that none of a third is there by chance only
    in 1 of 3.7 million trainings.

    Args:
        batches: Rows of the transitions in each minibatch.
        sizes: Number of transitions in the buffer when the minibatch was drawn.
    """
    places = [3 * row // size for batch, size in zip(batches, sizes, strict=True) for row in batch]
    return {min(int(place), 2) for place in places}


def describe_shuffles(batches: Sequence[NDArray[np.intp]], n_envs: int) -> str:
    """Describe shuffles that repeat; empty if none do.

    Args:
        batches: Places in the rollout of the minibatches of two rollouts, two of each epoch.
        n_envs: Parallel environments, whose steps may be stored one environment after the other.
    """
    orders = np.concatenate(batches).reshape(4, -1) if len(batches) == 8 else np.empty((0, 0))
    if not len(orders) or not np.array_equal(orders[:2], orders[2:]):
        return ""
    places = np.arange(orders.shape[1])
    layouts = places, places.reshape(-1, n_envs).T.ravel()
    pairs = [(layout, np.argsort(layout)[orders[0]]) for layout in layouts]
    if any(np.array_equal(shuffle, places) for _, shuffle in pairs):
        return "transitions are not shuffled: minibatches are consecutive ones"
    # A permutation may be applied to the rollout's order, or to that of the last epoch.
    again = [layout[p] for layout, shuffle in pairs for p in (shuffle, shuffle[shuffle])]
    if any(np.array_equal(orders[1], order) for order in again):
        return "each epoch permutes the transitions in the same way"
    return "each rollout is permuted in the same way"


def _count_undrawn(run: ProbeRun, batches: Sequence[NDArray[np.intp]]) -> int:
    # Observations of a rollout that no minibatch has; some are the same after a common reset.
    size = run.hyperparameters.rollout_steps
    seen = np.array([t.observation for t in run.transitions[:size]])
    return len({*find_transition_rows(run, seen) % size} - {*np.concatenate(batches)})
