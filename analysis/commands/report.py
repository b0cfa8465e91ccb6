"""Writes one page with everything: what was run, answers in words, figures, tables, runs."""

import argparse
import base64
import importlib.metadata
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from analysis.commands.figures import add_interval_argument, add_jobs_argument
from analysis.commands.shell import (
    add_folder_arguments,
    add_verdict_arguments,
    analysis_folder,
    load_results,
    make_console,
    make_options,
    progress,
    writing_to,
)
from analysis.report.causes import Causes
from analysis.report.markdown import markdown, pictures
from analysis.report.page import Content, gather_content, render_page
from analysis.verdicts.study import Material, gather
from harness.record.files import bytes_writer, write_atomically, write_text

PAGE, TEXT, FIGURES = "report.html", "report.md", "figures"
_PACKAGES = ("numpy", "scipy", "matplotlib", "seaborn", "jinja2")
# Options that change the page; `jobs` does not.
SETTINGS = (
    *("interval", "alpha", "margin", "margin_of", "failed_below", "family", "power", "rng_seed"),
    "range",
)
_NAMES = (*SETTINGS, "output")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    add_folder_arguments(parser)
    add_interval_argument(parser)
    add_jobs_argument(parser)
    add_verdict_arguments(parser)
    parser.add_argument(
        "--markdown",
        action="store_true",
        help=f"also write {TEXT}, and the main figures in {FIGURES}/ beside it",
    )
    parser.set_defaults(defaults={name: parser.get_default(name) for name in _NAMES})


def run(options: argparse.Namespace) -> int:
    """Writes the page and says where it is.

    Raises:
        CommandError: There are no runs, or nowhere to write.
    """
    settings = make_options(options)
    loaded = load_results(options.results)
    output = options.output or analysis_folder(options.results)
    console = make_console()
    with writing_to(output):
        material = gather(loaded, settings, options.interval)
        made = command(options), versions()
        content = gather_content(material, *made, output, options.jobs, progress)
        write_text(output / PAGE, render_page(content))
        if options.markdown:
            write_markdown(content, output)
    console.print(Text(f"Report: {output / PAGE}"), soft_wrap=True)
    return 0


def write_markdown(content: Content, output: Path) -> None:
    """Writes the page as Markdown, and its figures beside it."""
    (output / FIGURES).mkdir(exist_ok=True)
    for picture in pictures(content):
        drawn = bytes_writer(base64.b64decode(picture.data))
        write_atomically(output / FIGURES / f"{picture.name}.png", drawn)
    write_text(output / TEXT, markdown(content, FIGURES))


def page_of(
    material: Material, made_by: str, output: Path, jobs: int, causes: tuple[Causes, ...]
) -> str:
    """The page, for who has judged the runs already.

    Args:
        material: Runs, verdicts and curves.
        made_by: What makes it again.
        output: Its folder.
        jobs: Figures drawn at a time.
        causes: What changes of one thing did, from files of their own.
    """
    made = made_by, versions()
    return render_page(gather_content(material, *made, output, jobs, progress, causes))


def command(options: argparse.Namespace) -> str:
    """The command line that makes the page again, without what is as by default."""
    words = ["python", "-m", "analysis", "report", str(options.results)]
    return shlex.join([*words, *given(options, _NAMES)])


def given(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
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


def versions() -> str:
    """Python and packages that the page is made with."""
    found = [f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)
