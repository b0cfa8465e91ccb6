"""Signals of the greedy policy, which is evaluated on states of the last environment steps."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Policy
from parallax.harness.contract.events import (
    LayerForward,
    LibraryWatcher,
    TrainingEvents,
    watch_libraries,
)
from parallax.harness.diagnosis.environment_signals import LastSteps
from parallax.harness.diagnosis.layer_signals import to_numpy
from parallax.harness.diagnosis.signals import Array, TrainingSignals

DROPOUT_PASSES = 16
"""Evaluations of the policy with dropout, whose spread is the uncertainty."""

_QUERY_STATES = 64
_MIN_STEPS = 16  # fewer are not representative of the states of a training
_COMPARED_STEPS = 8  # few, since the policy that is evaluated is newer than the one that acted


class PolicySignalCollector:
    """Collector that evaluates the policy; it draws no random numbers of the training."""

    def __init__(self, signals: TrainingSignals) -> None:
        self._signals, self._facts = signals, signals.facts
        self._greedy_actions: Array | None = None

    def query(
        self, policy: Policy, normalize: Callable[[Array], Array], last_steps: LastSteps
    ) -> None:
        """Evaluate the policy on fixed states and on those of the last steps.

        The fixed states are those that the first query with enough steps finds, so that later
        answers for them can be compared.

        Args:
            policy: Greedy policy.
            normalize: Normalizes observations as the training does.
            last_steps: The last steps.
        """
        values = self._signals.values
        if "probe" not in values and len(last_steps.actions) > _MIN_STEPS:
            recent = last_steps.observations[-_QUERY_STATES:]
            values["probe"] = _to_policy_input(normalize(recent))
        fixed = values.get("probe")
        if fixed is None:
            return
        states, taken = self._select_decisions(last_steps)
        states = _to_policy_input(normalize(states)) if len(states) else states
        greedy = np.asarray(policy(np.concatenate([fixed, states]) if len(states) else fixed))
        self._greedy_actions = greedy[: len(fixed)]
        if len(states):
            self._compare_with_taken(greedy[len(fixed) :], taken)

    def query_again(self, policy: Policy) -> None:
        """Evaluate the fixed states again after an update cycle, and add the shift."""
        before = self._greedy_actions
        if before is None:
            return
        greedy = np.asarray(policy(self._signals.values["probe"]))
        if self._facts.choices:
            self._signals.add("shift_round", float((greedy != before).mean()))
        else:
            change = np.abs(greedy - before) / self._facts.half_range
            self._signals.add("shift_round", float(change.mean()))

    def examine(
        self,
        policy: Policy,
        rng: np.random.Generator,
        watchers: Sequence[LibraryWatcher],
        fits_copy: bool,
    ) -> None:
        """Measure the policy's uncertainty with dropout, and its ability to fit new targets.

        Args:
            policy: Greedy policy.
            rng: Draws the units that are dropped.
            watchers: Watchers of the libraries that the policy computes with.
            fits_copy: Whether to fit a copy of one of its layers to a few states.
        """
        states = self._signals.values.get("probe")
        if states is None or not len(states):
            return
        events, first_pass = TrainingEvents(), list[LayerForward]()
        dropout = _InputDropout(rng)
        events.subscribe(LayerForward, dropout.drop_inputs)
        events.subscribe(
            LayerForward,
            lambda forward: first_pass.append(forward) if dropout.passes == 1 else None,
        )
        plain, answers = np.asarray(policy(states.copy())), []
        with watch_libraries(events, watchers):
            for _ in range(DROPOUT_PASSES):
                dropout.begin_pass()
                answers.append(np.asarray(policy(states.copy())))
        if dropout.layers:
            self._add_uncertainty(plain, np.stack(answers))
        if fits_copy:
            losses = next((fit for forward in first_pass if (fit := forward.fit_copy())), None)
            if losses is not None:
                self._signals.values["fitting"] = losses

    def _select_decisions(self, steps: LastSteps) -> tuple[Array, Array]:
        """Return states of the last steps and the actions that were taken in them.

        The action in row t was chosen for the observation in row t - 1, which is known to be of
        the same environment if there is only one, and of the same episode unless it ended there.
        """
        count = len(steps.actions)
        if self._facts.n_envs > 1 or count <= _MIN_STEPS:
            return np.zeros((0, 0)), np.zeros((0, 0))
        begin = max(1, count - _COMPARED_STEPS)
        goes_on = ~steps.ended[begin - 1 : count - 1]
        states = steps.observations[begin - 1 : count - 1]
        return states[goes_on], steps.actions[begin:count][goes_on]

    def _compare_with_taken(self, greedy: Array, taken: Array) -> None:
        choices = self._facts.choices
        if choices:
            differs = float((greedy.reshape(-1) != taken[:, 0]).mean())
            # A random action equals the greedy one with probability 1 / choices.
            share = differs * choices / (choices - 1) if choices > 1 else 0.0
            self._signals.add("random_share", min(share, 1.0))
        elif greedy.shape == taken.shape:
            distance = np.abs(greedy - taken) / self._facts.half_range
            self._signals.add("noise", float(distance.mean()))

    def _add_uncertainty(self, plain: Array, answers: Array) -> None:
        """Add how much answers with dropout spread; Gal and Ghahramani 2016 (arXiv:1506.02142)."""
        choices = self._facts.choices
        if choices > 1:
            differs = float((answers != plain).mean())
            spread = min(differs * choices / (choices - 1), 1.0)
        else:
            deviation = answers.std(axis=0) / self._facts.half_range
            spread = float(deviation.mean(axis=0).max())
        self._signals.add("uncertainty", spread)


class _InputDropout:
    """In-place dropout of 0.5 on the inputs of every linear layer except the first.

    Attributes:
        passes: Forward passes so far.
        layers: Layers whose inputs were dropped, over all passes.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.passes, self.layers = 0, 0
        self._rng, self._inputs = rng, dict[int, Any]()

    def begin_pass(self) -> None:
        """Start another forward pass."""
        self.passes += 1
        self._inputs.clear()

    def drop_inputs(self, forward: LayerForward) -> None:
        """Drop inputs of a layer that is about to compute."""
        dimensions = getattr(getattr(forward.layer, "weight", None), "ndim", 0)
        inputs = to_numpy(forward.inputs[0]) if dimensions == 2 and forward.inputs else None
        if inputs is None or not inputs.flags.writeable or not self.passes:
            return
        # Two heads may share one input, which is dropped once.
        address = inputs.__array_interface__["data"][0]
        is_first, is_known = not self._inputs, address in self._inputs
        self._inputs[address] = forward.inputs[0]  # a reference, so that its memory is not reused
        if not is_first and not is_known:
            # Inverted dropout (p = 0.5): the factor 2 preserves the expected input of the layer.
            inputs *= 2 * (self._rng.random(inputs.shape) < 0.5)
            self.layers += 1


def _to_policy_input(observations: Array) -> Array:
    return np.nan_to_num(np.array(observations, np.float32, order="C"))
