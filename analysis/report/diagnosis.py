"""What the diagnosis found while runs trained, on the page."""

from analysis.data.diagnosed import Diagnosed
from analysis.report.links import Links
from analysis.report.statements import plural
from analysis.report.tables import SortableTable, Value
from analysis.words import label

TABLE = "t-diagnosis"


def diagnosis_words(found: Diagnosed) -> tuple[str, ...]:
    """In sentences; empty where no run was watched."""
    if not found.watched and not found.unread:
        return ()
    touched = ", ".join(
        f"{count:,} with {level}s" for level, count in found.touched.items() if level != "note"
    )
    sentences = [
        f"{found.watched:,} of {plural(found.folders, 'run folder')} have a diagnosis "
        f"(diagnosis=on), among them those of runs that are not used; {touched}. "
        "No result and no verdict hangs on it."
    ]
    if found.notes:
        told = ", ".join(f"{name} in {plural(count, 'run')}" for name, count in found.notes)
        sentences.append(f"Notes, on what one should know of task or run: {told}.")
    sentences += [f"{plural(count, 'run')}: {reason}." for reason, count in found.unread]
    return tuple(sentences)


def diagnosis_table(found: Diagnosed, links: Links) -> SortableTable:
    """Which checks found something, in runs of which framework, and from which step on."""
    columns = (
        *(("level", False), ("check", False), ("finds that", False), ("framework", False)),
        *(("algorithm", False), ("task", False), ("runs", True), ("of watched", True)),
        *(("from step", True), ("first seen", False), ("try", False)),
    )
    rows = tuple(
        (
            (
                *(Value(f.level), Value(f.check), Value(f.name), Value(label(f.framework))),
                *(Value(label(f.algorithm)), Value(f.task)),
                *(Value(f"{n:,}", str(n)) for n in (f.runs, f.watched, f.first_step)),
                *(Value(f.seen), Value(f.remedies)),
            ),
            links.of_cells(f.cells),
        )
        for f in found.findings
    )
    return SortableTable(TABLE, "Findings", columns, rows)
