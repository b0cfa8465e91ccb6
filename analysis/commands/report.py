"""Writes one page with everything: what was run, answers in words, figures, tables, runs."""

import argparse
import importlib.metadata
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from parallax.analysis.commands import common
from parallax.analysis.figures.families import make_family_figure_specs
from parallax.analysis.figures.figure_spec import FigureSpec, render_figures, webp_to_png
from parallax.analysis.report.document import Block, Document, ReportSection
from parallax.analysis.report.render_html import PAGE_DPI, make_page_context, render_page
from parallax.analysis.report.render_markdown import FIGURES, render_markdown
from parallax.analysis.report.sections.ablation import AblationReport
from parallax.analysis.report.sections.comparison import format_why_command
from parallax.analysis.report.study_report import make_report_document
from parallax.analysis.verdicts.study import StudyResults, judge_study
from parallax.harness.record.files import print_lines, write_files_atomically

HTML_PAGE_NAME, MARKDOWN_NAME = "report.html", "report.md"
_REPORT_PACKAGES = ("numpy", "scipy", "matplotlib", "seaborn", "jinja2")
# Options that change the page; `jobs` does not.
VERDICT_OPTIONS = (
    *("interval", "alpha", "margin", "margin_of", "failed_below", "family", "power", "rng_seed"),
    *("range", "endpoint"),
)
_REPEATED_OPTIONS = (*VERDICT_OPTIONS, "output")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    common.add_folder_arguments(parser)
    common.add_jobs_argument(parser)
    common.add_verdict_arguments(parser, has_intervals=True)
    text = f"also write {MARKDOWN_NAME}, and the main figures in {FIGURES}/ beside it"
    parser.add_argument("--markdown", action="store_true", help=text)
    parser.set_defaults(defaults={name: parser.get_default(name) for name in _REPEATED_OPTIONS})


def run(options: argparse.Namespace) -> int:
    """Write the page and print its path.

    Raises:
        CommandError: There are no runs, or nowhere to write.
    """
    settings = common.make_options(options)
    loaded = common.load_results(options.results, settings, prints_conflicts=True)
    output = common.choose_output_folder(options)
    with common.open_output_folder(output):
        results = judge_study(loaded, settings, options.interval)
        document, images = draw_report(results, format_report_command(options), options.jobs)
        contents: dict[Path, str | bytes] = {
            output / HTML_PAGE_NAME: render_report(results, document, images, output)
        }
        if options.markdown:
            contents |= render_markdown_report(document, images, output)
        write_files_atomically(contents)
    why = format_why_command(results.groups.values(), options.results)
    next_step = [f"Next:   {why}"] if why else []
    print_lines([f"Report: {output / HTML_PAGE_NAME}", *next_step])
    return 0


def draw_report(
    results: StudyResults, command: str, jobs: int, ablations: tuple[AblationReport, ...] = ()
) -> tuple[Document, dict[str, bytes]]:
    """Make the report and draw its figures.

    Returns:
        The report, and each figure as WebP by its name.
    """
    figures = make_family_figure_specs(results, [])
    document = make_report_document(results, figures, command, describe_versions(), ablations)
    specs = list_figure_specs(document.blocks)
    drawn = render_figures(specs, ["webp"], PAGE_DPI, jobs)
    images = {spec.name: files["webp"] for spec, files in common.track_progress(drawn, len(specs))}
    return document, images


def list_figure_specs(blocks: Iterable[Block]) -> list[FigureSpec]:
    """Return all figures of some blocks and of the sections among them, in order."""
    found: list[FigureSpec] = []
    for block in blocks:
        if isinstance(block, ReportSection):
            found += list_figure_specs(block.blocks)
        elif isinstance(block, FigureSpec):
            found.append(block)
    return found


def render_report(
    results: StudyResults, document: Document, images: Mapping[str, bytes], folder: Path
) -> str:
    """Return the report as one HTML page, whose links start from a folder."""
    return render_page(document, make_page_context(results.verdicts.groups, folder, images))


def render_markdown_report(
    document: Document, images: Mapping[str, bytes], folder: Path
) -> dict[Path, str | bytes]:
    """Return the report as Markdown and its main figures, by their places."""
    names = [spec.name for spec in list_figure_specs(document.blocks) if spec.is_main]
    places = {name: folder / FIGURES / f"{name}.png" for name in names}
    figures = {path: webp_to_png(images[name]) for name, path in places.items()}
    return {**figures, folder / MARKDOWN_NAME: render_markdown(document, names)}


def format_report_command(options: argparse.Namespace) -> str:
    """Return the command line that makes the page again, without options at their defaults."""
    words = ["parallax", "report", str(options.results)]
    return shlex.join([*words, *format_changed_options(options, _REPEATED_OPTIONS)])


def format_changed_options(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Return the command-line words of options that differ from their defaults.

    `options.defaults` has the default values.
    """
    words: list[str] = []
    for name in names:
        value = getattr(options, name)
        if value == options.defaults[name]:
            continue
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        else:
            for item in value if isinstance(value, list) else [value]:
                words += [flag, str(item)]
    return words


def describe_versions() -> str:
    """Return the versions of Python and packages that the page is made with."""
    packages = (f"{name} {importlib.metadata.version(name)}" for name in _REPORT_PACKAGES)
    return ", ".join([f"Python {platform.python_version()}", *packages])
