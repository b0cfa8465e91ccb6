"""`python -m harness rerun RUN_FOLDER`: runs a finished run again and compares."""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import exit_code
from harness.fields import SpecError
from harness.recording import incompleteness, read_run
from harness.run_spec import spec_from_dict
from harness.sweep import run_all


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0 when evaluations and weights are identical, 1 when not, 2 for bad input.
    """
    parser = argparse.ArgumentParser(prog="python -m harness rerun", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a complete run")
    parser.add_argument("--keep", type=Path, help="keep the new run below this folder")
    options = parser.parse_args(arguments)
    try:
        if options.keep:
            return rerun(options.folder, options.keep)
        with tempfile.TemporaryDirectory(prefix="parallax-rerun-") as scratch:
            return rerun(options.folder, Path(scratch))
    except (SpecError, KeyboardInterrupt) as error:
        return exit_code(error)


def rerun(folder: Path, results_dir: Path) -> int:
    """Runs `folder` again below `results_dir` and prints what came out.

    Raises:
        SpecError: The folder holds no complete run.
    """
    reason = incompleteness(folder)
    if reason:
        raise SpecError(f"{folder} holds no complete run to compare with ({reason}).")
    before = read_run(folder)
    (outcome,) = run_all([spec_from_dict(before["spec"])], results_dir, n_jobs=1)
    if outcome.status not in ("completed", "skipped"):
        print(f"The new run did not complete: {outcome.failure}", file=sys.stderr)
        return 1
    after = read_run(outcome.folder)
    same = compare_evaluations(folder, outcome.folder)
    weights = before["weights_sha256"] == after["weights_sha256"]
    print(f"Evaluations: {same or 'identical'}")
    print(f"Weights:     {'identical' if weights else 'different'}")
    differences = compare_provenance(before["provenance"], after["provenance"])
    print("Software and machine: " + ("the same" if not differences else "different"))
    for name, (old, new) in differences.items():
        print(f"  {name}: {old} then, {new} now")
    return 0 if weights and not same else 1


def compare_evaluations(before: Path, after: Path) -> str:
    """How the evaluations of two runs differ, in words; empty where they are identical."""
    with np.load(before / "evaluations.npz") as old, np.load(after / "evaluations.npz") as new:
        if old["timesteps"].tolist() != new["timesteps"].tolist():
            return "made at different steps"
        if old["results"].shape != new["results"].shape:
            return "of different numbers of episodes"
        different = (old["results"] != new["results"]).any(axis=1)
        if not different.any():
            return ""
        first = int(old["timesteps"][different.argmax()])
        gap = float(np.abs(old["results"].mean(axis=1) - new["results"].mean(axis=1)).max())
    return (
        f"{different.sum()} of {len(different)} differ, from step {first} on; "
        f"mean returns by up to {gap:.4g}"
    )


def compare_provenance(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """What differs in software and machine, by name: the value then and the value now."""
    old, new = _flat(before), _flat(after)
    return {
        name: (old.get(name, "absent"), new.get(name, "absent"))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }


def _flat(provenance: Mapping[str, Any]) -> dict[str, Any]:
    relevant = ("python", "platform", "processor")
    flat = {name: provenance.get(name) for name in relevant}
    for group in ("packages", "sources", "threads", "commit"):
        flat |= {f"{group} {name}": value for name, value in provenance.get(group, {}).items()}
    return flat
