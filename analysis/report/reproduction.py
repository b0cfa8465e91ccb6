"""Reproduction on the page: do the frameworks reach the published scores?"""

from collections.abc import Sequence

from analysis.data.runs import Cell
from analysis.report.links import Links
from analysis.report.statements import (
    AnswerInWords,
    Sentence,
    answer,
    by_variant,
    p_text,
    plural,
    sizes,
    verdict_counts,
    where,
)
from analysis.report.tables import (
    SortableTable,
    Value,
    amount,
    p_value,
    setting_columns,
    size_values,
)
from analysis.verdicts.reproduction import BETTER, SIMILAR, WORSE, ReproductionVerdict
from analysis.verdicts.study import StudyVerdicts
from analysis.words import label, number

TARGETS = "thesis_targets"
_ORDER = (WORSE, SIMILAR, BETTER)


def reproduction(verdicts: StudyVerdicts, links: Links) -> AnswerInWords:
    """Do the frameworks reach the published scores?"""
    items = [item for item in verdicts.reproduction if item.published.table == TARGETS]
    question = "Do they reach what the original papers report?"
    if not items:
        text = "No run can be held against a score read off the original papers: that takes the "
        text += "hyperparameters called original on one of their tasks."
        return AnswerInWords("reproduction", question, Sentence(text, ()), (), (), 0)
    cells = [item.group.cell for item in items]
    aside = [item for item in items if item.two_sided and not verdicts.is_main(item.group.cell)]
    main = [item for item in items if verdicts.is_main(item.group.cell)]
    items, aside = (main, aside) if main else (items, [])
    tested = [item for item in items if item.two_sided]
    head = _headline(items, tested, verdicts.options.alpha)
    parts = []
    for algorithm in sorted({item.group.cell.algorithm for item in tested}):
        own = [item for item in tested if item.group.cell.algorithm == algorithm]
        text = f"{label(algorithm)}: {verdict_counts([item.two_sided for item in own], _ORDER)}."
        groups = links.of(item.group for item in own)
        parts.append(Sentence(text, groups, "t-reproduction", "read-off"))
    for words, own in by_variant(aside, cells, lambda item: item.group.cell):
        text = f"Apart from these, {words}: "
        text += f"{verdict_counts([item.two_sided for item in own], _ORDER)}."
        groups = links.of(item.group for item in own)
        parts.append(Sentence(text, groups, "t-reproduction", "read-off"))
    clear = sorted(
        (item for item in tested if item.two_sided != SIMILAR and not item.stops_early),
        key=lambda i: i.p,
    )
    findings = [_finding(item, cells, links) for item in clear]
    groups = links.of(item.group for item in items)
    headline = Sentence(head, groups, "t-reproduction", "read-off")
    return answer("reproduction", question, headline, parts, findings)


def _headline(
    items: Sequence[ReproductionVerdict], tested: Sequence[ReproductionVerdict], alpha: float
) -> str:
    head = (
        f"Of {plural(len(tested), 'comparison')} with scores of the original papers, by a "
        f"two-sided test at {alpha:.0%} without correction: "
        f"{verdict_counts([item.two_sided for item in tested], _ORDER)}. In the thesis' form: "
        f"{verdict_counts([item.thesis_form for item in tested], _ORDER)}. Similar means that no "
        "difference was shown."
    )
    if tested:
        head += f" {sizes(item.group for item in tested)}"
    odd = sum(bool(item.remarks) for item in tested)
    if odd:
        share = "all" if odd == len(tested) else str(odd)
        head += (
            f" In {share} of them the two numbers are not of one kind: another statistic, task "
            "version or number of steps, as the table says."
        )
    early = sum(item.stops_early for item in tested)
    if early:
        head += (
            f" {early} of them stop before half of the published steps: there, worse says that "
            "training had not come as far, and nothing of what it would reach."
        )
    if len(tested) < len(items):
        head += f" {len(items) - len(tested)} more cannot be tested: fewer than two seeds."
    return head


def _finding(item: ReproductionVerdict, cells: Sequence[Cell], links: Links) -> Sentence:
    cell, row = item.group.cell, item.published
    text = (
        f"{where(cell, cells)}: {label(item.group.framework)} is "
        f"{item.two_sided}, {number(float(item.group.moments.mean))} against {number(row.mean)} "
        f"(n = {item.group.n}, {p_text(item.p)})."
    )
    return Sentence(text, links.of([item.group]), "t-reproduction", "read-off")


def reproduction_table(verdicts: StudyVerdicts, links: Links) -> SortableTable:
    """One row per framework and published number."""
    items = verdicts.reproduction
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
        size_values(item.group),
        Value(source),
        Value("; ".join(item.remarks)),
    ]
