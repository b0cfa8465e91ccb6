"""Writes a study of run folders with made-up returns, in which it is known what differs.

    python benchmarks/synthetic_study.py results/synthetic
    python benchmarks/synthetic_study.py results/small --tasks Hopper Walker2d --seeds 3

Without options it is a study of the thesis' size: 3 algorithms x 3 frameworks x 4 sets of
hyperparameters x 8 tasks x 5 seeds = 1,440 runs of 300 evaluations with 30 episodes. Differences
between frameworks stand in `PLANTED`; all other settings differ by chance alone. A few runs failed,
ended early or left no folder (`--flawless`: none). Equal options give equal files.
"""

import argparse
import dataclasses
import itertools
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

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

# (algorithm, framework, task): share of the way from the untrained to the usual score that is
# gained or lost. The loss of SAC on Walker2d turns its order with TD3 around.
PLANTED: dict[tuple[str, str, str], float] = {
    ("ppo", "cleanrl", "InvertedDoublePendulum"): 0.12,
    ("ppo", "torchrl", "Hopper"): -0.45,
    ("ppo", "torchrl", "Walker2d"): -0.40,
    ("td3", "sb3", "HalfCheetah"): -0.35,
    ("sac", "torchrl", "Walker2d"): -0.60,
    ("sac", "sb3", "Swimmer"): 0.80,
}
SEED_SPREAD, EPISODE_SPREAD, WOBBLE = 0.08, 0.10, 0.04  # shares of the way
TIMES_UP = 1000  # steps in an episode


@dataclasses.dataclass(frozen=True)
class Size:
    """How large the study is.

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
class Plan:
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
        """A source of its own, whatever else the study holds."""
        return np.random.default_rng(zlib.crc32(repr(dataclasses.astuple(self)).encode()))


def write_study(folder: Path, size: Size) -> dict[str, int]:
    """Writes all runs.

    Args:
        folder: Results folder; the study in it is named after `folder`.
        size: How large.

    Returns:
        Number of runs by fate: completed, failed, short, absent.
    """
    counts: dict[str, int] = dict.fromkeys(("completed", "failed", "short", "absent"), 0)
    for number, plan in enumerate(plans(size)):
        fate = "completed" if size.flawless else _fate(number)
        counts[fate] += 1
        if fate != "absent":
            _write_run(folder, plan, size, fate)
    return counts


def plans(size: Size) -> Iterator[Plan]:
    """Every run of the study."""
    seeds = range(size.seeds)
    for task, algorithm, hps, framework, seed in itertools.product(
        size.tasks, ALGORITHMS, HPS, FRAMEWORKS, seeds
    ):
        yield Plan(task, algorithm, hps, framework, seed)
    if size.variants:
        for task, framework, seed in itertools.product(size.tasks[:3], FRAMEWORKS, seeds):
            yield Plan(task, "ppo", "original", framework, seed, wrappers="normalized")
            yield Plan(task, "sac", "original", framework, seed, n_envs=8)


def curve(plan: Plan, size: Size) -> NDArray[np.float32]:
    """Returns of all evaluation episodes, float32[evaluations, episodes]."""
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


def _fate(number: int) -> str:
    """Every 97th run failed, every 149th ended early, every 211th left no folder."""
    for fate, period in (("absent", 211), ("short", 149), ("failed", 97)):
        if number % period == period - 1:
            return fate
    return "completed"


def _write_run(root: Path, plan: Plan, size: Size, fate: str) -> None:
    spec = _spec(plan, size, root.name)
    variant = f"steps={size.steps}"
    variant += "" if size.eval_every == 10_000 else f",eval_every={size.eval_every}"
    variant += "" if plan.wrappers == "none" else f",wrappers={plan.wrappers}"
    variant += "" if plan.n_envs == 1 else f",n_envs={plan.n_envs}"
    names = (root.name, spec["env"], plan.algorithm, plan.hps, plan.framework, variant)
    folder = root.joinpath(*map(str, names), f"seed={plan.seed}")
    folder.mkdir(parents=True, exist_ok=True)
    whole = size.evaluations
    kept = {"completed": whole, "failed": whole // 3, "short": max(1, whole * 2 // 3)}[fate]
    if kept:
        results = curve(plan, size)[:kept]
        np.savez(
            folder / "evaluations.npz",
            timesteps=np.arange(1, kept + 1, dtype=np.int64) * size.eval_every,
            results=results,
            ep_lengths=np.full(results.shape, TIMES_UP, dtype=np.int32),
        )
    record = _record(plan, spec, size, "failed" if fate == "failed" else "completed")
    (folder / "run.json").write_text(json.dumps(record))


def _spec(plan: Plan, size: Size, study: str) -> dict[str, object]:
    return {
        "hyperparameters": {},
        "overridden": [],
        "python": None,
        "study": study,
        "framework": plan.framework,
        "algorithm": plan.algorithm,
        "env": f"{plan.task}-v4",
        "hps": plan.hps,
        "alignment": "thesis",
        "seed": plan.seed,
        "steps": size.steps,
        "eval_every": size.eval_every,
        "eval_episodes": size.episodes,
        "evaluation_seed": 0,
        "wrappers": plan.wrappers,
        "n_envs": plan.n_envs,
        "threads": 1,
    }


def _record(plan: Plan, spec: dict[str, object], size: Size, status: str) -> dict[str, object]:
    hours = {"ppo": 0.5, "td3": 4.0, "sac": 6.0}[plan.algorithm] * size.steps / 1e6
    seconds = round(3600 * hours * float(plan.rng().uniform(0.9, 1.1)), 1)
    return {
        "schema": 1,
        "status": status,
        "spec": spec,
        "hyperparameters": {},
        "adapter": "none: made-up returns",
        "native": {},
        "alignment": [],
        "steps": dict.fromkeys(("requested", "scheduled", "framework", "taken"), size.steps),
        "weights_sha256": None,
        "failure": "ValueError: loss is not finite" if status == "failed" else None,
        "timings": {"started": 1.7e9, "ended": 1.7e9 + seconds, "seconds": seconds},
        "provenance": {"packages": {}, "python": "", "host": "none", "processor": "made-up"},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="results folder; must not exist")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--variants", action="store_true", help="also other wrappers, n_envs")
    parser.add_argument("--flawless", action="store_true", help="no run failed or is missing")
    for name in ("seeds", "evaluations", "episodes", "eval_every"):
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, default=getattr(Size(), name))
    options = vars(parser.parse_args(arguments))
    folder = options.pop("folder")
    if folder.exists():
        print(f"error: {folder}: exists. Give a folder that does not.", file=sys.stderr)
        return 2
    counts = write_study(folder, Size(**options | {"tasks": tuple(options["tasks"])}))
    words = ", ".join(f"{count} {fate}" for fate, count in counts.items())
    print(f"{folder}: {sum(counts.values())} runs, {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
