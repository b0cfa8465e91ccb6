"""The endpoint of a study, as configured or named by a command, and the scales of its scores."""

import collections
import dataclasses
from collections.abc import Mapping

from parallax.analysis.data.published import (
    get_do_nothing_score,
    get_random_score,
    get_reference_score,
    get_solved_score,
    get_top_score,
)
from parallax.analysis.data.runs import LoadedRuns, StudyCell
from parallax.analysis.stats.endpoints import FINAL
from parallax.analysis.verdicts.options import VerdictOptions


def get_recorded_endpoints(loaded: LoadedRuns) -> dict[str, int]:
    """Return the endpoints that runs were started with, and their numbers of runs.

    Runs recorded before there was a choice have `final`.
    """
    return dict(collections.Counter(str(run.spec.get("endpoint") or FINAL) for run in loaded.runs))


def settle_endpoint(loaded: LoadedRuns, options: VerdictOptions) -> VerdictOptions:
    """Return options with an endpoint and the reason for this choice.

    An endpoint fixed before the runs is part of the plan. One chosen when results are known is a
    search for significant results. Every page says which of the two it is.

    Args:
        loaded: Runs of studies.
        options: Its `endpoint` is used where it is not empty.

    Raises:
        ValueError: There is no endpoint of that name.
    """
    if options.endpoint_source:
        return options
    found = get_recorded_endpoints(loaded)
    recorded = next(iter(found)) if len(found) == 1 else FINAL
    if options.endpoint and (options.endpoint != recorded or len(found) > 1):
        fixed = " and ".join(sorted(found)) or FINAL
        source = f"chosen for this report; the study's configuration has {fixed}"
    elif len(found) > 1:
        source = f"runs were started with different endpoints: {_format_endpoint_counts(found)}"
    elif not any(run.spec.get("endpoint") for run in loaded.runs):
        source = "the default of runs whose configuration names none"
    else:
        source = "fixed in the study's configuration"
    chosen = dataclasses.replace(
        options, endpoint=options.endpoint or recorded, endpoint_source=source
    )
    _ = chosen.chosen_endpoint  # raises here, not later, if the name is unknown
    return chosen


def describe_mixed_endpoints(loaded: LoadedRuns, options: VerdictOptions) -> str:
    """Return a warning where runs were started with different endpoints; empty otherwise."""
    found = get_recorded_endpoints(loaded)
    if len(found) < 2:
        return ""
    return (
        f"Runs were started with different endpoints: {_format_endpoint_counts(found)}. All are "
        f"judged here by {options.chosen_endpoint.name}; --endpoint NAME chooses another one"
    )


def _format_endpoint_counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count} runs)" for name, count in sorted(found.items()))


@dataclasses.dataclass(frozen=True)
class ScoreScale:
    """Scores that are 0 and 1 after normalization in one task.

    Attributes:
        zero: Score, in units of return.
        one: Score, in units of return; above `zero`.
        source: Source of both, in words.
    """

    zero: float
    one: float
    source: str

    @property
    def width(self) -> float:
        """Units of return per unit of normalized score."""
        return self.one - self.zero


def find_score_scale(cell: StudyCell, options: VerdictOptions) -> ScoreScale | None:
    """Return the scale of scores over several tasks; None if unknown.

    Args:
        cell: The setting.
        options: The endpoint, and given ranges.
    """
    if options.chosen_endpoint.is_steps:
        return ScoreScale(0.0, 1.0, "share of training that is left")
    return find_task_scale(cell, options)


def find_task_scale(cell: StudyCell, options: VerdictOptions) -> ScoreScale | None:
    """Return the scale on which 0 is doing nothing and 1 a solved task; None if unknown.

    0 is the better of the scores of doing nothing and of random actions, 1 the published score of
    the algorithm, or that of a solved task if nothing is published. A range given for the
    task takes precedence: its upper end is 1, and 0 is the largest of its lower end and the two
    policies' scores.

    Args:
        cell: The setting.
        options: Given ranges.
    """
    return _make_scale(cell, options, get_top_score(cell.algorithm, cell.env))


def find_solved_scale(cell: StudyCell, options: VerdictOptions) -> ScoreScale | None:
    """Return the scale on which 1 is the solved score of the task, whatever the algorithm.

    0 is as in `find_task_scale`. If no solved score is known, the published score is used.

    Args:
        cell: The setting.
        options: Given ranges.
    """
    found = get_solved_score(cell.env) or get_reference_score(cell.algorithm, cell.env)
    return _make_scale(cell, options, found)


def _make_scale(
    cell: StudyCell, options: VerdictOptions, found: tuple[float, str] | None
) -> ScoreScale | None:
    given = options.range_by_env.get(cell.env)
    known = [
        (score[0], name)
        for name, score in (
            ("random actions", get_random_score(cell.env)),
            ("doing nothing", get_do_nothing_score(cell.env)),
        )
        if score is not None
    ]
    if given:
        known.append((given[0], "the lower end of the range given"))
    one = given[1] if given else None if found is None else found[0]
    if one is None or not known or max(known)[0] >= one:
        return None
    zero, name = max(known)
    return ScoreScale(zero, one, f"0: {name}; 1: {'given' if given else found and found[1]}")
