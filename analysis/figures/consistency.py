"""Learning curves of all frameworks: tasks down, hyperparameters across (thesis Figures 18-20)."""

from analysis.figures.curve_grid import FRAMEWORKS, CurveGrid, curve_sheet
from analysis.figures.material import Material, frameworks_of
from analysis.figures.names import recipe_label, recipes
from analysis.figures.parts import Line, line_of
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import label
from analysis.naming import file_name
from analysis.runs import Cell


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per algorithm."""
    return [_sheet(material, *setting) for setting in material.settings] or [
        NotDrawn("consistency", "no run can be used")
    ]


def lines_of(material: Material, cell: Cell) -> tuple[Line, ...]:
    """One line per framework with a run in a setting."""
    return tuple(
        line_of(name, material.curves[cell, name], material.finals[cell, name], requested)
        for name in frameworks_of(key for key in material.curves if key[0] == cell)
        for requested in [material.groups[cell, name].requested]
    )


def _sheet(material: Material, study: str, algorithm: str, variant: str) -> Sheet:
    cells = material.cells(study, algorithm, variant)
    rows = tuple(sorted({cell.env for cell in cells}))
    columns = recipes(cell.hps for cell in cells)
    panels = tuple(
        tuple(lines_of(material, Cell(study, env, algorithm, hps, variant)) for hps in columns)
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
