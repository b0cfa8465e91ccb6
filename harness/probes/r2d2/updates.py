"""Probes of R2D2's update: loss, targets, and the recurrent state that it starts from."""

from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import CRITIC_LOSS, OptimizerStepRecord, Parameters
from parallax.harness.probes.dqn.updates import compare_head_gradients
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families.optimisation import make_clipped_norm_probe
from parallax.harness.probes.measurements import list_critic_updates, list_network_steps
from parallax.harness.probes.probe import (
    SEQUENCES,
    UPDATE,
    Probe,
    ProbeMeasurement,
    make_relation_description,
)
from parallax.harness.probes.r2d2 import experiments, sequences
from parallax.harness.probes.r2d2.experiments import (
    BURN_IN,
    DISCOUNT,
    LARGE_RESCALING_EPSILON,
    N_STEP,
    R2D2_PAPER,
    SMALL_RESCALING_EPSILON,
)
from parallax.harness.probes.r2d2.sequences import LstmState, ReplaySequence
from parallax.harness.probes.results import AnswerAxis

DUELING_PAPER = "Wang et al. 2016 (arXiv:1511.06581), eq. 9"
ReadSequence = Callable[[ProbeRun, OptimizerStepRecord, ReplaySequence], Array]
"""Computes a quantity of each step of a sequence, float[length]."""


def _concatenate_gradients(run: ProbeRun) -> Array:
    return np.concatenate(
        [
            sequences.solve_prediction_gradients(run, s)[place]
            for s, place, _ in sequences.list_distinct_sequences(run)
        ]
    )


def _concatenate_sequences(run: ProbeRun, read: ReadSequence) -> Array:
    return np.concatenate(
        [read(run, step, drawn) for step, _, drawn in sequences.list_distinct_sequences(run)]
    )


def _read_predictions(run: ProbeRun, step: OptimizerStepRecord, drawn: ReplaySequence) -> Array:
    return sequences.compute_sequence_predictions(run, drawn, step.before)


def _read_targets(run: ProbeRun, step: OptimizerStepRecord, drawn: ReplaySequence) -> Array:
    return sequences.compute_sequence_targets(run, drawn, step.before)


def _solve_targets(run: ProbeRun) -> Array:
    """Return the targets of predictions for a loss of half the squared error."""
    return _concatenate_sequences(run, _read_predictions) - _concatenate_gradients(run)


def _measure_sequence_loss(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_bandit(cache)
    errors = _concatenate_sequences(
        run, lambda r, step, drawn: sequences.compute_td_errors(r, drawn, step.before)
    )
    lengths = _concatenate_sequences(
        run, lambda r, step, drawn: np.full(drawn.length, float(drawn.length))
    )
    others = {
        "twice the paper's": 2 * errors,
        "the mean over a sequence's steps": errors / lengths,
        "the mean over as many steps as a sequence may have": errors / experiments.SEQUENCE_LENGTH,
        "the error cut at -1 and 1": np.clip(errors, -1, 1),
    }
    return ProbeMeasurement(
        _concatenate_gradients(run), errors, AnswerAxis("error", errors), others
    )


def _measure_value_rescaling(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_rescaled_rewards(cache)
    paid = _concatenate_sequences(run, lambda r, step, drawn: sequences.collect_rewards(r, drawn))
    others = {
        "rewards as they are": paid,
        "without the linear part": formulas.rescale_values(paid, 0.0),
        "rewards cut at -1 and 1": np.clip(paid, -1, 1),
    }
    return ProbeMeasurement(
        _solve_targets(run),
        formulas.rescale_values(paid, LARGE_RESCALING_EPSILON),
        AnswerAxis("reward", paid),
        others,
    )


def _measure_inverse_rescaling(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_bootstrap_only(cache)

    def best(run: ProbeRun, step: OptimizerStepRecord, drawn: ReplaySequence) -> Array:
        layers = sequences.select_layers(step.before, "critic1_target")
        return np.asarray(sequences.compute_sequence_values(run, drawn, layers).max(axis=1)[1:])

    following = _concatenate_sequences(run, best)
    expected = _concatenate_sequences(run, _read_targets)
    others = {
        "without the inverse": np.where(
            expected, formulas.rescale_values(DISCOUNT * following, LARGE_RESCALING_EPSILON), 0
        ),
        "the discounted value, without h and its inverse": np.where(
            expected, DISCOUNT * following, 0
        ),
    }
    axis = AnswerAxis("value of what follows, as the network has it", following)
    return ProbeMeasurement(_solve_targets(run), expected, axis, others)


def _make_n_step_measure(last: bool) -> Callable[[ExperimentCache], ProbeMeasurement]:
    # Compare steps with at least n remaining rewards in their sequence, or those with fewer.
    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        run = experiments.run_n_step(cache)
        left = _concatenate_sequences(
            run, lambda r, step, drawn: drawn.length - np.arange(drawn.length, dtype=float)
        )
        these = (left < N_STEP) if last else (left >= N_STEP)
        value = _solve_targets(run)[these]
        expected = _concatenate_sequences(run, _read_targets)[these]
        return ProbeMeasurement(
            value, expected, AnswerAxis("rewards left in the sequence", left[these])
        )

    return measure


def _measure_double_q(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_double_q(cache)
    largest = _concatenate_sequences(
        run, lambda r, step, drawn: sequences.compute_sequence_targets(r, drawn, step.before, False)
    )
    others = {"the largest value of the target network": largest}
    return ProbeMeasurement(
        _solve_targets(run), _concatenate_sequences(run, _read_targets), None, others
    )


def _measure_dueling_heads(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_dueling_network(cache)
    step = list_critic_updates(run)[0]
    layers = sequences.select_layers(step.before, "critic1")
    drawn = {s.start_row: s for s in sequences.find_sequence_minibatch(run, step)}.values()
    shown = np.vstack([sequences.compute_lstm_outputs(run, s, layers)[:-1] for s in drawn])
    chosen = np.concatenate([sequences.collect_actions(run, s) for s in drawn])
    return compare_head_gradients(step, shown, chosen)


def _build_target_probe(
    name: str,
    question: str,
    citation: str,
    measure: Callable[[ExperimentCache], ProbeMeasurement],
    part: str = UPDATE,
    events: tuple[str, ...] = (),
) -> Probe:
    return Probe(
        f"r2d2.{name}",
        question,
        citation,
        "targets of predictions, in the network's units, in the first updates",
        measure,
        make_relation_description("target"),
        tolerance=2e-3,
        part=part,
        events=events,
    )


TARGET_PROBES: Sequence[Probe] = (
    Probe(
        "r2d2.sequence_loss",
        "What is the gradient of the loss by a prediction, over the error?",
        f"{R2D2_PAPER} does not say; here half the squared error, summed over a sequence's steps",
        "derivative of the loss by the prediction, times the sequences of the minibatch",
        _measure_sequence_loss,
        make_relation_description("pull on the value"),
        tolerance=2e-3,
        part=SEQUENCES,
    ),
    _build_target_probe(
        "rescaled_reward",
        "What is the target with a discount of 0, over the reward, at a rescaling epsilon of "
        f"{LARGE_RESCALING_EPSILON:g}?",
        f"{R2D2_PAPER}, section 2.3: h of it",
        _measure_value_rescaling,
    ),
    _build_target_probe(
        "inverse_rescaling",
        "What is the target without rewards, over the next value, at a rescaling epsilon of "
        f"{LARGE_RESCALING_EPSILON:g}?",
        f"{R2D2_PAPER}, section 2.3: h of the discounted inverse of h of it",
        _measure_inverse_rescaling,
    ),
    _build_target_probe(
        "n_step_target",
        f"What is the {N_STEP}-step target, at a rescaling epsilon of {SMALL_RESCALING_EPSILON:g}?",
        f"{R2D2_PAPER}, section 2.3: h of their discounted sum and bootstrap",
        _make_n_step_measure(last=False),
        part=SEQUENCES,
        events=(CRITIC_LOSS,),
    ),
    _build_target_probe(
        "last_steps_target",
        "What is the target where fewer than n rewards are left in the sequence?",
        f"{R2D2_PAPER} does not say; here the rewards left and a bootstrap, unless terminated",
        _make_n_step_measure(last=True),
        part=SEQUENCES,
        events=(CRITIC_LOSS,),
    ),
    _build_target_probe(
        "double_q",
        "Whose choice is valued in targets of double Q-learning?",
        f"{R2D2_PAPER}, section 2.3: that of the online network",
        _measure_double_q,
    ),
    make_clipped_norm_probe("r2d2", experiments.run_clipped_gradients, experiments.MAX_GRAD_NORM),
    Probe(
        "r2d2.dueling_head",
        "How is the gradient of a value split over the advantages of a dueling network?",
        f"{DUELING_PAPER}: the mean of the advantages is taken off",
        "derivative of the loss by each advantage, times a constant",
        _measure_dueling_heads,
        make_relation_description("pull on the advantages"),
        tolerance=5e-3,
    ),
)

N_DIRECTIONS = 8
"""Directions in which the loss is differentiated."""
FINITE_DIFFERENCE_STEP = 1e-5
"""Half the distance of the finite differences, as a share of the weights."""
RECURRENT_LAYERS = ("0", "lstm_input", "lstm_state")
"""Layers through which a gradient would reach the burn-in."""


def _list_single_sequences(run: ProbeRun) -> list[tuple[OptimizerStepRecord, ReplaySequence]]:
    return [
        (step, sequences.find_sequence_minibatch(run, step)[0])
        for step in list_network_steps(run, "critic1")
    ]


def _compute_action_value(
    run: ProbeRun, step: OptimizerStepRecord, drawn: ReplaySequence, state: LstmState
) -> float:
    layers = sequences.select_layers(step.before, "critic1")
    shown, _ = sequences.unroll_lstm(layers, sequences.build_network_inputs(run, drawn), state)
    return float(
        sequences.compute_action_values(layers, shown)[0, sequences.collect_actions(run, drawn)[0]]
    )


def _compute_values_from_states(
    run: ProbeRun, choose: Callable[[OptimizerStepRecord, ReplaySequence], LstmState]
) -> Array:
    return np.array(
        [
            _compute_action_value(run, step, drawn, choose(step, drawn))
            for step, drawn in _list_single_sequences(run)
        ]
    )


def _select_learner_layers(step: OptimizerStepRecord) -> Parameters:
    return sequences.select_layers(step.before, "critic1")


def _unroll_episode(run: ProbeRun, step: OptimizerStepRecord, drawn: ReplaySequence) -> LstmState:
    layers = _select_learner_layers(step)
    begun = sequences.make_zero_state(layers)
    if not drawn.offset:
        return begun
    before = sequences.build_network_inputs(run, drawn, drawn.offset)[: drawn.offset]
    return sequences.unroll_lstm(layers, before, begun)[1][-1]


def _make_state_measure(
    runner: Callable[[ExperimentCache], ProbeRun],
) -> Callable[[ExperimentCache], ProbeMeasurement]:
    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        run = runner(cache)
        # With one step of one sequence, the gradient by the chosen action's bias is its TD error.
        read = [
            step.gradients["critic1.out.bias"][sequences.collect_actions(run, drawn)[0]]
            + sequences.collect_rewards(run, drawn)[0]
            for step, drawn in _list_single_sequences(run)
        ]
        expected = _compute_values_from_states(
            run,
            lambda s, drawn: sequences.compute_initial_state(run, drawn, _select_learner_layers(s)),
        )
        stored = sequences.compute_stored_states(run)
        others = {
            "from zeros at the first step that is learned from": _compute_values_from_states(
                run, lambda s, drawn: sequences.make_zero_state(_select_learner_layers(s))
            ),
            "from the state that the actor had there": _compute_values_from_states(
                run, lambda s, drawn: stored[drawn.start_row]
            ),
            "from the learner's own memory of the whole episode": _compute_values_from_states(
                run, lambda s, drawn: _unroll_episode(run, s, drawn)
            ),
        }
        return ProbeMeasurement(np.array(read), expected, None, others)

    return measure


def _measure_burn_in_gradient(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_n_step(cache)
    generator = np.random.default_rng([cache.seed, 6])
    value, expected, through = [], [], []
    for step in list_critic_updates(run)[:2]:
        layers = _select_learner_layers(step)
        drawn = sequences.find_sequence_minibatch(run, step)
        states = {s.start_row: sequences.compute_initial_state(run, s, layers) for s in drawn}
        aims = {s.start_row: sequences.compute_sequence_targets(run, s, step.before) for s in drawn}
        names = [f"{layer}.{kind}" for layer in RECURRENT_LAYERS for kind in ("weight", "bias")]
        for _ in range(N_DIRECTIONS):
            way = {n: generator.normal(size=layers[n].shape) * np.std(layers[n]) for n in names}
            found = sum(float(np.sum(way[n] * step.gradients[f"critic1.{n}"])) for n in names)
            value.append(found)
            expected.append(_compute_directional_derivative(run, layers, way, drawn, aims, states))
            through.append(_compute_directional_derivative(run, layers, way, drawn, aims, None))
    others = {"it goes through the burn-in": np.array(through)}
    return ProbeMeasurement(np.array(value), np.array(expected), None, others)


def _compute_directional_derivative(
    run: ProbeRun,
    layers: Parameters,
    way: Parameters,
    drawn: Sequence[ReplaySequence],
    aims: dict[int, Array],
    states: dict[int, LstmState] | None,
) -> float:
    # Central difference of the loss; the burn-in is part of it if no states are given.
    def loss(by: float) -> float:
        moved = {name: array + by * way.get(name, 0.0) for name, array in layers.items()}
        total = 0.0
        for s in drawn:
            state = (
                states[s.start_row] if states else sequences.compute_initial_state(run, s, moved)
            )
            shown, _ = sequences.unroll_lstm(moved, sequences.build_network_inputs(run, s), state)
            chosen = sequences.collect_actions(run, s)
            taken = sequences.compute_action_values(moved, shown)[np.arange(s.length), chosen]
            total += float(np.sum((taken - aims[s.start_row]) ** 2)) / 2
        return total / len(drawn)

    return (loss(FINITE_DIFFERENCE_STEP) - loss(-FINITE_DIFFERENCE_STEP)) / (
        2 * FINITE_DIFFERENCE_STEP
    )


def _build_state_probe(
    name: str,
    question: str,
    answer: str,
    run: Callable[[ExperimentCache], ProbeRun],
    part: str = UPDATE,
) -> Probe:
    return Probe(
        f"r2d2.{name}",
        question,
        f"{R2D2_PAPER}, section 3: {answer}",
        "value of the action at the first step that is learned from, in 25 updates",
        _make_state_measure(run),
        make_relation_description("value"),
        tolerance=1e-3,
        part=part,
    )


MEMORY_PROBES: Sequence[Probe] = (
    _build_state_probe(
        "burn_in_of_stored_state",
        f"What is the LSTM state after a burn-in of {BURN_IN} steps from the stored state?",
        "what the learner makes of these steps from the state that the actor had before them",
        experiments.run_stored_states,
    ),
    _build_state_probe(
        "burn_in_of_zero_state",
        f"What is the LSTM state after a burn-in of {BURN_IN} steps from zeros?",
        "what the learner makes of these steps from zeros",
        experiments.run_zero_states,
    ),
    _build_state_probe(
        "stored_state",
        "What is the LSTM state where a sequence starts from the stored state?",
        "what the actor remembered there",
        experiments.run_without_burn_in,
        part=SEQUENCES,
    ),
    Probe(
        "r2d2.burn_in_gradient",
        "Does the loss reach the memory's weights through the steps that are burnt in?",
        f"{R2D2_PAPER}, section 3: no; the burn-in only gives a state to start from",
        f"derivative of the loss in {N_DIRECTIONS} directions of the weights, in two updates",
        _measure_burn_in_gradient,
        make_relation_description("derivative"),
        tolerance=2e-3,
    ),
)
