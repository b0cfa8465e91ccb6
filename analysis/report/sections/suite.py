"""Verdicts over all tasks of an algorithm, and the noise of evaluations."""

from collections.abc import Sequence
from typing import Any

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    describe_recipe,
    find_own_parts,
    format_count,
    format_p_value,
    format_verdict_counts,
    get_label,
    group_items,
)
from parallax.analysis.report import tables
from parallax.analysis.verdicts.evaluation_noise import EvaluationNoise
from parallax.analysis.verdicts.statements import EQUIVALENT, INCONCLUSIVE
from parallax.analysis.verdicts.study import StudyVerdicts
from parallax.analysis.verdicts.suite import AllAlikeVerdict, SuiteVerdict


def describe_suites(verdicts: StudyVerdicts) -> tuple[str, ...]:
    """Return, for each algorithm and recipe, the statements on frameworks over all tasks."""
    found = group_items(verdicts.suites, lambda item: item.key)
    cells = [StudyCell(key[0], "", *key[1:]) for key in found]
    alike = {
        (item.study, item.algorithm, item.hps, item.variant): item
        for item in verdicts.all_alike
        if not item.env
    }
    texts = []
    for cell, (key, own) in zip(cells, found.items(), strict=True):
        parts = find_own_parts(cell, [other for other in cells if other.algorithm == key[1]])
        parts += [f"study {cell.study}"] * (len({other.study for other in cells}) > 1)
        place = ", ".join((describe_recipe(key[2]), *filter(None, parts)))
        texts.append(f"{get_label(key[1])} ({place}) over {_describe_suite(own, alike[key])}")
    return tuple(texts)


def _describe_suite(own: Sequence[SuiteVerdict], together: AllAlikeVerdict) -> str:
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


def make_suite_table(verdicts: StudyVerdicts) -> tables.Table[SuiteVerdict]:
    """Return a table with a row for each pair of frameworks over the tasks of an algorithm."""
    columns: tuple[tables.Column[SuiteVerdict], ...] = (
        *_make_suite_columns(lambda i: i.key, verdicts.suites),
        tables.make_text_column("tasks", "tasks", lambda i: ", ".join(i.tasks)),
        tables.make_csv_column("left_out", lambda i: "; ".join(i.left_out)),
        *tables.make_pair_columns(lambda i: i.first, lambda i: i.second),
        tables.make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        tables.make_text_column("statement", "statement", lambda i: i.statement),
        tables.make_csv_column("first_runs", lambda i: i.runs[0]),
        tables.make_csv_column("second_runs", lambda i: i.runs[1]),
        tables.make_number_column("difference", "difference", lambda i: i.difference),
        *tables.make_interval_columns("low", "high", lambda i: (i.low, i.high)),
        tables.make_csv_column("p", lambda i: i.p),
        tables.make_p_value_column("p_holm", "p corrected", lambda i: i.p_holm),
        tables.make_p_value_column("p_permutation", "p permuted", lambda i: i.p_permutation),
        tables.make_csv_column("p_mean", lambda i: i.p_mean),
        tables.make_csv_column("p_tost", lambda i: i.p_tost),
        tables.make_csv_column("p_equivalence", lambda i: i.p_equivalence),
        tables.make_p_value_column(
            "p_equivalence_holm", "p equivalence", lambda i: i.p_equivalence_holm
        ),
        tables.make_csv_column("margin", lambda i: i.margin),
        tables.make_csv_column("unlearned", lambda i: ", ".join(i.unlearned)),
        tables.make_csv_column("first_failed", lambda i: i.failed[0] if i.failed else None),
        tables.make_csv_column("second_failed", lambda i: i.failed[1] if i.failed else None),
        tables.make_csv_column("p_failures", lambda i: i.p_failures),
        tables.make_csv_column("p_failures_holm", lambda i: i.p_failures_holm),
        tables.make_csv_column("versions", lambda i: i.versions),
    )
    title = "Every pair of frameworks over all tasks of an algorithm, normalized scores"
    return tables.Table("t-suite", title, columns, verdicts.suites, lambda i: ())


def make_all_alike_table(verdicts: StudyVerdicts) -> tables.Table[AllAlikeVerdict]:
    """Return a table with a row for each setting and suite: are all frameworks equivalent?"""
    columns: tuple[tables.Column[AllAlikeVerdict], ...] = (
        *_make_suite_columns(
            lambda i: (i.study, i.algorithm, i.hps, i.variant), verdicts.all_alike
        ),
        tables.make_text_column("env", "task", lambda i: i.env, lambda env: env or "all tasks"),
        tables.make_text_column(
            "frameworks",
            "frameworks",
            lambda i: ", ".join(i.frameworks),
            lambda names: ", ".join(map(get_label, names.split(", "))),
        ),
        tables.make_verdict_column("verdict", "verdict", lambda i: i.verdict),
        tables.make_p_value_column("p", "p", lambda i: i.p),
        tables.make_csv_column("versions", lambda i: i.versions),
    )
    title = "All frameworks together: intersection-union test of equivalence"
    return tables.Table("t-all-alike", title, columns, verdicts.all_alike, lambda i: ())


def make_noise_table(verdicts: StudyVerdicts) -> tables.Table[EvaluationNoise]:
    """Return a table with a row for each setting: how much of the variance is evaluation noise?"""
    columns: tuple[tables.Column[EvaluationNoise], ...] = (
        *tables.make_setting_columns(
            lambda i: i.cell, [item.cell for item in verdicts.evaluation_noise]
        ),
        tables.make_csv_column("frameworks", lambda i: i.frameworks),
        tables.make_csv_column("seeds", lambda i: i.components.n),
        tables.make_csv_column("variance_of_scores", lambda i: i.components.total),
        tables.make_csv_column("variance_of_noise", lambda i: i.components.noise),
        tables.make_csv_column("variance_between_seeds", lambda i: i.components.between),
        tables.make_number_column(
            "noise_share", "share of noise", lambda i: i.components.noise_share
        ),
        tables.make_number_column("episodes", "episodes", lambda i: float(i.components.episodes)),
        tables.make_number_column("cost", "share of time", lambda i: i.cost),
        tables.make_number_column("proposed_episodes", "episodes proposed", lambda i: i.proposed),
        tables.make_csv_column("is_limited_by_cost", lambda i: i.is_limited_by_cost),
    )
    title = "Evaluation noise: share of the variance over seeds that comes from few episodes"
    return tables.Table(
        "t-evaluation-noise", title, columns, verdicts.evaluation_noise, lambda i: ()
    )


def _make_suite_columns(get_key: Any, items: Sequence[Any]) -> list[tables.Column[Any]]:
    """Return the columns of study, algorithm, recipe and variant."""

    def get_cell(item: Any) -> StudyCell:
        study, *rest = get_key(item)
        return StudyCell(study, "", *rest)

    return tables.make_setting_columns(get_cell, [get_cell(item) for item in items], omit=["env"])
