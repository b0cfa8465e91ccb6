"""`python -m harness rerun RUN_FOLDER`: runs a finished run again and compares."""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.cli.errors import exit_code
from harness.cli.trust import code_of_specs, require_trust
from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec, spec_from_dict
from harness.record.layout import RUN_FILE
from harness.record.reading import Reading, read_run
from harness.sweep.sweep import run_all

_GROUPS = ("packages", "sources", "threads", "commit")


def main(arguments: Sequence[str]) -> int:
    """Command line.

    Returns:
        0 when evaluations and weights are identical, 1 when not, 2 for bad input.
    """
    parser = argparse.ArgumentParser(prog="python -m harness rerun", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a complete run")
    parser.add_argument("--keep", type=Path, help="keep the new run below this folder")
    parser.add_argument(
        "--trust", action="store_true", help="runs what the folder names without asking"
    )
    options = parser.parse_args(arguments)
    try:
        if options.keep:
            return rerun(options.folder, options.keep, trust=options.trust)
        with tempfile.TemporaryDirectory(prefix="parallax-rerun-") as scratch:
            return rerun(options.folder, Path(scratch), trust=options.trust)
    except (SpecError, KeyboardInterrupt) as error:
        return exit_code(error)


def rerun(folder: Path, results_dir: Path, *, trust: bool = False) -> int:
    """Runs `folder` again below `results_dir` and prints what came out.

    Args:
        folder: Folder of a complete run.
        results_dir: Where the new run goes.
        trust: Whether code that the folder names may run without asking.

    Raises:
        SpecError: The folder holds no complete run, the new one would not be made, or the
            folder names code that nobody has trusted.
    """
    before = read_run(folder, with_evaluations=True)
    if not before.complete:
        raise SpecError(f"{folder} holds no complete run to compare with ({before.reason}).")
    spec = _spec_of(before)
    target = spec.folder(results_dir)
    if read_run(target).complete:
        raise SpecError(
            f"--keep {results_dir}: {target} holds a complete run already, so that none would be "
            "made. Name another folder, or leave --keep away."
        )
    require_trust(folder, code_of_specs([spec]), trust=trust)
    (outcome,) = run_all([spec], results_dir, n_jobs=1)
    if outcome.status != "completed":
        reason = outcome.failure or outcome.status
        print(f"The new run did not complete: {reason}", file=sys.stderr)
        return 1
    after = read_run(outcome.folder, with_evaluations=True)
    same = compare_evaluations(before, after)
    weights = before.content["weights_sha256"] == after.content["weights_sha256"]
    print(f"Evaluations: {same or 'identical'}")
    print(f"Weights:     {'identical' if weights else 'different'}")
    differences = compare_provenance(before.content["provenance"], after.content["provenance"])
    print("Software and machine: " + ("the same" if not differences else "different"))
    for name, (old, new) in differences.items():
        print(f"  {name}: {old} then, {new} now")
    return 0 if weights and not same else 1


def _spec_of(run: Reading) -> RunSpec:
    """The spec of a recorded run that has all that a comparison needs."""
    try:
        spec = spec_from_dict(run.spec)
        for name in ("weights_sha256", "provenance"):
            if run.content.get(name) is None:
                raise SpecError(f"{name} is missing.")
    except SpecError as error:
        raise SpecError(
            f"{run.folder / RUN_FILE} cannot be compared with: {error} "
            "Name a folder as it was recorded."
        ) from error
    return spec


def compare_evaluations(before: Reading, after: Reading) -> str:
    """How the evaluations of two complete runs differ, in words; empty where they do not."""
    old, new = before.evaluations, after.evaluations
    assert old is not None and new is not None
    if old.timesteps.tolist() != new.timesteps.tolist():
        return "made at different steps"
    if old.results.shape != new.results.shape:
        return "of different numbers of episodes"
    different = (old.results != new.results).any(axis=1)
    if not different.any():
        return ""
    first = int(old.timesteps[different.argmax()])
    gap = float(np.abs(old.results.mean(axis=1) - new.results.mean(axis=1)).max())
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
    for group in _GROUPS:
        flat |= {f"{group} {name}": value for name, value in provenance.get(group, {}).items()}
    return flat
