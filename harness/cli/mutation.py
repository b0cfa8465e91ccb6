"""`parallax mutation`: test scenarios for faulty agents, and detectors of injected faults."""

import argparse
import functools
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parallax.harness.cli.arguments import (
    add_file_argument,
    add_trust_argument,
    check_output_folders,
    write_output_files,
)
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.data_files import check_unique
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict
from parallax.harness.detection import detectors
from parallax.harness.detection.detectors import DetectorVerdict
from parallax.harness.interventions.mutants import CodeMutant, find_mutant
from parallax.harness.record.files import make_number_parser, parse_jobs, parse_seed, print_lines
from parallax.harness.record.reading import read_run
from parallax.harness.train.trust import list_named_code, require_trust

_TEST_EPILOG = """\
Scenarios come from three test generators of muPRL: a replay of the training, a weak one
and a strong one.

examples:
  parallax mutation test results/mutation
  parallax mutation score results/mutation"""

_MAX_MUTANTS = 20

if TYPE_CHECKING:
    from parallax.harness.policy_tests.challenge import MutationTestOptions, MutationTestStudy


def add_test_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax mutation test`."""
    parser.epilog = _TEST_EPILOG
    add = parser.add_argument
    add("results", type=Path, help="folder of a study with user faults")
    text = "file of the outcomes (default: mutation.json in the study's folder)"
    add_file_argument(parser, "--output", text)
    add(
        "--replay-configurations",
        type=make_number_parser(1, 1000),
        default=200,
        metavar="N",
        help="test scenarios taken from the training itself (default: %(default)s)",
    )
    text = "settings tested at a time (default: %(default)s)"
    add("--jobs", type=parse_jobs, default=1, metavar="N", help=text)
    text = "random seed of the test generators (default: %(default)s)"
    add("--seed", type=parse_seed, default=0, metavar="N", help=text)
    add_trust_argument(parser)


def run_test(options: argparse.Namespace) -> int:
    """Play healthy and faulty agents in the scenarios of three test generators."""
    import joblib

    from parallax.analysis.data.mutation_outcomes import MAX_PAIRS
    from parallax.harness.policy_tests.challenge import (
        MUTATION_FILE,
        SCHEMA,
        MutationTestOptions,
        check_comparable,
        find_mutation_studies,
    )

    test_options = MutationTestOptions(replay=options.replay_configurations, seed=options.seed)
    studies = find_mutation_studies(options.results)
    output = options.output or options.results / MUTATION_FILE
    check_output_folders([output])
    if (pairs := 3 * sum(study.count_pairs() for study in studies)) > MAX_PAIRS:
        raise SpecError(f"{options.results}: {pairs:,} pairs, at most {MAX_PAIRS:,}: name a study.")
    readings = [read_run(folder) for study in studies for folder in study.folders]
    specs = [spec_from_dict(reading.spec) for reading in readings]
    adapters = [reading.content.get("adapter", "") for reading in readings]
    require_trust(options.results, list_named_code(specs, adapters), trust=options.trust)
    records = {reading.folder: reading.record for reading in readings if reading.record}
    for study in studies:
        check_comparable(study, records)
    play = joblib.delayed(_play_study)
    jobs = min(options.jobs, len(studies))
    outcomes = joblib.Parallel(jobs)(play(study, test_options) for study in studies)
    content = {
        "schema": SCHEMA,
        "replay": test_options.replay,
        "seed": test_options.seed,
        "settings": outcomes,
    }
    write_output_files({output: json.dumps(content, separators=(",", ":")) + "\n"})
    print(f"File: {output}\nNext: parallax mutation score {shlex.quote(str(options.results))}")
    return 0


def _play_study(study: "MutationTestStudy", options: "MutationTestOptions") -> dict[str, Any]:
    from parallax.harness.policy_tests.challenge import MutationTest

    setting = study.setting
    name = f"{setting.framework} {setting.algorithm} {setting.env} {setting.hps}"
    report = functools.partial(print, f"{name}:", file=sys.stderr, flush=True)
    return MutationTest(study, options, report).results()


def add_detectors_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax mutation detectors`."""
    add = parser.add_argument
    add("results", nargs="?", type=Path, help="a study of mutants, such as study=detection")
    add(
        "--mutants",
        type=Path,
        required=True,
        metavar="FILE",
        help="file of probe verdicts that benchmarks/mutants.py wrote",
    )
    add_file_argument(
        parser,
        "--conformance",
        "also run the conformance suite on the study's mutants; verdicts are appended to "
        "this file, and mutants that are in it are not run again",
    )
    add(
        "--max-mutants",
        type=make_number_parser(0, 100_000),
        default=_MAX_MUTANTS,
        metavar="N",
        help="number of random mutants for --conformance without a study (default: %(default)s)",
    )
    add(
        "--training-seconds",
        type=float,
        default=math.nan,
        metavar="S",
        help="measured CPU seconds of one training of the study, for the table of costs",
    )
    add_file_argument(parser, "--output", "write the tables to this Markdown file")
    add_file_argument(parser, "--figure", "draw detection rates and costs to this SVG file")


def run_detectors(options: argparse.Namespace) -> int:
    """Print which detector notices which mutant."""
    if options.training_seconds < 0 or math.isinf(options.training_seconds):
        raise SpecError(f"--training-seconds {options.training_seconds}: give 0 or more seconds.")
    if not options.conformance and options.max_mutants != _MAX_MUTANTS:
        raise SpecError("--max-mutants is about --conformance FILE: add it, or drop --max-mutants.")
    if options.results is None and not math.isnan(options.training_seconds):
        raise SpecError("--training-seconds is about a study's trainings: name the study's folder.")
    check_output_folders([options.conformance, options.output, options.figure])
    probed = _read_probe_verdicts(options.mutants)
    runs, unused, versions = (
        detectors.read_setting_runs(options.results) if options.results else ({}, {}, "")
    )
    trained = detectors.judge_trainings(runs, options.training_seconds)
    checks: list[DetectorVerdict] = []
    if options.conformance:
        mutants = detectors.find_common_mutants(trained) or _sample_mutants(
            probed, options.max_mutants
        )
        _check_conformance(mutants, options.conformance)
        checks = detectors.read_verdicts(options.conformance)
    verdicts = [*probed, *checks, *trained]
    keys = (f"{verdict.detector} on {verdict.mutant}" for verdict in verdicts)
    check_unique("--mutants, --conformance: the verdict of", keys)
    parts = [_format_detection_report(verdicts), detectors.describe_false_positives(runs)]
    parts += [versions, *(f"Not used: {count} runs: {reason}." for reason, count in unused.items())]
    text = "\n\n".join(part for part in parts if part)
    print_lines([text])
    files = {options.output: text + "\n"} if options.output else {}
    if options.figure:
        files[options.figure] = detectors.draw_detector_figure(verdicts)
    write_output_files(files, [options.output])
    return 0


def _read_probe_verdicts(path: Path) -> list[DetectorVerdict]:
    if not path.is_file():
        raise SpecError(f"--mutants {path}: no such file. benchmarks/mutants.py writes one.")
    return detectors.read_probe_verdicts(path)


def _sample_mutants(verdicts: Sequence[DetectorVerdict], count: int) -> list[str]:
    """Return random mutants; the same verdicts and count give the same ones."""
    names = sorted({verdict.mutant for verdict in verdicts})
    return list(np.random.default_rng(0).permutation(names)[:count])


def _check_conformance(names: Sequence[str], path: Path) -> None:
    """Run the conformance suite on each mutant that has no verdict yet."""
    done = {verdict.mutant for verdict in detectors.read_verdicts(path)}
    for name in (name for name in names if name not in done):
        if not re.fullmatch(r"[\w-]+/[\w-]+/\d{1,9}", name):
            raise SpecError(f"mutant={name[:100]!r} must be framework/algorithm/number.")
        framework, algorithm, number = name.split("/")
        mutant = find_mutant(f"mutant-{number}", load_adapter(framework), algorithm)
        _check_in_child_process(mutant, path)


def _check_in_child_process(item: CodeMutant, path: Path) -> None:
    # In a separate process: a mutant changes upstream's code in memory, and the suite caches
    # trainings.
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            detectors.append_verdict(path, detectors.judge_conformance(item))
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        print(f"{item.qualified_name}: the conformance suite did not finish.", file=sys.stderr)


def _format_detection_report(verdicts: Sequence[DetectorVerdict]) -> str:
    from parallax.analysis.escaping import format_table

    mutants = detectors.find_common_mutants(verdicts)
    parts = [
        f"{len({v.mutant for v in verdicts})} mutants that train.",
        detectors.format_detector_table(verdicts),
    ]
    if mutants:
        heads = "mutant", *detectors.DETECTORS
        own = [verdict for verdict in verdicts if verdict.mutant in mutants]
        parts += [
            f"The {len(mutants)} that several detectors judged:",
            detectors.format_detector_table(own),
            format_table(detectors.make_mutant_rows(own, mutants), heads),
        ]
    return "\n\n".join(parts)
