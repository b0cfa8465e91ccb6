import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from parallax.adapters.skrl import SkrlAdapter, agents
from parallax.harness.interventions.catalogue import resolve_interventions
from parallax.harness.interventions.source import SourceReplacement

pytest.importorskip("skrl")


@pytest.fixture
def task():
    return gym.make("Pendulum-v1")


def compute_both_means(task):
    """Means of PPO's policies in SB3 and skrl, with equal weights, of some observations."""
    theirs = PPO("MlpPolicy", task, policy_kwargs={"net_arch": [64, 64]}, seed=0).policy
    ours = agents.GaussianActor(
        agents.ModelSpaces(task.observation_space, task.action_space, "cpu"), (64, 64)
    )
    layers = [theirs.mlp_extractor.policy_net[0], theirs.mlp_extractor.policy_net[2]]
    with torch.no_grad():
        linear = [layer for layer in ours.net if isinstance(layer, torch.nn.Linear)]
        for mine, given in zip(linear, [*layers, theirs.action_net], strict=True):
            mine.load_state_dict(given.state_dict())
            mine.weight.mul_(5)  # far from where tanh is linear
            given.weight.mul_(5)
        seen = torch.as_tensor(np.random.default_rng(0).normal(size=(20, 3)), dtype=torch.float32)
        return theirs.get_distribution(seen).mode(), ours.compute({"observations": seen})[0]


def test_tanh_networks_equal_those_of_other_frameworks_and_are_required(task):
    # Lockstep gives skrl the networks of the probes, so it cannot show this difference.
    theirs, plain = compute_both_means(task)
    assert (theirs - plain).abs().max() > 0.1
    (made,) = resolve_interventions("tanh-networks", SkrlAdapter(), "ppo")
    with SourceReplacement(made.source).apply_replacement():
        torch.testing.assert_close(*compute_both_means(task))
