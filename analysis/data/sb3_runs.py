"""Runs of Stable-Baselines3 and RL Baselines3 Zoo: `<algorithm>/<env>_<n>/evaluations.npz`.

Such folders hold no status. The number of requested steps is read from the Zoo's own files, or
taken from the other runs of the same task.
"""

import collections
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from parallax.analysis.data.runs import CompletedRun, ExcludedRun, RunId, StudyCell
from parallax.harness.record.files import UnusableError, read_bounded
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.reading import check_finite, read_evaluations

FRAMEWORK = "sb3"
ZOO_HPS, UNKNOWN_HPS = "rl_zoo3", "unknown"

_NUMBERED_FOLDER = re.compile(r"(.+)_(\d{1,18})")
_MAX_BYTES = 2**20
_MAX_STEPS = 2**53
_MAX_NESTING = 8


class _ZooYamlLoader(yaml.SafeLoader):
    """Reads the Zoo's files as plain lists; nothing in them is executed."""


_ZooYamlLoader.add_multi_constructor(
    "tag:yaml.org,2002:python/", lambda loader, _, node: loader.construct_sequence(node, deep=True)
)


def read_sb3_run(folder: Path) -> CompletedRun | ExcludedRun:
    """Read one folder with an evaluations.npz and no run.json.

    Args:
        folder: Absolute path; the name of its parent is the algorithm.

    Returns:
        The run, with what the Zoo's files say as its `spec`, or why it is not used.
    """
    spec = _read_zoo_settings(folder)
    run_id = _identify_run(folder, spec)
    try:
        evaluations = read_evaluations(folder)
        return judge_foreign(run_id, folder, evaluations, spec)
    except UnusableError as error:
        return ExcludedRun(run_id, folder, str(error))


def judge_foreign(
    run_id: RunId, folder: Path, evaluations: RunEvaluations, spec: dict[str, Any]
) -> CompletedRun | ExcludedRun:
    """Judge a run of another tool by itself, from a folder or from a packed file.

    Args:
        run_id: Which run it is.
        folder: Its folder.
        evaluations: Its evaluations.
        spec: What the Zoo's files say, as `parse_settings` allows it.
    """
    timesteps = evaluations.timesteps
    requested = spec.get("n_timesteps")
    try:
        check_finite(evaluations)
        if requested and timesteps[-1] + _get_evaluation_interval(timesteps) <= requested:
            raise UnusableError(
                f"too short: last evaluation at step {timesteps[-1]:,} of {requested:,}"
            )
    except UnusableError as error:
        return ExcludedRun(run_id, folder, str(error))
    return CompletedRun(
        run_id, folder, timesteps, evaluations.results, evaluations.ep_lengths, spec
    )


def parse_settings(text: str | None) -> dict[str, Any]:
    """Read what the Zoo's files said of a run from a packed file.

    Raises:
        UnusableError: It holds something else than `n_timesteps` and `zoo_seed`, whole numbers.
    """
    try:
        settings = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise UnusableError(
            "corrupted row: column spec is no JSON, and there is no run_json"
        ) from error
    if (
        not isinstance(settings, dict)
        or not settings.keys() <= {"n_timesteps", "zoo_seed"}
        or not all(isinstance(value, int) for value in settings.values())
        or not 0 < settings.get("n_timesteps", 1) <= _MAX_STEPS
    ):
        raise UnusableError(
            "corrupted row: column spec holds something else than n_timesteps and zoo_seed, "
            "whole numbers, which is all that is known of runs of other tools"
        )
    return settings


def exclude_copies_and_short_runs(runs: Sequence[CompletedRun]) -> list[CompletedRun | ExcludedRun]:
    """Find foreign runs that only stand out beside the others: copies and short ones.

    A run is too short where another of the same task was evaluated at least one interval of
    evaluations later.

    Args:
        runs: Every run of `read_sb3_run`.
    """
    ends: dict[tuple[StudyCell, str], int] = collections.defaultdict(int)
    for run in runs:
        key = (run.id.cell, run.id.framework)
        ends[key] = max(ends[key], int(run.timesteps[-1]))
    seen: dict[str, CompletedRun] = {}
    outcome: list[CompletedRun | ExcludedRun] = []
    for run in runs:
        last, end = int(run.timesteps[-1]), ends[run.id.cell, run.id.framework]
        twin = seen.setdefault(_hash_evaluations(run), run)
        if twin is not run:
            reason = f"same evaluations as {twin.path.name}, which is used"
            outcome.append(ExcludedRun(run.id, run.path, reason, completed=True))
        elif last + _get_evaluation_interval(run.timesteps) <= end:
            reason = f"too short: last evaluation at step {last:,}; another run reached {end:,}"
            outcome.append(ExcludedRun(run.id, run.path, reason))
        else:
            outcome.append(run)
    return outcome


def _identify_run(folder: Path, spec: dict[str, Any]) -> RunId:
    match = _NUMBERED_FOLDER.fullmatch(folder.name)
    env, number = (match[1], int(match[2])) if match else (folder.name, None)
    study = folder.parent.parent.name or "?"
    hps = ZOO_HPS if spec else UNKNOWN_HPS
    return RunId(StudyCell(study, env, folder.parent.name, hps, ""), FRAMEWORK, number)


def _read_zoo_settings(folder: Path) -> dict[str, Any]:
    """Seed and number of steps from `<env>/args.yml` and `<env>/config.yml`, where there."""
    settings: dict[str, Any] = {}
    for name in ("config.yml", "args.yml"):  # the command line goes before the recipe
        for path in sorted(folder.glob(f"*/{name}")):
            found = _read_yaml_pairs(path)
            steps = found.get("n_timesteps")
            if isinstance(steps, int | float) and 0 < steps <= _MAX_STEPS:
                settings["n_timesteps"] = int(steps)
            if isinstance(found.get("seed"), int):
                settings["zoo_seed"] = found["seed"]
    return settings


def _read_yaml_pairs(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(read_bounded(path, _MAX_BYTES).decode(), Loader=_ZooYamlLoader)
    except Exception:  # values that do not fit their tags raise half a dozen different types
        return {}
    for _ in range(_MAX_NESTING):  # a list may hold itself
        if isinstance(content, list) and len(content) == 1:
            content = content[0]
    if isinstance(content, dict):
        return content
    items = content if isinstance(content, list) else []
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2]
    return {name: value for name, value in pairs if isinstance(name, str)}


def _get_evaluation_interval(timesteps: Any) -> int:
    return int(timesteps[-1] - timesteps[-2]) if len(timesteps) > 1 else int(timesteps[-1])


def _hash_evaluations(run: CompletedRun) -> str:
    """Equal for copies; the folder where returns never vary, as a solved task's may not."""
    if np.ptp(run.results) == 0:
        return str(run.path)
    parts = (run.id.cell, run.timesteps.tobytes(), run.results.tobytes(), run.ep_lengths.tobytes())
    return hashlib.sha256(repr(parts).encode()).hexdigest()
