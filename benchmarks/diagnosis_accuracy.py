"""Accuracy of the diagnosis: how many planted faults it finds, and false alarms on healthy runs.

    python benchmarks/diagnosis.py faults               faulty programs, and their healthy twins
    python benchmarks/diagnosis.py wrong_settings       frameworks' own code, with wrong settings
    python benchmarks/diagnosis.py planted              their own code, with and without faults
    python benchmarks/diagnosis.py healthy --seeds 2    false alarms in short runs of frameworks
    python benchmarks/diagnosis.py judge                the same runs, with the current checks

Thresholds may be tuned on runs with an even seed; runs with an odd seed are the test set.
"""

import argparse
import collections
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from diagnosis_runs import ALGORITHMS, FRAMEWORKS, TASKS, Setting, settings, watched_run

MODES = ("faults", "wrong_settings", "planted", "healthy", "judge")
HALVES = {0: "set on", 1: "judged on"}
CHANGED_STEPS = 2600
PLANTED_STEPS = {"ppo": 1600, "dqn": 1300}


def main() -> None:
    """Measure what the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(MODES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("results/diagnosis-healthy"))
    parser.add_argument("--programs", nargs="*", help="numbers of posts; all without")
    parser.add_argument("--words", nargs="*", help="what is set wrong; all without")
    parser.add_argument("--notes", action="store_true")
    parser.add_argument("--frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    globals()[options.what](options)


def faults(options: argparse.Namespace) -> None:
    """Print which faults their check finds, and whether it finds them in the healthy twin, too."""
    from faulty_programs.programs import HEALTHY_PROGRAMS, PROGRAMS

    names = {id(train): name for name, train in HEALTHY_PROGRAMS.items()}
    wanted = [p for p in PROGRAMS if not options.programs or p.post in options.programs]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    healthy_runs: dict[int, list[dict[str, Any]]] = {}
    for train in {id(program.train): program.train for program in wanted}.values():
        healthy_runs[id(train)] = [train(seed=seed)[0] for seed in seeds]
    print(f"{len(seeds)} runs each; errors and warnings in the twin's runs")
    found = 0
    for program in wanted:
        runs = [program.train(program.fault, seed=seed)[0] for seed in seeds]
        hits, healthy = (
            [run[program.check] for run in one if program.check in run]
            for one in (runs, healthy_runs[id(program.train)])
        )
        found += len(hits) == len(runs) and not healthy
        print(
            f"{program.post:<12}{names[id(program.train)]:<26}{program.words:<42}"
            f"{program.check:<15}{len(hits)} of {len(runs)}, twin {len(healthy)}"
        )
        print(f"            {hits[0].seen.text if hits else 'not found'}", flush=True)
    print(f"{found} of {len(wanted)} found in all runs and in none of the twin's")
    for key, runs in healthy_runs.items():
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
"""Runs of frameworks with one thing wrong; an empty check means that none looks for it."""


def wrong_settings(options: argparse.Namespace) -> None:
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
                    _, report = watched_run(*where, steps=CHANGED_STEPS, period=40, changes=changes)
                except SpecError as error:
                    print(f"{words:<30}{framework:<10}not settable: {error}", flush=True)
                    continue
            found = {one["id"]: one["level"] for one in report["findings"]}
            others = [f"{level[0]} {name}" for name, level in found.items() if level != "note"]
            if check:
                counts[check].append(check in found)
            verdict = ("found" if check in found else "MISSED") if check else "no check asks"
            seconds = time.process_time() - begun
            print(
                f"{words:<30}{framework:<10}{check:<15}{verdict:<15}{', '.join(others)} "
                f"({seconds:.0f} s)",
                flush=True,
            )
    for check, hits in counts.items():
        print(f"{check:<15}{sum(hits)} of {len(hits)} found")


def planted(options: argparse.Namespace) -> None:
    """Print which faults in frameworks' code their check finds, and its findings without them."""
    from diagnosis_planted import load_planted_faults, name_intervention

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
            healthy[setting] = _watched(setting, options.first_seed, {})
            loud = [
                f"{f['level'][0]} {n}" for n, f in healthy[setting].items() if f["level"] != "note"
            ]
            print(f"{' '.join(setting):<40}as it is: {', '.join(loud)}", flush=True)
        found = _watched(setting, options.first_seed, {"intervention": name_intervention(one)})
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


def _watched(setting: Setting, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the findings of a short run, by id."""
    steps = PLANTED_STEPS.get(setting[1], 1200)
    with tempfile.TemporaryDirectory() as folder:
        where = *setting, seed, Path(folder), "on"
        content, report = watched_run(*where, steps=steps, period=60, changes=changes)
    if report["troubles"] or content["status"] != "completed":
        print(f"    {content['status']}: {content['failure']} {report['troubles']}", flush=True)
    return {finding["id"]: finding for finding in report["findings"]}


def healthy(options: argparse.Namespace) -> None:
    """Train healthy runs and save the signals of their checks; skip runs that are saved already."""
    import diagnosis_recorder as recorder

    from parallax.harness.contract.fields import SpecError

    options.keep.mkdir(parents=True, exist_ok=True)
    # In random order, so that the runs so far represent all of them.
    pairs = _healthy(options)
    random.Random(0).shuffle(pairs)
    for setting, seed in pairs:
        path = options.keep / ("-".join((*setting, str(seed))) + ".pickle.gz")
        if path.exists():
            continue
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                content, report = watched_run(*setting, seed, Path(folder), "on", recorded=True)
            except SpecError as error:
                print(f"{setting}: {error}", flush=True)
                continue
            returns = _returns(Path(folder))
        recorder.save(
            path,
            {
                "setting": setting,
                "seed": seed,
                "returns": returns,
                "status": content["status"],
                "troubles": report["troubles"],
            },
        )
        found = {one["id"]: one["level"] for one in report["findings"]}
        seconds = time.process_time() - begun
        print(f"{' '.join(setting)} {seed}: {content['status']} {returns} {seconds:.0f} s")
        print(f"    {found} {report['troubles']}", flush=True)
    judge(options)


def _healthy(options: argparse.Namespace) -> list[tuple[Setting, int]]:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    more = range(seeds.stop, seeds.stop + options.seeds)
    return [
        (setting, seed)
        for setting in settings(options.frameworks, options.algorithms)
        for seed in (*seeds, *(more if setting[1] == "dqn" else ()))  # DQN has one task
    ]


def judge(options: argparse.Namespace) -> None:
    """Print false alarms per saved healthy run, with the current checks and thresholds."""
    import diagnosis_recorder as recorder

    alarms: dict[int, list[dict[str, str]]] = {0: [], 1: []}
    for about, shown in recorder.saved(options.keep):
        found = recorder.asked_again(shown)
        alarms[about["seed"] % 2].append({name: level for name, (level, _, _) in found.items()})
        for name, (level, step, text) in found.items():
            if level != "note" or options.notes:
                place = " ".join(about["setting"])
                print(f"{place} {about['seed']} {about['returns']}: {level} {name} {step} {text}")
    _tell_alarms("healthy", alarms)


def _returns(folder: Path) -> str:
    import numpy as np

    path = next(folder.rglob("evaluations.npz"), None)
    if path is None:
        return "no evaluation"
    with np.load(path) as file:
        means = file["results"].mean(axis=1)
    return f"{means[0]:.4g} to {means[-1]:.4g}"


def _tell_alarms(what: str, alarms: dict[int, list[dict[str, str]]]) -> None:
    for half, runs in alarms.items():
        for level in ("error", "warning", "note"):
            hit = collections.Counter(n for run in runs for n, at in run.items() if at == level)
            touched = sum(level in run.values() for run in runs)
            print(
                f"{what}, {HALVES[half]}: {touched} of {len(runs)} runs with {level}s {dict(hit)}"
            )


if __name__ == "__main__":
    main()
