"""Probes of a training without scripted random numbers: its draws, and the saved model."""

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
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.measurements import (
    find_minibatch,
    find_transition_rows,
    list_critic_updates,
)
from parallax.harness.probes.probe import (
    LOOP,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
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
CYCLES: Sequence[tuple[int, Mapping[str, int]]] = tuple(
    (n_envs, {"train_freq": train_freq, "gradient_steps": gradient_steps})
    for n_envs, train_freq, gradient_steps in ((4, 4, 4), (4, 1, 1), (1, 1, 4), (1, 1, 1))
)
"""Parallel environments and update cycles, the most informative first; frameworks refuse some."""
SettingsMaker = Callable[[ExperimentCache], Mapping[str, Any]]
"""Returns hyperparameters with which all implementations of an algorithm can be compared."""


def make_randomness_probes(algorithm: str, make_settings: SettingsMaker) -> Sequence[Probe]:
    """Return the probes of an implementation's own random numbers, and of its saved model."""

    def seeding(cache: ExperimentCache) -> ProbeMeasurement:
        run = run_own_randomness(cache, algorithm, make_settings)
        events = run.record.generator_events
        updated = {step.env_steps for step in run.record.steps}
        counts = np.zeros(len(GENERATOR_EVENT_NAMES))
        for event in events:
            counts[int(event.env_steps in updated)] += 1
        words = dict.fromkeys(
            event.description + (f" at {event.source_line}" if event.source_line else "")
            for event in events
        )
        return ProbeMeasurement(
            counts, np.zeros_like(counts), meaning=f"{len(events)} times: {'; '.join(words)}"
        )

    def draws(cache: ExperimentCache) -> ProbeMeasurement:
        run = run_own_randomness(cache, algorithm, make_settings)
        warm_up = 0 if algorithm == "ppo" else WARM_UP_STEPS
        actions = run.get_actions().reshape(-1, run.experiment.n_envs, run.get_actions().shape[1])
        phases = np.split(actions, [warm_up // run.experiment.n_envs])
        data = run.experiment.scripted_data
        discrete = data.n_discrete_actions > 0
        counts = [count_repeats(phase, discrete, (data.low, data.high)) for phase in phases]
        batches = _list_minibatches(run)
        value = np.array(
            [
                *counts[0],
                *counts[1],
                len(batches) - len({batch.tobytes() for batch in batches}),
                run.experiment.n_envs - len(_list_drawn_envs(run, batches)),
            ],
            float,
        )
        return ProbeMeasurement(value, np.zeros_like(value))

    def reloading(cache: ExperimentCache) -> ProbeMeasurement:
        settings = run_own_randomness(cache, algorithm, make_settings).record.reloaded_settings
        if not settings:
            raise UnmeasuredError("its models are not saved and loaded with their settings")
        changed = {name: pair for name, pair in settings.items() if pair[0] != pair[1]}
        words = (f"{name} {before:g} -> {after:g}" for name, (before, after) in changed.items())
        return ProbeMeasurement(
            np.array([float(len(changed))]), np.zeros(1), meaning=f"changed: {', '.join(words)}"
        )

    return (
        Probe(
            f"{algorithm}.reloaded_settings",
            "Does a model have the same settings after it was saved and loaded?",
            "a loaded model trains on as the saved one would",
            "settings of the model that change",
            reloading,
            make_entry_description(("settings that change",)),
            counts=True,
            part=LOOP,
        ),
        Probe(
            f"{algorithm}.generators",
            "Is a random generator seeded, made anew or set back once training has begun?",
            "generators go on: a seed that is set again repeats random numbers",
            ", ".join(GENERATOR_EVENT_NAMES),
            seeding,
            make_entry_description(GENERATOR_EVENT_NAMES),
            counts=True,
            part=LOOP,
        ),
        Probe(
            f"{algorithm}.own_draws",
            f"Do {N_ENVS} environments, steps and minibatches get random numbers of their own?",
            "the papers' algorithms: yes",
            ", ".join(DRAW_NAMES),
            draws,
            make_entry_description(DRAW_NAMES),
            counts=True,
            part=LOOP,
        ),
    )


def run_own_randomness(
    cache: ExperimentCache, algorithm: str, make_settings: SettingsMaker
) -> ProbeRun:
    """Run parallel environments with a constant policy and the framework's own random numbers."""

    def run() -> ProbeRun:
        experiment = _build_experiment(cache, algorithm, make_settings(cache))
        choices = [(N_ENVS, {})] if algorithm == "ppo" else CYCLES
        for n_envs, cycle in choices:
            name = f"{experiment.name} {n_envs} {cycle}"
            changes = {**experiment.changes, **cycle}
            try:
                return cache.run(
                    dataclasses.replace(experiment, name=name, n_envs=n_envs, changes=changes)
                )
            except SpecError:
                continue
        return cache.run(dataclasses.replace(experiment, n_envs=1))

    return cache.get_or_compute(("own randomness", algorithm), run)


def _build_experiment(
    cache: ExperimentCache, algorithm: str, settings: Mapping[str, Any]
) -> ProbeExperiment:
    discrete = ALGORITHMS[algorithm].actions == "discrete"
    make_data = (
        experiment_setups.make_discrete_data if discrete else experiment_setups.make_continuous_data
    )
    data = dataclasses.replace(make_data(cache, STEPS, ends=False), own_rng=True)
    rates = [name for name in field_names(ALGORITHMS[algorithm]) if name.endswith("learning_rate")]
    changes = {**settings, **dict.fromkeys(rates, experiment_setups.NO_LEARNING)}
    if algorithm == "ppo":
        changes |= {"rollout_steps": STEPS // 2, "minibatch_size": STEPS // 4, "epochs": 2}
    else:
        changes |= {"learning_starts": WARM_UP_STEPS, "batch_size": 8, "buffer_size": 1000}
    weights = experiment_setups.make_weights(cache, algorithm)
    # The policy ignores its observations, so all variation of its actions is random.
    weights |= {n: np.zeros_like(a) for n, a in weights.items() if n.startswith("policy.")}
    name, seed = f"{algorithm} own randomness", cache.seed + 1
    return ProbeExperiment(name, algorithm, data, changes, weights, 24, N_ENVS, seed)


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
    # Rows of the transitions in the minibatches of the first updates, sorted.
    if run.experiment.algorithm == "ppo":
        batches = [step.observations for step in run.record.steps if step.before]
    else:
        batches = [find_minibatch(run, step).observations for step in list_critic_updates(run)]
    return [np.sort(find_transition_rows(run, batch)) for batch in batches]


def _list_drawn_envs(run: ProbeRun, batches: Sequence[NDArray[np.intp]]) -> set[int]:
    return {int(row) % run.experiment.n_envs for batch in batches for row in batch}
