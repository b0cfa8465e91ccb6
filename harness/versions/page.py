"""The page of all stored histories: changed answers by release, and lifetimes of bugs."""

import dataclasses
import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import VersionRange
from parallax.harness.record.labels import FRAMEWORK_LABELS
from parallax.harness.versions.figures import BugLifetime, draw_history, list_bug_lifetimes
from parallax.harness.versions.history import (
    AnswerChange,
    ControlPair,
    ReleaseHistory,
    list_answer_changes,
    list_change_causes,
    list_control_pairs,
    list_failures,
    load_history,
    load_release_dates,
    sort_versions,
)

LIBRARY_NAMES = {**FRAMEWORK_LABELS, "sb3": "Stable-Baselines3"}
PAGE_FILE = "README.md"
TRAININGS_FILE = "trainings.parquet"
"""Packed runs with and without bugs, in the folder of the histories."""
COMMANDS_FILE = "trainings.sh"
"""The commands of these runs."""
MAX_CELL_CHARACTERS = 220
_INTRODUCTION = """\
# A history of PPO, SAC, TD3 and DQN in six libraries

> Written by `parallax versions --page docs/history` from the stored answers in this folder.

A [probe](../explanation/probes.md) asks one question about an algorithm's update or its data, such
as the target at a time limit. Its *answer* is what a release computes there.
"""
_LEGEND = """\
In each figure, the upper rows are questions: one row per question whose answer changed, and one row
for the other questions of each algorithm. Grey is the answer of the first release; other colours
are other answers. A bar marks the release in which the answer changed; hatched releases were not
measured. The lower rows are bugs, from the release that introduced a bug to the release that fixed
it. A dotted line begins at a release that has the bug but may not be the first one with it.
"""
_METHOD = """\
## How it was measured
Each release is installed without its dependencies into a separate folder, with the current versions
of PyTorch, NumPy and Gymnasium. If a release cannot run with them, it gets the versions that it
needs: Stable-Baselines3 before 2.4 gets Gymnasium 0.29.1, and TorchRL the tensordict of its time.
So a difference between two releases comes from the library, not from PyTorch. How an old release
behaved with the PyTorch of its time is not measured. In sbx 0.13 and 0.15, PPO's bootstrap at time
limits fails with the current NumPy, which accepts no array as a number. Releases have their own
defaults unless a probe sets a value. Some were measured only on the update and the data.

An answer *changed* if its relation to the paper changed, or its numbers changed by more than 0.1%.
Answers that follow the paper before and after, but with other numbers, are listed separately and
not counted. One change of the code may change several answers.

As a control, successive releases with the same update code are compared. Update code means the
modules of the algorithm, its policy and its loss, without comments, types, imports and command
lines. Between such releases only defaults and the behaviour of other modules should change.

A bug was *introduced* in the first release that has its line, and *fixed* in the first one without
it, by the tags of the repository. Releases before the first one on the package index do not count.
Dates are those of the tags, or of the files in the wheel.
"""


@dataclasses.dataclass(frozen=True)
class LibraryHistory:
    """Data of the page about one library.

    Attributes:
        history: Its stored answers; None if there are none.
        supported: Releases that its adapter supports; None if it states none.
    """

    name: str
    framework: str
    history: ReleaseHistory | None
    dates: Mapping[str, date]
    bugs: Sequence[BugLifetime]
    supported: VersionRange | None

    @property
    def versions(self) -> list[str]:
        """Releases of the history, oldest first."""
        return sort_versions(list(self.history.releases)) if self.history else []

    def list_changes(self, follows_paper: bool = False) -> list[AnswerChange]:
        """Return the answers that changed and follow the paper before and after, or all others."""
        if self.history is None:
            return []
        changes = list_answer_changes(self.history, self.versions)
        return [change for change in changes if change.follows_paper == follows_paper]

    @property
    def measured(self) -> list[str]:
        """Releases with answers."""
        return [v for v in self.versions if self.history and v in self.history.report.versions]

    @property
    def control_pairs(self) -> Sequence[ControlPair]:
        """Consecutive releases with the same update code of an algorithm."""
        return list_control_pairs(self.history, self.versions) if self.history else []

    @property
    def has_figure(self) -> bool:
        """Return whether there are releases to compare."""
        return len(self.measured) > 1


@dataclasses.dataclass(frozen=True)
class BugEffect:
    """Effect of one bug on trainings, over pairs of equal seeds.

    Attributes:
        bug: Name of the bug's entry, without `bug.`.
        setting: Task and number of steps.
        without: Mean score without the bug.
        difference: Mean score with the bug minus without.
        p: p-value of the paired t test, corrected by Holm's method.
    """

    framework: str
    algorithm: str
    bug: str
    setting: str
    pairs: int
    without: float
    difference: float
    low: float
    high: float
    p: float
    verdict: str


def render_files(
    folder: Path, effects: Sequence[BugEffect] = (), commands: str = ""
) -> dict[Path, str]:
    """Return the page and a figure per library with at least two releases, by their paths.

    Args:
        folder: The histories.
        effects: Effects of bugs on trainings.
        commands: Commands of these trainings.

    Raises:
        SpecError: The folder holds no history.
    """
    libraries = [load_library(name, folder) for name in sorted(find_adapter_entry_points())]
    drawn = [library for library in libraries if library.has_figure]
    if not drawn:
        raise SpecError(f"{folder} holds no FRAMEWORK.json with at least two releases.")
    today = max(max(library.dates.values()) for library in libraries if library.dates)
    texts = {folder / PAGE_FILE: render_page(libraries, today, effects, commands)}
    for library in drawn:
        assert library.history is not None
        path = folder / f"{library.framework}.svg"
        texts[path] = draw_history(library.history, library.dates, library.bugs, today)
    return texts


def load_library(framework: str, folder: Path) -> LibraryHistory:
    """Load the stored history of a framework, the dates of its releases and its bugs."""
    adapter, path = load_adapter(framework), folder / f"{framework}.json"
    dates = load_release_dates(adapter)
    return LibraryHistory(
        LIBRARY_NAMES.get(framework, framework),
        framework,
        load_history(framework, path) if path.is_file() else None,
        dates,
        list_bug_lifetimes(adapter, dates),
        adapter.supported_versions,
    )


def render_page(
    libraries: Sequence[LibraryHistory],
    today: date,
    effects: Sequence[BugEffect] = (),
    commands: str = "",
) -> str:
    """Return the page as Markdown."""
    parts = [_INTRODUCTION, *_list_headlines(libraries, today), "", *_render_overview(libraries)]
    parts += ["", _LEGEND.rstrip()]
    for library in libraries:
        if library.has_figure:
            parts += ["", *_render_library(library)]
    parts += ["", *_render_bugs(libraries, today), ""]
    if effects:
        parts += [*_render_effects(libraries, effects, commands), ""]
    parts.append(_METHOD)
    return "\n".join(parts)


def _list_headlines(libraries: Sequence[LibraryHistory], today: date) -> list[str]:
    releases = sum(len(library.measured) for library in libraries if library.has_figure)
    changes = sum(len(library.list_changes()) for library in libraries)
    pairs = [pair for library in libraries for pair in library.control_pairs]
    compared = sum(pair.compared for pair in pairs)
    wrong = sum(len(pair.changed) for pair in pairs)
    lifetimes = [bug.count_months(today) for library in libraries for bug in library.bugs]
    months = [found for found in lifetimes if found is not None]
    lines = [
        f"**{changes} answers changed from one release to the next, in {releases} releases.** "
        f"In {len(pairs)} pairs of releases with the same update code of an algorithm, {wrong} of "
        f"{compared:,} answers changed."
    ]
    if months:
        lines.append(
            f"Of {len(months)} bugs whose dates are known, half stayed longer than "
            f"{statistics.median(months):.0f} months."
        )
    return lines


def _render_overview(libraries: Sequence[LibraryHistory]) -> list[str]:
    lines = [
        "| library | releases | from, to | answers per release | changed | pairs with the same "
        "update code | changed there | CPU time per release |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for library in libraries:
        history, versions, pairs = library.history, library.versions, library.control_pairs
        if history is None or not versions:
            lines.append(f"| {library.name} | none | | | | | | |")
            continue
        seconds = [history.releases[v].cpu_seconds for v in library.measured]
        recorded = [number for number in seconds if number]
        counts = [
            sum(v in r.answers and not r.answers[v].unmeasured for r in history.report.results)
            for v in library.measured
        ]
        lines.append(
            f"| {library.name} | {len(library.measured)} | {versions[0]}, {versions[-1]} | "
            f"{max(counts, default=0)} | {len(library.list_changes())} | {len(pairs)} | "
            f"{sum(len(pair.changed) for pair in pairs)} | "
            f"{f'{statistics.mean(recorded):.0f} s' if recorded else 'not recorded'} |"
        )
    return [*lines, *_list_refused_releases(libraries)]


def _list_refused_releases(libraries: Sequence[LibraryHistory]) -> list[str]:
    known = [(library.name, library.supported) for library in libraries if library.supported]
    lines = [f"- {name}: `{it}` is supported. {it.why_not_older}".rstrip() for name, it in known]
    return ["", "Other releases are refused before anything is installed:", "", *lines]


def _render_library(library: LibraryHistory) -> list[str]:
    history, versions = library.history, library.versions
    assert history is not None
    lines = [
        f"## {library.name}",
        f"![Answers of {library.name}'s releases over time]({library.framework}.svg)",
        "",
    ]
    changes = library.list_changes()
    if changes:
        lines += ["| release | date | question | change |", "|---|---|---|---|"]
        lines += [
            f"| {c.before} -> {c.after} | {library.dates.get(c.after, '')} | `{c.probe}` | "
            f"{_format_cell(c.text)} |"
            for c in changes
        ]
    else:
        lines.append("No answer changed.")
    following = library.list_changes(follows_paper=True)
    if following:
        names = ", ".join(f"`{c.probe}` ({c.after})" for c in following)
        lines += [
            "",
            "As in the paper before and after, but with other numbers, since another answer or the "
            f"data changed: {names}.",
        ]
    causes = list_change_causes(load_adapter(library.framework), changes + following)
    lines += ["", "Causes:", "", *(f"- {cause}" for cause in causes)] if causes else []
    failures = [(v, why) for v in versions for why in list_failures(history, v)]
    if failures:
        lines += ["", "| release | could not be measured |", "|---|---|"]
        lines += [f"| {version} | {_format_cell(why)} |" for version, why in failures]
    return lines


def _render_bugs(libraries: Sequence[LibraryHistory], today: date) -> list[str]:
    lines = [
        "## Bugs, and how long they stayed",
        "| library | algorithms | what the code did | introduced | fixed | months |",
        "|---|---|---|---|---|---|",
    ]
    for library in libraries:
        for bug in library.bugs:
            release, months = bug.release, bug.count_months(today)
            since = f"{release.first_bad} ({bug.introduced})" if bug.introduced else "not known"
            good = f"{release.first_good} ({bug.fixed or 'no date'})"
            until = good if release.first_good else "open"
            over = "" if release.first_good else "over "
            stayed = "" if months is None else f"{over}{months:.0f}"
            lines.append(
                f"| {library.name} | {', '.join(bug.algorithms)} | {_format_cell(bug.does)} | "
                f"{since} | {until} | {stayed} |"
            )
    lines += ["", "[Released bugs](../reference/released-bugs.md) shows which probes detect them."]
    return lines


def _render_effects(
    libraries: Sequence[LibraryHistory], effects: Sequence[BugEffect], commands: str
) -> list[str]:
    names = {library.framework: library.name for library in libraries}
    does = {(lib.framework, bug.name): bug.does for lib in libraries for bug in lib.bugs}
    lines = [
        "## Does a bug change training?",
        "The old expression was put into the installed release, and the same seeds were trained "
        "with and without it. The score is the return averaged over training (area under the "
        f"learning curve per step). Runs: [{TRAININGS_FILE}]({TRAININGS_FILE}).",
        "",
        "| library | bug | task | pairs | score without | effect of the bug [95%] | p | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for effect in effects:
        text = does.get((effect.framework, effect.bug), effect.bug)
        name = names.get(effect.framework, effect.framework)
        lines.append(
            f"| {_format_cell(name)} | {_format_cell(text)} (`bug.{_format_cell(effect.bug)}`, "
            f"{_format_cell(effect.algorithm.upper())}) | {_format_cell(effect.setting)} | "
            f"{effect.pairs} | {effect.without:.0f} | {effect.difference:+.0f} "
            f"\\[{effect.low:+.0f}, {effect.high:+.0f}] | {effect.p:.2g} | {effect.verdict} |"
        )
    return [
        *lines,
        "",
        "Intervals are Student's intervals of the paired differences. p is that of the paired t "
        "test, corrected by Holm's method over the bugs of one library's algorithm. So few seeds "
        "show only large effects: *inconclusive* does not mean that a bug does no harm. The tasks "
        "are small and the trainings short, so the results do not extend to other tasks. Bug and "
        "task were chosen before any run had ended, and the length from runs without the bug. Only "
        "seeds that had finished with and without the bug are counted.",
        "",
        "```sh",
        commands.rstrip(),
        "```",
    ]


def _format_cell(text: str) -> str:
    # A long text ends with its last whole part.
    cut = re.sub(r"\s*[;,(][^;,(]*$", "", text[:MAX_CELL_CHARACTERS])
    short = text if len(text) <= MAX_CELL_CHARACTERS else f"{cut}; and more"
    return short.replace("|", "\\|").replace("[", "\\[").replace("*", "\\*").replace("<", "&lt;")
