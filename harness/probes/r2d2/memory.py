"""Probes of what R2D2 remembers at the first step that it learns from."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes.contract import Parameters, Step
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, relation
from harness.probes.r2d2 import network, sequences, trainings
from harness.probes.r2d2.network import State
from harness.probes.r2d2.sequences import Sequence as Drawn
from harness.probes.r2d2.trainings import BURN_IN, PAPER
from harness.probes.readings import critic_updates, steps_of
from harness.probes.results import Array

WAYS = 8
"""Directions in which the loss is differentiated."""
NEAR = 1e-5
"""Half the distance over which, as a share of the weights."""
RECURRENT = ("0", "lstm_input", "lstm_state")
"""Layers through which a gradient would reach the burn-in."""


def _alone(run: Run) -> list[tuple[Step, Drawn]]:
    return [(step, sequences.minibatch(run, step)[0]) for step in steps_of(run, "critic1")]


def _value(run: Run, step: Step, drawn: Drawn, state: State) -> float:
    layers = network.part(step.before, "critic1")
    shown, _ = network.remembered(layers, sequences.inputs(run, drawn), state)
    return float(network.values(layers, shown)[0, sequences.actions(run, drawn)[0]])


def _from(run: Run, choose: Callable[[Step, Drawn], State]) -> Array:
    return np.array([_value(run, step, drawn, choose(step, drawn)) for step, drawn in _alone(run)])


def _learner(step: Step) -> Parameters:
    return network.part(step.before, "critic1")


def _whole_episode(run: Run, step: Step, drawn: Drawn) -> State:
    layers = _learner(step)
    begun = network.nothing(layers)
    if not drawn.offset:
        return begun
    before = sequences.inputs(run, drawn, drawn.offset)[: drawn.offset]
    return network.remembered(layers, before, begun)[1][-1]


def _state(runner: Callable[[Lab], Run]) -> Callable[[Lab], Measurement]:
    def measure(lab: Lab) -> Measurement:
        run = runner(lab)
        # One step of one sequence: the gradient by the bias of its choice is the whole pull.
        read = [
            step.gradients["critic1.out.bias"][sequences.actions(run, drawn)[0]]
            + sequences.rewards(run, drawn)[0]
            for step, drawn in _alone(run)
        ]
        expected = _from(run, lambda s, drawn: sequences.state_of(run, drawn, _learner(s)))
        stored = sequences.stored_states(run)
        others = {
            "from zeros at the first step that is learned from": _from(
                run, lambda s, drawn: network.nothing(_learner(s))
            ),
            "from the state that the actor had there": _from(
                run, lambda s, drawn: stored[drawn.begin]
            ),
            "from the learner's own memory of the whole episode": _from(
                run, lambda s, drawn: _whole_episode(run, s, drawn)
            ),
        }
        return Measurement(np.array(read), expected, None, others)

    return measure


def _burn_in_gradient(lab: Lab) -> Measurement:
    run = trainings.several(lab)
    generator = np.random.default_rng([lab.seed, 6])
    value, expected, through = [], [], []
    for step in critic_updates(run)[:2]:
        layers = _learner(step)
        drawn = sequences.minibatch(run, step)
        kept = {s.begin: sequences.state_of(run, s, layers) for s in drawn}
        aims = {s.begin: sequences.targets(run, s, step.before) for s in drawn}
        names = [f"{layer}.{kind}" for layer in RECURRENT for kind in ("weight", "bias")]
        for _ in range(WAYS):
            way = {n: generator.normal(size=layers[n].shape) * np.std(layers[n]) for n in names}
            found = sum(float(np.sum(way[n] * step.gradients[f"critic1.{n}"])) for n in names)
            value.append(found)
            expected.append(_slope(run, layers, way, drawn, aims, kept))
            through.append(_slope(run, layers, way, drawn, aims, None))
    others = {"it goes through the burn-in": np.array(through)}
    return Measurement(np.array(value), np.array(expected), None, others)


def _slope(
    run: Run,
    layers: Parameters,
    way: Parameters,
    drawn: Sequence[Drawn],
    aims: dict[int, Array],
    kept: dict[int, State] | None,
) -> float:
    # Of the loss in a direction; burnt in anew where no states are given.
    def loss(by: float) -> float:
        moved = {name: array + by * way.get(name, 0.0) for name, array in layers.items()}
        total = 0.0
        for s in drawn:
            state = kept[s.begin] if kept else sequences.state_of(run, s, moved)
            shown, _ = network.remembered(moved, sequences.inputs(run, s), state)
            chosen = sequences.actions(run, s)
            taken = network.values(moved, shown)[np.arange(s.length), chosen]
            total += float(np.sum((taken - aims[s.begin]) ** 2)) / 2
        return total / len(drawn)

    return (loss(NEAR) - loss(-NEAR)) / (2 * NEAR)


def _probe(name: str, question: str, answer: str, runner: Callable[[Lab], Run]) -> Probe:
    return Probe(
        f"r2d2.{name}",
        question,
        f"{PAPER}, section 3: {answer}",
        "value of the choice at the first step that is learned from, in 25 updates",
        _state(runner),
        relation("value"),
        tolerance=1e-3,
    )


PROBES: Sequence[Probe] = (
    _probe(
        "burn_in_of_stored_state",
        f"What is remembered where {BURN_IN} steps are burnt in from a stored state?",
        "what the learner makes of these steps from the state that the actor had before them",
        trainings.from_stored_states,
    ),
    _probe(
        "burn_in_of_zero_state",
        f"What is remembered where {BURN_IN} steps are burnt in from zeros?",
        "what the learner makes of these steps from zeros",
        trainings.from_zeros,
    ),
    _probe(
        "stored_state",
        "What is remembered where a sequence begins with the stored state?",
        "what the actor remembered there",
        trainings.without_burn_in,
    ),
    Probe(
        "r2d2.burn_in_gradient",
        "Does the loss reach the memory's weights through the steps that are burnt in?",
        f"{PAPER}, section 3: no; the burn-in only gives a state to start from",
        f"derivative of the loss in {WAYS} directions of the weights, in the first two updates",
        _burn_in_gradient,
        relation("derivative"),
        tolerance=2e-3,
    ),
)
