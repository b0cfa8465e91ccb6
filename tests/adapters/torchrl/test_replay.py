"""Replay other than uniform in TorchRL: its own losses, with transitions chosen and weighed."""

import importlib

import numpy as np
import pytest
import torch
from torchrl.data import TensorDictReplayBuffer
from torchrl.objectives import DQNLoss

from parallax.adapters.torchrl import replay as ours
from parallax.envs.make import make_training_env
from parallax.harness.conformance.run_folders import check_killed_run, prepare_scripted_run
from parallax.harness.contract.replay import make_replay_config

ALGORITHMS = ["dqn", "ddpg", "td3", "sac"]
OFTEN = {"sweep_every": 48, "predict_every": 24}


def critics(algorithm):
    return {"critics": "max"} if algorithm == "sac" else {}


class Listener:
    """A monitor that stores the metrics and the parts of time that it receives."""

    def __init__(self, run):
        self.run, self.metrics, self.parts = run, [], {}

    def attach(self, *parts):
        pass

    def safe_point(self):
        pass

    def record(self, metrics):
        self.metrics.append(metrics)

    def add_costs(self, parts):
        self.parts |= parts

    def make_env(self):
        env = self.run.spec.env
        return make_training_env(env, wrappers="none", gamma=0.99, before_step=lambda: None)


@pytest.fixture
def learn(monkeypatch):
    buffers = []
    make = ours.make_replay_buffer

    def keep(settings, loss):
        buffers.append(make(settings, loss))
        return buffers[-1]

    monkeypatch.setattr("parallax.adapters.torchrl.loop.make_replay_buffer", keep)

    def train(algorithm, replay, steps=96):
        run = prepare_scripted_run(
            "torchrl", algorithm, steps=steps, eval_every=steps, replay=replay
        )
        monitor = Listener(run)
        module = importlib.import_module(f"parallax.adapters.torchrl.{algorithm}")
        module.train(run.native, run.context, monitor.make_env, monitor)
        return buffers[-1], monitor

    return train


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sweeps_and_updates_compute_the_same_errors_and_loss(algorithm, monkeypatch, learn):
    monkeypatch.setattr(torch, "randn_like", lambda like, **_: torch.zeros_like(like))
    middle = lambda self, shape=(): self.mean.expand(shape + self.mean.shape)  # noqa: E731
    monkeypatch.setattr(torch.distributions.Normal, "rsample", middle)
    weighed, seen = ours.WeightedLoss.apply_weights, []

    def spy(loss, losses, errors):
        made = weighed(loss, losses, errors)
        # With alpha=0 all weights are 1, and the loss is upstream's mean.
        torch.testing.assert_close(made, losses.mean())
        drawn = torch.from_numpy(loss.replayer.drawn)
        seen.append((drawn, errors.detach(), loss))
        return made

    sampled = []
    sample = ours.PrioritizedTensorDictBuffer.sample

    def spy_sample(buffer, *arguments, **named):
        found = sample(buffer, *arguments, **named)
        drawn = torch.from_numpy(buffer.replayer.drawn)
        with torch.no_grad():
            rows = buffer._storage[drawn]
            sampled.append(buffer._sampler._loss.errors(rows))
        return found

    monkeypatch.setattr(ours.WeightedLoss, "apply_weights", spy)
    monkeypatch.setattr(ours.PrioritizedTensorDictBuffer, "sample", spy_sample)
    learn(algorithm, {"name": "per", "alpha": 0.0, "epsilon": 0.0, **critics(algorithm)})
    assert len(seen) == len(sampled) > 5
    for (_, errors, _), sampled_errors in zip(seen, sampled, strict=True):
        torch.testing.assert_close(errors, sampled_errors, rtol=1e-5, atol=1e-5)
    assert max(float(errors.max()) for _, errors, _ in seen) > 0.1


# Which errors there are depends on the algorithm, and what is made of them on the strategy.
PAIRS = [
    pytest.param(name, algorithm, marks=pytest.mark.long if name != "per" and more else ())
    for name in ("per", "rank", "atdc", "imp")
    for more, algorithm in enumerate(ALGORITHMS)
]


@pytest.mark.parametrize(("name", "algorithm"), PAIRS)
def test_replayed_transitions_are_drawn_by_their_errors(name, algorithm, learn):
    often = {"rank": {"sort_every": 2}, "atdc": {"sweep_every": 48}, "imp": OFTEN}
    buffer, monitor = learn(algorithm, {"name": name, **often.get(name, {}), **critics(algorithm)})
    strategy = buffer.replayer.strategy
    assert strategy.added == strategy.size == len(buffer) == 96
    assert len(np.unique(strategy.errors[:96])) > 20  # those of replayed transitions
    assert any("replay/mape" in metrics for metrics in monitor.metrics) == (name != "rank")
    assert monitor.parts["replay"]["minibatches"] > 5 and monitor.parts["replay"]["learning"] > 0


def test_uniform_replay_changes_neither_buffer_nor_loss(learn):
    buffer, monitor = learn("dqn", "uniform")
    assert type(buffer) is TensorDictReplayBuffer and monitor.parts == {}
    assert ours.get_loss_class(DQNLoss, {}) is DQNLoss


@pytest.mark.parametrize("algorithm", ["dqn", pytest.param("sac", marks=pytest.mark.long)])
def test_killed_run_resumes_bit_identically(algorithm, tmp_path):
    replay = make_replay_config({"name": "imp", **OFTEN, **critics(algorithm)})
    check_killed_run("torchrl", algorithm, tmp_path / "run", replay=replay)
