"""What the parts of a comparison are called in tables and figures."""

import re
from collections.abc import Sequence

from analysis.compare import Comparison, Furthest, Score
from analysis.notes import Notes
from analysis.numbers import MISSING, brackets, number
from analysis.runs import Cell, Excluded, Loaded, Run


def frameworks(comparisons: Sequence[Comparison]) -> list[str]:
    """Every framework that appears, sorted."""
    return sorted({score.framework for row in comparisons for score in row.scores})


def title(cells: Sequence[Cell]) -> str:
    """Heading with what all settings have in common of study and variant."""
    studies = {cell.study for cell in cells}
    parts = [f"study {study}" for study in studies] if len(studies) == 1 else []
    parts += common_parts(cells)
    return f"Final score ({', '.join(parts)})" if parts else "Final score"


def label(cell: Cell, cells: Sequence[Cell], marks: str) -> list[str]:
    """A setting in a few short lines, without what `title` says already.

    Args:
        cell: The setting.
        cells: All settings shown beside it.
        marks: Numbers of the remarks on it.
    """
    lines = [cell.env, f"{cell.algorithm}, {cell.hps}{marks}"]
    if len({other.study for other in cells}) > 1:
        lines.append(f"study {cell.study}")
    return lines + own_parts(cell, cells)


def common_parts(cells: Sequence[Cell]) -> list[str]:
    """The settings that stand in every variant."""
    variants = [variant_parts(cell.variant) for cell in cells]
    return [part for part in variants[0] if all(part in variant for variant in variants)]


def own_parts(cell: Cell, cells: Sequence[Cell]) -> list[str]:
    """The settings in a variant that `common_parts` leaves out."""
    common = common_parts(cells)
    return [part for part in variant_parts(cell.variant) if part not in common]


def variant_parts(variant: str) -> list[str]:
    """The settings in a variant; commas inside a value do not part it."""
    return re.split(r",(?=\w+=)", variant)


def score_lines(row: Comparison, framework: str) -> list[str]:
    """Mean, interval and n of one framework."""
    score = next((score for score in row.scores if score.framework == framework), None)
    if score is None:
        return [MISSING]
    if score.used == 0:
        return ["no run used", _size(score)]
    return [number(score.final.mean), brackets(score.final), _size(score)]


def furthest_lines(furthest: Furthest | None) -> list[str]:
    """Difference, interval and names of the pair."""
    if furthest is None:
        return [MISSING]
    gap = furthest.difference
    return [number(gap.mean), brackets(gap), f"({furthest.higher} - {furthest.lower})"]


def marks(row: Comparison, notes: Notes) -> str:
    """Numbers of the remarks on a row, to stand behind its label."""
    return "".join(f" [{mark}]" for mark in notes.marks[row.cell])


def note_lines(notes: Notes) -> list[str]:
    """All remarks, the numbered ones first."""
    return [f"[{i}] {text}" for i, text in enumerate(notes.marked, 1)] + list(notes.general)


def place(item: Run | Excluded, loaded: Loaded) -> str:
    """Where a folder is, as short as possible."""
    relative = str(item.path.relative_to(loaded.root))
    return item.path.name if relative == "." else relative


def _size(score: Score) -> str:
    return f"(n={score.used}/{score.requested})"
