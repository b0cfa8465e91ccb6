"""What causes differences of a study, as far as runs with one thing changed tell."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

from tabulate import tabulate

from analysis.data.runs import Loaded
from analysis.figures.ablation import sheet
from analysis.figures.sheet import Sheet
from analysis.report.statements import p_text, recipe_words
from analysis.stats.paired import Paired
from analysis.stats.ratio import Ratio
from analysis.tables.ablation import rows
from analysis.tables.verdicts import Row
from analysis.verdicts.ablation import CHANGES, JOINT, Ablation, Effect, ablations
from analysis.verdicts.options import Options
from analysis.words import label, number, plain

HEADING = "What causes differences, as far as ablations tell"
BY_ABLATION = "What causes some of the differences, by ablation"
TERMS = (
    "One thing is changed in a framework and nothing else, and runs of equal seeds with and "
    "without the change are compared, by Student's paired test with Holm's correction over the "
    "changes of a framework's algorithm. Shares of a gap have Fieller's interval. Which changes "
    "were tried was chosen by hand, from what probes and hyperparameters differ in, after runs of "
    "the study had been seen, which may be among those compared here; nothing says that no other "
    "difference matters."
)


@dataclasses.dataclass(frozen=True, eq=False)
class Causes:
    """One file of runs with and without changes.

    Attributes:
        source: The file, as seen from where the command runs.
        items: What the changes do in each setting.
        does: What each change is, by its name.
    """

    source: str
    items: tuple[Ablation, ...]
    does: Mapping[str, str]

    @property
    def sheets(self) -> tuple[Sheet, ...]:
        """A figure for each setting."""
        return tuple(map(sheet, self.items))


@dataclasses.dataclass(frozen=True)
class Told:
    """What a page tells of changes in one setting; names of changes stand between backticks.

    Attributes:
        heading: Framework, algorithm, task and recipe.
        gaps: How far other frameworks lie from it; empty where there are none.
        changes: Name of each change, and what it is.
        heads: Heads of the table.
        rows: A row for each change, and for each set of them made together.
    """

    heading: str
    gaps: str
    changes: tuple[tuple[str, str], ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def causes(source: str, loaded: Loaded, options: Options) -> Causes:
    """What a file of packed runs tells of changes.

    Args:
        source: The file, as seen from where the command runs.
        loaded: Its runs.
        options: Level, margin and ranges.
    """
    does = {
        name: " ".join(str(change["does"]).split())
        for run in loaded.runs
        if run.record
        for name, change in json.loads(run.record).get("interventions", {}).items()
    }
    return Causes(source, ablations(loaded, options), does)


def table(found: Sequence[Causes]) -> list[Row]:
    """A row for each change and other framework."""
    return [row for one in found for item in one.items for row in rows(item)]


def told(one: Causes) -> tuple[Told, ...]:
    """What a page tells of a file, setting by setting."""
    return tuple(_told_of(item, one.does) for item in one.items)


def blocks(one: Causes, pictures: Sequence[str]) -> list[str]:
    """The section of one file in Markdown.

    Args:
        one: The file.
        pictures: Figure of each setting, in Markdown.
    """
    text = []
    for item, picture in zip(told(one), pictures, strict=True):
        changes = "\n".join(f"- `{name}`: {plain(does)}" for name, does in item.changes)
        rows = [[_escaped(value) for value in row] for row in item.rows]
        table_text = tabulate(rows, item.heads, tablefmt="pipe", disable_numparse=True)
        text += [f"### {item.heading}", plain(item.gaps), changes, table_text, picture]
    return [*text, f"From `{one.source}`; `parallax ablation {one.source}` tells the same."]


def decided_changes(found: Sequence[Causes]) -> tuple[str, ...]:
    """Changes that are decided, the largest share of a gap first; names between backticks."""
    decided = [
        (item, effect, one.does)
        for one in found
        for item in one.items
        for effect in item.effects
        if effect.verdict == CHANGES
    ]
    return tuple(
        f"{_place(item)}: {_size(effect.result)}{_of_gaps(effect)}, "
        f"n = {effect.result.n} pairs, with {_parts(effect, does)}"
        for item, effect, does in sorted(decided, key=lambda found: -_largest(found[1]))
    )


def decided_block(found: Sequence[Causes]) -> str:
    """The same as a list in Markdown; empty where there are none."""
    lines = [f"- {_escaped(text)}" for text in decided_changes(found)]
    return "\n".join([f"{BY_ABLATION}:", "", *lines]) if lines else ""


def _place(item: Ablation) -> str:
    cell = item.cell
    return (
        f"{label(item.framework)}'s {label(cell.algorithm)} on {cell.env} under "
        f"{recipe_words(cell.hps)}"
    )


def _told_of(item: Ablation, does: Mapping[str, str]) -> Told:
    gaps = [
        f"{label(gap.other)} as it is lies {_size(gap.result)} from it (n = {gap.result.n} pairs)"
        for gap in item.gaps
    ]
    others = [gap.other for gap in item.gaps]
    names = {part for effect in item.effects for part in effect.name.split(JOINT)}
    return Told(
        _place(item),
        f"{'; '.join(gaps)}. {item.cell.variant}." if gaps else "",
        tuple((name, does[name]) for name in sorted(names & does.keys())),
        (
            *("change", "effect on the final return"),
            *(f"share of the gap to {label(other)}" for other in others),
            *("corrected p", "verdict", "pairs"),
        ),
        tuple(_row(effect, others) for effect in item.effects),
    )


def _row(effect: Effect, others: Sequence[str]) -> tuple[str, ...]:
    return (
        *(_name(effect), _size(effect.result)),
        *(_share(effect.shares.get(other)) for other in others),
        p_text(effect.p_holm).removeprefix("p = ").removeprefix("p "),
        effect.verdict,
        f"{effect.result.n} of {effect.changed.requested}",
    )


def _escaped(text: str) -> str:
    """Text for Markdown, in which only what stands between backticks is a mark."""
    parts = text.split("`")
    return "`".join(part if i % 2 else plain(part) for i, part in enumerate(parts))


def _name(effect: Effect) -> str:
    parts = effect.name.split(JOINT)
    together = ", together" if len(parts) > 1 else ""
    return ", ".join(f"`{part}`" for part in parts) + together


def _parts(effect: Effect, does: Mapping[str, str]) -> str:
    parts = effect.name.split(JOINT)
    return " ".join(f"`{part}`: {does[part]}" for part in parts if part in does)


def _size(result: Paired) -> str:
    sign = "+" if result.difference > 0 else ""
    ends = f" [{number(result.low)}, {number(result.high)}]" if result.n > 1 else ""
    return f"{sign}{number(result.difference)}{ends}"


def _share(share: Ratio | None) -> str:
    if share is None or not share.is_bounded:
        return "cannot be told"
    return f"{share.share:.0%} [{share.low:.0%}, {share.high:.0%}]"


def _of_gaps(effect: Effect) -> str:
    shares = [
        f"{_share(share)} of the gap to {label(other)}"
        for other, share in effect.shares.items()
        if share.is_bounded
    ]
    return "".join(f", {text}" for text in shares)


def _largest(effect: Effect) -> float:
    return max((share.share for share in effect.shares.values() if share.is_bounded), default=0.0)
