"""A small DQN that can be made wrong in one place; without a fault it is the healthy version.

Tasks of few numbers have two hidden layers, MinAtar's images two convolutions.
"""

import dataclasses

import gymnasium
import numpy as np
import torch
from torch import nn

from parallax.harness.diagnosis.user_loop import Diagnosis

FAULTS = {
    "weights": "bad-weights",  # all units begin alike
    "biases": "bad-biases",  # biases begin at 5
    "target_acts": "wrong-acting-network",
    "target_never_updated": "target-not-updated",
    "target_seldom_updated": "target-updated-rarely",  # every 1000 steps
    "target_updated_by_episodes": "target-updated-rarely",  # every 100 episodes
    "exploration_falls_fast": "exploration-decays-fast",
    "exploration_rises": "exploration-low-or-rising",  # the factor's update has the wrong sign
    "exploration_low": "exploration-low-or-rising",  # 0.05 from the start
    "no_exploration": "exploration-low-or-rising",
    "ends_ignored": "wrong-targets",
    "ends_not_stored": "missing-terminal-transitions",
    "no_discount": "no-discount",
    "no_replay": "no-replay",
    "no_nonlinearity": "missing-nonlinearity",
}
"""The check that should find each."""

BATCH, STARTS, TARGET_INTERVAL, UNITS = 32, 100, 100, 32


@dataclasses.dataclass(frozen=True)
class Task:
    """Task to learn: its name, the maximum steps of an episode, and steps between updates."""

    name: str = "CartPole-v1"
    limit: int | None = None
    every: int = 2


CARTPOLE, CARTPOLE_V0 = Task(), Task(limit=200)
MOUNTAIN_CAR = Task("MountainCar-v0", every=4)
BREAKOUT = Task("MinAtar/Breakout-v1", limit=1000, every=4)


def network(shape, outputs, fault):
    """Values of actions, from the observation's shape."""
    middle = [] if fault == "no_nonlinearity" else [nn.ReLU()]
    if len(shape) == 3:
        side, channels = shape[0] - 4, shape[2]
        net = nn.Sequential(
            *(nn.Conv2d(channels, 8, 3), *middle, nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten()),
            nn.Linear(8 * side * side, outputs),
        )
    else:
        net = nn.Sequential(
            *(nn.Linear(shape[0], UNITS), *middle, nn.Linear(UNITS, UNITS), nn.ReLU()),
            nn.Linear(UNITS, outputs),
        )
    with torch.no_grad():
        if fault == "weights":
            net[0].weight.fill_(0.1)
        if fault == "biases":
            net[0].bias.fill_(5.0)
    return net


def exploration(fault, step, steps):
    """Share of random actions."""
    falls = 20 if fault == "exploration_falls_fast" else steps // 2
    share = max(0.05, 1 - max(step - STARTS, 0) / falls)
    fixed = {"no_exploration": 0.0, "exploration_low": 0.05, "exploration_rises": 1.05 - share}
    return fixed.get(fault, share)


def made(task):
    """The environment."""
    if task.name.startswith("MinAtar"):
        import minatar.gym

        if task.name not in gymnasium.registry:
            minatar.gym.register_envs()
    return gymnasium.make(task.name, max_episode_steps=task.limit)


def train(
    fault=None, seed=0, steps=1500, watched=True, say=lambda text: None, task=CARTPOLE, **options
):
    """Trains; returns the findings by id, and the weights."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    env = made(task)
    gamma = 1.0 if fault == "no_discount" else 0.99
    if watched:
        known = {"steps": steps, "gamma": gamma, "learning_starts": STARTS}
        diagnosis = Diagnosis(**known, target_interval=TARGET_INTERVAL, say=say, **options)
        env = diagnosis.wrap(env)
    shape, choices = env.observation_space.shape, int(env.action_space.n)
    q, target = network(shape, choices, fault), network(shape, choices, fault)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=5e-4)
    if watched:
        diagnosis.watch(policy=lambda seen: greedy(q, seen), networks={"q": q, "q_target": target})
    acting = target if fault == "target_acts" else q
    memory, episodes, (observation, _) = [], 0, env.reset(seed=seed)
    for step in range(steps):
        epsilon = exploration(fault, step, steps)
        random = rng.random() < epsilon
        action = int(rng.integers(choices)) if random else int(greedy(acting, observation[None])[0])
        following, reward, terminated, truncated, _ = env.step(action)
        if not (terminated and fault == "ends_not_stored"):
            memory.append((observation, action, reward, following, terminated))
        ended = terminated or truncated
        episodes += ended
        observation = env.reset()[0] if ended else following
        if step >= STARTS and step % task.every == 0:
            rows = [-1] if fault == "no_replay" else rng.integers(len(memory), size=BATCH)
            regression = update(q, target, optimizer, [memory[row] for row in rows], gamma, fault)
            if watched:
                diagnosis.metrics(exploration=epsilon)
                diagnosis.targets(*regression)
        if is_due(fault, step, ended, episodes):
            target.load_state_dict(q.state_dict())
    found = {finding.check.id: finding for finding in diagnosis.finish()} if watched else {}
    return found, [value.detach().numpy().copy() for value in q.parameters()]


def is_due(fault, step, ended, episodes):
    """Return whether the target network is updated now."""
    if fault == "target_never_updated":
        return False
    if fault == "target_updated_by_episodes":
        return ended and episodes % 100 == 0
    return step % (1000 if fault == "target_seldom_updated" else TARGET_INTERVAL) == 0


def inputs(observations):
    """Float32, images with their channels first."""
    seen = torch.as_tensor(np.asarray(observations, np.float32))
    return seen.permute(0, 3, 1, 2) if seen.ndim == 4 else seen


def greedy(net, observations):
    """The best actions by a network."""
    with torch.no_grad():
        return net(inputs(observations)).argmax(1).numpy()


def update(q, target, optimizer, batch, gamma, fault):
    """One step of the optimizer; returns what targets were computed from, and them."""
    columns = [np.array(column, np.float32) for column in zip(*batch, strict=True)]
    observations, following = inputs(columns[0]), inputs(columns[3])
    actions, rewards, terminated = (torch.as_tensor(columns[index]) for index in (1, 2, 4))
    with torch.no_grad():
        values = target(following).max(1).values
        ends = torch.zeros_like(terminated) if fault == "ends_ignored" else terminated
        targets = rewards + gamma * values * (1 - ends)
    predicted = q(observations).gather(1, actions.long()[:, None])[:, 0]
    optimizer.zero_grad()
    nn.functional.mse_loss(predicted, targets).backward()
    optimizer.step()
    return rewards, values, terminated, targets
