"""A study as a folder of a repository: its page in Markdown, its tables, a section of a README.

All of it is text, and the same runs and options give the same bytes on every machine: neither
versions nor dates of what made it stand in it, and tables have ten significant digits.
"""

import dataclasses
import re
import shlex
from collections.abc import Sequence

from parallax.analysis.data.study_grid import RequestedRun, StudyGrid, requested_run_from_folder
from parallax.analysis.escaping import finish_markdown
from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.figures.final_scores import DEFAULTS_NAME, OVERVIEW_NAME
from parallax.analysis.labels import INTERVAL_FORMULAS, escape_markdown
from parallax.analysis.report.document import ReportSection
from parallax.analysis.report.phrases import format_count
from parallax.analysis.report.render_csv import rows_to_csv, table_to_csv
from parallax.analysis.report.sections import (
    ablation,
    consistency,
    headline,
    hyperparameters,
    overall,
    ranking,
    reproduction,
    runs,
)
from parallax.analysis.report.sections.ablation import AblationReport, make_ablation_rows
from parallax.analysis.report.sections.scores import (
    make_score_tables,
    score_table_to_csv,
    score_table_to_markdown,
)
from parallax.analysis.report.study_report import make_verdict_tables
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.study import StudyResults

PUBLICATION_PAGE_NAME, FIGURES, TABLES = "README.md", "figures", "tables"
SECTION_BEGIN = "<!-- parallax study publish: begin (edits here are lost) -->"
SECTION_END = "<!-- parallax study publish: end -->"
_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{6,}(e[+-]?\d+)?(?![\w.])")


@dataclasses.dataclass(frozen=True, eq=False)
class StudyPublication:
    """Contents of a published study.

    Attributes:
        title: Heading of the page.
        file: Name of the file of packed runs, in the folder.
        folder: The folder, as seen from where the command runs.
        command: Command that writes all of it again.
        material: Runs, verdicts and curves.
        sheets: Figures; the overview, and that of library defaults, if there is one.
        grid: The planned runs; None where no file lists them.
        causes: Effects of single changes, from files of their own.
        whole: Name of the whole page in HTML, in the folder; empty where it is not written.
        note: Remark for readers below the title.
    """

    title: str
    file: str
    folder: str
    command: str
    material: StudyResults
    sheets: tuple[FigureSpec, ...]
    grid: StudyGrid | None
    causes: tuple[AblationReport, ...] = ()
    whole: str = ""
    note: str = ""

    @property
    def source(self) -> str:
        """The file of packed runs, as seen from where the command runs."""
        return f"{self.folder}/{self.file}"

    @property
    def all_figure_specs(self) -> tuple[FigureSpec, ...]:
        """Every figure that is drawn."""
        return (*self.sheets, *(one.figure_spec for one in self.causes))

    def find_figure_specs(self, name: str) -> tuple[FigureSpec, ...]:
        """Return the figure of this name, if there is one."""
        return tuple(sheet for sheet in self.sheets if sheet.name == name)


def make_publication_texts(study: StudyPublication) -> dict[str, str]:
    """Return the page and the tables by their names in the folder."""
    verdicts, loaded = study.material.verdicts, study.material.loaded
    scores = make_score_tables(verdicts, study.material.method)
    tables = {f"{table.name}.csv": score_table_to_csv(table) for table in scores}
    tables |= {
        name: table_to_csv(one) for name, one in make_verdict_tables(verdicts).items() if one.items
    }
    tables["causes.csv"] = rows_to_csv(
        [row for one in study.causes for row in make_ablation_rows(one.item)]
    )
    tables["runs.csv"] = rows_to_csv(runs.count_runs_by_setting(loaded, study.grid))
    found = {f"{TABLES}/{name}": round_to_ten_digits(text) for name, text in tables.items() if text}
    return found | {PUBLICATION_PAGE_NAME: make_publication_page(study)}


def round_to_ten_digits(text: str) -> str:
    """Round numbers to ten significant digits: the last ones vary between machines."""
    return _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.10g}", text)


def make_publication_page(study: StudyPublication) -> str:
    """Return the page."""
    verdicts, loaded = study.material.verdicts, study.material.loaded
    findings = headline.select_headline_findings(verdicts)
    same, own = verdicts.main_consistency, verdicts.main_defaults
    blocks = [
        f"# {study.title}",
        f"> **Note.** {study.note}" if study.note else "",
        runs.describe_counts(loaded, study.grid),
        "Compared are final scores: the mean return over the episodes of the last evaluation. "
        + hyperparameters.describe_differences(
            loaded.runs, ablation.render_explanations(study.causes) != ""
        ),
        *_number_findings(findings),
        headline.SELECTION_RULE if findings else "",
        ablation.render_explanations(study.causes),
        *_render_figures(study.find_figure_specs(OVERVIEW_NAME)),
        _render_html_link(study),
        "## Verdicts, setting by setting",
        _describe_terms(study),
        consistency.make_setting_summary(verdicts, same),
        overall.describe_omnibus(verdicts),
        *_render_sections(
            consistency.make_setting_sections(verdicts, same),
            "No two frameworks have a run in one setting.",
        ),
        *_render_defaults(study, own),
        *_render_ablations(study),
        "## Does the ranking of algorithms hold?",
        *_render_sections(ranking.make_ranking_sections(verdicts), "No ranking can be compared."),
        ranking.describe_unranked(verdicts),
        "## What was published",
        *map(escape_markdown, reproduction.describe_published(verdicts)),
        "## Runs requested, completed and used",
        runs.make_counts_table(loaded, study.grid),
        *runs.describe_unused_runs(loaded, study.grid),
        *runs.render_provenance(loaded),
        f"## {hyperparameters.HYPERPARAMETERS_HEADING}",
        *hyperparameters.render_hyperparameter_differences(loaded.runs),
        "## Final scores",
        f"Intervals: 95%, {INTERVAL_FORMULAS[study.material.method]}.{_warn_of_equal_runs(study)}",
        *_render_score_tables(study),
        "## Figures",
        *_render_figures(
            [one for one in study.sheets if one.name not in (OVERVIEW_NAME, DEFAULTS_NAME)]
        ),
        *_render_commands(study),
        *_render_merge_commands(study),
    ]
    return finish_markdown(_join_blocks(blocks) + "\n")


def make_readme_section(study: StudyPublication, up: str) -> str:
    """Return the section of a README, without the marks around it.

    Args:
        study: What is published.
        up: The folder as seen from the README.
    """
    findings = headline.select_headline_findings(study.material.verdicts)
    blocks = [
        f"## {study.title}",
        runs.describe_counts(study.material.loaded, study.grid),
        hyperparameters.describe_unequal_recipes(study.material.loaded.runs),
        *_render_figures(study.find_figure_specs(OVERVIEW_NAME), f"{up}/{FIGURES}"),
        *_number_findings(findings),
        headline.SELECTION_RULE if findings else "",
        ablation.render_explanations(study.causes, f"{up}/{PUBLICATION_PAGE_NAME}"),
        f"[The page]({up}/{PUBLICATION_PAGE_NAME}) has all pairs, tables and figures, and the "
        "commands that "
        f"make runs and page again; [{study.file}]({up}/{study.file}) has the runs.",
    ]
    return finish_markdown(_join_blocks(blocks))


def splice_readme_section(text: str, section_text: str) -> str | None:
    """Return a README with the section between the marks; None where it lacks them.

    Args:
        text: The README.
        section_text: What goes between the marks.
    """
    before, begun, rest = text.partition(SECTION_BEGIN)
    _, ended, after = rest.partition(SECTION_END)
    return (
        f"{before}{SECTION_BEGIN}\n{section_text}\n{SECTION_END}{after}"
        if begun and ended
        else None
    )


def _join_blocks(blocks: Sequence[str]) -> str:
    return "\n\n".join(block.strip("\n") for block in blocks if block)


def _describe_terms(study: StudyPublication) -> str:
    terms = consistency.describe_verdict_terms(study.material.verdicts.options)
    others = (
        "n: runs used per framework.",
        "Better than random: Welch's test, uncorrected, against episodes of random actions.",
    )
    lines = [f"- {escape_markdown(text)}" for text in (*terms, *others)]
    return "\n".join([*lines, "", f"All pairs and numbers are in [{TABLES}/]({TABLES}/)."])


def _render_sections(found: Sequence[ReportSection], otherwise: str) -> list[str]:
    return [block for one in found for block in (f"### {one.heading}", *one.blocks)] or [otherwise]


def _render_defaults(study: StudyPublication, own: Sequence[PairVerdict]) -> list[str]:
    if not own:
        return []
    verdicts = study.material.verdicts
    return [
        "## Library defaults",
        "Each framework runs under the defaults of its library, so that frameworks differ in "
        f"hyperparameters too ([listed](#{hyperparameters.HYPERPARAMETERS_ANCHOR}))"
        f"{hyperparameters.describe_common_overrides(study.material.loaded.runs)}. These tests are "
        "corrected separately from those above.",
        runs.describe_equal_runs(study.material.loaded),
        *_render_figures(study.find_figure_specs(DEFAULTS_NAME)),
        consistency.make_setting_summary(verdicts, own),
        *_render_sections(consistency.make_setting_sections(verdicts, own), ""),
    ]


def _render_ablations(study: StudyPublication) -> list[str]:
    if not study.causes:
        return []
    found = [
        block
        for one in study.causes
        for block in ablation.render_ablation_report(one, _render_figures([one.figure_spec]))
    ]
    return [f"## {ablation.ABLATION_HEADING}", ablation.ABLATION_TERMS, *found]


def _render_html_link(study: StudyPublication) -> str:
    if not study.whole:
        return ""
    return (
        f"Every figure, and tables that sort and filter, are in [{study.whole}]({study.whole}): "
        "one file, to be saved and opened in a browser."
    )


def _number_findings(findings: Sequence[str]) -> list[str]:
    return ["\n".join(f"{i}. {text}" for i, text in enumerate(findings, 1))] if findings else []


def _render_figures(sheets: Sequence[FigureSpec], folder: str = FIGURES) -> list[str]:
    return [
        block
        for sheet in sheets
        for block in (_render_image(sheet, folder), escape_markdown(sheet.caption))
    ]


def _render_image(sheet: FigureSpec, folder: str) -> str:
    return f"![{escape_markdown(sheet.title)}]({folder}/{sheet.name}.png)"


def _warn_of_equal_runs(study: StudyPublication) -> str:
    """Return a warning where all runs of a mean are equal, as at the most that a task allows."""
    groups = study.material.verdicts.groups
    count = sum(group.n > 1 and not group.moments.sd for group in groups)
    if not count:
        return ""
    return (
        f" {format_count(count, 'mean')} of equal runs, such as those at a task's maximum, "
        "have an interval of width 0, which says nothing about possible unobserved failures."
    )


def _render_score_tables(study: StudyPublication) -> list[str]:
    tables = make_score_tables(study.material.verdicts, study.material.method)
    return [
        block
        for table in tables
        for block in (f"### {table.title}", score_table_to_markdown(table))
    ]


def _render_commands(study: StudyPublication) -> list[str]:
    loaded, blocks = study.material.loaded, ["## Reproduce this page"]
    if study.grid:
        made: list[RequestedRun] = [
            planned for item in loaded.folders if (planned := requested_run_from_folder(item))
        ]
        names = sorted({cell.study for cell in loaded.cells})
        packing = (
            f"parallax study pack results/{shlex.quote(names[0])} "
            f"--output {shlex.quote(study.source)}"
        )
        blocks += ["The runs, and the file that holds them:"]
        blocks += [_render_code_block([*study.grid.format_commands(made), packing])]
    return [
        *blocks,
        "Some of the runs once more, drawn at random and compared bit for bit:",
        _render_code_block(
            [f"parallax run reproduce {shlex.quote(study.source)} --runs 5 --seed 0"]
        ),
        "This page, its tables and figures:",
        _render_code_block([study.command]),
    ]


def _render_merge_commands(study: StudyPublication) -> list[str]:
    adding = f"parallax study merge {shlex.quote(study.source)} results/mine --output both.parquet"
    return [
        "## Your runs beside these",
        "Runs of another framework, or of further seeds, are put beside these by",
        _render_code_block(
            [adding, "parallax study verdicts both.parquet", "parallax report both.parquet"]
        ),
        "They are compared with those of equal task, algorithm, recipe and settings.",
    ]


def _render_code_block(lines: Sequence[str]) -> str:
    return "\n".join(["```sh", *lines, "```"])
