"""Whether prioritised replay helps, how well it knows its priorities, and what it costs."""

import argparse

from rich.text import Text

from analysis.commands.shell import (
    CommandError,
    add_folder_arguments,
    add_verdict_arguments,
    load_results,
    make_console,
    make_options,
    writing_to,
)
from analysis.data.replayed import UNIFORM, replayed
from analysis.figures.replay import sheets
from analysis.figures.sheet import render, write_bytes
from analysis.tables.replay import effect_rows, sentences, summary, way_rows
from analysis.tables.verdicts import to_csv
from analysis.verdicts.replay import judge
from harness.record.files import write_text
from harness.record.layout import ANALYSIS_FOLDER

WAYS, EFFECTS = "replay.csv", "replay_effects.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    add_folder_arguments(parser)
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Prints what was found, writes two tables, and draws a figure for each setting.

    Raises:
        CommandError: Nothing was replayed otherwise than uniformly, or nowhere to write.
    """
    loaded = load_results(options.results)
    items = replayed(loaded)
    if all(item.name == UNIFORM for item in items):
        raise CommandError(
            f"{options.results}: every run replays uniformly. Train with "
            "replay=uniform,per,atdc,imp; docs/replay.md tells what these are."
        )
    study = judge(items, make_options(options))
    output = options.output or options.results / ANALYSIS_FOLDER
    with writing_to(output):
        files = [output / WAYS, output / EFFECTS]
        for path, rows in zip(files, (way_rows(study), effect_rows(study)), strict=True):
            write_text(path, to_csv(rows))
        for page in sheets(study):
            for kind, content in render(page).items():
                path = output / f"{page.name}.{kind}"
                write_bytes(path, content)
                files.append(path)
    unread = [
        f"{item.item.path}: no looks at priorities: {item.unread}" for item in items if item.unread
    ]
    counts = f"{loaded.requested} run folders: {loaded.completed} complete, {loaded.used} used."
    lines = [*sentences(study), "", *unread, *loaded.parted, counts, summary(study, study.effects)]
    console = make_console()
    for line in (*lines, *(f"File: {path}" for path in files)):
        console.print(Text(line), soft_wrap=True)
    return 0
