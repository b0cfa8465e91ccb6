"""Lifetimes of released bugs: from the first release with a bug to the first without it."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from datetime import date

from parallax.harness.contract.adapter import Adapter
from parallax.harness.interventions.catalogue import BugRelease, Intervention, list_released_bugs

DAYS_PER_MONTH = 365.25 / 12


@dataclasses.dataclass(frozen=True)
class BugLifetime:
    """One bug of one framework.

    Attributes:
        name: Name of its entry, without `bug.`.
        does: What the code did, in a sentence.
        algorithms: Algorithms that have it.
        release: Its releases.
        introduced: Date of the first release that has it; None if that is not known.
        last: Date of the last release that has it; None if that is not known.
        fixed: Date of the first release without it; None if there is none, or no date of it.
    """

    name: str
    does: str
    algorithms: tuple[str, ...]
    release: BugRelease
    introduced: date | None
    last: date | None
    fixed: date | None

    def count_months(self, today: date) -> float | None:
        """Return the months until the fix, or until today; None if a date is not known."""
        end = self.fixed if self.release.first_good else today
        if self.introduced is None or end is None:
            return None
        return (end - self.introduced).days / DAYS_PER_MONTH


def list_bug_lifetimes(adapter: Adapter, dates: Mapping[str, date]) -> list[BugLifetime]:
    """Return the bugs of a framework, the oldest repair first; negative controls are left out."""
    bugs = [
        bug
        for bug in list_released_bugs(adapter)
        if bug.released is not None and not bug.released.control
    ]
    groups = itertools.groupby(sorted(bugs, key=_get_key), _get_key)
    found = [_merge_entries(list(group), dates) for _, group in groups]
    return sorted(found, key=lambda bug: (bug.fixed or date.max, bug.name))


def _get_key(bug: Intervention) -> tuple[str, str, str]:
    assert bug.released is not None
    return bug.name, bug.released.last_bad, bug.released.first_good


def _merge_entries(entries: list[Intervention], dates: Mapping[str, date]) -> BugLifetime:
    first, release = entries[0], entries[0].released
    assert release is not None
    return BugLifetime(
        first.name.removeprefix("bug."),
        " ".join(first.does.split()),
        tuple(itertools.chain.from_iterable(item.algorithms for item in entries)),
        release,
        dates.get(release.first_bad),
        dates.get(release.last_bad),
        dates.get(release.first_good),
    )


def iterate_known_dates(bugs: list[BugLifetime]) -> Iterator[date]:
    """Yield all dates of bugs that are known."""
    for bug in bugs:
        yield from filter(None, (bug.introduced, bug.last, bug.fixed))
