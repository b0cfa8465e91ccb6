"""Which variant of each algorithm a study is about; the others are side experiments."""

import collections
from collections.abc import Iterable

from analysis.verdicts.groups import Group

Variant = tuple[str, str, str]  # study, algorithm, variant


def main_variants(groups: Iterable[Group]) -> frozenset[Variant]:
    """One per study and algorithm: that with the most runs used, and of equals the plainest.

    Args:
        groups: Final scores.
    """
    runs: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for group in groups:
        cell = group.cell
        runs[cell.study, cell.algorithm][cell.variant] += group.n
    return frozenset(
        (*key, min(found, key=lambda name: (-found[name], name.count("="), name)))
        for key, found in runs.items()
    )
