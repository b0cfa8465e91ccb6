"""What causes differences of a study, as far as runs with one thing changed tell."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

import numpy as np
from tabulate import tabulate

from analysis.data.bounds import known_bounds
from analysis.data.runs import Cell, Loaded, Run
from analysis.figures.ablation import sheet
from analysis.figures.sheet import Sheet
from analysis.report.decided import place
from analysis.report.statements import p_text, plural
from analysis.stats.paired import Paired
from analysis.stats.ratio import Ratio
from analysis.verdicts.ablation import (
    CHANGES,
    JOINT,
    NO_EFFECT,
    UNDECIDED,
    Ablation,
    Effect,
    Gap,
    ablations,
)
from analysis.verdicts.groups import Group
from analysis.verdicts.options import Options
from analysis.words import label, number, plain

HEADING = "What causes differences, as far as ablations tell"
ANCHOR = HEADING.lower().replace(",", "").replace(" ", "-")
BY_ABLATION = "What causes some of the differences, by ablation"
TERMS = (
    "A framework is changed in what is named and in nothing else, and runs of equal seeds with and "
    "without the change are compared by Student's paired test, with Holm's correction over the "
    "changes of a framework's algorithm in one file. *No effect* is equivalent within the margin. "
    "Shares of a gap have Fieller's interval. Beside it stands the p-value by sign flips, which "
    "assumes no normal distribution and is corrected too; no verdict hangs on it. Several changes "
    "made together are one: it does not tell what each contributes. Which were tried is a choice "
    "that nothing here corrects for: where it was made after runs of the study had been seen, and "
    "these are among the runs compared, effects come out too large on average. No more is said of "
    "differences that nobody tried."
)


Theirs = Mapping[tuple[str, str, str, str, str, int | None], Run]


@dataclasses.dataclass(frozen=True)
class Change:
    """One change, or several made together, as a page tells it.

    Attributes:
        parts: Name of each change, and what it is; that is empty where no record tells.
        effect: On the final return, with its interval.
        shares: Of the gap to each other framework, with intervals.
        p: Corrected p-value, and that by sign flips, corrected too.
        verdict: Its verdict in words.
        runs: Runs with it that were requested, completed and used, and pairs of seeds.
        added_up: What the parts do one by one, added up; empty where that is not known.
        alone: Of several, whether one does it alone, in words; empty where that is not known.
    """

    parts: tuple[tuple[str, str], ...]
    effect: str
    shares: tuple[str, ...]
    p: tuple[str, str]
    verdict: str
    runs: str
    added_up: str
    alone: str


@dataclasses.dataclass(frozen=True, eq=False)
class Causes:
    """What changes of one framework did in one setting.

    Attributes:
        source: The file, as seen from where the command runs.
        item: The verdicts.
        where: Framework, algorithm, task, recipe and steps.
        in_study: Whether the study has the setting.
        base: Runs of the framework as it is, and of others; how many of them the study has.
        changes: A row for each change.
    """

    source: str
    item: Ablation
    where: str
    in_study: bool
    base: str
    changes: tuple[Change, ...]

    @property
    def sheet(self) -> Sheet:
        """The figure of the setting."""
        return sheet(self.item)

    @property
    def key(self) -> tuple[str, ...]:
        """The setting and the framework, whatever the study was called."""
        return (*_setting(self.item.cell), self.item.framework)

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the table."""
        others = (f"share of the gap to {label(gap.other)}" for gap in self.item.gaps)
        first = ("change", "effect on the final return", *others)
        return (*first, "corrected p", "by sign flips", "verdict", "runs")

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """What each change is, by its name."""
        return tuple(sorted({part for change in self.changes for part in change.parts}))


def causes(source: str, loaded: Loaded, options: Options, study: Loaded) -> tuple[Causes, ...]:
    """What a file of packed runs tells of changes, setting by setting.

    Args:
        source: The file, as seen from where the command runs.
        loaded: Its runs.
        options: Level, margin and ranges.
        study: The runs whose differences are to be explained.
    """
    found = ablations(loaded, options)
    cells = [item.cell for item in found]
    theirs = {(*_setting(run.id.cell), run.id.framework, run.id.seed): run for run in study.runs}
    return tuple(
        Causes(
            source,
            item,
            f"{label(item.framework)}'s {place(item.cell, [item.effects[0].plain], cells)}",
            any(key[:4] == _setting(item.cell) for key in theirs),
            _base(item, theirs),
            tuple(_change(effect, item) for effect in item.effects),
        )
        for item in found
    )


def _setting(cell: Cell) -> tuple[str, str, str, str]:
    return cell.env, cell.algorithm, cell.hps, cell.variant


def _base(item: Ablation, theirs: Theirs) -> str:
    own = item.effects[0].plain
    sizes = f"{own.requested}/{own.completed}/{own.n}"
    told = [
        f"As it is: {number(float(own.moments.mean))}, {sizes} runs requested/completed/used"
        f"{_same(own, theirs)}{_at_most(own)}."
    ]
    told += [
        f"{label(gap.other)} as it is lies {_size(gap.result)} from it, "
        f"n = {plural(gap.result.n, 'pair')}{_same(gap.group, theirs)}{_at_most(gap.group)}."
        for gap in item.gaps
    ]
    tests = item.effects[0].family_size
    return " ".join([*told, f"Tests corrected together: {tests}. {item.cell.variant}."])


def _same(group: Group, theirs: Theirs) -> str:
    """How many runs are those of the study, to the last bit of their evaluations."""
    count = sum(
        (other := theirs.get((*_setting(run.id.cell), run.id.framework, run.id.seed))) is not None
        and np.array_equal(other.results, run.results)
        for run in group.runs
    )
    return f", {count} of them in the study too" if count else ""


def _at_most(group: Group) -> str:
    """How many runs end at the most that the task allows, where some do."""
    most = known_bounds(group.cell.env)[1]
    count = sum(run.final_score == most for run in group.runs)
    return f", {count} at {number(most)}, the most that the task allows" if count else ""


def _change(effect: Effect, item: Ablation) -> Change:
    names = effect.name.split(JOINT)
    total = item.sum_of(effect) if len(names) > 1 else None
    return Change(
        tuple((name, _does(name, effect)) for name in names),
        _size(effect.result),
        tuple(_share(effect.shares.get(gap.other), effect) for gap in item.gaps),
        (_p(effect.p_holm), _p(effect.p_flips_holm)),
        _verdict(effect),
        f"{effect.changed.requested}/{effect.changed.completed}/{effect.changed.n}, "
        f"{plural(effect.result.n, 'pair')}{_at_most(effect.changed)}",
        "" if total is None else f"{total:+.4g}",
        _alone(names, item) if len(names) > 1 else "",
    )


def _alone(names: Sequence[str], item: Ablation) -> str:
    known = {single.name: single.verdict for single in item.singles}
    if not all(name in known for name in names):
        return ""
    decided = sum(known[name] == CHANGES for name in names)
    return f", of which {decided or 'none'} {'is' if decided < 2 else 'are'} decided alone"


def _does(name: str, effect: Effect) -> str:
    """What a change is, by the record of the first run with it; empty where none tells."""
    for run in effect.changed.runs:
        told = json.loads(run.record or "{}").get("interventions", {}).get(name)
        if told:
            return " ".join(str(told["does"]).split())
    return ""


def _verdict(effect: Effect) -> str:
    if effect.result.low == effect.result.high == 0:
        return "never came to bear"
    margin, far = effect.pair.margin.size, max(abs(effect.result.low), abs(effect.result.high))
    if effect.verdict == NO_EFFECT:
        return f"{NO_EFFECT} beyond {number(margin)}"
    if effect.verdict == CHANGES and far < margin:
        return f"{CHANGES}, by less than the margin of {number(margin)}"
    if effect.verdict == UNDECIDED and effect.pair.alike_so_far:
        return f"{UNDECIDED}; no effect beyond {number(margin)} but for runs not seen"
    return effect.verdict


def _p(value: float) -> str:
    return p_text(value).removeprefix("p = ").removeprefix("p ")


def _size(result: Paired) -> str:
    sign = "+" if result.difference > 0 else ""
    ends = f" [{number(result.low)}, {number(result.high)}]" if result.n > 1 else ""
    return f"{sign}{number(result.difference)}{ends}"


def _share(share: Ratio | None, effect: Effect) -> str:
    if share is None or not share.is_bounded:
        return "cannot be told"
    fewer = f", {plural(share.n, 'pair')}" if share.n != effect.result.n else ""
    return f"{share.share:.0%} [{share.low:.0%}, {share.high:.0%}]{fewer}"


def explaining(found: Sequence[Causes]) -> tuple[tuple[str, Change], ...]:
    """Changes that explain a part of a gap in the study, gaps with the largest share first.

    That is, their effect is decided and the whole interval of its share is above 0. Of each gap
    that one which explains most, and of changes of one thing that which explains most.

    Args:
        found: All settings.

    Returns:
        What each does in words, and the change.
    """
    best = [
        [
            (effect.shares[gap.other].share, _sentence(one.where, effect, gap, change), change)
            for effect, change in _most(one, gap)
        ]
        for one in found
        if one.in_study
        for gap in one.item.gaps
    ]
    of_gaps = sorted(filter(None, best), key=lambda of: -max(share for share, _, _ in of))
    return tuple((words, change) for of in of_gaps for _, words, change in of)


def _most(one: Causes, gap: Gap) -> list[tuple[Effect, Change]]:
    own = [
        (share.share, effect, change)
        for effect, change in zip(one.item.effects, one.changes, strict=True)
        if effect.verdict == CHANGES
        and (share := effect.shares.get(gap.other)) is not None
        and share.is_bounded
        and share.low > 0
    ]
    singles = [found for found in own if len(found[2].parts) == 1]
    picked = [max(group, key=lambda found: found[0]) for group in (own, singles) if group]
    return [(effect, change) for _, effect, change in dict.fromkeys(picked)]


def _sentence(where: str, effect: Effect, gap: Gap, change: Change) -> str:
    share = _share(effect.shares[gap.other], effect)
    return (
        f"{where}: final return {change.effect}, which is {share} of the gap to "
        f"{label(gap.other)} of {_size(gap.result)}, n = {plural(effect.result.n, 'pair')}, "
        f"corrected {p_text(effect.p_holm)} ({_p(effect.p_flips_holm)} by sign flips), with"
    )


def explained(found: Sequence[Causes], page: str = "") -> str:
    """These changes as a list in Markdown; empty where there are none.

    Args:
        found: All settings.
        page: Address of the page that has the section; empty on the page itself.
    """
    lines = [
        f"- {plain(words)} {_together(change)}{change.alone}. {_told(change.parts)}".rstrip()
        for words, change in explaining(found)
    ]
    head = f"{BY_ABLATION} ([how, with which runs, and what was tried in vain]({page}#{ANCHOR})):"
    return "\n".join([head, "", *lines]) if lines else ""


def _together(change: Change) -> str:
    """Names of changes, such as `a`, `b` and `c` together."""
    *others, last = (f"`{name}`" for name, _ in change.parts)
    return f"{', '.join(others)} and {last} together" if others else last


def _told(parts: Sequence[tuple[str, str]]) -> str:
    """What one or two changes are; more are left to the section."""
    if len(parts) > 2:
        return ""
    lead = len(parts) > 1
    return " ".join((f"`{name}`: " if lead else "") + plain(does) for name, does in parts if does)


def blocks(one: Causes, picture: Sequence[str]) -> list[str]:
    """The section of one setting in Markdown.

    Args:
        one: The setting.
        picture: Its figure and caption, in Markdown.
    """
    told = "\n".join(f"- `{name}`: {plain(does)}" for name, does in one.texts if does)
    rows = [[_names(change), *map(plain, values(change))] for change in one.changes]
    table = tabulate(rows, one.heads, tablefmt="pipe", disable_numparse=True)
    strange = "" if one.in_study else "The study has no runs in this setting."
    source = f"From `{one.source}`, which `parallax ablation` reads too."
    return [f"### {one.where}", strange, plain(one.base), told, table, *picture, source]


def values(change: Change) -> tuple[str, ...]:
    """A row of the table, without the names."""
    return (change.effect, *change.shares, *change.p, change.verdict, change.runs)


def _names(change: Change) -> str:
    names = ", ".join(f"`{name}`" for name, _ in change.parts)
    return names + after_names(change)


def after_names(change: Change) -> str:
    """What stands behind the names of changes that were made together."""
    if len(change.parts) == 1:
        return ""
    return ", together" + (
        f" (one by one they add up to {change.added_up})" if change.added_up else ""
    )
