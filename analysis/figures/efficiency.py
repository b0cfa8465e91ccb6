"""Sample efficiency: how far each framework has come after so many steps, over all tasks."""

import functools

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.figures.frames import limits
from analysis.figures.panels import Margins, draw_curve, end_inside, legend, panel_grid, step_ticks
from analysis.figures.profiles import NO_DATA, cells_of, pages, scale_words
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import PAGE, looks, paper_settings
from analysis.stats.efficiency import Efficiency
from analysis.verdicts.overall import Overall
from analysis.verdicts.study import Material
from analysis.words import file_name, label, recipe_label

Panels = tuple[tuple[str, Efficiency], ...]  # title and curves


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per algorithm, with a panel for each set of hyperparameters."""
    nothing = NotDrawn("efficiency", f"{NO_DATA}, at steps that all runs share")
    return pages(material, _sheet, nothing, lambda item: item.efficiency.curves)


def _sheet(
    material: Material, study: str, algorithm: str, variant: str, items: list[Overall]
) -> Sheet:
    title = f"Sample efficiency of {label(algorithm)}"
    caption = (
        f"{title} ({material.context(study, variant)}): interquartile mean of normalised scores "
        "over all tasks, over environment steps, at no more than 30 of the evaluations that all "
        "runs share. Bands: pointwise 95% intervals, percentile bootstrap of whole runs stratified "
        f"over tasks, {items[0].efficiency.resamples:,} resamples. {scale_words(items)}"
    )
    lacking = sorted(
        f"{label(name)} under {recipe_label(item.hps)}"
        for item in items
        for name in set(item.aggregates.names) - set(item.efficiency.curves)
    )
    if lacking:
        caption += f" Not drawn, as their runs share no evaluation: {', '.join(lacking)}."
    panels = tuple((recipe_label(item.hps), item.efficiency) for item in items)
    name = file_name("efficiency", algorithm, *material.suffix(study, variant, algorithm))
    return Sheet(name, title, caption, cells_of(items), functools.partial(draw, panels))


def draw(panels: Panels) -> Figure:
    """Draws one panel per set of hyperparameters."""
    curves = [curve for _, item in panels for curve in item.curves.values()]
    styles = looks(name for _, item in panels for name in item.curves)
    margins = Margins(left=0.5, top=0.42, bottom=0.36)
    width = max(3.4, margins.left + (PAGE - margins.left) * len(panels) / 4)
    ends = np.concatenate([end for curve in curves for end in (curve.low, curve.high)])
    low, high, _ = limits(np.concatenate([curve.point for curve in curves]), ends)
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(1, len(panels), width, 1.5, margins, True, True)
        legend(figure, styles)
        for axis, (title, item) in zip(axes[0], panels, strict=True):
            axis.set_title(title)
            for name, curve in item.curves.items():
                band, marks = (curve.low, curve.high), (2 * list(styles).index(name), 6)
                draw_curve(axis, styles[name], curve.steps, curve.point, band, 1.2, marks)
        step_ticks(axes[0, 0], max(float(curve.steps[-1]) for curve in curves))
        for axis in axes[-1]:
            end_inside(axis)
        axes[0, 0].set_ylim(low, high)
        axes[0, 0].yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes[0, 0].set_ylabel("normalised score")
        figure.text(0.53, 0.06 / figure.get_figheight(), "environment steps", ha="center")
    return figure
