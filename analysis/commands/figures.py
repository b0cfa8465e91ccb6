"""Draws the figures of a study as PNG and PDF, each with its caption as text."""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from analysis.commands.shell import (
    RESULTS_HELP,
    CommandError,
    add_verdict_arguments,
    analysis_folder,
    load_results,
    make_console,
    make_options,
    progress,
    writing_to,
)
from analysis.figures import families
from analysis.figures.chosen import Choice, UnknownPanelError, chosen_sheet, parse_choice
from analysis.figures.sheet import PNG_DPI, NotDrawn, Sheet, cores, render_all, write_bytes
from analysis.stats.intervals import METHODS
from analysis.verdicts.study import Material, gather
from harness.record.files import write_text
from harness.record.layout import ANALYSIS_FOLDER

FOLDER = "figures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument("results", type=Path, nargs="?", help=RESULTS_HELP)
    parser.add_argument(
        "--only", default="", help="names of figures, with commas between them (default: all)"
    )
    parser.add_argument(
        "--panels",
        action="append",
        default=[],
        metavar="[NAME=]ENV:ALGORITHM:HPS,...",
        help="draw these settings in one figure, and no others unless --only names them; algorithm "
        "`all` is a panel per framework, hyperparameters `own` are its own; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="print the names of figures and stop")
    parser.add_argument(
        "--output", type=Path, help=f"folder; default: RESULTS/{ANALYSIS_FOLDER}/{FOLDER}"
    )
    add_interval_argument(parser)
    add_jobs_argument(parser)
    add_verdict_arguments(parser)


def add_interval_argument(parser: argparse.ArgumentParser) -> None:
    """Declares --interval."""
    parser.add_argument(
        "--interval", choices=METHODS, default="t", help="method of the 95%% intervals (default: t)"
    )


def add_jobs_argument(parser: argparse.ArgumentParser) -> None:
    """Declares --jobs."""
    parser.add_argument(
        "--jobs", type=int, default=cores(), help="figures drawn at a time (default: cores)"
    )


def run(options: argparse.Namespace) -> int:
    """Draws figures and says where they are, and which are not drawn and why.

    Raises:
        CommandError: A name is unknown, there are no runs, or nowhere to write.
    """
    console = make_console()
    if options.list:
        width = max(map(len, families.names()))
        for family in families.FAMILIES:
            console.print(Text(f"{family.name:{width}}  {family.summary}"), soft_wrap=True)
        return 0
    only = chosen_names(options.only)
    choices = chosen_panels(options.panels)
    settings = make_options(options)
    if options.results is None:
        raise CommandError("Give a results folder, or --list for the names of figures.")
    loaded = load_results(options.results)
    material = gather(loaded, settings, options.interval)
    items = _items(material, only, choices)
    output = options.output or analysis_folder(options.results) / FOLDER
    drawn = [item for item in items if isinstance(item, Sheet)]
    with writing_to(output):
        draw(drawn, output, options.jobs)
    for item in items:
        console.print(Text(figure_line(item, output)), soft_wrap=True)
    return 0


def chosen_names(text: str) -> list[str]:
    """The names given to --only.

    Raises:
        CommandError: One is unknown.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = families.names()
    for name in names:
        if name not in known:
            raise CommandError(f"--only={name}: no such figure. Known: {', '.join(known)}.")
    return names


def chosen_panels(texts: Sequence[str]) -> list[Choice]:
    """The figures given to --panels.

    Raises:
        CommandError: One cannot be read, or two have the same name.
    """
    try:
        choices = [parse_choice(text) for text in texts]
    except UnknownPanelError as error:
        raise CommandError(str(error)) from error
    names = [choice.name for choice in choices]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CommandError(
            f"--panels: two figures are called {twice[0]}. Name them: --panels NAME=ENV:..."
        )
    return choices


def _items(
    material: Material, only: Sequence[str], choices: Sequence[Choice]
) -> list[Sheet | NotDrawn]:
    try:
        items: list[Sheet | NotDrawn] = [chosen_sheet(material, choice) for choice in choices]
    except UnknownPanelError as error:
        raise CommandError(str(error)) from error
    if only or not choices:
        items += itertools.chain(*families.sheets(material, only).values())
    taken = {item.name for item in items}
    if len(taken) < len(items):
        raise CommandError("--panels: a figure has the name of another. Choose another NAME.")
    return items


def draw(sheets: list[Sheet], output: Path, jobs: int) -> None:
    """Draws figures to <name>.png and <name>.pdf, with captions in <name>.txt."""
    drawn = render_all(sheets, ("png", "pdf"), PNG_DPI, jobs)
    for sheet, files in progress(drawn, len(sheets)):
        for kind, content in files.items():
            write_bytes(output / f"{sheet.name}.{kind}", content)
        write_text(output / f"{sheet.name}.txt", sheet.caption + "\n")


def figure_line(item: Sheet | NotDrawn, output: Path) -> str:
    """Where a figure is, or why there is none."""
    if isinstance(item, NotDrawn):
        return f"Not drawn: {item.name}: {item.reason}"
    return f"Figure: {output / item.name}.png"
