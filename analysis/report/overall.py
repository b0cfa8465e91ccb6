"""Aggregates over all tasks, as a sortable table."""

from collections.abc import Sequence

from analysis.data.runs import Cell
from analysis.report.links import Links
from analysis.report.tables import SortableTable, Value, amount, ends, setting_columns
from analysis.stats.aggregates import NAMES
from analysis.verdicts.groups import Group
from analysis.verdicts.overall import Overall
from analysis.verdicts.study import StudyVerdicts


def overall_table(items: Sequence[Overall], verdicts: StudyVerdicts, links: Links) -> SortableTable:
    """One row per framework, algorithm and set of hyperparameters, over all tasks."""
    heads = setting_columns([Cell(i.study, "", i.algorithm, i.hps, i.variant) for i in items])
    heads = [head for head in heads if head[0] != "task"]
    columns = [(name, False) for name, _ in heads] + [("framework", False)]
    for name in NAMES:
        better = " (lower is better)" if name == "optimality_gap" else ""
        columns += [(name.replace("_", " ") + better, True), ("95% interval", True)]
    columns += [("tasks", True), ("n per task", True)]
    rows = []
    for item in items:
        cell = Cell(item.study, "", item.algorithm, item.hps, item.variant)
        for i, framework in enumerate(item.aggregates.names):
            found = item.aggregates
            numbers = [
                value
                for k in range(len(NAMES))
                for value in (
                    amount(float(found.point[i, k])),
                    ends(float(found.low[i, k]), float(found.high[i, k])),
                )
            ]
            used = sorted(set(found.seeds[i]))
            span = " to ".join(map(str, dict.fromkeys((used[0], used[-1]))))
            groups = [group for group in verdicts.groups if _belongs(group, item, framework)]
            values = (*(Value(get(cell)) for _, get in heads), Value(framework), *numbers)
            extra = (Value(str(len(item.tasks)), str(len(item.tasks))), Value(span, str(used[0])))
            rows.append(((*values, *extra), links.of(groups)))
    return SortableTable("t-overall", "Aggregates over all tasks", tuple(columns), tuple(rows))


def _belongs(group: Group, item: Overall, framework: str) -> bool:
    cell = group.cell
    return (
        (cell.study, cell.algorithm, cell.hps, cell.variant)
        == (item.study, item.algorithm, item.hps, item.variant)
        and cell.env in item.tasks
        and group.framework == framework
    )
