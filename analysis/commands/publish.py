"""Writes a packed study into a folder of a repository: page, tables, figures, a README's section.

What is written tells the command that writes it again, to the same bytes.
"""

import argparse
import os
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.text import Text

from analysis.commands.ablation import NOTHING_CHANGED
from analysis.commands.figures import add_interval_argument, add_jobs_argument
from analysis.commands.report import SETTINGS, given, page_of
from analysis.commands.shell import (
    CommandError,
    add_verdict_arguments,
    load_results,
    make_console,
    make_options,
    progress,
    read_results,
    writing_to,
)
from analysis.data.grid import Grid, read_grid
from analysis.data.packed import write_packed
from analysis.data.runs import Loaded
from analysis.figures import families, overview
from analysis.figures.sheet import Sheet, render_all, write_bytes
from analysis.report.causes import Causes, causes
from analysis.report.markdown import MAIN
from analysis.report.publication import (
    BEGIN,
    END,
    FIGURES,
    PAGE,
    TABLES,
    Publication,
    section,
    spliced,
    texts,
)
from analysis.verdicts.options import Options
from analysis.verdicts.study import Material, gather
from harness.record.files import Unusable, write_text
from harness.record.layout import PACKED_SUFFIX

HTML = "report.html"
DPI = 150
_COMMAND = "parallax publish"
_NAMES = (*SETTINGS, "title", "asked", "readme", "causes", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument("study", type=Path, help="file of packed runs, as parallax pack writes it")
    parser.add_argument("folder", type=Path, help="where page, tables and figures go")
    parser.add_argument("--title", help="heading of the page (default: The study NAME)")
    parser.add_argument(
        "--asked",
        type=Path,
        help="file with the grid of the study, such as harness/conf/study/cheap.yaml: the page "
        "tells what of it has been run",
    )
    parser.add_argument(
        "--readme",
        type=Path,
        help=f"also write a section into this file, between {BEGIN} and {END}",
    )
    parser.add_argument(
        "--causes",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="packed runs with interventions and without: the page tells what each change does, "
        "and which share of a gap it is; may be repeated",
    )
    parser.add_argument("--html", action="store_true", help=f"also write the whole page, {HTML}")
    add_interval_argument(parser)
    add_jobs_argument(parser)
    add_verdict_arguments(parser)
    parser.set_defaults(defaults={name: parser.get_default(name) for name in _NAMES})


def run(options: argparse.Namespace) -> int:
    """Writes everything and says where it is.

    Raises:
        CommandError: The file holds no packed runs, the grid, a file of causes or the README cannot
            be used, or there is nowhere to write.
    """
    folder: Path = options.folder
    _check_page(folder / PAGE)
    study = prepare(options)
    written = files(options, study)
    with writing_to(folder):
        place = folder / study.file
        write_packed(read_results(options.study), place, public=True)
        for path, text in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
        drawn = draw(study.all_sheets, folder / FIGURES, options.jobs)
        if options.html:
            page = page_of(study.material, study.command, folder, options.jobs, study.causes)
            write_text(folder / HTML, page)
    console = make_console()
    for path in written:
        console.print(Text(f"Written: {path}"), soft_wrap=True)
    for path in _left(folder, {*written, *drawn}):
        console.print(Text(f"Left from before, not made by this call: {path}"), soft_wrap=True)
    console.print(Text(f"Figures: {folder / FIGURES}: {len(drawn)}"), soft_wrap=True)
    return 0


def draw(sheets: Sequence[Sheet], folder: Path, jobs: int) -> list[Path]:
    """Draws figures, and returns their places."""
    folder.mkdir(exist_ok=True)
    places = []
    for sheet, content in progress(render_all(sheets, ["png"], DPI, jobs), len(sheets)):
        places.append(folder / f"{sheet.name}.png")
        write_bytes(places[-1], content["png"])
    return places


def _check_page(path: Path) -> None:
    """Refuses to write over what somebody else has written.

    Raises:
        CommandError: The page's place is taken.
    """
    if path.exists() and _COMMAND not in path.read_text("utf-8", errors="replace"):
        raise CommandError(
            f"{path}: there is a page already that parallax publish did not write. "
            "Give another folder."
        )


def _left(folder: Path, made: Collection[Path]) -> list[Path]:
    there = [*(folder / TABLES).iterdir(), *(folder / FIGURES).iterdir()]
    return sorted(path for path in there if path not in made)


def files(options: argparse.Namespace, study: Publication) -> dict[Path, str]:
    """Every text that is written, by its place; figures and the packed runs are no texts.

    Raises:
        CommandError: The README cannot be read or has no place for the section.
    """
    found = {options.folder / name: text for name, text in texts(study).items()}
    if options.readme:
        found[options.readme] = _readme(options, study)
    return found


def _readme(options: argparse.Namespace, study: Publication) -> str:
    path: Path = options.readme
    try:
        before = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--readme={path}: cannot be read: {error}.") from error
    up = Path(os.path.relpath(options.folder, path.parent)).as_posix()
    after = spliced(before, section(study, up))
    if after is None:
        raise CommandError(
            f"--readme={path}: it says nowhere where the section goes. Put these two lines there:\n"
            f"{BEGIN}\n{END}"
        )
    return after


def prepare(options: argparse.Namespace) -> Publication:
    """Reads and judges what is published, and lists its figures; draws and writes nothing.

    Raises:
        CommandError: The file or one of causes holds no packed runs, causes change nothing or the
            same twice, or the grid cannot be read.
    """
    source: Path = options.study
    _check_packed(source)
    settings, grid = make_options(options), _grid(options.asked)
    loaded = load_results(source)
    material = gather(loaded, settings, options.interval)
    names = sorted({cell.study for cell in loaded.cells})
    place = options.folder / source.name
    return Publication(
        title=options.title or f"The study {', '.join(names)}",
        file=source.name,
        material=material,
        sheets=_sheets(material),
        grid=grid,
        command=_command(options, place),
        folder=options.folder.as_posix(),
        causes=_causes(options.causes, settings, loaded),
        whole=HTML if options.html else "",
    )


def _causes(paths: Sequence[Path], settings: Options, study: Loaded) -> tuple[Causes, ...]:
    """What files tell of changes.

    Raises:
        CommandError: A file has nothing to compare, or two have the same setting.
    """
    found: list[Causes] = []
    for path in paths:
        _check_packed(path, "--causes=")
        own = causes(path.as_posix(), load_results(path), settings, study)
        if not own:
            raise CommandError(f"--causes={path}: {NOTHING_CHANGED}")
        for one in own:
            for other in found:
                if other.key == one.key:
                    raise CommandError(
                        f"--causes={path}: {one.where} is in {other.source} too. Tests are "
                        "corrected within a file: put both into one with parallax add."
                    )
        found += own
    return tuple(found)


def _check_packed(path: Path, lead: str = "") -> None:
    if path.suffix != PACKED_SUFFIX or not path.is_file():
        raise CommandError(
            f"{lead}{path}: give a file of packed runs: "
            f"parallax pack RESULTS --output NAME{PACKED_SUFFIX}."
        )


def _grid(path: Path | None) -> Grid | None:
    if path is None:
        return None
    try:
        return read_grid(path)
    except (OSError, Unusable) as error:
        raise CommandError(f"--asked={path}: {error}.") from error


def _sheets(material: Material) -> tuple[Sheet, ...]:
    """The overview and the main figures of the report, as far as there are data for them.

    Scores are held against published ones only where some are of one kind with them, and
    aggregates over tasks take two tasks.
    """
    found = families.sheets(material, MAIN)
    comparable = any(not item.remarks for item in material.verdicts.reproduction)
    items = overview.sheets(material)
    for family in MAIN:
        fewest = 2 if family in ("aggregates", "efficiency") else 1
        for item in found[family] if family != "reproduction" or comparable else ():
            if isinstance(item, Sheet) and len({cell.env for cell in item.cells}) >= fewest:
                items.append(item)
    return tuple(item for item in items if isinstance(item, Sheet))


def _command(options: argparse.Namespace, place: Path) -> str:
    words: Sequence[str] = [str(place), str(options.folder), *given(options, _NAMES)]
    return f"{_COMMAND} {shlex.join(words)}"
