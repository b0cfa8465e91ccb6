"""Hyperparameters set equal in a setting, and those that differ between frameworks."""

import collections
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parallax.analysis.data.runs import CompletedRun
from parallax.analysis.labels import (
    LIBRARY_DEFAULTS,
    describe_recipe,
    format_count,
    format_range,
    get_label,
    make_anchor,
)
from parallax.analysis.report import document
from parallax.analysis.verdicts.code_differences import list_remaining_differences
from parallax.analysis.verdicts.groups import list_cells
from parallax.harness.record.reading import decode_record

HYPERPARAMETERS_HEADING = "Hyperparameters set equal, and those that are not"
HYPERPARAMETERS_ANCHOR = make_anchor(HYPERPARAMETERS_HEADING)
ValuesByFramework = dict[str, dict[str, list[str]]]  # by hyperparameter and framework
SettingKey = tuple[str, str, str]  # algorithm, recipe, variant
_COUNT_PHRASES = {
    "total_gradient_steps": "gradient steps made",
    "policy_updates": "updates of the policy",
    "target_updates": "updates of the target",
}
_MIN_COUNT_DIFFERENCE = 0.02  # smaller differences only come from when learning starts or ends


def describe_differences(runs: Sequence[CompletedRun], has_ablations: bool) -> document.Words:
    """Return a sentence about what differs between the runs of a setting."""
    own: tuple[document.Inline, ...] = ("the framework and the seed",)
    if any(_has_own_values(run.id.cell.variant) for run in runs):
        own = ("the framework, the seed and, with own hyperparameters, these",)
    if describe_unequal_recipes(runs):
        own = (
            "the framework, those hyperparameters that not every framework exposes, which stay at "
            "each one's default even where a framework could take the recipe's value (",
            document.Link("listed", f"#{HYPERPARAMETERS_ANCHOR}"),
            ", beside the recipe's; each heading has how many of the recipe's values are set), and "
            "the seed",
        )
    silent = "Comparisons alone do not show what in a framework makes a difference"
    but = "; the ablations below do, for some differences" if has_ablations else ""
    return ("Runs of a setting differ in ", *own, f". {silent}{but}.")


def _has_own_values(variant: str) -> bool:
    """Return whether runs of a setting have each framework's own hyperparameters on purpose."""
    return "alignment=defaults" in variant.split(",")


def describe_unequal_recipes(runs: Sequence[CompletedRun]) -> str:
    """Return a sentence on algorithms whose hyperparameters differ unexpectedly, or empty."""
    counts = [
        f"{len(_select_unequal(fields))} of {len(fields)} of {get_label(algorithm)} under "
        f"{describe_recipe(hps)}"
        for (algorithm, hps, variant), fields in _group_values_by_setting(runs).items()
        if _select_unequal(fields) and hps != LIBRARY_DEFAULTS and not _has_own_values(variant)
    ]
    if not counts:
        return ""
    return (
        "Hyperparameters that not every framework exposes stay at each one's default: "
        f"{', '.join(counts)}."
    )


def describe_pair_differences(
    first: Sequence[CompletedRun], second: Sequence[CompletedRun]
) -> tuple[document.Inline, ...]:
    """Return the differences between two frameworks in words; empty where there are none.

    These are hyperparameters, counts recorded by the runs, and interventions of the reference form
    that the runs lack.
    """
    fields = _group_values((*first, *second))
    unequal = _select_unequal(fields)
    text: tuple[document.Inline, ...] = ()
    if unequal:
        verb = "differs" if len(unequal) == 1 else "differ"
        names = document.join_words([(document.Code(field),) for field in unequal], ", ")
        count = format_count(len(fields), "hyperparameter")
        text = (f"; {len(unequal)} of {count} {verb} (", *names, ")")
    counted = [
        f"{words}: "
        + ", ".join(f"{get_label(name)} {format_range(counts)}" for name, counts in by_name.items())
        for words, by_name in _count_updates([*first, *second]).items()
        if len(by_name) == 2 and _is_count_different(*by_name.values())
    ]
    return (*text, *(f"; {words}" for words in counted), *_describe_code(first, second))


def list_unequal_fields(runs: Iterable[CompletedRun]) -> list[str]:
    """Return the hyperparameters that differ between the frameworks of some runs."""
    return list(_select_unequal(_group_values(runs)))


def _group_values(runs: Iterable[CompletedRun]) -> ValuesByFramework:
    fields: ValuesByFramework = {}
    for run in runs:
        for field, value in run.effective_hyperparameters.items():
            values = fields.setdefault(field, {}).setdefault(run.id.framework, [])
            if _format_value(value) not in values:
                values.append(_format_value(value))
    return fields


def _describe_code(
    first: Sequence[CompletedRun], second: Sequence[CompletedRun]
) -> tuple[document.Inline, ...]:
    found = [format_remaining_differences(runs) for runs in (first, second) if runs]
    known = ", ".join(text for text in found if text)
    return (f"; in code, by the interventions that remove it: {known}",) if known else ()


def format_remaining_differences(runs: Sequence[CompletedRun]) -> str:
    """Return the known differences in code of a framework's runs; empty where there are none."""
    run = runs[0]
    names = list_remaining_differences(run.id.cell.algorithm, run.id.framework, runs)
    if names is None:
        return f"{get_label(run.id.framework)} not measured"
    return f"{get_label(run.id.framework)} {' + '.join(names)}" if names else ""


def _is_count_different(first: Sequence[int], second: Sequence[int]) -> bool:
    least, most = sorted((sum(first) / len(first), sum(second) / len(second)))
    return most - least > _MIN_COUNT_DIFFERENCE * most


def describe_recipe_coverage(groups: Iterable[Sequence[CompletedRun]]) -> str:
    """Return the number of a recipe's values that are set, in words; empty if all are.

    Under library defaults all are; some of these have other units.

    Args:
        groups: Runs of one framework each, under one recipe.
    """
    counts, totals = [], []
    for run in itertools.chain.from_iterable(groups):
        effective, requested = run.effective_hyperparameters, run.spec.get("hyperparameters")
        if effective and requested and run.id.cell.hps != run.id.framework:
            equal = [
                _format_value(effective[field]) == _format_value(requested[field])
                for field in effective
                if field in requested
            ]
            counts.append(sum(equal))
            totals.append(len(effective))
    if not counts or min(counts) == max(totals):
        return ""
    return f" ({format_range(counts)} of {max(totals)} set)"


def describe_equal_hyperparameters(runs: Sequence[CompletedRun]) -> tuple[document.Inline, ...]:
    """Return the number of equal hyperparameters, in words; empty where no run records them."""
    fields = _group_values(runs)
    if not fields:
        return ()
    equal = len(fields) - len(_select_unequal(fields))
    link = document.Link("equal", f"#{HYPERPARAMETERS_ANCHOR}")
    return (f" {equal} of {len(fields)} hyperparameters are ", link, ".")


def describe_common_overrides(runs: Sequence[CompletedRun]) -> tuple[document.Inline, ...]:
    """Return the values that a study overrides under library defaults; empty if none."""
    own = [run for run in runs if run.id.cell.hps == run.id.framework]
    fields = sorted({field for run in own for field in run.spec.get("overridden", ())})
    if not fields:
        return ()
    names = document.join_words([(document.Code(field),) for field in fields], ", ")
    return (", except what the study overrides in some of these runs: ", *names)


def list_hyperparameter_differences(runs: Sequence[CompletedRun]) -> list[document.Block]:
    """Return tables of the differences, for each algorithm and set of hyperparameters."""
    runs_by_setting = _group_by_setting(runs)
    settings = _group_values_by_setting(runs)
    variants = collections.Counter((algorithm, hps) for algorithm, hps, _ in settings)
    blocks: list[document.Block] = []
    for setting, fields in settings.items():
        algorithm, hps, variant = setting
        unequal, frameworks = _select_unequal(fields), _list_frameworks(fields)
        requested = _find_recipe_values(runs, setting)
        equal = [
            _format_equal_field(field, values, requested)
            for field, values in fields.items()
            if field not in unequal
        ]
        name = document.Strong(f"{get_label(algorithm)} under {describe_recipe(hps)}")
        special = f" ({variant})" if variants[algorithm, hps] > 1 else ""
        counts = f"{len(equal)} of {len(fields)} set equal: "
        lead = f"{special}, {format_count(len(frameworks), 'framework')}: {counts}"
        blocks.append((name, lead, *document.join_words(equal, ", "), "."))
        rows = _list_difference_rows(unequal, runs_by_setting[setting], frameworks, requested)
        if rows:
            heads = ("not equal", *(["recipe"] if requested else []), *map(get_label, frameworks))
            blocks.append(document.Grid(heads, rows))
    return blocks


def _list_difference_rows(
    unequal: ValuesByFramework,
    runs: Sequence[CompletedRun],
    frameworks: Sequence[str],
    requested: Mapping[str, str],
) -> tuple[tuple[document.Words, ...], ...]:
    """Return a row per unequal hyperparameter or count of updates, a column per framework.

    The recipe's values, if there are any, are in a column before those of frameworks.
    """
    rows: list[tuple[document.Words, ...]] = []
    for field, values in unequal.items():
        recipe = [requested.get(field, "-")] if requested else []
        cells = (" or ".join(values.get(name, ["-"])) for name in frameworks)
        rows.append(((document.Code(field),), *recipe, *cells))
    for words, counts in _count_updates(runs).items():
        if len({tuple(sorted(set(found))) for found in counts.values()}) > 1:
            recipe = [""] if requested else []
            cells = (format_range(counts.get(name, [])) or "-" for name in frameworks)
            rows.append((words, *recipe, *cells))
    return tuple(rows)


def _find_recipe_values(runs: Sequence[CompletedRun], setting: SettingKey) -> dict[str, str]:
    """Return the values that a recipe requests, by field; empty under library defaults."""
    requested = [
        run.spec.get("hyperparameters") or {}
        for run in runs
        if (run.id.cell.algorithm, run.id.cell.hps, run.id.cell.variant) == setting
    ]
    if setting[1] == LIBRARY_DEFAULTS or not requested:
        return {}
    return {field: _format_value(value) for field, value in requested[0].items()}


def _format_equal_field(
    field: str, values: Mapping[str, Sequence[str]], requested: Mapping[str, str]
) -> tuple[document.Inline, ...]:
    """Return an equal field, with its value if the recipe has another value."""
    own = next(iter(values.values()))
    if field not in requested or list(own) == [requested[field]]:
        return (document.Code(field),)
    return (document.Code(field), f" (but {' or '.join(own)}, recipe {requested[field]})")


def _group_by_setting(runs: Sequence[CompletedRun]) -> dict[SettingKey, list[CompletedRun]]:
    """Group runs by algorithm, recipe and variant; library defaults are a recipe too."""
    found: dict[SettingKey, list[CompletedRun]] = {}
    for run in runs:
        for cell in list_cells(run.id.cell, run.id.framework):
            found.setdefault((cell.algorithm, cell.hps, cell.variant), []).append(run)
    return found


def _count_updates(runs: Sequence[CompletedRun]) -> dict[str, dict[str, list[int]]]:
    """Return each run's counts by name of the count and framework.

    Policy updates are left out if each gradient step is one, or if there is no policy. With
    `target_kl` counts are bounds: updates on a rollout may end before its last minibatch.
    """
    found: dict[str, dict[str, list[int]]] = {}
    for run in runs:
        schedule = decode_record(run.record).get("update_schedule") or {}
        for key in _COUNT_PHRASES:
            if schedule.get(key):
                found.setdefault(key, {}).setdefault(run.id.framework, []).append(schedule[key])
    if found.get("policy_updates") == found.get("total_gradient_steps"):
        found.pop("policy_updates", None)
    stops = any(run.effective_hyperparameters.get("target_kl") is not None for run in runs)
    bound = ", at most" if stops else ""
    return {f"{_COUNT_PHRASES[key]}{bound}": counts for key, counts in found.items()}


def _group_values_by_setting(runs: Sequence[CompletedRun]) -> dict[SettingKey, ValuesByFramework]:
    """Return the values by algorithm, recipe and variant, then by field and framework.

    Settings with a single framework are left out.
    """
    found = {
        key: _group_values(sorted(own, key=lambda run: (run.id.cell, run.id.framework)))
        for key, own in _group_by_setting(runs).items()
    }
    order = sorted(found, key=lambda key: (key[0], key[1] == LIBRARY_DEFAULTS, key))
    return {key: found[key] for key in order if len(_list_frameworks(found[key])) > 1}


def _list_frameworks(fields: ValuesByFramework) -> list[str]:
    return sorted({name for values in fields.values() for name in values})


def _select_unequal(fields: ValuesByFramework) -> ValuesByFramework:
    return {
        field: values
        for field, values in fields.items()
        if len({tuple(sorted(found)) for found in values.values()}) > 1
    }


def _format_value(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value).strip('[]"')
