"""What causes differences of a study, as far as runs with one thing changed tell."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

from tabulate import tabulate

from analysis.data.runs import Loaded
from analysis.figures.ablation import sheet
from analysis.figures.sheet import Sheet
from analysis.report.markdown import plain
from analysis.report.statements import p_text, recipe_words
from analysis.stats.paired import Paired
from analysis.stats.ratio import Ratio
from analysis.tables.ablation import rows
from analysis.tables.verdicts import Row
from analysis.verdicts.ablation import CHANGES, JOINT, Ablation, Effect, ablations
from analysis.verdicts.options import Options
from analysis.words import label, number

HEADING = "What causes differences, as far as ablations tell"
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


def causes(source: str, loaded: Loaded, options: Options) -> Causes:
    """What a file of packed runs tells of changes.

    Args:
        source: The file, as seen from where the command runs.
        loaded: Its runs.
        options: Level, margin and ranges.
    """
    does = {
        name: " ".join(str(told["does"]).split())
        for run in loaded.runs
        if run.record
        for name, told in json.loads(run.record).get("interventions", {}).items()
    }
    return Causes(source, ablations(loaded, options), does)


def table(found: Sequence[Causes]) -> list[Row]:
    """A row for each change and other framework."""
    return [row for one in found for item in one.items for row in rows(item)]


def blocks(one: Causes, pictures: Sequence[str]) -> list[str]:
    """The section of one file in Markdown.

    Args:
        one: The file.
        pictures: Figure of each setting, in Markdown.
    """
    text = []
    for item, picture in zip(one.items, pictures, strict=True):
        text += [f"### {_place(item)}", *_gaps(item), _changes(item, one.does), _effects(item)]
        text.append(picture)
    return [*text, f"From `{one.source}`; `parallax ablation {one.source}` tells the same."]


def decided_changes(found: Sequence[Causes]) -> str:
    """Changes that are decided, the largest share of a gap first; empty where there are none."""
    decided = [
        (item, effect, one.does)
        for one in found
        for item in one.items
        for effect in item.effects
        if effect.verdict == CHANGES
    ]
    if not decided:
        return ""
    told = [
        f"- {_place(item)}: {_size(effect.result)}{_of_gaps(effect)}, n = {effect.result.n} pairs, "
        f"with {_told(effect, does)}"
        for item, effect, does in sorted(decided, key=lambda found: -_largest(found[1]))
    ]
    return "\n".join(["What causes some of the differences, by ablation:", "", *told])


def _place(item: Ablation) -> str:
    cell = item.cell
    return (
        f"{label(item.framework)}'s {label(cell.algorithm)} on {cell.env} under "
        f"{recipe_words(cell.hps)}"
    )


def _gaps(item: Ablation) -> list[str]:
    told = [
        f"{label(gap.other)} as it is lies {_size(gap.result)} from it (n = {gap.result.n} pairs)"
        for gap in item.gaps
    ]
    return [f"{'; '.join(told)}. {plain(item.cell.variant)}."] if told else []


def _changes(item: Ablation, does: Mapping[str, str]) -> str:
    names = {part for effect in item.effects for part in effect.name.split(JOINT)}
    return "\n".join(f"- `{name}`: {plain(does[name])}" for name in sorted(names & does.keys()))


def _effects(item: Ablation) -> str:
    others = [gap.other for gap in item.gaps]
    lines = [
        [
            _name(effect),
            _size(effect.result),
            *(_share(effect.shares.get(other)) for other in others),
            p_text(effect.p_holm).removeprefix("p = ").removeprefix("p "),
            effect.verdict,
            f"{effect.result.n} of {effect.changed.requested}",
        ]
        for effect in item.effects
    ]
    heads = ["change", "effect on the final return"]
    heads += [f"share of the gap to {label(other)}" for other in others]
    heads += ["corrected p", "verdict", "pairs"]
    return tabulate(lines, heads, tablefmt="pipe", disable_numparse=True)


def _name(effect: Effect) -> str:
    parts = effect.name.split(JOINT)
    together = ", together" if len(parts) > 1 else ""
    return ", ".join(f"`{part}`" for part in parts) + together


def _told(effect: Effect, does: Mapping[str, str]) -> str:
    parts = effect.name.split(JOINT)
    return " ".join(f"`{part}`: {plain(does[part])}" for part in parts if part in does)


def _size(result: Paired) -> str:
    sign = "+" if result.difference > 0 else ""
    ends = f" \\[{number(result.low)}, {number(result.high)}]" if result.n > 1 else ""
    return f"{sign}{number(result.difference)}{ends}"


def _share(share: Ratio | None) -> str:
    if share is None or not share.is_bounded:
        return "cannot be told"
    return f"{share.share:.0%} \\[{share.low:.0%}, {share.high:.0%}]"


def _of_gaps(effect: Effect) -> str:
    told = [
        f"{_share(share)} of the gap to {label(other)}"
        for other, share in effect.shares.items()
        if share.is_bounded
    ]
    return "".join(f", {text}" for text in told)


def _largest(effect: Effect) -> float:
    return max((share.share for share in effect.shares.values() if share.is_bounded), default=0.0)
