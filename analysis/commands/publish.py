"""Command: publication of a packed study as page, tables, figures and a section of a README.

The output names the command that writes it again, to the same bytes.
"""

import argparse
import dataclasses
import os
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from parallax.analysis.commands import common
from parallax.analysis.commands.questions import NO_INTERVENTION_MESSAGE
from parallax.analysis.commands.report import (
    HTML_PAGE_NAME,
    VERDICT_OPTIONS,
    draw_report,
    format_changed_options,
    render_report,
)
from parallax.analysis.data.packed import encode_runs
from parallax.analysis.data.runs import LoadedRuns
from parallax.analysis.data.study_grid import StudyGrid, read_grid
from parallax.analysis.figures import families, final_scores
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure, render_figures
from parallax.analysis.labels import hide_machine
from parallax.analysis.report.publication import (
    PUBLICATION_PAGE_NAME,
    SECTION_BEGIN,
    SECTION_END,
    TABLES,
    StudyPublication,
    make_publication_texts,
    make_readme_section,
    splice_readme_section,
)
from parallax.analysis.report.render_markdown import FIGURES
from parallax.analysis.report.sections.ablation import AblationReport, make_ablation_reports
from parallax.analysis.verdicts.alignment_levels import LevelResults
from parallax.analysis.verdicts.crossed_design import (
    CrossedDesign,
    describe_other_settings,
    judge_crossed_designs,
)
from parallax.analysis.verdicts.endpoints import settle_options
from parallax.analysis.verdicts.groups import ScoreGroup, group_runs
from parallax.analysis.verdicts.level_checks import (
    LongerRuns,
    NegativeControl,
    judge_longer_runs,
    judge_negative_controls,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import StudyResults, judge_study
from parallax.harness.record.files import (
    UnusableError,
    print_lines,
    read_bounded,
    write_files_atomically,
)
from parallax.harness.record.layout import PACKED_SUFFIX

DPI = 150
_MAX_PAGE_BYTES = 2**26
_COMMAND = "parallax study publish"
_EARLIER_COMMAND = "parallax publish"  # in pages of version 0.1
_REPEATED_OPTIONS = (
    *VERDICT_OPTIONS,
    *("title", "note", "grid", "readme", "ablation", "crossed", "longer", "control", "html"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("study", type=Path, help="file of packed runs from `parallax study pack`")
    parser.add_argument("folder", type=Path, help="folder for page, tables and figures")
    text = "heading of the page (default: The study NAME)"
    parser.add_argument("--title", metavar="TEXT", help=text)
    text = "first note for readers, below the heading; further notes follow the answer"
    parser.add_argument("--note", action="append", default=[], metavar="TEXT", help=text)
    text = (
        "file with the grid of the study, such as harness/conf/study/short_runs.yaml; the page "
        "lists which of its runs exist"
    )
    parser.add_argument("--grid", type=Path, metavar="FILE", help=text)
    text = f"also write a section into this file, between {SECTION_BEGIN} and {SECTION_END}"
    parser.add_argument("--readme", type=Path, metavar="FILE", help=text)
    text = (
        "packed runs with and without interventions; the page reports the effect of each change "
        "and the share of a gap that it explains; may be repeated"
    )
    parser.add_argument(
        "--ablation", type=Path, action="append", default=[], metavar="FILE", help=text
    )
    text = "packed runs of `study=crossed`; the page reports effects of recipes and frameworks"
    parser.add_argument("--crossed", type=Path, metavar="FILE", help=text)
    text = (
        "packed runs of the same settings with more steps, such as `study=ladder_length`; the "
        "page reports how far scores still rise"
    )
    parser.add_argument("--longer", type=Path, metavar="FILE", help=text)
    text = (
        "negative control: frameworks, such as sb3,cleanrl, whose spread the page reports where "
        "lockstep training shows them to compute the same updates"
    )
    parser.add_argument("--control", default="", metavar="FRAMEWORKS", help=text)
    text = f"also write the whole page, {HTML_PAGE_NAME}"
    parser.add_argument("--html", action="store_true", help=text)
    common.add_jobs_argument(parser)
    common.add_verdict_arguments(parser, has_intervals=True)
    parser.set_defaults(defaults={name: parser.get_default(name) for name in _REPEATED_OPTIONS})


def run(options: argparse.Namespace) -> int:
    """Write everything and print the paths.

    Raises:
        CommandError: The file holds no packed runs, the grid, a file of ablations or the README
            cannot be used, or there is nowhere to write.
    """
    folder: Path = options.folder
    _check_places(folder, options.readme)
    study, found = prepare_publication(options), common.read_results(options.study)
    common.check_replaced_runs(folder / study.file, found)
    written = list_output_texts(options, study)
    specs = (*study.figure_specs, *(one.figure_spec for one in study.ablations))
    drawn = draw_publication_figures(specs, folder / FIGURES, options.jobs)
    packed = encode_runs(found, anonymize=True)
    contents: dict[Path, str | bytes] = {folder / study.file: packed, **written, **drawn}
    if options.html:
        report = draw_report(study.results, study.command, options.jobs, study.ablations)
        contents[folder / HTML_PAGE_NAME] = render_report(study.results, *report, folder)
    with common.open_output_folder(folder):
        write_files_atomically(contents)
    left = _list_leftover_files(folder, {*written, *drawn})
    print_lines(
        [
            *(f"Written: {path}" for path in written),
            *(f"Left from before, not made by this call: {path}" for path in left),
            f"Figures: {folder / FIGURES}: {len(drawn)}",
        ]
    )
    return 0


def draw_publication_figures(
    specs: Sequence[FigureSpec], folder: Path, jobs: int
) -> dict[Path, bytes]:
    """Draw figures, and return them by their places."""
    drawn = render_figures(specs, ["png"], DPI, jobs)
    return {
        folder / f"{spec.name}.png": content["png"]
        for spec, content in common.track_progress(drawn, len(specs))
    }


def _check_places(folder: Path, readme: Path | None) -> None:
    """Refuse to overwrite a page that this command has not written, or what is no file or folder.

    Raises:
        CommandError: There is such a page, or something else in the place of a file or folder.
    """
    path = folder / PUBLICATION_PAGE_NAME
    for place in filter(None, (path, readme)):
        if place.exists() and not place.is_file():  # reading a pipe would not end
            raise common.CommandError(f"{place} is no regular file: name another one.")
    for place in (folder / TABLES, folder / FIGURES):
        if place.is_symlink():  # somebody else's folder could lead to any place this way
            raise common.CommandError(f"{place} is a link: delete it, or give another folder.")
        if place.exists() and not place.is_dir():
            raise common.CommandError(f"{place} is no folder: give another folder than {folder}.")
    written = [folder, folder / TABLES, folder / FIGURES, *([readme.parent] if readme else [])]
    for place in written:
        if place.exists() and not os.access(place, os.W_OK):
            raise common.CommandError(
                f"{place}: cannot be written: Permission denied. Choose another folder."
            )
    content = _COMMAND
    if path.exists():
        try:
            content = read_bounded(path.resolve(), _MAX_PAGE_BYTES).decode(errors="replace")
        except (OSError, UnusableError) as error:
            raise common.CommandError(
                f"{path} cannot be read ({error}): give another folder."
            ) from error
    if not any(command in content for command in (_COMMAND, _EARLIER_COMMAND)):
        raise common.CommandError(
            f"{path}: there is a page already that `parallax study publish` did not write. "
            "Give another folder."
        )


def _list_leftover_files(folder: Path, made: Collection[Path]) -> list[Path]:
    there = [*(folder / TABLES).glob("*"), *(folder / FIGURES).glob("*")]
    return sorted(path for path in there if path not in made)


def list_output_texts(options: argparse.Namespace, study: StudyPublication) -> dict[Path, str]:
    """Return every text that is written, by its path; figures and packed runs are not included.

    Raises:
        CommandError: The README cannot be read or has no place for the section.
    """
    found = {options.folder / name: text for name, text in make_publication_texts(study).items()}
    if options.readme:
        found[options.readme] = _update_readme(options, study)
    return found


def _update_readme(options: argparse.Namespace, study: StudyPublication) -> str:
    path: Path = options.readme
    try:
        before = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise common.CommandError(f"--readme={path}: cannot be read: {error}.") from error
    up = Path(os.path.relpath(options.folder, path.parent)).as_posix()
    after = splice_readme_section(before, make_readme_section(study, up))
    if after is None:
        raise common.CommandError(
            f"--readme={path}: the file does not mark the section. Add these two lines:\n"
            f"{SECTION_BEGIN}\n{SECTION_END}"
        )
    return after


def prepare_publication(options: argparse.Namespace) -> StudyPublication:
    """Read and judge the results to publish, and list their figures; draw and write nothing.

    Raises:
        CommandError: The file or an ablation file has no packed runs, an ablation file has no
            interventions or repeats a setting of another, or the grid cannot be read.
    """
    source: Path = options.study
    _check_packed_file(source)
    settings, grid = common.make_options(options), _read_grid_file(options.grid)
    loaded = common.load_results(source, settings)
    results = judge_study(loaded, settings, options.interval)
    # A page combines the scores of all files, so that they must be of one endpoint.
    settings = dataclasses.replace(settings, endpoint=results.verdicts.options.endpoint)
    if options.crossed:
        crossed = _read_crossed(options.crossed, settings, results.levels)
        results = dataclasses.replace(results, crossed=crossed)
    if options.longer:
        longer = _read_longer(options.longer, settings, results.verdicts.groups)
        results = dataclasses.replace(results, longer=longer)
    if options.control:
        results = dataclasses.replace(results, controls=_judge_control(options.control, results))
    names = sorted({cell.study for cell in loaded.cells})
    folder = hide_machine(options.folder)
    place = folder / source.name
    return StudyPublication(
        title=options.title or f"The study {', '.join(names)}",
        notes=tuple(options.note),
        file=source.name,
        results=results,
        figure_specs=_select_figure_specs(results),
        grid=grid,
        command=_format_publish_command(options, place),
        folder=folder.as_posix(),
        ablations=_read_ablations(options.ablation, settings, loaded),
        whole=HTML_PAGE_NAME if options.html else "",
    )


def _read_ablations(
    paths: Sequence[Path], settings: VerdictOptions, study: LoadedRuns
) -> tuple[AblationReport, ...]:
    """Return the ablations in the given files.

    Raises:
        CommandError: A file has nothing to compare, or two have the same setting.
    """
    found: list[AblationReport] = []
    for path in paths:
        _check_packed_file(path, "--ablation=")
        own = make_ablation_reports(
            hide_machine(path).as_posix(), _load_further_runs(path), settings, study
        )
        if not own:
            raise common.CommandError(f"--ablation={path}: {NO_INTERVENTION_MESSAGE}")
        for one in own:
            for other in found:
                if other.key == one.key:
                    raise common.CommandError(
                        f"--ablation={path}: {one.where} is in {other.source} too. Tests are "
                        "corrected within a file: put both into one with parallax study pack."
                    )
        found += own
    return tuple(found)


def _read_crossed(
    path: Path, settings: VerdictOptions, levels: Sequence[LevelResults]
) -> tuple[CrossedDesign, ...]:
    """Return the crossed designs in a file, named by settings that the study's runs do not have.

    Raises:
        CommandError: The file has none that is complete.
    """
    found = judge_crossed_designs(*_read_groups("--crossed=", path, settings))
    if not found:
        raise common.CommandError(
            f"--crossed={path}: no task has two seeds of each recipe in each framework. Train "
            "them with parallax train -m study=crossed."
        )
    others = (one.settings or describe_other_settings(levels, one) for one in found)
    return tuple(dataclasses.replace(one, settings=s) for one, s in zip(found, others, strict=True))


def _read_longer(
    path: Path, settings: VerdictOptions, groups: Sequence[ScoreGroup]
) -> tuple[LongerRuns, ...]:
    """Return a study's settings for which a file has longer runs.

    Raises:
        CommandError: The file has none.
    """
    found = judge_longer_runs(groups, *_read_groups("--longer=", path, settings))
    if not found:
        raise common.CommandError(
            f"--longer={path}: no run has the settings of the study and more steps, on a task "
            "whose solved score is known. Pack runs that differ in `steps` only."
        )
    return found


def _read_groups(
    lead: str, path: Path, settings: VerdictOptions
) -> tuple[tuple[ScoreGroup, ...], VerdictOptions]:
    """Return the runs of a packed file by setting and framework, and the options for them.

    Raises:
        CommandError: There are no packed runs.
    """
    _check_packed_file(path, lead)
    loaded = _load_further_runs(path)
    settled = settle_options(loaded, settings)
    return group_runs(loaded, settled), settled


def _load_further_runs(path: Path) -> LoadedRuns:
    """Return the runs of another file than the study's, and print those that are not used."""
    loaded = common.load_results(path, prints_conflicts=True)
    print_lines(f"{path}: {line}" for line in common.format_unused(loaded))
    return loaded


def _judge_control(text: str, results: StudyResults) -> tuple[NegativeControl, ...]:
    """Judge the negative control of the named frameworks.

    Raises:
        CommandError: The study has no runs of one of them, or there is only one.
    """
    names = list(dict.fromkeys(common.split_names(text)))
    known = sorted({group.framework for group in results.verdicts.groups})
    unknown = [name for name in names if name not in known]
    if unknown or len(names) == 1:
        which = f"{unknown[0]} has no runs" if unknown else "a control needs two frameworks"
        raise common.CommandError(f"--control={text}: {which}. Frameworks: {', '.join(known)}.")
    return tuple(
        control
        for one in results.levels
        for control in judge_negative_controls(one, names, np.random.default_rng(0))
    )


def _check_packed_file(path: Path, lead: str = "") -> None:
    if path.suffix != PACKED_SUFFIX or not path.is_file():
        raise common.CommandError(
            f"{lead}{path}: give a file of packed runs: "
            f"parallax study pack RESULTS --output NAME{PACKED_SUFFIX}."
        )


def _read_grid_file(path: Path | None) -> StudyGrid | None:
    if path is None:
        return None
    try:
        return dataclasses.replace(read_grid(path), path=hide_machine(path))
    except (OSError, UnusableError) as error:
        raise common.CommandError(f"--grid={path}: {error}.") from error


def _select_figure_specs(results: StudyResults) -> tuple[FigureSpec, ...]:
    """Return the overview and the main figures of the report; print why one is not drawn.

    Scores are compared with published ones only if some are comparable, and aggregates over tasks
    need two tasks.
    """
    found = families.make_family_figure_specs(results, families.MAIN_FAMILIES)
    comparable = any(not item.caveats for item in results.verdicts.reproduction)
    items = final_scores.make_overview_figure_specs(results)
    for family in families.MAIN_FAMILIES:
        if family == "reproduction" and not comparable:
            continue
        min_tasks = 2 if family in ("aggregates", "efficiency") else 1
        items += [
            item
            for item in found[family]
            if isinstance(item, MissingFigure) or len({c.env for c in item.cells}) >= min_tasks
        ]
    left = [item for item in items if isinstance(item, MissingFigure)]
    print_lines(f"Not drawn: {item.name}: {item.reason}" for item in left)
    return tuple(item for item in items if isinstance(item, FigureSpec))


def _format_publish_command(options: argparse.Namespace, place: Path) -> str:
    shown = argparse.Namespace(**vars(options))
    for name in ("grid", "readme", "crossed", "longer"):
        path = getattr(options, name)
        setattr(shown, name, None if path is None else hide_machine(path))
    shown.ablation = [hide_machine(path) for path in options.ablation]
    words: Sequence[str] = [
        str(place),
        str(place.parent),
        *format_changed_options(shown, _REPEATED_OPTIONS),
    ]
    return f"{_COMMAND} {shlex.join(words)}"
