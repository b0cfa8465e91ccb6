"""`parallax detection`: which detector notices which fault, first when, and at what cost."""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.cli.errors import HANDLED, exit_code
from harness.contract.fields import SpecError
from harness.detection import gather, trainings
from harness.detection.verdicts import Verdict
from harness.interventions.mutants import Mutant, mutant
from harness.record.files import write_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 2 for bad input.
    """
    try:
        options = _parser().parse_args(arguments)
        probed = _probed(options.mutants)
        runs = trainings.read(options.results) if options.results else {}
        trained = gather.trained(runs, options.training_seconds)
        if options.conformance:
            asked = gather.common(trained) or _some(probed, options.most)
            _check(asked, options.conformance)
        checks = gather.checked(options.conformance) if options.conformance else []
        verdicts = [*probed, *checks, *trained]
        text = "\n\n".join(part for part in (_report(verdicts), gather.alarms(runs)) if part)
        print(text)
        if options.output:
            write_text(options.output, text + "\n")
        if options.figure:
            from harness.detection.figure import figure  # a plotting library takes a second

            write_text(options.figure, figure(verdicts))
    except HANDLED as error:
        return exit_code(error)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parallax detection",
        description="Puts faults in upstream's code to all detectors: the probes' verdicts from a "
        "file, those of the diagnosis and of returns from trainings, those of conformance anew.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("results", nargs="?", type=Path, help="a study of mutants, such as study=detection")
    add(
        "--mutants",
        type=Path,
        required=True,
        metavar="FILE",
        help="what benchmarks/mutants.py wrote of the probes",
    )
    add(
        "--conformance",
        type=Path,
        metavar="FILE",
        help="also put the faults of the study to conformance; keeps verdicts here and asks nobody "
        "twice",
    )
    add(
        "--most",
        type=int,
        default=20,
        help="faults by chance for conformance where there is no study (default: %(default)s)",
    )
    add(
        "--training-seconds",
        type=float,
        default=math.nan,
        metavar="S",
        help="processor time of one training of the study, as measured, for the costs",
    )
    add("--output", type=Path, metavar="FILE", help="write the tables as Markdown")
    add("--figure", type=Path, metavar="FILE", help="draw shares and costs, as SVG")
    return parser


def _probed(path: Path) -> list[Verdict]:
    if not path.is_file():
        raise SpecError(f"--mutants {path}: no such file. benchmarks/mutants.py writes one.")
    try:
        return gather.kept(path)
    except (ValueError, LookupError, TypeError) as error:
        raise SpecError(f"--mutants {path}: not what benchmarks/mutants.py writes.") from error


def _some(verdicts: Sequence[Verdict], most: int) -> list[str]:
    """Mutants by chance, always the same of the same."""
    names = sorted({verdict.mutant for verdict in verdicts})
    return list(np.random.default_rng(0).permutation(names)[:most])


def _check(names: Sequence[str], path: Path) -> None:
    """Puts faults to conformance that have not been, each in a process of its own."""
    done = {verdict.mutant for verdict in gather.checked(path)}
    for name in names:
        if name not in done:
            framework, algorithm, number = name.split("/")
            _in_child(mutant(f"mutant-{number}", framework, algorithm), path)


def _in_child(item: Mutant, path: Path) -> None:
    # Checks keep what they have trained, and upstream's code is changed: nobody inherits either.
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            from harness.detection.conformity import conformity

            gather.add(path, conformity(item))
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        print(f"{item.whole_name}: conformance could not be asked.", file=sys.stderr)


def _report(verdicts: Sequence[Verdict]) -> str:
    mutants = gather.common(verdicts)
    parts = [f"{len({v.mutant for v in verdicts})} faults that train.", gather.table(verdicts)]
    if mutants:
        own = [verdict for verdict in verdicts if verdict.mutant in mutants]
        parts += [
            f"The {len(mutants)} that were put to more than the probes:",
            gather.table(own),
            gather.by_mutant(own, mutants),
        ]
    return "\n\n".join(parts)
