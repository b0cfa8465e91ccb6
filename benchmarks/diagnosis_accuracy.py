"""Accuracy of the diagnosis: how many planted faults it finds, and false positives on healthy runs.

    python benchmarks/diagnosis_accuracy.py faults           # programs with and without faults
    python benchmarks/diagnosis_accuracy.py wrong_settings   # frameworks with wrong settings
    python benchmarks/diagnosis_accuracy.py planted          # faults in the frameworks' own code
    python benchmarks/diagnosis_accuracy.py healthy          # false positives in short healthy runs
    python benchmarks/diagnosis_accuracy.py judge            # the same runs with current checks

Thresholds may be tuned on runs with an even seed; runs with an odd seed are the test set.

`diagnosis_planted.csv` lists the planted faults. A mutant in it is named by its operator and a part
of the text that it changes, since its number depends on upstream's version; `parallax intervention
list --kind mutants --frameworks F --algorithms A --all` shows them all.
"""

import argparse
import collections
import csv
import dataclasses
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.diagnosis_runs import (
    ALGORITHMS,
    FRAMEWORKS,
    TASKS,
    Setting,
    list_settings,
    train_with_diagnosis,
)

PLANTED_FAULTS = Path(__file__).with_name("diagnosis_planted.csv")
HALVES = {0: "set on", 1: "judged on"}
CHANGED_STEPS = 2600
PLANTED_STEPS = {"ppo": 1600, "dqn": 1300}


@dataclasses.dataclass(frozen=True)
class PlantedFault:
    """One fault, a row of the table.

    Attributes:
        framework: Framework whose code it changes.
        algorithm: Algorithm that uses this code.
        fault: Description in words.
        check: Check that should find it; several are joined by `|`, and any of them counts.
        operator: Operator of the mutant; empty if `text` is an intervention of the catalogue.
        text: Part of the text that is replaced, or the intervention's name.
        number: Which of the matching mutants, from 0.
        task: Task; empty for the algorithm's first one.
    """

    framework: str
    algorithm: str
    fault: str
    check: str
    operator: str
    text: str
    number: str
    task: str


def main() -> None:
    """Measure what the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(MEASUREMENTS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("results/diagnosis-healthy"))
    parser.add_argument("--programs", nargs="*", help="numbers of posts (default: all)")
    parser.add_argument("--words", nargs="*", help="what is set wrong (default: all)")
    parser.add_argument("--notes", action="store_true", help="also print findings at level note")
    parser.add_argument("--frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    MEASUREMENTS[options.what](options)


def print_program_faults(options: argparse.Namespace) -> None:
    """Print which faults their check finds, and whether it finds them without the fault, too."""
    from faulty_programs.programs import HEALTHY_PROGRAMS, PROGRAMS

    names = {id(train): name for name, train in HEALTHY_PROGRAMS.items()}
    wanted = [p for p in PROGRAMS if not options.programs or p.post in options.programs]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    healthy_findings: dict[int, list[dict[str, Any]]] = {}
    for train in {id(program.train): program.train for program in wanted}.values():
        healthy_findings[id(train)] = [train(seed=seed)[0] for seed in seeds]
    print(f"{len(seeds)} runs each; errors and warnings without the fault")
    found = 0
    for program in wanted:
        runs = [program.train(program.fault, seed=seed)[0] for seed in seeds]
        hits, healthy = (
            [run[program.check] for run in one if program.check in run]
            for one in (runs, healthy_findings[id(program.train)])
        )
        found += len(hits) == len(runs) and not healthy
        print(
            f"{program.post:<12}{names[id(program.train)]:<26}{program.words:<42}"
            f"{program.check:<15}{len(hits)} of {len(runs)}, without the fault {len(healthy)}"
        )
        print(f"            {hits[0].seen.text if hits else 'not found'}", flush=True)
    print(f"{found} of {len(wanted)} found in all runs with the fault and in none without")
    for key, runs in healthy_findings.items():
        counts = collections.Counter(
            f"{f.level} {name}" for run in runs for name, f in run.items() if f.level != "note"
        )
        print(f"healthy {names[key]}: {dict(counts)}")


RATES = {"policy_learning_rate": 0.5, "critic_learning_rate": 0.5}
WRONG_SETTINGS: tuple[tuple[str, str, str, str, dict[str, Any]], ...] = (
    # words, check, algorithm, task, changed settings
    ("gamma=1", "no-discount", "dqn", "CartPole-v1", {"gamma": 1.0}),
    (
        "targets every 1500 steps",
        "target-updated-rarely",
        "dqn",
        "CartPole-v1",
        {"target_update_interval": 1500},
    ),
    (
        "exploration 0.05",
        "exploration-low-or-rising",
        "dqn",
        "CartPole-v1",
        {"exploration_initial": 0.05, "exploration_final": 0.04},
    ),
    (
        "exploration over in 40 steps",
        "exploration-decays-fast",
        "dqn",
        "CartPole-v1",
        {"exploration_steps": 40},
    ),
    (
        "buffer of 200",
        "no-replay",
        "dqn",
        "CartPole-v1",
        {"buffer_size": 200, "learning_starts": 100},
    ),
    ("learning rate 0.5", "large-weight-updates", "dqn", "CartPole-v1", {"learning_rate": 0.5}),
    ("learning rates 0.5", "large-weight-updates", "ddpg", "Pendulum-v1", RATES),
    (
        "reward-times-10",
        "wrong-targets-matched",
        "ddpg",
        "InvertedPendulum-v4",
        {"intervention": "reward-times-10"},
    ),
    ("reward-times-0.1", "", "ddpg", "InvertedPendulum-v4", {"intervention": "reward-times-0.1"}),
    ("reward-every-10-steps", "", "dqn", "CartPole-v1", {"intervention": "reward-every-10-steps"}),
    ("same-start", "", "dqn", "CartPole-v1", {"intervention": "same-start"}),
    ("no-timeout-bootstrap", "", "dqn", "CartPole-v1", {"intervention": "no-timeout-bootstrap"}),
)
"""Runs of frameworks with one thing wrong; an empty check means that there is none for it."""


def print_wrong_settings(options: argparse.Namespace) -> None:
    """Print which wrong settings of frameworks' runs are found by their check."""
    from parallax.harness.contract.fields import SpecError

    counts: dict[str, list[bool]] = collections.defaultdict(list)
    for words, check, algorithm, task, changes in WRONG_SETTINGS:
        if options.words and words not in options.words:
            continue
        for framework in options.frameworks:
            begun = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                where = framework, algorithm, task, options.first_seed, Path(folder), "on"
                try:
                    _, report = train_with_diagnosis(
                        *where, steps=CHANGED_STEPS, period=40, changes=changes
                    )
                except SpecError as error:
                    print(f"{words:<30}{framework:<10}not settable: {error}", flush=True)
                    continue
            found = {one["id"]: one["level"] for one in report["findings"]}
            others = [f"{level[0]} {name}" for name, level in found.items() if level != "note"]
            if check:
                counts[check].append(check in found)
            verdict = ("found" if check in found else "MISSED") if check else "no check"
            seconds = time.process_time() - begun
            print(
                f"{words:<30}{framework:<10}{check:<15}{verdict:<15}{', '.join(others)} "
                f"({seconds:.0f} s)",
                flush=True,
            )
    for check, hits in counts.items():
        print(f"{check:<15}{sum(hits)} of {len(hits)} found")


def print_planted_faults(options: argparse.Namespace) -> None:
    """Print which faults in frameworks' code their check finds, and its findings without them."""
    chosen = [
        one
        for one in load_planted_faults()
        if one.framework in options.frameworks
        and one.algorithm in options.algorithms
        and (not options.words or one.fault in options.words)
    ]
    healthy: dict[Setting, dict[str, Any]] = {}
    hits: dict[str, list[bool]] = collections.defaultdict(list)
    for one in chosen:
        first = TASKS["discrete" if one.algorithm == "dqn" else "continuous"][0]
        setting = one.framework, one.algorithm, one.task or first
        if setting not in healthy:
            healthy[setting] = _train_with_change(setting, options.first_seed, {})
            loud = [
                f"{f['level'][0]} {n}" for n, f in healthy[setting].items() if f["level"] != "note"
            ]
            print(f"{' '.join(setting):<40}without a fault: {', '.join(loud)}", flush=True)
        found = _train_with_change(
            setting, options.first_seed, {"intervention": name_intervention(one)}
        )
        names = [name for name in one.check.split("|") if name in found]
        hit = bool(names) and not set(names) & set(healthy[setting])
        hits[one.check].append(hit)
        where = f"{found[names[0]]['level']} at step {found[names[0]]['first_step']}" if hit else ""
        more = [n for n, f in found.items() if f["level"] != "note" and n not in names]
        print(
            f"{one.framework:<9}{one.algorithm:<5}{one.fault:<38}{name_intervention(one):<16}"
            f"{one.check if hit else 'MISSED ' + one.check:<20}{where:<22}also {', '.join(more)}",
            flush=True,
        )
        if hit:
            print(f"         {found[names[0]]['seen']}", flush=True)
    quiet = [
        setting
        for setting, found in healthy.items()
        if not any(finding["level"] != "note" for finding in found.values())
    ]
    for check, found_of in hits.items():
        print(f"{check:<15}{sum(found_of)} of {len(found_of)} found")
    all_hits = sum(map(sum, hits.values()))
    print(f"{all_hits} of {len(chosen)} found, and not without the fault;")
    print(f"{len(quiet)} of {len(healthy)} settings without a fault had neither error nor warning")


def load_planted_faults() -> list[PlantedFault]:
    """Return all rows of the table."""
    with PLANTED_FAULTS.open(newline="") as file:
        return [PlantedFault(**row) for row in csv.DictReader(file)]


def name_intervention(one: PlantedFault) -> str:
    """Return the name of a fault on the command line."""
    if not one.operator:
        return one.text
    from parallax.harness.contract.adapter_discovery import load_adapter
    from parallax.harness.interventions.mutants import load_mutants

    matching = [
        mutant
        for mutant in load_mutants(load_adapter(one.framework), one.algorithm)
        if mutant.operator == one.operator and one.text in mutant.before
    ]
    return matching[int(one.number)].name


def _train_with_change(setting: Setting, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the findings of a short run, by id."""
    steps = PLANTED_STEPS.get(setting[1], 1200)
    with tempfile.TemporaryDirectory() as folder:
        where = *setting, seed, Path(folder), "on"
        content, report = train_with_diagnosis(*where, steps=steps, period=60, changes=changes)
    if report["problems"] or content["status"] != "completed":
        print(f"    {content['status']}: {content['failure']} {report['troubles']}", flush=True)
    return {finding["id"]: finding for finding in report["findings"]}


def train_healthy_runs(options: argparse.Namespace) -> None:
    """Train healthy runs and save the signals of their checks; skip runs that are saved already."""
    from benchmarks import diagnosis_recorder as recorder
    from parallax.harness.contract.fields import SpecError

    options.keep.mkdir(parents=True, exist_ok=True)
    # In random order, so that the runs so far represent all of them.
    pairs = _list_healthy_runs(options)
    random.Random(0).shuffle(pairs)
    for setting, seed in pairs:
        path = options.keep / ("-".join((*setting, str(seed))) + ".pickle.gz")
        if path.exists():
            continue
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                content, report = train_with_diagnosis(
                    *setting, seed, Path(folder), "on", recorded=True
                )
            except SpecError as error:
                print(f"{setting}: {error}", flush=True)
                continue
            returns = _format_returns(Path(folder))
        recorder.save_signals(
            path,
            {
                "setting": setting,
                "seed": seed,
                "returns": returns,
                "status": content["status"],
                "problems": report["problems"],
            },
        )
        found = {one["id"]: one["level"] for one in report["findings"]}
        seconds = time.process_time() - begun
        print(f"{' '.join(setting)} {seed}: {content['status']} {returns} {seconds:.0f} s")
        print(f"    {found} {report['troubles']}", flush=True)
    print_false_positives(options)


def _list_healthy_runs(options: argparse.Namespace) -> list[tuple[Setting, int]]:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    more = range(seeds.stop, seeds.stop + options.seeds)
    return [
        (setting, seed)
        for setting in list_settings(options.frameworks, options.algorithms)
        for seed in (*seeds, *(more if setting[1] == "dqn" else ()))  # DQN has one task
    ]


def print_false_positives(options: argparse.Namespace) -> None:
    """Print false positives per saved healthy run, with the current checks and thresholds."""
    from benchmarks import diagnosis_recorder as recorder

    positives: dict[int, list[dict[str, str]]] = {0: [], 1: []}
    for about, recorded in recorder.load_signals(options.keep):
        found = recorder.evaluate_checks(recorded)
        positives[about["seed"] % 2].append({name: level for name, (level, _, _) in found.items()})
        for name, (level, step, text) in found.items():
            if level != "note" or options.notes:
                setting = " ".join(about["setting"])
                print(f"{setting} {about['seed']} {about['returns']}: {level} {name} {step} {text}")
    _print_counts("healthy", positives)


def _format_returns(folder: Path) -> str:
    import numpy as np

    path = next(folder.rglob("evaluations.npz"), None)
    if path is None:
        return "no evaluation"
    with np.load(path) as file:
        means = file["results"].mean(axis=1)
    return f"{means[0]:.4g} to {means[-1]:.4g}"


def _print_counts(what: str, positives: dict[int, list[dict[str, str]]]) -> None:
    for half, runs in positives.items():
        for level in ("error", "warning", "note"):
            hit = collections.Counter(n for run in runs for n, at in run.items() if at == level)
            touched = sum(level in run.values() for run in runs)
            print(
                f"{what}, {HALVES[half]}: {touched} of {len(runs)} runs with {level}s {dict(hit)}"
            )


MEASUREMENTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "faults": print_program_faults,
    "wrong_settings": print_wrong_settings,
    "planted": print_planted_faults,
    "healthy": train_healthy_runs,
    "judge": print_false_positives,
}


if __name__ == "__main__":
    main()
