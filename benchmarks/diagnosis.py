"""How good the diagnosis is and what it costs: faults found, false alarms, CPU time.

    python benchmarks/diagnosis.py faults               faulty programs, and their healthy twins
    python benchmarks/diagnosis.py sabotage             frameworks' own code, set wrong
    python benchmarks/diagnosis.py planted              faults in frameworks' own code, and without
    python benchmarks/diagnosis.py healthy --seeds 2    false alarms in short runs of frameworks
    python benchmarks/diagnosis.py cost --repeats 6     CPU time, watched over not watched
    python benchmarks/diagnosis.py share                its own share of the time of a training

Runs with an even seed are the half on which thresholds may be set; those with an odd seed judge.
"""

import argparse
import collections
import contextlib
import dataclasses
import io
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

import diagnosis_seams

MODES = ("faults", "sabotage", "planted", "healthy", "judge", "cost", "share")
HALVES = {0: "set on", 1: "judged on"}
FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx")
ALGORITHMS = ("ppo", "dqn", "sac", "td3", "ddpg")
TASKS = {
    "continuous": ("InvertedPendulum-v4", "Pendulum-v1", "Reacher-v4"),
    "discrete": ("CartPole-v1",),
}
"""The first for all, the others in turn."""


def main() -> None:
    """Measures what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(MODES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=0, help="by algorithm without")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("results/diagnosis-healthy"))
    parser.add_argument("--programs", nargs="*", help="numbers of posts; all without")
    parser.add_argument("--words", nargs="*", help="what is set wrong; all without")
    parser.add_argument("--notes", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    globals()[options.what](options)


def faults(options: argparse.Namespace) -> None:
    """Which faults their check finds, and whether it finds them in the healthy twin, too."""
    from faulty_programs.programs import PROGRAMS, TWINS

    names = {id(twin): name for name, twin in TWINS.items()}
    wanted = [p for p in PROGRAMS if not options.programs or p.post in options.programs]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    told: dict[int, list[dict[str, Any]]] = {}
    for twin in {id(program.twin): program.twin for program in wanted}.values():
        told[id(twin)] = [twin(seed=seed)[0] for seed in seeds]
    print(f"{len(seeds)} runs each; what the twin is told: errors and warnings in all its runs")
    found = 0
    for program in wanted:
        runs = [program.twin(program.fault, seed=seed)[0] for seed in seeds]
        hits, healthy = (
            [run[program.check] for run in one if program.check in run]
            for one in (runs, told[id(program.twin)])
        )
        found += len(hits) == len(runs) and not healthy
        print(
            f"{program.post:<12}{names[id(program.twin)]:<26}{program.words:<42}"
            f"{program.check:<15}{len(hits)} of {len(runs)}, twin {len(healthy)}"
        )
        print(f"            {hits[0].seen.text if hits else 'not found'}", flush=True)
    print(f"{found} of {len(wanted)} found in all runs and in none of the twin's")
    for key, runs in told.items():
        counts = collections.Counter(
            f"{f.level} {name}" for run in runs for name, f in run.items() if f.level != "note"
        )
        print(f"healthy {names[key]}: {dict(counts)}")


RATES = {"policy_learning_rate": 0.5, "critic_learning_rate": 0.5}
SABOTAGES: tuple[tuple[str, str, str, str, dict[str, Any]], ...] = (
    # words, check, algorithm, task, what is set
    ("gamma=1", "GAM", "dqn", "CartPole-v1", {"gamma": 1.0}),
    (
        "targets every 1500 steps",
        "AGT_d1_seldom",
        "dqn",
        "CartPole-v1",
        {"target_update_interval": 1500},
    ),
    (
        "exploration 0.05",
        "EXP_d1",
        "dqn",
        "CartPole-v1",
        {"exploration_initial": 0.05, "exploration_final": 0.04},
    ),
    ("exploration over in 40 steps", "EXP_d2", "dqn", "CartPole-v1", {"exploration_steps": 40}),
    ("buffer of 200", "RPL", "dqn", "CartPole-v1", {"buffer_size": 200, "learning_starts": 100}),
    ("learning rate 0.5", "NN_update", "dqn", "CartPole-v1", {"learning_rate": 0.5}),
    ("learning rates 0.5", "NN_update", "ddpg", "Pendulum-v1", RATES),
    (
        "reward-times-10",
        "QTR_stored",
        "ddpg",
        "InvertedPendulum-v4",
        {"intervention": "reward-times-10"},
    ),
    ("reward-times-0.1", "", "ddpg", "InvertedPendulum-v4", {"intervention": "reward-times-0.1"}),
    ("reward-every-10-steps", "", "dqn", "CartPole-v1", {"intervention": "reward-every-10-steps"}),
    ("same-start", "", "dqn", "CartPole-v1", {"intervention": "same-start"}),
    ("limits-are-ends", "", "dqn", "CartPole-v1", {"intervention": "limits-are-ends"}),
)
"""Runs of frameworks with one thing wrong; an empty check is a change that none asks for."""


def sabotage(options: argparse.Namespace) -> None:
    """Which frameworks' runs that are set wrong are found out by their check."""
    from harness.contract.fields import SpecError

    counts: dict[str, list[bool]] = collections.defaultdict(list)
    for words, check, algorithm, task, changes in SABOTAGES:
        if options.words and words not in options.words:
            continue
        for framework in options.frameworks:
            begun = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                where = framework, algorithm, task, options.first_seed, Path(folder), "on"
                try:
                    _, report = _run(*where, steps=SABOTAGED, period=40, changes=changes)
                except SpecError as error:
                    print(f"{words:<30}{framework:<10}not settable: {error}", flush=True)
                    continue
            found = {one["id"]: one["level"] for one in report["findings"]}
            told = [f"{level[0]} {name}" for name, level in found.items() if level != "note"]
            if check:
                counts[check].append(check in found)
            verdict = ("found" if check in found else "MISSED") if check else "no check asks"
            seconds = time.process_time() - begun
            print(
                f"{words:<30}{framework:<10}{check:<15}{verdict:<15}{', '.join(told)} "
                f"({seconds:.0f} s)",
                flush=True,
            )
    for check, hits in counts.items():
        print(f"{check:<15}{sum(hits)} of {len(hits)} found")


def planted(options: argparse.Namespace) -> None:
    """Which faults in frameworks' own code their check finds, and what it says without them."""
    from diagnosis_planted import PLANTED, intervention

    chosen = [
        one
        for one in PLANTED
        if one.framework in options.frameworks
        and one.algorithm in options.algorithms
        and (not options.words or one.words in options.words)
    ]
    told: dict[tuple[str, str, str], dict[str, Any]] = {}
    hits: dict[str, list[bool]] = collections.defaultdict(list)
    for one in chosen:
        first = TASKS["discrete" if one.algorithm == "dqn" else "continuous"][0]
        setting = one.framework, one.algorithm, one.task or first
        if setting not in told:
            told[setting] = _watched(setting, options.first_seed, {})
            loud = [
                f"{f['level'][0]} {n}" for n, f in told[setting].items() if f["level"] != "note"
            ]
            print(f"{' '.join(setting):<40}as it is: {', '.join(loud)}", flush=True)
        found = _watched(setting, options.first_seed, {"intervention": intervention(one)})
        names = [name for name in one.check.split("|") if name in found]
        hit = bool(names) and not set(names) & set(told[setting])
        hits[one.check].append(hit)
        where = f"{found[names[0]]['level']} at step {found[names[0]]['first_step']}" if hit else ""
        more = [n for n, f in found.items() if f["level"] != "note" and n not in names]
        print(
            f"{one.framework:<9}{one.algorithm:<5}{one.words:<38}{intervention(one):<16}"
            f"{one.check if hit else 'MISSED ' + one.check:<20}{where:<22}also {', '.join(more)}",
            flush=True,
        )
        if hit:
            print(f"         {found[names[0]]['seen']}", flush=True)
    quiet = [
        setting
        for setting, found in told.items()
        if not any(finding["level"] != "note" for finding in found.values())
    ]
    for check, found_of in hits.items():
        print(f"{check:<15}{sum(found_of)} of {len(found_of)} found")
    all_hits = sum(map(sum, hits.values()))
    print(f"{all_hits} of {len(chosen)} found, and not without the fault;")
    print(f"{len(quiet)} of {len(told)} settings without a fault had neither error nor warning")


def _watched(setting: tuple[str, str, str], seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    """What a short run is told, by id."""
    steps = PLANTED_STEPS.get(setting[1], 1200)
    with tempfile.TemporaryDirectory() as folder:
        where = *setting, seed, Path(folder), "on"
        content, report = _run(*where, steps=steps, period=60, changes=changes)
    if report["troubles"] or content["status"] != "completed":
        print(f"    {content['status']}: {content['failure']} {report['troubles']}", flush=True)
    return {finding["id"]: finding for finding in report["findings"]}


def healthy(options: argparse.Namespace) -> None:
    """Trains healthy runs and keeps what their checks were shown; those there are stay."""
    import diagnosis_recorder as recorder

    from harness.contract.fields import SpecError

    options.keep.mkdir(parents=True, exist_ok=True)
    # In mixed order, so that what there is by now stands for all.
    pairs = _healthy(options)
    random.Random(0).shuffle(pairs)
    for setting, seed in pairs:
        path = options.keep / ("-".join((*setting, str(seed))) + ".pickle.gz")
        if path.exists():
            continue
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                content, report = _run(*setting, seed, Path(folder), "on", recorded=True)
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


def _healthy(options: argparse.Namespace) -> list[tuple[tuple[str, str, str], int]]:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    more = range(seeds.stop, seeds.stop + options.seeds)
    return [
        (setting, seed)
        for setting in _settings(options)
        for seed in (*seeds, *(more if setting[1] == "dqn" else ()))  # DQN has one task
    ]


def judge(options: argparse.Namespace) -> None:
    """False alarms per healthy run, by today's checks and thresholds, of what was kept."""
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


def cost(options: argparse.Namespace) -> None:
    """CPU time of watched runs over that of runs that are not, both of a pair at the same time.

    Each has a core to itself: what else slows the machine slows both. One after the other, the
    interval of six pairs was ten times as wide as what is to be seen. Of two pairs, between which
    the cores are changed over, one number is made: what one core is faster by cancels.
    """
    import numpy as np
    from scipy import stats

    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("cost needs two cores: the two runs of a pair are compared side by side.")
    print("CPU time with over without: geometric mean of double pairs, Student's 95% interval")
    for framework, algorithm, task in _settings(options):
        if task not in (TASKS["continuous"][0], TASKS["discrete"][0]):
            continue
        setting = (framework, algorithm, task)
        steps = options.steps or COST_STEPS[algorithm]
        logs = []
        for _ in range(options.repeats):
            both = []
            for places in (cores, cores[::-1]):
                where = dict(zip(("off", "on"), places, strict=True))
                off, on = _side_by_side(setting, steps, where)
                both.append(np.log(on / off))
            logs.append(np.mean(both))
        half = stats.t.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / np.sqrt(len(logs))
        low, middle, high = np.exp(np.mean(logs) + half * np.array([-1, 0, 1]))
        print(
            f"{framework:<10}{algorithm:<6}{task:<22}{steps:>6} steps {middle:.3f} "
            f"({low:.3f} to {high:.3f}), n={len(logs)} double pairs",
            flush=True,
        )


def _side_by_side(
    setting: tuple[str, str, str], steps: int, cores: dict[str, int]
) -> tuple[float, float]:
    """CPU seconds of a training without and with the checks, each on its own core."""
    context = multiprocessing.get_context("spawn")
    ready, told = context.Barrier(2, timeout=300), context.SimpleQueue()
    runs = [
        context.Process(target=_timed, args=(setting, steps, mode, core, ready, told))
        for mode, core in cores.items()
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
        if run.exitcode:
            raise SystemExit(f"A run of {' '.join(setting)} failed.")
    seconds = dict(told.get() for _ in runs)
    return seconds["off"], seconds["on"]


def _timed(
    setting: tuple[str, str, str], steps: int, mode: str, core: int, ready: Any, told: Any
) -> None:
    os.sched_setaffinity(0, {core})
    with tempfile.TemporaryDirectory() as folder:
        _run(*setting, 0, Path(folder) / "first", mode, steps=600)  # imports the framework
        ready.wait()
        begun = time.process_time()
        _run(*setting, 0, Path(folder) / "measured", mode, steps=steps)
        told.put((mode, time.process_time() - begun))


def share(options: argparse.Namespace) -> None:
    """The time spent in the diagnosis' own code over that of the rest of the training."""
    print(f"{'':<40}{'training s':>11}{'share %':>9}{'step µs':>9}{'look ms':>9}{'looks':>7}")
    for framework, algorithm, task in _settings(options):
        if task not in (TASKS["continuous"][0], TASKS["discrete"][0]):
            continue
        found = []
        for repeat in range(options.repeats + 1):
            seams = diagnosis_seams.Seams(diagnosis_seams.CLOCK)
            with tempfile.TemporaryDirectory() as folder, diagnosis_seams.placed(seams):
                steps = (options.steps or COST_STEPS[algorithm]) if repeat else 600
                _run(framework, algorithm, task, 0, Path(folder), "on", steps=steps)
            if repeat:  # the first one imports the framework
                found.append(diagnosis_seams.summary(seams, steps))
        middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
        print(
            f"{framework:<10}{algorithm:<6}{task:<24}{middle['training']:>11.2f}"
            f"{middle['share'] * 100:>9.2f}{middle['step'] * 1e6:>9.1f}{middle['look'] * 1e3:>9.1f}"
            f"{middle['looks']:>7.0f}",
            flush=True,
        )


def _settings(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Two tasks for each framework and algorithm; for continuous actions the second ones vary."""
    from harness.contract.algorithms import ALGORITHMS as KNOWN

    found = []
    for f, framework in enumerate(FRAMEWORKS):
        for a, algorithm in enumerate(ALGORITHMS):
            if framework not in options.frameworks or algorithm not in options.algorithms:
                continue
            first, *others = TASKS[KNOWN[algorithm].actions]
            tasks = (first, others[(f + a) % len(others)]) if others else (first,)
            found += [(framework, algorithm, task) for task in tasks]
    return found


SABOTAGED = 2600
COST_STEPS = {"ppo": 12_288, "dqn": 8000, "sac": 3000, "td3": 4000, "ddpg": 4000}
"""Of some ten CPU seconds each."""

PLANTED_STEPS = {"ppo": 1600, "dqn": 1300}
STEPS = {"ppo": 3072, "dqn": 1600}
SOUND: dict[str, Any] = {
    "learning_rate": 5e-4,
    "policy_learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "temperature_learning_rate": 1e-3,
    "initial_temperature": 0.2,
    "hidden_sizes": (64, 64),
    "batch_size": 64,
    "buffer_size": 50_000,
    "learning_starts": 300,
    "rollout_steps": 512,
    "minibatch_size": 64,
    "epochs": 10,
    "exploration_initial": 1.0,
    "exploration_final": 0.05,
    "exploration_steps": 5000,
    "target_update_interval": 1,
    "env_steps_per_round": 2,
    "gradient_steps_per_round": 1,
    "exploration_noise": 0.1,
    "gamma": 0.99,
}
_ROUNDS = ("env_steps_per_round", "gradient_steps_per_round")
FIXED = {"cleanrl": ("hidden_sizes", *_ROUNDS, "initial_temperature"), "skrl": _ROUNDS}


def _run(
    framework: str,
    algorithm: str,
    task: str,
    seed: int,
    folder: Path,
    mode: str,
    *,
    recorded: bool = False,
    steps: int = 0,
    period: int | None = None,
    changes: dict[str, Any] | None = None,
) -> tuple[Any, Any]:
    """One run with values that are known to learn within few steps."""
    import support

    from harness.conformance.trainings import base_hyperparameters

    also: dict[str, Any] = {"also": ("diagnosis_recorder:RECORDER",)} if recorded else {}
    also |= {"period": period} if period else {}
    if recorded:  # as many looks as a longer run has by now
        also["period"] = STEPS.get(algorithm, 1200) // 40
    steps = steps or STEPS.get(algorithm, 1200)
    values = dataclasses.asdict(base_hyperparameters(framework, algorithm))
    sound = {name: value for name, value in SOUND.items() if name in values}
    values |= {n: v for n, v in sound.items() if n not in FIXED.get(framework, ())}
    if algorithm == "dqn":
        values |= {"target_update_interval": 250}
        values |= {"exploration_steps": steps // 2}
    elif "tau" in values:
        values |= {"tau": 0.01}
    if algorithm == "ppo":
        values |= {"learning_rate": 1e-3}
    changes = changes or {}
    values |= {name: value for name, value in changes.items() if name in values}
    more = {name: value for name, value in changes.items() if name not in values}
    evaluations = {"eval_every": steps // 2, "eval_episodes": 2}
    spec = support.spec(
        *(framework, algorithm),
        hyperparameters=values,
        alignment="full",
        **evaluations | {"env": task, "steps": steps, "seed": seed} | more,
    )
    spec = dataclasses.replace(spec, diagnosis={"mode": mode, **also}, checkpoint_every=0.0)
    with contextlib.redirect_stdout(io.StringIO()):
        place, content = support.run(spec, folder)
    path = place / "diagnosis.json"
    return content, json.loads(path.read_text()) if path.exists() else None


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
