"""Tables of verdicts besides those on pairs: suites, learning, failed runs, evaluation noise."""

from collections.abc import Sequence
from typing import Any

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    describe_recipe,
    find_own_parts,
    format_count,
    format_number,
    format_p_value,
    format_verdict_counts,
    get_label,
)
from parallax.analysis.report.tables import (
    Column,
    Table,
    make_csv_column,
    make_interval_columns,
    make_number_column,
    make_p_value_column,
    make_pair_columns,
    make_setting_columns,
    make_size_columns,
    make_text_column,
    make_verdict_column,
)
from parallax.analysis.verdicts.evaluation_noise import EvaluationNoise
from parallax.analysis.verdicts.references import LearningVerdict
from parallax.analysis.verdicts.statements import EQUIVALENT, INCONCLUSIVE
from parallax.analysis.verdicts.study import StudyVerdicts
from parallax.analysis.verdicts.suite import AllAlikeVerdict, SuiteKey, SuiteVerdict


def describe_suites(verdicts: StudyVerdicts) -> tuple[str, ...]:
    """Return for each algorithm and recipe what is shown of frameworks over its tasks together."""
    found: dict[SuiteKey, list[SuiteVerdict]] = {}
    treated: dict[SuiteKey, list[SuiteVerdict]] = {}
    for items, by_key in ((verdicts.suites, found), (verdicts.suite_intention_to_treat, treated)):
        for item in items:
            by_key.setdefault(item.key, []).append(item)
    keys = sorted({*found, *treated})
    cells = [StudyCell(key[0], "", *key[1:]) for key in keys]
    alike = {
        (item.study, item.algorithm, item.hps, item.variant): item
        for item in verdicts.all_alike
        if not item.env
    }
    texts = []
    for cell, key in zip(cells, keys, strict=True):
        parts = find_own_parts(cell, [other for other in cells if other.algorithm == key[1]])
        place = ", ".join((describe_recipe(key[2]), *filter(None, parts)))
        text = f"{get_label(key[1])} ({place}) over "
        if key in found:
            text += _describe_complete_runs(found[key], alike[key])
        else:
            text += "its tasks together: no two frameworks have complete runs in two tasks."
        if key in treated:
            text += _describe_failed_trainings(treated[key])
        texts.append(text)
    return tuple(texts)


def _describe_complete_runs(own: Sequence[SuiteVerdict], together: AllAlikeVerdict) -> str:
    text = (
        f"{format_count(len(own[0].tasks), 'task')} together, {format_count(len(own), 'pair')}: "
        f"{_count_statements(own)}."
    )
    unlearned = sorted({task for item in own for task in item.unlearned})
    number = len(together.frameworks)
    text += (
        f" {'Both' if number == 2 else f'All {number}'} frameworks together: "
        f"{together.verdict} ({format_p_value(together.p)})."
    )
    if unlearned:
        text += f" Not all are shown to have learned: {', '.join(unlearned)}."
    text += _describe_runs_below_threshold(own)
    if own[0].left_out:
        text += f" Left out: {'; '.join(own[0].left_out)}."
    return text


def _count_statements(items: Sequence[SuiteVerdict]) -> str:
    words = [item.statement for item in items]
    order = sorted({*words, EQUIVALENT, INCONCLUSIVE}, key=lambda word: (word[0] == "i", word))
    return format_verdict_counts(words, order)


def _describe_failed_trainings(items: Sequence[SuiteVerdict]) -> str:
    """Return what is shown of the pairs in which a training failed if failed runs are counted."""
    several = len(items) > 1
    return (
        f" With failed trainings at the bottom of the tasks' ranges, over "
        f"{format_count(len(items[0].tasks), 'task')}, the "
        f"{format_count(len(items), 'pair')} in which a training failed: "
        f"{_count_statements(items) if several else items[0].statement}."
    )


def _describe_runs_below_threshold(items: Sequence[SuiteVerdict]) -> str:
    """Return failed runs per framework."""
    runs = {
        name: counts
        for item in items
        if item.failed
        for name, *counts in zip((item.first, item.second), item.failed, item.runs, strict=True)
    }
    if not any(failed for failed, _ in runs.values()):
        return ""
    counts = ", ".join(f"{get_label(name)} {k} of {n}" for name, (k, n) in runs.items())
    return f" Runs below the failure threshold: {counts}."


def make_suite_table(
    items: Sequence[SuiteVerdict], *, with_failed_runs: bool = False
) -> Table[SuiteVerdict]:
    """Return a table with a row for each pair of frameworks over the tasks of an algorithm.

    Args:
        items: The pairs.
        with_failed_runs: Whether failed trainings were counted at the bottom of the range.
    """
    columns: tuple[Column[SuiteVerdict], ...] = (
        *_make_suite_columns(lambda i: i.key),
        make_text_column("tasks", "tasks", lambda i: ", ".join(i.tasks)),
        make_csv_column("left_out", lambda i: "; ".join(i.left_out)),
        *make_pair_columns(lambda i: i.first, lambda i: i.second),
        make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        make_text_column("statement", "statement", lambda i: i.statement),
        make_csv_column("first_runs", lambda i: i.runs[0]),
        make_csv_column("second_runs", lambda i: i.runs[1]),
        make_number_column("difference", "difference", lambda i: i.difference),
        *make_interval_columns("low", "high", lambda i: (i.low, i.high)),
        make_csv_column("p", lambda i: i.p),
        make_p_value_column("p_holm", "p corrected", lambda i: i.p_holm),
        make_p_value_column("p_permutation", "p permuted", lambda i: i.p_permutation),
        make_csv_column("p_mean", lambda i: i.p_mean),
        make_csv_column("p_tost", lambda i: i.p_tost),
        make_csv_column("p_equivalence", lambda i: i.p_equivalence),
        make_p_value_column("p_equivalence_holm", "p equivalence", lambda i: i.p_equivalence_holm),
        make_csv_column("margin", lambda i: i.margin),
        make_csv_column("unlearned", lambda i: ", ".join(i.unlearned)),
        make_csv_column("first_failed", lambda i: i.failed[0] if i.failed else None),
        make_csv_column("second_failed", lambda i: i.failed[1] if i.failed else None),
        make_csv_column("p_failures", lambda i: i.p_failures),
        make_csv_column("p_failures_holm", lambda i: i.p_failures_holm),
    )
    name, title = "t-suite", "Every pair of frameworks over all tasks of an algorithm"
    if with_failed_runs:
        name = "t-suite-intention-to-treat"
        title = f"{title}, failed trainings at the bottom: pairs in which one failed"
    return Table(name, f"{title}, normalized scores", columns, tuple(items), lambda i: ())


def make_all_alike_table(items: Sequence[AllAlikeVerdict]) -> Table[AllAlikeVerdict]:
    """Return a table with a row for each setting and suite: are all frameworks equivalent?"""
    columns: tuple[Column[AllAlikeVerdict], ...] = (
        *_make_suite_columns(lambda i: (i.study, i.algorithm, i.hps, i.variant)),
        make_text_column("env", "task", lambda i: i.env, lambda env: env or "all tasks"),
        make_text_column("frameworks", "frameworks", lambda i: ", ".join(i.frameworks)),
        make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        make_p_value_column("p", "p", lambda i: i.p),
    )
    title = "All frameworks together: intersection-union test of equivalence"
    return Table("t-all-alike", title, columns, tuple(items), lambda i: ())


def make_learning_table(items: Sequence[LearningVerdict]) -> Table[LearningVerdict]:
    """Return a table with a row for each framework in each setting: has it learned?"""
    columns: tuple[Column[LearningVerdict], ...] = (
        *make_setting_columns(lambda i: i.group.cell, [item.group.cell for item in items]),
        make_text_column("framework", "framework", lambda i: i.group.framework, get_label),
        make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        *make_size_columns("ours", lambda i: i.group),
        make_text_column(
            "references",
            "references",
            lambda i: "; ".join(f"{one.name} {format_number(one.mean)}" for one in i.references),
        ),
        make_number_column("difference", "above the best of them", lambda i: i.difference),
        make_number_column("margin", "margin", lambda i: i.margin),
        make_p_value_column("p", "p", lambda i: i.p),
    )
    title = "Every framework against policies without training"
    return Table("t-learning", title, columns, tuple(items), lambda i: [i.group])


def make_noise_table(items: Sequence[EvaluationNoise]) -> Table[EvaluationNoise]:
    """Return a table with a row for each setting: how much of the variance is evaluation noise?"""
    columns: tuple[Column[EvaluationNoise], ...] = (
        *make_setting_columns(lambda i: i.cell, [item.cell for item in items]),
        make_csv_column("frameworks", lambda i: i.frameworks),
        make_csv_column("seeds", lambda i: i.components.n),
        make_csv_column("variance_of_scores", lambda i: i.components.total),
        make_csv_column("variance_of_noise", lambda i: i.components.noise),
        make_csv_column("variance_between_seeds", lambda i: i.components.between),
        make_number_column("noise_share", "share of noise", lambda i: i.components.noise_share),
        make_number_column("episodes", "episodes", lambda i: float(i.components.episodes)),
        make_number_column("cost", "share of time", lambda i: i.cost),
        make_number_column("proposed_episodes", "episodes proposed", lambda i: i.proposed),
        make_csv_column("is_limited_by_cost", lambda i: i.is_limited_by_cost),
    )
    title = "Evaluation noise: share of the variance over seeds that comes from few episodes"
    return Table("t-evaluation-noise", title, columns, tuple(items), lambda i: ())


def make_further_tables(verdicts: StudyVerdicts) -> dict[str, Table[Any]]:
    """Return the tables of this module by the names of their files."""
    return {
        "suite.csv": make_suite_table(verdicts.suites),
        "suite_intention_to_treat.csv": make_suite_table(
            verdicts.suite_intention_to_treat, with_failed_runs=True
        ),
        "all_alike.csv": make_all_alike_table(verdicts.all_alike),
        "learning.csv": make_learning_table(verdicts.learning),
        "evaluation_noise.csv": make_noise_table(verdicts.evaluation_noise),
    }


def _make_suite_columns(get_key: Any) -> tuple[Column[Any], ...]:
    """Return the columns of study, algorithm, recipe and variant."""
    names = ("study", "algorithm", "hps", "variant")
    return tuple(
        make_text_column(name, name, lambda i, at=at: get_key(i)[at])  # type: ignore[misc]
        for at, name in enumerate(names)
    )
