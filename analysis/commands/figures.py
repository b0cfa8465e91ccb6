"""Draws the figures of a study as PNG and PDF, each with its caption as text."""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands.common import (
    RESULTS_HELP,
    CommandError,
    add_interval_argument,
    add_jobs_argument,
    add_verdict_arguments,
    get_analysis_folder,
    load_results,
    make_console,
    make_options,
    open_output_folder,
    track_progress,
)
from parallax.analysis.figures import families
from parallax.analysis.figures.figure_spec import (
    PNG_DPI,
    FigureSpec,
    MissingFigure,
    render_figures,
    write_file_bytes,
)
from parallax.analysis.figures.highlights import (
    PanelChoice,
    UnknownPanelError,
    make_panel_choice_figure_spec,
    parse_panel_choice,
)
from parallax.analysis.verdicts.study import StudyResults, judge_study
from parallax.harness.record.files import write_text
from parallax.harness.record.layout import ANALYSIS_FOLDER

FIGURES_FOLDER = "figures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("results", type=Path, nargs="?", help=RESULTS_HELP)
    parser.add_argument(
        "--families",
        default="",
        help="names of figure families, such as curves,ranks (default: all); --list prints them",
    )
    parser.add_argument(
        "--panels",
        action="append",
        default=[],
        metavar="[NAME=]ENV:ALGORITHM:HPS,...",
        help="draw these settings in one figure, and no others unless --families names "
        "them; algorithm `all` is a panel per framework, hyperparameters `own` are its own; "
        "may be repeated",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the names of figure families and draw nothing"
    )
    parser.add_argument(
        "--output", type=Path, help=f"folder; default: RESULTS/{ANALYSIS_FOLDER}/{FIGURES_FOLDER}"
    )
    add_interval_argument(parser)
    add_jobs_argument(parser)
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Draw figures; print their paths, and the figures that are not drawn with the reasons.

    Raises:
        CommandError: A name is unknown, there are no runs, or nowhere to write.
    """
    console = make_console()
    if options.list:
        width = max(map(len, families.list_family_names()))
        for family in families.FAMILIES:
            console.print(Text(f"{family.name:{width}}  {family.summary}"), soft_wrap=True)
        return 0
    only = parse_family_names(options.families)
    choices = parse_panel_choices(options.panels)
    settings = make_options(options)
    if options.results is None:
        raise CommandError("Give a results folder, or --list for the names of figures.")
    loaded = load_results(options.results)
    material = judge_study(loaded, settings, options.interval)
    items = _make_figure_specs(material, only, choices)
    output = options.output or get_analysis_folder(options.results) / FIGURES_FOLDER
    drawn = [item for item in items if isinstance(item, FigureSpec)]
    with open_output_folder(output):
        draw_figures(drawn, output, options.jobs)
    for item in items:
        console.print(Text(format_figure_line(item, output)), soft_wrap=True)
    return 0


def parse_family_names(text: str) -> list[str]:
    """Return the names given to --families.

    Raises:
        CommandError: One is unknown.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = families.list_family_names()
    for name in names:
        if name not in known:
            raise CommandError(f"--families={name}: no such figure. Known: {', '.join(known)}.")
    return names


def parse_panel_choices(texts: Sequence[str]) -> list[PanelChoice]:
    """Return the figures given to --panels.

    Raises:
        CommandError: One cannot be read, or two have the same name.
    """
    try:
        choices = [parse_panel_choice(text) for text in texts]
    except UnknownPanelError as error:
        raise CommandError(str(error)) from error
    names = [choice.name for choice in choices]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CommandError(
            f"--panels: two figures are called {twice[0]}. Name them: --panels NAME=ENV:..."
        )
    return choices


def _make_figure_specs(
    material: StudyResults, only: Sequence[str], choices: Sequence[PanelChoice]
) -> list[FigureSpec | MissingFigure]:
    try:
        items: list[FigureSpec | MissingFigure] = [
            make_panel_choice_figure_spec(material, choice) for choice in choices
        ]
    except UnknownPanelError as error:
        raise CommandError(str(error)) from error
    if only or not choices:
        items += itertools.chain(*families.make_family_figure_specs(material, only).values())
    taken = {item.name for item in items}
    if len(taken) < len(items):
        raise CommandError("--panels: a figure has the name of another. Choose another NAME.")
    return items


def draw_figures(sheets: list[FigureSpec], output: Path, jobs: int) -> None:
    """Draw figures to <name>.png and <name>.pdf, with captions in <name>.txt."""
    drawn = render_figures(sheets, ("png", "pdf"), PNG_DPI, jobs)
    for sheet, files in track_progress(drawn, len(sheets)):
        for kind, content in files.items():
            write_file_bytes(output / f"{sheet.name}.{kind}", content)
        write_text(output / f"{sheet.name}.txt", sheet.caption + "\n")


def format_figure_line(item: FigureSpec | MissingFigure, output: Path) -> str:
    """Return a line with a figure's path, or with the reason why there is none."""
    if isinstance(item, MissingFigure):
        return f"Not drawn: {item.name}: {item.reason}"
    return f"Figure: {output / item.name}.png"
