"""The endpoint of a study, as configured or named by a command, and the scales of its scores.

Scales begin at the scores of policies without training, which are published or measured with runs.
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from parallax.analysis.data.published import (
    get_do_nothing_score,
    get_random_score,
    get_reference_score,
    get_solved_score,
    get_top_score,
    is_version_published,
)
from parallax.analysis.data.runs import CompletedRun, LoadedRuns, StudyCell
from parallax.analysis.labels import format_count, group_items
from parallax.analysis.stats.learning_curves import FINAL
from parallax.analysis.stats.moments import SampleMoments, compute_moments
from parallax.analysis.verdicts.options import VerdictOptions

DO_NOTHING, RANDOM, UNTRAINED = "do nothing", "random actions", "untrained policy"
REFERENCE_TABLES = {DO_NOTHING: "do_nothing", RANDOM: "random"}
_PHRASES = {DO_NOTHING: "doing nothing"}


@dataclasses.dataclass(frozen=True, eq=False)
class ReferenceScore:
    """Score of a policy without training on a task.

    Attributes:
        name: One of the names above.
        moments: Over episodes; over runs for the untrained policy.
    """

    name: str
    moments: SampleMoments
    source: str

    @property
    def mean(self) -> float:
        """Mean score, in units of return."""
        return float(self.moments.mean)


def pool_measured_references(runs: Sequence[CompletedRun]) -> list[ReferenceScore]:
    """Return the references that were measured with runs, over all of their episodes."""
    pooled = []
    for name in REFERENCE_TABLES:
        items = [run.references[name] for run in runs if name in run.references]
        if not items:
            continue
        sizes = np.array([item.episodes for item in items], dtype=np.float64)
        means, sds = np.array([(item.mean, item.sd) for item in items]).T
        n, mean = sizes.sum(), np.average(means, weights=sizes)
        # Sum of squares of all episodes: within runs, and between the means of runs.
        squares = (sizes - 1) @ sds**2 + sizes @ (means - mean) ** 2
        sd = np.sqrt(squares / (n - 1)) if n > 1 else np.float64(math.nan)
        source = f"{n:.0f} episodes, with {format_count(len(items), 'run')}"
        moments = SampleMoments(*(np.float64(value) for value in (mean, sd, n)))  # type: ignore[arg-type]
        pooled.append(ReferenceScore(name, moments, source))
    return pooled


def measure_untrained(runs: Iterable[CompletedRun]) -> ReferenceScore | None:
    """Return the score of untrained policies, over runs that were evaluated at step 0, if any."""
    found = (run for run in runs if not run.is_imputed)
    scores = [float(run.results[0].mean()) for run in found if run.timesteps[0] == 0]
    source = f"evaluations at step 0 of {format_count(len(scores), 'run')}"
    return ReferenceScore(UNTRAINED, compute_moments(np.array(scores)), source) if scores else None


def _collect_measured(loaded: LoadedRuns) -> Iterator[tuple[str, str, float, str]]:
    """Yield task, policy, mean and source of measured references that nobody published."""
    by_env = group_items(loaded.runs, lambda run: run.id.cell.env)
    for env, runs in sorted(by_env.items()):
        lacking = {
            x for x, table in REFERENCE_TABLES.items() if not is_version_published(table, env)
        }
        untrained = [measure_untrained(runs)] if lacking == {*REFERENCE_TABLES} else []
        for one in (*pool_measured_references(runs), *untrained):
            if one and one.name in {*lacking, UNTRAINED}:
                yield env, one.name, one.mean, one.source


def find_reference_means(env: str, options: VerdictOptions) -> dict[str, tuple[float, str]]:
    """Return mean return and source of each known policy without training, by its name.

    References measured with the runs replace those published for another version of the task.
    """
    published = {RANDOM: get_random_score(env), DO_NOTHING: get_do_nothing_score(env)}
    found = {name: score for name, score in published.items() if score is not None}
    return found | {name: (mean, by) for task, name, mean, by in options.references if task == env}


def get_recorded_endpoints(loaded: LoadedRuns) -> dict[str, int]:
    """Return the endpoints that runs were started with, and their numbers of runs.

    Runs recorded before there was a choice have `final`.
    """
    return dict(collections.Counter(str(run.spec.get("endpoint") or FINAL) for run in loaded.runs))


def settle_options(loaded: LoadedRuns, options: VerdictOptions) -> VerdictOptions:
    """Return options with an endpoint, the reason for this choice, and measured references.

    An endpoint fixed before the runs is part of the plan. Choosing an endpoint when results are
    known is a search for significant results. Every page says which of the two applies.

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
    return dataclasses.replace(
        options,
        endpoint=options.endpoint or recorded,
        endpoint_source=source,
        references=tuple(_collect_measured(loaded)),
    )


def describe_mixed_endpoints(loaded: LoadedRuns, options: VerdictOptions) -> str:
    """Return a warning if runs were started with different endpoints, or an empty string."""
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

    def normalize(self, scores: Any) -> Any:
        """Normalize a score, or an array of them."""
        return (scores - self.zero) / self.width


def find_score_scale(cell: StudyCell, options: VerdictOptions) -> ScoreScale | None:
    """Return the scale of scores over several tasks; None if unknown."""
    if options.chosen_endpoint.is_steps:
        return ScoreScale(0.0, 1.0, "share of training that is left")
    return find_task_scale(cell, options)


def find_task_scale(cell: StudyCell, options: VerdictOptions) -> ScoreScale | None:
    """Return the scale on which 0 is doing nothing and 1 a solved task; None if unknown.

    0 is the better of the scores of doing nothing and of random actions, or where neither is
    published, the best policy without training that was measured with the runs. 1 is the published
    score of the algorithm, or that of a solved task if nothing is published. A range given for the
    task takes precedence: its upper end is 1, and 0 is the largest of its lower end and these
    policies' scores.
    """
    return _make_scale(cell, options, get_top_score(cell.algorithm, cell.env))


def find_solved_scale(cell: StudyCell, options: VerdictOptions) -> ScoreScale | None:
    """Return the scale on which 1 is the solved score of the task, whatever the algorithm.

    0 is as in `find_task_scale`. If no solved score is known, the published score is used.
    """
    found = get_solved_score(cell.env) or get_reference_score(cell.algorithm, cell.env)
    return _make_scale(cell, options, found)


def _make_scale(
    cell: StudyCell, options: VerdictOptions, found: tuple[float, str] | None
) -> ScoreScale | None:
    given = options.range_by_env.get(cell.env)
    measured = {name for env, name, *_ in options.references if env == cell.env}
    zeros = []
    for name, (mean, _) in find_reference_means(cell.env, options).items():
        origin = ", measured with the runs" if name in measured else ""
        zeros.append((mean, f"{_PHRASES.get(name, name)}{origin}"))
    if given:
        zeros.append((given[0], "the lower end of the range given"))
        found = given[1], "given"
    if found is None or not zeros:
        return None
    (zero, zero_source), (one, one_source) = max(zeros), found
    return ScoreScale(zero, one, f"0: {zero_source}; 1: {one_source}") if zero < one else None
