"""What a reader must know of two frameworks' runs beside the verdict: seeds, versions, values."""

import json
from collections.abc import Iterable

from analysis.data.asked import seeds_in_words
from analysis.data.runs import Run
from analysis.verdicts.groups import Group

Told = dict[str, set[str]]  # what is told, and every value that some run has of it
_MOST_NAMED = 4


def remarks_on(first: Group, second: Group) -> tuple[str, ...]:
    """In what the runs of two frameworks differ although they were asked for the same.

    Different seeds, other versions of packages that both use, and hyperparameters that one
    framework was held to in some runs and not in others.

    Args:
        first: A framework's runs.
        second: Those of another in the same setting.
    """
    if not first.runs or not second.runs:
        return ()
    found = [seeds_in_words(first.seeds, second.seeds)]
    versions = _versions(first.runs), _versions(second.runs)
    found.append(_several("versions differ", _joined(versions)))
    for group in (first, second):
        found.append(_several(f"{group.framework} was held to", _held(group.runs)))
    return tuple(text for text in found if text)


def _versions(runs: Iterable[Run]) -> Told:
    told: Told = {}
    for run in runs:
        if run.provenance is None:
            continue
        python = (run.provenance.python or "").split(" ")[0]
        for name, value in (("Python", python), *run.provenance.packages.items()):
            if value:
                told.setdefault(name, set()).add(value)
    return told


def _joined(sides: tuple[Told, Told]) -> Told:
    """Every version of what both sides use."""
    first, second = sides
    return {name: first[name] | second[name] for name in first.keys() & second.keys()}


def _held(runs: Iterable[Run]) -> Told:
    told: Told = {}
    for run in runs:
        for name, value in run.held.items():
            told.setdefault(name, set()).add(json.dumps(value, sort_keys=True))
    return told


def _several(what: str, told: Told) -> str:
    different = {name: values for name, values in told.items() if len(values) > 1}
    if not different:
        return ""
    names = sorted(different)
    parts = [f"{name} {' and '.join(sorted(different[name]))}" for name in names[:_MOST_NAMED]]
    more = len(names) - _MOST_NAMED
    return f"{what}: {', '.join(parts)}" + (f" and {more} more" if more > 0 else "")
