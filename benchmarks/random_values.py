"""Compares frameworks that train with random values of hyperparameters.

    python benchmarks/random_values.py --sets 10 --seed 1

draws values for each algorithm and trains the frameworks with them at `alignment=lockstep` on the
same weights, data and random numbers. A value that one framework takes in another meaning, or not
at all, leaves other weights there. Sets that differ are printed, and so is a set that is refused.

    python benchmarks/random_values.py --counts --sets 8 --seed 1

also draws sizes, intervals and warm-ups, trains at `alignment=exact` on a scripted task, and
compares updates, rows of minibatches and learning rates with what was announced and requested.
"""

import argparse
import contextlib
import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.lockstep_pairs import LEVEL, change_experiment
from parallax.harness.cli.lockstep import make_lockstep_side
from parallax.harness.conformance.trainings import get_scripted_task, observe_run
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import read_recipe
from parallax.harness.contract.run_spec import NO_INTERVENTION, RUN_DEFAULTS, make_run_spec
from parallax.harness.lockstep.comparison import LockstepOptions, LockstepTrainings
from parallax.harness.lockstep.experiments import EXPERIMENT_BUILDERS
from parallax.harness.train.prepare import prepare_run

FRAMEWORKS = "sb3,cleanrl,tianshou,torchrl,skrl"
UPDATES = {"ppo": [4, 8, 12]}


def draw_values(algorithm: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return random values of an algorithm's hyperparameters.

    Discounts are multiples of 1/256, which float32 stores exactly: sbx computes with it.
    """

    def draw_magnitude(low: float, high: float) -> float:
        return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")

    def draw_fraction(low: int, high: int) -> float:
        return int(rng.integers(low, high)) / 256

    def draw_or_drop(value: float) -> float | None:
        return value if rng.random() < 0.7 else None

    def draw_flag() -> bool:
        return bool(rng.random() < 0.5)

    common = {
        "gamma": draw_fraction(128, 256),
        "adam_eps": draw_magnitude(1e-8, 1e-2),
        "bootstrap_truncation": draw_flag(),
    }
    if algorithm == "ppo":
        schedules = ("linear", "constant")
        return common | {
            "learning_rate": draw_magnitude(1e-4, 1e-2),
            "learning_rate_schedule": str(rng.choice(schedules)),
            "gae_lambda": draw_fraction(128, 257),
            "clip_range": draw_magnitude(0.02, 0.5),
            "clip_range_schedule": str(rng.choice(schedules)),
            "value_clip_range": draw_or_drop(draw_magnitude(0.01, 0.5)),
            "normalize_advantage": draw_flag(),
            "ent_coef": draw_or_drop(draw_magnitude(1e-3, 0.1)) or 0.0,
            "vf_coef": draw_magnitude(0.1, 3),
            "max_grad_norm": draw_or_drop(draw_magnitude(0.03, 3)),
        }
    if algorithm == "dqn":
        return common | {
            "learning_rate": draw_magnitude(1e-4, 1e-2),
            "double_q": draw_flag(),
            "huber_delta": draw_or_drop(draw_magnitude(0.03, 2)),
            "max_grad_norm": draw_or_drop(draw_magnitude(0.03, 3)),
        }
    common |= {
        "policy_learning_rate": draw_magnitude(1e-4, 1e-2),
        "critic_learning_rate": draw_magnitude(1e-4, 1e-2),
        "tau": draw_magnitude(1e-3, 1),
        "policy_delay": int(rng.integers(1, 5)),
    }
    own = {
        "td3": {
            "target_policy_noise": draw_magnitude(0.03, 1),
            "target_noise_clip": draw_magnitude(0.03, 1),
        },
        "ddpg": {
            "policy_weight_decay": draw_magnitude(1e-4, 0.1),
            "critic_weight_decay": draw_magnitude(1e-4, 0.1),
        },
        "sac": {
            "temperature_learning_rate": draw_magnitude(1e-4, 1e-2),
            "initial_temperature": draw_magnitude(0.01, 2),
            "target_entropy": -draw_magnitude(0.1, 5),
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
    sides = [make_lockstep_side(f, NO_INTERVENTION, algorithm, LEVEL.name) for f in frameworks]
    how = LockstepOptions(shared_stream=algorithm != "ppo", level=LEVEL)
    lengths, found = UPDATES.get(algorithm, [1, 2, 4, 8]), []
    with change_experiment(algorithm, values):
        trainings = LockstepTrainings(sides, algorithm, how)
        for number in range(1, len(sides)):
            distances = trainings.measure_distances(0, number, lengths)
            wrong = [item for item in distances if not item.is_rounding]
            if wrong or not distances:
                found.append(f"{frameworks[0]}, {frameworks[number]}: {wrong or 'not compared'}")
    return found


def draw_counts(algorithm: str, rng: np.random.Generator) -> tuple[dict[str, Any], int]:
    """Return random values with sizes and intervals, and the steps of a training."""
    values = draw_values(algorithm, rng)
    values["hidden_sizes"] = [int(size) for size in rng.integers(3, 20, 2)]
    if algorithm == "ppo":
        rollout = int(rng.integers(20, 70))
        minibatch, epochs = int(rng.integers(5, rollout + 1)), int(rng.integers(1, 4))
        sizes = {"rollout_steps": rollout, "minibatch_size": minibatch, "epochs": epochs}
        return values | sizes, 3 * rollout
    limits = {"batch_size": (2, 40), "learning_starts": (1, 50), "buffer_size": (40, 200)}
    limits |= {"train_freq": (1, 7), "gradient_steps": (1, 5)}
    if algorithm == "dqn":
        limits |= {"target_update_interval": (1, 25)}
        values |= {"tau": float(rng.choice([1.0, 0.25])), "dueling": bool(rng.random() < 0.5)}
    drawn = {name: int(rng.integers(*both)) for name, both in limits.items()}
    return values | drawn, int(rng.integers(90, 200))


def compare_counts(
    algorithm: str, frameworks: Sequence[str], values: Mapping[str, Any], steps: int
) -> list[str]:
    """Train each framework with the values, and describe what is not as announced.

    Raises:
        SpecError: A framework refuses the values.
    """
    found = []
    for framework in frameworks:
        recipe = read_recipe(algorithm, "original")
        run = RUN_DEFAULTS | {
            "study": "counts",
            "framework": framework,
            "algorithm": algorithm,
            "env": get_scripted_task(algorithm),
            "hps": "original",
            "seed": 0,
            "steps": steps,
            "eval_every": 50,
            "eval_episodes": 1,
            "alignment": "exact",
        }
        spec = make_run_spec(run, {**recipe, **values}, recipe)
        prepared = prepare_run(spec, load_adapter(framework))
        with contextlib.redirect_stdout(io.StringIO()):  # CleanRL's scripts print
            seen = observe_run(prepared)
        due = prepared.native.update_schedule
        # An action of DQN's schedule may look like one of the warm-up, and the first step counts
        # as the second one does, so that a warm-up of one step is not seen.
        if algorithm == "dqn" or values.get("learning_starts") == 1:
            due = dataclasses.replace(due, random_steps=seen.update_schedule.random_steps)
        if seen.update_schedule != due:
            found.append(f"{framework}: {seen.update_schedule}, not {due}")
        if algorithm != "ppo" and seen.rows - {values["batch_size"], 1}:
            found.append(f"{framework}: minibatches of {sorted(seen.rows)}")
        for role in ("policy", "critic", "temperature"):
            rate = values.get(f"{role}_learning_rate")
            if rate and not np.allclose(seen.learning_rates[role], rate, rtol=1e-6):
                found.append(f"{framework}: {role} rates {set(seen.learning_rates[role])}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print what differs and how many sets were compared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--sets", type=int, default=10, help="sets of values per algorithm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", action="store_true", help="updates, rows and rates at exact")
    parser.add_argument("--algorithms", default=",".join(EXPERIMENT_BUILDERS))
    parser.add_argument("--frameworks", default=FRAMEWORKS)
    options = parser.parse_args(arguments)
    frameworks, differ = options.frameworks.split(","), 0
    for algorithm in options.algorithms.split(","):
        rng, counts = np.random.default_rng(options.seed), {"equal": 0, "differ": 0, "refused": 0}
        for _ in range(options.sets):
            try:
                if options.counts:
                    values, steps = draw_counts(algorithm, rng)
                    found = compare_counts(algorithm, frameworks, values, steps)
                else:
                    values = draw_values(algorithm, rng)
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
