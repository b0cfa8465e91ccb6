"""R2D2's parts against what they should come to when each step is taken by itself."""

import dataclasses
import importlib.util

import numpy as np
import pytest
import support
import torch
from tensordict import TensorDict

from parallax.adapters.torchrl import TorchRLAdapter
from parallax.adapters.torchrl.r2d2 import (
    LAG_THIRDS,
    ActorLag,
    build_components,
    measure_staleness,
    take_gradient_step,
)
from parallax.adapters.torchrl.recurrent import (
    INPUT_KEYS,
    STATE_KEYS,
    EpisodeTail,
    GreedyRecurrentPolicy,
    SequenceLayout,
    SequenceReplayBuffer,
)
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RecurrentPolicy, RunContext, begin_episodes
from parallax.harness.contract.algorithms.r2d2 import R2D2
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.formulas import invert_rescaling, rescale_values
from parallax.harness.replay.sequences import compute_n_step_returns
from parallax.harness.train.prepare import prepare_run

TASK = load_task("MemoryChain-3-v0")
M, L = 4, 3


def settings(n_envs=1, **changes):
    values = {
        **R2D2.conformance_values,
        "sequence_length": M,
        "overlap": 2,
        "burn_in": L,
        **changes,
    }
    hp = dataclasses.replace(load_recipe("r2d2", "cpu"), **values)
    return TorchRLAdapter().translate("r2d2", hp, RunContext(TASK, 200, 0, n_envs)).settings


def components(actors=1, **changes):
    torch.manual_seed(0)
    made = build_components(settings(actors, **changes), TASK, actors)
    for parameter in made.loss.target_value_network_params.values(True, True):
        parameter.data.add_(0.1)
    return made


def shown(number):
    return {
        "observation": np.array([number, 0.5], np.float32),
        "last_action": np.array([number % 2, 1 - number % 2], np.float32),
        "last_reward": np.array([number], np.float32),
    }


def taken(number):
    state = {name: np.full((1, 5), number / 10, np.float32) for name in STATE_KEYS}
    action, reward = np.array([0, 1], np.int64), np.array([number], np.float32)
    version = np.array([10 * number])
    return {**shown(number), **state, "action": action, "reward": reward, "version": version}


def episode(tape, length, terminated=True):
    """Sequences of an episode whose steps are numbered from 1."""
    found = []
    for number in range(1, length + 1):
        done = number == length
        found.append(tape.add(taken(number), shown(number + 1), done, done and terminated))
    return [sequence for sequence in found if sequence is not None]


def test_sequences_overlap_and_end_with_the_episode():
    sequences = episode(EpisodeTail(SequenceLayout(M, 2, L)), 9)
    begins = [(int(s["begin"]), int(s["length"]), int(s["burned"])) for s in sequences]
    # The last holds one step that the one before it has not.
    assert begins == [(0, 4, 0), (2, 4, 2), (4, 4, 3), (6, 3, 3)]
    assert [bool(s["ended"]) for s in sequences] == [False, False, False, True]
    third = sequences[2]
    assert third["observation"][:, 0].tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
    assert third["reward"][:, 0].tolist() == [5, 6, 7, 8]
    last = sequences[3]  # with padding behind
    assert last["observation"][:, 0].tolist() == [4, 5, 6, 7, 8, 9, 10, 0]
    first = sequences[1]  # with padding before
    assert first["observation"][:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    stored = {p: third[f"{p}_recurrent_state_h"][0, 0] for p in ("start", "first", "last")}
    assert stored == pytest.approx({"start": 0.2, "first": 0.5, "last": 0.8})


def test_episode_that_ends_with_a_sequence_adds_no_further_one():
    tape = EpisodeTail(SequenceLayout(M, 2, L))
    assert [int(s["begin"]) for s in episode(tape, 6)] == [0, 2]
    again = episode(tape, 1, terminated=False)
    assert [(int(s["begin"]), int(s["length"]), bool(s["ended"])) for s in again] == [(0, 1, False)]


def minibatch(lengths=(9,)):
    tape = EpisodeTail(SequenceLayout(M, 2, L))
    sequences = [s for length in lengths for s in episode(tape, length)]
    return TensorDict(
        {n: torch.from_numpy(np.stack([s[n] for s in sequences])) for n in sequences[0]},
        [len(sequences)],
    )


def one_by_one(loss, params, sequence, start):
    """Values of a sequence's steps, each taken alone with the state that the one before left."""
    values, state = [], start
    with torch.no_grad(), params.to_module(loss.value_network):
        for at in range(L - int(sequence["burned"]), M + L + 1):
            seen = {name: sequence[name][at][None] for name in INPUT_KEYS} | state
            seen["is_init"] = torch.zeros(1, 1, dtype=torch.bool)
            output = loss.value_network(TensorDict(seen, [1]))
            state = {name: output["next", name] for name in STATE_KEYS}
            values.append(output["action_value"][0])
    return torch.stack(values)[int(sequence["burned"]) :]


@pytest.mark.parametrize("stored_state", [True, False])
def test_unrolling_with_burn_in_equals_single_steps(stored_state):
    loss, batch = components(stored_state=stored_state).loss, minibatch((9, 5))
    for params in (loss.value_network_params, loss.target_value_network_params):
        unrolled = loss.unroll(batch, params).detach()
        for row, sequence in enumerate(batch):
            start = {name: sequence[f"start_{name}"][None] for name in STATE_KEYS}
            start = start if stored_state else {n: torch.zeros_like(v) for n, v in start.items()}
            alone = one_by_one(loss, params, sequence, start)
            assert torch.allclose(unrolled[row], alone, atol=1e-6)
    online, target = (
        loss.unroll(batch, params)
        for params in (loss.value_network_params, loss.target_value_network_params)
    )
    assert not torch.allclose(online, target, atol=1e-3)


@pytest.mark.parametrize("epsilon", [None, 1e-3])
@pytest.mark.parametrize("double_q", [True, False])
def test_errors_and_loss_are_those_of_the_formulas(epsilon, double_q):
    made = components(value_rescaling=epsilon, double_q=double_q)
    batch = minibatch()
    weights = torch.tensor([1.0, 0.5, 2.0, 0.25])
    result = made.loss(batch, weights)
    online = made.loss.unroll(batch, made.loss.value_network_params).detach().numpy()
    target = made.loss.unroll(batch, made.loss.target_value_network_params).detach().numpy()
    best = (online if double_q else target).argmax(-1)[..., None]
    values = np.take_along_axis(target, best, -1)[..., 0]
    values = values if epsilon is None else invert_rescaling(values, epsilon)
    rewards, lengths = batch["reward"][..., 0].numpy(), batch["length"].numpy()
    aims = compute_n_step_returns(rewards, values, lengths, batch["ended"].numpy(), 0.99, 2)
    aims = aims if epsilon is None else rescale_values(aims, epsilon)
    inside = np.arange(M) < lengths[:, None]
    errors = np.where(inside, online[:, :-1, 1] - aims, 0)
    assert result["errors"].numpy() == pytest.approx(errors, abs=1e-5)
    by_hand = (weights.numpy() * (errors**2).sum(1) / 2).mean()
    assert result["loss"].item() == pytest.approx(by_hand, rel=1e-5)


def test_burn_in_steps_have_no_gradient():
    made = components()
    batch = minibatch()
    batch["observation"].requires_grad_(True)
    made.loss(batch, torch.ones(4))["loss"].backward()
    gradient = batch["observation"].grad[2].abs().sum(-1)
    assert (gradient[:L] == 0).all() and (gradient[L : L + M] > 0).all()


def test_targets_and_actors_are_copied_at_their_intervals():
    made = components(target_update_interval=6)  # in transitions, of which an update has one
    before = made.loss.target_value_network_params.clone()
    copies, lag = [], ActorLag()
    frozen = {name: value.clone() for name, value in made.actor.state_dict().items()}
    for number in range(1, 7):
        take_gradient_step(made, made.loss(minibatch(), torch.ones(4))["loss"])
        after = made.loss.target_value_network_params.clone()
        copies += [number] if not (after == before).all() else []
        before = after
        assert lag.refresh(made, steps=2, every=6, updates=number) == (number in (3, 6))
        fresh = any(not torch.equal(frozen[n], v) for n, v in made.actor.state_dict().items())
        assert fresh == (number >= 3)
    assert copies == [6] and lag.version == 6
    assert lag.take() == {}
    lag.add_sequences([6, 4], 9)
    assert lag.take() == {"lag/actor": 4} and lag.take() == {}


def test_staleness_is_zero_at_first_from_stored_states_without_burn_in():
    made = components()
    batch = minibatch()
    values = made.loss.unroll(batch, made.loss.value_network_params).detach()
    found = measure_staleness(made.loss, batch, values, 75)
    assert found["discrepancy/sequences"] == 3 and found["discrepancy/first"] > 0
    # Sequences begin at the steps 1, 3, 5 and 7; their burn-in before, at 1, 1, 2 and 4.
    assert batch["version"].tolist() == [10, 10, 20, 40]
    assert (found["lag/mean"], found["lag/max"]) == (55, 65)
    thirds = {name: found[f"lag/{name}"] for name in LAG_THIRDS}
    assert thirds == {"fresh": 35, "middle": 55, "stale": 65}
    for place in ("first", "last"):
        each = [found[f"discrepancy/{place}/{name}"] for name in LAG_THIRDS]
        assert len(set(each)) == 3 and np.mean(each) == pytest.approx(found[f"discrepancy/{place}"])
    plain = components(burn_in=0)
    tape = EpisodeTail(SequenceLayout(M, 2, 0))
    rows = episode(tape, 9)
    batch = TensorDict({n: torch.from_numpy(np.stack([s[n] for s in rows])) for n in rows[0]}, [4])
    values = plain.loss.unroll(batch, plain.loss.value_network_params).detach()
    found = measure_staleness(plain.loss, batch, values, 75)
    assert (
        found["discrepancy/first"] == pytest.approx(0, abs=1e-6) and found["discrepancy/last"] > 0
    )


def test_recurrent_state_persists_within_episodes_and_is_reset_at_their_start():
    made = components(last_step_inputs=True)
    policy = GreedyRecurrentPolicy(made.network, TASK.choices)
    assert isinstance(policy, RecurrentPolicy)
    numbers = np.random.default_rng(0)
    steps = numbers.normal(size=(4, 3, 2)).astype(np.float32)
    first, second = begin_episodes(policy), begin_episodes(policy)
    states = []
    for observations in steps:
        first(observations)
        first.observe_rewards(np.ones(3))
        states.append(first._carried["recurrent_state_h"].clone())
    second(steps[0])
    assert torch.equal(second._carried["recurrent_state_h"], states[0])
    assert not torch.allclose(states[0], states[1])
    assert np.array_equal(policy(steps[0]), policy(steps[0]))


def test_memory_draws_by_priority_of_sequences():
    memory = SequenceReplayBuffer(settings(buffer_size=100, priority_exponent=1.0), 1)
    rows = 20
    data = {name: torch.zeros(rows, *value.shape) for name, value in taken(1).items()}
    data = {n: v.float() for n, v in data.items() if n != "reward"}
    after = {name: torch.zeros(rows, *value.shape) for name, value in shown(1).items()}
    flags = {name: torch.zeros(rows, 1, dtype=torch.bool) for name in ("done", "terminated")}
    after |= flags | {"reward": torch.arange(rows).float()[:, None]}
    assert memory.extend(TensorDict({**data, "next": TensorDict(after, [rows])}, [rows])) == [0] * 9
    assert len(memory.buffer) == 9  # of 20 steps, at 0, 2, ..., 16
    memory.strategy.update(np.arange(9), np.array([1.0] + [0.0] * 7 + [3.0]))
    drawn = np.concatenate([memory.sample()[0] for _ in range(100)])
    shares = np.bincount(drawn, minlength=9) / len(drawn)
    assert shares[[0, 8]] == pytest.approx([0.25, 0.75], abs=0.05)
    _, _, batch = memory.sample()
    assert set(batch["reward"][:, 0, 0].tolist()) <= {0.0, 16.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_starts": 3}, "learning_starts=3: in torchrl it is at least sequence_length"),
        ({"tau": 0.5}, "tau=0.5: in torchrl it is fixed at 1"),
    ],
)
def test_unsupported_settings_are_refused_by_name(changes, message):
    with pytest.raises(SpecError, match=message):
        settings(**changes)


def test_rewards_that_only_training_scales_are_not_shown():
    options = {"wrappers": "normalized", "alignment": "exact"}
    with pytest.raises(SpecError, match="last_step_inputs=false"):
        prepare_run(support.spec("torchrl", "r2d2", "cpu", **options), TorchRLAdapter())
    unseen = {"last_step_inputs": False}
    prepare_run(support.spec("torchrl", "r2d2", "cpu", unseen, **options), TorchRLAdapter())


def test_other_replay_strategies_and_other_frameworks_are_refused():
    with pytest.raises(SpecError, match="draws sequences by priorities of its own"):
        prepare_run(support.spec("torchrl", "r2d2", "cpu", replay="per"), TorchRLAdapter())
    with pytest.raises(SpecError, match=r"sb3.*r2d2"):
        support.spec("sb3", "r2d2", "cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"overlap": 4}, "overlap=4 must be below"), ({"buffer_size": 1}, "too small for a sequence")],
)
def test_values_that_leave_no_sequence_are_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        dataclasses.replace(
            load_recipe("r2d2", "cpu"), sequence_length=M, **({"overlap": 2} | changes)
        ).resolve_for_task(TASK)


@pytest.mark.parametrize("missing", ["tianshou", "numba"])
def test_r2d2_without_its_sum_tree_is_refused(monkeypatch, missing):
    usual = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *args: None if name == missing else usual(name)
    )
    message = "framework=torchrl algorithm=r2d2: its sum tree needs: pip install 'tianshou"
    with pytest.raises(SpecError, match=message):
        prepare_run(support.spec("torchrl", "r2d2", env="MemoryChain-3-v0"), TorchRLAdapter())
