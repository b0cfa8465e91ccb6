"""Shared parts of commands: verdict options, reading results, output folder, printing."""

import argparse
import collections
import contextlib
import io
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track

from parallax.analysis.data.load import combine_runs, read_runs
from parallax.analysis.data.runs import LoadedRuns, RunCollection
from parallax.analysis.stats.intervals import INTERVAL_METHODS
from parallax.analysis.stats.learning_curves import ENDPOINT_FORMS, FINAL, Endpoint
from parallax.analysis.verdicts.options import FAMILIES, MARGINS, VerdictOptions
from parallax.harness.record.files import UnusableError, escape_unprintable, parse_jobs, parse_seed
from parallax.harness.record.layout import ANALYSIS_FOLDER

_MAX_CONSOLE_WIDTH = 100  # columns
MAX_IMPLEMENTATIONS = 100  # frameworks and scripts in a study
_MAX_REASONS = 5
_MIN_ALPHA = 1e-6  # tails of the noncentral t distribution are not known far below
_MAX_SCORE = 3e38  # returns are float32 in some frameworks; the square of a difference is finite
TABLES_FOLDER, FIGURES_FOLDER = OUTPUT_SUBFOLDERS = "tables", "figures"
RESULTS_HELP = "results folder, study, a folder in it, or a file of packed runs"
T = TypeVar("T")


class CommandError(Exception):
    """One plain message for the user; the command ends with status 2."""


def read_results(results: Path) -> RunCollection:
    """Read all runs under a folder, or in a file of packed runs.

    Raises:
        CommandError: There is no such folder or file, or no runs in it.
    """
    if not results.exists():
        raise CommandError(f"{results}: no such folder. Give a results folder or a study in it.")
    try:
        found = read_runs(results)
    except UnusableError as error:
        raise CommandError(f"{results}: {error}.") from error
    if found.foreign:
        _report_foreign_folders(found.foreign, is_all=not found.folders)
    if not found.folders:
        raise CommandError(
            f"{results}: no runs found, that is, no folder named seed=<n> or holding a "
            "run.json. Give a results folder or a study in it."
        )
    return found


def check_replaced_runs(path: Path, found: RunCollection) -> None:
    """Check that a file that packed runs are written to has no other runs.

    Raises:
        CommandError: It has runs that `found` lacks or that are complete only there, or is no file
            of packed runs.
    """
    if path.exists() and not path.is_file():
        raise CommandError(f"{path} is no regular file. Name another file, or delete it.")
    try:
        existing = read_results(path) if path.exists() else found
    except CommandError as error:
        raise CommandError(f"{error} Name another file, or delete this one.") from error
    lost = {run.id for run in existing.runs} - {run.id for run in found.runs}
    lost |= {item.id for item in existing.excluded} - {item.id for item in found.folders}
    if lost:
        raise CommandError(
            f"{path} has {len(lost)} runs that would be lost: name another file, or delete it."
        )


def _report_foreign_folders(folders: Sequence[Path], *, is_all: bool) -> None:
    """Name the command that imports evaluations of another tool.

    Raises:
        CommandError: There is nothing else to read.
    """
    shared = Path(os.path.commonpath(folders))
    text = (
        f"{len(folders)} folders hold an evaluations.npz of another tool, such as {folders[0]}. "
        f"Such runs are read once they are imported: parallax import {shared} --frameworks sb3 "
        "--pattern '{algorithm}/{env}_{seed}'"
    )
    if is_all:
        raise CommandError(f"{text}.")
    print(escape_unprintable(f"Not read: {text}."), file=sys.stderr)


def load_results(
    results: Path, options: VerdictOptions | None = None, *, prints_conflicts: bool = False
) -> LoadedRuns:
    """Read runs like `read_results`, and resolve conflicts between them.

    Args:
        results: Folder, or file of packed runs.
        options: Options of which tasks with a range must have runs.
        prints_conflicts: Whether to print the conflicts, for commands that show them nowhere else.

    Raises:
        CommandError: There is no such folder or file, no runs in it, too many to compare, or none
            of a task that has a range.
    """
    loaded = combine_runs(read_results(results))
    tasks = {item.id.cell.env for item in loaded.folders}
    for env, *_ in options.ranges if options is not None else ():
        if env not in tasks:
            raise CommandError(
                f"--range={env}=...: {results} has no runs of that task. Give one of "
                f"{', '.join(map(escape_unprintable, sorted(tasks)))}."
            )
    implementations = {(item.id.cell.study, item.id.framework) for item in loaded.folders}
    ((study, count),) = collections.Counter(study for study, _ in implementations).most_common(1)
    if count > MAX_IMPLEMENTATIONS:  # each is compared with each
        raise CommandError(
            f"{results}: study {escape_unprintable(study)} has {count:,} implementations, and "
            f"{MAX_IMPLEMENTATIONS} are allowed: name a folder with fewer."
        )
    if prints_conflicts:
        for text in loaded.conflicts:
            print(f"{results}: {text}.", file=sys.stderr)
    return loaded


def format_unused(loaded: LoadedRuns) -> list[str]:
    """Return one line for each reason for which runs are not used, with their number."""
    reasons = collections.Counter(item.reason for item in loaded.excluded)
    lines = [
        f"Not used: {count} of {loaded.requested} runs: {reason}"
        for reason, count in reasons.most_common(_MAX_REASONS)
    ]
    if len(reasons) > _MAX_REASONS:
        lines.append(
            f"Not used for {len(reasons) - _MAX_REASONS} more reasons: parallax compare "
            f"{loaded.root} lists every run."
        )
    return lines


def get_analysis_folder(results: Path) -> Path:
    """Return the default output folder for analyses of results."""
    if results.is_file():
        return results.with_name(f"{results.stem}-{ANALYSIS_FOLDER}")
    return results / ANALYSIS_FOLDER


def choose_output_folder(options: argparse.Namespace) -> Path:
    """Return the folder that `--output` names, or the default one.

    Raises:
        CommandError: The default folder, or a folder in it, is a link, or one into which commands
            write in the folder that `--output` names. A folder from someone else could lead to any
            place this way.
    """
    output: Path | None = options.output
    if output is not None:
        for place in (output / name for name in OUTPUT_SUBFOLDERS):
            if place.is_symlink():
                raise CommandError(f"{place} is a link: delete it, or choose another --output.")
        return output
    folder = get_analysis_folder(options.results)
    for place in (folder, *folder.glob("*")):
        if place.is_symlink() and place.is_dir():
            raise CommandError(f"{place} is a link: name a folder with --output.")
    return folder


@contextlib.contextmanager
def open_output_folder(output: Path) -> Iterator[None]:
    """Make the output folder; turn failures to write into one message.

    Raises:
        CommandError: The folder cannot be made or written to.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        place = error.filename2 or output  # what a complete file was to be renamed to
        raise CommandError(
            f"{place}: cannot be written: {error.strerror}. Choose another --output."
        ) from error


def split_names(text: str) -> list[str]:
    """Return the names in a text such as `a, b`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def track_progress(items: Iterable[T], total: int) -> Iterable[T]:
    """Yield the items, and show progress on standard error if it is a terminal."""
    return track(items, "Drawing", total, console=Console(stderr=True), transient=True)


def make_console() -> Console:
    """Return a console as wide as the terminal, 100 columns at most."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # where a terminal lacks a character
    return Console(
        width=min(_MAX_CONSOLE_WIDTH, shutil.get_terminal_size((_MAX_CONSOLE_WIDTH, 24)).columns)
    )


def add_folder_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which runs are read and where output is written."""
    parser.add_argument("results", type=Path, help=RESULTS_HELP)
    text = f"folder for tables and figures (default: RESULTS/{ANALYSIS_FOLDER})"
    parser.add_argument("--output", type=Path, metavar="FOLDER", help=text)


def add_verdict_arguments(
    parser: argparse.ArgumentParser, *, has_intervals: bool = False, without: Sequence[str] = ()
) -> None:
    """Declare the options of statistics, with the defaults of `VerdictOptions`.

    Args:
        parser: Gets the options.
        has_intervals: Whether the command also prints intervals of means.
        without: Options that make no difference to the command, which it refuses.
    """
    default = VerdictOptions()
    text = "Pages and tables state the values that were used."
    group = parser.add_argument_group("statistics", text)

    def add(name: str, **settings: Any) -> None:
        if name in without:
            parser.set_defaults(**{name.strip("-").replace("-", "_"): settings["default"]})
        else:
            group.add_argument(name, **settings)

    add_endpoint_argument(add)
    if has_intervals:
        add_interval_argument(add)
    text = "significance level of all tests; example: --alpha 0.01 (default: %(default)s)"
    add("--alpha", type=float, metavar="P", default=default.alpha, help=text)
    text = (
        "equivalence margin, as a share of the gap between the scores of random actions and of "
        "the publication; example: --margin 0.05 (default: %(default)s)"
    )
    add("--margin", type=float, metavar="SHARE", default=default.margin_share, help=text)
    text = (
        "--margin is a share of: scale, the gap between random actions and the published score; "
        "score, the published score; example: --margin-of score (default: %(default)s)"
    )
    add("--margin-of", choices=MARGINS, default=default.margin_of, help=text)
    text = (
        "a run counts as failed if it ends below this share of the gap between random actions and "
        "the published score; example: --failed-below 0.1 (default: %(default)s)"
    )
    add("--failed-below", type=float, metavar="SHARE", default=default.failed_share, help=text)
    text = (
        "lowest and highest final score of a task without published scores; may be repeated; "
        "example: --range Pendulum-v1=-1600:0"
    )
    add("--range", action="append", default=[], metavar="TASK=LOW:HIGH", help=text)
    text = (
        "pairs that share one Holm correction. algorithm: all pairs of an algorithm in a study; "
        "setting: pairs of one task, algorithm and recipe; all: every pair; example: --family "
        "setting (default: %(default)s)"
    )
    add("--family", choices=FAMILIES, default=default.family, help=text)
    text = "power that planned seeds must reach; example: --power 0.9 (default: %(default)s)"
    add("--power", type=float, metavar="P", default=default.power, help=text)
    text = (
        "random seed of bootstraps and permutations; example: --rng-seed 1 (default: %(default)s)"
    )
    add("--rng-seed", type=parse_seed, metavar="N", default=default.seed, help=text)


def add_endpoint_argument(add: Callable[..., Any]) -> None:
    """Declare `--endpoint` by the `add_argument` of a parser or group."""
    text = (
        "score of a run: final, last-K (mean of the last K evaluations), auc (area under the "
        "learning curve) or steps-P (steps until P%% of the gap to the published score is closed); "
        "example: --endpoint last-3 (default: the study's configured endpoint)"
    )
    add("--endpoint", metavar="NAME", default="", help=text)


def add_interval_argument(add: Callable[..., Any]) -> None:
    """Declare `--interval` by the `add_argument` of a parser or group."""
    text = (
        "method of the 95%% intervals. t: Student's t; thesis: 1.96 standard errors, as in the "
        "thesis; bootstrap: percentile bootstrap; bca: bias-corrected and accelerated bootstrap "
        "(default: %(default)s)"
    )
    add("--interval", choices=INTERVAL_METHODS, default="t", help=text)


def add_jobs_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--jobs`."""
    text = "number of figures drawn in parallel (default: number of cores)"
    parser.add_argument("--jobs", type=parse_jobs, default=-1, metavar="N", help=text)


def make_options(arguments: argparse.Namespace) -> VerdictOptions:
    """Return the options given.

    Raises:
        CommandError: A value is out of its range.
    """
    for name, low, high in (
        ("alpha", _MIN_ALPHA, 0.5),
        ("margin", 0, 10),
        ("power", 0, 1),
        ("failed-below", 0, 1),
    ):
        value = getattr(arguments, name.replace("-", "_"))
        if not low < value < high:
            raise CommandError(f"--{name}={value}: give a number above {low} and below {high}.")
    check_endpoint(arguments.endpoint)
    ranges = tuple(map(_parse_range, arguments.range))
    if len({env for env, *_ in ranges}) < len(ranges):
        raise CommandError("--range: a task occurs twice. Give one range per task.")
    return VerdictOptions(
        endpoint=arguments.endpoint,
        alpha=arguments.alpha,
        margin_share=arguments.margin,
        family=arguments.family,
        power=arguments.power,
        seed=arguments.rng_seed,
        margin_of=arguments.margin_of,
        failed_share=arguments.failed_below,
        ranges=ranges,
    )


def check_endpoint(name: str) -> None:
    """Check the name of an endpoint; an empty one stands for the study's own.

    Raises:
        CommandError: There is no endpoint of that name.
    """
    try:
        Endpoint(name or FINAL)
    except ValueError:
        raise CommandError(f"--endpoint={name}: give {ENDPOINT_FORMS}.") from None


def _parse_range(text: str) -> tuple[str, float, float]:
    """Return a task and the ends of its scores.

    Raises:
        CommandError: It is not TASK=LOW:HIGH.
    """
    env, _, ends = text.partition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:  # not two numbers
        low = high = math.nan
    if not env or not -_MAX_SCORE < low < high < _MAX_SCORE:
        raise CommandError(
            f"--range={text}: give a task, its lowest and its highest score, such as "
            f"--range Pendulum-v1=-1600:0, each below {_MAX_SCORE:g} in size."
        )
    return env, low, high
