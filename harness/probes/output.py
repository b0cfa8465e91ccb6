"""Which files the command writes."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.fields import SpecError
from harness.probes.baseline import merged
from harness.probes.ledger import statements, text
from harness.probes.results import Report
from harness.probes.stored import to_text
from harness.record.files import write_all


def check(options: argparse.Namespace) -> None:
    """Finds out before probes run that a file cannot be written.

    Raises:
        SpecError: Its folder is not there.
    """
    for path in (options.json, options.markdown, options.html, options.ledger, options.baseline):
        if path is not None and not path.absolute().parent.is_dir():
            raise SpecError(f"{path}: the folder {path.parent} is not there.")


def check_ledger(
    options: argparse.Namespace, implementations: Sequence[str], probes: Sequence[str]
) -> None:
    """Finds out before probes run that too few are asked for a ledger.

    Raises:
        SpecError: Says what is missing.
    """
    if options.ledger:
        text.check_complete(implementations, probes, statements.read())


def files(found: Report, options: argparse.Namespace) -> dict[Path, str]:
    """Contents of the files that were asked for.

    Raises:
        SpecError: The ledger lacks answers.
    """
    contents: dict[Path, str] = {}
    if options.json:
        contents[options.json] = to_text(found)
    if options.ledger:
        contents[options.ledger] = text.page(found, statements.read())
    if options.html or options.markdown:
        from harness.probes.page import html, markdown  # a plotting library takes a second

        if options.html:
            contents[options.html] = html.page(found)
        if options.markdown:
            contents |= markdown.pages(options.markdown, found)
    return contents


def baseline(found: Report, stored: Report | None, options: argparse.Namespace) -> dict[Path, str]:
    """The new baseline: what was asked replaces what was stored, the rest stays."""
    return {options.baseline: to_text(merged(found, stored) if stored else found)}


def write(contents: Mapping[Path, str]) -> None:
    """Writes all files or none.

    Raises:
        SpecError: One cannot be written.
    """
    try:
        write_all(contents)
    except OSError as error:
        raise SpecError(f"{error.filename}: cannot be written ({error.strerror}).") from error
