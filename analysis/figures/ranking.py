"""Learning curves of all algorithms: tasks down, frameworks across (thesis Figures 21-25)."""

from analysis.figures.curve_grid import ALGORITHMS, CurveGrid, curve_sheet
from analysis.figures.material import Material
from analysis.figures.names import recipe_label, recipes
from analysis.figures.parts import Line, line_of
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import label
from analysis.naming import file_name
from analysis.ranking import OWN
from analysis.runs import Cell

Configuration = tuple[str, str, str]  # study, hyperparameters, variant


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per set of hyperparameters, and one for each framework's own."""
    pages = [_sheet(material, *key) for key in configurations(material)]
    reason = "no two frameworks ran the same two algorithms in the same setting"
    return [page for page in pages if page is not None] or [NotDrawn("ranking", reason)]


def configurations(material: Material) -> list[Configuration]:
    """Study, hyperparameters and variant under which algorithms can be ranked."""
    found = {(cell.study, cell.hps, cell.variant) for cell, _ in material.curves}
    own = {(c.study, OWN, c.variant) for c, name in material.curves if c.hps == name}
    order = recipes(hps for _, hps, _ in found | own)
    return sorted(found | own, key=lambda key: (key[0], key[2], order.index(key[1])))


def lines_of(material: Material, key: Configuration, env: str, framework: str) -> tuple[Line, ...]:
    """One line per algorithm that a framework ran in a task under a configuration."""
    study, hps, variant = key
    recipe = framework if hps == OWN else hps
    lines = []
    for algorithm in sorted({cell.algorithm for cell, _ in material.curves}):
        at = (Cell(study, env, algorithm, recipe, variant), framework)
        if at in material.curves:
            requested = material.groups[at].requested
            lines.append(line_of(algorithm, material.curves[at], material.finals[at], requested))
    return tuple(lines)


def _sheet(material: Material, study: str, hps: str, variant: str) -> Sheet | None:
    cells = material.cells(study, None, variant)
    rows = tuple(sorted({cell.env for cell in cells if hps in (OWN, cell.hps)}))
    columns = tuple(
        sorted({name for cell, name in material.curves if cell in cells and hps in (OWN, cell.hps)})
    )
    panels = tuple(
        tuple(lines_of(material, (study, hps, variant), env, name) for name in columns)
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
