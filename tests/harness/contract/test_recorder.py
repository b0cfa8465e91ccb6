"""The recorder of a probed training: what it stores of each event, and what it lets training do."""

import functools
import types

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    LayerForward,
    LossBackward,
    ParameterGroup,
    TrainedParameter,
)
from parallax.harness.contract.probing import recorder as recorder_module
from parallax.harness.contract.probing.protocol import LossRecord, ProbeMonitor, ProbeScript
from parallax.harness.contract.probing.recorder import (
    TrainingRecorder,
    capture_calls,
    find_upstream_line,
    record_every_update,
)
from parallax.harness.contract.probing.scripted_env import ScriptedData, ScriptedWorld

NAMES = ("policy.0.weight", "policy.out.bias", "critic1.0.weight", "critic1_target.0.weight")
OBSERVATIONS, ACTIONS, STEPS = 3, 2, 6


class Networks:
    """Arrays of one number each, which a parameter of the same place holds."""

    def __init__(self):
        self.arrays = {name: np.full(1, float(i)) for i, name in enumerate(NAMES)}

    names = NAMES

    def read(self, names=None):
        return {name: self.arrays[name] for name in (NAMES if names is None else names)}

    def write(self, weights):
        self.arrays |= weights

    def place(self, name):
        return 10 + NAMES.index(name)

    def part(self, name, whole):
        return whole + 100

    def order_columns(self, inputs):
        return inputs[:, ::-1]


class Recorder(TrainingRecorder):
    """Recorder of a library whose layers are their numbers of inputs."""

    scripted = 0

    def _start_scripted_rng(self):
        self.scripted += 1

    def _get_input_size(self, event):
        return event.layer

    def _read_layer_input(self, event):
        return event.inputs[0]

    def _get_draw_lines(self):
        return {"action drawn": "noise.py:3", "action": "noise.py:4"}


def make_world(**changes):
    values = {
        "observations": np.zeros((STEPS + 1, OBSERVATIONS)),
        "resets": np.zeros((STEPS + 1, OBSERVATIONS)),
        "rewards": np.zeros(STEPS),
        "ends": np.zeros(STEPS, np.int64),
        "random_actions": np.zeros((STEPS, ACTIONS)),
        "acting_noise": np.zeros((STEPS, ACTIONS)),
        "batch_noise": np.zeros((STEPS, ACTIONS)),
        "low": (-1.0,) * ACTIONS,
        "high": (1.0,) * ACTIONS,
    }
    return ScriptedWorld(ScriptedData(**(values | changes)))


class Training:
    """A training that is recorded, event by event."""

    def __init__(self, monkeypatch, data=None, options=(), around=None, **script):
        self.line = "loop.py:1"
        monkeypatch.setattr(recorder_module, "find_upstream_line", lambda: self.line)
        self.world, self.networks, self.located = make_world(**(data or {})), Networks(), []
        self.monitor, self.buffers = ProbeMonitor(), []
        given = ProbeScript(self.world, {"policy.0.weight": np.full(1, 7.0)}, **script)
        self.recorder = Recorder(
            given,
            self.monitor,
            lambda: self.located.pop() if self.located else None,
            self.store,
            **dict(options),
        )
        self.recorder._subscribe_to_events(around)

    @functools.cached_property
    def env(self):
        return self.world.make_env()

    def store(self):
        self.buffers.append(self.world.steps)
        return {"rewards": np.full(1, self.world.steps)}

    def begin(self):
        self.located = [self.networks]
        self.env.reset()

    def forward(self, *shape):
        values = np.arange(float(np.prod(shape))).reshape(shape)
        self.world.events.publish(LayerForward(shape[-1], (values,), ()))
        return values

    def update(self, *names, without=()):
        """Take a step of an optimizer that adds 0.5 to some arrays."""
        settings = {"lr": 0.25}
        parameters = [
            TrainedParameter(
                self.networks.place(name), 1, None if name in without else lambda: np.ones(1)
            )
            for name in names
        ]
        self.world.events.publish(
            BeforeOptimizerStep("Adam", (ParameterGroup("own", settings, tuple(parameters)),))
        )
        self.networks.arrays |= {name: self.networks.arrays[name] + 0.5 for name in names}
        self.world.events.publish(AfterOptimizerStep())


def get_numbers(arrays):
    return {name: float(array[0]) for name, array in arrays.items()}


FIRST = {
    "policy.0.weight": 7.0,
    "policy.out.bias": 1.0,
    "critic1.0.weight": 2.0,
    "critic1_target.0.weight": 3.0,
}


def test_networks_get_the_scripted_weights_at_the_first_reset_that_finds_them(monkeypatch):
    training = Training(monkeypatch)
    training.env.reset()
    assert not training.world.started and not training.recorder.scripted
    training.begin()
    assert training.world.started and training.recorder.scripted == 1
    assert get_numbers(training.networks.arrays) == FIRST
    training.networks.arrays["policy.0.weight"] = np.full(1, 8.0)
    training.begin()  # the networks stay those of the first time
    assert training.recorder.scripted == 1 and len(training.located) == 1
    record = training.recorder.record()
    assert get_numbers(record.created) == FIRST | {"policy.0.weight": 0.0}
    assert get_numbers(record.final) == FIRST | {"policy.0.weight": 8.0}


def test_own_random_numbers_are_not_replaced(monkeypatch):
    training = Training(monkeypatch, {"own_rng": True})
    training.begin()
    assert training.world.started and not training.recorder.scripted


def test_a_training_without_networks_has_an_empty_record(monkeypatch):
    record = Training(monkeypatch).recorder.record()
    assert (record.created, record.steps, record.losses, record.target_moves) == ({}, (), (), ())
    assert (record.final, record.metrics, record.saved_weights) == ({}, (), {})
    assert (record.upstream_settings, record.reloaded_settings) == ({}, {})
    assert record.generator_events == () and record.rollouts == ()
    assert record.source_lines == {"action drawn": "noise.py:3", "action": "noise.py:4"}


def test_every_optimizer_step_is_recorded_and_the_first_ones_with_arrays(monkeypatch):
    training = Training(monkeypatch, snapshots=1)
    training.begin()
    training.env.step(np.zeros(ACTIONS))
    seen = training.forward(2, OBSERVATIONS)
    inputs = training.forward(2, 2, OBSERVATIONS + ACTIONS)
    training.forward(4, 4)  # neither a policy's nor a critic's first layer
    training.update("policy.0.weight", "policy.out.bias", without=["policy.out.bias"])
    training.forward(2, OBSERVATIONS + ACTIONS)
    training.env.step(np.zeros(ACTIONS))
    training.update("critic1.0.weight")
    training.monitor.record({"loss": 1.0})
    record = training.recorder.record({"lr": 0.25}, {"eps": (1.0, 2.0)})
    first, second = record.steps
    assert (first.env_steps, first.networks, first.optimizer) == (1, ("policy",), "Adam")
    assert first.settings == {"policy": {"lr": 0.25}}
    assert_array_equal(first.observations, seen)
    assert get_numbers(first.gradients) == {"policy.0.weight": 101.0}
    assert get_numbers(first.before) == FIRST
    assert get_numbers(first.after) == FIRST | {"policy.0.weight": 7.5, "policy.out.bias": 1.5}
    assert_array_equal(first.critic_inputs, inputs[:, :, ::-1])
    assert (second.env_steps, second.networks) == (2, ("critic1",))
    assert_array_equal(second.observations, seen)
    assert (second.gradients, second.before, second.after) == ({}, {}, {})
    assert second.critic_inputs == ()
    assert record.metrics == ({"loss": 1.0},)
    assert record.upstream_settings == {"lr": 0.25}
    assert record.reloaded_settings == {"eps": (1.0, 2.0)}
    assert record.stored["rewards"] == 2 and training.buffers == [2] and record.rollouts == ()


def test_discrete_policy_inputs_are_those_of_critics(monkeypatch):
    training = Training(monkeypatch, {"n_discrete_actions": 4}, snapshots=1)
    training.begin()
    seen = training.forward(2, 2, OBSERVATIONS)
    training.update("critic1.0.weight")
    training.forward(1, OBSERVATIONS)
    training.update("critic1.0.weight")
    first, second = training.recorder.record().steps
    assert_array_equal(first.observations, seen.reshape(4, OBSERVATIONS))
    assert_array_equal(first.critic_inputs, [seen.reshape(4, OBSERVATIONS)])
    assert second.critic_inputs == () and second.observations.shape == (1, OBSERVATIONS)


def test_losses_and_lines_are_recorded_with_the_steps_before_them(monkeypatch):
    training = Training(monkeypatch)
    training.begin()
    training.env.step(np.zeros(ACTIONS))
    training.line = "agent.py:20"
    training.world.events.publish(LossBackward(0.5))
    training.line = "agent.py:21"
    training.update("policy.0.weight")
    training.line = ""  # of no call: the last line stays
    training.world.events.publish(LossBackward(0.25))
    training.env.step(np.zeros(ACTIONS))
    training.update("critic1.0.weight")
    record = training.recorder.record()
    assert record.losses == (LossRecord(0.5, 0), LossRecord(0.25, 1))
    assert record.source_lines == {
        "action drawn": "noise.py:3",
        "action": "loop.py:1",
        "loss of policy": "agent.py:20",
        "step of policy": "agent.py:21",
    }


def test_without_tracing_there_are_no_lines(monkeypatch):
    training = Training(monkeypatch, traces_lines=False)
    training.begin()
    training.env.step(np.zeros(ACTIONS))
    training.world.events.publish(LossBackward(0.5))
    training.update("policy.0.weight")
    record = training.recorder.record()
    assert record.source_lines == {} and record.losses == (LossRecord(0.5, 0),)
    assert record.steps[0].observations.shape == (0, 0)  # the policy has seen none


def test_target_updates_are_recorded_once_with_their_time(monkeypatch):
    training = Training(monkeypatch)
    training.begin()
    training.env.step(np.zeros(ACTIONS))
    training.update("critic1.0.weight")
    training.networks.arrays["critic1_target.0.weight"] = np.full(1, 9.0)
    training.update("critic1.0.weight")
    training.networks.arrays["critic1_target.0.weight"] = np.full(1, 8.0)
    training.env.step(np.zeros(ACTIONS))
    training.networks.arrays["critic1_target.0.weight"] = np.full(1, 7.0)
    moves = training.recorder.record().target_moves
    assert moves == ((1, 1, "critic1_target"), (1, 2, "critic1_target"), (2, 2, "critic1_target"))


def test_weights_are_saved_after_whole_update_cycles_and_rollouts_before_them(monkeypatch):
    training = Training(
        monkeypatch, options={"read_before_update": True}, saved_cycles=frozenset({0, 1, 3, 4})
    )
    training.begin()
    for _ in range(3):
        training.env.step(np.zeros(ACTIONS))
        training.update("policy.0.weight")
        training.update("policy.0.weight")
    record = training.recorder.record()
    saved = {cycle: float(w["policy.0.weight"][0]) for cycle, w in record.saved_weights.items()}
    assert saved == {0: 7.0, 1: 8.0, 3: 10.0}
    assert [float(rollout["rewards"][0]) for rollout in record.rollouts] == [1.0, 2.0, 3.0]
    assert record.stored is record.rollouts[0] and training.buffers == [1, 2, 3]


def test_functions_around_optimizer_steps_are_called_before_and_after(monkeypatch):
    calls = []
    around = (
        lambda event: calls.append((event.optimizer, len(training.recorder._steps))),
        lambda event: calls.append(training.recorder._steps[-1].after),
    )
    training = Training(monkeypatch, snapshots=1, around=around)
    training.begin()
    training.update("policy.0.weight")
    assert calls == [("Adam", 1), {}]
    assert training.recorder.record().steps[0].after


def test_updates_are_not_recorded_where_only_actions_are_read(monkeypatch):
    both = [Training(monkeypatch, {"own_rng": True}, reads_actions_only=b) for b in (False, True)]
    for training in both:
        training.begin()
        training.env.step(np.zeros(ACTIONS))
        training.update("policy.0.weight")
    records = [training.recorder.record() for training in both]
    assert [len(record.steps) for record in records] == [1, 0]
    assert get_numbers(records[0].final) == get_numbers(records[1].final)
    assert [len(training.world.transitions) for training in both] == [1, 1]
    scripts = [ProbeScript(make_world(own_rng=True), {}, reads_actions_only=b) for b in (0, 1)]
    assert [script.reloads_model for script in scripts] == [True, False]
    assert not ProbeScript(make_world(), {}).reloads_model


def test_generators_are_watched_if_random_numbers_are_not_scripted(monkeypatch):
    training, state = Training(monkeypatch, {"own_rng": True}), [0]
    functions = [(np.linalg, "norm", "a norm")]
    with training.recorder._watch_rng(functions, {"lib": lambda: state[0]}):
        training.begin()
        for state[0] in (0, 1, 2, 1):
            training.env.step(np.zeros(ACTIONS))
        state[0] = 2
        training.update("policy.0.weight")
        assert np.linalg.norm([3.0, 4.0]) == 5
    events = training.recorder.record().generator_events
    back = "lib is back in an earlier state"
    assert [(event.env_steps, event.updates, event.description) for event in events] == [
        (3, 0, back),
        (4, 1, back),
        (4, 1, "a norm"),
    ]


def test_calls_are_captured_within_the_context_by_result_or_argument():
    owner = types.SimpleNamespace(add=lambda a, b=0: a + b)
    original = owner.add
    with capture_calls(owner, "add") as results, capture_calls(owner, "add", 1) as seconds:
        assert owner.add(1, 2) == 3 and owner.add(5, 6) == 11
    assert (results, seconds) == ([3, 11], [2, 6]) and owner.add is original


def test_every_update_is_recorded_within_the_context():
    module = types.SimpleNamespace(RECORD_EVERY=50)
    with pytest.raises(ValueError), record_every_update(module):
        assert module.RECORD_EVERY == 1
        raise ValueError
    assert module.RECORD_EVERY == 50


def test_the_innermost_line_of_a_framework_is_found(monkeypatch):
    """A script of one's own is compiled under its name, as `own.py` here."""
    found = {"look": find_upstream_line}
    exec(compile("def inner():\n    return look()\n", "own.py", "exec"), found)
    exec(compile("def outer():\n\n\n    return inner()\n", "other.py", "exec"), found)
    assert found["outer"]() == "own.py:2"
    monkeypatch.setattr(recorder_module, "_get_framework_path", lambda file: "")
    assert found["outer"]() == ""
