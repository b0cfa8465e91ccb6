"""Shares of the mutants of upstream's update code that the probes find and miss.

`python benchmarks/mutants.py --output FILE` examines a sample of the mutants of every framework and
algorithm: a short training shows whether a mutant changes any weight; then the probes show whether
they notice it. Each mutant has its own process, forked from one that has imported the framework and
has its unchanged answers. Mutants in FILE are not examined again, so that a run can be stopped and
resumed. `--report` only prints the tables.
"""

import argparse
import dataclasses
import functools
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from parallax.harness.conformance.trainings import (
    make_base_hyperparameters,
    make_training_conditions,
    replace_hyperparameter,
    train_uncached,
)
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import PROBED_ALGORITHMS
from parallax.harness.contract.interpreter import import_modules
from parallax.harness.contract.upstream_code import silence_output
from parallax.harness.interventions.mutants import CodeMutant, load_mutants
from parallax.harness.interventions.source import SourceReplacement
from parallax.harness.probes.catalogue import PROBES, measure_answer, sort_probes
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import Probe, is_same_answer
from parallax.harness.probes.results import ProbeAnswer

LIMIT = 120
"""Seconds of processor time after which a mutant's training counts as endless and is killed."""
WAITING = 30
"""Factor of this limit in wall-clock time, since other processes may be running."""

EQUIVALENT, BREAKS, FOUND, MISSED = "equivalent", "breaks", "found", "missed"


@dataclasses.dataclass(frozen=True)
class MutantOutcome:
    """Outcome of a mutant.

    Attributes:
        mutant: Full name, with framework and algorithm.
        operator: Mutation operator.
        place: Upstream's module or function, and the line.
        outcome: `equivalent`, `breaks` (the short training ends with an error or does not end),
            `found` or `missed`.
        by: The first probe whose answer changed; how the training broke; else empty.
        asked: Number of probes that were run; the name in stored files.
        seconds: CPU seconds.
        text: Description of the change.
    """

    mutant: str
    operator: str
    place: str
    outcome: str
    by: str
    asked: int
    seconds: float
    text: str


@dataclasses.dataclass(frozen=True)
class UnmutatedBaseline:
    """Weights and answers of the unchanged code, to compare mutants with.

    Attributes:
        digests: Weights after the short trainings.
        answers: Answers by probe, in the order in which probes are run.
    """

    digests: tuple[str, ...]
    answers: Mapping[str, ProbeAnswer]


def main(arguments: Sequence[str] | None = None) -> int:
    """Examine and report."""
    options = _make_parser().parse_args(arguments)
    frameworks = (
        options.frameworks.split(",") if options.frameworks else list(find_adapter_entry_points())
    )
    algorithms = options.algorithms.split(",") if options.algorithms else sorted(PROBED_ALGORITHMS)
    if not options.report:
        # Before any import: functions that numba would compile are only called a few times.
        os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
        for algorithm in algorithms:
            for framework in frameworks:
                if load_adapter(framework).supports(algorithm):
                    _run_in_child(
                        functools.partial(examine_mutants, framework, algorithm, options), 3600
                    )
    print(render_report(read_outcomes(options.output)))
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="FILE", help="JSON, a line per mutant")
    add("--per", type=int, default=20, help="mutants of each framework's algorithm; 0 is all")
    add("--seed", type=int, default=0, help="of the sample")
    add("--frameworks", metavar="A,B")
    add("--algorithms", metavar="A,B")
    add("--report", action="store_true", help="only print the tables")
    return parser


def choose_sample(found: Sequence[CodeMutant], size: int, seed: int) -> list[CodeMutant]:
    """Return some random mutants, or all if `size` is 0."""
    if not size or size >= len(found):
        return list(found)
    chosen = np.random.default_rng(seed).choice(len(found), size, replace=False)
    return [found[number] for number in sorted(chosen)]


def examine_mutants(framework: str, algorithm: str, options: argparse.Namespace) -> None:
    """Examine mutants of one framework's algorithm, each in a process forked from this one."""
    done = {item.mutant for item in read_outcomes(options.output)}
    chosen = choose_sample(
        load_mutants(load_adapter(framework), algorithm), options.per, options.seed
    )
    waiting = [mutant for mutant in chosen if mutant.qualified_name not in done]
    if not waiting:
        return
    adapter = load_adapter(framework)
    import_modules(adapter.training_modules(algorithm))
    known = measure_baseline(adapter, algorithm)
    for mutant in waiting:
        code = _run_in_child(
            functools.partial(examine_mutant, mutant, adapter, known, options.output), LIMIT
        )
        if code:
            _append_outcome(
                options.output,
                make_mutant_outcome(mutant, BREAKS, f"its process ends with {code}", 0, LIMIT),
            )
        print(json.loads(options.output.read_text().splitlines()[-1]), flush=True)


def examine_mutant(
    mutant: CodeMutant, adapter: Adapter, known: UnmutatedBaseline, path: Path
) -> None:
    """Examine a mutant and store its outcome."""
    started = time.process_time()
    outcome, by, n_probes = _determine_outcome(mutant, adapter, known)
    _append_outcome(
        path, make_mutant_outcome(mutant, outcome, by, n_probes, time.process_time() - started)
    )


def measure_baseline(adapter: Adapter, algorithm: str) -> UnmutatedBaseline:
    """Train and measure all probes without a mutant."""
    with silence_output():
        digests = hash_trained_weights(adapter.name, algorithm)
    cache = ExperimentCache(adapter)
    answers = {p.name: measure_answer(cache, p) for p in sort_probes(algorithm)}
    known = {name: answer for name, answer in answers.items() if answer is not None}
    return UnmutatedBaseline(digests, known)


def hash_trained_weights(framework: str, algorithm: str) -> tuple[str, ...]:
    """Return hashes of all weights after two short trainings with different settings."""
    base = more = make_base_hyperparameters(framework, algorithm)
    for field, value in type(base).conformance_variation.items():
        more = replace_hyperparameter(framework, algorithm, more, field, value) or more
    around = make_training_conditions(algorithm)
    return tuple(train_uncached(framework, algorithm, hp, around).digest for hp in (base, more))


def make_mutant_outcome(
    mutant: CodeMutant, outcome: str, by: str, n_probes: int, seconds: float
) -> MutantOutcome:
    """Return the outcome of a mutant with its description."""
    place = f"{mutant.piece.where}:{mutant.line}"
    name, operator = mutant.qualified_name, mutant.operator
    return MutantOutcome(name, operator, place, outcome, by, n_probes, seconds, mutant.does)


def _determine_outcome(
    mutant: CodeMutant, adapter: Adapter, known: UnmutatedBaseline
) -> tuple[str, str, int]:
    """Apply a mutant in this process, train, and run probes until one finds it."""
    with SourceReplacement([mutant.piece]).apply_replacement():
        try:
            with silence_output():
                found = hash_trained_weights(adapter.name, mutant.algorithm)
        except Exception as error:
            return BREAKS, type(error).__name__, 0
        if found == known.digests:
            return EQUIVALENT, "", 0
        cache = ExperimentCache(adapter)
        probes = {probe.name: probe for probe in PROBES}
        for number, (name, before) in enumerate(known.answers.items(), 1):
            if not is_unchanged(probes[name], before, measure_answer(cache, probes[name])):
                return FOUND, name, number
    return MISSED, "", len(known.answers)


def is_unchanged(probe: Probe, before: ProbeAnswer, after: ProbeAnswer | None) -> bool:
    """Return whether two answers of one implementation are the same; None means an error."""
    if after is None:
        return False
    if before.unmeasured or after.unmeasured:
        return bool(before.unmeasured) == bool(after.unmeasured)
    return is_same_answer(probe, before, after)


def _run_in_child(work: Callable[[], None], limit: int) -> int:
    """Run `work` in a child process and return its exit code, negative for a signal."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.alarm(WAITING * limit)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _append_outcome(path: Path, found: MutantOutcome) -> None:
    with path.open("a") as file:
        print(json.dumps(dataclasses.asdict(found)), file=file)


def read_outcomes(path: Path) -> list[MutantOutcome]:
    """Return the outcomes of the mutants examined so far."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [MutantOutcome(**json.loads(line)) for line in lines]


def render_report(found: Sequence[MutantOutcome]) -> str:
    """Return Markdown tables: by operator, framework and algorithm, then all missed mutants."""
    parts = [f"{len(found)} mutants examined, {sum(f.seconds for f in found):.0f} s of CPU time"]
    for title, key in _GROUPS.items():
        parts.append(render_table(title, found, key))
    missed = [item for item in found if item.outcome == MISSED]
    parts += [f"Missed ({len(missed)}):", *(f"- `{f.mutant}`: {f.text}" for f in missed)]
    return (
        "\n\n".join(parts[: -len(missed)] if missed else parts)
        + "\n"
        + "\n".join(parts[-len(missed) :] if missed else [])
    )


_GROUPS: dict[str, Callable[[MutantOutcome], str]] = {
    "operator": lambda item: item.operator,
    "framework": lambda item: item.mutant.split("/")[0],
    "algorithm": lambda item: item.mutant.split("/")[1],
}


def render_table(
    title: str, found: Iterable[MutantOutcome], key: Callable[[MutantOutcome], str]
) -> str:
    """Return a table of outcome counts, and the share found of those that change the training."""
    groups: dict[str, Counter[str]] = {}
    for item in found:
        for name in (key(item), "all"):
            groups.setdefault(name, Counter())[item.outcome] += 1
    rows = [f"| {title} | n | equivalent | break | found | missed | found of those that train |"]
    rows.append("|---|---|---|---|---|---|---|")
    for name in (*sorted(groups.keys() - {"all"}), "all"):
        counts = groups.get(name, Counter())
        trained = counts[FOUND] + counts[MISSED]
        share = f"{counts[FOUND] / trained:.0%}" if trained else "-"
        cells = [counts.total(), *(counts[o] for o in (EQUIVALENT, BREAKS, FOUND, MISSED))]
        rows.append(f"| {name} | {' | '.join(map(str, cells))} | {share} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
