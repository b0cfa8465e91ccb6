"""Suite-level verdicts: pairs of frameworks over all tasks of an algorithm, and all frameworks.

One setting has too few runs to exclude unobserved failures. All tasks together have enough: 7 tasks
of 10 runs bound the failure rate as 70 runs do.
"""

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from parallax.analysis.data.runs import CompletedRun, SuiteKey
from parallax.analysis.data.settings import describe_result_versions
from parallax.analysis.labels import get_label
from parallax.analysis.stats import pooling, two_sample
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.verdicts import statements
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.endpoints import ScoreScale, find_score_scale
from parallax.analysis.verdicts.failures import count_failed_runs
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.margins import compute_failure_threshold, find_score_range
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.references import LearningVerdict

MIN_TASKS = 2
EQUIVALENT_UNLEARNED = "equivalent but not shown to have learned"


@dataclasses.dataclass(frozen=True, eq=False)
class SuiteSample:
    """Normalized scores of the frameworks of one algorithm and recipe, in tasks that all have.

    Attributes:
        key: Study, algorithm, recipe and variant.
        scores: By framework one float[n] per task: 0 does nothing or worse, 1 solves the task.
        ends: Least and largest possible normalized score.
        left_out: Tasks that are not included, with the reason.
        failed: By framework the number of runs per task that ended below the task's threshold of
            failed runs; empty where a task has no threshold.
        versions: Sentence on packages of which runs have several versions; empty if none.
    """

    key: SuiteKey
    tasks: tuple[str, ...]
    scores: Mapping[str, tuple[FloatArray, ...]]
    ends: tuple[float, float]
    left_out: tuple[str, ...]
    failed: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    versions: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class SuiteVerdict:
    """Verdict on two frameworks over all tasks of an algorithm and recipe.

    Attributes:
        key: Study, algorithm, recipe and variant.
        runs: Runs of each, over all tasks.
        verdict: `different`, `equivalent` or `inconclusive`.
        statement: The same, with `different in mean` or `different in distribution`,
            `inconclusive with different failure rates`, and `equivalent but not shown to have
            learned`: scores of frameworks that learned nothing are equal, too.
        difference: Mean over tasks of the differences of means, in normalized score.
        low: Lower end of its uncorrected 95% interval.
        p: p-value of "no difference" (stratified Welch test).
        p_holm: `p` after Holm's correction over the pairs of this algorithm and recipe.
        p_mean: p-value of "equal means" that assumes only the range of scores.
        p_tost: p-value of two one-sided tests of "differs by the margin or more".
        p_equivalence: The larger of `p_tost` and the bound on unobserved failures.
        margin: Margin of equivalence, in normalized score.
        unlearned: Tasks in which a framework is not shown to have learned.
        left_out: Tasks that are not included, with the reason.
        failed: Failed runs of each, over all tasks; empty if unknown.
        p_failures: p-value of "equal failure rates in each task"; NaN if unknown.
        versions: Sentence on packages of which runs of all frameworks have several versions; empty
            if none.
    """

    key: SuiteKey
    tasks: tuple[str, ...]
    first: str
    second: str
    runs: tuple[int, int]
    verdict: str
    statement: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    p_permutation: float
    p_mean: float
    p_tost: float
    p_equivalence: float
    p_equivalence_holm: float
    margin: float
    unlearned: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    failed: tuple[int, ...] = ()
    p_failures: float = math.nan
    p_failures_holm: float = math.nan
    versions: str = ""


@dataclasses.dataclass(frozen=True)
class AllAlikeVerdict:
    """Verdict on whether all frameworks are equivalent, by an intersection-union test.

    Attributes:
        env: Task; empty for all tasks together.
        p: Largest p-value of equivalence over all pairs; no correction is needed (Berger 1982).
        versions: Sentence on packages of which runs have several versions; empty if none.
    """

    study: str
    algorithm: str
    hps: str
    variant: str
    env: str
    frameworks: tuple[str, ...]
    p: float
    verdict: str
    versions: str = ""


def collect_suites(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[SuiteSample, ...]:
    """Collect the normalized scores of every algorithm and recipe with at least two tasks.

    Scores below doing nothing count as 0. A framework without two runs in two tasks is left out,
    then a task without a scale, or without two runs of some framework; all are named.
    """
    found: dict[SuiteKey, dict[str, dict[str, ScoreGroup]]] = collections.defaultdict(
        lambda: collections.defaultdict(dict)
    )
    for group in groups:
        if group.scores is not None:  # also without a run, so that it is named
            found[group.cell.suite_key][group.cell.env][group.framework] = group
    samples = (_collect_suite(key, found[key], options) for key in sorted(found))
    return tuple(sample for sample in samples if sample is not None)


def _collect_suite(
    key: SuiteKey, table: Mapping[str, Mapping[str, ScoreGroup]], options: VerdictOptions
) -> SuiteSample | None:
    several = collections.Counter(
        name for row in table.values() for name, group in row.items() if group.n > 1
    )
    names = sorted(name for name, count in several.items() if count >= MIN_TASKS)
    if len(names) < 2:
        return None
    others = sorted({name for row in table.values() for name in row} - {*names})
    left_out = [f"{get_label(name)}: no two runs in two tasks" for name in others]
    scales: dict[str, ScoreScale] = {}
    tops = []
    for env, row in sorted(table.items()):
        scale = find_score_scale(next(iter(row.values())).cell, options)
        lacking = [name for name in names if name not in row or row[name].n < 2]
        if scale is None or lacking:
            reason = (
                "no scale is known" if scale is None else f"no two runs of {get_label(lacking[0])}"
            )
            left_out.append(f"{env}: {reason}")
            continue
        scales[env] = scale
        used = [row[name] for name in names]
        ends = find_score_range(used, options)
        seen = max(float(group.scores.max()) for group in used)  # type: ignore[union-attr]
        tops.append(scale.normalize(max(ends.high if ends.known else scale.one, seen)))
    if len(scales) < MIN_TASKS:
        return None
    scores = {
        name: tuple(
            np.maximum(0.0, scale.normalize(table[env][name].scores))
            for env, scale in scales.items()
        )
        for name in names
    }
    return SuiteSample(
        key,
        tuple(scales),
        scores,
        # Normalized scores below 0 count as 0, so 0 is the lower end of every task.
        (0.0, max(1.0, *tops)),
        tuple(left_out),
        _count_failed({env: table[env] for env in scales}, names, options),
        describe_result_versions(
            run for env in scales for name in names for run in table[env][name].runs
        ),
    )


def _count_failed(
    table: Mapping[str, Mapping[str, ScoreGroup]], names: Sequence[str], options: VerdictOptions
) -> dict[str, tuple[int, ...]]:
    """Return the failed runs per task of each framework; empty where a task has no threshold."""
    thresholds = {
        env: compute_failure_threshold(list(row.values()), options) for env, row in table.items()
    }
    counts = {
        name: [count_failed_runs(table[env][name], at) for env, at in thresholds.items()]
        for name in names
    }
    if any(count is None for found in counts.values() for count in found):
        return {}
    return {
        name: tuple(count for count in found if count is not None) for name, found in counts.items()
    }


def judge_suites(
    groups: Sequence[ScoreGroup],
    options: VerdictOptions,
    learning: Sequence[LearningVerdict] | None = None,
) -> tuple[SuiteVerdict, ...]:
    """Judge every pair of frameworks over all tasks of an algorithm and recipe.

    The words mean the same as for one setting. The difference is a mean over tasks: frameworks can
    be equivalent over a suite and differ in opposite directions in two of its tasks.

    Args:
        groups: Scores per setting and framework.
        options: Level, share that makes the margin, ranges and seed.
        learning: Which frameworks have learned in which settings; None to assume that all have.
    """
    samples = collect_suites(groups, options)
    found = [item for sample in samples for item in judge_suite(sample, options)]
    return tuple(found if learning is None else _mark_unlearned(found, learning))


def select_suites_with_failed_runs(
    items: Iterable[SuiteVerdict], groups: Iterable[ScoreGroup]
) -> tuple[SuiteVerdict, ...]:
    """Return the pairs in which a training failed."""
    failed = {
        (*cell.suite_key, cell.env, group.framework)
        for group in groups
        if group.failed
        for cell in group.cells
    }
    return tuple(
        item
        for item in items
        if any(
            (*item.key, task, name) in failed
            for task in item.tasks
            for name in (item.first, item.second)
        )
    )


def _mark_unlearned(
    items: Iterable[SuiteVerdict], learning: Sequence[LearningVerdict]
) -> Iterator[SuiteVerdict]:
    """Yield verdicts with the tasks in which a framework is not shown to have learned."""
    learned = _collect_learned(learning)
    for item in items:
        unlearned = tuple(
            task
            for task in item.tasks
            if not {(*item.key, task, item.first), (*item.key, task, item.second)} <= learned
        )
        is_claim = item.statement == statements.EQUIVALENT and unlearned
        statement = EQUIVALENT_UNLEARNED if is_claim else item.statement
        yield dataclasses.replace(item, unlearned=unlearned, statement=statement)


def _collect_learned(learning: Sequence[LearningVerdict]) -> set[tuple[str, ...]]:
    """Return study, algorithm, recipe, variant, task and framework of all that have learned.

    A framework's own recipe is also listed under `library defaults`.
    """
    return {
        (*cell.suite_key, cell.env, one.group.framework)
        for one in learning
        if one.is_learned
        for cell in one.group.cells
    }


def judge_suite(sample: SuiteSample, options: VerdictOptions) -> list[SuiteVerdict]:
    """Judge the pairs of one suite, with Holm's correction over them."""
    margin, ends = options.margin_share, sample.ends
    pairs = list(itertools.combinations(sample.scores, 2))
    strata = [(sample.scores[one], sample.scores[two]) for one, two in pairs]
    contrasts = [pooling.compute_stratified_contrast(*both) for both in strata]
    p = np.array([float(two_sample.compute_two_sided_p(item)) for item in contrasts])
    p_tost = np.array([float(two_sample.compute_equivalence_p(item, margin)) for item in contrasts])
    bound = [pooling.compute_stratified_difference_p(*both, ends, margin) for both in strata]
    p_equivalence = np.maximum(p_tost, bound)
    failures = [_compare_failures(sample, *pair) for pair in pairs]
    p_failures = np.array([p_value for _, p_value in failures])
    p_holm, p_equivalence_holm, p_failures_holm = map(adjust_holm, (p, p_equivalence, p_failures))
    found = []
    for i, ((one, two), both, item) in enumerate(zip(pairs, strata, contrasts, strict=True)):
        rng = np.random.default_rng(options.seed)
        p_permutation = pooling.compute_stratified_permutation_p(*both, rng)
        p_mean = pooling.compute_stratified_mean_p(*both, ends)
        p_different = max(p_holm[i], p_permutation)
        verdict, statement = _decide_statement(
            p_equivalence_holm[i], p_different, p_mean, p_failures_holm[i], options.alpha
        )
        low, high = two_sample.compute_contrast_bounds(item)
        found.append(
            SuiteVerdict(
                sample.key,
                sample.tasks,
                one,
                two,
                (sum(map(len, both[0])), sum(map(len, both[1]))),
                verdict,
                statement,
                float(item.difference),
                float(low),
                float(high),
                *(float(p[i]), float(p_holm[i]), p_permutation, p_mean),
                *(float(p_tost[i]), float(p_equivalence[i]), float(p_equivalence_holm[i])),
                margin,
                left_out=sample.left_out,
                failed=failures[i][0],
                p_failures=failures[i][1],
                p_failures_holm=float(p_failures_holm[i]),
                versions=sample.versions,
            )
        )
    return found


def _decide_statement(
    p_equivalence: float, p_different: float, p_mean: float, p_failures: float, alpha: float
) -> tuple[str, str]:
    """Return the verdict and the statement on two frameworks over all tasks."""
    if p_equivalence < alpha:
        return statements.EQUIVALENT, statements.EQUIVALENT
    if p_different < alpha:
        in_mean = p_mean < alpha
        return statements.DIFFERENT, (
            statements.DIFFERENT_IN_MEAN if in_mean else statements.DIFFERENT_IN_DISTRIBUTION
        )
    if p_failures < statements.FISHER_SHARE * alpha:
        return statements.INCONCLUSIVE, statements.UNEQUAL_FAILURES
    return statements.INCONCLUSIVE, statements.INCONCLUSIVE


def _compare_failures(sample: SuiteSample, one: str, two: str) -> tuple[tuple[int, ...], float]:
    """Return the failed runs of two frameworks over all tasks, and the p-value of equal rates."""
    if not sample.failed:
        return (), math.nan
    failed = list(zip(sample.failed[one], sample.failed[two], strict=True))
    scores = zip(sample.scores[one], sample.scores[two], strict=True)
    sizes = [(len(first), len(second)) for first, second in scores]
    p = two_sample.compute_stratified_fisher_p(failed, sizes)
    return (sum(sample.failed[one]), sum(sample.failed[two])), p


def judge_all_alike(
    pairs: Sequence[PairVerdict],
    suites: Sequence[SuiteVerdict],
    options: VerdictOptions,
    learning: Sequence[LearningVerdict] | None = None,
) -> tuple[AllAlikeVerdict, ...]:
    """Judge for every setting and every suite whether all of its frameworks are equivalent.

    Args:
        pairs: Verdicts on pairs in settings.
        suites: Verdicts on pairs over tasks.
        options: Level.
        learning: Which frameworks have learned in which settings; None to assume that all have.
    """
    learned = _collect_learned(learning or ())
    of_suites = {suite.key: suite for suite in suites}
    runs: dict[tuple[str, str, str, str, str], dict[str, tuple[CompletedRun, ...]]] = (
        collections.defaultdict(dict)
    )
    found: dict[tuple[str, str, str, str, str], list[tuple[str, str, float]]] = (
        collections.defaultdict(list)
    )
    for suite in suites:
        found[*suite.key, ""].append((suite.first, suite.second, suite.p_equivalence))
    for item in pairs:
        place = *item.cell.suite_key, item.cell.env
        found[place].append((item.first.framework, item.second.framework, item.p_equivalence))
        runs[place] |= {side.framework: side.runs for side in (item.first, item.second)}
    verdicts = []
    for key, members in sorted(found.items()):
        names = tuple(sorted({name for one, two, _ in members for name in (one, two)}))
        values = [p for _, _, p in members]
        p = math.nan if any(map(math.isnan, values)) else max(values)
        word = statements.EQUIVALENT if p < options.alpha else statements.INCONCLUSIVE
        needed = {
            (*key[:4], task, name)
            for task in ((key[4],) if key[4] else of_suites[key[:4]].tasks)
            for name in names
        }
        if word == statements.EQUIVALENT and learning is not None and not needed <= learned:
            word = EQUIVALENT_UNLEARNED
        versions = (
            describe_result_versions(itertools.chain(*runs[key].values()))
            if key[4]
            else of_suites[key[:4]].versions
        )
        verdicts.append(AllAlikeVerdict(*key, names, p, word, versions))
    return tuple(verdicts)
