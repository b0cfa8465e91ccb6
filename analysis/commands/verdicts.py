"""Verdicts on reproduction, consistency and ranking, of runs and of the thesis' own tables.

`study figures` draws the results behind them as PNG and PDF, each with its caption as text.
"""

import argparse
import collections
import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from parallax.analysis.commands import common
from parallax.analysis.data.settings import describe_result_versions
from parallax.analysis.figures import families
from parallax.analysis.figures.figure_spec import PNG_DPI, FigureSpec, MissingFigure, render_figures
from parallax.analysis.figures.highlights import (
    PanelChoice,
    UnknownPanelError,
    make_panel_choice_figure_spec,
    parse_panel_choice,
)
from parallax.analysis.labels import format_number, format_setting, get_label
from parallax.analysis.report.render_markdown import render_markdown, score_table_to_markdown
from parallax.analysis.report.sections import learning
from parallax.analysis.report.sections.consistency import (
    describe_bottom_score,
    describe_intention_to_treat,
    name_statement,
)
from parallax.analysis.report.sections.overall import format_omnibus
from parallax.analysis.report.sections.scores import (
    make_score_tables,
    score_table_to_csv,
    score_table_to_latex,
)
from parallax.analysis.report.sections.suite import describe_suites
from parallax.analysis.report.study_report import make_verdict_tables
from parallax.analysis.report.tables import table_to_csv
from parallax.analysis.thesis.page import make_thesis_document
from parallax.analysis.verdicts import study
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.endpoints import describe_mixed_endpoints
from parallax.analysis.verdicts.reproduction import ReproductionVerdict
from parallax.harness.record.files import print_lines, write_files_atomically
from parallax.harness.record.layout import ANALYSIS_FOLDER

THESIS_PAGE_NAME = "published-tables.md"
FIGURE_FAMILIES = ("reproduction", "intervals", "verdicts", "ranks")  # families that need no curves
_TABLE_FORMATS = {
    "md": score_table_to_markdown,
    "csv": score_table_to_csv,
    "tex": score_table_to_latex,
}


def add_study_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax study verdicts`."""
    common.add_folder_arguments(parser)
    folder = common.TABLES_FOLDER
    text = f"also write tables of final scores as Markdown, CSV and LaTeX to {folder}/"
    parser.add_argument("--tables", action="store_true", help=text)
    common.add_verdict_arguments(parser, has_intervals=True)


def run_study(options: argparse.Namespace) -> int:
    """Print a verdict for each pair and a summary, and write all verdicts.

    Raises:
        CommandError: There is nothing to judge or nowhere to write.
    """
    requested = common.make_options(options)
    loaded = common.load_results(options.results, requested)
    verdicts = study.judge_runs(loaded, requested)
    output = common.choose_output_folder(options)
    texts = render_verdict_tables(output, verdicts)
    if options.tables:
        texts |= render_score_tables(output / common.TABLES_FOLDER, verdicts, options.interval)
    with common.open_output_folder(output):
        write_files_atomically(texts)
    settled = verdicts.options
    lines = [
        f"Score: {settled.chosen_endpoint.description} ({settled.endpoint_source})",
        *filter(None, [describe_mixed_endpoints(loaded, settled)]),
        "",
        *format_pair_verdicts(verdicts),
        *_describe_versions(verdicts),
        "",
        *summarize_verdicts(verdicts),
    ]
    if verdicts.with_failed_runs:
        changes = describe_intention_to_treat(verdicts)
        summary = summarize_verdicts(verdicts.with_failed_runs)
        lines.append(f"{describe_bottom_score(verdicts)}:")
        lines += [f"  {line}" for line in (*changes, *summary)]
    lines += [*loaded.conflicts, *common.format_unused(loaded)]
    print_lines([*lines, f"Tables: {len(texts)} files in {output}"])
    return 0


def format_pair_verdicts(verdicts: study.StudyVerdicts) -> list[str]:
    """Return a line for each pair of frameworks, below the setting that both were trained in."""
    pairs = [*verdicts.consistency, *verdicts.defaults]
    cells = {item.cell for item in pairs}
    lines, setting = [], None
    for item in pairs:
        if item.cell != setting:
            setting = item.cell
            lines.append(format_setting(setting, cells))
        first, second = item.first, item.second
        counts = str(first.n) if first.n == second.n else f"{first.n} and {second.n}"
        known = not math.isnan(item.low)
        interval = f" [{format_number(item.low)}, {format_number(item.high)}]" if known else ""
        lines.append(
            f"  {get_label(first.framework)} and {get_label(second.framework)}: "
            f"{name_statement(item)}, difference {format_number(item.difference)}"
            f"{interval}, n = {counts}{', same algorithm' if item.is_same_algorithm else ''}"
            f"{learning.remark_on_pair(item, verdicts.not_learned)}"
        )
    return lines


def _describe_versions(verdicts: study.StudyVerdicts) -> list[str]:
    """Return a sentence on versions in which runs of the judged pairs differ, if any."""
    pairs = (*verdicts.consistency, *verdicts.defaults)
    groups = [group for item in pairs for group in (item.first, item.second)]
    text = describe_result_versions(run for group in groups for run in group.runs)
    return [text] if text else []


def summarize_verdicts(verdicts: study.StudyVerdicts) -> list[str]:
    """Return the counts of verdicts, a line for each question."""

    def is_main(item: ReproductionVerdict | PairVerdict) -> bool:
        cell = item.group.cell if isinstance(item, ReproductionVerdict) else item.cell
        return cell in verdicts.main_cells

    published, pairs, ranked = verdicts.reproduction, verdicts.consistency, verdicts.rankings
    lines = []
    for name, words in (
        (
            "Reproduction, thesis' form",
            [(i.verdict_thesis_interval, is_main(i)) for i in published],
        ),
        ("Reproduction, two-sided", [(i.verdict_two_sided_test, is_main(i)) for i in published]),
        ("Consistency", [(i.verdict, is_main(i)) for i in pairs]),
        ("Library defaults", [(i.verdict, is_main(i)) for i in verdicts.defaults]),
        ("Ranking", [(i.verdict, study.is_ranking_of(i, verdicts.main_variants)) for i in ranked]),
    ):
        main = [word for word, in_main_variant in words if in_main_variant]
        lines.append(f"{name}: {_format_verdict_counts(main)}")
        others = [word for word, in_main_variant in words if not in_main_variant]
        if others:
            lines.append(f"  in other variants: {_format_verdict_counts(others)}")
    lines += [format_omnibus(item) for item in verdicts.omnibus]
    lines += describe_suites(verdicts)
    return lines


def render_score_tables(
    folder: Path, verdicts: study.StudyVerdicts, interval: str
) -> dict[Path, str]:
    """Return final scores in the layout of the thesis, by path: per study, algorithm, variant."""
    return {
        folder / f"{table.name}.{suffix}": convert(table)
        for table in make_score_tables(verdicts, interval)
        for suffix, convert in _TABLE_FORMATS.items()
    }


def _format_verdict_counts(words: Sequence[str]) -> str:
    found = collections.Counter(word or "too few seeds" for word in words)
    parts = [f"{count} {word}" for word, count in sorted(found.items())]
    return f"{', '.join(parts)} of {len(words)}" if words else "nothing to compare"


def render_verdict_tables(output: Path, verdicts: study.StudyVerdicts) -> dict[Path, str]:
    """Return a table for each question and for each other analysis, by path."""
    tables = make_verdict_tables(verdicts)
    return {output / name: table_to_csv(table) for name, table in tables.items()}


def add_thesis_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax study thesis`."""
    for option, default, text in (
        ("--output", Path(), "folder of the page (default: the current one)"),
        ("--tables", None, "folder for verdicts as CSV (default: none)"),
        ("--figures", None, "folder for figures as PNG and PDF (default: none)"),
    ):
        parser.add_argument(option, type=Path, default=default, metavar="FOLDER", help=text)
    common.add_jobs_argument(parser)
    # A table has final scores, and no runs that could have failed.
    common.add_verdict_arguments(parser, without=("--endpoint", "--failed-below"))


def run_thesis(options: argparse.Namespace) -> int:
    """Judge the thesis' published tables alone, print a summary and write the page.

    Raises:
        CommandError: There is nowhere to write.
    """
    requested = common.make_options(options)
    with contextlib.ExitStack() as stack:  # judging takes half a minute: check the folders first
        for folder in filter(None, (options.output, options.tables, options.figures)):
            stack.enter_context(common.open_output_folder(folder))
        lines = _write_thesis_files(options, study.judge_thesis_tables(requested))
    print_lines(lines)
    return 0


def _write_thesis_files(options: argparse.Namespace, verdicts: study.StudyVerdicts) -> list[str]:
    """Write the page, tables and figures together; return what to print."""
    page = options.output / THESIS_PAGE_NAME
    contents: dict[Path, str | bytes] = {page: render_markdown(make_thesis_document(verdicts))}
    lines = [*summarize_verdicts(verdicts), f"Page:  {page}"]
    if options.tables:
        tables = render_verdict_tables(options.tables, verdicts)
        contents |= tables
        lines += [f"Table: {path}" for path in tables]
    if options.figures:
        found = families.make_family_figure_specs(
            study.results_from_published(verdicts), FIGURE_FAMILIES
        )
        items = list(itertools.chain(*found.values()))
        drawn = [item for item in items if isinstance(item, FigureSpec)]
        contents.update(draw_figures(drawn, options.figures, options.jobs))
        lines += [format_figure_line(item, options.figures) for item in items]
    write_files_atomically(contents)
    return lines


def add_figures_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax study figures`."""
    parser.add_argument("results", type=Path, nargs="?", help=common.RESULTS_HELP)
    text = "names of figure families, such as levels,ranks (default: all); --list prints them"
    parser.add_argument("--families", default="", metavar="A,B", help=text)
    text = (
        "draw these settings in one figure, and other figures only if --families names them; "
        "ALGORITHM `all` draws a panel per framework, HPS `own` is each framework's own recipe; "
        "may be repeated"
    )
    form = "[NAME=]ENV:ALGORITHM:HPS,..."
    parser.add_argument("--panels", action="append", default=[], metavar=form, help=text)
    text = "print the names of figure families and draw nothing"
    parser.add_argument("--list", action="store_true", help=text)
    text = f"folder for the figures (default: RESULTS/{ANALYSIS_FOLDER}/{common.FIGURES_FOLDER})"
    parser.add_argument("--output", type=Path, metavar="FOLDER", help=text)
    common.add_jobs_argument(parser)
    common.add_verdict_arguments(parser, has_intervals=True)


def run_figures(options: argparse.Namespace) -> int:
    """Draw figures; print their paths, and the figures that are not drawn with the reasons.

    Raises:
        CommandError: A name is unknown, there are no runs, or nowhere to write.
    """
    if options.list:
        width = max(map(len, families.list_family_names()))
        print_lines(f"{one.name:{width}}  {one.summary}" for one in families.FAMILIES)
        return 0
    only = parse_family_names(options.families)
    choices = parse_panel_choices(options.panels)
    settings = common.make_options(options)
    if options.results is None:
        raise common.CommandError("Give a results folder, or --list for the names of figures.")
    loaded = common.load_results(options.results, settings, prints_conflicts=True)
    results = study.judge_study(loaded, settings, options.interval)
    items = _make_figure_specs(results, only, choices)
    output = options.output or common.choose_output_folder(options) / common.FIGURES_FOLDER
    drawn = [item for item in items if isinstance(item, FigureSpec)]
    with common.open_output_folder(output):
        write_files_atomically(dict(draw_figures(drawn, output, options.jobs)))
    print_lines(format_figure_line(item, output) for item in items)
    return 0


def parse_family_names(text: str) -> list[str]:
    """Return the names given to --families.

    Raises:
        CommandError: One is unknown.
    """
    names = common.split_names(text)
    known = families.list_family_names()
    for name in names:
        if name not in known:
            raise common.CommandError(
                f"--families={name}: no such figure. Known: {', '.join(known)}."
            )
    return names


def parse_panel_choices(texts: Sequence[str]) -> list[PanelChoice]:
    """Return the figures given to --panels.

    Raises:
        CommandError: One cannot be read, or two have the same name.
    """
    try:
        choices = [parse_panel_choice(text) for text in texts]
    except UnknownPanelError as error:
        raise common.CommandError(str(error)) from error
    names = [choice.name for choice in choices]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise common.CommandError(
            f"--panels: two figures are called {twice[0]}. Name them: --panels NAME=ENV:..."
        )
    return choices


def _make_figure_specs(
    results: study.StudyResults, only: Sequence[str], choices: Sequence[PanelChoice]
) -> list[FigureSpec | MissingFigure]:
    try:
        items: list[FigureSpec | MissingFigure] = [
            make_panel_choice_figure_spec(results, choice) for choice in choices
        ]
    except UnknownPanelError as error:
        raise common.CommandError(str(error)) from error
    if only or not choices:
        items += itertools.chain(*families.make_family_figure_specs(results, only).values())
    taken = {item.name for item in items}
    if len(taken) < len(items):
        raise common.CommandError("--panels: two figures have the same name. Choose another NAME.")
    return items


def draw_figures(specs: list[FigureSpec], output: Path, jobs: int) -> Iterator[tuple[Path, bytes]]:
    """Yield figures as <name>.png and <name>.pdf, with captions in <name>.txt, by their places."""
    drawn = render_figures(specs, ("png", "pdf"), PNG_DPI, jobs)
    for spec, files in common.track_progress(drawn, len(specs)):
        for kind, content in files.items():
            yield output / f"{spec.name}.{kind}", content
        yield output / f"{spec.name}.txt", f"{spec.caption}\n".encode("utf-8", "replace")


def format_figure_line(item: FigureSpec | MissingFigure, output: Path) -> str:
    """Return a line with a figure's path, or with the reason why there is none."""
    if isinstance(item, MissingFigure):
        return f"Not drawn: {item.name}: {item.reason}"
    return f"Figure: {output / item.name}.png"
