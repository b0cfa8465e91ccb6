"""Everything on the page, gathered."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from analysis.figures import families
from analysis.figures.material import Material
from analysis.figures.sheet import NotDrawn
from analysis.report import consistency_words, ranking_words, reproduction_words, study
from analysis.report.consistency_table import consistency_table
from analysis.report.links import Links, make_links
from analysis.report.overall_table import overall_table
from analysis.report.pictures import Picture, Progress, draw_pictures
from analysis.report.provenance import Provenance, read_provenance
from analysis.report.ranking_table import ranking_table
from analysis.report.reproduction_table import reproduction_table
from analysis.report.run_rows import RunRow, run_rows
from analysis.report.statements import Answer
from analysis.report.study import Part
from analysis.report.table_parts import SortableTable
from analysis.score_table import ScoreTable, score_tables


@dataclasses.dataclass(frozen=True, eq=False)
class Content:
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
        pictures: Figures by family.
        not_drawn: Figures without data.
        scores: Tables in the thesis' layout.
        tables: Sortable tables by name.
        runs: Every run folder.
        links: Numbers of groups.
    """

    title: str
    command: str
    versions: str
    material: Material
    parts: tuple[Part, ...]
    provenance: Provenance
    reasons: tuple[tuple[str, int], ...]
    absent: tuple[str, ...]
    answers: tuple[Answer, ...]
    pictures: Mapping[str, tuple[Picture, ...]]
    not_drawn: tuple[NotDrawn, ...]
    scores: tuple[ScoreTable, ...]
    tables: Mapping[str, SortableTable]
    runs: tuple[RunRow, ...]
    links: Links


def gather_content(
    material: Material,
    command: str,
    versions: str,
    page_folder: Path,
    jobs: int,
    progress: Progress,
) -> Content:
    """Draws the figures and words the answers.

    Args:
        material: Runs, verdicts and curves.
        command: What makes the page again.
        versions: What it is made with.
        page_folder: Folder of the page, which links to runs start from.
        jobs: Figures drawn at a time.
        progress: Passes on what is drawn, given how many there will be.
    """
    answers, loaded = material.answers, material.loaded
    links = make_links(answers, page_folder)
    found = families.sheets(material, [])
    names = sorted({cell.study for cell in loaded.cells})
    sortable = [make(answers, links) for make in (reproduction_table, consistency_table)]
    sortable += [ranking_table(answers, links), overall_table(material.overall, answers, links)]
    return Content(
        title=f"Parallax report: {', '.join(names)}",
        command=command,
        versions=versions,
        material=material,
        parts=study.parts(loaded),
        provenance=read_provenance(loaded.runs),
        reasons=study.reasons(loaded),
        absent=study.absent(loaded),
        answers=(
            reproduction_words.reproduction(answers, links),
            consistency_words.consistency(answers, links),
            ranking_words.ranking(answers, links),
        ),
        pictures=draw_pictures(found, links, jobs, progress),
        not_drawn=tuple(
            item for items in found.values() for item in items if isinstance(item, NotDrawn)
        ),
        scores=score_tables(answers, material.method),
        tables={table.name: table for table in sortable},
        runs=run_rows(loaded, links),
        links=links,
    )
