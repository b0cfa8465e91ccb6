"""Claims about cells of the tables, and the comparisons that test them."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

from parallax.analysis.data.published import split_version
from parallax.analysis.stats import two_sample
from parallax.analysis.stats.moments import stack_moments
from parallax.analysis.stats.multiple_testing import OmnibusCount, adjust_holm
from parallax.analysis.verdicts import overall
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

SUPPORTED, PARTLY, NOT_SUPPORTED = "supported", "partly supported", "not supported"
NOT_CONTRADICTED = "neither shown nor contradicted"
UNNAMED = overall.DIFFERENCES_UNNAMED

FRAMEWORKS = ("cleanrl", "sb3", "torchrl")
CONFIGURATIONS = ("sb3", "cleanrl", "torchrl", "original")

CellKey = tuple[str, str, str, str]  # algorithm, task, hyperparameters, framework
GroupTable = Mapping[CellKey, ScoreGroup]


@dataclasses.dataclass(frozen=True)
class ClaimComparison:
    """One comparison behind a statement.

    Attributes:
        first: Algorithm, task, hyperparameters and framework.
        difference: Mean of the first - mean of the second, in units of return.
        p: Welch's test.
        p_holm: The same after Holm's correction over the comparisons of the statement.
    """

    first: CellKey
    second: CellKey
    difference: float
    p: float
    p_holm: float


@dataclasses.dataclass(frozen=True)
class ThesisClaim:
    """A statement of the thesis, and its test on the tables.

    Attributes:
        claim: The statement, in other words.
        reading: How it was tested.
        verdict: Whether the numbers support it at the corrected level.
    """

    section: str
    claim: str
    reading: str
    verdict: str
    outcome: str
    findings: tuple[ClaimComparison, ...] = ()


def compare_pairs(
    table: GroupTable, pairs: Sequence[tuple[CellKey, CellKey]]
) -> tuple[ClaimComparison, ...]:
    """Return Welch's test for each pair, Holm-corrected over them."""
    sides = [stack_moments([table[pair[side]].moments for pair in pairs]) for side in (0, 1)]
    item = two_sample.compute_contrast([sides[0]], [sides[1]])
    p = two_sample.compute_two_sided_p(item)
    rows = zip(pairs, item.difference, p, adjust_holm(p), strict=True)
    return tuple(
        ClaimComparison(first, second, float(gap), float(one), float(all_))
        for (first, second), gap, one, all_ in rows
    )


def key_from_group(group: ScoreGroup) -> CellKey:
    """Return the table cell of a group."""
    cell = group.cell
    return cell.algorithm, split_version(cell.env)[0], cell.hps, group.framework


def list_tasks(table: GroupTable) -> list[str]:
    """Return all tasks, sorted."""
    return sorted({key[1] for key in table})


def list_framework_pairs(
    table: GroupTable, algorithm: str, is_wanted: Callable[[str, str, str, str], bool]
) -> list[tuple[CellKey, CellKey]]:
    """Return the wanted pairs of frameworks in each task and recipe of an algorithm."""
    return [
        ((algorithm, task, hps, first), (algorithm, task, hps, second))
        for task in list_tasks(table)
        for hps in CONFIGURATIONS
        for first, second in itertools.combinations(FRAMEWORKS, 2)
        if is_wanted(task, hps, first, second)
    ]


def select_significant(findings: Sequence[ClaimComparison], alpha: float) -> list[ClaimComparison]:
    """Return the findings that stay significant after the correction."""
    return [finding for finding in findings if finding.p_holm < alpha]


def format_significant_counts(findings: Sequence[ClaimComparison], alpha: float) -> str:
    """Phrase how many comparisons are significant after and before the correction."""
    bare = sum(finding.p < alpha for finding in findings)
    found = len(select_significant(findings, alpha))
    least = min(finding.p_holm for finding in findings)
    return (
        f"{found} of {len(findings)} comparisons significant after correction "
        f"(smallest corrected p {least:.3f}), {bare} before"
    )


def count_significant(
    table: GroupTable, findings: Sequence[ClaimComparison], options: VerdictOptions
) -> OmnibusCount:
    """Compare the number of significant comparisons with studies without a difference."""
    pairs = [(table[item.first], table[item.second]) for item in findings]
    return overall.count_differences(pairs, [item.p for item in findings], options)


def judge_some_differ(
    findings: Sequence[ClaimComparison], count: OmnibusCount, alpha: float
) -> str:
    """Return the verdict on "some of these differ"."""
    if select_significant(findings, alpha):
        return SUPPORTED
    return UNNAMED if count.p < alpha else NOT_SUPPORTED


def describe_significant_count(count: OmnibusCount) -> str:
    """Phrase the null distribution of a number of significant comparisons."""
    least = 1 / (count.simulated_studies + 1)
    p = f"p < {2 * least:.4f}" if count.p < 1.5 * least else f"p = {count.p:.3f}"
    return (
        f"where nothing differs, {count.expected_under_null:.1f} on average and "
        f"{count.max_under_null} at most of {count.simulated_studies:,} simulated studies ({p})"
    )
