"""`parallax bugs`: brings bugs of released versions back and asks the probes about them."""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.cli.arguments import (
    add_frameworks_argument,
    check_output_folders,
    split_names,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.adapter import find_adapter_entry_points
from parallax.harness.contract.data_files import load_json
from parallax.harness.detection.released_bugs import (
    FAILED,
    FOUND,
    MISSED,
    NAMED,
    NOT_DRIVEN,
    SILENT,
    BugCase,
    BugOutcome,
    count_outcomes,
    list_bug_cases,
    measure_bugs,
    sort_outcomes,
)
from parallax.harness.record.files import write_texts_atomically

_EPILOG = """\
exit codes:
  0  every bug that is driven is found, and every negative control is silent
  1  a bug is missed, a control is not silent, or a measurement failed
  2  bad input

examples:
  parallax bugs --list
  parallax bugs --frameworks sb3 --expected-only --json bugs.json
  parallax bugs --answers bugs.json --markdown bugs.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add_frameworks_argument(parser)
    add(
        "--bug",
        type=split_names,
        default=[],
        metavar="A,B",
        help="only these bugs, such as bug.signed-kl (default: all)",
    )
    add("--list", action="store_true", help="list the bugs, do not run them")
    add(
        "--expected-only",
        action="store_true",
        help="measure only the probes that should see a bug: faster, and it says only whether a "
        "bug is named",
    )
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the outcomes to this JSON file, after each algorithm; outcomes of other bugs "
        "that it holds stay",
    )
    add("--markdown", type=Path, metavar="FILE", help="write the outcomes to this Markdown page")
    add(
        "--answers",
        type=Path,
        metavar="FILE",
        help="read outcomes from a file of --json; run nothing",
    )


def run(options: argparse.Namespace) -> int:
    """Measure the bugs, print their outcomes and write the files that the options name.

    Returns:
        0; 1 where a bug is missed or a control is not silent.
    """
    frameworks = options.frameworks or sorted(find_adapter_entry_points())
    cases = list_bug_cases(frameworks, options.bug)
    if options.list:
        print(*map(format_case, cases), sep="\n")
        return 0
    check_output_folders([options.json, options.markdown])
    outcomes = (
        load_outcomes(options.answers) if options.answers else collect_outcomes(cases, options)
    )
    chosen = {(case.framework, case.algorithm, case.bug.name) for case in cases}
    outcomes = [item for item in outcomes if get_key(item) in chosen]
    table = render_table(outcomes)
    print(table)
    if options.markdown:
        write_texts_atomically({options.markdown: f"# Outcomes of released bugs\n\n{table}\n"})
    good = {NAMED, FOUND, SILENT, NOT_DRIVEN}
    return 0 if all(item.outcome in good for item in outcomes) else 1


def format_case(case: BugCase) -> str:
    """Return one line about a bug."""
    state = "" if case.is_driven else f" (not driven: {case.release.blind})"
    until = f"{case.release.last_bad} -> {case.release.first_good or 'open'}"
    return f"{case.framework:9}{case.algorithm:5} {case.bug.name:38} {until:18}{state}".rstrip()


def collect_outcomes(cases: Sequence[BugCase], options: argparse.Namespace) -> list[BugOutcome]:
    """Measure the bugs; the outcomes so far are written after each one."""
    outcomes: list[BugOutcome] = []
    stored = load_outcomes(options.json) if options.json and options.json.exists() else []
    with CommandProgress(len(cases)) as progress:
        for outcome in measure_bugs(cases, options.expected_only, lambda _: None):
            outcomes.append(outcome)
            progress.advance(f"{outcome.framework} {outcome.bug}")
            if options.json:
                new = {get_key(item) for item in outcomes}
                others = [item for item in stored if get_key(item) not in new]
                write_texts_atomically({options.json: outcomes_to_text([*others, *outcomes])})
    return outcomes


def get_key(item: BugOutcome) -> tuple[str, str, str]:
    """Return the key that identifies an outcome."""
    return item.framework, item.algorithm, item.bug


def outcomes_to_text(outcomes: Sequence[BugOutcome]) -> str:
    """Return outcomes as JSON, one line each."""
    lines = (json.dumps(dataclasses.asdict(item)) for item in sort_outcomes(outcomes))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def load_outcomes(path: Path) -> list[BugOutcome]:
    """Load stored outcomes."""
    return load_json(path, list[BugOutcome], "outcomes. Write them with --json")


def render_table(outcomes: Sequence[BugOutcome]) -> str:
    """Return outcomes as a Markdown table, misses first, with their counts above it."""
    lines = [
        format_counts(outcomes),
        "",
        "| framework | algorithm | bug | last bad -> first good | outcome | changed, or why |",
        "|---|---|---|---|---|---|",
    ]
    for item in sort_outcomes(outcomes):
        listed = ", ".join(item.changed[:3])
        more = f" and {len(item.changed) - 3} more" if len(item.changed) > 3 else ""
        detail = "; ".join(filter(None, (listed + more, item.reason)))
        until = f"{item.last_bad} -> {item.first_good or 'open'}"
        lines.append(
            f"| {item.framework} | {item.algorithm} | {item.bug.removeprefix('bug.')} | {until} | "
            f"{item.outcome} | {detail} |"
        )
    return "\n".join(lines)


def format_counts(outcomes: Sequence[BugOutcome]) -> str:
    """Return how many bugs are found and named, in a sentence."""
    counts = count_outcomes(outcomes)
    found = counts.get(NAMED, 0) + counts.get(FOUND, 0)
    driven = found + counts.get(MISSED, 0) + counts.get(FAILED, 0)
    text = ", ".join(f"{number} {name}" for name, number in counts.items())
    return f"{found} of {driven} driven bugs are found, {counts.get(NAMED, 0)} named ({text})."
