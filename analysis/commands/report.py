"""Writes one page with everything: what was run, answers in words, figures, tables, runs."""

import argparse
import base64
import importlib.metadata
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands.common import (
    add_folder_arguments,
    add_interval_argument,
    add_verdict_arguments,
    get_analysis_folder,
    load_results,
    make_console,
    make_options,
    open_output_folder,
    track_progress,
)
from parallax.analysis.commands.figures import add_jobs_argument
from parallax.analysis.report.render_html import render_page
from parallax.analysis.report.render_markdown import list_main_pictures, render_markdown
from parallax.analysis.report.sections.ablation import AblationReport
from parallax.analysis.report.study_report import ReportContent, gather_content
from parallax.analysis.verdicts.study import StudyResults, judge_study
from parallax.harness.record.files import make_bytes_writer, write_atomically, write_text

HTML_PAGE_NAME, MARKDOWN_NAME, FIGURES = "report.html", "report.md", "figures"
_REPORT_PACKAGES = ("numpy", "scipy", "matplotlib", "seaborn", "jinja2")
# Options that change the page; `jobs` does not.
VERDICT_OPTIONS = (
    *("interval", "alpha", "margin", "margin_of", "failed_below", "family", "power", "rng_seed"),
    "range",
)
_REPEATED_OPTIONS = (*VERDICT_OPTIONS, "output")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    add_folder_arguments(parser)
    add_interval_argument(parser)
    add_jobs_argument(parser)
    add_verdict_arguments(parser)
    parser.add_argument(
        "--markdown",
        action="store_true",
        help=f"also write {MARKDOWN_NAME}, and the main figures in {FIGURES}/ beside it",
    )
    parser.set_defaults(defaults={name: parser.get_default(name) for name in _REPEATED_OPTIONS})


def run(options: argparse.Namespace) -> int:
    """Write the page and print its path.

    Raises:
        CommandError: There are no runs, or nowhere to write.
    """
    settings = make_options(options)
    loaded = load_results(options.results)
    output = options.output or get_analysis_folder(options.results)
    console = make_console()
    with open_output_folder(output):
        material = judge_study(loaded, settings, options.interval)
        made = format_report_command(options), describe_versions()
        content = gather_content(material, *made, output, options.jobs, track_progress)
        write_text(output / HTML_PAGE_NAME, render_page(content))
        if options.markdown:
            write_markdown(content, output)
    console.print(Text(f"Report: {output / HTML_PAGE_NAME}"), soft_wrap=True)
    return 0


def write_markdown(content: ReportContent, output: Path) -> None:
    """Write the page as Markdown, and its figures beside it."""
    (output / FIGURES).mkdir(exist_ok=True)
    for picture in list_main_pictures(content):
        drawn = make_bytes_writer(base64.b64decode(picture.data))
        write_atomically(output / FIGURES / f"{picture.name}.png", drawn)
    write_text(output / MARKDOWN_NAME, render_markdown(content, FIGURES))


def render_report(
    material: StudyResults,
    made_by: str,
    output: Path,
    jobs: int,
    ablations: tuple[AblationReport, ...],
) -> str:
    """Return the page, for who has judged the runs already.

    Args:
        material: Runs, verdicts and curves.
        made_by: What makes it again.
        output: Its folder.
        jobs: Figures drawn at a time.
        ablations: What changes of one thing did, from files of their own.
    """
    made = made_by, describe_versions()
    return render_page(gather_content(material, *made, output, jobs, track_progress, ablations))


def format_report_command(options: argparse.Namespace) -> str:
    """Return the command line that makes the page again, without what is as by default."""
    words = ["parallax", "report", str(options.results)]
    return shlex.join([*words, *format_changed_options(options, _REPEATED_OPTIONS)])


def format_changed_options(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Words that give those options again that are not as by default.

    Args:
        options: The command line; `defaults` holds what options are without a word.
        names: Of the options.
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
    """Python and packages that the page is made with."""
    found = [f"Python {platform.python_version()}"]
    for name in _REPORT_PACKAGES:
        found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)
