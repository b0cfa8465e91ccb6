"""JAX support of probes: canonical layout, gradients after clipping, scripted numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

from parallax.adapters.jax_common import recording as randomness
from parallax.adapters.jax_common.eager_execution import is_traced, make_updates_visible
from parallax.adapters.jax_common.parameters import replace_weights
from parallax.adapters.jax_common.recording import (
    SEEDING_FUNCTIONS,
    ArrayLocation,
    FlaxNetworks,
    locate_linear_layers,
)
from parallax.adapters.jax_common.watch import watch_training
from parallax.harness.contract.events import BeforeOptimizerStep, LayerForward, TrainingEvents
from parallax.harness.contract.probing.scripted_env import ScriptedData, ScriptedWorld
from parallax.harness.contract.probing.scripted_rng import RngWatch

ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)), jnp.float32)
STEPS, ACTIONS = 3, 2


@pytest.fixture
def state():
    layer = nn.Dense(2)
    return TrainState.create(
        apply_fn=layer.apply,
        params=layer.init(jax.random.PRNGKey(1), ROWS),
        tx=optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.25)),
    )


def test_kernels_are_transposed_and_written_to_their_location(state):
    states = {"policy": state}
    arrays = FlaxNetworks(
        locate_linear_layers("policy", {"0": "policy"}),
        lambda: states,
        lambda new: write(states, new),
    )
    before = arrays.read()
    assert before["policy.0.weight"].shape == (2, 3)
    np.testing.assert_array_equal(before["policy.0.weight"], state.params["params"]["kernel"].T)
    assert arrays.read()["policy.0.bias"] is before["policy.0.bias"]  # nothing has changed
    changed = {"policy.0.weight": np.arange(6.0).reshape(2, 3)}
    arrays.write(changed)
    after = arrays.read()
    np.testing.assert_array_equal(after["policy.0.weight"], changed["policy.0.weight"])
    np.testing.assert_array_equal(after["policy.0.bias"], before["policy.0.bias"])
    row = np.array([[1.0, 10.0, 100.0]], np.float32)
    answer = states["policy"].apply_fn(states["policy"].params, row)
    np.testing.assert_allclose(answer, [[210.0, 543.0]])


def write(states, new):
    states |= replace_weights(states, new)


def test_array_locations_select_one_network_or_one_number():
    whole = np.arange(12.0).reshape(2, 2, 3)
    slot = ArrayLocation("critic.kernel", 1, transposed=True)
    np.testing.assert_array_equal(slot.read(whole), [[6, 9], [7, 10], [8, 11]])
    slot.write(np.zeros((3, 2)), whole)
    assert whole[0].any() and not whole[1].any()
    number = np.array(0.5)
    single = ArrayLocation("temperature")
    assert single.read(number).shape == (1,)
    single.write(np.array([2.0]), number)
    assert number == 2.0


class Learner:
    @staticmethod
    @jax.jit
    def update(state, rows):
        state.apply_fn(state.params, -rows)  # as targets are computed
        loss = lambda params: 1e3 * (state.apply_fn(params, rows) ** 2).mean()  # noqa: E731
        _, gradients = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradients)


def test_optimizer_event_has_gradients_after_clipping(state):
    events, steps, forwards = TrainingEvents(), [], []
    events.subscribe(BeforeOptimizerStep, steps.append)
    events.subscribe(LayerForward, forwards.append)
    with watch_training(events), make_updates_visible(update_classes=[Learner], query_classes=[]):
        Learner.update(state, ROWS)
    ((group,),) = (step.groups for step in steps)
    squares = sum(np.sum(p.gradient() ** 2) for p in group.parameters)
    assert np.sqrt(squares) == pytest.approx(0.5, rel=1e-5)
    assert [one.layer.differentiated for one in forwards] == [False, True]
    assert forwards[0].is_preactivation() is None  # unknown outside of the differentiated function


class Asked:
    @staticmethod
    @jax.jit
    def sample(rows, key):
        return rows + jax.random.normal(key, rows.shape)


@pytest.fixture
def world():
    generator = np.random.default_rng(3)
    sizes = {"observations": (STEPS + 1, 3), "resets": (STEPS + 1, 3), "rewards": (STEPS,)}
    sizes |= {"random_actions": (STEPS, ACTIONS), "acting_noise": (STEPS, ACTIONS)}
    arrays = {name: generator.uniform(size=size) for name, size in sizes.items()}
    ends, noise = np.zeros(STEPS, int), generator.normal(size=(4, ACTIONS))
    return ScriptedWorld(
        ScriptedData(**arrays, ends=ends, batch_noise=noise, low=(-1, -1), high=(1, 1))
    )


def test_random_numbers_are_scripted_once_training_has_begun(world):
    key, script = jax.random.PRNGKey(0), world.scripted_data
    own = jax.random.normal(key, (ACTIONS,))
    with randomness.script_jax_rng(world):
        np.testing.assert_array_equal(jax.random.normal(key, (ACTIONS,)), own)
        world.started = True
        np.testing.assert_allclose(
            jax.random.normal(key, (1, ACTIONS)), script.acting_noise[:1], rtol=1e-6
        )
        batch = jax.random.normal(key, (4, ACTIONS))
        np.testing.assert_allclose(batch, script.batch_noise, rtol=1e-6)
        shares = jax.random.uniform(key, (ACTIONS,), minval=-1.0)
        np.testing.assert_allclose(shares, 2 * script.random_actions[0] - 1, rtol=1e-6)
        assert jax.random.randint(key, (5,), 2, 4).tolist() == [2, 3, 2, 3, 2]
        assert jax.random.permutation(key, 4).tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(jax.random.normal(key, (ACTIONS,)), own)


def test_compiled_functions_draw_new_numbers_in_each_call(world):
    world.started = True
    rows, key, noise = (
        jnp.zeros((1, ACTIONS)),
        jax.random.PRNGKey(0),
        world.scripted_data.acting_noise,
    )
    with randomness.script_jax_rng(world):
        np.testing.assert_allclose(Asked.sample(rows, key), noise[:1], rtol=1e-6)
        world.events.steps = 1
        np.testing.assert_allclose(Asked.sample(rows, key), noise[1:2], rtol=1e-6)
        # Rows behind dimensions, as distributions of several dimensions are drawn.
        turned = Asked.sample(jnp.zeros((ACTIONS, 4)), key)
    np.testing.assert_allclose(turned.T, world.scripted_data.batch_noise, rtol=1e-6)


def test_key_made_for_shape_evaluation_is_not_recorded():
    world = SimpleNamespace(started=True, steps=1)
    watch = RngWatch(world, lambda: 0, lambda: "policy.py:1", {}, is_traced)
    with watch.watch_functions(SEEDING_FUNCTIONS):
        jax.eval_shape(lambda: jax.random.normal(jax.random.key(0), (2,)))
        assert not watch.events
        jax.random.key(3)
    assert [event.description for event in watch.events] == ["jax.random.key"]
