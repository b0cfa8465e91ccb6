"""The report of a study as a document: answers in words, figures, tables, runs."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parallax.analysis.data.diagnosis import read_diagnosis_summary
from parallax.analysis.data.runs import LoadedRuns
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.labels import INTERVAL_FORMULAS, format_run_counts, hide_machine, make_anchor
from parallax.analysis.report.document import (
    Block,
    CodeBlock,
    Document,
    Inline,
    Link,
    Listing,
    QuestionAnswer,
    ReportSection,
    join_words,
)
from parallax.analysis.report.sections import (
    ablation,
    consistency,
    learning,
    overall,
    pair_tables,
    runs,
    suite,
)
from parallax.analysis.report.sections.alignment_levels import make_level_section
from parallax.analysis.report.sections.comparison import format_why_command
from parallax.analysis.report.sections.crossed_design import make_crossed_section
from parallax.analysis.report.sections.ranking import answer_ranking, make_ranking_table
from parallax.analysis.report.sections.reproduction import (
    answer_reproduction,
    make_reproduction_table,
)
from parallax.analysis.report.sections.scores import make_score_tables
from parallax.analysis.report.tables import Table
from parallax.analysis.verdicts.endpoints import describe_mixed_endpoints
from parallax.analysis.verdicts.study import StudyResults, StudyVerdicts
from parallax.analysis.verdicts.suite import SuiteVerdict

_MakeTable = Callable[[StudyVerdicts], Table[Any]]
_QUESTIONS = (answer_reproduction, consistency.answer_consistency, answer_ranking)
_TABLES: Mapping[str, _MakeTable] = {
    "reproduction": make_reproduction_table,
    "ranking": make_ranking_table,
    "omnibus": lambda one: overall.make_omnibus_table(one.omnibus),
    "pooled": lambda one: overall.make_pooled_tasks_table(one.pooled),
    "paired": lambda one: overall.make_paired_table(one.paired),
    "vs_random": lambda one: learning.make_vs_random_table(one.vs_random),
    "suite": suite.make_suite_table,
    "all_alike": suite.make_all_alike_table,
    "aggregates": overall.make_overall_table,
    "learning": learning.make_learning_table,
}
"""Tables that are written with failed runs, too."""
FiguresByFamily = Mapping[str, Sequence[FigureSpec | MissingFigure]]


def _make_next_step(results: StudyResults) -> tuple[Block, ...]:
    command = format_why_command(results.groups.values(), hide_machine(results.loaded.root))
    lead = "This command explains the difference of the most different pair:"
    return (lead, CodeBlock((command,))) if command else ()


def make_report_document(
    results: StudyResults,
    figures: FiguresByFamily,
    command: str,
    versions: str,
    ablations: Sequence[ablation.AblationReport] = (),
) -> Document:
    """Return the report."""
    verdicts, loaded = results.verdicts, results.loaded
    pooled, paired = _answer_pooled_and_paired(verdicts)

    def draw(*families: str) -> list[Block]:
        items = [item for family in families for item in figures[family]]
        return [item for item in items if isinstance(item, FigureSpec)]

    def make_both_tables(make: _MakeTable) -> list[Block]:
        return [make(verdicts), make_failed_runs_table(make, verdicts)]

    sections: list[Block] = [
        *draw("levels"),
        *(
            make_level_section(one, draw("reached") if number == 0 else ())
            for number, one in enumerate(results.levels)
        ),
        *(make_crossed_section(one) for one in results.crossed),
        _make_answers_section(verdicts, {**pooled, **paired}, ablations),
        _make_study_section(loaded, figures),
        *_make_diagnosis_section(results),
        *_make_section(
            "Reproduction",
            "reproduction",
            draw("reproduction"),
            *make_both_tables(make_reproduction_table),
        ),
        *_make_section(
            "Consistency",
            "consistency",
            draw("reached") if not results.levels else (),
            *draw("verdicts", "highlights", "intervals", "consistency"),
            pair_tables.make_consistency_table(verdicts),
            pair_tables.make_defaults_table(verdicts),
            pair_tables.make_intention_to_treat_table(verdicts),
            *make_both_tables(learning.make_learning_table),
            suite.make_noise_table(verdicts),
            *_make_next_step(results),
        ),
        *([ablation.make_ablation_section(ablations)] if ablations else []),
        *_make_section(
            "Pooled and paired",
            "others",
            [*pooled.values()],
            *make_both_tables(lambda one: overall.make_pooled_table(one.pooled)),
            *make_both_tables(_TABLES["pooled"]),
            *paired.values(),
            *make_both_tables(_TABLES["paired"]),
        ),
        *_make_section(
            "Ranking", "ranking", draw("ranks", "ranking"), *make_both_tables(make_ranking_table)
        ),
        *_make_section(
            "All tasks at once",
            "overall",
            draw("aggregates", "efficiency", "improvement", "profiles"),
            *make_both_tables(overall.make_overall_table),
            *make_both_tables(suite.make_suite_table),
            *make_both_tables(suite.make_all_alike_table),
        ),
        *_make_section("Environment", "environment", draw("wrappers", "vectorised")),
        ReportSection("Scores", make_score_tables(verdicts, results.method), "scores"),
        _make_runs_section(results),
        _make_method_section(results, command, versions),
    ]
    names = sorted({cell.study for cell in loaded.cells})
    warning = describe_mixed_endpoints(loaded, verdicts.options)
    top = (format_run_counts(loaded), f"{warning}." if warning else "")
    return Document(f"Parallax report: {', '.join(names)}", (*top, *sections))


def _make_study_section(loaded: LoadedRuns, figures: FiguresByFamily) -> ReportSection:
    items = [item for family in figures.values() for item in family]
    not_drawn = [item for item in items if isinstance(item, MissingFigure)]
    blocks = (
        runs.make_study_grid(loaded),
        ReportSection("On what", runs.describe_provenance(loaded, with_machine=True)),
        ReportSection("What is missing", runs.describe_missing_runs(loaded, not_drawn)),
    )
    return ReportSection("What was run", blocks, "study")


def _answer_pooled_and_paired(
    verdicts: StudyVerdicts,
) -> tuple[dict[str, QuestionAnswer], dict[str, QuestionAnswer]]:
    """Return both answers by their name in a sentence; without a pair to analyse, no answer."""
    judged = [one for one in (verdicts, verdicts.with_failed_runs) if one is not None]
    pooled, paired = {}, {}
    if any(one.pooled for one in judged):
        pooled["over all tasks"] = _answer_with_failed_runs(overall.answer_pooled, verdicts)
    if any(one.paired for one in judged):
        paired["seed by seed"] = _answer_with_failed_runs(overall.answer_paired, verdicts)
    return pooled, paired


def _answer_with_failed_runs(
    ask: Callable[[StudyVerdicts], QuestionAnswer], verdicts: StudyVerdicts
) -> QuestionAnswer:
    """Return an answer of complete runs, with what changes in it if failed runs are counted."""
    found = ask(verdicts)
    if verdicts.with_failed_runs is None:
        return found
    other = ask(verdicts.with_failed_runs)
    same = other.headline.text == found.headline.text
    lead = consistency.describe_bottom_score(verdicts)
    text = f"{lead}: {'the same.' if same else other.headline.text}"
    known = {part.text for part in found.parts}
    added = [
        dataclasses.replace(part, text=f"(With failed runs) {part.text}", table="")
        for part in other.parts
        if part.text not in known
    ]
    headline = dataclasses.replace(other.headline, text=text, table="")
    return dataclasses.replace(found, parts=(*found.parts, headline, *added))


def list_failed_run_answers(verdicts: StudyVerdicts) -> tuple[str, ...]:
    """Return the answers to all questions with failed runs at the bottom; none if none failed."""
    other = verdicts.with_failed_runs
    if other is None:
        return ()
    answers = [ask(other) for ask in (*_QUESTIONS, overall.answer_pooled, overall.answer_paired)]
    found = tuple(f"{one.question} {one.headline.text}" for one in answers)
    return (*found, *suite.describe_suites(other))


def make_failed_runs_table(make: _MakeTable, verdicts: StudyVerdicts) -> Table[Any]:
    """Return the rows of a table that failed runs change, with failed runs at the bottom."""
    table = make(verdicts.with_failed_runs or verdicts)
    items = tuple(
        item
        for item in (table.items if verdicts.with_failed_runs else ())
        if _is_changed(item, table, verdicts)
    )
    return dataclasses.replace(
        table,
        items=items,
        name=f"{table.name}-intention-to-treat",
        title=f"{table.title}, with failed trainings at the bottom of the task's range",
    )


def _is_changed(item: Any, table: Table[Any], verdicts: StudyVerdicts) -> bool:
    """Return whether a row is about a group with a failed run, or about all groups."""
    if isinstance(item, SuiteVerdict):
        return item in verdicts.suite_intention_to_treat
    if isinstance(item, overall.AggregatedFramework):
        return True  # they are of parts with a failed run, which can have further tasks
    members = item.pair.items if isinstance(item, overall.PooledTask) else ()
    groups = [group for one in members for group in (one.first, one.second)]
    groups = groups or [*table.get_groups(item)]
    return not groups or any(group.failed for group in groups)


def _make_section(
    heading: str, anchor: str, first: Sequence[Block], *blocks: Block
) -> list[ReportSection]:
    """Return a section without its empty tables, or no section if nothing is left."""
    shown = [block for block in (*first, *blocks) if not isinstance(block, Table) or block.items]
    return [ReportSection(heading, tuple(shown), anchor)] if shown else []


def _make_answers_section(
    verdicts: StudyVerdicts,
    others: Mapping[str, QuestionAnswer],
    ablations: Sequence[ablation.AblationReport],
) -> ReportSection:
    """Return the answers to all questions, with links to `others`, which are in a later section."""
    answers = [_answer_with_failed_runs(ask, verdicts) for ask in _QUESTIONS]
    introduction: tuple[Inline, ...] = (
        "Do the frameworks ",
        Link("reach what was published", f"#{make_anchor(answers[0].question)}"),
        ", ",
        Link("score the same", f"#{make_anchor(answers[1].question)}"),
        ", ",
        Link("rank the algorithms alike", f"#{make_anchor(answers[2].question)}"),
        "?",
    )
    if others:
        links = [(Link(name, f"#{make_anchor(one.question)}"),) for name, one in others.items()]
        introduction = (
            *introduction,
            " Other analyses of the same pairs, ",
            *join_words(links, " and "),
            ", are below and change no verdict.",
        )
    explained = ablation.list_explanations(ablations) if ablations else None
    return ReportSection("Answers in words", (introduction, *answers, explained or ""), "answers")


def _make_diagnosis_section(results: StudyResults) -> list[Block]:
    found = read_diagnosis_summary(results.loaded)
    sentences = runs.describe_diagnosis(found)
    if not sentences:
        return []
    table: Block = "Nothing was found at the levels error and warning."
    if found.findings:
        table = runs.make_diagnosis_table(found, results.verdicts)
    return [ReportSection("Diagnosis", (*sentences, table), "diagnosis")]


def _make_runs_section(results: StudyResults) -> ReportSection:
    root = results.loaded.root
    videos = [Link(str(path.relative_to(root)), path) for path in runs.find_videos(root)]
    return ReportSection(
        "Runs",
        (
            "Every run folder found. Links lead to the folders, from where this page was written.",
            ("Videos: ", *join_words([(video,) for video in videos], ", "), ".") if videos else "",
            runs.make_runs_table(results.loaded, results.verdicts),
        ),
        "runs",
    )


def _make_method_section(results: StudyResults, command: str, versions: str) -> ReportSection:
    options, method = results.verdicts.options, results.method
    terms = (
        f"A run's score is its {options.chosen_endpoint.description} "
        f"({options.endpoint_source}). Only complete runs count; missing seeds are not filled in.",
        f"Intervals: 95%, method {method} ({INTERVAL_FORMULAS[method]}).",
        "Reproduction, thesis' interval: the published mean against mean ± 1.96·population "
        "deviation/√n of our seeds. Two-sided: Welch's test where spread and trials are "
        "published, otherwise a one-sample t test that takes the published mean as exact.",
        *consistency.describe_verdict_terms(options),
        "Pooled: each task's difference is drawn towards the mean over tasks, the more the less "
        "its own seeds say; deviation between tasks by Paule and Mandel, interval of the mean by "
        "Hartung and Knapp, of tasks by Morris. Paired: Student's paired test on runs of equal "
        "seeds whose last evaluations began in the same initial states.",
        "Ranking: not preserved if two algorithms are separated in opposite directions; otherwise "
        "magnitude changed if the gap between two algorithms differs; otherwise preserved if some "
        "two are separated alike and none the other way round; otherwise inconclusive.",
        f"Over all tasks: 0 is {options.zero_description}, 1 the published score or, without one, "
        f"that of a solved task; bootstrap stratified over tasks, {options.resamples:,} resamples.",
    )
    blocks: tuple[Block, ...] = (
        "The same runs and the same command give the same page:",
        CodeBlock((command,)),
        f"Made with {versions}.",
        Listing(terms),
    )
    return ReportSection("How it was made", blocks, "method")


def make_verdict_tables(verdicts: StudyVerdicts) -> dict[str, Table[Any]]:
    """Return a table for each question and for each other analysis, by the name of its file."""
    return {
        "consistency.csv": pair_tables.make_consistency_table(verdicts),
        "defaults.csv": pair_tables.make_defaults_table(verdicts),
        "intention_to_treat.csv": pair_tables.make_intention_to_treat_table(verdicts),
        "evaluation_noise.csv": suite.make_noise_table(verdicts),
        **{f"{name}.csv": make(verdicts) for name, make in _TABLES.items()},
        **{
            f"{name}_intention_to_treat.csv": make_failed_runs_table(make, verdicts)
            for name, make in _TABLES.items()
        },
    }
