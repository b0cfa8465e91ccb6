"""Verdicts on reproduction, consistency and ranking, as CSV."""

import argparse
import collections
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands.common import (
    add_folder_arguments,
    add_verdict_arguments,
    format_unused,
    get_analysis_folder,
    load_results,
    make_console,
    make_options,
    open_output_folder,
)
from parallax.analysis.report.render_csv import rows_to_csv
from parallax.analysis.report.sections.overall import format_omnibus
from parallax.analysis.report.study_report import make_verdict_tables
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.reproduction import ReproductionVerdict
from parallax.analysis.verdicts.study import StudyVerdicts, judge_runs
from parallax.harness.record.files import write_text


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
    output = options.output or get_analysis_folder(options.results)
    with open_output_folder(output):
        names = write_verdict_tables(output, verdicts)
    console = make_console()
    told = *summarize_verdicts(verdicts), *loaded.conflicts, *format_unused(loaded)
    for line in (*told, *(f"Table: {name}" for name in names)):
        console.print(Text(line), soft_wrap=True)
    return 0


def summarize_verdicts(verdicts: StudyVerdicts) -> list[str]:
    """How often each verdict was given."""

    def main(item: ReproductionVerdict | PairVerdict) -> bool:
        cell = item.group.cell if isinstance(item, ReproductionVerdict) else item.cell
        return verdicts.is_main_variant(cell)

    published, pairs, ranked = verdicts.reproduction, verdicts.consistency, verdicts.rankings
    lines = []
    for name, words in (
        ("Reproduction, thesis' form", [(i.verdict_thesis_interval, main(i)) for i in published]),
        ("Reproduction, two-sided", [(i.verdict_two_sided_test, main(i)) for i in published]),
        ("Consistency", [(i.verdict, main(i)) for i in pairs]),
        ("Each framework's own defaults", [(i.verdict, main(i)) for i in verdicts.defaults]),
        ("Ranking", [(i.verdict, verdicts.is_main_ranking(i)) for i in ranked]),
    ):
        lines.append(f"{name}: {_format_verdict_counts([word for word, own in words if own])}")
        others = [word for word, own in words if not own]
        if others:
            lines.append(f"  in other variants: {_format_verdict_counts(others)}")
    lines += [format_omnibus(item) for item in verdicts.omnibus]
    return lines


def _format_verdict_counts(words: Sequence[str]) -> str:
    found = collections.Counter(word or "too few seeds" for word in words)
    parts = [f"{count} {word}" for word, count in sorted(found.items())]
    return f"{', '.join(parts)} of {len(words)}" if words else "nothing to compare"


def write_verdict_tables(output: Path, verdicts: StudyVerdicts) -> list[Path]:
    """Writes a table for each question and for each other way to look; returns their paths."""
    tables = make_verdict_tables(verdicts)
    for name, rows in tables.items():
        write_text(output / name, rows_to_csv(rows))
    return [output / name for name in tables]
