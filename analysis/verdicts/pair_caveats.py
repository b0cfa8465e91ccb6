"""Caveats on a comparison of two frameworks: seeds, versions and values in which runs differ."""

import json
from collections.abc import Iterable

from parallax.analysis.data.runs import CompletedRun
from parallax.analysis.data.settings import collect_run_versions
from parallax.analysis.verdicts.groups import ScoreGroup


def describe_seed_overlap(first: Iterable[int | None], second: Iterable[int | None]) -> str:
    """Return a caveat on the seeds of two samples; empty if they are the same."""
    one, two = ({seed for seed in seeds if seed is not None} for seeds in (first, second))
    if one == two or not one or not two:
        return ""
    both = len(one & two)
    if not both:
        return "no seed in common, so neither are the initial states"
    return f"{both} seeds in common of {len(one)} and {len(two)}"


ObservedValues = dict[str, set[str]]  # name, and every value that some run has
_MAX_NAMED_VALUES = 4


def find_caveats(first: ScoreGroup, second: ScoreGroup) -> tuple[str, ...]:
    """Return the unintended differences between the runs of two frameworks in one setting.

    These are different seeds, different versions of a package, and effective hyperparameters that
    are not the same in all runs of a framework.
    """
    if not first.runs or not second.runs:
        return ()
    found = [describe_seed_overlap(first.seeds, second.seeds)]
    versions = collect_run_versions((*first.runs, *second.runs))
    found.append(_format_differing("versions differ", versions))
    for group in (first, second):
        found.append(_describe_imported_runs(group))
        found.append(
            _format_differing(
                f"{group.framework} was trained with", _collect_hyperparameters(group.runs)
            )
        )
    return tuple(text for text in found if text)


def _describe_imported_runs(group: ScoreGroup) -> str:
    """Return how many runs of a framework were imported, and which facts about them are unknown."""
    sources = [run.imported for run in group.runs if run.imported is not None]
    if not sources:
        return ""
    unknown = sorted({name for source in sources for name in source.unknown})
    if not all(run.effective_hyperparameters for run in group.runs):
        unknown.append("hyperparameters")
    lacking = f", {', '.join(unknown)} unknown" if unknown else ""
    return f"{len(sources)} of {group.n} runs of {group.framework} were imported{lacking}"


def _collect_hyperparameters(runs: Iterable[CompletedRun]) -> ObservedValues:
    values_by_name: ObservedValues = {}
    for run in runs:
        for name, value in run.effective_hyperparameters.items():
            values_by_name.setdefault(name, set()).add(json.dumps(value, sort_keys=True))
    return values_by_name


def _format_differing(what: str, values_by_name: ObservedValues) -> str:
    different = {name: values for name, values in values_by_name.items() if len(values) > 1}
    if not different:
        return ""
    names = sorted(different)
    parts = [
        f"{name} {' and '.join(sorted(different[name]))}" for name in names[:_MAX_NAMED_VALUES]
    ]
    more = len(names) - _MAX_NAMED_VALUES
    return f"{what}: {', '.join(parts)}" + (f" and {more} more" if more > 0 else "")
