"""`parallax study pack`: all runs of a study, and your own beside them, in one Parquet file.

Merged runs take the name of the study; neither input is changed.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from parallax.analysis.commands.common import (
    RESULTS_HELP,
    CommandError,
    check_replaced_runs,
    open_output_folder,
    read_results,
)
from parallax.analysis.data.packed import read_record_text, state_all_settings, write_packed
from parallax.analysis.data.runs import CompletedRun, ExcludedRun, RunCollection
from parallax.analysis.labels import get_label
from parallax.harness.record.files import print_lines
from parallax.harness.record.layout import PACKED_SUFFIX

_MAX_NAMED_RUNS = 3  # of the runs that are in both


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("results", type=Path, help=RESULTS_HELP)
    parser.add_argument(
        "merged",
        type=Path,
        nargs="?",
        help="more runs to add to the study, such as your own runs to a published study, so that "
        f"verdicts compare them; {RESULTS_HELP}",
    )
    text = "study to add the runs of MERGED to, if RESULTS holds several"
    parser.add_argument("--study", metavar="NAME", help=text)
    text = f"file to write (default: RESULTS{PACKED_SUFFIX}, or <RESULTS>-and-<MERGED>"
    text += f"{PACKED_SUFFIX} beside MERGED)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=text)
    parser.add_argument("--anonymize", action="store_true", help="leave out host names and paths")


def run(options: argparse.Namespace) -> int:
    """Write the file and print its path.

    Raises:
        CommandError: There are no runs, both inputs have the same run, or nowhere to write.
    """
    found = state_all_settings(read_results(options.results))
    path = options.results.absolute().with_suffix(PACKED_SUFFIX)
    if options.study is not None and options.merged is None:
        raise CommandError(f"--study={options.study}: also name the runs to add to it.")
    if options.merged is not None:
        others = state_all_settings(read_results(options.merged))
        found = merge_runs(found, others, _choose_study_name(found, options.study))
        beside = options.merged.absolute()
        path = beside.with_name(f"{options.results.stem}-and-{beside.stem}{PACKED_SUFFIX}")
    pack_runs(found, options.output or path, anonymize=options.anonymize)
    return 0


def pack_runs(found: RunCollection, path: Path, *, anonymize: bool = False) -> None:
    """Write a file of packed runs and print a summary of it.

    Raises:
        CommandError: There is nowhere to write, or the name does not end as a Parquet file's.
    """
    if path.suffix != PACKED_SUFFIX:
        raise CommandError(f"--output={path}: give a file that ends in {PACKED_SUFFIX}.")
    check_replaced_runs(path, found)
    with open_output_folder(path.parent):
        write_packed(found, path, anonymize=anonymize)
    counts = f"{len(found.runs)} runs that can be used, {len(found.excluded)} that cannot"
    reading = f"Read it as a folder of runs: parallax report {path}"
    print_lines([f"Packed: {path}: {counts}.", reading])


def _choose_study_name(found: RunCollection, given: str | None) -> str:
    names = sorted({item.id.cell.study for item in found.folders})
    if given is None and len(names) == 1:
        return names[0]
    if given is not None and given in names:
        return given
    raise CommandError(f"--study={given}: say which study the runs join: {', '.join(names)}.")


def merge_runs(study: RunCollection, others: RunCollection, name: str) -> RunCollection:
    """Return the runs of both, as if the others had been run in the study.

    The others get the study's name, and folder names as if they were in its folder.

    Raises:
        CommandError: A run of the others is in the study already.
    """
    known = {item.id for item in study.folders}
    used = {path for item in study.folders for path in item.path.parents}
    target, number = study.root / f"merged from {others.root.stem}", 1
    while target in used:  # another folder of this name was merged before
        number += 1
        target = study.root / f"merged from {others.root.stem} {number}"
    moved = [_move_run(item, others.root, target, name) for item in others.folders]
    if twice := [item for item in moved if item.id in known]:
        raise CommandError(
            f"{others.root}: {len(twice)} of its runs are in the study already: "
            f"{_format_run_names(twice)}. Take them out, or train them under another study.name."
        )
    runs = [item for item in moved if isinstance(item, CompletedRun)]
    excluded = [item for item in moved if isinstance(item, ExcludedRun)]
    return RunCollection(study.root, (*study.runs, *runs), (*study.excluded, *excluded))


def _move_run(
    item: CompletedRun | ExcludedRun, root: Path, target: Path, name: str
) -> CompletedRun | ExcludedRun:
    cell = dataclasses.replace(item.id.cell, study=name)
    relative = Path(item.path.name) if item.path == root else item.path.relative_to(root)
    return dataclasses.replace(
        item,
        id=dataclasses.replace(item.id, cell=cell),
        path=target / relative,
        record=read_record_text(item),
    )


def _format_run_names(items: Sequence[CompletedRun | ExcludedRun]) -> str:
    names = [
        f"{get_label(item.id.framework)} {item.id.cell.algorithm} on {item.id.cell.env}, "
        f"{item.id.cell.hps}, seed {item.id.seed}"
        for item in items[:_MAX_NAMED_RUNS]
    ]
    more = f" and {len(items) - _MAX_NAMED_RUNS} more" if len(items) > _MAX_NAMED_RUNS else ""
    return "; ".join(names) + more
