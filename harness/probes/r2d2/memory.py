"""Probes of R2D2's recurrent state at the first step that it learns from."""

from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord, Parameters
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.measurements import list_critic_updates, list_network_steps
from parallax.harness.probes.probe import (
    SEQUENCES,
    UPDATE,
    Probe,
    ProbeMeasurement,
    make_relation_description,
)
from parallax.harness.probes.r2d2 import experiments, sequences
from parallax.harness.probes.r2d2 import sequences as network
from parallax.harness.probes.r2d2.experiments import BURN_IN, R2D2_PAPER
from parallax.harness.probes.r2d2.sequences import LstmState
from parallax.harness.probes.r2d2.sequences import ReplaySequence as Drawn

N_DIRECTIONS = 8
"""Directions in which the loss is differentiated."""
FINITE_DIFFERENCE_STEP = 1e-5
"""Half the distance of the finite differences, as a share of the weights."""
RECURRENT_LAYERS = ("0", "lstm_input", "lstm_state")
"""Layers through which a gradient would reach the burn-in."""


def _list_single_sequences(run: ProbeRun) -> list[tuple[OptimizerStepRecord, Drawn]]:
    return [
        (step, sequences.find_sequence_minibatch(run, step)[0])
        for step in list_network_steps(run, "critic1")
    ]


def _compute_action_value(
    run: ProbeRun, step: OptimizerStepRecord, drawn: Drawn, state: LstmState
) -> float:
    layers = network.select_layers(step.before, "critic1")
    shown, _ = network.unroll_lstm(layers, sequences.build_network_inputs(run, drawn), state)
    return float(
        network.compute_action_values(layers, shown)[0, sequences.collect_actions(run, drawn)[0]]
    )


def _compute_values_from_states(
    run: ProbeRun, choose: Callable[[OptimizerStepRecord, Drawn], LstmState]
) -> Array:
    return np.array(
        [
            _compute_action_value(run, step, drawn, choose(step, drawn))
            for step, drawn in _list_single_sequences(run)
        ]
    )


def _select_learner_layers(step: OptimizerStepRecord) -> Parameters:
    return network.select_layers(step.before, "critic1")


def _unroll_episode(run: ProbeRun, step: OptimizerStepRecord, drawn: Drawn) -> LstmState:
    layers = _select_learner_layers(step)
    begun = network.make_zero_state(layers)
    if not drawn.offset:
        return begun
    before = sequences.build_network_inputs(run, drawn, drawn.offset)[: drawn.offset]
    return network.unroll_lstm(layers, before, begun)[1][-1]


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
                run, lambda s, drawn: network.make_zero_state(_select_learner_layers(s))
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
    drawn: Sequence[Drawn],
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
            shown, _ = network.unroll_lstm(moved, sequences.build_network_inputs(run, s), state)
            chosen = sequences.collect_actions(run, s)
            taken = network.compute_action_values(moved, shown)[np.arange(s.length), chosen]
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


PROBES: Sequence[Probe] = (
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
