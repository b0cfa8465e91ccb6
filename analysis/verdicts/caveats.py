"""What a reader must know of two frameworks' runs beside the verdict: seeds, versions, values."""

import json
from collections.abc import Iterable

from parallax.analysis.data.runs import CompletedRun
from parallax.analysis.verdicts.groups import ScoreGroup


def describe_seed_overlap(first: Iterable[int | None], second: Iterable[int | None]) -> str:
    """What to mind of the seeds of two samples; empty where they are the same."""
    one, two = ({seed for seed in seeds if seed is not None} for seeds in (first, second))
    if one == two or not one or not two:
        return ""
    both = len(one & two)
    if not both:
        return "no seed in common, so neither are the initial states"
    return f"{both} seeds in common of {len(one)} and {len(two)}"


ObservedValues = dict[str, set[str]]  # what is told, and every value that some run has of it
_MAX_NAMED_VALUES = 4


def find_caveats(first: ScoreGroup, second: ScoreGroup) -> tuple[str, ...]:
    """In what the runs of two frameworks differ although they were asked for the same.

    Different seeds, other versions of packages that both use, and hyperparameters that one
    framework was held to in some runs and not in others.

    Args:
        first: A framework's runs.
        second: Those of another in the same setting.
    """
    if not first.runs or not second.runs:
        return ()
    found = [describe_seed_overlap(first.seeds, second.seeds)]
    versions = _collect_versions(first.runs), _collect_versions(second.runs)
    found.append(_format_differing("versions differ", _merge_shared(versions)))
    for group in (first, second):
        found.append(
            _format_differing(
                f"{group.framework} was held to", _collect_hyperparameters(group.runs)
            )
        )
    return tuple(text for text in found if text)


def _collect_versions(runs: Iterable[CompletedRun]) -> ObservedValues:
    told: ObservedValues = {}
    for run in runs:
        if run.provenance is None:
            continue
        python = (run.provenance.python or "").split(" ")[0]
        for name, value in (("Python", python), *run.provenance.packages.items()):
            if value:
                told.setdefault(name, set()).add(value)
    return told


def _merge_shared(sides: tuple[ObservedValues, ObservedValues]) -> ObservedValues:
    """Every version of what both sides use."""
    first, second = sides
    return {name: first[name] | second[name] for name in first.keys() & second.keys()}


def _collect_hyperparameters(runs: Iterable[CompletedRun]) -> ObservedValues:
    told: ObservedValues = {}
    for run in runs:
        for name, value in run.effective_hyperparameters.items():
            told.setdefault(name, set()).add(json.dumps(value, sort_keys=True))
    return told


def _format_differing(what: str, told: ObservedValues) -> str:
    different = {name: values for name, values in told.items() if len(values) > 1}
    if not different:
        return ""
    names = sorted(different)
    parts = [
        f"{name} {' and '.join(sorted(different[name]))}" for name in names[:_MAX_NAMED_VALUES]
    ]
    more = len(names) - _MAX_NAMED_VALUES
    return f"{what}: {', '.join(parts)}" + (f" and {more} more" if more > 0 else "")
