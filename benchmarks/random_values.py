"""Do random values of hyperparameters mean the same in every framework?

    python benchmarks/random_values.py --sets 10 --seed 1

draws values for each algorithm and trains the frameworks with them at `alignment=lockstep` on the
same weights, data and random numbers. A value that one framework takes in another meaning, or not
at all, leaves other weights there. Sets that differ are printed, and so is a set that is refused.
"""

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
from lockstep_pairs import LEVEL

from parallax.harness.cli.lockstep import make_lockstep_side
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.lockstep import comparison
from parallax.harness.lockstep.comparison import LockstepOptions, LockstepTrainings
from parallax.harness.lockstep.experiments import EXPERIMENT_BUILDERS

FRAMEWORKS = "sb3,cleanrl,tianshou,torchrl,skrl"
UPDATES = {"ppo": [4, 8, 12]}


def draw_values(algorithm: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return random values of an algorithm's hyperparameters.

    Discounts are multiples of 1/256, which float32 stores exactly: sbx computes with it.
    """

    def scale(low: float, high: float) -> float:
        return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")

    def share(low: int, high: int) -> float:
        return int(rng.integers(low, high)) / 256

    def perhaps(value: float) -> float | None:
        return value if rng.random() < 0.7 else None

    def flag() -> bool:
        return bool(rng.random() < 0.5)

    common = {
        "gamma": share(128, 256),
        "adam_eps": scale(1e-8, 1e-2),
        "bootstrap_truncation": flag(),
    }
    if algorithm == "ppo":
        schedules = ("linear", "constant")
        return common | {
            "learning_rate": scale(1e-4, 1e-2),
            "learning_rate_schedule": str(rng.choice(schedules)),
            "gae_lambda": share(128, 257),
            "clip_range": scale(0.02, 0.5),
            "clip_range_schedule": str(rng.choice(schedules)),
            "value_clip_range": perhaps(scale(0.01, 0.5)),
            "normalize_advantage": flag(),
            "ent_coef": perhaps(scale(1e-3, 0.1)) or 0.0,
            "vf_coef": scale(0.1, 3),
            "max_grad_norm": perhaps(scale(0.03, 3)),
        }
    if algorithm == "dqn":
        return common | {
            "learning_rate": scale(1e-4, 1e-2),
            "double_q": flag(),
            "huber_delta": perhaps(scale(0.03, 2)),
            "max_grad_norm": perhaps(scale(0.03, 3)),
        }
    common |= {
        "policy_learning_rate": scale(1e-4, 1e-2),
        "critic_learning_rate": scale(1e-4, 1e-2),
        "tau": scale(1e-3, 1),
        "policy_delay": int(rng.integers(1, 5)),
    }
    own = {
        "td3": {"target_policy_noise": scale(0.03, 1), "target_noise_clip": scale(0.03, 1)},
        "ddpg": {"policy_weight_decay": scale(1e-4, 0.1), "critic_weight_decay": scale(1e-4, 0.1)},
        "sac": {
            "temperature_learning_rate": scale(1e-4, 1e-2),
            "initial_temperature": scale(0.01, 2),
            "target_entropy": -scale(0.1, 5),
            "target_update_interval": int(rng.integers(1, 5)),
        },
    }
    return common | own[algorithm]


def compare_frameworks(
    algorithm: str, frameworks: Sequence[str], values: Mapping[str, Any]
) -> list[str]:
    """Train with the values, and describe each framework that differs from the first.

    Raises:
        SpecError: A framework refuses the values.
    """
    build = EXPERIMENT_BUILDERS[algorithm]

    def build_changed(*arguments: Any) -> Any:
        made = build(*arguments)
        changes = {**made.changes, **values}
        return dataclasses.replace(made, name=f"random {made.name}", changes=changes)

    sides = [make_lockstep_side(f, NO_INTERVENTION, algorithm, LEVEL.name) for f in frameworks]
    how = LockstepOptions(shared_stream=algorithm != "ppo", level=LEVEL)
    lengths, found = UPDATES.get(algorithm, [1, 2, 4, 8]), []
    with mock.patch.dict(comparison.EXPERIMENT_BUILDERS, {algorithm: build_changed}):
        trainings = LockstepTrainings(sides, algorithm, how)
        for number in range(1, len(sides)):
            distances = trainings.measure_distances(0, number, lengths)
            wrong = [item for item in distances if not item.is_rounding]
            if wrong or not distances:
                found.append(f"{frameworks[0]}, {frameworks[number]}: {wrong or 'not compared'}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print what differs and how many sets were compared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--sets", type=int, default=10, help="sets of values per algorithm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--algorithms", default=",".join(EXPERIMENT_BUILDERS))
    parser.add_argument("--frameworks", default=FRAMEWORKS)
    options = parser.parse_args(arguments)
    frameworks, differ = options.frameworks.split(","), 0
    for algorithm in options.algorithms.split(","):
        rng, counts = np.random.default_rng(options.seed), {"equal": 0, "differ": 0, "refused": 0}
        for _ in range(options.sets):
            values = draw_values(algorithm, rng)
            try:
                found = compare_frameworks(algorithm, frameworks, values)
            except SpecError as error:
                counts["refused"] += 1
                print(f"{algorithm} refused: {error} {values}", flush=True)
                continue
            counts["differ" if found else "equal"] += 1
            for text in found:
                print(f"{algorithm} differ: {text} {values}", flush=True)
        differ += counts["differ"]
        print(f"{algorithm}, {', '.join(frameworks)}: of {options.sets} sets {counts}", flush=True)
    return min(differ, 1)


if __name__ == "__main__":
    raise SystemExit(main())
