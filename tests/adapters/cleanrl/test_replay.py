"""Replay other than uniform in CleanRL: its own scripts, with transitions chosen and weighed."""

import numpy as np
import pytest
import torch
from loops import iterate_some

from parallax.adapters.cleanrl import train
from parallax.adapters.torch_common.prioritized_buffer import PrioritizedReplayMixin
from parallax.envs.make import make_training_env
from parallax.harness.conformance.run_folders import check_killed_run, prepare_scripted_run
from parallax.harness.contract.replay import make_replay_config
from parallax.harness.interventions.catalogue import make_replacement

ALGORITHMS = ["dqn", "ddpg", "td3", "sac"]
OFTEN = {"sweep_every": 48, "predict_every": 24}


class Listener:
    """A monitor that stores what a training reports."""

    def __init__(self):
        self.metrics, self.parts = [], {}

    def attach(self, *parts):
        pass

    def safe_point(self):
        pass

    def record(self, metrics):
        self.metrics.append(metrics)

    def add_costs(self, parts):
        self.parts |= parts


def learn(algorithm, replay, steps=96):
    """Runs a script to its end: its global names, and its monitor."""
    run = prepare_scripted_run("cleanrl", algorithm, steps=steps, eval_every=steps, replay=replay)
    names, monitor = {}, Listener()
    env = lambda: make_training_env(  # noqa: E731
        run.spec.env, wrappers="none", gamma=0.99, before_step=lambda: None
    )
    with make_replacement(run.interventions).apply_replacement():
        train.train_with_names(algorithm, run.native, run.context, env, monitor, names)
    return names, monitor


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sweeps_and_updates_compute_the_same_errors(algorithm, monkeypatch):
    # Without noise, which sweeps take from other numbers than updates.
    monkeypatch.setattr(torch.distributions.Normal, "rsample", lambda self, shape=(): self.mean)
    monkeypatch.setattr(torch, "randn_like", lambda like, **_: torch.zeros_like(like))
    weighted, seen = PrioritizedReplayMixin.compute_weighted_losses, []

    def spy(buffer, loss, currents, target):
        with torch.no_grad():
            errors = buffer._errors(buffer.read_batch(buffer.replayer.drawn))
        gaps = torch.stack([(one - target).flatten() for one in currents]).detach()
        torch.testing.assert_close(errors, gaps, rtol=1e-5, atol=1e-5)
        made = weighted(buffer, loss, currents, target)
        # With alpha=0 all weights are 1, and the losses are upstream's.
        torch.testing.assert_close(made, [loss(one, target) for one in currents])
        seen.append(float(gaps.abs().max()))
        return made

    monkeypatch.setattr(PrioritizedReplayMixin, "compute_weighted_losses", spy)
    learn(algorithm, {"name": "per", "alpha": 0.0, "epsilon": 0.0})
    assert len(seen) > 5 and max(seen) > 0.1


# Which errors there are depends on the algorithm, and what is made of them on the strategy.
PAIRS = [
    pytest.param(name, algorithm, marks=pytest.mark.long if name != "per" and more else ())
    for name in ("per", "rank", "atdc", "imp")
    for more, algorithm in enumerate(ALGORITHMS)
]


@pytest.mark.parametrize(("name", "algorithm"), PAIRS)
def test_replayed_transitions_are_drawn_by_their_errors(name, algorithm):
    often = {"rank": {"sort_every": 2}, "atdc": {"sweep_every": 48}, "imp": OFTEN}
    names, monitor = learn(algorithm, {"name": name, **often.get(name, {})})
    strategy = names["rb"].replayer.strategy
    assert strategy.added == strategy.size == 96
    assert len(np.unique(strategy.errors[:96])) > 20  # those of replayed transitions
    looks = [metrics for metrics in monitor.metrics if "replay/mape" in metrics]
    assert bool(looks) == (name != "rank")
    weights = [
        metrics["replay/mean_weight"]
        for metrics in monitor.metrics
        if "replay/mean_weight" in metrics
    ]
    assert len(weights) > 5 and all(0 < weight <= 8 for weight in weights)
    costs = monitor.parts["replay"]
    assert costs["minibatches"] > 5 and costs["learning"] > 0 and costs["sampling"] > 0


def test_transitions_are_those_that_uniform_replay_would_give():
    buffer = learn("td3", "per")[0]["rb"]
    places = np.array([0, 5, 90])
    theirs = super(PrioritizedReplayMixin, buffer)._get_samples(places)
    for ours, other in iterate_some(zip(buffer.read_batch(places), theirs, strict=True)):
        assert ours is other is None or torch.equal(ours, other)


def test_uniform_replay_leaves_the_script_its_own_buffer():
    buffer = learn("dqn", "uniform")[0]["rb"]
    assert type(buffer).__module__ == "stable_baselines3.common.buffers"


@pytest.mark.parametrize("algorithm", ["dqn", pytest.param("sac", marks=pytest.mark.long)])
def test_killed_run_resumes_bit_identically(algorithm, tmp_path):
    replay = make_replay_config({"name": "imp", **OFTEN})
    check_killed_run("cleanrl", algorithm, tmp_path / "run", replay=replay)
