"""Pages that put two variants of the same settings beside each other."""

from collections.abc import Callable

from analysis.figures.consistency import lines_of
from analysis.figures.curve_grid import FRAMEWORKS, CurveGrid, curve_sheet
from analysis.figures.material import Material
from analysis.figures.names import recipe_label
from analysis.figures.sheet import Sheet
from analysis.figures.style import label
from analysis.naming import file_name
from analysis.runs import Cell
from analysis.wording import variant_parts


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
            tuple(tuple(lines_of(material, cell) for cell in pair) for pair in pairs),
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
