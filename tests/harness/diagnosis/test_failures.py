"""Trainings that fail are checked a last time: NaN, exploding losses and absurd rates by name."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from loops import iterate_some
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor

from parallax.adapters.sb3.callback import DiagnosisCallback
from parallax.harness.diagnosis.check import (
    CheckFinding,
    name_hyperparameters,
    replace_hyperparameters,
)
from parallax.harness.diagnosis.user_loop import Diagnosis


class FailingCallback(BaseCallback):
    """Sets a weight to NaN and fails."""

    def _on_step(self):
        with torch.no_grad():
            next(self.model.policy.parameters()).fill_(float("nan"))
        raise ZeroDivisionError


def train_until_nan(diagnosis, rate, fails=True):
    """A loop whose weights become NaN, and whose error says nothing of it."""
    env = diagnosis.wrap(gymnasium.make("CartPole-v1"))
    network = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    diagnosis.watch(networks={"q": network})
    observation, _ = env.reset(seed=0)
    for step in range(60):
        values = network(torch.as_tensor(observation))
        loss = (values**2).mean()
        if fails and step == 50:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not np.isfinite(network.weight.detach().numpy()).all():
            raise ValueError("an action is not in the action space")
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            observation, _ = env.reset()


def test_nan_before_the_first_check_is_reported():
    lines = []
    with pytest.raises(ValueError, match="action space"), Diagnosis(say=lines.append) as diagnosis:
        train_until_nan(diagnosis, 0.5)
    frame = diagnosis.to_frame()
    assert {"not-a-number", "learning-rate-too-high"} <= set(frame["id"])
    text = str(next(f for f in diagnosis.findings if f.check.id == "not-a-number"))
    assert "NaN or infinite: " in text and "a weight" in text and "Try: lower" in text
    assert any("not-a-number" in line for line in lines)


def test_high_learning_rate_is_reported_although_the_first_step_fails():
    """The highest counts: the second optimizer's usual rate must not hide that of the first."""
    network = torch.nn.Linear(4, 2)
    optimizers = [
        torch.optim.Adam([p], lr=r) for p, r in zip(network.parameters(), (1e4, 1e-3), strict=True)
    ]
    with pytest.raises(ZeroDivisionError), Diagnosis(say=lambda text: None) as diagnosis:
        env = diagnosis.wrap(gymnasium.make("CartPole-v1"))
        diagnosis.watch(networks={"q": network})
        env.reset(seed=0)
        env.step(0)
        network(torch.ones(1, 4)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
        raise ZeroDivisionError
    found = diagnosis.to_frame().set_index("id")
    assert found.loc["learning-rate-too-high", "seen"] == "The learning rate of Adam is 10000."


def test_healthy_loop_has_no_failure_findings():
    with Diagnosis(say=lambda text: None) as diagnosis:
        train_until_nan(diagnosis, 1e-3, fails=False)
    assert not {"not-a-number", "learning-rate-too-high"} & set(diagnosis.report()["findings"])
    assert list(diagnosis.to_frame()) == list(CheckFinding.COLUMNS)
    assert all(finding.check.id != "not-a-number" for finding in diagnosis.findings)


def test_error_that_ends_the_loop_is_a_finding():
    with pytest.raises(ValueError, match="nan"), Diagnosis(say=lambda text: None) as diagnosis:
        diagnosis.wrap(gymnasium.make("CartPole-v1"))
        raise ValueError("Expected parameter loc to satisfy Real(), but found\ntensor([[nan]])")
    (finding,) = [f for f in diagnosis.findings if f.check.id == "not-a-number"]
    assert "tensor([[nan]])" in finding.seen.text


def test_callback_watches_a_users_model():
    env = Monitor(gymnasium.make("CartPole-v1"))
    model = DQN("MlpPolicy", env, learning_rate=1.0, learning_starts=50, device="cpu", seed=0)
    with DiagnosisCallback(period=100, say=lambda text: None) as callback:
        model.learn(400, callback=callback)
    frame = callback.to_frame()
    assert "learning-rate-too-high" in set(frame["id"])
    assert model.get_env().envs[0] is env  # everything is as it was
    rate = frame.set_index("id").loc["learning-rate-too-high", "remedies"]
    assert "lower learning_rate to 0.01" in rate
    # Stable-Baselines3's default interval of 10,000 steps is longer than the run, and no fault.
    assert "target-not-updated" not in set(frame["id"])


def test_the_callback_changes_no_weight():
    weights = []
    for watched in (False, True):
        model = DQN("MlpPolicy", gymnasium.make("CartPole-v1"), learning_starts=50, seed=0)
        callback = DiagnosisCallback(period=50, say=lambda text: None) if watched else None
        model.learn(200, callback=callback)
        weights.append([value.clone() for value in model.policy.state_dict().values()])
    assert all(torch.equal(a, b) for a, b in iterate_some(zip(*weights, strict=True)))


@pytest.mark.parametrize(
    ("algorithm", "task", "words"),
    [(PPO, "CartPole-v1", "clip by max_grad_norm;"), (SAC, "Pendulum-v1", "in a subclass;")],
)
def test_remedies_name_no_option_that_the_algorithm_lacks(algorithm, task, words):
    model = algorithm("MlpPolicy", gymnasium.make(task), seed=0)
    with pytest.raises(ZeroDivisionError), DiagnosisCallback(say=lambda text: None) as callback:
        model.learn(2, callback=[callback, FailingCallback()])
    (finding,) = [one for one in callback.findings if one.check.id == "not-a-number"]
    assert words in finding.remedies and hasattr(model, "max_grad_norm") == ("max" in words)


def test_the_callback_refuses_several_environments():
    from stable_baselines3.common.env_util import make_vec_env

    model = DQN("MlpPolicy", make_vec_env("CartPole-v1", 2), seed=0)
    with pytest.raises(ValueError, match="one environment"):
        model.learn(100, callback=DiagnosisCallback())


def test_remedies_have_the_frameworks_option_names():
    text = "lower learning_rate or rollout_steps; set gamma."
    names = {"rollout_steps": "PPO.n_steps", "gamma": "GAE.gamma", "learning_rate": "Adam.lr"}
    assert name_hyperparameters(text, names) == (
        "lower learning_rate (Adam.lr) or rollout_steps (PPO.n_steps); set gamma."
    )


def test_remedies_for_a_user_loop_have_its_names_only():
    text = "lower learning_rate (policy_learning_rate, critic_learning_rate); wrappers=normalized."
    names = dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), "learning_rate")
    assert replace_hyperparameters(text, names) == (
        "lower learning_rate; normalize observations and rewards."
    )
    assert replace_hyperparameters(text, {"wrappers=normalized": "VecNormalize"}).endswith(
        "(policy_learning_rate, critic_learning_rate); VecNormalize."
    )


def test_the_callback_waits_for_the_first_rollout_of_ppo():
    model = PPO("MlpPolicy", "Pendulum-v1", n_steps=1024, n_epochs=1, seed=0)
    with DiagnosisCallback(say=lambda _: None, period=200) as diagnosis:
        model.learn(1024, callback=diagnosis)
    assert "weights-not-updated" not in set(diagnosis.to_frame()["id"])


FAILING_SCRIPT = """
import gymnasium, parallax, torch
diagnosis = parallax.Diagnosis(steps=100, gamma=0.9, replays=False)
env = diagnosis.wrap(gymnasium.make("Pendulum-v1"))
net = torch.nn.Linear(3, 1)
diagnosis.watch(networks={"policy": net})
optimizer = torch.optim.Adam(net.parameters(), lr=float("inf"))
observation, _ = env.reset(seed=0)
for _ in range(3):
    env.step(env.action_space.sample())
    net(torch.as_tensor(observation)).sum().backward()
    optimizer.step()
raise ValueError("the loop broke")
"""


def test_a_script_that_fails_is_diagnosed_when_python_exits(tmp_path):
    command = [sys.executable, "-c", FAILING_SCRIPT]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "the loop broke" in ended.stderr
    assert "bad-weights" in ended.stdout + ended.stderr
