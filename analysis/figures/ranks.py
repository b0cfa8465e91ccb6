"""Ranks of the algorithms in each framework, and the verdict on them."""

import dataclasses
import functools

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.panels import Margins, legend, panel_grid, patch_legend, row_label
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import (
    PAGE,
    SMALL,
    VERDICT_COLORS,
    Look,
    algorithm_looks,
    paper_settings,
)
from analysis.verdicts.ranking import WORST_FIRST, RankingVerdict
from analysis.verdicts.study import Material
from analysis.words import file_name, label, recipe_label, recipes, span, task_lines

_LEVEL = 3  # names of frameworks that fit side by side below a panel


@dataclasses.dataclass(frozen=True)
class RankPanel:
    """One task under one configuration.

    Attributes:
        verdict: On all frameworks.
        same_order: Bootstrap probability of the same order in all of them.
        chance: The same if all algorithms tied.
        frameworks: Their names.
        ranks: Per algorithm its rank in each framework.
    """

    verdict: str
    same_order: float
    chance: float
    frameworks: tuple[str, ...]
    ranks: tuple[tuple[str, tuple[float, ...]], ...]


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per study and variant."""
    found: dict[tuple[str, str], list[RankingVerdict]] = {}
    for item in material.verdicts.rankings:
        found.setdefault((item.study, item.variant), []).append(item)
    reason = "no two frameworks ran the same two algorithms in the same setting"
    return [_sheet(material, key, found[key]) for key in sorted(found)] or [
        NotDrawn("ranks", reason)
    ]


def _sheet(material: Material, key: tuple[str, str], items: list[RankingVerdict]) -> Sheet:
    rows = tuple(sorted({item.env for item in items}))
    columns = recipes(item.hps for item in items)
    known = {(item.env, item.hps): _panel(item) for item in items}
    panels = tuple(tuple(known.get((env, hps)) for hps in columns) for env in rows)
    sizes = {group.n for i in items for ranked in i.rankings for group in ranked.groups}
    title = "Ranks of the algorithms"
    caption = (
        f"{title} ({material.context(*key)}): 1 is best; algorithms that Welch's test does not "
        f"separate at {material.verdicts.options.alpha:.0%} (Holm-corrected within a framework) "
        "share their ranks. Background: verdict on all frameworks. Number: bootstrap probability "
        "that no two algorithms' means are in opposite orders, and in brackets what it would be on "
        f"average if all algorithms tied. n = {span(sizes)} runs used per point."
    )
    name = file_name("ranks", *material.suffix(*key))
    labels = tuple(recipe_label(hps) for hps in columns)
    cells = {g.cell for item in items for ranked in item.rankings for g in ranked.groups}
    return Sheet(
        name, title, caption, tuple(sorted(cells)), functools.partial(draw, panels, rows, labels)
    )


def _panel(item: RankingVerdict) -> RankPanel:
    return RankPanel(
        item.verdict,
        item.same_order,
        item.chance.mean,
        tuple(ranked.framework for ranked in item.rankings),
        tuple(
            (algorithm, tuple(float(ranked.ranks[i]) for ranked in item.rankings))
            for i, algorithm in enumerate(item.algorithms)
        ),
    )


def draw(
    panels: tuple[tuple[RankPanel | None, ...], ...], rows: tuple[str, ...], labels: tuple[str, ...]
) -> Figure:
    """Draws a small panel per task and configuration."""
    shown = [panel for row in panels for panel in row if panel]
    styles = algorithm_looks(name for panel in shown for name, _ in panel.ranks)
    bottom = 0.45 if any(len(panel.frameworks) > _LEVEL for panel in shown) else 0.3
    margins = Margins(left=0.72, top=0.58, bottom=bottom, across=0.06, down=0.06)
    width = margins.left + (PAGE - margins.left) * max(2, len(labels)) / 5
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(len(rows), len(labels), width, 0.78, margins, False, True)
        legend(figure, styles)
        verdicts = [word for word in WORST_FIRST if any(word == panel.verdict for panel in shown)]
        patch_legend(figure, {word: VERDICT_COLORS[word] for word in verdicts}, 0.2)
        for axis, text in zip(axes[0], labels, strict=True):
            axis.set_title(text)
        for i, row in enumerate(panels):
            row_label(axes[i, 0], task_lines(rows[i], 12))
            for axis, panel in zip(axes[i], row, strict=True):
                _draw_panel(axis, panel, styles, last=i == len(rows) - 1)
    return figure


def _draw_panel(axis: Axes, panel: RankPanel | None, styles: dict[str, Look], last: bool) -> None:
    axis.set_ylim(len(styles) + 0.7, 0.5)
    axis.set_yticks(range(1, len(styles) + 1))
    if panel is None:
        axis.set_xticks([])
        axis.text(0.5, 0.5, "no verdict", ha="center", transform=axis.transAxes, fontsize=SMALL)
        return
    axis.set_facecolor(matplotlib.colors.to_rgba(VERDICT_COLORS[panel.verdict], 0.55))
    axis.grid(visible=False)
    width = 0.16 / max(1, len(styles) - 1)  # apart, so that ties can be seen
    for i, (name, ranks) in enumerate(panel.ranks):
        look, at = styles[name], [j + width * (i - 1) for j in range(len(ranks))]
        axis.plot(
            at,
            [rank + width * (i - 1) for rank in ranks],
            color=look.color,
            linestyle=look.line,
            marker=look.marker,
            linewidth=1.1,
            markersize=3.5,
        )
    names = [label(name) for name in panel.frameworks]
    axis.set_xlim(-0.35, len(names) - 0.65)
    axis.set_xticks(range(len(names)), names if last else [""] * len(names), fontsize=SMALL - 1)
    if len(names) > _LEVEL:
        axis.tick_params(axis="x", labelrotation=40)
    axis.text(
        0.98,
        0.05,
        f"{panel.same_order:.2f} ({panel.chance:.2f})",
        transform=axis.transAxes,
        ha="right",
        fontsize=SMALL - 1,
        color="0.2",
    )
