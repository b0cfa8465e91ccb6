"""What was asked of runs: those asked for different things are neither pooled nor compared.

A folder's name says what a run is, but the same name may stand for other settings: a recipe that
changed between two commits, folders that were moved or renamed. What counts is what `run.json`
says.
"""

import collections
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from analysis.data.runs import Cell, Run

# Besides hyperparameters; what a record does not tell counts as what the others tell.
SETTINGS = (
    *("alignment", "steps", "wrappers", "n_envs", "threads", "device"),
    *("eval_every", "evaluation_seed", "intervention"),
    "replay",
)
EPISODES = "eval_episodes"
_MOST_NAMED = 3

Asked = Mapping[str, str]  # name of a setting and its value as JSON


def settings_of(run: Run) -> Asked:
    """What has to be the same in a whole study for runs to be compared, across tasks as well."""
    found = {name: _text(run.spec[name]) for name in SETTINGS if name in run.spec}
    return {**found, EPISODES: str(run.results.shape[1])}


def hyperparameters_of(run: Run) -> Asked:
    """The hyperparameters asked for, before a framework's own defaults come in."""
    values = run.spec.get("hyperparameters")
    return {name: _text(value) for name, value in (values or {}).items()}


def fingerprint(run: Run) -> str:
    """Twelve digits that are the same for runs that were asked for the same."""
    text = json.dumps([settings_of(run), hyperparameters_of(run)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def part_runs(runs: Sequence[Run]) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Runs that share a place but not what was asked for get variants that tell them apart.

    Settings must agree over a study and variant, hyperparameters over a task, algorithm and set
    of hyperparameters.

    Args:
        runs: All runs used.

    Returns:
        The runs in the same order, and a sentence for each place in which they differ.
    """
    runs, first = _part(runs, settings_of, lambda cell: (cell.study, cell.variant))
    runs, second = _part(runs, hyperparameters_of, lambda cell: cell)
    return tuple(runs), (*first, *second)


def _part(
    runs: Sequence[Run], asked: Callable[[Run], Asked], place: Callable[[Cell], Any]
) -> tuple[list[Run], list[str]]:
    places: dict[Any, list[int]] = collections.defaultdict(list)
    for i, run in enumerate(runs):
        places[place(run.id.cell)].append(i)
    parted, sentences = list(runs), []
    for where in sorted(places):
        members = places[where]
        values = [asked(runs[i]) for i in members]
        names = _different(values)
        if not names:
            continue
        for i, found in zip(members, values, strict=True):
            parted[i] = _labelled(runs[i], found, names)
        sentences.append(
            _sentence(runs[members[0]].id.cell, values, names, isinstance(where, Cell))
        )
    return parted, sentences


def _different(values: Sequence[Asked]) -> list[str]:
    """Settings with several values, sorted; not told is no value."""
    found: dict[str, str] = {}
    different = set()
    for item in values:
        for name, value in item.items():
            if found.setdefault(name, value) != value:
                different.add(name)
    return sorted(different)


def _labelled(run: Run, asked: Asked, names: Sequence[str]) -> Run:
    told = [f"{name}={asked.get(name, 'not told')}" for name in names]
    if len(told) > _MOST_NAMED:
        told = [f"asked={hashlib.sha256(','.join(told).encode()).hexdigest()[:8]}"]
    cell = run.id.cell
    own = [part for part in told if part not in cell.variant.split(",")]
    variant = ",".join([part for part in (cell.variant, *own) if part])
    place = dataclasses.replace(run.id, cell=dataclasses.replace(cell, variant=variant))
    return dataclasses.replace(run, id=place, parted=True)


def _sentence(cell: Cell, values: Sequence[Asked], names: Sequence[str], whole: bool) -> str:
    parts = []
    for name in names:
        counts = collections.Counter(item.get(name, "not told") for item in values)
        told = ", ".join(f"{value} ({count})" for value, count in sorted(counts.items()))
        parts.append(f"{name} {told}")
    place = (cell.study, cell.env, cell.algorithm, cell.hps) if whole else (cell.study,)
    where = "/".join(place) + (f", {cell.variant}" if cell.variant else "")
    return (
        f"{where}: runs under one name were asked for different settings, and are judged apart: "
        f"{'; '.join(parts)} (runs in brackets)"
    )


def seeds_in_words(first: Iterable[int | None], second: Iterable[int | None]) -> str:
    """What to mind of the seeds of two samples; empty where they are the same."""
    one, two = ({seed for seed in seeds if seed is not None} for seeds in (first, second))
    if one == two or not one or not two:
        return ""
    both = len(one & two)
    if not both:
        return "no seed in common, so neither are the initial states"
    return f"{both} seeds in common of {len(one)} and {len(two)}"


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
