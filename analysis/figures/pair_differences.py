"""Forest plot of pairs of frameworks: differences in units of the equivalence margin.

The unit is the same in all tasks, so that all of them share one axis, and the position of an
interval shows whether two frameworks are further apart than the margin.
"""

import collections
import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFT, CARETRIGHT
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from parallax.analysis import labels
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import PanelMargins, make_panel_grid, place_legend
from parallax.analysis.figures.style import PAGE_WIDTH, SMALL_FONT, VERDICT_LINE_COLORS
from parallax.analysis.labels import group_items
from parallax.analysis.verdicts import statements
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.study import StudyResults, StudyVariant

_COLUMNS = 3  # panels in a row where recipes have no columns of their own
_TITLE_CHARACTERS = 84  # that fit above a line of panels
_ROW = 0.112  # inches
_MIN_REACH = 2.0  # margins on either side of 0 that an axis shows at least
_MAX_REACH = 20.0  # margins; a pair further apart has an arrow at the axis' end
_STATEMENTS = {
    statements.DIFFERENT_IN_MEAN: statements.DIFFERENT_IN_MEAN,
    statements.DIFFERENT_IN_DISTRIBUTION: statements.DIFFERENT_IN_DISTRIBUTION,
    statements.EQUIVALENT: statements.EQUIVALENT,
    statements.CONDITIONAL_PREFIX: "equivalent unless runs fail",
    statements.INCONCLUSIVE: statements.INCONCLUSIVE,
}
_LEGEND_ENTRY = 1.55  # inches that the widest entry of the legend needs
_UNLEARNED = "0.93"  # background of pairs that are not shown to have learned


@dataclasses.dataclass(frozen=True)
class PairDifference:
    """One row of a panel.

    Attributes:
        difference: Of the means, in margins.
        low: Lower end of the 95% interval, in margins; NaN where there is none.
        statement: What is shown of the pair, one of `_STATEMENTS`.
        with_failed_runs: The difference with failed trainings at the bottom of the task's range, in
            margins; NaN where none failed.
    """

    name: str
    difference: float
    low: float
    high: float
    statement: str
    is_learned: bool
    with_failed_runs: float = math.nan
    failed_statement: str = statements.INCONCLUSIVE


@dataclasses.dataclass(frozen=True)
class DifferencePanel:
    """Some pairs.

    Attributes:
        rows: The pairs by name; those that were not run are missing.
    """

    title: str
    rows: Mapping[str, PairDifference]


@dataclasses.dataclass(frozen=True)
class DifferenceGrid:
    """A figure: panels that share both axes.

    Attributes:
        panels: The panels, row by row; None where nothing was run.
    """

    names: tuple[str, ...]
    columns: int
    panels: tuple[DifferencePanel | None, ...]


def make_pair_difference_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one forest plot per algorithm and variant."""
    defaults = group_items(results.verdicts.defaults, lambda item: item.cell.variant_key)
    pages: list[FigureSpec | MissingFigure] = []
    for part in results.parts:
        key = part.study, part.algorithm, part.variant
        items = [item for item in (*part.pairs, *defaults.get(key, ())) if item.margin.size > 0]
        with_failed = [
            item
            for item in results.verdicts.intention_to_treat
            if item.margin.size > 0 and item.cell.variant_key == key
        ]
        if len({_get_key(item) for item in (*items, *with_failed)}) > 1:
            pages.append(_make_figure_spec(results, part, items, with_failed))
    reason = "no two pairs of frameworks or settings with a run used in both"
    return pages or [MissingFigure("verdicts", reason)]


def _get_key(item: PairVerdict) -> tuple[StudyCell, str, str]:
    return item.cell, item.first.framework, item.second.framework


def _make_figure_spec(
    results: StudyResults,
    part: StudyVariant,
    items: Sequence[PairVerdict],
    with_failed: Sequence[PairVerdict],
) -> FigureSpec:
    options = results.verdicts.options
    sizes = {group.n for item in items for group in (item.first, item.second)}
    families = {item.family: item.family_size for item in items}
    tests = " and ".join(f"{size} tests of {name}" for name, size in families.items())
    title = f"Differences between frameworks, {labels.get_label(part.algorithm)}"
    caption = (
        f"{title} ({part.context}). Score: {options.chosen_endpoint.description}. Marks: first "
        "mean minus second, in units of the equivalence margin, which is "
        f"{options.margin_description}. Lines: Welch's 95% intervals, uncorrected; an arrow where "
        "one goes on. Between the vertical lines at -1 and 1 a difference is within the margin. "
        f"Colours: what is shown, at {options.alpha:.0%} after Holm's correction ({tests})"
        f"{_describe_conditional(items)}. Hollow marks "
        "on grey: not both frameworks are shown to have learned, that is to be better than doing "
        "nothing, random actions and untrained policies by the margin."
        f"{_CROSSES * bool(with_failed)} n = {labels.format_range(sizes)} runs used per framework."
    )
    name = labels.make_file_name("verdicts", part.algorithm, *part.suffix)
    own = {item.first.cell for item in items} | {item.second.cell for item in items}
    draw = functools.partial(draw_difference_figure, _arrange_pairs(results, items, with_failed))
    return FigureSpec(name, title, caption, tuple(sorted(own)), draw)


_CROSSES = (
    " Crosses: with failed trainings at the bottom of the task's range, at an axis' end where that "
    "lies beyond; alone where all trainings of a framework failed."
)


def _describe_conditional(items: Sequence[PairVerdict]) -> str:
    """Return the failure rates that conditionally equivalent pairs tolerate."""
    rates = statements.format_tolerated_failures(item.statement for item in items)
    return f"; equivalent unless runs fail: unless more than {rates} of them do" if rates else ""


def _arrange_pairs(
    results: StudyResults, complete: Sequence[PairVerdict], with_failed: Sequence[PairVerdict]
) -> DifferenceGrid:
    """Return a panel per task and recipe, or with a single pair a panel per recipe.

    In pairs of `with_failed`, failed trainings are at the bottom of the task's range.
    """
    failed = {_get_key(item): item for item in with_failed}
    found_complete = {_get_key(item) for item in complete}
    alone = [item for key, item in failed.items() if key not in found_complete]
    items = sorted((*complete, *alone), key=_get_key)
    tasks = sorted({item.cell.env for item in items})
    recipes = labels.sort_recipes({item.cell.hps for item in items})
    pairs = list(dict.fromkeys(_name_pair(item) for item in items))
    found: dict[StudyCell | str, dict[str, PairDifference]] = collections.defaultdict(dict)
    if len(pairs) == 1:
        for item in items:
            found[item.cell.hps][item.cell.env] = _measure_difference(
                results, item, item.cell.env, failed.get(_get_key(item))
            )
        panels = tuple(
            DifferencePanel(f"{pairs[0]}\n{labels.get_recipe_label(hps)}", found[hps])
            for hps in recipes
        )
        return DifferenceGrid(tuple(tasks), min(_COLUMNS, len(panels)), panels)
    cells = {(item.cell.env, item.cell.hps): item.cell for item in items}
    for item in items:
        found[item.cell][_name_pair(item)] = _measure_difference(
            results, item, _name_pair(item), failed.get(_get_key(item))
        )
    # Recipes have columns of their own only if a task was run with several, and titles fit.
    title = max(map(len, [*tasks, *map(labels.get_recipe_label, recipes)]), default=0)
    is_list = len(cells) == len(tasks) or len(recipes) * title > _TITLE_CHARACTERS
    keys = sorted(cells) if is_list else [(env, hps) for env in tasks for hps in recipes]
    shown = tuple(
        DifferencePanel(f"{env}\n{labels.get_recipe_label(hps)}", found[cells[env, hps]])
        if (env, hps) in cells
        else None
        for env, hps in keys
    )
    columns = min(_COLUMNS, len(keys)) if is_list else len(recipes)
    return DifferenceGrid(tuple(pairs), columns, shown)


def _name_pair(item: PairVerdict) -> str:
    return f"{labels.get_label(item.first.framework)} - {labels.get_label(item.second.framework)}"


def _measure_difference(
    results: StudyResults, item: PairVerdict, name: str, with_failed: PairVerdict | None
) -> PairDifference:
    difference = low = high = math.nan
    if item is not with_failed:
        difference, low, high = (
            value / item.margin.size for value in (item.difference, item.low, item.high)
        )
    return PairDifference(
        name,
        difference,
        low,
        high,
        _name_statement(item),
        {item.first.key, item.second.key} <= results.verdicts.learned,
        with_failed.difference / with_failed.margin.size if with_failed else math.nan,
        _name_statement(with_failed) if with_failed else statements.INCONCLUSIVE,
    )


def _name_statement(item: PairVerdict) -> str:
    statement = item.statement
    return (
        statements.CONDITIONAL_PREFIX
        if statement.is_conditional
        else statement.text or statements.INCONCLUSIVE
    )


def find_axis_reach(rows: Sequence[PairDifference]) -> float:
    """Return how many margins an axis shows on either side of 0: all means, unless far off."""
    found = (abs(row.difference) for row in rows if math.isfinite(row.difference))
    return min(_MAX_REACH, max(_MIN_REACH, 1.15 * max(found, default=0.0)))


def draw_difference_figure(grid: DifferenceGrid) -> Figure:
    """Draw the panels."""
    rows = math.ceil(len(grid.panels) / grid.columns)
    pairs = [row for panel in grid.panels if panel for row in panel.rows.values()]
    handles = _list_legend_handles(pairs)
    width = min(PAGE_WIDTH, 1.2 + (PAGE_WIDTH - 1.2) * max(2, grid.columns) / _COLUMNS)
    across = max(1, int(width / _LEGEND_ENTRY))
    top = 0.52 + 0.13 * ((len(handles) - 1) // across)
    margins = PanelMargins(left=1.2, top=top, bottom=0.36, down=0.52, across=0.2)
    height = 0.1 + _ROW * len(grid.names)
    figure, axes = make_panel_grid(rows, grid.columns, width, height, margins, True, True)
    # All panels share both axes. Limits are set once, since setting them visits all panels, and
    # first, since otherwise each mark would compute the limits again.
    axes[0, 0].xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    reach = find_axis_reach(pairs)
    axes[0, 0].set_xlim(-reach, reach)
    axes[0, 0].set_ylim(len(grid.names) - 0.4, -0.6)
    axes[0, 0].set_yticks(range(len(grid.names)), grid.names, fontsize=SMALL_FONT)
    panels = [*grid.panels, *[None] * (axes.size - len(grid.panels))]
    for i, (axis, panel) in enumerate(zip(axes.flat, panels, strict=True)):
        if panel is None:
            axis.set_axis_off()
            continue
        # Rows are named at the first panel of a line, which need not be in the first column.
        is_first = not any(panels[i - i % grid.columns : i])
        axis.tick_params(labelleft=is_first, labelsize=SMALL_FONT, axis="y")
        _draw_panel(axis, panel, grid.names, reach)
    place_legend(figure, handles, 0.02, ncols=min(len(handles), across), fontsize=SMALL_FONT)
    text = "difference in units of the equivalence margin"
    figure.text(0.55, 0.05 / figure.get_figheight(), text, ha="center")
    return figure


def _draw_panel(axis: Axes, panel: DifferencePanel, names: Sequence[str], reach: float) -> None:
    axis.grid(axis="y", visible=False)
    axis.xaxis.set_tick_params(labelbottom=True)
    axis.axvspan(-1, 1, color=VERDICT_LINE_COLORS[statements.EQUIVALENT], alpha=0.1, linewidth=0)
    for place, width in ((-1, 0.6), (0, 0.8), (1, 0.6)):
        axis.axvline(place, color="0.35", linewidth=width, zorder=1)
    axis.set_title(panel.title)
    for i, name in enumerate(names):
        if name in panel.rows:
            _draw_difference(axis, i, panel.rows[name], reach)


def _draw_difference(axis: Axes, at: int, row: PairDifference, reach: float) -> None:
    color = VERDICT_LINE_COLORS[row.statement]
    if not row.is_learned:
        axis.axhspan(at - 0.5, at + 0.5, color=_UNLEARNED, linewidth=0, zorder=0)
    if math.isfinite(row.low):
        ends = [max(row.low, -reach), min(row.high, reach)]
        axis.plot(ends, [at, at], color=color, linewidth=1.1, zorder=2)
    for is_cut, place, marker in (
        (min(row.low, row.difference) < -reach, -reach, CARETLEFT),
        (max(row.high, row.difference) > reach, reach, CARETRIGHT),
    ):
        if is_cut:
            axis.plot(place, at, color=color, marker=marker, markersize=3.5, clip_on=False)
    if abs(row.difference) <= reach:
        face = color if row.is_learned else "white"
        axis.plot(
            row.difference,
            at,
            marker="o",
            markersize=3.2,
            markerfacecolor=face,
            markeredgecolor=color,
            markeredgewidth=0.7,
            zorder=3,
        )
    if math.isfinite(row.with_failed_runs):
        axis.plot(
            min(max(row.with_failed_runs, -reach), reach),
            at,
            color=VERDICT_LINE_COLORS[row.failed_statement],
            marker="x",
            markersize=3.4,
            markeredgewidth=0.8,
            clip_on=False,
            zorder=4,
        )


def _list_legend_handles(rows: Sequence[PairDifference]) -> list[Line2D | Patch]:
    found = {row.statement for row in rows if math.isfinite(row.difference)}
    found |= {row.failed_statement for row in rows if math.isfinite(row.with_failed_runs)}
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=VERDICT_LINE_COLORS[name], marker="o", markersize=3.5, label=label)
        for name, label in _STATEMENTS.items()
        if name in found
    ]
    if any(not row.is_learned for row in rows):
        handles.append(
            Patch(facecolor=_UNLEARNED, edgecolor="0.7", label="not both shown to have learned")
        )
    return handles
