"""A study as a folder of a repository: its page in Markdown, its tables, a section of a README.

All of it is text, and the same runs and options give the same bytes on every machine: neither
versions nor dates of what made it stand in it, and tables have ten significant digits.
"""

import dataclasses
import re
from collections.abc import Sequence

from analysis.data.grid import Asked, Grid, asked_of
from analysis.figures.overview import AS_THEY_COME, NAME
from analysis.figures.sheet import Sheet
from analysis.report import causes, counted, decided, held, picked
from analysis.report.causes import Causes
from analysis.report.decided import Section
from analysis.report.statements import plural
from analysis.tables.ablation import rows
from analysis.tables.scores import score_tables, to_csv, to_markdown
from analysis.tables.verdicts import to_csv as rows_to_csv
from analysis.tables.verdicts import verdict_tables
from analysis.verdicts.consistency import PairVerdict
from analysis.verdicts.study import Material
from analysis.words import FORMULAS, plain

PAGE, FIGURES, TABLES = "README.md", "figures", "tables"
BEGIN = "<!-- parallax publish writes from here: changes by hand are lost -->"
END = "<!-- parallax publish writes to here -->"
_FAMILIES = {
    "algorithm": "all pairs of an algorithm",
    "setting": "all pairs of a setting",
    "all": "all pairs",
}
_LONG = re.compile(r"(?<![\w.])-?\d+\.\d{6,}(e[+-]?\d+)?(?![\w.])")


@dataclasses.dataclass(frozen=True, eq=False)
class Publication:
    """What is published.

    Attributes:
        title: Heading of the page.
        file: Name of the file of packed runs, in the folder.
        folder: The folder, as seen from where the command runs.
        command: What makes all of it again.
        material: Runs, verdicts and curves.
        sheets: Figures; the overview, and that of own defaults, if there is one.
        grid: What was asked for; None where no file tells.
        causes: What changes of one thing did, from files of their own.
        whole: Name of the whole page in HTML, in the folder; empty where it is not written.
    """

    title: str
    file: str
    folder: str
    command: str
    material: Material
    sheets: tuple[Sheet, ...]
    grid: Grid | None
    causes: tuple[Causes, ...] = ()
    whole: str = ""

    @property
    def source(self) -> str:
        """The file of packed runs, as seen from where the command runs."""
        return f"{self.folder}/{self.file}"

    @property
    def all_sheets(self) -> tuple[Sheet, ...]:
        """Every figure that is drawn."""
        return (*self.sheets, *(one.sheet for one in self.causes))

    def named(self, name: str) -> tuple[Sheet, ...]:
        """The figure of this name, if there is one."""
        return tuple(sheet for sheet in self.sheets if sheet.name == name)


def texts(study: Publication) -> dict[str, str]:
    """The page and the tables by their names in the folder."""
    verdicts, loaded = study.material.verdicts, study.material.loaded
    scores = score_tables(verdicts, study.material.method)
    tables = {f"{table.name}.csv": to_csv(table) for table in scores}
    tables |= {name: rows_to_csv(rows) for name, rows in verdict_tables(verdicts).items()}
    tables["causes.csv"] = rows_to_csv([row for one in study.causes for row in rows(one.item)])
    tables["runs.csv"] = rows_to_csv(counted.counts(loaded, study.grid))
    found = {f"{TABLES}/{name}": ten_digits(text) for name, text in tables.items() if text}
    return found | {PAGE: page(study)}


def ten_digits(text: str) -> str:
    """Numbers cut to ten significant digits: the last ones may be others on another machine."""
    return _LONG.sub(lambda match: f"{float(match[0]):.10g}", text)


def page(study: Publication) -> str:
    """The page."""
    verdicts, loaded = study.material.verdicts, study.material.loaded
    findings = picked.findings(verdicts)
    same, own = decided.main_pairs(verdicts), decided.default_pairs(verdicts)
    blocks = [
        f"# {study.title}",
        counted.counts_in_words(loaded, study.grid),
        "Compared are final scores: the mean return over the episodes of the last evaluation. "
        + held.what_differs(loaded.runs, causes.explained(study.causes) != ""),
        *_numbered(findings),
        picked.RULE if findings else "",
        causes.explained(study.causes),
        *_pictures(study.named(NAME)),
        _whole(study),
        "## What is decided, setting by setting",
        _terms(study),
        decided.summary(verdicts, same),
        decided.existence(verdicts),
        *_sections(
            decided.settings(verdicts, same), "No two frameworks have a run in one setting."
        ),
        *_as_they_come(study, own),
        *_causes(study),
        "## Does the ranking of algorithms hold?",
        *_sections(decided.ranking(verdicts), "No ranking can be compared."),
        decided.unranked(verdicts),
        "## What was published",
        *map(plain, decided.published(verdicts)),
        "## What was asked for, and what was run",
        counted.counts_table(loaded, study.grid),
        *counted.apart_in_words(loaded, study.grid),
        *counted.made_with(loaded),
        f"## {held.WHERE}",
        *held.held_alike(loaded.runs),
        "## Final scores",
        f"Intervals: 95%, {FORMULAS[study.material.method]}.{_without_width(study)}",
        *_scores(study),
        "## Figures",
        *_pictures([one for one in study.sheets if one.name not in (NAME, AS_THEY_COME)]),
        *_again(study),
        *_yours(study),
    ]
    return _joined(blocks) + "\n"


def section(study: Publication, up: str) -> str:
    """The section of a README, without the marks around it.

    Args:
        study: What is published.
        up: The folder as seen from the README.
    """
    findings = picked.findings(study.material.verdicts)
    return _joined(
        [
            f"## {study.title}",
            counted.counts_in_words(study.material.loaded, study.grid),
            held.unlike_in_words(study.material.loaded.runs),
            *_pictures(study.named(NAME), f"{up}/{FIGURES}"),
            *_numbered(findings),
            picked.RULE if findings else "",
            causes.explained(study.causes, f"{up}/{PAGE}"),
            f"[The page]({up}/{PAGE}) has all pairs, tables and figures, and the commands that "
            f"make runs and page again; [{study.file}]({up}/{study.file}) has the runs.",
        ]
    )


def spliced(text: str, section_text: str) -> str | None:
    """A README with the section between the marks; None where it lacks them.

    Args:
        text: The README.
        section_text: What goes between the marks.
    """
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section_text}\n{END}{after}" if begun and ended else None


def _joined(blocks: Sequence[str]) -> str:
    return "\n\n".join(block.strip("\n") for block in blocks if block)


def _terms(study: Publication) -> str:
    options = study.material.verdicts.options
    return (
        f"*Different*: at {options.alpha:.0%} by Welch's test after Holm's correction over "
        f"{_FAMILIES[options.family]}, and by a permutation test. *Equivalent*: shown to be within "
        f"{options.margin_words}, even if runs that were not seen fail as often as these leave "
        "possible; where nothing is known of a task, of the compared means. The margin stands in "
        "the table. *Undecided* is neither; the seeds needed are those of each that would decide "
        f"either way with {options.power:.0%} power, if the measured values were the true "
        "ones. Intervals are Welch's, one by one: with the correction, or with fewer than four "
        "runs each, by which no permutation test can be significant, a pair may be undecided "
        "though its interval leaves 0 out. n is the number of runs used per framework. *Above "
        "random actions*: by Welch's test too, one by one, against episodes of actions drawn at "
        f"random. All pairs and numbers are in [{TABLES}/]({TABLES}/)."
    )


def _sections(found: Sequence[Section], otherwise: str) -> list[str]:
    return [block for one in found for block in (f"### {one.heading}", *one.blocks)] or [otherwise]


def _as_they_come(study: Publication, own: Sequence[PairVerdict]) -> list[str]:
    if not own:
        return []
    verdicts = study.material.verdicts
    return [
        "## As each framework comes",
        "Each framework under its own defaults, so that frameworks differ in hyperparameters too "
        f"([listed](#{held.ANCHOR})){held.set_for_all(study.material.loaded.runs)}. Tests are "
        "corrected apart from those above.",
        counted.equal_runs(study.material.loaded),
        *_pictures(study.named(AS_THEY_COME)),
        decided.summary(verdicts, own),
        *_sections(decided.settings(verdicts, own), ""),
    ]


def _causes(study: Publication) -> list[str]:
    if not study.causes:
        return []
    found = [block for one in study.causes for block in causes.blocks(one, _pictures([one.sheet]))]
    return [f"## {causes.HEADING}", causes.TERMS, *found]


def _whole(study: Publication) -> str:
    if not study.whole:
        return ""
    return (
        f"Every figure, and tables that sort and filter, are in [{study.whole}]({study.whole}): "
        "one file, to be saved and opened in a browser."
    )


def _numbered(findings: Sequence[str]) -> list[str]:
    return ["\n".join(f"{i}. {text}" for i, text in enumerate(findings, 1))] if findings else []


def _pictures(sheets: Sequence[Sheet], folder: str = FIGURES) -> list[str]:
    return [block for sheet in sheets for block in (_image(sheet, folder), plain(sheet.caption))]


def _image(sheet: Sheet, folder: str) -> str:
    return f"![{plain(sheet.title)}]({folder}/{sheet.name}.png)"


def _without_width(study: Publication) -> str:
    """A warning where all runs of a mean are equal, as at the most that a task allows."""
    groups = study.material.verdicts.groups
    count = sum(group.n > 1 and not group.moments.sd for group in groups)
    if not count:
        return ""
    return (
        f" {plural(count, 'mean')} of equal runs, as at the most that a task allows: intervals "
        "without width, which say nothing of runs that were not seen."
    )


def _scores(study: Publication) -> list[str]:
    tables = score_tables(study.material.verdicts, study.material.method)
    return [block for table in tables for block in (f"### {table.title}", to_markdown(table))]


def _again(study: Publication) -> list[str]:
    loaded, blocks = study.material.loaded, ["## Make it again"]
    if study.grid:
        made: list[Asked] = [asked for item in loaded.folders if (asked := asked_of(item))]
        names = sorted({cell.study for cell in loaded.cells})
        packing = f"parallax pack results/{names[0]} --output {study.source}"
        blocks += ["The runs, and the file that holds them:"]
        blocks += [_code([*study.grid.commands(made), packing])]
    return [
        *blocks,
        "Some of the runs once more, drawn at random and compared bit for bit:",
        _code([f"parallax rerun {study.source} --runs 5 --seed 0"]),
        "This page, its tables and figures:",
        _code([study.command]),
    ]


def _yours(study: Publication) -> list[str]:
    adding = f"parallax add {study.source} results/mine --output both.parquet"
    return [
        "## Your runs beside these",
        "Runs of another framework, or of further seeds, are put beside these by",
        _code([adding, "parallax verdicts both.parquet", "parallax report both.parquet"]),
        "They are compared with those of equal task, algorithm, recipe and settings.",
    ]


def _code(lines: Sequence[str]) -> str:
    return "\n".join(["```sh", *lines, "```"])
