"""Writes a study of run folders with synthetic returns and known differences.

    python benchmarks/synthetic_study.py results/synthetic
    python benchmarks/synthetic_study.py results/small --tasks Hopper Walker2d --seeds 3

Without options it is a study of the thesis' size: 3 algorithms x 3 frameworks x 4 sets of
hyperparameters x 8 tasks x 5 seeds = 1,440 runs of 300 evaluations with 30 episodes. Differences
between frameworks are in `PLANTED` of `synthetic_returns.py`; all other settings differ only by
chance. A few runs failed, ended early or left no folder (`--flawless`: none). Equal options give
equal files.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.synthetic_returns import TASKS, RunPlan, StudySize, compute_curve, list_plans

TIMES_UP = 1000  # steps in an episode


def write_study(folder: Path, size: StudySize) -> dict[str, int]:
    """Write all runs.

    Args:
        folder: Results folder; the study in it is named after `folder`.
        size: Size of the study.

    Returns:
        Number of runs by fate: completed, failed, short, absent.
    """
    counts: dict[str, int] = dict.fromkeys(("completed", "failed", "short", "absent"), 0)
    for number, plan in enumerate(list_plans(size)):
        fate = "completed" if size.flawless else _choose_fate(number)
        counts[fate] += 1
        if fate != "absent":
            _write_run(folder, plan, size, fate)
    return counts


def _choose_fate(number: int) -> str:
    """Return the fate: every 97th run failed, every 149th ended early, every 211th is absent."""
    for fate, period in (("absent", 211), ("short", 149), ("failed", 97)):
        if number % period == period - 1:
            return fate
    return "completed"


def _write_run(root: Path, plan: RunPlan, size: StudySize, fate: str) -> None:
    spec = _make_spec(plan, size, root.name)
    variant = f"steps={size.steps}"
    variant += "" if size.eval_every == 10_000 else f",eval_every={size.eval_every}"
    variant += "" if plan.wrappers == "none" else f",wrappers={plan.wrappers}"
    variant += "" if plan.n_envs == 1 else f",n_envs={plan.n_envs}"
    names = (root.name, spec["env"], plan.algorithm, plan.hps, plan.framework, variant)
    folder = root.joinpath(*map(str, names), f"seed={plan.seed}")
    folder.mkdir(parents=True, exist_ok=True)
    whole = size.evaluations
    n_written = {"completed": whole, "failed": whole // 3, "short": max(1, whole * 2 // 3)}[fate]
    if n_written:
        results = compute_curve(plan, size)[:n_written]
        np.savez(
            folder / "evaluations.npz",
            timesteps=np.arange(1, n_written + 1, dtype=np.int64) * size.eval_every,
            results=results,
            ep_lengths=np.full(results.shape, TIMES_UP, dtype=np.int32),
        )
    record = _make_record(plan, spec, size, "failed" if fate == "failed" else "completed")
    (folder / "run.json").write_text(json.dumps(record))


def _make_spec(plan: RunPlan, size: StudySize, study: str) -> dict[str, object]:
    return {
        "hyperparameters": {},
        "overridden": [],
        "python": None,
        "study": study,
        "framework": plan.framework,
        "algorithm": plan.algorithm,
        "env": f"{plan.task}-v4",
        "hps": plan.hps,
        "alignment": "common",
        "seed": plan.seed,
        "steps": size.steps,
        "eval_every": size.eval_every,
        "eval_episodes": size.episodes,
        "evaluation_seed": 0,
        "wrappers": plan.wrappers,
        "n_envs": plan.n_envs,
        "actors": 1,
        "threads": 1,
        "intervention": "none",
        "script": None,
        "save_policy": "last",
        "acceleration": "none",
        "replay": {"name": "uniform"},
        "device": "cpu",
        "diagnosis": {"mode": "off"},
        "logger": "none",
        "checkpoint_every": 20.0,
        "patches": True,
        "endpoint": "final",
        "evaluate_untrained": False,
        "env_kwargs": {},
        "env_wrappers": [],
    }


def _make_record(
    plan: RunPlan, spec: dict[str, object], size: StudySize, status: str
) -> dict[str, object]:
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
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="results folder; must not exist")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--variants", action="store_true", help="also other wrappers, n_envs")
    parser.add_argument("--flawless", action="store_true", help="no run failed or is missing")
    for flag in ("--seeds", "--evaluations", "--episodes", "--eval-every"):
        default = getattr(StudySize(), flag.removeprefix("--").replace("-", "_"))
        parser.add_argument(flag, type=int, default=default)
    options = vars(parser.parse_args(arguments))
    folder = options.pop("folder")
    if folder.exists():
        print(f"error: {folder}: exists. Give a folder that does not.", file=sys.stderr)
        return 2
    counts = write_study(folder, StudySize(**options | {"tasks": tuple(options["tasks"])}))
    words = ", ".join(f"{count} {fate}" for fate, count in counts.items())
    print(f"{folder}: {sum(counts.values())} runs, {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
