"""Every run folder as a row of the page."""

import dataclasses
import math

from analysis.report.links import Links
from analysis.report.table_parts import setting_columns
from analysis.runs import Excluded, Loaded, Run
from analysis.wording import place


@dataclasses.dataclass(frozen=True)
class RunRow:
    """One run folder.

    Attributes:
        group: Number of its group.
        first: Whether it is the first of its group.
        setting: What names its setting, in the columns of `setting_columns`.
        framework: Its framework.
        seed: Its seed; -1 where not told.
        score: Final score as text; empty if not used.
        last_step: Environment steps at the last evaluation; -1 if not used.
        hours: Duration; -1 where not told.
        reason: Why it is not used; empty if it is.
        link: Relative address of the folder.
        path: The folder below the results folder.
    """

    group: int
    first: bool
    setting: tuple[str, ...]
    framework: str
    seed: int
    score: str
    last_step: int
    hours: float
    reason: str
    link: str
    path: str


def run_rows(loaded: Loaded, links: Links) -> tuple[RunRow, ...]:
    """Every run folder, ordered by group and seed."""
    items = sorted(
        loaded.folders,
        key=lambda i: (
            links.numbers[i.id.cell, i.id.framework],
            -1 if i.id.seed is None else i.id.seed,
            i.path,
        ),
    )
    heads = setting_columns(loaded.cells)
    rows, before = [], -1
    for item in items:
        group = links.numbers[item.id.cell, item.id.framework]
        setting = tuple(get(item.id.cell) for _, get in heads)
        rows.append(_run_row(item, group, group != before, setting, loaded, links))
        before = group
    return tuple(rows)


def _run_row(
    item: Run | Excluded,
    group: int,
    first: bool,
    setting: tuple[str, ...],
    loaded: Loaded,
    links: Links,
) -> RunRow:
    seconds = item.seconds if isinstance(item, Run) else math.nan
    return RunRow(
        group=group,
        first=first,
        setting=setting,
        framework=item.id.framework,
        seed=-1 if item.id.seed is None else item.id.seed,
        score=f"{item.final_score:.2f}" if isinstance(item, Run) else "",
        last_step=int(item.timesteps[-1]) if isinstance(item, Run) else -1,
        hours=-1.0 if math.isnan(seconds) else seconds / 3600,
        reason="" if isinstance(item, Run) else item.reason,
        link=links.folder(item.path),
        path=place(item, loaded),
    )
