"""Names and order of what stands on axes."""

import re
from collections.abc import Iterable

from analysis.figures.style import label
from analysis.naming import recipe_order
from analysis.ranking import OWN


def recipes(names: Iterable[str]) -> tuple[str, ...]:
    """Sets of hyperparameters in the thesis' order, others by name behind them."""
    return tuple(sorted(set(names), key=lambda name: (name == OWN, recipe_order(name))))


def recipe_label(name: str) -> str:
    """What a set of hyperparameters is called in figures."""
    if name == OWN:
        return "own defaults"
    return "original papers" if name == "original" else f"{label(name)} defaults"


def task_lines(text: str, width: int = 14) -> str:
    """A task's name in lines of at most `width` characters, broken before capitals.

    Further lines of the text stay as they are.
    """
    env, *rest = text.split("\n")
    lines = [""]
    for word in re.findall(r"[A-Z]?[^A-Z]+|[A-Z]+", env):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += word
    return "\n".join([*lines, *rest])
