"""A claim about cells of the tables, and the comparisons behind it."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

from analysis.data.published import split_version
from analysis.stats import pairwise
from analysis.stats.moments import stack
from analysis.stats.omnibus import Count
from analysis.verdicts import existence
from analysis.verdicts.groups import Group
from analysis.verdicts.options import Options

SUPPORTED, PARTLY, NOT_SUPPORTED = "supported", "partly supported", "not supported"
NOT_CONTRADICTED = "neither shown nor contradicted"
UNNAMED = existence.UNNAMED

FRAMEWORKS = ("cleanrl", "sb3", "torchrl")
CONFIGURATIONS = ("sb3", "cleanrl", "torchrl", "original")

Key = tuple[str, str, str, str]  # algorithm, task, hyperparameters, framework
Table = Mapping[Key, Group]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One comparison behind a statement.

    Attributes:
        first: Algorithm, task, hyperparameters and framework.
        second: The same of the other side.
        difference: Mean of the first less that of the second, in units of return.
        p: Welch's test.
        p_holm: The same after Holm's correction over the comparisons of the statement.
    """

    first: Key
    second: Key
    difference: float
    p: float
    p_holm: float


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement and what the tables say of it.

    Attributes:
        section: Where the thesis makes it.
        claim: The statement, in other words.
        reading: How it was put to the test.
        verdict: Whether the numbers support it at the corrected level.
        outcome: What was found.
        findings: The comparisons, if it is one about differences.
    """

    section: str
    claim: str
    reading: str
    verdict: str
    outcome: str
    findings: tuple[Finding, ...] = ()


def compare(table: Table, pairs: Sequence[tuple[Key, Key]]) -> tuple[Finding, ...]:
    """Welch's test for each pair, Holm-corrected over them."""
    sides = [stack([table[pair[side]].moments for pair in pairs]) for side in (0, 1)]
    item = pairwise.contrast([sides[0]], [sides[1]])
    p = pairwise.two_sided_p(item)
    rows = zip(pairs, item.difference, p, pairwise.holm(p), strict=True)
    return tuple(
        Finding(first, second, float(gap), float(one), float(all_))
        for (first, second), gap, one, all_ in rows
    )


def key_of(group: Group) -> Key:
    """Which cell of the tables a group is."""
    cell = group.cell
    return cell.algorithm, split_version(cell.env)[0], cell.hps, group.framework


def tasks_of(table: Table) -> list[str]:
    """All tasks, sorted."""
    return sorted({key[1] for key in table})


def all_pairs(
    table: Table, algorithm: str, keep: Callable[[str, str, str, str], bool]
) -> list[tuple[Key, Key]]:
    """Pairs of frameworks in each setting of an algorithm.

    Args:
        table: All cells.
        algorithm: ppo, td3 or sac.
        keep: Whether a task, hyperparameters and two frameworks are wanted.
    """
    return [
        ((algorithm, task, hps, first), (algorithm, task, hps, second))
        for task in tasks_of(table)
        for hps in CONFIGURATIONS
        for first, second in itertools.combinations(FRAMEWORKS, 2)
        if keep(task, hps, first, second)
    ]


def significant(findings: Sequence[Finding], alpha: float) -> list[Finding]:
    """The findings that stay significant after the correction."""
    return [finding for finding in findings if finding.p_holm < alpha]


def significant_counts(findings: Sequence[Finding], alpha: float) -> str:
    """How many are significant after and before the correction."""
    bare = sum(finding.p < alpha for finding in findings)
    found = len(significant(findings, alpha))
    least = min(finding.p_holm for finding in findings)
    return (
        f"{found} of {len(findings)} comparisons significant after correction "
        f"(smallest corrected p {least:.3f}), {bare} before"
    )


def counted(table: Table, findings: Sequence[Finding], options: Options) -> Count:
    """How many comparisons are significant one by one, against studies without a difference."""
    pairs = [(table[item.first], table[item.second]) for item in findings]
    return existence.count_differences(pairs, [item.p for item in findings], options)


def some(findings: Sequence[Finding], count: Count, alpha: float) -> str:
    """The verdict on "some of these differ"."""
    if significant(findings, alpha):
        return SUPPORTED
    return UNNAMED if count.p < alpha else NOT_SUPPORTED


def count_words(count: Count) -> str:
    """What made-up studies say of a number of significant comparisons."""
    least = 1 / (count.resamples + 1)
    p = f"p < {2 * least:.4f}" if count.p < 1.5 * least else f"p = {count.p:.3f}"
    return (
        f"where nothing differs, {count.mean:.1f} on average and {count.most} at most of "
        f"{count.resamples:,} made-up studies ({p})"
    )
