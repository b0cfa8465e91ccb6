"""Verdicts on reproduction, consistency and ranking, as CSV."""

import argparse
import collections
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from analysis.commands.shell import (
    add_folder_arguments,
    add_verdict_arguments,
    analysis_folder,
    load_results,
    make_console,
    make_options,
    writing_to,
)
from analysis.tables.verdicts import existence_words, to_csv, verdict_tables
from analysis.verdicts.consistency import PairVerdict
from analysis.verdicts.reproduction import ReproductionVerdict
from analysis.verdicts.study import StudyVerdicts, judge_runs
from harness.record.files import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    add_folder_arguments(parser)
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Prints a summary and writes all verdicts.

    Raises:
        CommandError: There is nothing to judge or nowhere to write.
    """
    chosen = make_options(options)
    loaded = load_results(options.results)
    verdicts = judge_runs(loaded, chosen)
    output = options.output or analysis_folder(options.results)
    with writing_to(output):
        names = write_tables(output, verdicts)
    console = make_console()
    for line in (*summary(verdicts), *loaded.parted, *(f"Table: {name}" for name in names)):
        console.print(Text(line), soft_wrap=True)
    return 0


def summary(verdicts: StudyVerdicts) -> list[str]:
    """How often each verdict was given."""

    def main(item: ReproductionVerdict | PairVerdict) -> bool:
        cell = item.group.cell if isinstance(item, ReproductionVerdict) else item.cell
        return verdicts.is_main(cell)

    published, pairs, ranked = verdicts.reproduction, verdicts.consistency, verdicts.rankings
    lines = []
    for name, words in (
        ("Reproduction, thesis' form", [(i.thesis_form, main(i)) for i in published]),
        ("Reproduction, two-sided", [(i.two_sided, main(i)) for i in published]),
        ("Consistency", [(i.verdict, main(i)) for i in pairs]),
        ("Each framework's own defaults", [(i.verdict, main(i)) for i in verdicts.defaults]),
        ("Ranking", [(i.verdict, verdicts.ranks_main(i)) for i in ranked]),
    ):
        lines.append(f"{name}: {_verdict_counts([word for word, own in words if own])}")
        others = [word for word, own in words if not own]
        if others:
            lines.append(f"  in other variants: {_verdict_counts(others)}")
    lines += [existence_words(item) for item in verdicts.existence]
    return lines


def _verdict_counts(words: Sequence[str]) -> str:
    found = collections.Counter(word or "too few seeds" for word in words)
    parts = [f"{count} {word}" for word, count in sorted(found.items())]
    return f"{', '.join(parts)} of {len(words)}" if words else "nothing to compare"


def write_tables(output: Path, verdicts: StudyVerdicts) -> list[Path]:
    """Writes a table for each question and for each other way to look; returns their paths."""
    tables = verdict_tables(verdicts)
    for name, rows in tables.items():
        write_text(output / name, to_csv(rows))
    return [output / name for name in tables]
