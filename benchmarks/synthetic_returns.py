"""Synthetic returns of training runs with known differences: see `synthetic_study.py`."""

import dataclasses
import itertools
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

ALGORITHMS = ("ppo", "td3", "sac")
FRAMEWORKS = ("cleanrl", "sb3", "torchrl")
HPS = ("sb3", "cleanrl", "torchrl", "original")

# Return before training, and after it with PPO, TD3 and SAC.
TASKS: dict[str, tuple[float, float, float, float]] = {
    "Ant": (-58, 1900, 4500, 5500),
    "HalfCheetah": (-280, 1900, 9500, 13500),
    "Hopper": (18, 2200, 3300, 3200),
    "InvertedDoublePendulum": (59, 8200, 9000, 9200),
    "InvertedPendulum": (6, 1000, 1000, 1000),
    "Reacher": (-43, -6, -4, -4),
    "Swimmer": (2, 108, 80, 50),
    "Walker2d": (3, 2900, 4500, 5600),
}
CEILING = {"InvertedPendulum": 1000.0, "InvertedDoublePendulum": 9360.0}

# (algorithm, framework, task): gain or loss, as a share of the difference between the untrained
# and the usual score. The loss of SAC on Walker2d reverses its order with TD3.
PLANTED: dict[tuple[str, str, str], float] = {
    ("ppo", "cleanrl", "InvertedDoublePendulum"): 0.12,
    ("ppo", "torchrl", "Hopper"): -0.45,
    ("ppo", "torchrl", "Walker2d"): -0.40,
    ("td3", "sb3", "HalfCheetah"): -0.35,
    ("sac", "torchrl", "Walker2d"): -0.60,
    ("sac", "sb3", "Swimmer"): 0.80,
}
SEED_SPREAD, EPISODE_SPREAD, WOBBLE = 0.08, 0.10, 0.04  # shares of the way


@dataclasses.dataclass(frozen=True)
class StudySize:
    """Size of the study.

    Attributes:
        tasks: Names of tasks without version.
        seeds: Seeds per setting and framework.
        evaluations: Evaluations per run.
        episodes: Episodes per evaluation.
        eval_every: Environment steps between evaluations.
        variants: Also PPO with normalised observations and SAC with eight environments.
        flawless: Every run is complete.
    """

    tasks: tuple[str, ...] = tuple(TASKS)
    seeds: int = 5
    evaluations: int = 300
    episodes: int = 30
    eval_every: int = 10_000
    variants: bool = False
    flawless: bool = False

    @property
    def steps(self) -> int:
        """Environment steps of a run."""
        return self.evaluations * self.eval_every


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """One run.

    Attributes:
        task: Task without version.
        algorithm: Algorithm.
        hps: Hyperparameters.
        framework: Framework.
        seed: Training seed.
        wrappers: `none` or `normalized`.
        n_envs: Copies of the training environment.
    """

    task: str
    algorithm: str
    hps: str
    framework: str
    seed: int
    wrappers: str = "none"
    n_envs: int = 1

    def rng(self) -> np.random.Generator:
        """Return the generator of this run, which does not depend on the others."""
        return np.random.default_rng(zlib.crc32(repr(dataclasses.astuple(self)).encode()))


def list_plans(size: StudySize) -> Iterator[RunPlan]:
    """Yield every run of the study."""
    seeds = range(size.seeds)
    for task, algorithm, hps, framework, seed in itertools.product(
        size.tasks, ALGORITHMS, HPS, FRAMEWORKS, seeds
    ):
        yield RunPlan(task, algorithm, hps, framework, seed)
    if size.variants:
        for task, framework, seed in itertools.product(size.tasks[:3], FRAMEWORKS, seeds):
            yield RunPlan(task, "ppo", "original", framework, seed, wrappers="normalized")
            yield RunPlan(task, "sac", "original", framework, seed, n_envs=8)


def compute_curve(plan: RunPlan, size: StudySize) -> NDArray[np.float32]:
    """Return the returns of all evaluation episodes, float32[evaluations, episodes]."""
    rng = plan.rng()
    start, *ends = TASKS[plan.task]
    way = ends[ALGORITHMS.index(plan.algorithm)] - start
    reach = 1 + PLANTED.get((plan.algorithm, plan.framework, plan.task), 0.0)
    if plan.wrappers == "normalized":
        reach += 0.3 if plan.framework == "sb3" else 0.1
    if plan.n_envs > 1:
        reach += 0.25 if plan.framework == "cleanrl" else -0.1
    reach += SEED_SPREAD * rng.standard_normal()
    time = np.linspace(0, 1, size.evaluations)
    speed = 14 * rng.uniform(0.7, 1.3)  # at a third of the way, all but 1% is learned
    wobble = np.cumsum(rng.standard_normal(size.evaluations)) * WOBBLE / np.sqrt(size.evaluations)
    share = reach * (1 - np.exp(-speed * time)) + wobble * np.exp(-3 * time)
    episodes = rng.standard_normal((size.evaluations, size.episodes)) * EPISODE_SPREAD
    values = start + way * (share[:, None] + episodes * (0.2 + 0.8 * share[:, None].clip(0, 1)))
    return np.asarray(np.minimum(values, CEILING.get(plan.task, np.inf)), dtype=np.float32)
