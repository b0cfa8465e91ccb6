"""Options that several commands share, each with one spelling and one error message."""

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from parallax.harness.contract.acceleration import ACCELERATIONS, CUDA, NO_ACCELERATION
from parallax.harness.contract.adapter_discovery import (
    find_adapter_entry_points,
    list_usable_frameworks,
    load_adapter,
)
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.interpreter import find_cache_folder
from parallax.harness.contract.run_spec import ALIGNMENTS
from parallax.harness.record.files import escape_lines, escape_unprintable, write_files_atomically
from parallax.harness.record.layout import find_runs

if TYPE_CHECKING:
    from parallax.analysis.data.runs import LoadedRuns

DEFAULT_RECIPE = "original"
RUNS_HELP = "a run folder, a study, or any folder between or above them"


def split_names(text: str) -> list[str]:
    """Return the names of a comma-separated list, each once; a list without names is an error."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:  # it would mean all of them
        raise argparse.ArgumentTypeError("names nothing: leave it out, or name at least one")
    return names


class ExtendNames(argparse.Action):
    """Collects the names of a repeated option, each once."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Add names to those that were given before."""
        given = getattr(namespace, self.dest) or ()
        setattr(namespace, self.dest, list(dict.fromkeys([*given, *values])))


Options: TypeAlias = argparse._ActionsContainer
"""A parser, or a group of its options."""


def add_names_argument(parser: Options, option: str, text: str, default: Any = None) -> None:
    """Declare an option that takes a list of names, such as `--frameworks A,B`."""
    parser.add_argument(
        option, action=ExtendNames, type=split_names, default=default, metavar="A,B", help=text
    )


def add_frameworks_argument(
    parser: Options, text: str = "frameworks, such as sb3,cleanrl (default: all)"
) -> None:
    """Declare `--frameworks A,B`."""
    add_names_argument(parser, "--frameworks", text)


def add_algorithms_argument(
    parser: Options, text: str = "algorithms, such as ppo,sac (default: all)"
) -> None:
    """Declare `--algorithms A,B`."""
    add_names_argument(parser, "--algorithms", text)


def add_probe_argument(parser: Options) -> None:
    """Declare `--probe A,B`."""
    text = "only probes whose names contain one of these texts, such as ppo.loss (default: all)"
    add_names_argument(parser, "--probe", text, [])


def add_level_arguments(parser: Options, upstream: str = "") -> None:
    """Declare `--alignment` and `--hps` of commands that measure single updates.

    Args:
        parser: Receives them.
        upstream: Help on the level `upstream`, which only probes have; empty for none.
    """
    parser.add_argument(
        "--alignment",
        choices=(*(["upstream"] if upstream else []), *ALIGNMENTS),
        help=f"hyperparameters that the measurement does not set itself: {upstream}defaults: each "
        "framework's own; common: the recipe's if every framework has the option; exact: always "
        "the recipe's; lockstep: as exact, and the update in the algorithm's reference form "
        "(default: exact, or defaults if a framework is compared with itself)",
    )
    parser.add_argument(
        "--hps",
        metavar="RECIPE",
        default=DEFAULT_RECIPE,
        help="recipe for --alignment common, exact and lockstep: a name, or the path of a YAML "
        "file (default: %(default)s)",
    )


def choose_alignment(options: argparse.Namespace, compares_frameworks: bool) -> str:
    """Return the given alignment level, or the default one.

    A framework is compared with itself at its own defaults, as a release may change them.
    """
    level: str = options.alignment or ("exact" if compares_frameworks else "defaults")
    if level in ("defaults", "upstream") and options.hps != DEFAULT_RECIPE:
        raise SpecError(
            f"--hps {options.hps} has no effect at --alignment {level}, which is each framework's "
            "own values: add --alignment exact, or drop --hps."
        )
    return level


def add_trust_argument(parser: Options) -> None:
    """Declare `--trust`."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="do not ask before running code that stored runs name (tasks, adapters, interpreters)",
    )


def add_cache_argument(parser: Options) -> None:
    """Declare `--cache`."""
    text = "folder of one virtual environment per release (default: ~/.cache/parallax/releases)"
    folder = find_cache_folder("releases")
    parser.add_argument("--cache", type=Path, default=folder, metavar="FOLDER", help=text)


def find_run_folders(root: Path) -> tuple[Path, ...]:
    """Return the run folders at or below a folder; links are named and not followed."""
    if not root.is_dir():
        raise SpecError(f"{root} is not a folder: name a run folder or one above.")
    found = find_runs(root)
    if found.links:
        print(escape_unprintable(found.describe_skipped_links()), file=sys.stderr)
    return found.runs


def add_acceleration_argument(parser: Options) -> None:
    """Declare `--acceleration`."""
    names = [name for name in ACCELERATIONS if name != NO_ACCELERATION]
    parser.add_argument(
        "--acceleration",
        choices=[*names, CUDA, *(f"{CUDA}+{name}" for name in names)],
        metavar="NAME",
        help=f"compare one framework with itself under this acceleration: {', '.join(names)}; "
        f"{CUDA} compares the CPU with a GPU, and {CUDA}+NAME both on a GPU",
    )


class StoreFile(argparse.Action):
    """Stores the path of a file that no other option names: one would be written over the other."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Store the path; argparse's error names both options."""
        for other in parser._actions:
            given = getattr(namespace, other.dest, None) if isinstance(other, StoreFile) else None
            if given and other is not self and given.resolve() == values.resolve():
                first = other.option_strings[0]
                parser.error(f"{option_string} {values}: {first} is that file too")
        setattr(namespace, self.dest, values)


def add_file_argument(parser: Options, option: str, text: str) -> None:
    """Declare an option that names a file, such as `--json FILE`."""
    parser.add_argument(option, type=Path, action=StoreFile, metavar="FILE", help=text)


def check_used_options(options: argparse.Namespace, used: Collection[str], mode: str) -> None:
    """Check that no option was given that a mode of a command does not use.

    Args:
        options: As parsed by the command's parser.
        used: Names of the options that the mode uses.
        mode: What the message begins with, such as `--answers FILE runs no probe`.

    Raises:
        SpecError: One was given; names it.
    """
    for name, default in options.option_defaults.items():
        if name not in used and getattr(options, name, default) != default:
            raise SpecError(f"{mode}: drop --{name.replace('_', '-')}.")


def find_script_side(path: Path, frameworks: Sequence[str], algorithm: str) -> int:
    """Return the number of the framework whose script a user's own copy replaces.

    Args:
        path: The copy, for the message.
        frameworks: Names of frameworks; the last one that runs scripts is chosen.
        algorithm: Name of the algorithm.

    Raises:
        SpecError: None of them runs scripts.
    """
    for i in reversed(range(len(frameworks))):
        if load_adapter(frameworks[i]).sources(algorithm):
            return i
    names = ",".join(dict.fromkeys(frameworks))
    raise SpecError(f"--script {path}: framework={names} runs no scripts: use cleanrl.")


def check_output_folders(paths: Iterable[Path | None]) -> None:
    """Check before anything is measured that output files can be written.

    Args:
        paths: The files; None for files that are not requested.

    Raises:
        SpecError: The folder of a file does not exist, or the file is a folder or a device.
    """
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise SpecError(f"{path}: the folder {path.parent} does not exist.")
        if path is not None and path.exists() and not path.is_file():
            raise SpecError(f"{path} is no regular file: name another one.")


def check_links(folder: Path, targets: Iterable[Path]) -> None:
    """Check that no link below a folder leads its files elsewhere; it may be somebody else's.

    Args:
        folder: The folder that the user named.
        targets: Paths of files below it.

    Raises:
        SpecError: A file would be written through a link.
    """
    for target in targets:
        for place in (target, *target.parents):
            # `Path.is_symlink` raises an error for a too long name.
            if folder in place.parents and os.path.islink(place):  # noqa: PTH114
                raise SpecError(f"{place} is a link: delete it, or name another folder.")


def write_output_files(contents: Mapping[Path, str], pages: Collection[Path] = ()) -> None:
    """Write all files or none; texts in Markdown `pages` may come from untrusted files.

    Raises:
        SpecError: One cannot be written.
    """
    from parallax.analysis.escaping import finish_markdown

    texts = dict(contents)
    for path in pages:
        if path in texts:
            texts[path] = finish_markdown(escape_lines(texts[path]))
    try:
        write_files_atomically(texts)
    except OSError as error:
        raise SpecError(f"{error.filename}: cannot be written ({error.strerror}).") from error


def load_study(place: Path) -> "LoadedRuns":
    """Load a study, or a file of packed runs.

    Raises:
        SpecError: It cannot be loaded.
    """
    # Imported late: pandas and scipy take a second to import.
    from parallax.analysis.commands.common import CommandError, load_results

    try:
        return load_results(place, prints_conflicts=True)
    except CommandError as error:
        raise SpecError(str(error)) from error


def select_names(option: str, given: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the names that an option gives, or all known names without the option."""
    for name in given or ():
        if name not in known:
            raise SpecError(format_unknown_name(f"{option} {name}", name, known))
    return list(known) if given is None else list(given)


def select_frameworks(given: Sequence[str] | None) -> list[str]:
    """Return the names that `--frameworks` gives, or all adapters that can be loaded."""
    known = list_usable_frameworks() if given is None else sorted(find_adapter_entry_points())
    return select_names("--frameworks", given, known)


def get_single_algorithm(given: Sequence[str] | None, known: Sequence[str]) -> str:
    """Return the one algorithm that `--algorithms` gives."""
    names = select_names("--algorithms", given or (), known)
    if len(names) != 1:
        example = f"--algorithms {known[0]}" if known else "--algorithms"
        raise SpecError(f"--algorithms takes one name, not {len(names)}, such as {example}.")
    return names[0]
