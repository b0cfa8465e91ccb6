"""A study as a folder of a repository: its page in Markdown, its tables, a section of a README.

All files are text, and the same runs and options give the same bytes on every machine: they contain
no versions or dates of tools, and tables have ten significant digits.
"""

import dataclasses
import re
import shlex
from collections.abc import Sequence

from parallax.analysis.data.study_grid import RequestedRun, StudyGrid, requested_run_from_folder
from parallax.analysis.figures.alignment_levels import LEVELS_NAME
from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.figures.final_scores import DEFAULTS_NAME, OVERVIEW_NAME
from parallax.analysis.figures.time_to_solved import REACHED_NAME
from parallax.analysis.labels import INTERVAL_FORMULAS, format_count
from parallax.analysis.report.document import (
    Block,
    CodeBlock,
    Document,
    Link,
    Listing,
    Remark,
    ReportSection,
    Strong,
    Words,
    join_words,
)
from parallax.analysis.report.render_markdown import FIGURES, render_markdown
from parallax.analysis.report.sections import (
    ablation,
    alignment_levels,
    consistency,
    crossed_design,
    headline,
    hyperparameters,
    level_checks,
    overall,
    pairs_by_setting,
    ranking,
    reproduction,
    runs,
    suite,
)
from parallax.analysis.report.sections.ablation import AblationReport, make_ablation_rows
from parallax.analysis.report.sections.scores import make_score_tables, score_table_to_csv
from parallax.analysis.report.study_report import list_failed_run_answers, make_verdict_tables
from parallax.analysis.report.tables import rows_to_csv, table_to_csv
from parallax.analysis.stats.learning_curves import FINAL
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.study import StudyResults

PUBLICATION_PAGE_NAME, TABLES = "README.md", "tables"
SECTION_BEGIN = "<!-- parallax study publish: begin (edits here are lost) -->"
SECTION_END = "<!-- parallax study publish: end -->"
_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{6,}(e[+-]?\d+)?(?![\w.])")


@dataclasses.dataclass(frozen=True, eq=False)
class StudyPublication:
    """Contents of a published study.

    Attributes:
        file: Name of the file of packed runs, in the folder.
        folder: The folder, as seen from where the command runs.
        command: Command that writes all of it again.
        figure_specs: Figures; the overview, and that of library defaults, if there is one.
        grid: The planned runs; None where no file lists them.
        ablations: Effects of single changes, from separate files.
        whole: Name of the whole page in HTML, in the folder; empty where it is not written.
        notes: Remarks for readers: the first stands below the title, others below the answer.
    """

    title: str
    file: str
    folder: str
    command: str
    results: StudyResults
    figure_specs: tuple[FigureSpec, ...]
    grid: StudyGrid | None
    ablations: tuple[AblationReport, ...] = ()
    whole: str = ""
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The file of packed runs, as seen from where the command runs."""
        return f"{self.folder}/{self.file}"

    def find_figure_specs(self, name: str) -> tuple[FigureSpec, ...]:
        """Return the figure of this name, if there is one."""
        return tuple(spec for spec in self.figure_specs if spec.name == name)


def make_publication_texts(study: StudyPublication) -> dict[str, str]:
    """Return the page and the tables by their names in the folder."""
    verdicts, loaded = study.results.verdicts, study.results.loaded
    scores = make_score_tables(verdicts, study.results.method)
    tables = {f"{table.name}.csv": score_table_to_csv(table) for table in scores}
    tables |= {
        name: table_to_csv(one) for name, one in make_verdict_tables(verdicts).items() if one.items
    }
    tables["causes.csv"] = rows_to_csv(
        [row for one in study.ablations for row in make_ablation_rows(one.item)]
    )
    tables["runs.csv"] = rows_to_csv(runs.count_runs_by_setting(loaded, study.grid))
    found = {f"{TABLES}/{name}": round_to_ten_digits(text) for name, text in tables.items() if text}
    return found | {PUBLICATION_PAGE_NAME: render_markdown(make_publication_document(study))}


def round_to_ten_digits(text: str) -> str:
    """Round numbers to ten significant digits: the last ones vary between machines."""
    return _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.10g}", text)


def make_publication_document(study: StudyPublication) -> Document:
    """Return the page."""
    verdicts, loaded = study.results.verdicts, study.results.loaded
    blocks: list[Block] = [
        *_make_answer_blocks(study),
        *_link_html(study),
        _make_verdicts_section(study),
        *_make_defaults_section(study, verdicts.main_defaults),
        *([ablation.make_ablation_section(study.ablations)] if study.ablations else []),
        ReportSection(
            "Does the ranking of algorithms hold?",
            (
                *(ranking.make_ranking_sections(verdicts) or ["No ranking can be compared."]),
                ranking.describe_unranked(verdicts),
            ),
        ),
        ReportSection("What was published", reproduction.describe_published(verdicts)),
        ReportSection(
            "Runs requested, completed and used",
            (
                runs.make_counts_grid(loaded, study.grid),
                *runs.describe_unused_runs(loaded, study.grid),
                *runs.describe_provenance(loaded, with_machine=False),
            ),
        ),
        ReportSection(
            hyperparameters.HYPERPARAMETERS_HEADING,
            tuple(hyperparameters.list_hyperparameter_differences(loaded.runs)),
        ),
        ReportSection(
            "Scores",
            (
                f"Intervals: 95%, {INTERVAL_FORMULAS[study.results.method]}."
                f"{_warn_of_equal_runs(study)}",
                *make_score_tables(verdicts, study.results.method),
            ),
        ),
        ReportSection(
            "Figures",
            tuple(one for one in study.figure_specs if one.name not in _find_shown_figures(study)),
        ),
        _make_commands_section(study),
        _make_merge_section(study),
    ]
    return Document(study.title, tuple(blocks))


def _make_answer_blocks(study: StudyPublication) -> list[Block]:
    """Return the blocks before the verdicts: the answer, notes, counts of runs and findings."""
    results, loaded = study.results, study.results.loaded
    explanations = ablation.list_explanations(study.ablations, is_short=bool(results.levels))
    level_blocks = _make_level_blocks(study, explanations)
    blocks: list[Block] = [*map(Remark, study.notes[:1]), *level_blocks]
    if study.notes[1:]:
        blocks.append(ReportSection("Notes", study.notes[1:]))
    if level_blocks:
        blocks.append(ReportSection("Details", ("All runs and pairs follow.",)))
    endpoint = results.verdicts.options.chosen_endpoint
    kind = "final scores" if endpoint.name == FINAL else "scores"
    differences = hyperparameters.describe_differences(loaded.runs, explanations is not None)
    blocks.append(runs.describe_counts(loaded, study.grid))
    blocks.append(join_words([f"Compared are {kind}: the {endpoint.description}. ", differences]))
    if not results.levels:
        blocks += _list_findings(headline.select_headline_findings(results.verdicts))
        blocks += [explanations] if explanations else []
        blocks += study.find_figure_specs(OVERVIEW_NAME)
    return blocks


def _make_verdicts_section(study: StudyPublication) -> ReportSection:
    verdicts = study.results.verdicts
    pairs = verdicts.main_consistency
    suites, with_failed = suite.describe_suites(verdicts), list_failed_run_answers(verdicts)
    blocks: tuple[Block, ...] = (
        *_describe_terms(study),
        pairs_by_setting.make_setting_summary(verdicts, pairs),
        overall.describe_omnibus(verdicts),
        Listing(suites, "All tasks of an algorithm together") if suites else "",
        Listing(with_failed, consistency.describe_bottom_score(verdicts)) if with_failed else "",
        *(
            pairs_by_setting.make_setting_sections(verdicts, pairs)
            or ["No two frameworks have a run in one setting."]
        ),
    )
    return ReportSection("Verdicts, setting by setting", blocks)


def make_readme_section(study: StudyPublication, up: str) -> str:
    """Return the section of a README, without the marks around it.

    `up` is the folder as seen from the README.
    """
    page = f"{up}/{PUBLICATION_PAGE_NAME}"
    has_levels = bool(study.results.levels)
    blocks: list[Block] = []
    for one in study.results.levels:
        blocks += [
            (Strong(alignment_levels.describe_shares(one)),),
            *_find_figures(study, LEVELS_NAME),
            Listing(alignment_levels.list_level_findings(one)),
        ]
    contents = "says how sure this is, helps to choose a framework, and has"
    if not has_levels:
        contents = "has all pairs, tables and figures, and"
        blocks = [
            runs.describe_counts(study.results.loaded, study.grid),
            hyperparameters.describe_unequal_recipes(study.results.loaded.runs),
            *study.find_figure_specs(OVERVIEW_NAME),
            *_list_findings(headline.select_headline_findings(study.results.verdicts)),
        ]
    blocks += [
        ablation.list_explanations(study.ablations, page, is_short=has_levels) or "",
        (
            Link("The page", page),
            f" {contents} the commands that make runs and page again; ",
            Link(study.file, f"{up}/{study.file}"),
            " has the runs.",
        ),
    ]
    section = ReportSection(study.title, tuple(blocks))
    return render_markdown(Document("", (section,)), folder=f"{up}/{FIGURES}").strip("\n")


def _make_level_blocks(study: StudyPublication, explanations: Listing | None) -> list[Block]:
    """Return the answer of a study with several levels of alignment, which comes first."""
    found: list[Block] = []
    for number, one in enumerate(study.results.levels):
        if number > 0:
            found += alignment_levels.make_level_blocks(one)
            continue
        found += alignment_levels.make_level_blocks(
            one,
            figures=_find_figures(study, LEVELS_NAME),
            causes=[explanations] if explanations else [],
            reached=_find_figures(study, REACHED_NAME),
            crossed=study.results.crossed,
        )
    if study.results.controls:
        found.append(level_checks.make_control_section(study.results.controls))
    if found and study.results.longer:
        found.append(level_checks.make_longer_section(study.results.longer))
    return [*found, *map(crossed_design.make_crossed_section, study.results.crossed)]


def _find_figures(study: StudyPublication, *starts: str) -> list[FigureSpec]:
    return [one for one in study.figure_specs if one.name.startswith(starts)]


def _find_shown_figures(study: StudyPublication) -> set[str]:
    levels = {one.name for one in _find_figures(study, LEVELS_NAME, REACHED_NAME)}
    return levels or {OVERVIEW_NAME, DEFAULTS_NAME}


def splice_readme_section(text: str, section_text: str) -> str | None:
    """Return a README with the section between the marks; None where it lacks them."""
    before, begun, rest = text.partition(SECTION_BEGIN)
    _, ended, after = rest.partition(SECTION_END)
    if not (begun and ended):
        return None
    return f"{before}{SECTION_BEGIN}\n{section_text}\n{SECTION_END}{after}"


def _describe_terms(study: StudyPublication) -> tuple[Block, ...]:
    terms = (
        *consistency.describe_verdict_terms(study.results.verdicts.options),
        "n: runs used per framework.",
        "Shown to learn: final returns above doing nothing, random actions and, in runs that "
        "evaluated it, the framework's own untrained policy by the margin; one-sided Welch tests "
        "against each, uncorrected.",
    )
    path = f"{TABLES}/consistency.csv"
    link = Link(path, path)
    return Listing(terms), ("All pairs are in ", link, "; other numbers are in the tables beside.")


def _make_defaults_section(
    study: StudyPublication, own: Sequence[PairVerdict]
) -> list[ReportSection]:
    if not own:
        return []
    verdicts, loaded = study.results.verdicts, study.results.loaded
    blocks: tuple[Block, ...] = (
        (
            "Each framework runs under the defaults of its library, so that frameworks differ in "
            "hyperparameters too (",
            Link("listed", f"#{hyperparameters.HYPERPARAMETERS_ANCHOR}"),
            ")",
            *hyperparameters.describe_common_overrides(loaded.runs),
            ". These tests are corrected separately from those above.",
        ),
        runs.describe_equal_runs(loaded),
        *study.find_figure_specs(DEFAULTS_NAME),
        pairs_by_setting.make_setting_summary(verdicts, own),
        *pairs_by_setting.make_setting_sections(verdicts, own),
    )
    return [ReportSection("Library defaults", blocks)]


def _link_html(study: StudyPublication) -> list[Words]:
    if not study.whole:
        return []
    return [
        (
            "Every figure, and tables that sort and filter, are in ",
            Link(study.whole, study.whole),
            ": one file, to be saved and opened in a browser.",
        )
    ]


def _list_findings(findings: Sequence[Words]) -> list[Block]:
    if not findings:
        return []
    return [Listing(tuple(findings), is_numbered=True), headline.SELECTION_RULE]


def _warn_of_equal_runs(study: StudyPublication) -> str:
    """Return a warning if all runs of a mean are equal, such as at a task's maximum."""
    groups = study.results.verdicts.groups
    count = sum(group.n > 1 and not group.moments.sd for group in groups)
    if not count:
        return ""
    return (
        f" {format_count(count, 'mean')} of equal runs, such as those at a task's maximum, "
        "have an interval of width 0, which says nothing about possible unobserved failures."
    )


def _make_commands_section(study: StudyPublication) -> ReportSection:
    loaded, blocks = study.results.loaded, list[Block]()
    names = sorted({cell.study for cell in loaded.cells})
    training: tuple[str, ...] = ()
    if study.grid:
        made: list[RequestedRun] = [
            planned for item in loaded.folders if (planned := requested_run_from_folder(item))
        ]
        training = study.grid.format_commands(made)
    elif study.results.levels:
        training = (f"parallax train -m study={shlex.quote(names[0])}",)
    if training:
        packing = (
            f"parallax study pack results/{shlex.quote(names[0])} "
            f"--output {shlex.quote(study.source)}"
        )
        whose = "The runs" if study.grid else "All planned runs, by the code that is installed"
        blocks += [f"{whose}, and the file that holds them:", CodeBlock((*training, packing))]
    again = f"parallax run reproduce {shlex.quote(study.source)} --runs 5 --seed 0"
    blocks += [
        "Some of the runs once more, drawn at random and compared bit for bit:",
        CodeBlock((again,)),
        "This page, its tables and figures:",
        CodeBlock((study.command,)),
    ]
    return ReportSection("Reproduce this page", tuple(blocks))


def _make_merge_section(study: StudyPublication) -> ReportSection:
    adding = f"parallax study pack {shlex.quote(study.source)} results/mine --output both.parquet"
    reading = "parallax study verdicts both.parquet", "parallax report both.parquet"
    return ReportSection(
        "Your runs beside these",
        (
            "Runs of another framework, or of further seeds, are put beside these by",
            CodeBlock((adding, *reading)),
            "They are compared with those of equal task, algorithm, recipe and settings.",
        ),
    )
