"""The figure of one framework's history: answers over time, and the lifetimes of its bugs."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.harness.contract.adapter import Adapter
from parallax.harness.interventions.catalogue import BugRelease, Intervention, list_released_bugs
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.figures import STYLE, figure_to_svg
from parallax.harness.probes.results import ProbeResult
from parallax.harness.versions.history import ReleaseHistory, list_answer_changes, sort_versions

DAYS_PER_MONTH = 365.25 / 12


@dataclasses.dataclass(frozen=True)
class BugLifetime:
    """One bug of one framework.

    Attributes:
        does: What the code did, in a sentence.
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


FIRST_COLOR, UNMEASURED_COLOR = "#c8ccd0", "white"
CHANGED_COLORS = ("#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#0072b2")
"""Colours of the second and later answers: Okabe and Ito's, which all readers can distinguish."""
BUG_COLOR, INTRODUCED_COLOR, FIXED_COLOR = "#666666", "#d55e00", "#009e73"
WIDTH, ROW_HEIGHT, MARGIN_HEIGHT = 9.0, 0.235, 1.55  # inches
LABEL_GAP = 0.021
"""Smallest distance of two releases' labels, as a share of the width."""
_EDGE = timedelta(days=45)
_EPOCH = date(1970, 1, 1)


@dataclasses.dataclass(frozen=True)
class AnswerRow:
    """One row of the figure: a question, or the questions of an algorithm that never changed.

    Attributes:
        answers: By release, the number of the answer in the order of appearance; None where it
            could not be measured.
    """

    label: str
    answers: Mapping[str, int | None]


def list_answer_rows(history: ReleaseHistory, versions: Sequence[str]) -> list[AnswerRow]:
    """Return a row per question whose answer changed, and one for the others per algorithm."""
    changes = list_answer_changes(history, versions)
    changed = {change.probe for change in changes if not change.follows_paper}
    rows, algorithms = list[AnswerRow](), dict[str, list[ProbeResult]]()
    for result in history.report.results:
        algorithms.setdefault(result.algorithm, []).append(result)
    for algorithm, results in algorithms.items():
        name = algorithm.upper()
        own = [result for result in results if result.probe in changed]
        for result in sorted(own, key=lambda item: item.probe):
            label = f"{name} {result.probe.partition('.')[2].replace('_', ' ')}"
            rows.append(AnswerRow(label, number_answers(result, versions)))
        others = [result for result in results if result.probe not in changed]
        if others:
            given = [answer for item in others for answer in item.answers.items()]
            measured = {version for version, answer in given if not answer.failed}
            count = f"{len(others)} other" if own else f"all {len(others)}"
            numbers = {version: 0 if version in measured else None for version in versions}
            rows.append(AnswerRow(f"{name}, {count} questions", numbers))
    return rows


def number_answers(result: ProbeResult, versions: Sequence[str]) -> dict[str, int | None]:
    """Return the number of each release's answer, counted in the order of appearance."""
    known: list[str] = []  # a release with each answer
    numbers: dict[str, int | None] = {}
    for version in versions:
        answer = result.answers.get(version)
        numbers[version] = None
        if answer is None or answer.failed:
            continue
        same = [v for v in known if not describe_change(result, result.answers[v], answer)]
        if not same:
            known.append(version)
        numbers[version] = known.index(same[0] if same else version)
    return numbers


def draw_history(
    history: ReleaseHistory, dates: Mapping[str, date], bugs: Sequence[BugLifetime], today: date
) -> str:
    """Return the figure of a history as SVG.

    Args:
        history: Answers of at least two releases.
        dates: Dates of releases.
        bugs: Bugs of the framework.
        today: End of the time that is drawn.
    """
    with mpl.rc_context({**STYLE, "svg.hashsalt": history.framework}):
        return figure_to_svg(plot_history(history, dates, bugs, today))


def plot_history(
    history: ReleaseHistory, dates: Mapping[str, date], bugs: Sequence[BugLifetime], today: date
) -> Figure:
    """Return the figure of a history; see `draw_history`."""
    versions = [v for v in sort_versions(list(history.releases)) if v in dates]
    rows = list_answer_rows(history, versions)
    shown = [bug for bug in bugs if bug.last or bug.fixed]
    height = ROW_HEIGHT * (len(rows) + len(shown) + 1) + MARGIN_HEIGHT
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    panels: Any = figure.subplots(
        2 if shown else 1,
        sharex=True,
        squeeze=False,
        height_ratios=[len(rows), len(shown)] if shown else None,
    )
    first = min([dates[version] for version in versions] + list(iterate_known_dates(list(shown))))
    span = count_days(first - _EDGE), count_days(today + _EDGE)
    top = panels[0, 0]
    top.set_xlim(*span)
    # Answers hold until the next release, whether or not that one was measured.
    later = [day for day in dates.values() if day > dates[versions[-1]]]
    _plot_answers(top, rows, versions, dates, min([*later, today]))
    _label_releases(top, versions, dates, span)
    if shown:
        _plot_bugs(panels[1, 0], shown, today)
    panels[-1, 0].xaxis_date()
    return figure


def count_days(day: date) -> float:
    """Return a date as Matplotlib's number."""
    return float((day - _EPOCH).days)


def _plot_answers(
    ax: Axes,
    rows: Sequence[AnswerRow],
    versions: Sequence[str],
    dates: Mapping[str, date],
    end_date: date,
) -> None:
    starts = [count_days(dates[version]) for version in versions]
    ends = [*starts[1:], count_days(end_date)]
    for place, row in enumerate(rows):
        before: int | None = None
        for version, start, end in zip(versions, starts, ends, strict=True):
            number = row.answers[version]
            ax.barh(
                place,
                max(end - start, 1.0),
                left=start,
                height=0.72,
                color=_get_answer_color(number),
                edgecolor=BUG_COLOR if number is None else "none",
                hatch="////" if number is None else None,
                linewidth=0,
            )
            if before is not None and number is not None and number != before:
                ax.plot([start, start], [place - 0.45, place + 0.45], color="black", linewidth=1.6)
            before = before if number is None else number
    for start in starts:
        ax.axvline(start, color="white", linewidth=0.8, zorder=1.5)
    _set_rows(ax, [row.label for row in rows])
    ax.tick_params(axis="x", length=0)


def _get_answer_color(number: int | None) -> str:
    if number is None:
        return UNMEASURED_COLOR
    return CHANGED_COLORS[(number - 1) % len(CHANGED_COLORS)] if number else FIRST_COLOR


def _label_releases(
    ax: Axes, versions: Sequence[str], dates: Mapping[str, date], span: tuple[float, float]
) -> None:
    at = np.array([count_days(dates[version]) for version in versions])
    gap = LABEL_GAP * (span[1] - span[0])
    for version, x, label in zip(versions, at, spread_labels(at, gap, span[1]), strict=True):
        ax.annotate(
            version,
            (x, 1.0),
            (label, 1.03),
            xycoords=ax.get_xaxis_transform(),
            textcoords=ax.get_xaxis_transform(),
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=8,
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": BUG_COLOR, "shrinkB": 0},
        )


def spread_labels(at: Any, gap: float, end: float) -> Any:
    """Return positions of labels that are at least `gap` apart, near `at` and below `end`.

    Args:
        at: float[labels], increasing.
        gap: Smallest distance.
        end: Largest position.
    """
    places = np.array(at, dtype=float)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    limit = end
    for i in reversed(range(len(places))):
        places[i] = min(places[i], limit)
        limit = places[i] - gap
    return places


def _plot_bugs(ax: Axes, bugs: Sequence[BugLifetime], today: date) -> None:
    for place, bug in enumerate(bugs):
        is_open = not bug.release.first_good
        start: Any = bug.introduced or bug.last or bug.fixed
        end: Any = today if is_open else (bug.fixed or bug.last)
        style = "-" if bug.introduced else ":"
        ax.plot([start, end], [place, place], style, color=BUG_COLOR, linewidth=1.6)
        if bug.introduced:
            ax.plot([start], [place], "X", color=INTRODUCED_COLOR, markersize=6)
        if is_open:
            ax.plot([end], [place], ">", color=INTRODUCED_COLOR, markersize=6)
        elif bug.fixed:
            ax.plot([end], [place], "D", color=FIXED_COLOR, markersize=4.5)
    _set_rows(ax, [f"{'/'.join(bug.algorithms).upper()} {bug.name}" for bug in bugs])
    for marker, color, label in (
        ("X", INTRODUCED_COLOR, "introduced"),
        ("D", FIXED_COLOR, "fixed"),
        (">", INTRODUCED_COLOR, "open"),
    ):
        ax.plot([], [], marker, color=color, linestyle="none", markersize=5, label=label)
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.06), ncols=3, borderaxespad=1.4)


def _set_rows(ax: Axes, labels: Sequence[str]) -> None:
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.grid(False)
    ax.grid(axis="x", alpha=0.25)
    ax.tick_params(axis="y", length=0)
