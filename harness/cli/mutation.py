"""`parallax challenge`: plays originals and mutants of a study against test generators."""

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parallax.harness.contract.fields import HANDLED_ERRORS, SpecError, report_error
from parallax.harness.contract.run_spec import spec_from_dict
from parallax.harness.detection import detectors, summary
from parallax.harness.detection.detectors import DetectorVerdict
from parallax.harness.interventions.mutants import CodeMutant, find_mutant
from parallax.harness.record.files import write_text
from parallax.harness.record.reading import read_run
from parallax.harness.train.trust import list_named_code, require_trust

if TYPE_CHECKING:
    from parallax.harness.policy_tests.challenge import MutationTestOptions, MutationTestStudy


def run_mutation_test_command(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 2 for bad input.
    """
    import joblib

    from parallax.harness.policy_tests.challenge import (
        MUTATION_FILE,
        SCHEMA,
        MutationTestOptions,
        find_mutation_studies,
    )

    try:
        options = _make_mutation_test_parser().parse_args(arguments)
        if options.replay < 1:
            raise SpecError(f"--replay {options.replay}: at least one configuration is played.")
        if options.jobs < 1:
            raise SpecError(f"--jobs {options.jobs}: at least one setting is played at a time.")
        wanted = MutationTestOptions(replay=options.replay, seed=options.seed)
        play = joblib.delayed(_play_study)
        named = find_mutation_studies(options.results)
        readings = [read_run(folder) for study in named for folder in study.folders]
        specs = [spec_from_dict(reading.spec) for reading in readings]
        adapters = [reading.content["adapter"] for reading in readings]
        code = list_named_code(specs, adapters)
        require_trust(options.results, code, trust=options.trust)
        found = joblib.Parallel(options.jobs)(play(study, wanted) for study in named)
        output = options.output or options.results / MUTATION_FILE
        content = {
            "schema": SCHEMA,
            "replay": wanted.replay,
            "seed": wanted.seed,
            "settings": found,
        }
        write_text(output, json.dumps(content) + "\n")
    except HANDLED_ERRORS as error:
        return report_error(error)
    print(f"File: {output}\nparallax mutation {options.results} tells what was killed.")
    return 0


def _play_study(study: "MutationTestStudy", wanted: "MutationTestOptions") -> dict[str, Any]:
    from parallax.harness.policy_tests.challenge import MutationTest

    setting = study.setting
    name = f"{setting.framework} {setting.algorithm} {setting.env} {setting.hps}"
    return MutationTest(study, wanted, lambda text: _print_progress(f"{name}: {text}")).results()


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _make_mutation_test_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parallax challenge",
        description="Plays originals and mutants of a study in configurations of a replay of the "
        "training, of a weak and of a strong test generator.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("results", type=Path, help="a study's folder")
    add("--output", type=Path, metavar="FILE", help="default: mutation.json in it")
    add("--replay", type=int, default=200, help="configurations of a replay (%(default)s)")
    add("--jobs", type=int, default=1, help="settings that are played at a time (%(default)s)")
    add("--seed", type=int, default=0, help="of what generators draw (%(default)s)")
    add("--trust", action="store_true", help="runs what the folder names without asking")
    return parser


def run_detectors_command(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 2 for bad input.
    """
    try:
        options = _make_detectors_parser().parse_args(arguments)
        probed = _read_probe_verdicts(options.mutants)
        runs = detectors.read_setting_runs(options.results) if options.results else {}
        trained = summary.judge_trainings(runs, options.training_seconds)
        if options.conformance:
            asked = summary.find_common_mutants(trained) or _sample_mutants(probed, options.most)
            _check_conformance(asked, options.conformance)
        checks = summary.read_verdicts(options.conformance) if options.conformance else []
        verdicts = [*probed, *checks, *trained]
        text = "\n\n".join(
            part
            for part in (_format_detection_report(verdicts), summary.describe_false_positives(runs))
            if part
        )
        print(text)
        if options.output:
            write_text(options.output, text + "\n")
        if options.figure:
            from parallax.harness.detection.summary import (
                draw_detector_figure,  # a plotting library takes a second
            )

            write_text(options.figure, draw_detector_figure(verdicts))
    except HANDLED_ERRORS as error:
        return report_error(error)
    return 0


def _make_detectors_parser() -> argparse.ArgumentParser:
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


def _read_probe_verdicts(path: Path) -> list[DetectorVerdict]:
    if not path.is_file():
        raise SpecError(f"--mutants {path}: no such file. benchmarks/mutants.py writes one.")
    try:
        return summary.read_probe_verdicts(path)
    except (ValueError, LookupError, TypeError) as error:
        raise SpecError(f"--mutants {path}: not what benchmarks/mutants.py writes.") from error


def _sample_mutants(verdicts: Sequence[DetectorVerdict], most: int) -> list[str]:
    """Mutants by chance, always the same of the same."""
    names = sorted({verdict.mutant for verdict in verdicts})
    return list(np.random.default_rng(0).permutation(names)[:most])


def _check_conformance(names: Sequence[str], path: Path) -> None:
    """Puts faults to conformance that have not been, each in a process of its own."""
    done = {verdict.mutant for verdict in summary.read_verdicts(path)}
    for name in names:
        if name not in done:
            framework, algorithm, number = name.split("/")
            _check_in_child_process(find_mutant(f"mutant-{number}", framework, algorithm), path)


def _check_in_child_process(item: CodeMutant, path: Path) -> None:
    # Checks keep what they have trained, and upstream's code is changed: nobody inherits either.
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            from parallax.harness.detection.detectors import judge_conformance

            summary.append_verdict(path, judge_conformance(item))
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        print(f"{item.qualified_name}: conformance could not be asked.", file=sys.stderr)


def _format_detection_report(verdicts: Sequence[DetectorVerdict]) -> str:
    mutants = summary.find_common_mutants(verdicts)
    parts = [
        f"{len({v.mutant for v in verdicts})} faults that train.",
        summary.format_detector_table(verdicts),
    ]
    if mutants:
        own = [verdict for verdict in verdicts if verdict.mutant in mutants]
        parts += [
            f"The {len(mutants)} that were put to more than the probes:",
            summary.format_detector_table(own),
            summary.format_mutant_table(own, mutants),
        ]
    return "\n\n".join(parts)
