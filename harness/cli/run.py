"""`parallax run reproduce` and `run unlock`, for existing run folders.

`run reproduce` trains finished runs again, from a run folder or drawn at random from a file of
packed runs, and compares evaluations and weights. `run unlock` releases locks of dead processes.
"""

import argparse
import contextlib
import dataclasses
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parallax.harness.cli.arguments import RUNS_HELP, add_trust_argument, find_run_folders
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import forbid_imports_from
from parallax.harness.contract.run_spec import RunSpec, spec_from_dict
from parallax.harness.record.completeness import RunReading
from parallax.harness.record.files import UnusableError, escape_unprintable, parse_jobs, parse_seed
from parallax.harness.record.layout import PACKED_SUFFIX, RUN_FILE
from parallax.harness.record.lock import read_heartbeat, read_lock_owner, unlock_folder
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.run_process import RunOutcome
from parallax.harness.sweep.sweep import run_sweep
from parallax.harness.train.trust import list_named_code, request_confirmation, require_trust

_PROVENANCE_GROUPS = ("packages", "sources", "threads", "commit")
_DEFAULT_RUN_COUNT = 5
_EPILOG = """\
exit codes:
  0  evaluations and weights are identical
  1  they are not, or a run failed
  2  bad input

example:
  parallax run reproduce results/demo/HalfCheetah-v4/ppo/.../seed=0"""


def add_reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax run reproduce`."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "folder", type=Path, help="folder of a complete run, or a file of packed runs"
    )
    parser.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help=f"runs drawn at random from a file of packed runs (default: {_DEFAULT_RUN_COUNT})",
    )
    text = "random seed of the draw (default: %(default)s)"
    parser.add_argument("--seed", type=parse_seed, default=0, metavar="N", help=text)
    text = "runs trained at a time (default: %(default)s)"
    parser.add_argument("--jobs", type=parse_jobs, default=1, metavar="N", help=text)
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="save the new runs below this folder"
    )
    add_trust_argument(parser)


def run_reproduce(options: argparse.Namespace) -> int:
    """Train runs again and compare.

    Returns:
        0 when evaluations and weights are identical, 1 when not.
    """
    chosen = _select_runs(options.folder, options.runs, options.seed)
    with contextlib.ExitStack() as stack:
        output = options.output or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="parallax-reproduce-"))
        )
        return reproduce_runs(options.folder, chosen, output, options.jobs, trust=options.trust)


def _select_runs(place: Path, count: int | None, seed: int) -> list[RunReading]:
    """Return the runs to train again."""
    if _is_packed(place):
        return draw_runs(place, _DEFAULT_RUN_COUNT if count is None else count, seed)
    if count not in (None, 1) or seed:
        option = f"--seed={seed}" if count in (None, 1) else f"--runs={count}"
        raise SpecError(
            f"{option} draws from a file of packed runs, and {place} is not one: drop it."
        )
    before = read_run(place, with_evaluations=True)
    if not before.complete:
        raise SpecError(f"{place} holds no complete run to compare with ({before.reason}).")
    return [before]


def _is_packed(place: Path) -> bool:
    return place.suffix == PACKED_SUFFIX and place.is_file()


def draw_runs(file: Path, count: int, seed: int) -> list[RunReading]:
    """Draw complete runs from a file of packed runs, uniformly at random by `seed`."""
    # Imported late: a single run folder needs no pandas.
    from parallax.harness.record.packed import judge_row, read_rows

    try:
        judged = [
            judge_row(row, file)
            for row in read_rows(file)
            if row["not_used_because"] is None and row["run_json"] is not None
        ]
    except UnusableError as error:
        raise SpecError(f"{file}: {error}.") from error
    known = [reading for reading in judged if reading.complete]
    if not 1 <= count <= len(known):
        refused = [reading for reading in judged if not reading.complete]
        why = f" {len(refused)} others cannot be used ({refused[0].reason})." if refused else ""
        raise SpecError(
            f"--runs={count}: {file} holds {len(known)} complete runs with a record of their "
            f"own.{why} Give --runs from 1 to {max(len(known), 1)}."
        )
    chosen = np.random.default_rng(seed).choice(len(known), count, replace=False)
    return [known[i] for i in sorted(chosen)]


def reproduce_runs(
    source: Path,
    chosen: Sequence[RunReading],
    results_dir: Path,
    jobs: int = 1,
    *,
    trust: bool = False,
) -> int:
    """Train runs of `source` again below `results_dir` and print how they compare."""
    specs = [_spec_from_reading(before) for before in chosen]
    for target in (spec.folder(results_dir) for spec in specs):
        if read_run(target).complete:
            raise SpecError(
                f"--output {results_dir}: {target} already holds a complete run. "
                "Name another folder."
            )
    adapters = [before.content.get("adapter", "") for before in chosen]
    require_trust(source, list_named_code(specs, adapters), trust=trust)
    forbid_imports_from(before.folder for before in chosen)
    outcomes = run_sweep(specs, results_dir, n_jobs=jobs)
    several = _is_packed(source)
    same = 0
    for before, outcome in zip(chosen, outcomes, strict=True):
        if several:
            print(f"\n{escape_unprintable(str(before.folder.relative_to(source)))}")
        same += _compare_run(before, outcome)
    if several:
        print(f"\n{same} of {len(chosen)} runs are identical.")
    return 0 if same == len(chosen) else 1


def _compare_run(before: RunReading, outcome: RunOutcome) -> bool:
    """Print how a new run compares; return True where evaluations and weights are identical."""
    if outcome.status != "completed":
        reason = outcome.failure or outcome.status
        print(escape_unprintable(f"The new run did not complete: {reason}"), file=sys.stderr)
        return False
    after = read_run(outcome.folder, with_evaluations=True)
    differ = compare_evaluations(before, after)
    weights = before.content["weights_sha256"] == after.content["weights_sha256"]
    print(f"Evaluations: {differ or 'identical'}")
    print(f"Weights:     {'identical' if weights else 'different'}")
    if (count := outcome.spec.actors) > 1:
        print(f"Runs with actors={count} differ each time: the order of their steps is chance.")
    differences = compare_provenance(before.content["provenance"], after.content["provenance"])
    print("Software and machine: " + ("the same" if not differences else "different"))
    for name, (old, new) in differences.items():
        print(escape_unprintable(f"  {name}: {old} then, {new} now"))
    return weights and not differ


def _spec_from_reading(run: RunReading) -> RunSpec:
    """Return the spec of a recorded run, after checking that it can be compared with."""
    try:
        spec = spec_from_dict(run.spec)
        for name in ("weights_sha256", "provenance"):
            if run.content.get(name) is None:
                raise SpecError(f"{name} is missing.")
    except SpecError as error:
        raise SpecError(
            f"{run.folder / RUN_FILE} cannot be compared with: {error} "
            "Name a folder as Parallax wrote it."
        ) from error
    # A record from someone else must not send the new run to a service such as W&B.
    return dataclasses.replace(spec, logger="none")


def compare_evaluations(before: RunReading, after: RunReading) -> str:
    """Describe how the evaluations of two complete runs differ; empty if they are equal."""
    old, new = before.evaluations, after.evaluations
    assert old is not None and new is not None
    if old.timesteps.tolist() != new.timesteps.tolist():
        return "made at different steps"
    if old.results.shape != new.results.shape:
        return "of different numbers of episodes"
    returns, lengths = old.results != new.results, old.ep_lengths != new.ep_lengths
    different = (returns | lengths).any(axis=1)
    if not different.any():
        return ""
    first = int(old.timesteps[different.argmax()])
    gap = float(np.abs(old.results.mean(axis=1) - new.results.mean(axis=1)).max())
    what = f"mean returns by up to {gap:.4g}" if returns.any() else "in lengths of episodes only"
    return f"{different.sum()} of {len(different)} differ, from step {first} on; {what}"


def compare_provenance(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return differences in software and machine, by name: the recorded and the current value."""
    old, new = _flatten_provenance(before), _flatten_provenance(after)
    return {
        name: (old.get(name, "absent"), new.get(name, "absent"))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }


def _flatten_provenance(provenance: Mapping[str, Any]) -> dict[str, Any]:
    relevant = ("python", "platform", "processor")
    flat = {name: provenance.get(name) for name in relevant}
    for group in _PROVENANCE_GROUPS:
        flat |= {f"{group} {name}": value for name, value in provenance.get(group, {}).items()}
    return flat


def add_unlock_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax run unlock`."""
    parser.add_argument("folder", type=Path, help=RUNS_HELP)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run_unlock(options: argparse.Namespace) -> int:
    """Release the locks at or below a folder, after printing the owners and asking.

    Returns:
        0 where every lock was released; 1 where the user declined, a process is alive, or a lock
        could not be released.
    """
    found = find_run_folders(options.folder)
    owners = {f: owner for f in found if (owner := read_lock_owner(f)) is not None}
    if not owners:
        print("No run there is locked.")
        return 0
    alive = {f: owner for f, owner in owners.items() if owner.is_local and owner.is_running()}
    for folder, owner in owners.items():
        print(escape_unprintable(str(folder)))
        print(f"    {escape_unprintable(_describe_owner(folder, owner))}")
    for owner in alive.values():
        print(f"Process {owner.pid} of this machine is alive: end it with `kill {owner.pid}`.")
    rest = {folder: owner for folder, owner in owners.items() if folder not in alive}
    question = f"Release {len(rest)} locks? A run that still trains elsewhere will stop."
    if not rest or not request_confirmation(question, yes=options.yes):
        return 1
    released = sum(_unlock_run(folder, owner) for folder, owner in rest.items())
    print(f"{released} locks were released. Run the same sweep again to resume incomplete runs.")
    return 1 if alive or released < len(rest) else 0


def _unlock_run(folder: Path, owner: LockOwner) -> bool:
    """Release one lock; return False and print why where that fails."""
    try:
        unlock_folder(folder, owner)
    except OSError as error:
        words = f"{folder}: its lock cannot be released ({error.strerror})."
        print(escape_unprintable(words), file=sys.stderr)
        return False
    return True


def _describe_owner(folder: Path, owner: LockOwner) -> str:
    beat = read_heartbeat(folder)
    try:
        seen = time.strftime("%a %d %b %Y %H:%M:%S", time.localtime(beat.time)) if beat else ""
    except (OverflowError, ValueError, OSError):
        seen = "an impossible time"
    last = f"last heartbeat at {seen} by its own clock" if seen else "no heartbeat"
    return f"locked by {owner.describe()}, {last}"
