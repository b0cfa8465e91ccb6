"""A small DQN on CartPole that can be made wrong in one place; without a fault it is the twin."""

import gymnasium
import numpy as np
import torch
from torch import nn

from harness.diagnosis import Diagnosis

FAULTS = {
    "weights": "NN_weight",  # all units begin alike
    "biases": "NN_bias",  # biases begin at 5
    "target_acts": "AGT_d3",
    "target_never_updated": "AGT_d1",
    "exploration_falls_fast": "EXP_d2",
    "no_exploration": "EXP_d1",
    "ends_ignored": "QTR_d1",
    "no_discount": "GAM",
    "no_nonlinearity": "NN_linear",
}
"""The check that should find each; the first five are those of RLExplorer's user study."""

BATCH, STARTS, TARGET_INTERVAL, UNITS = 32, 100, 100, 32


def network(inputs, outputs, fault):
    middle = [] if fault == "no_nonlinearity" else [nn.ReLU()]
    net = nn.Sequential(
        *(nn.Linear(inputs, UNITS), *middle, nn.Linear(UNITS, UNITS), nn.ReLU()),
        nn.Linear(UNITS, outputs),
    )
    with torch.no_grad():
        if fault == "weights":
            net[0].weight.fill_(0.1)
        if fault == "biases":
            net[0].bias.fill_(5.0)
    return net


def train(fault=None, seed=0, steps=1500, watched=True, say=lambda text: None, **options):
    """Trains; returns the findings by id, and the weights."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    env = gymnasium.make("CartPole-v1")
    gamma = 1.0 if fault == "no_discount" else 0.99
    if watched:
        known = {"steps": steps, "gamma": gamma, "learning_starts": STARTS}
        diagnosis = Diagnosis(**known, target_interval=TARGET_INTERVAL, say=say, **options)
        env = diagnosis.wrap(env)
    q, target = network(4, 2, fault), network(4, 2, fault)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=5e-4)
    if watched:
        diagnosis.watch(policy=lambda seen: greedy(q, seen), networks={"q": q, "q_target": target})
    acting = target if fault == "target_acts" else q
    falls = {"exploration_falls_fast": 20}.get(fault, steps // 4)
    memory, (observation, _) = [], env.reset(seed=seed)
    for step in range(steps):
        epsilon = max(0.05, 1 - max(step - STARTS, 0) / falls)
        if fault == "no_exploration":
            epsilon = 0.0
        random = rng.random() < epsilon
        action = int(rng.integers(2)) if random else int(greedy(acting, observation[None])[0])
        following, reward, terminated, truncated, _ = env.step(action)
        memory.append((observation, action, reward, following, terminated))
        observation = env.reset()[0] if terminated or truncated else following
        if step >= STARTS and step % 2 == 0:
            batch = [memory[index] for index in rng.integers(len(memory), size=BATCH)]
            told = update(q, target, optimizer, batch, gamma, fault)
            if watched:
                diagnosis.metrics(exploration=epsilon)
                diagnosis.targets(*told)
        if step % TARGET_INTERVAL == 0 and fault != "target_never_updated":
            target.load_state_dict(q.state_dict())
    found = {finding.check.id: finding for finding in diagnosis.finish()} if watched else {}
    return found, [value.detach().numpy().copy() for value in q.parameters()]


def greedy(net, observations):
    with torch.no_grad():
        return net(torch.as_tensor(np.asarray(observations, np.float32))).argmax(1).numpy()


def update(q, target, optimizer, batch, gamma, fault):
    columns = [torch.as_tensor(np.array(column, np.float32)) for column in zip(*batch, strict=True)]
    observations, actions, rewards, following, terminated = columns
    with torch.no_grad():
        values = target(following).max(1).values
        ends = torch.zeros_like(terminated) if fault == "ends_ignored" else terminated
        targets = rewards + gamma * values * (1 - ends)
    predicted = q(observations).gather(1, actions.long()[:, None])[:, 0]
    optimizer.zero_grad()
    nn.functional.mse_loss(predicted, targets).backward()
    optimizer.step()
    return rewards, values, terminated, targets
