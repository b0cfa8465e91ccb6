"""The page: everything on it is gathered, its figures are drawn, a template makes it text."""

import base64
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.analysis.data.diagnosis import read_diagnosis_summary
from parallax.analysis.figures import families
from parallax.analysis.figures.figure_spec import (
    FigureFiles,
    FigureSpec,
    MissingFigure,
    reduce_png_colors,
    render_figures,
)
from parallax.analysis.report.document import Table
from parallax.analysis.report.phrases import QuestionAnswer, RunLinks, make_links
from parallax.analysis.report.sections import consistency, ranking, reproduction
from parallax.analysis.report.sections import runs as study
from parallax.analysis.report.sections.ablation import AblationReport
from parallax.analysis.report.sections.consistency import (
    make_consistency_table,
    make_defaults_table,
)
from parallax.analysis.report.sections.overall import (
    answer_paired,
    answer_pooled,
    make_omnibus_table,
    make_overall_table,
    make_paired_table,
    make_pooled_table,
    make_pooled_tasks_table,
)
from parallax.analysis.report.sections.ranking import make_ranking_table
from parallax.analysis.report.sections.reproduction import (
    make_reproduction_table,
)
from parallax.analysis.report.sections.runs import (
    ProvenanceSummary,
    RunRow,
    StudyPart,
    describe_diagnosis,
    make_diagnosis_table,
    make_run_rows,
    summarize_provenance,
)
from parallax.analysis.report.sections.scores import ScoreTable, make_score_tables
from parallax.analysis.report.sections.vs_random import make_vs_random_table
from parallax.analysis.verdicts.study import StudyResults, StudyVerdicts

DPI = 130  # as many pixels as the page shows, by template.html

DrawnFigure = tuple[FigureSpec, FigureFiles]
ProgressWrapper = Callable[[Iterable[DrawnFigure], int], Iterable[DrawnFigure]]


@dataclasses.dataclass(frozen=True)
class ReportPicture:
    """A figure on the page.

    Attributes:
        name: Name of its files, and its anchor.
        title: What it shows.
        caption: The caption.
        data: PNG, base64.
        width: Width in a paper, in inches.
        groups: Numbers of the groups behind it.
    """

    name: str
    title: str
    caption: str
    data: str
    width: float
    groups: tuple[int, ...]


def draw_pictures(
    found: Mapping[str, Sequence[FigureSpec | MissingFigure]],
    links: RunLinks,
    jobs: int,
    progress: ProgressWrapper,
) -> dict[str, tuple[ReportPicture, ...]]:
    """Draw figures.

    Args:
        found: Figures by family.
        links: Numbers of groups.
        jobs: Figures drawn at a time.
        progress: Passes on what is drawn, given how many there will be.

    Returns:
        What was drawn, by family.
    """
    owner = {
        item.name: family
        for family, items in found.items()
        for item in items
        if isinstance(item, FigureSpec)
    }
    sheets = [item for items in found.values() for item in items if isinstance(item, FigureSpec)]
    pictures: dict[str, list[ReportPicture]] = {family: [] for family in found}
    drawn = render_figures(sheets, ["png"], DPI, jobs)
    for sheet, files in progress(drawn, len(sheets)):
        content = reduce_png_colors(files["png"])
        width = int.from_bytes(content[16:20], "big") / DPI  # from the PNG's header
        data = base64.b64encode(content).decode("ascii")
        picture = ReportPicture(
            sheet.name, sheet.title, sheet.caption, data, width, links.get_cell_numbers(sheet.cells)
        )
        pictures[owner[sheet.name]].append(picture)
    return {family: tuple(items) for family, items in pictures.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class ReportContent:
    """Everything on the page.

    Attributes:
        title: Heading.
        command: What makes the page again.
        versions: What it was made with.
        material: Runs, verdicts and curves.
        parts: What was run.
        provenance: Where and with what.
        reasons: Kinds of reasons why folders are not used, with counts.
        absent: Runs without a folder.
        answers: The three answers.
        others: Answers from other looks at the pairs of frameworks, on which no verdict hangs.
        pictures: Figures by family.
        not_drawn: Figures without data.
        scores: Tables in the thesis' layout.
        tables: Sortable tables by name.
        runs: Every run folder.
        diagnosis: What the diagnosis found, in sentences; empty where no run was watched.
        films: Name and address of each film beside them.
        links: Numbers of groups.
        causes: What changes of one thing did, from files of their own.
    """

    title: str
    command: str
    versions: str
    material: StudyResults
    parts: tuple[StudyPart, ...]
    provenance: ProvenanceSummary
    reasons: tuple[tuple[str, int], ...]
    absent: tuple[str, ...]
    answers: tuple[QuestionAnswer, ...]
    other_answers: tuple[QuestionAnswer, ...]
    pictures: Mapping[str, tuple[ReportPicture, ...]]
    missing_figures: tuple[MissingFigure, ...]
    scores: tuple[ScoreTable, ...]
    tables: Mapping[str, Table[Any]]
    runs: tuple[RunRow, ...]
    diagnosis: tuple[str, ...]
    videos: tuple[tuple[str, str], ...]
    links: RunLinks
    causes: tuple[AblationReport, ...]


def gather_content(
    material: StudyResults,
    command: str,
    versions: str,
    page_folder: Path,
    jobs: int,
    progress: ProgressWrapper,
    ablations: tuple[AblationReport, ...] = (),
) -> ReportContent:
    """Draw the figures and phrase the answers.

    Args:
        material: Runs, verdicts and curves.
        command: What makes the page again.
        versions: What it is made with.
        page_folder: Folder of the page, which links to runs start from.
        jobs: Figures drawn at a time.
        progress: Passes on what is drawn, given how many there will be.
        ablations: What changes of one thing did, from files of their own.
    """
    verdicts, loaded = material.verdicts, material.loaded
    links = make_links(verdicts, page_folder)
    found = families.make_family_figure_specs(material, [])
    drawn = found | {"causes": [one.figure_spec for one in ablations]}
    names = sorted({cell.study for cell in loaded.cells})
    diagnosed = read_diagnosis_summary(loaded)
    tables: list[Table[Any]] = [
        *make_verdict_tables(verdicts).values(),
        make_pooled_table(verdicts.pooled),
        make_overall_table(material.overall, verdicts),
        make_diagnosis_table(diagnosed, verdicts),
    ]
    return ReportContent(
        title=f"Parallax report: {', '.join(names)}",
        command=command,
        versions=versions,
        material=material,
        parts=study.list_study_parts(loaded),
        provenance=summarize_provenance(loaded.runs),
        reasons=study.count_exclusion_reasons(loaded),
        absent=study.list_absent_runs(loaded),
        answers=(
            reproduction.answer_reproduction(verdicts, links),
            consistency.answer_consistency(verdicts, links),
            ranking.answer_ranking(verdicts, links),
        ),
        other_answers=(answer_pooled(verdicts, links), answer_paired(verdicts, links)),
        pictures=draw_pictures(drawn, links, jobs, progress),
        missing_figures=tuple(
            item for items in found.values() for item in items if isinstance(item, MissingFigure)
        ),
        scores=make_score_tables(verdicts, material.method),
        tables={table.name: table for table in tables},
        runs=make_run_rows(loaded, links),
        diagnosis=describe_diagnosis(diagnosed),
        videos=study.find_videos(loaded, links),
        links=links,
        causes=ablations,
    )


def make_verdict_tables(verdicts: StudyVerdicts) -> dict[str, Table[Any]]:
    """Return a table for each question and for each other analysis, by the name of its file."""
    return {
        "reproduction.csv": make_reproduction_table(verdicts),
        "consistency.csv": make_consistency_table(verdicts),
        "defaults.csv": make_defaults_table(verdicts),
        "ranking.csv": make_ranking_table(verdicts),
        "omnibus.csv": make_omnibus_table(verdicts.omnibus),
        "pooled.csv": make_pooled_tasks_table(verdicts.pooled),
        "paired.csv": make_paired_table(verdicts.paired),
        "vs_random.csv": make_vs_random_table(verdicts.vs_random),
    }
