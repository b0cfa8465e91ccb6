"""Pages of learning curves: one row per task, return axes shared within it.

Of all frameworks, hyperparameters across (thesis Figures 18-20); of all algorithms, frameworks
across (Figures 21-25); without and with wrappers (12); with one and several copies (13).
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Sequence

import matplotlib
from matplotlib.figure import Figure

from analysis.data.runs import Cell
from analysis.figures.panels import (
    Line,
    Margins,
    draw_lines,
    end_inside,
    fit_axes,
    interval_words,
    legend,
    line_of,
    note_sizes,
    panel_grid,
    row_label,
    size_words,
    step_axis,
    usual_size,
)
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import PAGE, algorithm_looks, looks, paper_settings
from analysis.verdicts.defaults import as_they_come
from analysis.verdicts.study import Material, frameworks_of
from analysis.words import OWN, file_name, label, recipe_label, recipes, task_lines, variant_parts

FRAMEWORKS, ALGORITHMS = "frameworks", "algorithms"


@dataclasses.dataclass(frozen=True)
class CurveGrid:
    """The content of a page.

    Attributes:
        rows: Label of each row.
        columns: Label of each column.
        panels: Lines of each panel by row and column; none where nothing was run.
        kind: What lines stand for: `frameworks` or `algorithms`.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    panels: tuple[tuple[tuple[Line, ...], ...], ...]
    kind: str

    @property
    def lines(self) -> list[Line]:
        """All lines of all panels."""
        return [line for row in self.panels for panel in row for line in panel]


def curve_sheet(
    name: str, title: str, grid: CurveGrid, method: str, context: str, cells: Sequence[Cell]
) -> Sheet:
    """A page of curves with its caption.

    Args:
        name: Of the files.
        title: What it shows.
        grid: The content.
        method: Method of the intervals.
        context: What all panels share, for the caption.
        cells: Settings of the runs behind it.
    """
    caption = (
        f"{title} ({context}). Lines: mean over seeds of the mean return per evaluation, over "
        f"environment steps. Bands: {interval_words(method)}; wide ones are cut off. Panels of a "
        f"row share the return axis. {size_words(grid.lines)}."
    )
    return Sheet(name, title, caption, tuple(cells), functools.partial(draw_curve_grid, grid))


def draw_curve_grid(grid: CurveGrid) -> Figure:
    """Draws a page of curves."""
    names = [line.name for line in grid.lines]
    styles = looks(names) if grid.kind == FRAMEWORKS else algorithm_looks(names)
    width = PAGE if len(grid.columns) > 2 else PAGE * 0.7
    labels = [task_lines(text) for text in grid.rows]
    most = 1 + max(text.count("\n") for text in labels)
    margins = Margins(left=0.56 + 0.11 * most, bottom=0.36)
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(
            len(grid.rows), len(grid.columns), width, 0.98, margins, True, "row"
        )
        legend(figure, styles)
        for axis, column in zip(axes[0], grid.columns, strict=True):
            axis.set_title(column)
        step_axis(axes[0, 0], grid.lines)  # all panels share it
        for axis in axes[-1]:
            end_inside(axis)
        usual = usual_size(grid.lines)
        for row, panels, text in zip(axes, grid.panels, labels, strict=True):
            row_label(row[0], text)
            fit_axes(row[0], list(itertools.chain(*panels)))
            for axis, lines in zip(row, panels, strict=True):
                draw_lines(axis, lines, styles)
                note_sizes(axis, lines, usual)
                if not lines:
                    axis.text(0.5, 0.5, "no run", ha="center", transform=axis.transAxes)
        height = figure.get_figheight()
        figure.text(0.5, 0.06 / height, "environment steps", ha="center")
        figure.text(0.03 / width, 0.5, "mean return", va="center", rotation="vertical")
    return figure


def consistency_sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per algorithm."""
    return [_consistency_sheet(material, *setting) for setting in material.settings] or [
        NotDrawn("consistency", "no run can be used")
    ]


def lines_of_frameworks(material: Material, cell: Cell) -> tuple[Line, ...]:
    """One line per framework with a run in a setting, be it that of own defaults."""
    found = {name: own for own, name in material.curves if cell in (own, as_they_come(own, name))}
    names = frameworks_of((own, name) for name, own in found.items())
    return tuple(make_line(material, found[name], name, name) for name in names)


def recipes_across(material: Material, cells: Collection[Cell]) -> tuple[str, ...]:
    """Recipes that several frameworks were run under; those of one framework only as `OWN`.

    Args:
        material: What can be drawn.
        cells: Settings of one algorithm.
    """
    users: dict[str, set[str]] = {}
    for cell, framework in material.curves:
        if cell in cells:
            users.setdefault(cell.hps, set()).add(framework)
    own = [hps for hps, names in users.items() if hps in names]
    alone = [hps for hps in own if len(users[hps]) == 1 and len(own) > 1]
    return recipes(OWN if hps in alone else hps for hps in users)


def make_line(material: Material, cell: Cell, framework: str, name: str) -> Line:
    """The line of a framework in a setting, called by its own name or by its algorithm's."""
    at = (cell, framework)
    found = material.curves[at], material.finals[at], material.groups[at]
    return line_of(name, *found, material.bounds[cell.env])


def _consistency_sheet(material: Material, study: str, algorithm: str, variant: str) -> Sheet:
    cells = material.cells(study, algorithm, variant)
    rows = tuple(sorted({cell.env for cell in cells}))
    columns = recipes_across(material, cells)
    panels = tuple(
        tuple(
            lines_of_frameworks(material, Cell(study, env, algorithm, hps, variant))
            for hps in columns
        )
        for env in rows
    )
    labels = tuple(recipe_label(hps) for hps in columns)
    return curve_sheet(
        file_name("consistency", algorithm, *material.suffix(study, variant, algorithm)),
        f"{label(algorithm)} in each framework; hyperparameters by column",
        CurveGrid(rows, labels, panels, FRAMEWORKS),
        material.method,
        material.context(study, variant),
        cells,
    )


Configuration = tuple[str, str, str]  # study, hyperparameters, variant


def ranking_sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per set of hyperparameters, and one for each framework's own."""
    pages = [_ranking_sheet(material, *key) for key in configurations(material)]
    reason = "no two frameworks ran the same two algorithms in the same setting"
    return [page for page in pages if page is not None] or [NotDrawn("ranking", reason)]


def configurations(material: Material) -> list[Configuration]:
    """Study, hyperparameters and variant under which algorithms can be ranked."""
    found = {(cell.study, cell.hps, cell.variant) for cell, _ in material.curves}
    own = {(c.study, OWN, c.variant) for c, name in material.curves if c.hps == name}
    order = recipes(hps for _, hps, _ in found | own)
    return sorted(found | own, key=lambda key: (key[0], key[2], order.index(key[1])))


def lines_of_algorithms(
    material: Material, key: Configuration, env: str, framework: str
) -> tuple[Line, ...]:
    """One line per algorithm that a framework ran in a task under a configuration."""
    study, hps, variant = key
    recipe = framework if hps == OWN else hps
    algorithms = sorted({cell.algorithm for cell, _ in material.curves})
    cells = [Cell(study, env, algorithm, recipe, variant) for algorithm in algorithms]
    return tuple(
        make_line(material, cell, framework, cell.algorithm)
        for cell in cells
        if (cell, framework) in material.curves
    )


def _ranking_sheet(material: Material, study: str, hps: str, variant: str) -> Sheet | None:
    cells = material.cells(study, None, variant)
    rows = tuple(sorted({cell.env for cell in cells if hps in (OWN, cell.hps)}))
    columns = tuple(
        sorted({name for cell, name in material.curves if cell in cells and hps in (OWN, cell.hps)})
    )
    panels = tuple(
        tuple(lines_of_algorithms(material, (study, hps, variant), env, name) for name in columns)
        for env in rows
    )
    if all(sum(len(panel) > 1 for panel in row) < 2 for row in panels):
        return None
    words = "each framework's own defaults" if hps == OWN else recipe_label(hps)
    return curve_sheet(
        file_name("ranking", hps, *material.suffix(study, variant)),
        f"Algorithms in each framework; hyperparameters: {words}",
        CurveGrid(rows, tuple(label(name) for name in columns), panels, ALGORITHMS),
        material.method,
        material.context(study, variant),
        [cell for cell in cells if hps in (OWN, cell.hps)],
    )


def without(variant: str, key: str) -> tuple[str, str]:
    """A variant without one of its settings, and that setting's value; empty where not there."""
    parts = variant_parts(variant)
    value = next((part.partition("=")[2] for part in parts if part.startswith(f"{key}=")), "")
    return ",".join(part for part in parts if not part.startswith(f"{key}=")), value


def pairs_of(material: Material, key: str) -> dict[tuple[str, str, str], list[tuple[Cell, Cell]]]:
    """Settings run with and without a setting, by study, its value and what else they share."""
    cells = sorted({cell for cell, _ in material.curves})
    found: dict[tuple[str, str, str], list[tuple[Cell, Cell]]] = {}
    for cell in cells:
        rest, value = without(cell.variant, key)
        plain = Cell(cell.study, cell.env, cell.algorithm, cell.hps, rest)
        if value and plain in cells:
            found.setdefault((cell.study, value, rest), []).append((plain, cell))
    return found


def variant_sheets(
    material: Material, name: str, key: str, title: str, headings: Callable[[str], tuple[str, str]]
) -> list[Sheet]:
    """One page per value of a setting: left without it, right with it.

    Args:
        material: What there is.
        name: Of the family.
        key: Name of the setting in variants.
        title: What the pages show.
        headings: Titles of the columns for a value.
    """
    pages = []
    found = pairs_of(material, key)
    for (study, value, rest), pairs in sorted(found.items()):
        grid = CurveGrid(
            tuple(_row(plain) for plain, _ in pairs),
            headings(value),
            tuple(tuple(lines_of_frameworks(material, cell) for cell in pair) for pair in pairs),
            FRAMEWORKS,
        )
        suffix = (value, *material.suffix(study, rest)) if len(found) > 1 else (value,)
        context = material.context(study, rest)
        cells = [cell for pair in pairs for cell in pair]
        pages.append(
            curve_sheet(file_name(name, *suffix), title, grid, material.method, context, cells)
        )
    return pages


def _row(cell: Cell) -> str:
    return f"{cell.env}\n{label(cell.algorithm)}\n{recipe_label(cell.hps)}"


def wrapper_sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per kind of wrappers."""
    title = "Training without and with wrappers around the environment"
    pages = variant_sheets(
        material, "wrappers", "wrappers", title, lambda value: ("no wrappers", value)
    )
    reason = "no setting was run both with wrappers=none and with another value of wrappers"
    return [*pages] or [NotDrawn("wrappers", reason)]


def copies_sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per number of copies."""
    title = "Training with one and with several copies of the environment"
    pages = variant_sheets(
        material, "vectorised", "n_envs", title, lambda value: ("1 copy", f"{value} copies")
    )
    reason = "no setting was run both with n_envs=1 and with another value of n_envs"
    return [*pages] or [NotDrawn("vectorised", reason)]
