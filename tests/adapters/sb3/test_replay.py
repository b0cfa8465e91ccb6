"""Replay other than uniform in SB3: its own updates, with transitions chosen and weighed."""

import sys

import forked
import numpy as np
import pytest
import support
import torch
from loops import iterate_some
from stable_baselines3 import DQN

from parallax.adapters.sb3 import train
from parallax.adapters.sb3.train import PrioritizedReplayBuffer, make_error_function
from parallax.adapters.sb3_common.model import predict_actions
from parallax.adapters.torch_common.state import make_checkpointable
from parallax.adapters.torch_common.sum_tree import CompiledSumTree
from parallax.envs.make import make_training_env
from parallax.harness.conformance.run_folders import check_killed_run, prepare_scripted_run
from parallax.harness.contract.replay import make_replay_config
from parallax.harness.contract.state_codec import StateMismatchError
from parallax.harness.interventions.catalogue import make_replacement
from tests.harness.replay.plain_tree import PlainTree

OFTEN = {"sweep_every": 48, "predict_every": 24}


def model_of(algorithm, replay, n_envs=1):
    """SB3's model before its first step, and what its updates are changed by."""
    run = prepare_scripted_run(
        "sb3", algorithm, steps=96, eval_every=96, replay=replay, n_envs=n_envs
    )
    env = lambda: make_training_env(  # noqa: E731
        run.spec.env, wrappers="none", gamma=0.99, before_step=lambda: None
    )
    return train.build_model(algorithm, run.native, run.context, env), make_replacement(
        run.interventions
    )


def learn(model, changed, steps=96):
    with changed.apply_replacement():
        model.learn(steps)
    return model


def test_compiled_tree_is_a_sum_tree():
    tree, plain = CompiledSumTree(11), PlainTree(11)
    values = np.random.default_rng(1).random(11)
    for one in (tree, plain):
        one.set(np.arange(11), values)
        one.set(np.array([3, 3, 5]), np.array([9.0, 0.25, 0.0]))
    assert tree.total() == pytest.approx(plain.total())
    points = np.linspace(1e-9, plain.total() * (1 - 1e-12), 301)
    before = points.copy()
    np.testing.assert_array_equal(tree.find(points), plain.find(points))
    np.testing.assert_array_equal(points, before)
    np.testing.assert_array_equal(tree.get(np.arange(11)), plain.get(np.arange(11)))


@pytest.mark.parametrize("change", [{"_bound": 2**40}, {"_size": 2**40}, {"_value": np.ones(4)}])
def test_sizes_of_a_compiled_tree_are_never_restored(change):
    """Its functions check no index: with another size they write anywhere in memory."""
    tree, other = CompiledSumTree(11), CompiledSumTree(11)
    tree.set(np.arange(11), np.arange(11.0))
    state = make_checkpointable({"tree": tree}).state()
    make_checkpointable({"tree": other}).load_state(state)
    assert other.total() == 55 and other.get(np.arange(11)).tolist() == list(range(11))
    inner = {"kind": "object", "class": "parallax_tianshou_segtree:SegmentTree"}
    foreign = {"kind": "object", "class": "parallax.adapters.torch_common.sum_tree:CompiledSumTree"}
    foreign["attributes"] = {"_tree": inner | {"attributes": change}}
    for states in (foreign, state["tree"] | {"state": np.ones(4)}):
        with pytest.raises(StateMismatchError):
            make_checkpointable({"tree": CompiledSumTree(11)}).load_state({"tree": states})


def test_nothing_is_compiled_after_the_tree_is_there():
    tree = CompiledSumTree(8)
    module = sys.modules["parallax_tianshou_segtree"]
    loops = [one for one in vars(module).values() if hasattr(one, "signatures")]
    before = [list(one.signatures) for one in loops]
    assert len(loops) == 3 and all(before)
    fixed = np.arange(8)
    fixed.flags.writeable = False
    tree.set(fixed[::2], np.linspace(0, 1, 8)[::2])
    tree.set(np.array([1]), np.array([2], np.float32))
    tree.find(np.linspace(0.1, 0.9, 16)[::2])
    tree.total()
    assert [list(one.signatures) for one in loops] == before


@pytest.mark.parametrize("algorithm", ["dqn", "ddpg", "td3", "sac"])
def test_sweeps_and_updates_compute_the_same_errors(algorithm, monkeypatch):
    # Without noise, and with temperatures that hardly move: SB3 takes that of before the update.
    monkeypatch.setattr(torch.distributions.Normal, "rsample", lambda self, shape=(): self.mean)
    model, changed = model_of(algorithm, {"name": "per", "alpha": 0.0, "epsilon": 0.0})
    model.target_policy_noise = 0.0
    buffer, weighted = model.replay_buffer, model.replay_buffer.compute_weighted_losses
    errors, seen = make_error_function(algorithm, model), []
    close = 5e-2 if algorithm == "sac" else 1e-5

    def spy(loss, currents, target):
        currents = list(currents)
        with torch.no_grad():
            computed = errors(buffer.read_batch(buffer.replayer.drawn))
        gaps = torch.stack([(one - target).flatten() for one in currents]).detach()
        torch.testing.assert_close(computed, gaps, rtol=close, atol=close)
        made = weighted(loss, currents, target)
        # With alpha=0 all weights are 1, and the loss is upstream's.
        plain = sum(loss(one, target) for one in currents)
        torch.testing.assert_close(sum(made), plain)
        seen.append(float(gaps.abs().max()))
        return made

    monkeypatch.setattr(buffer, "compute_weighted_losses", spy)
    learn(model, changed)
    assert len(seen) > 5 and max(seen) > 0.1


@pytest.mark.parametrize("name", ["per", "rank", "atdc", "imp"])
def test_replayed_transitions_are_drawn_by_their_errors(name):
    often = {"rank": {"sort_every": 2}, "atdc": {"sweep_every": 48}, "imp": OFTEN}
    fields = often.get(name, {})
    model, changed = model_of("dqn", {"name": name, **fields})
    learn(model, changed)
    strategy = model.replay_buffer.replayer.strategy
    assert strategy.added == strategy.size == 96
    assert len(np.unique(strategy.errors[:96])) > 20  # those of replayed transitions
    if name == "imp":
        assert len(strategy.pairs) == 20 and strategy.sum > 0  # two sweeps of ten fragments
    if name == "atdc":
        assert strategy.model is not None


def test_parallel_environments_have_separate_transitions():
    model, changed = model_of("dqn", "per", n_envs=2)
    learn(model, changed)
    buffer = model.replay_buffer
    batch = buffer.read_batch(np.array([0, 1, 2, 7]))
    expected = buffer.observations[[0, 0, 1, 3], [0, 1, 0, 1]]
    np.testing.assert_array_equal(batch.observations.numpy(), expected)
    assert buffer.replayer.strategy.size == buffer.size() * 2


def test_transitions_are_those_that_uniform_replay_would_give():
    model, changed = model_of("td3", "per")
    learn(model, changed)
    buffer, places = model.replay_buffer, np.array([0, 5, 90])
    theirs = super(PrioritizedReplayBuffer, buffer)._get_samples(places)
    for ours, other in iterate_some(zip(buffer.read_batch(places), theirs, strict=True)):
        assert ours is other is None or torch.equal(ours, other)


def test_saved_policy_loads_in_sb3_alone_and_acts_identically(tmp_path):
    model, changed = model_of("dqn", "per")
    learn(model, changed)
    train.save_sb3_model(model, tmp_path / "policy.zip")
    code = (
        "import sys; from stable_baselines3 import DQN; "
        "model = DQN.load(sys.argv[1]); "
        "assert not [m for m in sys.modules if m.split('.')[0] in ('harness', 'adapters')]; "
        "import numpy as np; print(*model.predict(np.load(sys.argv[2]), deterministic=True)[0])"
    )
    seen = np.random.default_rng(0).normal(size=(64, *model.observation_space.shape))
    np.save(tmp_path / "seen.npy", seen.astype(np.float32))
    files = (tmp_path / "policy.zip", tmp_path / "seen.npy")
    said = forked.run_without_us("-c", code, *files, cwd=tmp_path)
    assert not said.returncode, said.stderr
    actions = predict_actions(model, seen.astype(np.float32))
    assert said.stdout.split() == [str(action) for action in actions]
    again = DQN.load(tmp_path / "policy.zip", env=model.get_env())  # and can be trained on
    again.learn(96)
    assert type(again.replay_buffer).__module__ == "stable_baselines3.common.buffers"


@pytest.mark.parametrize("algorithm", ["dqn", pytest.param("sac", marks=pytest.mark.long)])
def test_killed_run_resumes_bit_identically(algorithm, tmp_path):
    replay = make_replay_config({"name": "imp", **OFTEN})
    check_killed_run("sb3", algorithm, tmp_path / "run", replay=replay)


def test_uniform_replay_changes_neither_name_nor_settings_nor_weights(tmp_path):
    settings = {"algorithm": "dqn", "steps": 200, "eval_every": 200, "alignment": "exact"}
    changes = {"hyperparameters": {"learning_starts": 100}}
    specs = [
        support.spec("sb3", **settings, **changes, **more) for more in ({}, {"replay": "uniform"})
    ]
    assert specs[0] == specs[1] and specs[0].variant == specs[1].variant
    _, plain = support.run(specs[1], tmp_path)
    assert "replay_buffer_class" not in plain["native"] and "interventions" not in plain
    weighted = support.spec("sb3", **settings, **changes, replay="per")
    _, other = support.run(weighted, tmp_path)
    assert other["native"].keys() - plain["native"].keys() == {"replay_buffer_class"}
    assert list(other["interventions"]) == ["replay-weights-dqn"]
    assert other["weights_sha256"] != plain["weights_sha256"]
