"""The page: everything on it is gathered, its figures are drawn, a template makes it text."""

import base64
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import jinja2

from analysis.data.diagnosed import read_diagnosed
from analysis.figures import families
from analysis.figures.sheet import Files, NotDrawn, Sheet, render_all
from analysis.report import causes as ablated
from analysis.report import consistency, ranking, reproduction, study
from analysis.report.causes import Causes
from analysis.report.consistency import consistency_table, defaults_table
from analysis.report.diagnosis import diagnosis_table, diagnosis_words
from analysis.report.links import Links, make_links
from analysis.report.overall import overall_table
from analysis.report.paired import paired, paired_table
from analysis.report.pooled import pooled, pooled_table, pooled_tasks_table
from analysis.report.ranking import ranking_table
from analysis.report.reproduction import reproduction_table
from analysis.report.statements import AnswerInWords, plural
from analysis.report.study import Part, Provenance, read_provenance
from analysis.report.tables import RunRow, SortableTable, run_rows, setting_columns
from analysis.tables.scores import ScoreTable, score_tables, score_text
from analysis.verdicts.study import Material
from analysis.words import FORMULAS, label, run_counts

DPI = 150

Drawn = tuple[Sheet, Files]
Progress = Callable[[Iterable[Drawn], int], Iterable[Drawn]]


@dataclasses.dataclass(frozen=True)
class Picture:
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
    found: Mapping[str, Sequence[Sheet | NotDrawn]], links: Links, jobs: int, progress: Progress
) -> dict[str, tuple[Picture, ...]]:
    """Draws figures.

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
        if isinstance(item, Sheet)
    }
    sheets = [item for items in found.values() for item in items if isinstance(item, Sheet)]
    pictures: dict[str, list[Picture]] = {family: [] for family in found}
    drawn = render_all(sheets, ["png"], DPI, jobs)
    for sheet, files in progress(drawn, len(sheets)):
        content = files["png"]
        width = int.from_bytes(content[16:20], "big") / DPI  # from the PNG's header
        data = base64.b64encode(content).decode("ascii")
        picture = Picture(
            sheet.name, sheet.title, sheet.caption, data, width, links.of_cells(sheet.cells)
        )
        pictures[owner[sheet.name]].append(picture)
    return {family: tuple(items) for family, items in pictures.items()}


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
    material: Material
    parts: tuple[Part, ...]
    provenance: Provenance
    reasons: tuple[tuple[str, int], ...]
    absent: tuple[str, ...]
    answers: tuple[AnswerInWords, ...]
    others: tuple[AnswerInWords, ...]
    pictures: Mapping[str, tuple[Picture, ...]]
    not_drawn: tuple[NotDrawn, ...]
    scores: tuple[ScoreTable, ...]
    tables: Mapping[str, SortableTable]
    runs: tuple[RunRow, ...]
    diagnosis: tuple[str, ...]
    films: tuple[tuple[str, str], ...]
    links: Links
    causes: tuple[Causes, ...]


def gather_content(
    material: Material,
    command: str,
    versions: str,
    page_folder: Path,
    jobs: int,
    progress: Progress,
    causes: tuple[Causes, ...] = (),
) -> Content:
    """Draws the figures and words the answers.

    Args:
        material: Runs, verdicts and curves.
        command: What makes the page again.
        versions: What it is made with.
        page_folder: Folder of the page, which links to runs start from.
        jobs: Figures drawn at a time.
        progress: Passes on what is drawn, given how many there will be.
        causes: What changes of one thing did, from files of their own.
    """
    verdicts, loaded = material.verdicts, material.loaded
    links = make_links(verdicts, page_folder)
    found = families.sheets(material, [])
    drawn = found | {"causes": [one.sheet for one in causes]}
    names = sorted({cell.study for cell in loaded.cells})
    of_verdicts = (
        *(reproduction_table, consistency_table, defaults_table, ranking_table),
        *(pooled_table, pooled_tasks_table, paired_table),
    )
    sortable = [make(verdicts, links) for make in of_verdicts]
    sortable.append(overall_table(material.overall, verdicts, links))
    diagnosed = read_diagnosed(loaded)
    sortable.append(diagnosis_table(diagnosed, links))
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
            reproduction.reproduction(verdicts, links),
            consistency.consistency(verdicts, links),
            ranking.ranking(verdicts, links),
        ),
        others=(pooled(verdicts, links), paired(verdicts, links)),
        pictures=draw_pictures(drawn, links, jobs, progress),
        not_drawn=tuple(
            item for items in found.values() for item in items if isinstance(item, NotDrawn)
        ),
        scores=score_tables(verdicts, material.method),
        tables={table.name: table for table in sortable},
        runs=run_rows(loaded, links),
        diagnosis=diagnosis_words(diagnosed),
        films=study.films(loaded, links),
        links=links,
        causes=causes,
    )


_FOLDER = Path(__file__).parent

# Families of figures under each heading of the page.
SECTIONS = {
    "reproduction": ("reproduction",),
    "consistency": ("verdicts", "highlights", "intervals", "consistency"),
    "ranking": ("ranks", "ranking"),
    "overall": ("aggregates", "efficiency", "improvement", "profiles"),
    "environment": ("wrappers", "vectorised", "actions"),
}


def render_page(content: Content) -> str:
    """The whole page, which loads nothing from anywhere.

    Args:
        content: What is on it.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        name=label, plural=plural, thousands=lambda n: f"{n:,}", together=_together
    )
    template = environment.get_template("template.html")
    return template.render(
        content=content,
        sections=SECTIONS,
        ablated=ablated,
        style=_read("style.css"),
        script=_read("script.js"),
        run_columns=[text for text, _ in setting_columns(content.material.loaded.cells)],
        score_text=score_text,
        counts=run_counts(content.material.loaded),
        formula=FORMULAS[content.material.method],
        number_of=lambda cell: content.links.numbers[cell.key],
    )


def _together(text: str) -> str:
    """Keeps numbers such as n = 5 on one line."""
    for sign in "=<>":
        text = text.replace(f" {sign} ", f"\N{NO-BREAK SPACE}{sign}\N{NO-BREAK SPACE}")
    return text


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
