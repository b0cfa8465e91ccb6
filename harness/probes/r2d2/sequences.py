"""Which sequences an update learned from, and what a network says of their steps."""

import dataclasses
from collections.abc import Sequence as Ordered

import numpy as np

from harness.probes import formulas
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Run
from harness.probes.probe import Unmeasured
from harness.probes.r2d2 import network
from harness.probes.r2d2.network import State
from harness.probes.readings import FOREIGN, critic_updates
from harness.probes.results import Array
from harness.probes.world import TERMINATED


@dataclasses.dataclass(frozen=True)
class Sequence:
    """Steps that are learned from together.

    Attributes:
        begin: Number of the first among all transitions of the run.
        length: Steps.
        offset: Steps of the episode before the first.
        terminated: Whether the task ended with the last.
    """

    begin: int
    length: int
    offset: int
    terminated: bool

    @property
    def rows(self) -> slice:
        """Of the run's transitions."""
        return slice(self.begin, self.begin + self.length)


def cut(run: Run) -> list[Sequence]:
    """The sequences of a run with one environment, in the order in which they were complete."""
    return run.once("cut", lambda: _cut(run))


def _cut(run: Run) -> list[Sequence]:
    # Every `length - overlap` steps of an episode one begins; what the last one before has
    # already is no reason for another.
    hp, found, first = run.hyperparameters, list[Sequence](), 0
    for last, transition in enumerate(run.transitions):
        over = transition.end != 0
        if not over and last + 1 < len(run.transitions):
            continue
        steps = last + 1 - first
        for offset in range(0, steps, hp.sequence_length - hp.overlap):
            length = min(hp.sequence_length, steps - offset)
            new = length > (hp.overlap if offset else 0)
            if new and (over or length == hp.sequence_length):
                ends = over and offset + length == steps
                terminated = ends and transition.end == TERMINATED
                found.append(Sequence(first + offset, length, offset, terminated))
        first = last + 1
    return found


def minibatch(run: Run, step: Step) -> list[Sequence]:
    """The sequences of an update, told by the observations that its network was shown.

    Raises:
        Unmeasured: It was shown something else.
    """
    # The step is kept as well, so that no other gets its number.
    return run.once(("minibatch", id(step)), lambda: (step, _minibatch(run, step)))[1]


def _minibatch(run: Run, step: Step) -> list[Sequence]:
    hp = run.hyperparameters
    rows = hp.sequence_length + 1
    whole = [shown for shown in step.pairs if len(shown) == hp.batch_size * rows]
    if not whole:
        raise Unmeasured("its network saw no minibatch of sequences")
    known = {run.transitions[s.begin].observation.tobytes(): s for s in cut(run)}
    found = []
    for shown in whole[0].reshape(hp.batch_size, rows, -1):
        sequence = known.get(np.ascontiguousarray(shown[0]).tobytes())
        if sequence is None or not np.array_equal(
            shown[: sequence.length + 1], _seen(run, sequence)
        ):
            raise Unmeasured(FOREIGN)
        found.append(sequence)
    return found


def _seen(run: Run, sequence: Sequence) -> Array:
    # All observations of a sequence, with the one behind it.
    steps = run.transitions[sequence.rows]
    return np.array([*(t.observation for t in steps), steps[-1].next_observation])


def inputs(run: Run, sequence: Sequence, before: int = 0) -> Array:
    """What the network sees of a sequence, of some steps before it, and behind it.

    Returns:
        Observation, last action one-hot and last reward, float[before + length + 1, all of them].
    """
    choices = run.experiment.dictation.choices
    first = sequence.begin - before
    steps = run.transitions[first : sequence.begin + sequence.length]
    observations = np.array([*(t.observation for t in steps), steps[-1].next_observation])
    last = np.zeros((len(observations), choices + 1))
    previous = [run.transitions[first - 1]] if before < sequence.offset else []
    for row, transition in enumerate([*previous, *steps], 0 if previous else 1):
        last[row, int(transition.action)] = 1.0
        last[row, choices] = np.float32(transition.reward)
    if not run.hyperparameters.last_step_inputs:
        return observations
    return np.hstack([observations, last])


def actions(run: Run, sequence: Sequence) -> Array:
    """The choices of a sequence's steps, int[length]."""
    return np.array([int(t.action) for t in run.transitions[sequence.rows]])


def rewards(run: Run, sequence: Sequence) -> Array:
    """Of a sequence's steps, float[length]."""
    return np.array([t.reward for t in run.transitions[sequence.rows]])


def stored_states(run: Run) -> Ordered[State]:
    """The states that the actor had before each transition, with the weights it began with."""
    return run.once("stored states", lambda: _stored_states(run))


def _stored_states(run: Run) -> Ordered[State]:
    layers, found, first = network.part(run.weights, "actor"), list[State](), 0
    for last, transition in enumerate(run.transitions):
        if transition.end or last + 1 == len(run.transitions):
            episode = Sequence(first, last + 1 - first, 0, False)
            begun = network.nothing(layers)
            _, states = network.remembered(layers, inputs(run, episode), begun)
            found += [begun, *states[: episode.length - 1]]
            first = last + 1
    return found


def burned(run: Run, sequence: Sequence) -> int:
    """Steps before a sequence that bring its state up to date."""
    return int(min(run.hyperparameters.burn_in, sequence.offset))


def state_of(run: Run, sequence: Sequence, layers: Parameters) -> State:
    """What a network remembers at the first step of a sequence, after its burn-in."""
    before = burned(run, sequence)
    begun = network.nothing(layers)
    if run.hyperparameters.stored_state:
        begun = stored_states(run)[sequence.begin - before]
    if not before:
        return begun
    _, states = network.remembered(layers, inputs(run, sequence, before)[:before], begun)
    return states[-1]


def shown(run: Run, sequence: Sequence, layers: Parameters) -> Array:
    """What the memory shows at each step of a sequence and behind it, float[length + 1, units]."""
    found, _ = network.remembered(layers, inputs(run, sequence), state_of(run, sequence, layers))
    return found


def values(run: Run, sequence: Sequence, layers: Parameters) -> Array:
    """Values of all choices at each step of a sequence and behind it, [length + 1, choices]."""
    return network.values(layers, shown(run, sequence, layers))


def targets(run: Run, sequence: Sequence, weights: Parameters, double: bool | None = None) -> Array:
    """The paper's targets of a sequence's steps, in the network's units.

    Args:
        run: The training.
        sequence: Of it.
        weights: Before the update.
        double: Whether the network chooses what its target values; None as the run has it.
    """
    hp = run.hyperparameters
    online, later = (
        values(run, sequence, network.part(weights, name)) for name in ("critic1", "critic1_target")
    )
    chooses = online if (hp.double_q if double is None else double) else later
    best = later[np.arange(len(later)), chooses.argmax(axis=1)][1:]
    epsilon = hp.value_rescaling
    best = best if epsilon is None else formulas.restored(best, epsilon)
    found = formulas.n_step_target(
        rewards(run, sequence), best, sequence.terminated, hp.gamma, hp.n_step
    )
    return found if epsilon is None else formulas.rescaled(found, epsilon)


def predictions(run: Run, sequence: Sequence, weights: Parameters) -> Array:
    """Values of the choices that were made, float[length]."""
    chosen = actions(run, sequence)
    found = values(run, sequence, network.part(weights, "critic1"))
    return np.asarray(found[np.arange(len(chosen)), chosen])


def errors(run: Run, sequence: Sequence, weights: Parameters) -> Array:
    """Predictions less the paper's targets, float[length]."""
    return predictions(run, sequence, weights) - targets(run, sequence, weights)


def pulls(run: Run, step: Step) -> list[Array]:
    """Derivatives of the loss by the predictions, times the sequences of the minibatch.

    They are solved from the gradients of the last layer. Where a sequence was drawn several times
    each gets as much.

    Returns:
        For each sequence of the minibatch, float[length].
    """
    return run.once(("pulls", id(step)), lambda: (step, _pulls(run, step)))[1]


def _pulls(run: Run, step: Step) -> list[Array]:
    drawn, layers = minibatch(run, step), network.part(step.before, "critic1")
    hidden = [network.features(layers, shown(run, s, layers))[:-1] for s in drawn]
    rows = np.vstack(hidden)
    system = np.vstack([rows.T, np.ones(len(rows))])
    gradients = step.gradients["critic1.out.weight"].T, step.gradients["critic1.out.bias"]
    solved = np.linalg.lstsq(system, np.vstack(gradients), rcond=None)[0] * len(drawn)
    each = np.split(solved, np.cumsum([len(h) for h in hidden])[:-1])
    return [
        found[np.arange(s.length), actions(run, s)] for found, s in zip(each, drawn, strict=True)
    ]


def distinct(run: Run) -> list[tuple[Step, int, Sequence]]:
    """Every sequence of each of the first updates, once: the update, its place there, itself."""
    found = []
    for step in critic_updates(run):
        drawn = minibatch(run, step)
        first = {sequence.begin: place for place, sequence in reversed([*enumerate(drawn)])}
        found += [(step, place, drawn[place]) for place in sorted(first.values())]
    return found
