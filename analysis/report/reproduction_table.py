"""Every framework against every published number, as a sortable table."""

from analysis.answers import Answers
from analysis.report.links import Links
from analysis.report.reproduction_words import TARGETS
from analysis.report.table_parts import (
    SortableTable,
    Value,
    amount,
    p_value,
    setting_columns,
    sizes,
)
from analysis.reproduction import ReproductionVerdict


def reproduction_table(answers: Answers, links: Links) -> SortableTable:
    """One row per framework and published number."""
    items = answers.reproduction
    heads = setting_columns([item.group.cell for item in items])
    columns = [(name, False) for name, _ in heads]
    columns += [("framework", False), ("two-sided", False), ("thesis' form", False)]
    columns += [("ours", True), ("published", True), ("difference", True), ("p", True)]
    columns += [("n", True), ("published by", False), ("remarks", False)]
    rows = tuple(
        (
            (*(Value(get(item.group.cell)) for _, get in heads), *_published_values(item)),
            links.of([item.group]),
        )
        for item in items
    )
    return SortableTable("t-reproduction", "Every published number", tuple(columns), rows)


def _published_values(item: ReproductionVerdict) -> list[Value]:
    row = item.published
    source = "read-off of the original paper" if row.table == TARGETS else row.table
    return [
        Value(item.group.framework),
        Value(item.two_sided or "-", kind=item.two_sided),
        Value(item.thesis_form or "-", kind=item.thesis_form),
        amount(float(item.group.moments.mean)),
        amount(row.mean),
        amount(item.difference),
        p_value(item.p),
        sizes(item.group),
        Value(source),
        Value("; ".join(item.remarks)),
    ]
