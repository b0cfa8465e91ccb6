"""Compiled updates, seen by watchers from the beginning and in windows."""

import contextlib
from functools import partial

import numpy as np
import pytest
from loops import iterate_some

pytest.importorskip("flax")
pytest.importorskip("optax")

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

from parallax.adapters.jax_common.eager_execution import make_updates_visible
from parallax.adapters.jax_common.parameters import replace_weights, weights_from_states
from parallax.adapters.jax_common.watch import watch_training
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    LayerForward,
    LossBackward,
    TrainingEvents,
)
from parallax.harness.contract.fields import SpecError

KINDS = (LayerForward, LossBackward, BeforeOptimizerStep, AfterOptimizerStep)
ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)), jnp.float32)


class Learner:
    """As a framework in JAX is written: several gradient steps in one compiled call."""

    @staticmethod
    @partial(jax.jit, static_argnames=["steps"])
    def update(state, rows, steps):
        def one(_, state):
            loss = lambda params: (state.apply_fn(params, rows) ** 2).mean()  # noqa: E731
            _, gradients = jax.value_and_grad(loss)(state.params)
            return state.apply_gradients(grads=gradients)

        return jax.lax.fori_loop(0, steps, one, state)


@pytest.fixture(scope="module")
def state():
    layer = nn.Dense(1)
    return TrainState.create(
        apply_fn=layer.apply, params=layer.init(jax.random.PRNGKey(1), ROWS), tx=optax.adam(0.25)
    )


def learn(state, watched=(), rounds=3):
    """Weights after some rounds of two steps; the rounds of `watched` are looked at."""
    events, received = TrainingEvents(), []
    for kind in KINDS:
        events.subscribe(kind, received.append)
    with make_updates_visible(update_classes=[Learner], query_classes=[]):
        for number in range(rounds):
            with watch_training(events) if number in watched else contextlib.nullcontext():
                state = Learner.update(state, ROWS, 2)
    return weights_from_states({"policy": state}), received


def test_window_shows_each_step_and_changes_no_result(state):
    plain, nothing = learn(state)
    looked, received = learn(state, watched=(1,))
    assert not nothing
    assert [type(event) for event in received] == [*KINDS, *KINDS]
    for name, value in iterate_some(plain.items()):
        assert np.array_equal(value, looked[name])
    forward, backward, step, _ = received[:4]
    (group,) = step.groups
    assert sorted(forward.places) == sorted(p.place for p in group.parameters)
    assert received[4].places == forward.places  # the same parameters after a step
    assert forward.layer.weight.shape == (1, 3) and forward.inputs[0].shape == (4, 3)
    assert backward.loss > 0
    assert step.optimizer == "Adam" and group.settings["lr"] == 0.25
    assert group.settings["beta2"] == pytest.approx(0.999)
    assert any(parameter.gradient().any() for parameter in group.parameters)


def test_watched_update_equals_plain_update_up_to_rounding(state):
    events, received = TrainingEvents(), []
    events.subscribe(BeforeOptimizerStep, received.append)
    with watch_training(events), make_updates_visible(update_classes=[Learner], query_classes=[]):
        watched = Learner.update(state, ROWS, 2)
    assert len(received) == 2
    plain = Learner.update(state, ROWS, 2)
    for one, other in zip(*map(jax.tree.leaves, (watched.params, plain.params)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


class Writer:
    """As DQN's update in sbx: it writes into what it is given."""

    @staticmethod
    @jax.jit
    def update(carry, rows):
        gradients = jax.grad(lambda params: carry["state"].apply_fn(params, rows).sum())
        carry["state"] = carry["state"].apply_gradients(grads=gradients(carry["state"].params))
        return carry, None


def test_in_place_loop_is_shown_and_compiled_once(state):
    rows, events, received = ROWS[None], TrainingEvents(), []
    plain, _ = jax.lax.scan(Writer.update, {"state": state}, rows)
    events.subscribe(BeforeOptimizerStep, received.append)
    with make_updates_visible(update_classes=[Writer], query_classes=[]), watch_training(events):
        looked, _ = jax.lax.scan(Writer.update, {"state": state}, rows)
    assert len(received) == 1
    one, other = (weights_from_states({"policy": carry["state"]}) for carry in (plain, looked))
    assert all(np.array_equal(one[name], other[name]) for name in iterate_some(one))


def test_arrays_are_loaded_by_name(state):
    weights = {name: value + 1 for name, value in weights_from_states({"policy": state}).items()}
    laid = weights_from_states(replace_weights({"policy": state}, weights))
    assert weights.keys() == laid.keys() == {"policy.bias", "policy.kernel"}
    assert all(np.array_equal(laid[name], value) for name, value in weights.items())
    with pytest.raises(SpecError, match="there is no other"):
        replace_weights({"policy": state}, weights | {"other": np.zeros(1)})
    with pytest.raises(SpecError, match=r"policy\.bias has shape \(2,\)"):
        replace_weights({"policy": state}, weights | {"policy.bias": np.zeros(2)})


def test_shapes_of_parameters_are_compared_once_and_wrong_ones_are_refused(monkeypatch):
    layer, wider, rows = nn.Dense(17), nn.Dense(18), jnp.ones((2, 19))
    params = layer.init(jax.random.PRNGKey(0), rows)
    traced, evaluate = [], jax.eval_shape
    monkeypatch.setattr(jax, "eval_shape", lambda f, *x: traced.append(f) or evaluate(f, *x))

    class Model:
        @staticmethod
        @jax.jit
        def update(params):
            return [layer.apply(params, rows) for _ in range(3)]

        @staticmethod
        @jax.jit
        def fail(params):
            return wider.apply(params, rows)

    events = TrainingEvents()
    with watch_training(events), make_updates_visible(update_classes=[Model], query_classes=[]):
        first, *others = Model.update(params)
        count = len(traced)
        Model.update(params)
        assert len(traced) == count > 0
        with pytest.raises(flax.errors.ScopeParamShapeError):
            Model.fail(params)
    assert all(np.array_equal(first, other) for other in others) and len(others) == 2
    count = len(traced)
    layer.apply(params, rows)
    assert len(traced) > count  # the original check is restored
