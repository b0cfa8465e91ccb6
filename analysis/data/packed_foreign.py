"""Runs of Stable-Baselines3 in files that were packed before `parallax import` existed.

They have no record. The number of requested steps is what the Zoo's own files said, or is taken
from the other runs of the same task.
"""

import collections
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parallax.analysis.data.runs import CompletedRun, ExcludedRun, RunId, StudyCell
from parallax.harness.record.files import UnusableError
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.reading import check_finite

_MAX_STEPS = 2**53


def judge_foreign(
    run_id: RunId, folder: Path, evaluations: RunEvaluations, spec: dict[str, Any]
) -> CompletedRun | ExcludedRun:
    """Judge a run of another tool by itself.

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
        runs: Every run of `judge_foreign` that can be used.
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


def _get_evaluation_interval(timesteps: Any) -> int:
    return int(timesteps[-1] - timesteps[-2]) if len(timesteps) > 1 else int(timesteps[-1])


def _hash_evaluations(run: CompletedRun) -> str:
    """Equal for copies; the folder where returns never vary, as a solved task's may not."""
    if np.ptp(run.results) == 0:
        return str(run.path)
    parts = (run.id.cell, run.timesteps.tobytes(), run.results.tobytes(), run.ep_lengths.tobytes())
    return hashlib.sha256(repr(parts).encode()).hexdigest()
