"""Which hyperparameters all frameworks of a setting were held to, and which are each one's own."""

import collections
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tabulate import tabulate

from analysis.data.runs import Run
from analysis.report.statements import plural, recipe_words
from analysis.verdicts.defaults import as_they_come
from analysis.words import OWN, label, plain, span

WHERE = "What is held alike, and what is not"
ANCHOR = WHERE.lower().replace(",", "").replace(" ", "-")
Values = dict[str, dict[str, list[str]]]
Setting = tuple[str, str, str]  # algorithm, recipe, variant
_COUNTS = {
    "gradient_steps": "gradient steps made",
    "policy_updates": "updates of the policy",
    "target_updates": "updates of the target",
}
_APART = 0.02  # counts that differ by less differ in when learning starts or ends only


def what_differs(runs: Sequence[Run], has_causes: bool) -> str:
    """A sentence about what differs between the runs of a setting.

    Args:
        runs: All runs.
        has_causes: Whether ablations are told of that explain something.
    """
    own = "the framework and the seed"
    if unlike_in_words(runs):
        own = (
            "the framework, those hyperparameters that not every framework exposes, which stay at "
            "each one's default even where a framework could take the recipe's value "
            f"([listed](#{ANCHOR}), beside the recipe's; each heading has how many of the recipe's "
            "values are held), and the seed"
        )
    silent = "comparisons alone do not say what in a framework makes a difference"
    but = ", only the ablations below do, for some" if has_causes else ""
    return f"What differs between the runs of a setting is {own}; {silent}{but}."


def unlike_in_words(runs: Sequence[Run]) -> str:
    """Of which algorithms hyperparameters differ that should not, in a sentence; else empty."""
    counts = [
        f"{len(_unlike(of))} of {len(of)} of {label(algorithm)} under {recipe_words(hps)}"
        for (algorithm, hps, _), of in _settings(runs).items()
        if _unlike(of) and hps != OWN
    ]
    if not counts:
        return ""
    return (
        "Hyperparameters that not every framework exposes stay at each one's default: "
        f"{', '.join(counts)}."
    )


def between(first: Sequence[Run], second: Sequence[Run]) -> str:
    """What differs between two frameworks, in words; empty where nothing does.

    That is which hyperparameters, and what their runs did in other numbers.
    """
    of: Values = {}
    for run in (*first, *second):
        _add(of, run)
    unlike, text = _unlike(of), ""
    if unlike:
        verb = "differs" if len(unlike) == 1 else "differ"
        fields = ", ".join(f"`{field}`" for field in unlike)
        text = f"; {len(unlike)} of {plural(len(of), 'hyperparameter')} {verb} ({fields})"
    counted = [
        f"{words}: {', '.join(f'{label(name)} {span(told)}' for name, told in by_name.items())}"
        for words, by_name in _counted([*first, *second]).items()
        if len(by_name) == 2 and _far(*by_name.values())
    ]
    return text + "".join(f"; {words}" for words in counted)


def _far(first: Sequence[int], second: Sequence[int]) -> bool:
    least, most = sorted((sum(first) / len(first), sum(second) / len(second)))
    return most - least > _APART * most


def as_in_recipe(groups: Iterable[Sequence[Run]]) -> str:
    """How many of a recipe's values groups of runs are held to; empty where it is all of them.

    Of a framework's own defaults it is all; some have other units than what is held.

    Args:
        groups: Runs of one framework each, under one recipe.
    """
    counts, total = [], 0
    for runs in groups:
        told = [
            (run.held, run.spec.get("hyperparameters"))
            for run in runs
            if run.id.cell.hps != run.id.framework
        ]
        shares = [
            sum(_text(held[field]) == _text(asked[field]) for field in held if field in asked)
            for held, asked in told
            if held and asked
        ]
        counts += shares
        total = max([total, *(len(held) for held, asked in told if held and asked)])
    if not counts or min(counts) == total:
        return ""
    return f" ({span(counts)} of {total} held)"


def alike_in_words(runs: Sequence[Run]) -> str:
    """How many hyperparameters of some runs are alike, in a sentence; empty where none are told."""
    of: Values = {}
    for run in runs:
        _add(of, run)
    if not of:
        return ""
    return f" {len(of) - len(_unlike(of))} of {len(of)} hyperparameters are [alike](#{ANCHOR})."


def set_for_all(runs: Sequence[Run]) -> str:
    """What the study sets although frameworks are under their own defaults; empty if nothing."""
    own = [run for run in runs if run.id.cell.hps == run.id.framework]
    fields = sorted({field for run in own for field in run.spec.get("overridden", ())})
    names = ", ".join(f"`{field}`" for field in fields)
    return f", but for what the study sets itself in some of these runs: {names}" if fields else ""


def held_alike(runs: Sequence[Run]) -> list[str]:
    """For each algorithm and set of hyperparameters what differs, as tables."""
    blocks = []
    settings, made = _settings(runs), _made(runs)
    named = collections.Counter((algorithm, hps) for algorithm, hps, _ in settings)
    for (algorithm, hps, variant), of in settings.items():
        unlike = _unlike(of)
        frameworks = _frameworks(of)
        name = f"**{label(algorithm)} under {recipe_words(hps)}**"
        name += f" ({plain(variant)})" if named[algorithm, hps] > 1 else ""
        asked = _recipe(runs, (algorithm, hps, variant))
        alike = ", ".join(_alike(field, of[field], asked) for field in of if field not in unlike)
        count = plural(len(frameworks), "framework")
        blocks.append(f"{name}, {count}: {len(of) - len(unlike)} of {len(of)} alike: {alike}.")
        rows = [
            [
                f"`{field}`",
                *([plain(asked.get(field, "-"))] if asked else []),
                *(plain(" or ".join(values.get(f, ["-"]))) for f in frameworks),
            ]
            for field, values in unlike.items()
        ]
        counted = made.get((algorithm, hps, variant), {})
        rows += [
            [name, *([""] if asked else []), *(span(values.get(f, [])) or "-" for f in frameworks)]
            for name, values in counted.items()
            if len({tuple(sorted(set(told))) for told in values.values()}) > 1
        ]
        if rows:
            heads = ["each one's own", *(["recipe"] if asked else []), *map(label, frameworks)]
            blocks.append(tabulate(rows, heads, tablefmt="pipe", disable_numparse=True))
    return blocks


def _recipe(runs: Sequence[Run], setting: Setting) -> dict[str, str]:
    """What a recipe asks for, by field; empty where each framework has its own."""
    asked = [
        run.spec.get("hyperparameters") or {}
        for run in runs
        if (run.id.cell.algorithm, run.id.cell.hps, run.id.cell.variant) == setting
    ]
    if setting[1] == OWN or not asked:
        return {}
    return {field: _text(value) for field, value in asked[0].items()}


def _alike(field: str, values: Mapping[str, Sequence[str]], asked: Mapping[str, str]) -> str:
    """A field that is alike, and its value where the recipe has another."""
    own = next(iter(values.values()))
    if field not in asked or list(own) == [asked[field]]:
        return f"`{field}`"
    return f"`{field}` (but {plain(' or '.join(own))}, recipe {plain(asked[field])})"


def _made(runs: Sequence[Run]) -> dict[Setting, dict[str, dict[str, list[int]]]]:
    """By setting, what was counted and framework: how often each run did it."""
    found: dict[Setting, list[Run]] = {}
    for run in runs:
        cell = run.id.cell
        for hps in {cell.hps, as_they_come(cell, run.id.framework).hps}:
            found.setdefault((cell.algorithm, hps, cell.variant), []).append(run)
    return {setting: _counted(own) for setting, own in found.items()}


def _counted(runs: Sequence[Run]) -> dict[str, dict[str, list[int]]]:
    """By what was counted and framework: how often each run did it.

    Without updates of the policy where each gradient step is one, or where there is no policy.
    """
    of: dict[str, dict[str, list[int]]] = {}
    for run in runs:
        told = json.loads(run.record or "{}").get("cadence") or {}
        for key, words in _COUNTS.items():
            if told.get(key):
                of.setdefault(words, {}).setdefault(run.id.framework, []).append(told[key])
    if of.get(_COUNTS["policy_updates"]) == of.get(_COUNTS["gradient_steps"]):
        of.pop(_COUNTS["policy_updates"], None)
    return of


def _settings(runs: Sequence[Run]) -> dict[Setting, Values]:
    """By algorithm, recipe and variant: field, framework, and all values that it was held to.

    Only where there are several frameworks; each one's own defaults are a recipe too.
    """
    found: dict[Setting, Values] = {}
    for run in sorted(runs, key=lambda run: (run.id.cell, run.id.framework)):
        cell = run.id.cell
        for hps in {cell.hps, as_they_come(cell, run.id.framework).hps}:
            _add(found.setdefault((cell.algorithm, hps, cell.variant), {}), run)
    order = sorted(found, key=lambda key: (key[0], key[1] == OWN, key))
    return {key: found[key] for key in order if len(_frameworks(found[key])) > 1}


def _add(of: Values, run: Run) -> None:
    for field, value in run.held.items():
        values = of.setdefault(field, {}).setdefault(run.id.framework, [])
        if _text(value) not in values:
            values.append(_text(value))


def _frameworks(of: Values) -> list[str]:
    return sorted({name for values in of.values() for name in values})


def _unlike(of: Values) -> Values:
    return {
        field: values
        for field, values in of.items()
        if len({tuple(sorted(told)) for told in values.values()}) > 1
    }


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value).strip('[]"')
