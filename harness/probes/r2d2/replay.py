"""Probes of R2D2's priorities: how likely sequences are to be drawn, and what they weigh."""

from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord
from parallax.harness.probes.dqn.exploration import NO_EVENT, compute_longest_interval
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.measurements import MAX_UPDATES, list_network_steps
from parallax.harness.probes.probe import (
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
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
"""What is added to errors, so that each can be drawn; the paper has no such number."""


def _list_updates(run: ProbeRun) -> list[OptimizerStepRecord]:
    return list_network_steps(run, "critic1")


def compute_sampling_probabilities(
    run: ProbeRun, share: float = PRIORITY_MAX_SHARE, updates: int | None = None
) -> Array:
    """Probabilities of the sequences that are stored, after some updates.

    Args:
        run: The training, with one environment.
        share: Eta.
        updates: How many updates have told their errors; the sequences are those of the next one,
            or of the end. None is all.

    Returns:
        float[sequences], in the order in which they were stored.
    """
    steps, cut = _list_updates(run), sequences.split_sequences(run)
    number = {s.begin: place for place, s in enumerate(cut)}
    told = steps if updates is None else steps[:updates]
    clocks = [step.env_steps for step in steps] + [len(run.transitions)]
    errors, largest = np.zeros(0), 1.0
    for place, clock in enumerate(clocks[: len(told) + 1]):
        stored = sum(s.begin + s.length <= clock for s in cut)
        # What has not been learned from yet is as likely as what is most likely so far.
        errors = np.append(errors, np.full(stored - len(errors), largest - PRIORITY_EPSILON))
        if place == len(told):
            break
        for s in sequences.find_sequence_minibatch(run, told[place]):
            found = sequences.compute_td_errors(run, s, told[place].before)
            errors[number[s.begin]] = formulas.compute_sequence_priority(found, share)
            largest = max(largest, errors[number[s.begin]] + PRIORITY_EPSILON)
    powers = (errors + PRIORITY_EPSILON) ** PRIORITY_EXPONENT
    return np.asarray(powers / powers.sum())


def _measure_priorities(lab: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_prioritized_replay(lab)
    found = run.record.stored.get("probabilities")
    if found is None:
        raise UnmeasuredError("what it draws sequences by was not told")
    others = {
        "of the largest error alone": compute_sampling_probabilities(run, 1.0),
        "of the mean error alone": compute_sampling_probabilities(run, 0.0),
    }
    axis = AnswerAxis("number of the sequence", np.arange(len(found), dtype=float))
    return ProbeMeasurement(
        np.asarray(found, float), compute_sampling_probabilities(run), axis, others
    )


def _measure_importance_weights(lab: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_prioritized_replay(lab)
    number = {s.begin: place for place, s in enumerate(sequences.split_sequences(run))}
    value, expected, plain = [], [], []
    for done, step in enumerate(_list_updates(run)[:MAX_UPDATES]):
        drawn, probabilities = (
            sequences.find_sequence_minibatch(run, step),
            compute_sampling_probabilities(run, updates=done),
        )
        chances = probabilities[[number[s.begin] for s in drawn]]
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
    return Probe(f"r2d2.{name}", question, citation, quantity, measure, words, tolerance=5e-3)


PRIORITY_PROBES: Sequence[Probe] = (
    _build_priority_probe(
        "priorities",
        "How likely is each sequence to be drawn, after some updates?",
        f"by ({PRIORITY_MAX_SHARE:g} of its largest error and {1 - PRIORITY_MAX_SHARE:.1g} of their mean) to the power of "
        f"{PRIORITY_EXPONENT:g}",
        "probability of each sequence that is stored",
        _measure_priorities,
    ),
    _build_priority_probe(
        "importance_weights",
        "What do the sequences of a minibatch weigh?",
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


def _measure_counts(lab: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_count_experiment(lab)
    hp, steps = run.hyperparameters, len(run.experiment.scripted_data.rewards)
    updates = [step.env_steps for step in run.record.steps]
    moves = [(at, taken) for at, taken, _ in run.record.target_moves]
    value = [
        len(run.transitions),
        updates[0] if updates else NO_EVENT,
        len(updates),
        compute_longest_interval(sorted(set(updates))),
        len(moves),
        *(moves[0] if moves else (NO_EVENT, NO_EVENT)),
        compute_longest_interval([at for at, _ in moves]),
    ]
    rounds = (steps - hp.learning_starts) // CYCLE_STEPS + 1
    interval = hp.target_update_interval * experiments.UPDATES_PER_CYCLE // CYCLE_STEPS
    copies = rounds * experiments.UPDATES_PER_CYCLE // interval
    before = (interval - 1) // experiments.UPDATES_PER_CYCLE * CYCLE_STEPS
    expected = [
        steps,
        hp.learning_starts,
        rounds * experiments.UPDATES_PER_CYCLE,
        CYCLE_STEPS,
        copies,
        hp.learning_starts + before,
        interval,
        hp.target_update_interval,
    ]
    return ProbeMeasurement(np.array(value, float), np.array(expected, float))


def _measure_actor_refresh(lab: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_count_experiment(lab)
    found = []
    for step in list_network_steps(run, "critic1"):
        actor = step.before.get("actor.out.weight")
        if actor is None:
            raise UnmeasuredError("what its actors act with was not told")
        if np.array_equal(actor, step.before["critic1.out.weight"]):
            found.append(step.env_steps)
    hp = run.hyperparameters
    every = -(-ACTOR_REFRESH_INTERVAL // CYCLE_STEPS) * CYCLE_STEPS  # at the head of a round
    first = range(hp.learning_starts, len(run.transitions) + 1, CYCLE_STEPS)
    expected = [at for at in first if (at - CYCLE_STEPS) % every == 0]
    return ProbeMeasurement(np.array(found, float), np.array(expected, float))


def _measure_stored_sequences(lab: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_count_experiment(lab)
    cut, held = sequences.split_sequences(run), run.record.stored
    if "begins" not in held:
        raise UnmeasuredError("how it cuts sequences was not told")
    due: dict[str, Array] = {
        "begins": np.array([s.offset for s in cut], float),
        "lengths": np.array([s.length for s in cut], float),
        "burned": np.array([sequences.count_burn_in_steps(run, s) for s in cut], float),
    }
    number = min(len(cut), len(held["begins"]))
    differ = [float(np.sum(held[name][:number] != due[name][:number])) for name in due]
    value = np.array([len(held["begins"]), *differ], float)
    return ProbeMeasurement(value, np.array([len(cut), 0, 0, 0], float))


def _measure_actor_epsilons(lab: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_parallel_actors(lab)
    if not run.thresholds:
        raise UnmeasuredError("it compares no random number with its shares of random actions")
    # Coins are also tossed when a collector finds out what its policy puts out.
    found = np.array([share for steps, share in run.thresholds if steps])
    rounds = len(run.transitions) // N_ACTORS - 1
    return ProbeMeasurement(
        found,
        np.tile(formulas.compute_actor_epsilons(EPSILON_BASE, EPSILON_EXPONENT, N_ACTORS), rounds),
    )


COUNT_PROBES: Sequence[Probe] = (
    Probe(
        "r2d2.counts",
        "What happens how often, and when for the first time?",
        f"{R2D2_PAPER}: updates go on while actors act, and the target is copied every so many of them; "
        "here by environment steps, once the warm-up is over",
        ", ".join(COUNT_NAMES),
        _measure_counts,
        make_entry_description(COUNT_NAMES),
        counts=True,
    ),
    Probe(
        "r2d2.actor_refresh",
        f"When have actors the learner's parameters, told to get them every {ACTOR_REFRESH_INTERVAL} steps, in "
        f"rounds of {CYCLE_STEPS}?",
        f"{R2D2_PAPER}, table 2: every so many steps; here at the head of the round after",
        "environment steps at the updates that find them equal",
        _measure_actor_refresh,
        make_relation_description("environment steps"),
        counts=True,
    ),
    Probe(
        "r2d2.sequences",
        f"Which sequences are stored, of {experiments.SEQUENCE_LENGTH} steps that overlap by "
        f"{experiments.OVERLAP}?",
        f"{R2D2_PAPER}, section 2.3: one begins so much later than the one before, none crosses the end "
        "of an episode; here the last may be shorter",
        ", ".join(STORED_NAMES),
        _measure_stored_sequences,
        make_entry_description(STORED_NAMES),
        counts=True,
    ),
    Probe(
        "r2d2.exploration",
        f"How often does each of {N_ACTORS} actors take a random action?",
        f"{APEX_PAPER}: base^(1 + exponent i / (N - 1)), of {EPSILON_BASE:g} and {EPSILON_EXPONENT:g}",
        "share of random actions, by actor, from the second step on",
        _measure_actor_epsilons,
        make_relation_description("share"),
        tolerance=1e-5,
    ),
)
