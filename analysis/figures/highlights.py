"""The settings that differ most: curves over final scores, three in a row (thesis Figures 6-11)."""

import dataclasses
import functools
import math

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data.runs import Cell
from analysis.figures import curves
from analysis.figures.curves import ALGORITHMS, FRAMEWORKS
from analysis.figures.panels import (
    Line,
    Margins,
    draw_lines,
    fit_axes,
    interval_words,
    legend,
    panel_grid,
    size_words,
    step_axis,
    usual_size,
)
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.spots import draw_spots, frame_of
from analysis.figures.style import PAGE, Look, algorithm_looks, looks, paper_settings
from analysis.verdicts.consistency import DIFFERENT, PairVerdict
from analysis.verdicts.ranking import WORST_FIRST, RankingVerdict
from analysis.verdicts.study import Material
from analysis.words import file_name, label, order_words, recipe_label

_COLUMNS = 3

Panel = tuple[str, tuple[Line, ...]]  # title and lines


@dataclasses.dataclass(frozen=True)
class Highlights:
    """Some settings, each with curves and final scores.

    Attributes:
        panels: Title and lines of each.
        kind: What lines stand for: `frameworks` or `algorithms`.
        shared: All panels share their axes.
    """

    panels: tuple[Panel, ...]
    kind: str
    shared: bool

    @property
    def lines(self) -> list[Line]:
        """All lines of all panels."""
        return [line for _, lines in self.panels for line in lines]


def draw(content: Highlights) -> Figure:
    """Draws curves over final scores, three settings in a row."""
    names = [line.name for line in content.lines]
    styles = looks(names) if content.kind == FRAMEWORKS else algorithm_looks(names)
    columns = min(_COLUMNS, len(content.panels))
    rows = math.ceil(len(content.panels) / columns)
    titles = max(title.count("\n") for title, _ in content.panels)
    margins = Margins(left=0.55, top=0.4 + 0.12 * titles, bottom=0.36, across=0.32, down=0.2)
    # An empty row between the blocks holds the titles of the lower one.
    heights = ([1.25, 0.13 * len(styles) + 0.1, 0.05 + 0.1 * titles] * rows)[:-1]
    with matplotlib.rc_context(paper_settings()):
        width = margins.left + (PAGE - margins.left) * max(2, columns) / _COLUMNS
        figure, axes = panel_grid(len(heights), columns, width, heights, margins)
        legend(figure, styles)
        for axis in axes.flat:
            axis.set_axis_off()
        for i, panel in enumerate(content.panels):
            row, column = divmod(i, columns)
            _draw_panel(axes[3 * row, column], axes[3 * row + 1, column], panel, content, styles)
            if column == 0:
                axes[3 * row, 0].set_ylabel("mean return")
        figure.text(
            0.5,
            0.06 / figure.get_figheight(),
            "above: over environment steps; below: mean return at the end",
            ha="center",
        )
    return figure


def _draw_panel(
    top: Axes, bottom: Axes, panel: Panel, content: Highlights, styles: dict[str, Look]
) -> None:
    title, lines = panel
    for axis in (top, bottom):
        axis.set_axis_on()
    scope = content.lines if content.shared else list(lines)
    top.set_title(title)
    draw_lines(top, lines, styles)
    fit_axes(top, scope)
    step_axis(top, scope)
    places = {name: i for i, name in enumerate(styles)}
    spots = [(float(places[line.name]), line) for line in lines]
    usual = usual_size(content.lines)
    draw_spots(bottom, spots, styles, frame_of(scope, usual), usual)
    bottom.set_ylim(len(styles) - 0.4, -0.6)
    bottom.set_yticks([])


MOST = 6  # settings in a figure


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per algorithm, and one per configuration that ranks algorithms."""
    pages = [_of_algorithm(material, *setting) for setting in material.settings]
    pages += [_of_ranking(material, key) for key in curves.configurations(material)]
    reason = "no two frameworks have two runs used in the same setting"
    found: list[Sheet | NotDrawn] = [page for page in pages if page is not None]
    return found or [NotDrawn("highlights", reason)]


def most_different(items: list[PairVerdict]) -> list[PairVerdict]:
    """The pair that differs most in each setting, the smallest corrected p-values first."""
    known = [item for item in items if not math.isnan(item.p_holm)]
    known.sort(key=lambda item: (item.verdict != DIFFERENT, item.p_holm, item.p_welch, item.cell))
    first = {item.cell: item for item in reversed(known)}
    return [item for item in known if first[item.cell] is item][:MOST]


def _of_algorithm(material: Material, study: str, algorithm: str, variant: str) -> Sheet | None:
    chosen = most_different(
        [
            item
            for item in material.verdicts.consistency
            if (item.cell.study, item.cell.algorithm, item.cell.variant)
            == (study, algorithm, variant)
        ]
    )
    if not chosen:
        return None
    panels = tuple(
        (
            f"{item.cell.env}\n{recipe_label(item.cell.hps)}",
            curves.lines_of_frameworks(material, item.cell),
        )
        for item in chosen
    )
    different = sum(item.verdict == DIFFERENT for item in chosen)
    title = f"Where frameworks differ most, {label(algorithm)}"
    how = (
        f"the {len(chosen)} settings with the smallest corrected p-values of Welch's test; in "
        f"{different} of them two frameworks are different by the verdict"
    )
    name = file_name("highlights", algorithm, *material.suffix(study, variant, algorithm))
    context = material.context(study, variant)
    return highlight_sheet(
        material,
        name,
        title,
        how,
        Highlights(panels, FRAMEWORKS, False),
        context,
        [item.cell for item in chosen],
    )


def least_preserved(items: list[RankingVerdict]) -> RankingVerdict:
    """The task whose ranking is preserved least."""
    return min(items, key=lambda i: (WORST_FIRST.index(i.verdict), i.same_order, i.env))


def _of_ranking(material: Material, key: curves.Configuration) -> Sheet | None:
    study, hps, variant = key
    items = [
        item
        for item in material.verdicts.rankings
        if (item.study, item.hps, item.variant) == (study, hps, variant)
    ]
    if not items:
        return None
    worst = least_preserved(items)
    panels = tuple(
        (
            f"{worst.env}\n{label(ranked.framework)}",
            curves.lines_of_algorithms(material, key, worst.env, ranked.framework),
        )
        for ranked in worst.rankings
    )
    title = f"Ranking preserved least, hyperparameters: {recipe_label(hps)}"
    how = (
        f"{worst.env}, of {len(items)} tasks the one with the worst verdict ({worst.verdict}) "
        "and, among those, the smallest bootstrap probability of the same order "
        f"{order_words(worst.same_order, worst.chance)}"
    )
    name = file_name("highlights", "ranking", hps, *material.suffix(study, variant))
    context = material.context(study, variant)
    cells = sorted({group.cell for ranked in worst.rankings for group in ranked.groups})
    return highlight_sheet(
        material, name, title, how, Highlights(panels, ALGORITHMS, True), context, cells
    )


def highlight_sheet(
    material: Material,
    name: str,
    title: str,
    how: str,
    content: Highlights,
    context: str,
    cells: list[Cell],
) -> Sheet:
    """A figure of settings with its caption.

    Args:
        material: What there is.
        name: Of its files.
        title: What it shows.
        how: How the settings were chosen.
        content: The settings.
        context: Study and variant, in words.
        cells: Settings of the runs behind it.
    """
    caption = (
        f"{title} ({context}): {how}. Above: mean return per evaluation over environment steps. "
        "Below: final scores, a circle per seed. Bands and lines: "
        f"{interval_words(material.method)}; an arrow where a line goes on. "
        f"{size_words(content.lines)}."
    )
    return Sheet(name, title, caption, tuple(cells), functools.partial(draw, content))
