"""Reads every file of every run, whole, and names those that are damaged."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from harness.recording import STATUSES, incompleteness, read_run

_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    zipfile.BadZipFile,
    pyarrow.ArrowException,
)


def find_damage(folder: Path) -> dict[str, str]:
    """What is wrong with the files of one run, by file name; nothing where all is well.

    Files of runs that are not complete are read as well: each is written whole or not at all.
    """
    damage = {}
    checks: dict[str, Callable[[Path], str]] = {
        "run.json": _check_run,
        "evaluations.npz": _check_evaluations,
        "trace.parquet": _check_trace,
    }
    for name, check in checks.items():
        path = folder / name
        if not path.exists() and name != "run.json":
            continue
        try:
            problem = check(path)
        except _DAMAGE as error:
            problem = f"cannot be read: {error}"
        if problem:
            damage[name] = problem
    reason = incompleteness(folder)
    if not damage and _claims_completion(folder) and reason:
        damage["evaluations.npz"] = reason
    return damage


def _check_run(path: Path) -> str:
    run = read_run(path.parent)
    missing = [name for name in ("spec", "steps", "timings", "failure") if name not in run]
    if missing:
        return f"has no {', '.join(missing)}"
    return "" if run.get("status") in STATUSES else f"status {run.get('status')!r} is not known"


def _check_evaluations(path: Path) -> str:
    with np.load(path) as file:
        steps, returns, lengths = (file[n] for n in ("timesteps", "results", "ep_lengths"))
    if not len(steps) == len(returns) == len(lengths) or returns.shape != lengths.shape:
        return f"arrays of different sizes: {steps.shape}, {returns.shape}, {lengths.shape}"
    if (np.diff(steps) <= 0).any():
        return "steps do not increase"
    # A diverged run ends as failed, with the returns that show it.
    if not np.isfinite(returns).all() and _claims_completion(path.parent):
        return f"{(~np.isfinite(returns)).sum()} returns are not finite"
    return ""


def _check_trace(path: Path) -> str:
    names = pyarrow.parquet.read_table(path).column_names
    return "" if names == ["step", "metric", "value"] else f"has columns {', '.join(names)}"


def _claims_completion(folder: Path) -> bool:
    try:
        return bool(read_run(folder)["status"] == "completed")
    except (OSError, ValueError, KeyError):
        return False
