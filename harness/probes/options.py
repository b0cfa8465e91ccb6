"""The command line of `parallax probe`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from harness.fields import SpecError
from harness.spec import ALGORITHMS

EXITS = """exit codes:
  0  every probe ran; with --baseline or --drift: no answer changed
  1  an answer changed
  2  bad input
  3  a probe failed to run
"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, checked against each other.

    Raises:
        SpecError: Options that are not known or do not go together.
    """
    options = parser().parse_args(arguments)
    if options.update_baseline and not options.baseline:
        raise SpecError("--update-baseline needs --baseline FILE, the file to write.")
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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message}; {self.prog} --help lists the options.")


def parser() -> argparse.ArgumentParser:
    """All options."""
    result = _Parser(
        prog="parallax probe",
        description="Asks the installed implementations what one update does.",
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = result.add_argument
    algorithms = ",".join(sorted(ALGORITHMS))
    add("--algorithm", type=names, default=[], metavar="A,B", help=f"of {algorithms}; default all")
    add("--frameworks", type=names, metavar="A,B", help="such as sb3,cleanrl; default all")
    add("--probe", type=names, default=[], metavar="A,B", help="parts of probes' names")
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
    add("--python", metavar="PATH", help="another interpreter, for one framework")
    return result


def names(text: str) -> list[str]:
    """Comma-separated names, each once."""
    return list(dict.fromkeys(name for name in text.split(",") if name))
