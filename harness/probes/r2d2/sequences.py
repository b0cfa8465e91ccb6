"""Sequences that an update learned from, and a network's values of their steps, in NumPy.

Weights are in the canonical layout: `<network>.0` before the LSTM, `lstm_input` and `lstm_state`,
then `1` and `out`, or `value0`, `value`, `advantage0` and `advantage`. The LSTM receives the last
action and the last reward after the features of the observation.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord, Parameters
from parallax.harness.contract.probing.scripted_env import TERMINATED
from parallax.harness.probes.experiments import ProbeRun, compute_once
from parallax.harness.probes.measurements import UNKNOWN_OBSERVATIONS, list_critic_updates
from parallax.harness.probes.probe import UnmeasuredError
from parallax.harness.probes.reference_networks import RELU

LstmState = Array
"""float[2, units]: hidden state and cell state."""


def select_layers(weights: Parameters, network: str) -> dict[str, Array]:
    """Return the layers of one network, by their names within it."""
    start = f"{network}."
    return {name.removeprefix(start): a for name, a in weights.items() if name.startswith(start)}


def make_zero_state(layers: Parameters) -> LstmState:
    """Return the LSTM state at the start of an episode."""
    return np.zeros((2, layers["lstm_state.weight"].shape[1]))


def unroll_lstm(layers: Parameters, seen: Array, state: LstmState) -> tuple[Array, list[LstmState]]:
    """Unroll encoder and LSTM over consecutive steps.

    Args:
        layers: Layers of one network.
        seen: Observation, last action one-hot and last reward, float[steps, all of them].
        state: State before the first step.

    Returns:
        Output of the LSTM at each step, float[steps, units]; the state after each step.
    """
    size = layers["0.weight"].shape[1]
    states = []
    for row in seen:
        features = RELU(layers["0.weight"] @ row[:size] + layers["0.bias"])
        hidden, cell = state
        state = formulas.compute_lstm_step(
            np.concatenate([features, row[size:]]), hidden, cell, layers
        )
        states.append(state)
    return np.array([shown for shown, _ in states]), states


def compute_head_output(
    layers: Parameters, shown: Array, name: str = "out", before: str = "1"
) -> Array:
    """Return the output of a head, float[rows, outputs].

    Args:
        layers: Layers of one network.
        shown: Outputs of the LSTM, float[rows, units].
        name: The head's last layer.
        before: The head's hidden layer.
    """
    hidden = compute_head_features(layers, shown, before)
    return np.asarray(hidden @ layers[f"{name}.weight"].T + layers[f"{name}.bias"])


def compute_head_features(layers: Parameters, shown: Array, name: str = "1") -> Array:
    """Return the output of a head's hidden layer, float[rows, units]."""
    return RELU(shown @ layers[f"{name}.weight"].T + layers[f"{name}.bias"])


def compute_action_values(layers: Parameters, shown: Array) -> Array:
    """Return values of all actions, float[rows, actions], with one head or with two."""
    if "out.weight" in layers:
        return compute_head_output(layers, shown)
    value, advantages = (
        compute_head_output(layers, shown, n, f"{n}0") for n in ("value", "advantage")
    )
    return formulas.compute_dueling_values(value, advantages)


@dataclasses.dataclass(frozen=True)
class ReplaySequence:
    """Sequence of steps that a replay buffer stores together.

    Attributes:
        start_row: Row of the first step among all transitions of the run.
        length: Number of steps.
        offset: Number of earlier steps of the episode.
        terminated: Whether the last step terminated the episode.
    """

    start_row: int
    length: int
    offset: int
    terminated: bool

    @property
    def rows(self) -> slice:
        """Slice of the run's transitions."""
        return slice(self.start_row, self.start_row + self.length)


@compute_once
def split_sequences(run: ProbeRun) -> list[ReplaySequence]:
    """Return the sequences of a run with one environment, in the order of their completion."""
    # A sequence begins every `length - overlap` steps of an episode, unless the previous one
    # already contains all remaining steps.
    hp, found, first = run.hyperparameters, list[ReplaySequence](), 0
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
                found.append(ReplaySequence(first + offset, length, offset, terminated))
        first = last + 1
    return found


@compute_once
def find_sequence_minibatch(run: ProbeRun, step: OptimizerStepRecord) -> list[ReplaySequence]:
    """Return the sequences of an update, identified by the observations among its inputs.

    Raises:
        UnmeasuredError: Its inputs are not observations of the run.
    """
    hp = run.hyperparameters
    rows = hp.sequence_length + 1
    whole = [shown for shown in step.critic_inputs if len(shown) == hp.batch_size * rows]
    if not whole:
        raise UnmeasuredError("its network saw no minibatch of sequences")
    known = {run.transitions[s.start_row].observation.tobytes(): s for s in split_sequences(run)}
    found = []
    for shown in whole[0].reshape(hp.batch_size, rows, -1):
        sequence = known.get(np.ascontiguousarray(shown[0]).tobytes())
        if sequence is None or not np.array_equal(
            shown[: sequence.length + 1], _collect_observations(run, sequence)
        ):
            raise UnmeasuredError(UNKNOWN_OBSERVATIONS)
        found.append(sequence)
    return found


def _collect_observations(run: ProbeRun, sequence: ReplaySequence) -> Array:
    # All observations of a sequence, and the one after it.
    steps = run.transitions[sequence.rows]
    return np.array([*(t.observation for t in steps), steps[-1].next_observation])


def build_network_inputs(run: ProbeRun, sequence: ReplaySequence, before: int = 0) -> Array:
    """Return the inputs for a sequence, for some steps before it and the one after it.

    Returns:
        Observation, last action one-hot and last reward, float[before + length + 1, all of them].
    """
    choices = run.experiment.scripted_data.n_discrete_actions
    first = sequence.start_row - before
    steps = run.transitions[first : sequence.start_row + sequence.length]
    observations = np.array([*(t.observation for t in steps), steps[-1].next_observation])
    last = np.zeros((len(observations), choices + 1))
    previous = [run.transitions[first - 1]] if before < sequence.offset else []
    for row, transition in enumerate([*previous, *steps], 0 if previous else 1):
        last[row, int(transition.action)] = 1.0
        last[row, choices] = np.float32(transition.reward)
    if not run.hyperparameters.last_step_inputs:
        return observations
    return np.hstack([observations, last])


def collect_actions(run: ProbeRun, sequence: ReplaySequence) -> Array:
    """Return the actions of a sequence, int[length]."""
    return np.array([int(t.action) for t in run.transitions[sequence.rows]])


def collect_rewards(run: ProbeRun, sequence: ReplaySequence) -> Array:
    """Return the rewards of a sequence, float[length]."""
    return np.array([t.reward for t in run.transitions[sequence.rows]])


@compute_once
def compute_stored_states(run: ProbeRun) -> Sequence[LstmState]:
    """Return the actor's states before each transition, with its initial weights."""
    layers, found, first = select_layers(run.weights, "actor"), list[LstmState](), 0
    for last, transition in enumerate(run.transitions):
        if transition.end or last + 1 == len(run.transitions):
            episode = ReplaySequence(first, last + 1 - first, 0, False)
            begun = make_zero_state(layers)
            _, states = unroll_lstm(layers, build_network_inputs(run, episode), begun)
            found += [begun, *states[: episode.length - 1]]
            first = last + 1
    return found


def count_burn_in_steps(run: ProbeRun, sequence: ReplaySequence) -> int:
    """Return the number of burn-in steps of a sequence."""
    return int(min(run.hyperparameters.burn_in, sequence.offset))


def compute_initial_state(run: ProbeRun, sequence: ReplaySequence, layers: Parameters) -> LstmState:
    """Return a network's LSTM state at the first step of a sequence, after the burn-in."""
    before = count_burn_in_steps(run, sequence)
    begun = make_zero_state(layers)
    if run.hyperparameters.stored_state:
        begun = compute_stored_states(run)[sequence.start_row - before]
    if not before:
        return begun
    _, states = unroll_lstm(layers, build_network_inputs(run, sequence, before)[:before], begun)
    return states[-1]


def compute_lstm_outputs(run: ProbeRun, sequence: ReplaySequence, layers: Parameters) -> Array:
    """Return LSTM outputs at each step of a sequence and after it, float[length + 1, units]."""
    found, _ = unroll_lstm(
        layers, build_network_inputs(run, sequence), compute_initial_state(run, sequence, layers)
    )
    return found


def compute_sequence_values(run: ProbeRun, sequence: ReplaySequence, layers: Parameters) -> Array:
    """Return action values at each step of a sequence and after it, [length + 1, actions]."""
    return compute_action_values(layers, compute_lstm_outputs(run, sequence, layers))


def compute_sequence_targets(
    run: ProbeRun, sequence: ReplaySequence, weights: Parameters, double: bool | None = None
) -> Array:
    """Return the paper's targets of a sequence, in the network's units.

    Args:
        run: The training.
        sequence: A sequence of the run.
        weights: Weights before the update.
        double: Whether the online network chooses the next action; None for the run's setting.
    """
    hp = run.hyperparameters
    online, later = (
        compute_sequence_values(run, sequence, select_layers(weights, name))
        for name in ("critic1", "critic1_target")
    )
    chooses = online if (hp.double_q if double is None else double) else later
    best = later[np.arange(len(later)), chooses.argmax(axis=1)][1:]
    epsilon = hp.value_rescaling
    best = best if epsilon is None else formulas.invert_rescaling(best, epsilon)
    found = formulas.compute_n_step_targets(
        collect_rewards(run, sequence), best, sequence.terminated, hp.gamma, hp.n_step
    )
    return found if epsilon is None else formulas.rescale_values(found, epsilon)


def compute_sequence_predictions(
    run: ProbeRun, sequence: ReplaySequence, weights: Parameters
) -> Array:
    """Return values of the actions taken, float[length]."""
    chosen = collect_actions(run, sequence)
    found = compute_sequence_values(run, sequence, select_layers(weights, "critic1"))
    return np.asarray(found[np.arange(len(chosen)), chosen])


def compute_td_errors(run: ProbeRun, sequence: ReplaySequence, weights: Parameters) -> Array:
    """Return predictions minus the paper's targets, float[length]."""
    return compute_sequence_predictions(run, sequence, weights) - compute_sequence_targets(
        run, sequence, weights
    )


@compute_once
def solve_prediction_gradients(run: ProbeRun, step: OptimizerStepRecord) -> list[Array]:
    """Return derivatives of the loss by the predictions, times the sequences of the minibatch.

    They are solved from the gradients of the last layer. If a sequence was drawn several times,
    all its copies get the same.

    Returns:
        One array per sequence of the minibatch, float[length].
    """
    drawn = find_sequence_minibatch(run, step)
    layers = select_layers(step.before, "critic1")
    hidden = [
        compute_head_features(layers, compute_lstm_outputs(run, s, layers))[:-1] for s in drawn
    ]
    rows = np.vstack(hidden)
    system = np.vstack([rows.T, np.ones(len(rows))])
    gradients = step.gradients["critic1.out.weight"].T, step.gradients["critic1.out.bias"]
    solved = np.linalg.lstsq(system, np.vstack(gradients), rcond=None)[0] * len(drawn)
    each = np.split(solved, np.cumsum([len(h) for h in hidden])[:-1])
    return [
        found[np.arange(s.length), collect_actions(run, s)]
        for found, s in zip(each, drawn, strict=True)
    ]


def list_distinct_sequences(run: ProbeRun) -> list[tuple[OptimizerStepRecord, int, ReplaySequence]]:
    """Return each distinct sequence of the first updates: update, position in it, sequence."""
    found = []
    for step in list_critic_updates(run):
        drawn = find_sequence_minibatch(run, step)
        first = {sequence.start_row: place for place, sequence in reversed([*enumerate(drawn)])}
        found += [(step, place, drawn[place]) for place in sorted(first.values())]
    return found
