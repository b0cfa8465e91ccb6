"""`parallax triage`: does a new version of an implementation still train as it should?

Three steps, the cheapest first: probes, lockstep until the first tensor that differs, and batches
of paired trainings until the mean score is inside or outside the spread of stored reference runs.
"""

import argparse
import dataclasses
import math
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parallax.harness.cli.arguments import (
    add_algorithms_argument,
    add_cache_argument,
    add_trust_argument,
    check_used_options,
    get_single_algorithm,
    load_study,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import PROBED_ALGORITHMS
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.interpreter import forbid_imports_from
from parallax.harness.contract.run_spec import NO_INTERVENTION, RunSpec, spec_from_dict
from parallax.harness.interventions.catalogue import resolve_interventions
from parallax.harness.lockstep.experiments import round_up_updates
from parallax.harness.lockstep.first_divergence import DivergencePoint
from parallax.harness.lockstep.interpreter import (
    SideTraining,
    compare_recordings,
    train_in_interpreter,
)
from parallax.harness.probes import catalogue, runner
from parallax.harness.probes.baseline import OTHER_NUMBERS, describe_change
from parallax.harness.record.files import parse_jobs
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import run_sweep
from parallax.harness.train.trust import list_named_code, require_trust
from parallax.harness.versions.environments import build_environment
from parallax.harness.versions.history import find_supported_versions

if TYPE_CHECKING:
    from parallax.analysis.verdicts.groups import ScoreGroup
    from parallax.analysis.verdicts.sequential import ReferenceSpread, SequentialSchedule

LOCKSTEP_UPDATES = 20
LEVEL = 0.05
BIT_EQUAL_SEEDS = 2
"""Pairs of trainings after which training stops if all are equal to the last bit."""
MAX_LISTED_CHANGES = 8
SAME, INSIDE, OUTSIDE, CHANGED = "same", "inside", "outside", "changed"
INCONCLUSIVE = "inconclusive"
EXIT_CODES = {SAME: 0, INSIDE: 0, OUTSIDE: 1, CHANGED: 1, INCONCLUSIVE: 3}
_EPILOG = """\
exit codes:
  0  trainings are equal to the last bit and no update changed, or B scores inside the spread of
     the reference runs and does not differ significantly from A; with --no-training: no update
     changed
  1  B scores outside that spread, or differs significantly from A
  2  bad input
  3  inconclusive after the largest number of seeds; an update changed, and trainings are equal to
     the last bit; with --no-training: an update changed, or lockstep cannot compare A and B
An update changed if an answer of a probe changed, or if A and B differ in lockstep.

examples:
  parallax triage sb3==2.3.2 sb3==2.4.0 --algorithms td3
  parallax triage skrl==2.0.0 skrl --algorithms ppo --env Pendulum-v1
  parallax triage sb3 sb3+value-loss-x0.5 --algorithms ppo --no-training"""


@dataclasses.dataclass(frozen=True)
class TriageSide:
    """One of the two implementations.

    Attributes:
        text: How the command line names it.
        intervention: Names of interventions, or `none`.
        python: Interpreter in which it is installed.
    """

    text: str
    framework: str
    intervention: str = NO_INTERVENTION
    python: str = sys.executable

    @property
    def study(self) -> str:
        """Name of the study that its trainings are stored in."""
        plain = re.sub(r"[^\w.+-]", "-", self.text)
        return f"triage-{plain}"


@dataclasses.dataclass(frozen=True)
class ReferenceSetting:
    """Runs of all frameworks that the trainings are compared with.

    Attributes:
        spec: A run of the setting; new runs differ from it only in framework and seed.
        groups: Scores of each framework.
        spread: Interval in which another framework's mean is expected.
        bottom: Score of failed runs.
    """

    spec: RunSpec
    groups: "tuple[ScoreGroup, ...]"
    spread: "ReferenceSpread"
    bottom: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    forms = "NAME (the installed version), NAME==VERSION or NAME+INTERVENTION"
    add("first", metavar="A", help=f"an implementation: {forms}")
    add("second", metavar="B", help="another implementation of the same framework")
    add_algorithms_argument(parser, f"one algorithm of {','.join(sorted(PROBED_ALGORITHMS))}")
    add("--env", metavar="TASK", help="task of the reference runs (default: their first task)")
    add(
        "--reference",
        type=Path,
        metavar="STUDY",
        help="study or packed runs of at least three frameworks at equal hyperparameters "
        "(default: runs that come with Parallax)",
    )
    text = "score of a run: auc (the return averaged over training), final or last-K (default: auc)"
    add("--endpoint", default="auc", metavar="NAME", help=text)
    text = "pairs of seeds per check (default: %(default)s)"
    add("--batch", type=int, default=3, metavar="N", help=text)
    text = "largest number of pairs of seeds, a multiple of --batch (default: %(default)s)"
    add("--max-seeds", type=int, default=12, metavar="N", help=text)
    add("--no-training", action="store_true", help="stop after probes and lockstep")
    text = "trainings at a time (default: one per core)"
    add("--jobs", type=parse_jobs, default=-1, metavar="N", help=text)
    text = "folder of the trainings; complete ones are not repeated (default: %(default)s)"
    add("--results", type=Path, default=Path("results"), metavar="FOLDER", help=text)
    add_cache_argument(parser)
    add_trust_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Print what changed and whether it matters."""
    algorithm = get_single_algorithm(options.algorithms, list(PROBED_ALGORITHMS))
    if options.no_training:
        used = ("first", "second", "algorithms", "no_training", "cache")
        check_used_options(options, used, "--no-training stops after lockstep")
    schedule = _make_schedule(options)
    reference = None if options.no_training else find_reference(options, algorithm)
    sides = [parse_side(text, algorithm, options.cache) for text in (options.first, options.second)]
    _check_sides(sides)
    started = time.monotonic()
    print(f"{sides[0].text} (A) and {sides[1].text} (B), {algorithm}")
    changes = list_changed_answers(sides, algorithm)
    _print_step("One update (probes)", changes or ["No answer changed."], started)
    is_equal, lines = compare_in_lockstep(sides, algorithm)
    _print_step("Lockstep", lines, started)
    if reference is None:
        return EXIT_CODES[INCONCLUSIVE if changes or not is_equal else SAME]
    print(f"\nTrainings: {_describe_setting(reference)}")
    verdict, lines = compare_trainings(sides, reference, schedule, options)
    _print_step("Returns", lines, started)
    is_changed = bool(changes) or is_equal is False
    print(f"\n{conclude(verdict, is_changed)}")
    return EXIT_CODES[INCONCLUSIVE if verdict == SAME and is_changed else verdict]


def _make_schedule(options: argparse.Namespace) -> "SequentialSchedule":
    from parallax.analysis.verdicts.sequential import SequentialSchedule

    try:
        return SequentialSchedule(options.batch, options.max_seeds)
    except ValueError as error:
        raise SpecError(
            f"--batch {options.batch} and --max-seeds {options.max_seeds} do not fit: give a batch "
            "of at least 2 and a multiple of it."
        ) from error


def parse_side(text: str, algorithm: str, cache: Path) -> TriageSide:
    """Return the implementation that `NAME`, `NAME==VERSION` or `NAME+INTERVENTION` names."""
    name = re.split(r"==|\+", text, maxsplit=1)[0]
    adapter, rest = load_adapter(name), text.removeprefix(name)
    if not adapter.supports(algorithm):
        raise SpecError(f"{text}: framework={name} has no algorithm={algorithm}.")
    if rest.startswith("=="):
        version, plus, changes = rest.removeprefix("==").partition("+")
        requirements = find_supported_versions(name).list_requirements(version)
        python = str(build_environment(requirements, cache))
    else:
        plus, changes, python = rest[:1], rest[1:], sys.executable
    intervention = changes if plus else NO_INTERVENTION
    resolve_interventions(intervention, adapter, algorithm)  # refuses an unknown one
    return TriageSide(text, name, intervention, python)


def _check_sides(sides: Sequence[TriageSide]) -> None:
    first, second = sides
    if first.text == second.text:
        raise SpecError(
            f"{first.text} is named twice: name another version, such as "
            f"{first.framework}==VERSION, or {first.framework}+INTERVENTION."
        )
    if first.framework != second.framework:
        raise SpecError(
            f"{first.text} and {second.text} are two frameworks: parallax why "
            f"{first.framework} {second.framework} compares them."
        )


def find_reference(options: argparse.Namespace, algorithm: str) -> ReferenceSetting:
    """Return the reference runs of an algorithm and task."""
    from parallax.analysis.data.packed import REFERENCE_FILE
    from parallax.analysis.verdicts.endpoints import settle_options
    from parallax.analysis.verdicts.failures import find_bottom_score
    from parallax.analysis.verdicts.groups import group_runs
    from parallax.analysis.verdicts.options import VerdictOptions
    from parallax.analysis.verdicts.sequential import compute_reference_spread

    place = options.reference or REFERENCE_FILE
    loaded = load_study(place)
    try:
        settled = settle_options(loaded, VerdictOptions(endpoint=options.endpoint))
    except ValueError as error:
        raise SpecError(f"--endpoint {options.endpoint}: {error}") from error
    if settled.chosen_endpoint.is_steps:
        raise SpecError(
            f"--endpoint {options.endpoint} has no score for runs that do not reach it: use auc, "
            "final or last-K."
        )
    present = _select_groups(group_runs(loaded, settled), algorithm, options.env, place)
    scores = {group.framework: list(group.scores_by_seed.values()) for group in present}
    bottom = find_bottom_score(present, settled)
    if bottom is None:  # nothing is known of the task's rewards
        bottom = min(score for values in scores.values() for score in values)
    spec = spec_from_dict(dict(present[0].runs[0].spec))
    # A logger may send what it records to others, and the reference may be somebody else's.
    spec = dataclasses.replace(spec, endpoint=settled.endpoint, python=None, logger="none")
    require_trust(place, list_named_code([spec]), trust=options.trust)
    forbid_imports_from(run.path for run in present[0].runs)
    return ReferenceSetting(spec, present, compute_reference_spread(scores), bottom)


def _select_groups(
    groups: "Sequence[ScoreGroup]", algorithm: str, env: str | None, place: Path
) -> "tuple[ScoreGroup, ...]":
    """Return the scores of each framework on one task; the first task if `env` is None.

    Runs with interventions are left out: the compared implementations are trained without them.
    """
    from parallax.analysis.verdicts.groups import group_by_cell
    from parallax.analysis.verdicts.sequential import MIN_REFERENCE_FRAMEWORKS

    usable: dict[str, tuple[ScoreGroup, ...]] = {}
    for cell, members in group_by_cell(groups).items():
        present = tuple(
            group
            for group in members
            if group.n
            and group.runs[0].spec.get("intervention", NO_INTERVENTION) == NO_INTERVENTION
        )
        if cell.algorithm == algorithm and len(present) >= MIN_REFERENCE_FRAMEWORKS:
            usable.setdefault(cell.env, present)
    if not usable:
        raise SpecError(
            f"--reference {place} holds no runs of --algorithms {algorithm} without an "
            f"intervention by at least {MIN_REFERENCE_FRAMEWORKS} frameworks: name another study, "
            "or use --no-training."
        )
    if env and env not in usable:
        raise SpecError(format_unknown_name(f"--env {env}", env, sorted(usable)))
    return usable[env or next(iter(usable))]


def list_changed_answers(sides: Sequence[TriageSide], algorithm: str) -> list[str]:
    """Return one line per probe that the two implementations answer differently."""
    probes = catalogue.select_probes([algorithm], [])
    targets = tuple(
        runner.make_probe_target(
            side.framework,
            None if side.python == sys.executable else side.python,
            side.text,
            "" if side.intervention == NO_INTERVENTION else side.intervention,
        )
        for side in sides
    )
    with CommandProgress(len(probes) * len(targets)) as progress:
        report = runner.run_probes(probes, runner.ProbeTargets(targets), progress.advance)
    first, second = (side.text for side in sides)
    found = [
        f"{result.probe}: {shorten_change(line)}"
        for result in report.results
        if {first, second} <= result.answers.keys()
        for line in describe_change(result, result.answers[first], result.answers[second])
    ]
    # Changed numbers with an unchanged description follow from another change and come last.
    found.sort(key=lambda line: OTHER_NUMBERS in line)
    more = len(found) - MAX_LISTED_CHANGES
    return [*found[:MAX_LISTED_CHANGES], *([f"and {more} more"] if more > 0 else [])]


def shorten_change(line: str) -> str:
    """Return a description of a change, without numbers if words describe it."""
    return re.sub(r" \([^()]*->[^()]*\)$", "", line) if line.startswith("before: ") else line


def compare_in_lockstep(
    sides: Sequence[TriageSide], algorithm: str
) -> tuple[bool | None, list[str]]:
    """Train both on identical weights and data.

    Returns:
        Whether they are equal at least to rounding, or None if they cannot be compared; and words.
    """
    updates = round_up_updates(algorithm, LOCKSTEP_UPDATES)
    try:
        recordings = [
            train_in_interpreter(
                SideTraining(side.framework, side.intervention, algorithm, updates), side.python
            )
            for side in sides
        ]
    except SpecError as error:
        return None, [f"Not compared: {error}"]
    return describe_lockstep(*compare_recordings(*recordings), updates)


def describe_lockstep(
    is_bit_equal: bool, point: DivergencePoint | None, updates: int
) -> tuple[bool, list[str]]:
    """Return whether two recordings are equal at least to rounding, and words."""
    if point is not None:
        return False, [f"The first difference is at {point}."]
    degree = "to the last bit" if is_bit_equal else "to rounding"
    return True, [f"Equal {degree} over {updates} updates."]


def compare_trainings(
    sides: Sequence[TriageSide],
    reference: ReferenceSetting,
    schedule: "SequentialSchedule",
    options: argparse.Namespace,
) -> tuple[str, list[str]]:
    """Train pairs of seeds until a verdict on the scores is reached; return it with its reasons.

    Raises:
        SpecError: A run cannot be carried out.
    """
    from parallax.analysis.verdicts.sequential import compute_paired_change, judge_against_spread

    scores: tuple[list[float], list[float]] = ([], [])
    bit_equal, verdict = 0, INCONCLUSIVE
    lines: list[str] = []
    while len(scores[0]) < schedule.max_seeds and verdict == INCONCLUSIVE:
        specs = [
            make_training_spec(side, reference.spec, seed)
            for seed in _choose_next_seeds(len(scores[0]), schedule.batch)
            for side in sides
        ]
        folders = [outcome.folder for outcome in run_sweep(specs, options.results, options.jobs)]
        for first, second in zip(folders[::2], folders[1::2], strict=True):
            bit_equal += _are_bit_equal(first, second)
            for values, folder in zip(scores, (first, second), strict=True):
                values.append(_score_run(folder, reference))
        n = len(scores[0])
        if bit_equal == n == BIT_EQUAL_SEEDS:
            return SAME, [f"{n} of {n} pairs of trainings are equal to the last bit."]
        change = compute_paired_change(*scores, schedule)
        found = judge_against_spread(scores[1], reference.spread, schedule, LEVEL)
        verdict = found.verdict
        lines = [
            f"B - A: {change.difference:+.4g} [{change.low:.4g}, {change.high:.4g}], n = "
            f"{change.n} pairs, p = {change.p:.2g} (over all checks); {bit_equal} pairs are equal "
            "to the last bit.",
            f"B: mean {found.mean:.4g}, n = {found.n}; reference spread "
            f"{reference.spread.low:.4g} to {reference.spread.high:.4g} (where the mean of one "
            f"more framework is expected, 95%, from {reference.spread.runs} runs of "
            f"{len(reference.spread.means)} frameworks): {found.verdict}.",
        ]
        if verdict != OUTSIDE and change.p < LEVEL:
            verdict = CHANGED
    return verdict, lines


def _choose_next_seeds(begun: int, batch: int) -> range:
    """Return the seeds until the next check, after `begun` pairs of trainings."""
    # Two pairs suffice to show that trainings are the same; they are part of the first batch.
    count = batch - begun % batch if begun else min(BIT_EQUAL_SEEDS, batch)
    return range(begun, begun + count)


def make_training_spec(side: TriageSide, spec: RunSpec, seed: int) -> RunSpec:
    """Return a run of the reference setting by one of the two implementations."""
    return dataclasses.replace(
        spec,
        study=side.study,
        framework=side.framework,
        seed=seed,
        intervention=side.intervention,
        python=None if side.python == sys.executable else side.python,
    )


def _are_bit_equal(first: Path, second: Path) -> bool:
    ends = []
    for run in (read_run(folder, with_evaluations=True) for folder in (first, second)):
        digest = run.content.get("weights_sha256")
        if not run.complete or digest is None or run.evaluations is None:
            return False
        # A changed action prediction affects evaluations, but not weights.
        ends.append((digest, run.evaluations.results.tobytes()))
    return ends[0] == ends[1]


def _score_run(folder: Path, reference: ReferenceSetting) -> float:
    """Return the score of a run; a failed run gets the bottom of the range."""
    from parallax.analysis.stats.learning_curves import Endpoint

    run = read_run(folder, with_evaluations=True)
    if not run.complete or run.evaluations is None:
        return reference.bottom
    means = run.evaluations.results.mean(axis=1)
    endpoint = Endpoint(reference.spec.endpoint)
    return float(endpoint.score(run.evaluations.timesteps, means, math.nan))


def conclude(verdict: str, is_changed: bool) -> str:
    """Return the conclusion, a sentence."""
    if verdict == SAME and is_changed:
        return (
            "The update changed, but these trainings are equal to the last bit: the change has no "
            "effect on this task. Name another task with --env or --reference."
        )
    if verdict == SAME:
        return "No difference: trainings are equal to the last bit."
    update = "The update changed" if is_changed else "No difference in an update was found"
    return {
        INSIDE: f"{update}; B scores inside the reference spread, and no difference from A was "
        "found.",
        CHANGED: f"{update}; B learns differently from A.",
        OUTSIDE: f"{update}; B scores outside the reference spread: a regression, or the task or "
        "version differs from the reference.",
        INCONCLUSIVE: f"{update}; whether it matters for the return is inconclusive: raise "
        "--max-seeds.",
    }[verdict]


def _describe_setting(reference: ReferenceSetting) -> str:
    spec = reference.spec
    return f"{spec.env}, {spec.hps}, {spec.variant}; score: {spec.endpoint}"


def _print_step(title: str, lines: Sequence[str], started: float) -> None:
    print(f"\n{title} (after {time.monotonic() - started:.0f} s)")
    print("\n".join(f"  {line}" for line in lines), flush=True)
