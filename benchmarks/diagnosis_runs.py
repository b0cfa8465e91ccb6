"""Short trainings that are known to learn, for measurements of the diagnosis."""

import contextlib
import dataclasses
import io
import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

Setting = tuple[str, str, str]
"""Framework, algorithm and task."""

FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx")
ALGORITHMS = ("ppo", "dqn", "sac", "td3", "ddpg")
TASKS = {
    "continuous": ("InvertedPendulum-v4", "Pendulum-v1", "Reacher-v4"),
    "discrete": ("CartPole-v1",),
}
"""The first is for all algorithms, the others are used in turn."""

STEPS = {"ppo": 3072, "dqn": 1600}
SOUND: dict[str, Any] = {
    "learning_rate": 5e-4,
    "policy_learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "temperature_learning_rate": 1e-3,
    "initial_temperature": 0.2,
    "hidden_sizes": (64, 64),
    "batch_size": 64,
    "buffer_size": 50_000,
    "learning_starts": 300,
    "rollout_steps": 512,
    "minibatch_size": 64,
    "epochs": 10,
    "exploration_initial": 1.0,
    "exploration_final": 0.05,
    "exploration_steps": 5000,
    "target_update_interval": 1,
    "train_freq": 2,
    "gradient_steps": 1,
    "exploration_noise": 0.1,
    "gamma": 0.99,
}
_ROUNDS = ("train_freq", "gradient_steps")
FIXED = {"cleanrl": ("hidden_sizes", *_ROUNDS, "initial_temperature"), "skrl": _ROUNDS}


def train_with_diagnosis(
    framework: str,
    algorithm: str,
    task: str,
    seed: int,
    folder: Path,
    mode: str,
    *,
    recorded: bool = False,
    steps: int = 0,
    period: int | None = None,
    changes: dict[str, Any] | None = None,
) -> tuple[Any, Any]:
    """Train one run with values that are known to learn within few steps."""
    import support

    from parallax.harness.conformance.trainings import make_base_hyperparameters

    also: dict[str, Any] = (
        {"extra_checks": ("benchmarks.diagnosis_recorder:RECORDER",)} if recorded else {}
    )
    also |= {"period": period} if period else {}
    if recorded:  # as many checks as in a longer run
        also["period"] = STEPS.get(algorithm, 1200) // 40
    steps = steps or STEPS.get(algorithm, 1200)
    values = dataclasses.asdict(make_base_hyperparameters(framework, algorithm))
    sound = {name: value for name, value in SOUND.items() if name in values}
    values |= {n: v for n, v in sound.items() if n not in FIXED.get(framework, ())}
    if algorithm == "dqn":
        values |= {"target_update_interval": 250}
        values |= {"exploration_steps": steps // 2}
    elif "tau" in values:
        values |= {"tau": 0.01}
    if algorithm == "ppo":
        values |= {"learning_rate": 1e-3}
    changes = changes or {}
    values |= {name: value for name, value in changes.items() if name in values}
    more = {name: value for name, value in changes.items() if name not in values}
    evaluations = {"eval_every": steps // 2, "eval_episodes": 2}
    spec = support.spec(
        *(framework, algorithm),
        hyperparameters=values,
        alignment="exact",
        **evaluations | {"env": task, "steps": steps, "seed": seed} | more,
    )
    spec = dataclasses.replace(spec, diagnosis={"mode": mode, **also}, checkpoint_every=0.0)
    with contextlib.redirect_stdout(io.StringIO()):
        run_folder, content = support.run(spec, folder)
    path = run_folder / "diagnosis.json"
    return content, json.loads(path.read_text()) if path.exists() else None


def list_settings(frameworks: Collection[str], algorithms: Collection[str]) -> list[Setting]:
    """Return two tasks for each framework and algorithm; continuous second tasks vary."""
    from parallax.harness.contract.algorithms import ALGORITHMS as KNOWN

    found = []
    for f, framework in enumerate(FRAMEWORKS):
        for a, algorithm in enumerate(ALGORITHMS):
            if framework not in frameworks or algorithm not in algorithms:
                continue
            first, *others = TASKS[KNOWN[algorithm].actions]
            tasks = (first, others[(f + a) % len(others)]) if others else (first,)
            found += [(framework, algorithm, task) for task in tasks]
    return found
