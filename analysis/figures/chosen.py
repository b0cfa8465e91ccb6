"""Figures of settings that the user names: curves over final scores (thesis Figures 6-11)."""

import dataclasses
import difflib

from analysis.data.runs import Cell
from analysis.figures import curves
from analysis.figures.curves import ALGORITHMS, FRAMEWORKS
from analysis.figures.highlights import Highlights, Panel, highlight_sheet
from analysis.figures.panels import Line
from analysis.figures.sheet import Sheet
from analysis.verdicts.study import Material
from analysis.words import OWN, file_name, label, recipe_label

ALL, OWN_RECIPE = "all", "own"


class UnknownPanelError(Exception):
    """A panel that there are no runs for, or that cannot be read; says what there is."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """One figure to be drawn.

    Attributes:
        name: Of its files.
        settings: Task, algorithm and hyperparameters of each panel. Algorithm `all` stands for a
            panel per framework with every algorithm; hyperparameters `own` for each framework's.
    """

    name: str
    settings: tuple[tuple[str, str, str], ...]


def parse_choice(text: str) -> Choice:
    """Reads `[NAME=]ENV:ALGORITHM:HPS,...`.

    Raises:
        UnknownPanelError: It is not of that form, or mixes two kinds of panels.
    """
    head, equals, rest = text.partition("=")
    name, settings = (head.strip(), []) if equals else ("panels", [])
    for part in (rest if equals else head).split(","):
        fields = tuple(field.strip() for field in part.split(":"))
        if len(fields) != 3 or not all(fields):
            raise UnknownPanelError(
                f"--panels={text}: {part.strip()!r} is not ENV:ALGORITHM:HPS. Give for instance "
                "--panels Ant-v4:ppo:sb3,Hopper-v4:ppo:original."
            )
        settings.append((fields[0], fields[1], fields[2]))
    if not file_name(name):
        raise UnknownPanelError(
            f"--panels={text}: the name before = is empty. Give one, or leave = out."
        )
    if len({algorithm == ALL for _, algorithm, _ in settings}) > 1:
        raise UnknownPanelError(
            f"--panels={text}: panels of one algorithm and of {ALL} do not go into one figure. "
            "Give --panels twice."
        )
    return Choice(file_name(name), tuple(settings))


def chosen_sheet(material: Material, choice: Choice) -> Sheet:
    """The figure that was asked for.

    Runs of variants, that is of side experiments, are taken only where there are no others.

    Raises:
        UnknownPanelError: There are no runs for a panel.
    """
    panels: list[Panel] = []
    cells: list[Cell] = []
    kind = FRAMEWORKS
    for env, algorithm, hps in choice.settings:
        if algorithm == ALL:
            kind = ALGORITHMS
            found = _of_all(material, env, hps)
        else:
            found = _of_one(material, env, algorithm, hps)
        if not found:
            raise UnknownPanelError(_unknown(material, env, algorithm, hps))
        panels += [panel for panel, _ in found]
        cells += [cell for _, own in found for cell in own]
    title = "Chosen settings"
    how = "as asked for: " + ", ".join(":".join(setting) for setting in choice.settings)
    cells = sorted(set(cells))
    contexts = sorted({material.context(cell.study, cell.variant) for cell in cells})
    shared = kind == ALGORITHMS and len(choice.settings) == 1
    content = Highlights(tuple(panels), kind, shared)
    return highlight_sheet(material, choice.name, title, how, content, "; ".join(contexts), cells)


def _of_one(
    material: Material, env: str, algorithm: str, hps: str
) -> list[tuple[Panel, list[Cell]]]:
    known = {cell for cell, _ in material.curves}
    found = sorted(c for c in known if (c.env, c.algorithm, c.hps) == (env, algorithm, hps))
    choices = _main(material, found)
    several = len(choices) > 1
    return [
        ((_title(cell, recipe_label(hps), several), _lines(material, cell)), [cell])
        for cell in choices
    ]


def _lines(material: Material, cell: Cell) -> tuple[Line, ...]:
    return curves.lines_of_frameworks(material, cell)


def _of_all(material: Material, env: str, hps: str) -> list[tuple[Panel, list[Cell]]]:
    """A panel per framework, with all its algorithms."""
    recipe = OWN if hps == OWN_RECIPE else hps
    keys = {cell for cell, _ in material.curves if cell.env == env and recipe in (OWN, cell.hps)}
    found = []
    for study, variant in sorted({(c.study, c.variant) for c in _main(material, sorted(keys))}):
        at = {(c, name) for c, name in material.curves if (c.study, c.variant) == (study, variant)}
        for framework in sorted({name for cell, name in at if cell.env == env}):
            lines = curves.lines_of_algorithms(material, (study, recipe, variant), env, framework)
            own = [c for c, name in at if name == framework and c.env == env]
            wanted = framework if recipe == OWN else recipe
            if lines:
                title = f"{env}, {recipe_label(recipe)}\n{label(framework)}"
                found.append(((title, lines), [c for c in own if c.hps == wanted]))
    return found


def _main(material: Material, cells: list[Cell]) -> list[Cell]:
    return [cell for cell in cells if material.verdicts.is_main(cell)] or cells


def _title(cell: Cell, recipe: str, several: bool) -> str:
    apart = f"\n{cell.study}, {cell.variant}" if several else ""
    return f"{cell.env}, {label(cell.algorithm)}\n{recipe}{apart}"


def _unknown(material: Material, env: str, algorithm: str, hps: str) -> str:
    """What is asked for and what there is instead, the closest first."""
    known = {(cell.env, cell.algorithm, cell.hps) for cell, _ in material.curves}
    if algorithm == ALL:
        known = {(one, ALL, recipe) for one, _, recipe in known}
    texts = sorted(":".join(setting) for setting in known)
    asked = f"{env}:{algorithm}:{hps}"
    close = difflib.get_close_matches(asked, texts, 3, 0.0) if texts else []
    return f"--panels={asked}: no run can be used. There are: {', '.join(close) or 'none'}" + (
        f" and {len(texts) - len(close)} more." if len(texts) > len(close) else "."
    )
