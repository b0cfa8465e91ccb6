"""`parallax probe`: asks the installed implementations what one update does."""

import argparse
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, TextIO

from parallax.harness.contract.algorithms import PROBED_ALGORITHMS as ALGORITHMS
from parallax.harness.contract.fields import HANDLED_ERRORS, SpecError, report_error
from parallax.harness.probes import baseline, catalogue, intervention_check, report, runner
from parallax.harness.probes.baseline import merge_reports
from parallax.harness.probes.claims import claims
from parallax.harness.probes.claims import page as text
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import ProbeReport, report_to_text
from parallax.harness.probes.runner import find_probe_targets, make_drift_targets
from parallax.harness.record.files import write_texts_atomically

EXIT_CODES_HELP = """exit codes:
  0  every probe ran; with --baseline or --drift: no answer changed
  1  an answer changed
  2  bad input
  3  a probe failed to run
"""


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, checked against each other.

    Raises:
        SpecError: Options that are not known or do not go together.
    """
    options = build_parser().parse_args(arguments)
    if options.update_baseline and not options.baseline:
        raise SpecError("--update-baseline needs --baseline FILE, the file to write.")
    if options.intervention:
        intervention_check.get_single_framework(options.intervention, options.frameworks)
        given = [
            name
            for name in ("drift", "answers", "baseline", "python", "ledger")
            if getattr(options, name)
        ]
        if given:
            raise SpecError(f"--intervention asks about a change: drop --{given[0]}.")
    if options.drift:
        if options.answers:
            raise SpecError("--answers FILE asks nobody: drop --drift.")
        if not options.python:
            raise SpecError("--drift needs --python PATH, the other interpreter.")
        if options.frameworks not in (None, [options.drift]):
            raise SpecError(f"--drift {options.drift} is about one framework: drop --frameworks.")
        if options.baseline:
            raise SpecError("--drift compares with the other interpreter: drop --baseline.")
        options.frameworks = [options.drift]
    elif options.answers and options.python:
        raise SpecError("--answers FILE asks nobody: drop --python.")
    elif options.python and (options.frameworks is None or len(options.frameworks) != 1):
        raise SpecError("--python runs one framework: name it with --frameworks or --drift.")
    return options


class _ProbeParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message}; {self.prog} --help lists the options.")


def build_parser() -> argparse.ArgumentParser:
    """All options."""
    result = _ProbeParser(
        prog="parallax probe",
        description="Asks the installed implementations what one update does.",
        epilog=EXIT_CODES_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = result.add_argument
    algorithms = ",".join(sorted(ALGORITHMS))
    add(
        "--algorithm",
        type=split_names,
        default=[],
        metavar="A,B",
        help=f"of {algorithms}; default all",
    )
    add("--frameworks", type=split_names, metavar="A,B", help="such as sb3,cleanrl; default all")
    add("--probe", type=split_names, default=[], metavar="A,B", help="parts of probes' names")
    add("--list", action="store_true", help="list the probes and stop")
    add("--all", action="store_true", help="print also the probes that find no difference")
    add("--json", type=Path, metavar="FILE", help="write the answers")
    add("--markdown", type=Path, metavar="FILE", help="write the answers as a Markdown page")
    add("--html", type=Path, metavar="FILE", help="write a page with figures")
    add("--ledger", type=Path, metavar="FILE", help="write what is known of differences")
    add("--answers", type=Path, metavar="FILE", help="read answers from --json instead of asking")
    add("--baseline", type=Path, metavar="FILE", help="compare with answers stored by --json")
    add("--update-baseline", action="store_true", help="store the answers in --baseline FILE")
    add("--drift", metavar="FRAMEWORK", help="compare its versions in this Python and --python")
    add("--intervention", metavar="NAME", help="show what it changes; parallax interventions")
    add("--python", metavar="PATH", help="another interpreter, for one framework")
    return result


def split_names(text: str) -> list[str]:
    """Comma-separated names, each once."""
    return list(dict.fromkeys(name for name in text.split(",") if name))


def check_output_folders(options: argparse.Namespace) -> None:
    """Finds out before probes run that a file cannot be written.

    Raises:
        SpecError: Its folder is not there.
    """
    for path in (options.json, options.markdown, options.html, options.ledger, options.baseline):
        if path is not None and not path.absolute().parent.is_dir():
            raise SpecError(f"{path}: the folder {path.parent} is not there.")


def check_claim_coverage(
    options: argparse.Namespace, implementations: Sequence[str], probes: Sequence[str]
) -> None:
    """Finds out before probes run that too few are asked for a ledger.

    Raises:
        SpecError: Says what is missing.
    """
    if options.ledger:
        text.check_answers_complete(implementations, probes, claims.load_claims())


def render_files(found: ProbeReport, options: argparse.Namespace) -> dict[Path, str]:
    """Contents of the files that were asked for.

    Raises:
        SpecError: The ledger lacks answers.
    """
    contents: dict[Path, str] = {}
    if options.json:
        contents[options.json] = report_to_text(found)
    if options.ledger:
        contents[options.ledger] = text.render_claims_page(found, claims.load_claims())
    if options.html or options.markdown:
        from parallax.harness.probes import report as page  # a plotting library takes a second

        if options.html:
            contents[options.html] = page.render_html_page(found)
        if options.markdown:
            contents |= page.render_markdown_pages(options.markdown, found)
    return contents


def render_baseline(
    found: ProbeReport, stored: ProbeReport | None, options: argparse.Namespace
) -> dict[Path, str]:
    """The new baseline: what was asked replaces what was stored, the rest stays."""
    return {options.baseline: report_to_text(merge_reports(found, stored) if stored else found)}


def write_output_files(contents: Mapping[Path, str]) -> None:
    """Writes all files or none.

    Raises:
        SpecError: One cannot be written.
    """
    try:
        write_texts_atomically(contents)
    except OSError as error:
        raise SpecError(f"{error.filename}: cannot be written ({error.strerror}).") from error


class ProbeProgress:
    """One line that is written over on a terminal; elsewhere a line for every tenth part."""

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self._total, self._done = total, 0
        self._out = sys.stderr if out is None else out
        self._lock = threading.Lock()

    def tell(self, what: str) -> None:
        """Counts one answer."""
        with self._lock:
            self._done += 1
            tenth = max(self._total // 10, 1)
            if self._out.isatty():
                self._write(f"\r\x1b[K{self._done}/{self._total} {what}")
            elif self._done % tenth == 0 or self._done == self._total:
                self._write(f"{self._done}/{self._total} {what}\n")

    def __enter__(self) -> Self:
        self._write("starting ..." if self._out.isatty() else "")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write("\r\x1b[K" if self._out.isatty() else "")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


NO_CHANGE_EXIT, CHANGED_EXIT, FAILED_EXIT = 0, 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 1 where an answer changed; 2 for bad input; 3 where a probe failed to run.
    """
    try:
        return run_command(parse_options(arguments))
    except HANDLED_ERRORS as error:
        return report_error(error)


def run_command(options: argparse.Namespace) -> int:
    """Asks, prints and writes what the options say.

    Raises:
        SpecError: Bad input.
    """
    probes = catalogue.select_probes(options.algorithm, options.probe)
    if options.list:
        lines = (f"{p.name:28} {format_resolution(p):>9}  {p.question}" for p in probes)
        print(*lines, sep="\n")
        return NO_CHANGE_EXIT
    check_output_folders(options)
    new = options.update_baseline and not options.baseline.exists()
    stored = baseline.load_report(options.baseline) if options.baseline and not new else None
    found = load_answers(probes, options) if options.answers else collect_answers(probes, options)
    print("\n".join(report.format_report(found, options.all)))
    write_output_files(render_files(found, options))
    changed = print_comparison(found, stored, options, probes)
    if any(answer.failed for result in found.results for answer in result.answers.values()):
        return FAILED_EXIT
    return CHANGED_EXIT if changed else NO_CHANGE_EXIT


def format_resolution(probe: Probe) -> str:
    """The smallest difference that a probe tells from rounding, as a share."""
    return "whole" if probe.counts else f"{probe.tolerance:.2%}"


def load_answers(probes: Sequence[Probe], options: argparse.Namespace) -> ProbeReport:
    """Stored answers to the probes by the implementations that are asked for.

    Raises:
        SpecError: There are none.
    """
    stored = baseline.load_report(options.answers)
    names = list(stored.versions) if options.frameworks is None else options.frameworks
    found = baseline.select_answers(stored, [probe.name for probe in probes], names)
    if not found.results or not found.versions:
        raise SpecError(f"--answers {options.answers}: no such answers are stored there.")
    return found


def collect_answers(probes: Sequence[Probe], options: argparse.Namespace) -> ProbeReport:
    """Puts the probes to the implementations, with progress on standard error.

    Raises:
        SpecError: An implementation is not known or not installed, or none has the algorithms.
    """
    if options.drift:
        parties, not_probed = make_drift_targets(options.drift, options.python)
    elif options.intervention:
        framework = options.frameworks[0]
        algorithms = list(dict.fromkeys(probe.algorithm for probe in probes))
        parties = intervention_check.list_probe_targets(options.intervention, framework, algorithms)
        not_probed = {}
    else:
        parties, not_probed = find_probe_targets(options.frameworks, options.python)
    check_claim_coverage(options, [p.label for p in parties], [probe.name for probe in probes])
    with ProbeProgress(len(parties) * len(probes)) as progress:
        found = runner.run_probes(parties, probes, progress.tell, not_probed)
    if not any(result.answers for result in found.results):
        asked = ", ".join(dict.fromkeys(probe.algorithm for probe in probes))
        whom = ", ".join(party.label for party in parties)
        raise SpecError(f"--frameworks {whom}: none has {asked}. Ask another framework.")
    return found


def print_comparison(
    found: ProbeReport,
    stored: ProbeReport | None,
    options: argparse.Namespace,
    probes: Sequence[Probe],
) -> bool:
    """Prints what changed against the stored answers, and stores the new ones if asked to."""
    if options.intervention:
        said = intervention_check.format_intervention_report(
            found, options.frameworks[0], options.intervention, probes
        )
        print("", *said, sep="\n")
        return False
    if options.drift:
        print("", *baseline.format_version_lines(found), sep="\n")
        return bool(baseline.list_version_changes(found))
    changes = baseline.list_changes(found, stored) if stored else []
    if stored:
        print(f"\nAgainst {options.baseline}: {len(changes)} answers changed.", end="")
        print(*("", *changes, *baseline.list_version_differences(found, stored)), sep="\n  ")
    if options.update_baseline:
        write_output_files(render_baseline(found, stored, options))
        print(f"Stored in {options.baseline}.")
        return False
    return bool(changes)


if __name__ == "__main__":
    sys.exit(main())

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
