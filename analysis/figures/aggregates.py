"""Median, interquartile mean, mean and optimality gap over all tasks, with intervals."""

import functools

import matplotlib
from matplotlib.figure import Figure

from analysis.figures.layout import Margins, legend, panel_grid
from analysis.figures.material import Material
from analysis.figures.names import recipe_label
from analysis.figures.profiles import NO_DATA, by_setting, cells_of, scale_words
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import PAGE, label, looks, paper_settings
from analysis.naming import file_name
from analysis.overall import Overall
from analysis.stats.aggregates import NAMES, Aggregates

_TITLES = {
    "median": "median",
    "iqm": "interquartile mean",
    "mean": "mean",
    "optimality_gap": "optimality gap",
}


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per algorithm."""
    return [_sheet(material, *setting, items) for setting, items in by_setting(material)] or [
        NotDrawn("aggregates", NO_DATA)
    ]


def _sheet(
    material: Material, study: str, algorithm: str, variant: str, items: list[Overall]
) -> Sheet:
    title = f"Scores of {label(algorithm)} over all tasks"
    caption = (
        f"{title} ({material.context(study, variant)}). Points: aggregates of normalised final "
        f"scores; a low optimality gap is good. Lines: 95% intervals, percentile bootstrap "
        f"stratified over tasks, {items[0].aggregates.resamples:,} resamples. {scale_words(items)}"
    )
    rows = tuple((recipe_label(item.hps), item.aggregates) for item in items)
    name = file_name("aggregates", algorithm, *material.suffix(study, variant, algorithm))
    return Sheet(name, title, caption, cells_of(items), functools.partial(draw, rows))


def draw(rows: tuple[tuple[str, Aggregates], ...]) -> Figure:
    """Draws one panel per aggregate."""
    styles = looks(name for _, item in rows for name in item.names)
    margins = Margins(left=0.95, top=0.42, bottom=0.36)
    with matplotlib.rc_context(paper_settings()):
        height = 0.15 + 0.13 * len(styles) * len(rows)
        figure, axes = panel_grid(1, len(NAMES), PAGE, height, margins, False, True)
        legend(figure, styles)
        step = 0.8 / len(styles)
        for k, (axis, aggregate) in enumerate(zip(axes[0], NAMES, strict=True)):
            axis.set_title(_TITLES[aggregate])
            for i, (_, item) in enumerate(rows):
                for j, name in enumerate(item.names):
                    look = styles[name]
                    at = i - 0.4 + step * (list(styles).index(name) + 0.5)
                    ends = [item.low[j, k], item.high[j, k]]
                    axis.plot(ends, [at, at], color=look.color, linewidth=1.2)
                    axis.plot(
                        item.point[j, k], at, color=look.color, marker=look.marker, markersize=3
                    )
            for edge in range(1, len(rows)):
                axis.axhline(edge - 0.5, color="0.85", linewidth=0.5)
            axis.grid(axis="y", visible=False)
            axis.locator_params(axis="x", nbins=4)
        axes[0, 0].set_yticks(range(len(rows)), [text for text, _ in rows])
        axes[0, 0].set_ylim(len(rows) - 0.5, -0.5)
        figure.text(0.55, 0.06 / figure.get_figheight(), "normalised score", ha="center")
    return figure
