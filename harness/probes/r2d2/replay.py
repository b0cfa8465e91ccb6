"""Probes of R2D2's replay: sampling probabilities and importance weights of sequences."""

from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import ACTION, OptimizerStepRecord
from parallax.harness.probes.dqn import exploration
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.measurements import MAX_UPDATES, list_network_steps
from parallax.harness.probes.probe import (
    SEQUENCES,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_count_probe,
    make_relation_description,
)
from parallax.harness.probes.r2d2 import experiments, sequences
from parallax.harness.probes.r2d2.experiments import (
    ACTOR_REFRESH_INTERVAL,
    CYCLE_STEPS,
    EPSILON_BASE,
    EPSILON_EXPONENT,
    IMPORTANCE_EXPONENT,
    N_ACTORS,
    PRIORITY_EXPONENT,
    PRIORITY_MAX_SHARE,
    R2D2_PAPER,
)
from parallax.harness.probes.results import AnswerAxis

PRIORITY_EPSILON = 1e-6
"""Added to errors, so that each sequence can be drawn; the paper has no such constant."""


def _list_updates(run: ProbeRun) -> list[OptimizerStepRecord]:
    return list_network_steps(run, "critic1")


def compute_sampling_probabilities(
    run: ProbeRun, share: float = PRIORITY_MAX_SHARE, updates: int | None = None
) -> Array:
    """Return sampling probabilities of the stored sequences after some updates.

    Args:
        run: The training, with one environment.
        share: Eta.
        updates: Number of updates that have set priorities; the sequences are those stored at the
            next update, or at the end. None for all.

    Returns:
        float[sequences], in the order in which they were stored.
    """
    steps, cut = _list_updates(run), sequences.split_sequences(run)
    number = {s.start_row: place for place, s in enumerate(cut)}
    done = steps if updates is None else steps[:updates]
    clocks = [step.env_steps for step in steps] + [len(run.transitions)]
    errors, largest = np.zeros(0), 1.0
    for place, clock in enumerate(clocks[: len(done) + 1]):
        stored = sum(s.start_row + s.length <= clock for s in cut)
        # Sequences that have not been learned from yet have the largest priority so far.
        errors = np.append(errors, np.full(stored - len(errors), largest - PRIORITY_EPSILON))
        if place == len(done):
            break
        for s in sequences.find_sequence_minibatch(run, done[place]):
            found = sequences.compute_td_errors(run, s, done[place].before)
            errors[number[s.start_row]] = formulas.compute_sequence_priority(found, share)
            largest = max(largest, errors[number[s.start_row]] + PRIORITY_EPSILON)
    powers = (errors + PRIORITY_EPSILON) ** PRIORITY_EXPONENT
    return np.asarray(powers / powers.sum())


def _measure_priorities(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_prioritized_replay(cache)
    found = run.record.stored.get("probabilities")
    if found is None:
        raise UnmeasuredError("its sampling probabilities are unknown")
    others = {
        "of the largest error alone": compute_sampling_probabilities(run, 1.0),
        "of the mean error alone": compute_sampling_probabilities(run, 0.0),
    }
    axis = AnswerAxis("number of the sequence", np.arange(len(found), dtype=float))
    return ProbeMeasurement(
        np.asarray(found, float), compute_sampling_probabilities(run), axis, others
    )


def _measure_importance_weights(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_prioritized_replay(cache)
    number = {s.start_row: place for place, s in enumerate(sequences.split_sequences(run))}
    value, expected, plain = [], [], []
    for done, step in enumerate(_list_updates(run)[:MAX_UPDATES]):
        drawn = sequences.find_sequence_minibatch(run, step)
        probabilities = compute_sampling_probabilities(run, updates=done)
        chances = probabilities[[number[s.start_row] for s in drawn]]
        weights = formulas.compute_importance_weights(
            chances, len(probabilities), IMPORTANCE_EXPONENT
        )
        expected.append(weights)
        plain.append((1 / (len(probabilities) * chances)) ** IMPORTANCE_EXPONENT)
        for s, pull in zip(drawn, sequences.solve_prediction_gradients(run, step), strict=True):
            errors = sequences.compute_td_errors(run, s, step.before)
            value.append(float(pull @ errors / (errors @ errors)))
    others = {
        "none": np.ones(len(value)),
        "not divided by the largest of the minibatch": np.concatenate(plain),
    }
    return ProbeMeasurement(np.array(value), np.concatenate(expected), None, others)


def _build_priority_probe(
    name: str,
    question: str,
    answer: str,
    quantity: str,
    measure: Callable[[ExperimentCache], ProbeMeasurement],
) -> Probe:
    words = make_relation_description(name.replace("_", " "))
    citation = f"{R2D2_PAPER}, section 2.3 and table 2: {answer}"
    return Probe(
        f"r2d2.{name}", question, citation, quantity, measure, words, tolerance=5e-3, part=SEQUENCES
    )


PRIORITY_PROBES: Sequence[Probe] = (
    _build_priority_probe(
        "priorities",
        "How likely is each sequence to be drawn, after some updates?",
        f"by ({PRIORITY_MAX_SHARE:g} of its largest error and {1 - PRIORITY_MAX_SHARE:.1g} of "
        f"their mean) to the power of {PRIORITY_EXPONENT:g}",
        "probability of each sequence that is stored",
        _measure_priorities,
    ),
    _build_priority_probe(
        "importance_weights",
        "What are the importance weights of a minibatch?",
        f"(1 / (N P)) to the power of {IMPORTANCE_EXPONENT:g}, over the largest of them",
        "pull on its values over their errors, of each sequence of the first updates",
        _measure_importance_weights,
    ),
)

COUNT_NAMES = (
    "environment steps",
    "environment steps at the first update",
    "updates",
    "environment steps between two rounds",
    "target updates",
    "environment steps at the first target update",
    "updates until then",
    "environment steps between two target updates",
)
STORED_NAMES = ("sequences", "begins that differ", "lengths that differ", "burn-ins that differ")
APEX_PAPER = "Horgan et al. 2018 (arXiv:1803.00933), section 4"


def _measure_counts(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_count_experiment(cache)
    # Actors have no warm-up of random actions.
    place = exploration.COUNT_NAMES.index("warm-up steps")
    found, due = exploration.count_events(run), exploration.compute_expected_counts(run)
    return ProbeMeasurement(np.delete(found, place), np.delete(due, place))


def _measure_actor_refresh(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_count_experiment(cache)
    found = []
    for step in list_network_steps(run, "critic1"):
        actor = step.before.get("actor.out.weight")
        if actor is None:
            raise UnmeasuredError("the weights of its actors are unknown")
        if np.array_equal(actor, step.before["critic1.out.weight"]):
            found.append(step.env_steps)
    hp = run.hyperparameters
    every = -(-ACTOR_REFRESH_INTERVAL // CYCLE_STEPS) * CYCLE_STEPS  # at the start of a cycle
    first = range(hp.learning_starts, len(run.transitions) + 1, CYCLE_STEPS)
    expected = [at for at in first if (at - CYCLE_STEPS) % every == 0]
    return ProbeMeasurement(np.array(found, float), np.array(expected, float))


def _measure_stored_sequences(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_count_experiment(cache)
    cut, stored = sequences.split_sequences(run), run.record.stored
    if "begins" not in stored:
        raise UnmeasuredError("the boundaries of its sequences are unknown")
    due: dict[str, Array] = {
        "begins": np.array([s.offset for s in cut], float),
        "lengths": np.array([s.length for s in cut], float),
        "burned": np.array([sequences.count_burn_in_steps(run, s) for s in cut], float),
    }
    number = min(len(cut), len(stored["begins"]))
    differ = [float(np.sum(stored[name][:number] != due[name][:number])) for name in due]
    value = np.array([len(stored["begins"]), *differ], float)
    return ProbeMeasurement(value, np.array([len(cut), 0, 0, 0], float))


def _measure_actor_epsilons(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_parallel_actors(cache)
    if not run.thresholds:
        raise UnmeasuredError("it compares no random number with its shares of random actions")
    # Before the first step the collector calls the policy once to find its output's shape.
    found = np.array([share for steps, share in run.thresholds if steps])
    rounds = len(run.transitions) // N_ACTORS - 1
    return ProbeMeasurement(
        found,
        np.tile(formulas.compute_actor_epsilons(EPSILON_BASE, EPSILON_EXPONENT, N_ACTORS), rounds),
    )


COUNT_PROBES: Sequence[Probe] = (
    make_count_probe(
        "r2d2.counts",
        "How often do events of a training happen, and when first?",
        f"{R2D2_PAPER}: updates run beside the actors, and the target is copied every so many "
        "of them; here by environment steps, after the warm-up",
        COUNT_NAMES,
        _measure_counts,
    ),
    Probe(
        "r2d2.actor_refresh",
        f"When do actors get new weights, with actor_refresh={ACTOR_REFRESH_INTERVAL} and "
        f"cycles of {CYCLE_STEPS} steps?",
        f"{R2D2_PAPER}, table 2: every so many steps; here at the head of the round after",
        "environment steps at the updates that find them equal",
        _measure_actor_refresh,
        make_relation_description("environment steps"),
        counts=True,
        part=SEQUENCES,
    ),
    make_count_probe(
        "r2d2.sequences",
        f"Which sequences are stored, of {experiments.SEQUENCE_LENGTH} steps that overlap by "
        f"{experiments.OVERLAP}?",
        f"{R2D2_PAPER}, section 2.3: starts at a fixed distance, none crosses the end of an "
        "episode; here the last may be shorter",
        STORED_NAMES,
        _measure_stored_sequences,
        part=SEQUENCES,
    ),
    Probe(
        "r2d2.exploration",
        f"What is epsilon of each of {N_ACTORS} actors?",
        f"{APEX_PAPER}: base^(1 + exponent i / (N - 1)), with base {EPSILON_BASE:g} and exponent "
        f"{EPSILON_EXPONENT:g}",
        "share of random actions, by actor, from the second step on",
        _measure_actor_epsilons,
        make_relation_description("share"),
        tolerance=1e-5,
        events=(ACTION,),
    ),
)
