"""Runs of Stable-Baselines3 and RL Baselines3 Zoo: `<algorithm>/<env>_<n>/evaluations.npz`.

Such folders hold no status. How many steps were asked for stands in the Zoo's own files, or is
taken from the other runs of the same task.
"""

import collections
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.data.runs import Cell, Excluded, Run, RunId
from harness.record.completeness import check_finite
from harness.record.files import Unusable, read_bounded
from harness.record.reading import read_evaluations

FRAMEWORK = "sb3"
ZOO_HPS, UNKNOWN_HPS = "rl_zoo3", "unknown"

_NUMBERED = re.compile(r"(.+)_(\d{1,18})")
_MOST_BYTES = 2**20
_MOST_STEPS = 2**53
_MOST_NESTED = 8


class _Loader(yaml.SafeLoader):
    """Reads the Zoo's files as plain lists; nothing in them is executed."""


_Loader.add_multi_constructor(
    "tag:yaml.org,2002:python/", lambda loader, _, node: loader.construct_sequence(node, deep=True)
)


def read_foreign(folder: Path) -> Run | Excluded:
    """Reads one folder with an evaluations.npz and no run.json.

    Args:
        folder: Absolute path; the name of its parent is the algorithm.

    Returns:
        The run, with what the Zoo's files say as its `spec`, or why it is not used.
    """
    spec = _zoo_settings(folder)
    run_id = _identify(folder, spec)
    try:
        evaluations = read_evaluations(folder)
        check_finite(evaluations)
        timesteps = evaluations.timesteps
        asked = spec.get("n_timesteps")
        if asked and timesteps[-1] + _spacing(timesteps) <= asked:
            raise Unusable(f"too short: last evaluation at step {timesteps[-1]:,} of {asked:,}")
        return Run(run_id, folder, timesteps, evaluations.results, evaluations.ep_lengths, spec)
    except Unusable as error:
        return Excluded(run_id, folder, str(error))


def judge_together(runs: Sequence[Run]) -> list[Run | Excluded]:
    """Finds foreign runs that only stand out beside the others: copies and short ones.

    A run is too short where another of the same task was evaluated at least one interval of
    evaluations later.

    Args:
        runs: Every run of `read_foreign`.
    """
    ends: dict[tuple[Cell, str], int] = collections.defaultdict(int)
    for run in runs:
        key = (run.id.cell, run.id.framework)
        ends[key] = max(ends[key], int(run.timesteps[-1]))
    seen: dict[str, Run] = {}
    outcome: list[Run | Excluded] = []
    for run in runs:
        last, end = int(run.timesteps[-1]), ends[run.id.cell, run.id.framework]
        twin = seen.setdefault(_fingerprint(run), run)
        if twin is not run:
            reason = f"same evaluations as {twin.path.name}, which is used"
            outcome.append(Excluded(run.id, run.path, reason, completed=True))
        elif last + _spacing(run.timesteps) <= end:
            reason = f"too short: last evaluation at step {last:,}; another run reached {end:,}"
            outcome.append(Excluded(run.id, run.path, reason))
        else:
            outcome.append(run)
    return outcome


def _identify(folder: Path, spec: dict[str, Any]) -> RunId:
    match = _NUMBERED.fullmatch(folder.name)
    env, number = (match[1], int(match[2])) if match else (folder.name, None)
    study = folder.parent.parent.name or "?"
    hps = ZOO_HPS if spec else UNKNOWN_HPS
    return RunId(Cell(study, env, folder.parent.name, hps, ""), FRAMEWORK, number)


def _zoo_settings(folder: Path) -> dict[str, Any]:
    """Seed and number of steps from `<env>/args.yml` and `<env>/config.yml`, where there."""
    settings: dict[str, Any] = {}
    for name in ("config.yml", "args.yml"):  # the command line goes before the recipe
        for path in sorted(folder.glob(f"*/{name}")):
            found = _pairs(path)
            steps = found.get("n_timesteps")
            if isinstance(steps, int | float) and 0 < steps <= _MOST_STEPS:
                settings["n_timesteps"] = int(steps)
            if isinstance(found.get("seed"), int):
                settings["zoo_seed"] = found["seed"]
    return settings


def _pairs(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(read_bounded(path, _MOST_BYTES).decode(), Loader=_Loader)
    except Exception:  # values that do not fit their tags raise half a dozen different types
        return {}
    for _ in range(_MOST_NESTED):  # a list may hold itself
        if isinstance(content, list) and len(content) == 1:
            content = content[0]
    if isinstance(content, dict):
        return content
    items = content if isinstance(content, list) else []
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2]
    return {name: value for name, value in pairs if isinstance(name, str)}


def _spacing(timesteps: Any) -> int:
    return int(timesteps[-1] - timesteps[-2]) if len(timesteps) > 1 else int(timesteps[-1])


def _fingerprint(run: Run) -> str:
    """Equal for copies; the folder where returns never vary, as a solved task's may not."""
    if np.ptp(run.results) == 0:
        return str(run.path)
    parts = (run.id.cell, run.timesteps.tobytes(), run.results.tobytes(), run.ep_lengths.tobytes())
    return hashlib.sha256(repr(parts).encode()).hexdigest()
