"""Links from statements and tables to the runs behind them."""

import dataclasses
import os
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

from analysis.data.runs import Cell
from analysis.verdicts.groups import Group
from analysis.verdicts.study import StudyVerdicts


@dataclasses.dataclass(frozen=True)
class Links:
    """Where runs stand on the page, and their folders beside it.

    Attributes:
        numbers: Number of each group, by setting and framework.
        page_folder: Folder of the page.
    """

    numbers: dict[tuple[Cell, str], int]
    page_folder: Path

    def of(self, groups: Iterable[Group]) -> tuple[int, ...]:
        """Numbers of groups, each once, in order."""
        return tuple(sorted({self.numbers[group.cell, group.framework] for group in groups}))

    def of_cells(self, cells: Iterable[Cell]) -> tuple[int, ...]:
        """Numbers of all groups in some settings, in order."""
        wanted = set(cells)
        return tuple(number for (cell, _), number in self.numbers.items() if cell in wanted)

    def folder(self, path: Path) -> str:
        """Relative address of a run folder, as seen from the page; empty where there is none."""
        return self.file(path) + "/" if path.exists() else ""

    def file(self, path: Path) -> str:
        """Relative address of a file, as seen from the page."""
        return urllib.parse.quote(os.fsencode(os.path.relpath(path, self.page_folder)))


def make_links(verdicts: StudyVerdicts, page_folder: Path) -> Links:
    """Numbers all groups in their order.

    Args:
        verdicts: Holds the groups.
        page_folder: Folder of the page; need not exist.
    """
    keys = ((group.cell, group.framework) for group in verdicts.groups)
    return Links({key: number for number, key in enumerate(keys)}, page_folder.resolve())
