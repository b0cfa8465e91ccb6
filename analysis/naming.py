"""Names of files for parts of a study."""

import re
from collections.abc import Iterable

from analysis.runs import Cell
from analysis.wording import common_parts, variant_parts


def file_name(*parts: str) -> str:
    """Parts joined to a name that is safe in any file system; empty parts are left out."""
    return "_".join(re.sub(r"[^A-Za-z0-9.-]+", "-", part).strip("-") for part in parts if part)


def suffix(
    cells: Iterable[Cell], study: str, variant: str, algorithm: str | None = None
) -> tuple[str, str]:
    """Study and variant as far as they are needed to tell files apart.

    Args:
        cells: All settings that there are.
        study: Of the file.
        variant: Of the file.
        algorithm: Of the file; None where it holds all.

    Returns:
        The study, empty if there is but one, and what stands in this variant and not in all
        variants of the algorithm.
    """
    known = list(cells)
    own = [c for c in known if c.study == study and algorithm in (None, c.algorithm)]
    apart = set(variant_parts(variant)) - set(common_parts(own))
    several = len({cell.study for cell in known}) > 1
    return study if several else "", ",".join(sorted(apart))


def recipe_order(name: str) -> tuple[int, str]:
    """Sorts sets of hyperparameters as the thesis does, others by name behind them."""
    order = ("sb3", "cleanrl", "torchrl", "tianshou", "original")
    return (order.index(name) if name in order else len(order), name)
