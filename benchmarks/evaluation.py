"""CPU time of an evaluation, compared with SB3's own and with the physics alone.

In one run, with the same untrained SB3 model, task and initial states, on one thread:

- `evaluate_policy` of Stable-Baselines3 with one environment;
- `parallax.harness.train.evaluation.evaluate_greedy_policy` with SB3's policy called directly, and
with `model.predict`;
- for MuJoCo tasks the lower bound, `mujoco.rollout`, which repeats the actions of our episodes
  without a policy.

The sides alternate, and ratios are computed within each repeat. Usage:
`python benchmarks/evaluation.py --env HalfCheetah-v4 --episodes 30 --repeats 5`; for discrete
actions `--env CartPole-v1 --algorithm DQN`.
"""

import argparse
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import mujoco
import mujoco.rollout
import numpy as np
import stable_baselines3
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from parallax.envs.batched_env import GymnasiumBatchedEnv, find_mujoco_task, make_batched_env
from parallax.envs.optional_tasks import PARKING_ENV_ID, is_minatar_game
from parallax.envs.tasks import TASK_IDS, make_task_env
from parallax.harness.contract.events import EvaluationResult
from parallax.harness.train.evaluation import compute_episode_seeds, evaluate_greedy_policy

Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
Side = Callable[[], float]
"""Plays all episodes once; returns CPU microseconds per environment step."""

FLOORS = "times the floor"
THEIRS, OURS = "evaluate_policy, 1 environment", "evaluate"
PREDICT, FLOOR = "evaluate, through model.predict", "floor: mujoco.rollout"


class SeededResets(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Starts the k-th episode from the k-th seed."""

    def __init__(self, env: gymnasium.Env[Any, Any], seeds: Sequence[int]) -> None:
        super().__init__(env)
        self._seeds = itertools.cycle(seeds)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        return self.env.reset(seed=next(self._seeds))


def main() -> None:
    """Measure and print the table."""
    options = _make_parser().parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    env_id, seeds = options.env, compute_episode_seeds(0, options.env, 0, 0, options.episodes)
    model = build_model(options.algorithm, options.hidden, env_id)
    actions, evaluation = record_evaluation(make_direct_policy(model), env_id, seeds)
    sides = {
        THEIRS: make_upstream_side(model, env_id, seeds),
        OURS: make_harness_side(make_direct_policy(model), env_id, seeds),
        PREDICT: make_harness_side(make_checked_policy(model), env_id, seeds),
    }
    if hasattr(make_task_env(env_id).unwrapped, "model"):
        sides[FLOOR] = make_physics_side(env_id, seeds, actions, evaluation.lengths)
    rounds = [{name: side() for name, side in sides.items()} for _ in range(options.repeats)]
    print(
        f"{env_id}, {options.episodes} episodes, {evaluation.lengths.sum()} steps, "
        f"{options.algorithm} {options.hidden}; median of {options.repeats} (min to max)"
    )
    print_table(rounds)
    same = has_gymnasium_returns(env_id, seeds, actions, evaluation)
    print(f"returns equal Gymnasium's bit for bit: {'yes' if same else 'NO'}")
    theirs = np.array(evaluate_policy_returns(model, env_id, seeds))
    difference = np.abs(theirs - evaluation.returns).max()
    print(f"largest difference from evaluate_policy's returns of the same episodes: {difference:g}")
    for kind, raw in (("raw", True), ("plain", False)):
        print(f"{kind} stepping:", ", ".join(env for env in TASK_IDS if is_stepped_raw(env) == raw))


def print_table(rounds: Sequence[dict[str, float]]) -> None:
    """Print times and ratios."""
    print("\nCPU time of a step, microseconds")
    for name in rounds[0]:
        _print_row(name, [times[name] for times in rounds])
    for title, goal, ratio in (
        ("times faster than evaluate_policy", "8 or more", lambda t, name: t[THEIRS] / t[name]),
        (FLOORS, "1.7 or less", lambda t, name: t[name] / t[FLOOR]),
    ):
        if title == FLOORS and FLOOR not in rounds[0]:
            continue
        print(f"\n{title} (goal: {goal})")
        for name in (OURS, PREDICT):
            _print_row(name, [ratio(times, name) for times in rounds])
    print()


def build_model(algorithm: str, hidden: list[int], env_id: str) -> BaseAlgorithm:
    """Return an untrained model."""
    arguments: dict[str, Any] = {} if algorithm == "PPO" else {"buffer_size": 1}
    model: BaseAlgorithm = getattr(stable_baselines3, algorithm)(
        "MlpPolicy",
        make_task_env(env_id),
        policy_kwargs={"net_arch": hidden},
        seed=0,
        device="cpu",
        **arguments,
    )
    return model


def make_checked_policy(model: BaseAlgorithm) -> Policy:
    """Return the policy through SB3's interface, which checks and converts on every call."""
    return lambda observations: model.predict(observations, deterministic=True)[0]


def make_direct_policy(model: BaseAlgorithm) -> Policy:
    """Return the same computation on SB3's policy itself, without checks."""
    policy: Any = model.policy
    policy.set_training_mode(False)
    discrete = isinstance(policy.action_space, gymnasium.spaces.Discrete)
    low, high = (None, None) if discrete else (policy.action_space.low, policy.action_space.high)

    def act(observations: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            actions = policy._predict(torch.from_numpy(observations), deterministic=True).numpy()
        if discrete:
            return np.asarray(actions)
        if policy.squash_output:
            return np.asarray(policy.unscale_action(actions))
        return np.clip(actions, low, high)

    return act


def record_evaluation(
    policy: Policy, env_id: str, seeds: Sequence[int]
) -> tuple[NDArray[np.float32], EvaluationResult]:
    """Return our evaluation and its actions, float32[steps, N, actions]."""
    actions = []

    def recording(observations: NDArray[np.float32]) -> NDArray[np.float32]:
        actions.append(policy(observations))
        return actions[-1]

    evaluation = evaluate_greedy_policy(recording, make_batched_env(env_id, len(seeds)), seeds)
    return np.array(actions), evaluation


def make_upstream_side(model: BaseAlgorithm, env_id: str, seeds: Sequence[int]) -> Side:
    """Return Stable-Baselines3's evaluation."""

    def side() -> float:
        env = Monitor(SeededResets(make_task_env(env_id), seeds))
        started = time.process_time()
        _, lengths = evaluate_policy(model, env, len(seeds), return_episode_rewards=True)
        assert isinstance(lengths, list)
        return 1e6 * (time.process_time() - started) / sum(lengths)

    return side


def evaluate_policy_returns(
    model: BaseAlgorithm, env_id: str, seeds: Sequence[int]
) -> Sequence[float]:
    """Return the episode returns of Stable-Baselines3's evaluation."""
    env = Monitor(SeededResets(make_task_env(env_id), seeds))
    returns, _ = evaluate_policy(model, env, len(seeds), return_episode_rewards=True)
    assert isinstance(returns, list)
    return returns


def make_harness_side(policy: Policy, env_id: str, seeds: Sequence[int]) -> Side:
    """Return the harness' evaluation."""
    env = make_batched_env(env_id, len(seeds))

    def side() -> float:
        started = time.process_time()
        evaluation = evaluate_greedy_policy(policy, env, seeds)
        return 1e6 * (time.process_time() - started) / float(evaluation.lengths.sum())

    return side


def make_physics_side(
    env_id: str, seeds: Sequence[int], actions: NDArray[np.float32], lengths: NDArray[np.int64]
) -> Side:
    """Return the physics steps of the same episodes, in C++ on the calling thread."""
    env = make_task_env(env_id)
    simulator: Any = env.unwrapped
    model, full = simulator.model, mujoco.mjtState.mjSTATE_FULLPHYSICS
    state = np.empty((1, mujoco.mj_stateSize(model, full)))
    jobs = []
    for i, seed in enumerate(seeds):
        env.reset(seed=seed)
        mujoco.mj_getState(model, simulator.data, state[0], full)
        taken = actions[: lengths[i], i].astype(np.float64)
        jobs.append((state.copy(), np.repeat(taken, simulator.frame_skip, axis=0)[None]))

    def side() -> float:
        started = time.process_time()
        with mujoco.rollout.Rollout(nthread=0) as rollout:
            for initial, controls in jobs:
                rollout.rollout(model, [simulator.data], initial, controls)
        return 1e6 * (time.process_time() - started) / float(lengths.sum())

    return side


def has_gymnasium_returns(
    env_id: str, seeds: Sequence[int], actions: NDArray[np.float32], evaluation: EvaluationResult
) -> bool:
    """Return whether the actions give the same returns and lengths in Gymnasium's environments."""
    rows = iter(actions)
    reference = evaluate_greedy_policy(
        lambda _: next(rows), GymnasiumBatchedEnv([make_task_env(env_id) for _ in seeds]), seeds
    )
    return np.array_equal(reference.returns, evaluation.returns) and np.array_equal(
        reference.lengths, evaluation.lengths
    )


def is_stepped_raw(env_id: str) -> bool:
    """Return whether the task is stepped without its Gymnasium class."""
    late = is_minatar_game(env_id) or env_id == PARKING_ENV_ID  # registered only when they are made
    return not late and find_mujoco_task(gymnasium.spec(env_id)) is not None


def _print_row(label: str, values: Sequence[float]) -> None:
    low, middle, high = min(values), statistics.median(values), max(values)
    print(f"  {label:<36}{middle:>8.2f}   ({low:.2f} to {high:.2f})")


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--algorithm", choices=["SAC", "PPO", "DQN"], default="SAC")
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--repeats", type=int, default=5)
    return parser


if __name__ == "__main__":
    main()
