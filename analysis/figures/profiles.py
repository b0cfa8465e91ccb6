"""Performance profiles: the share of runs above each normalised score, over all tasks."""

import functools

import matplotlib
from matplotlib.figure import Figure

from analysis.figures.layout import Margins, legend, panel_grid
from analysis.figures.material import Material
from analysis.figures.names import recipe_label, recipes
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import PAGE, label, looks, paper_settings
from analysis.figures.words import span
from analysis.naming import file_name
from analysis.overall import Overall
from analysis.runs import Cell
from analysis.stats.profiles import Profiles

NO_DATA = "no set of hyperparameters has a task with a scale that all frameworks have a run in"


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per algorithm, with a panel for each set of hyperparameters."""
    return [_sheet(material, *setting, items) for setting, items in by_setting(material)] or [
        NotDrawn("profiles", NO_DATA)
    ]


def by_setting(material: Material) -> list[tuple[tuple[str, str, str], list[Overall]]]:
    """Aggregates of each study, algorithm and variant, by hyperparameters."""
    found = []
    for setting in material.settings:
        items = {
            item.hps: item
            for item in material.overall
            if (item.study, item.algorithm, item.variant) == setting
        }
        if items:
            found.append((setting, [items[hps] for hps in recipes(items)]))
    return found


def cells_of(items: list[Overall]) -> tuple[Cell, ...]:
    """The settings that went into aggregates."""
    return tuple(
        Cell(item.study, env, item.algorithm, item.hps, item.variant)
        for item in items
        for env in item.tasks
    )


def scale_words(items: list[Overall]) -> str:
    """What went in, and what counts as 0 and 1, for captions."""
    tasks = {len(item.tasks) for item in items}
    out = sorted({text for item in items for text in item.left_out})
    text = (
        f"Scores are normalised per task: 0 is random actions, 1 the best score of the original "
        f"papers. Tasks: {span(tasks)}"
    )
    text += f" (left out: {'; '.join(out)})" if out else ""
    sizes = {n for item in items for seeds in item.aggregates.seeds for n in seeds}
    return f"{text}. n = {span(sizes)} runs used per task and framework."


def _sheet(
    material: Material, study: str, algorithm: str, variant: str, items: list[Overall]
) -> Sheet:
    title = f"Performance profiles of {label(algorithm)}"
    resamples = items[0].profiles.resamples
    caption = (
        f"{title} ({material.context(study, variant)}). Share of runs with a final score above a "
        f"threshold, tasks weighted equally. Bands: pointwise 95% intervals, bootstrap stratified "
        f"over tasks, {resamples:,} resamples. {scale_words(items)}"
    )
    panels = tuple((recipe_label(item.hps), item.profiles) for item in items)
    name = file_name("profiles", algorithm, *material.suffix(study, variant, algorithm))
    return Sheet(name, title, caption, cells_of(items), functools.partial(draw, panels))


def draw(panels: tuple[tuple[str, Profiles], ...]) -> Figure:
    """Draws one panel per set of hyperparameters."""
    styles = looks(name for _, item in panels for name in item.names)
    margins = Margins(left=0.5, top=0.42, bottom=0.36)
    width = max(3.4, margins.left + (PAGE - margins.left) * len(panels) / 4)
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(1, len(panels), width, 1.5, margins, True, True)
        legend(figure, styles)
        for axis, (title, item) in zip(axes[0], panels, strict=True):
            axis.set_title(title)
            for i, name in enumerate(item.names):
                look = styles[name]
                band = (item.thresholds, item.low[i], item.high[i])
                axis.fill_between(*band, color=look.color, alpha=0.15, linewidth=0)
                axis.plot(
                    item.thresholds,
                    item.share[i],
                    color=look.color,
                    linestyle=look.line,
                    linewidth=1.2,
                    marker=look.marker,
                    markersize=2.5,
                    markevery=(3 * i, 12),
                )
            axis.set_xlim(float(item.thresholds[0]), float(item.thresholds[-1]))
            axis.set_ylim(0, 1.02)
            axis.set_xticks([0, 0.5, 1, 1.5])
        axes[0, 0].set_ylabel("share of runs above")
        figure.text(0.53, 0.06 / figure.get_figheight(), "normalised score", ha="center")
    return figure
