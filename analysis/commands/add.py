"""Puts runs of one's own beside those of a study, so that verdicts compare them.

The runs take the name of the study; nothing is written to either of the two.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from analysis.commands.pack import write
from analysis.commands.shell import RESULTS_HELP, CommandError, read_results
from analysis.data.packed import record_of
from analysis.data.runs import Excluded, Read, Run
from analysis.words import label
from harness.record.layout import PACKED_SUFFIX

_NAMED = 3  # runs that are in both, at most


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument("study", type=Path, help=f"the study: {RESULTS_HELP}")
    parser.add_argument("folder", type=Path, help=f"what to put beside it: {RESULTS_HELP}")
    parser.add_argument("--name", help="study that they join, where the first has several")
    parser.add_argument(
        "--output",
        type=Path,
        help=f"file; default: <STUDY>-and-<FOLDER>{PACKED_SUFFIX}, beside FOLDER",
    )


def run(options: argparse.Namespace) -> int:
    """Writes one file with both and says how to look at it.

    Raises:
        CommandError: There are no runs, or both have a run of one name, or nowhere to write.
    """
    study, others = read_results(options.study), read_results(options.folder)
    name = _study_name(study, options.name)
    joined = join(study, others, name)
    beside = options.folder.absolute()
    path = options.output or beside.with_name(
        f"{options.study.stem}-and-{beside.stem}{PACKED_SUFFIX}"
    )
    write(joined, path)
    return 0


def _study_name(found: Read, asked: str | None) -> str:
    names = sorted({item.id.cell.study for item in _items(found)})
    if asked is None and len(names) == 1:
        return names[0]
    if asked is not None and asked in names:
        return asked
    raise CommandError(f"--name={asked}: say which study the runs join: {', '.join(names)}.")


def join(study: Read, others: Read, name: str) -> Read:
    """Both, as if the others had been run in the study.

    Args:
        study: Keeps its names.
        others: Get the study's name; folders are named as if they lay in that of the study.
        name: The study that they join.

    Raises:
        CommandError: A run of the others is in the study already.
    """
    moved = [_renamed(item, others.root, study.root, name) for item in _items(others)]
    known = {item.id for item in _items(study)}
    if twice := [item for item in moved if item.id in known]:
        raise CommandError(
            f"{others.root}: {len(twice)} of its runs are in the study already: {_list(twice)}. "
            "Take them out, or give them a name of their own with study.name when they are run."
        )
    runs = [item for item in moved if isinstance(item, Run)]
    excluded = [item for item in moved if isinstance(item, Excluded)]
    return Read(study.root, (*study.runs, *runs), (*study.excluded, *excluded))


def _items(found: Read) -> Sequence[Run | Excluded]:
    return [*found.runs, *found.excluded]


def _renamed(item: Run | Excluded, root: Path, target: Path, name: str) -> Run | Excluded:
    cell = dataclasses.replace(item.id.cell, study=name)
    relative = Path(item.path.name) if item.path == root else item.path.relative_to(root)
    return dataclasses.replace(
        item,
        id=dataclasses.replace(item.id, cell=cell),
        path=target / f"added from {root.stem}" / relative,
        record=record_of(item),
    )


def _list(items: Sequence[Run | Excluded]) -> str:
    names = [
        f"{label(item.id.framework)} {item.id.cell.algorithm} on {item.id.cell.env}, "
        f"{item.id.cell.hps}, seed {item.id.seed}"
        for item in items[:_NAMED]
    ]
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return "; ".join(names) + more
