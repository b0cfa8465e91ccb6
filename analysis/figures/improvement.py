"""Chance that a run of one framework beats a run of another, over all tasks."""

import functools

import matplotlib
from matplotlib.figure import Figure

from analysis.figures.panels import Margins, panel_grid
from analysis.figures.profiles import NO_DATA, cells_of, pages, scale_words
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import PAGE, SMALL, paper_settings
from analysis.stats.aggregates import Improvement
from analysis.verdicts.overall import Overall
from analysis.verdicts.study import Material
from analysis.words import file_name, label, recipe_label

Panels = tuple[tuple[str, Improvement], ...]  # title and chances


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per algorithm, with a panel for each set of hyperparameters."""
    nothing = NotDrawn("improvement", f"{NO_DATA}, or there is one framework")
    return pages(material, _sheet, nothing, lambda item: item.improvement.pairs)


def _sheet(
    material: Material, study: str, algorithm: str, variant: str, items: list[Overall]
) -> Sheet:
    title = f"Probability of improvement, {label(algorithm)}"
    caption = (
        f"{title} ({material.context(study, variant)}): chance that a run of the first framework "
        "scores higher than one of the second in the same task, ties half, averaged over tasks. "
        "At 0.5 neither does. Lines: 95% intervals, percentile bootstrap stratified over tasks, "
        f"{items[0].improvement.resamples:,} resamples. {scale_words(items)}"
    )
    panels = tuple((recipe_label(item.hps), item.improvement) for item in items)
    name = file_name("improvement", algorithm, *material.suffix(study, variant, algorithm))
    return Sheet(name, title, caption, cells_of(items), functools.partial(draw, panels))


def draw(panels: Panels) -> Figure:
    """Draws one panel per set of hyperparameters, a row per pair of frameworks."""
    pairs = list(dict.fromkeys(pair for _, item in panels for pair in item.pairs))
    margins = Margins(left=1.2, top=0.24, bottom=0.36)
    width = margins.left + (PAGE - margins.left) * max(2, len(panels)) / 4
    with matplotlib.rc_context(paper_settings()):
        height = 0.1 + 0.22 * len(pairs)
        figure, axes = panel_grid(1, len(panels), width, height, margins, True, True)
        for axis, (title, item) in zip(axes[0], panels, strict=True):
            axis.set_title(title)
            axis.axvline(0.5, color="0.3", linewidth=0.8)
            for i, pair in enumerate(item.pairs):
                at, color = pairs.index(pair), "0.25"
                axis.plot([item.low[i], item.high[i]], [at, at], color=color, linewidth=1.2)
                axis.plot(item.point[i], at, color=color, marker="o", markersize=3.5)
            axis.grid(axis="y", visible=False)
        axes[0, 0].set_xlim(-0.03, 1.03)
        axes[0, 0].set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes[0, 0].set_ylim(len(pairs) - 0.5, -0.5)
        names = [f"{label(first)} over {label(second)}" for first, second in pairs]
        axes[0, 0].set_yticks(range(len(pairs)), names, fontsize=SMALL)
        text = "chance that a run of the first scores higher"
        figure.text(0.55, 0.06 / figure.get_figheight(), text, ha="center")
    return figure
