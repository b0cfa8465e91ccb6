"""A small REINFORCE on CartPole whose returns can be made wrong; else it is the healthy version."""

import gymnasium
import numpy as np
import torch
from torch import nn

from parallax.harness.diagnosis.user_loop import Diagnosis

FAULTS = {
    "returns_backwards": "wrong-returns",  # sums of what came before each step, not of what follows
    "returns_not_summed": "wrong-returns",  # each step's own discounted reward
}
"""The check that should find each."""

GAMMA, UNITS = 0.99, 32


def returns_of(rewards, fault):
    """Discounted sums of an episode's rewards from each step on."""
    if fault == "returns_not_summed":
        return GAMMA ** np.arange(len(rewards)) * rewards
    ordered = rewards if fault == "returns_backwards" else rewards[::-1]
    sums, total = [], 0.0
    for reward in ordered:
        total = reward + GAMMA * total
        sums.append(total)
    return np.array(sums if fault == "returns_backwards" else sums[::-1])


def train(fault=None, seed=0, steps=3000, say=lambda text: None, **options):
    """Trains; returns the findings by id, and the weights."""
    torch.manual_seed(seed)
    diagnosis = Diagnosis(steps=steps, gamma=GAMMA, replays=False, say=say, **options)
    env = diagnosis.wrap(gymnasium.make("CartPole-v1", max_episode_steps=200))
    policy = nn.Sequential(nn.Linear(4, UNITS), nn.ReLU(), nn.Linear(UNITS, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    diagnosis.watch(policy=lambda seen: greedy(policy, seen), networks={"policy": policy})
    episode, (observation, _) = [], env.reset(seed=seed)
    for _ in range(steps):
        with torch.no_grad():
            logits = policy(torch.as_tensor(observation[None]))
        action = int(torch.distributions.Categorical(logits=logits).sample())
        following, reward, terminated, truncated, _ = env.step(action)
        episode.append((observation, action, reward))
        observation = following
        if terminated or truncated:
            diagnosis.returns(*update(policy, optimizer, episode, fault))
            episode, (observation, _) = [], env.reset()
    found = {finding.check.id: finding for finding in diagnosis.finish()}
    return found, [value.detach().numpy().copy() for value in policy.parameters()]


def greedy(policy, observations):
    """The likeliest actions."""
    with torch.no_grad():
        return policy(torch.as_tensor(np.asarray(observations, np.float32))).argmax(1).numpy()


def update(policy, optimizer, episode, fault):
    """One step of the optimizer; returns the episode's rewards and the returns it learned from."""
    observations, actions, rewards = (np.array(column) for column in zip(*episode, strict=True))
    returns = returns_of(rewards, fault)
    scaled = torch.as_tensor((returns - returns.mean()) / (returns.std() + 1e-6))
    logits = policy(torch.as_tensor(observations))
    chosen = torch.distributions.Categorical(logits=logits).log_prob(torch.as_tensor(actions))
    optimizer.zero_grad()
    (-(chosen * scaled).mean()).backward()
    optimizer.step()
    return rewards, returns
