"""MuJoCo tasks compared from the same state and action: version 4 with 5, a batch with gymnasium.

`task.*` sets positions and velocities of both versions, takes one step with the same action, and
compares the results. `batch.*` compares this project's batched environment with gymnasium's own.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import make_task_env
from parallax.harness.contract.probing.environments import EnvironmentImplementation, EpisodeScript
from parallax.harness.environment_probes.answers import (
    AS_DEFINED,
    DIFFERS,
    EnvironmentAnswer,
    EnvironmentQuestion,
)
from parallax.harness.environment_probes.episodes import join_answers

Array = NDArray[Any]
TASK_PAIR, BATCHED_TASK = "task pair", "batched task"
TASKS = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "InvertedDoublePendulum", "InvertedPendulum"),
    *("Reacher", "Swimmer", "Walker2d"),
)
_STATES = 40
_BATCH_STEPS = 40


def _refuse(scripts: Sequence[EpisodeScript]) -> NoReturn:
    raise NotImplementedError("a MuJoCo task follows no script")


def list_task_pairs() -> list[EnvironmentImplementation]:
    """Return one entry per task and one per batched task."""
    pairs = [
        EnvironmentImplementation(
            f"mujoco {name}, v4 and v5",
            (TASK_PAIR,),
            _refuse,
            settings={"tasks": (f"{name}-v4", f"{name}-v5")},
        )
        for name in TASKS
    ]
    batches = [
        EnvironmentImplementation(
            f"parallax batch of {name}-{version}",
            (BATCHED_TASK,),
            _refuse,
            settings={"tasks": (f"{name}-{version}",)},
        )
        for name in TASKS
        for version in ("v4", "v5")
    ]
    return pairs + batches


def collect_pair(implementation: EnvironmentImplementation) -> list[list[dict[str, Any]]]:
    """Return the outcomes of the same states and actions, for each task.

    States come from random actions after resets; noise is added to half of them, so that some
    steps terminate.
    """
    envs = [
        make_task_env(name, disable_env_checker=True) for name in implementation.settings["tasks"]
    ]
    outcomes: list[list[dict[str, Any]]] = [[] for _ in envs]
    try:
        rng = np.random.default_rng(0)
        first: Any = envs[0].unwrapped
        for number in range(_STATES):
            envs[0].reset(seed=number)
            space: Any = envs[0].action_space
            for _ in range(int(rng.integers(0, 12))):
                envs[0].step(rng.uniform(space.low, space.high).astype(np.float32))
            positions = first.data.qpos + rng.normal(0, 0.3 * (number % 2), first.model.nq)
            velocities = first.data.qvel + rng.normal(0, 1.0 * (number % 2), first.model.nv)
            action = rng.uniform(space.low, space.high).astype(np.float32)
            for env, found in zip(envs, outcomes, strict=True):
                found.append(_step_from(env, positions.copy(), velocities.copy(), action))
    finally:
        for env in envs:
            env.close()
    return outcomes


def _step_from(env: Any, positions: Array, velocities: Array, action: Array) -> dict[str, Any]:
    import mujoco

    env.reset(seed=0)
    task = env.unwrapped
    mujoco.mj_resetData(task.model, task.data)  # else the solver starts from another guess
    task.set_state(positions, velocities)
    observation, reward, terminated, truncated, _ = env.step(action)
    return {
        "state": np.concatenate([task.data.qpos, task.data.qvel]).copy(),
        "observation": np.asarray(observation, float),
        "reward": float(reward),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
    }


def measure_next_states(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare positions and velocities after one step."""
    old, new = collect_pair(implementation)
    gaps = [np.abs(a["state"] - b["state"]).max() for a, b in zip(old, new, strict=True)]
    largest = float(np.max(gaps))
    if largest == 0:
        return EnvironmentAnswer(AS_DEFINED, "the same, bit by bit")
    words = f"the next state differs in {np.count_nonzero(gaps)} of {len(gaps)} states"
    return EnvironmentAnswer(DIFFERS, words, (largest,), (0.0,))


def measure_task_observations(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare observations after one step."""
    old, new = collect_pair(implementation)
    sizes = [len(found[0]["observation"]) for found in (old, new)]
    common = min(sizes)
    gap = max(
        float(np.abs(a["observation"][:common] - b["observation"][:common]).max())
        for a, b in zip(old, new, strict=True)
    )
    found = []
    if sizes[0] != sizes[1]:
        found.append(f"v4 shows {sizes[0]} numbers and v5 {sizes[1]}")
    if gap > 0:
        found.append(f"the first {common} numbers differ by up to {gap:.3g}")
    answer = join_answers(found, f"the same {common} numbers")
    return EnvironmentAnswer(answer.outcome, answer.words, tuple(map(float, sizes)))


def measure_task_rewards(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare rewards after one step, separately for steps that terminate."""
    old, new = collect_pair(implementation)
    found = []
    for ended, where in ((True, "in steps that terminate"), (False, "in steps that do not")):
        pairs = zip(old, new, strict=True)
        gaps = np.array([b["reward"] - a["reward"] for a, b in pairs if b["terminated"] == ended])
        if len(gaps) and np.abs(gaps).max() > 1e-9:
            size = f"{gaps.min():+.3g} to {gaps.max():+.3g}"
            if np.ptp(gaps) < 1e-6:
                size = f"{gaps[0]:+.3g}"
            found.append(f"the reward of v5 differs by {size} {where}")
    return join_answers(found, "the same rewards")


def measure_task_ends(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare terminations after one step."""
    old, new = collect_pair(implementation)
    flags = [[step["terminated"] for step in found] for found in (old, new)]
    counts = tuple(float(sum(found)) for found in flags)
    if flags[0] != flags[1]:
        words = f"v4 terminates in {counts[0]:.0f} and v5 in {counts[1]:.0f} of {len(old)} states"
        return EnvironmentAnswer(DIFFERS, words, counts)
    return EnvironmentAnswer(
        AS_DEFINED, f"the same ({counts[0]:.0f} of {len(old)} terminate)", counts
    )


def measure_batch(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare the batched environment with gymnasium's own, bit by bit."""
    (name,) = implementation.settings["tasks"]
    n, rng = 2, np.random.default_rng(1)
    batch = make_batched_env(name, n)
    envs = [make_task_env(name, disable_env_checker=True) for _ in range(n)]
    space: Any = envs[0].action_space
    seeds = [11, 12]
    shown = np.array(batch.reset(seeds))
    found = []
    if not np.array_equal(
        shown, [env.reset(seed=s)[0] for env, s in zip(envs, seeds, strict=True)]
    ):
        found.append("the first observation differs")
    active = np.ones(n, np.bool_)
    for _ in range(_BATCH_STEPS):
        actions = rng.uniform(space.low, space.high, (n, *space.shape)).astype(np.float32)
        observations, rewards, terminated, truncated = batch.step(actions, active)
        for i in np.flatnonzero(active):
            expected = envs[i].step(actions[i])
            pairs = {
                "observation": np.array_equal(observations[i], expected[0]),
                "reward": rewards[i] == expected[1],
                "end": (terminated[i], truncated[i]) == expected[2:4],
            }
            found += [f"the {part} of a step differs" for part, same in pairs.items() if not same]
            active[i] = not (expected[2] or expected[3])
        if not active.any():
            break
    for env in envs:
        env.close()
    return join_answers(found, "equal to gymnasium, bit by bit")


TASK_QUESTIONS = (
    EnvironmentQuestion(
        "task.next_state",
        TASK_PAIR,
        "Is the next state the same?",
        "version 4",
        measure_next_states,
    ),
    EnvironmentQuestion(
        "task.observation",
        TASK_PAIR,
        "Is the observation the same?",
        "version 4",
        measure_task_observations,
    ),
    EnvironmentQuestion(
        "task.reward", TASK_PAIR, "Is the reward the same?", "version 4", measure_task_rewards
    ),
    EnvironmentQuestion(
        "task.termination", TASK_PAIR, "Does it end alike?", "version 4", measure_task_ends
    ),
    EnvironmentQuestion(
        "batch.step", BATCHED_TASK, "Is a batch equal to gymnasium?", "gymnasium", measure_batch
    ),
)
IMPLEMENTATIONS = list_task_pairs()
