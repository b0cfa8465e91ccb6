"""Compares accelerated with plain trainings: is the update the same, and how much faster is it?

`python benchmarks/accelerations.py --output docs/accelerations.json` measures each case that is
not in FILE yet, and stores it at once: the file has one case per line. `--markdown PAGE` writes
the table; `--report` measures nothing.

Equality: lockstep training (same weights, transitions, minibatches and random numbers), and probes
of single updates. If probes cannot look into compiled code, weights of two real trainings with the
same seed are compared. Speed: a plain and an accelerated process train in turns of some environment
steps each, so that other work on the machine slows both equally.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from parallax.harness.contract.acceleration import ACCELERATIONS, NO_ACCELERATION, split_device
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.record.files import write_text

CASES: tuple[tuple[str, str, str], ...] = (
    *(("sb3", "td3", name) for name in ("fused-adam", "foreach-adam", "matmul-medium")),
    ("sb3", "td3", "bfloat16"),
    ("torchrl", "td3", "no-vmap"),
    ("sbx", "td3", "eager"),
    ("sb3", "ppo", "fused-adam"),
    *((name, "td3", "fused-adam") for name in ("cleanrl", "tianshou", "skrl", "torchrl")),
    *((name, "td3", "compile") for name in ("sb3", "torchrl", "cleanrl")),
    ("torchrl", "ddpg", "compile"),
)
"""Framework, algorithm and acceleration."""
UPDATES = {"compile": 10, "cuda-graphs": 10}
"""Lockstep updates, where their number is not `MOST_UPDATES`."""
MOST_UPDATES = 48
ENV, RECIPE, SEED, THREADS = "Pendulum-v1", "original", 0, 1
WARM_UP, PAIRS, STEPS_PER_TURN = 300, 7, 25
"""Environment steps before learning; pairs of turns; environment steps in each turn."""
COMPILE_TURNS = 8
"""Further turns that are not timed if code is compiled."""
ROLLOUT_STEPS = 512
WEIGHT_COUNTS = (1, 2, 5, 10, 20, 48)
"""Updates of real trainings after which weights are compared."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report."""
    options = _make_parser().parse_args(arguments)
    if options.worker:
        train_in_turns(*options.worker.split(","))
        return 0
    cases = load_cases(options.output)
    for case in () if options.report else CASES:
        wanted = not options.cases or ",".join(case) in options.cases
        if wanted and (options.again or "/".join(case) not in cases):
            print(*case, flush=True)
            cases["/".join(case)] = measure_case(*case)
            write_text(options.output, render_cases(cases))
    if options.markdown:
        write_text(options.markdown, render_page(cases))
    return 0


def load_cases(path: Path) -> dict[str, Any]:
    """Load the cases that were measured, by `framework/algorithm/acceleration`."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def render_cases(cases: Mapping[str, Any]) -> str:
    """Return JSON with one case per line."""
    order = {"/".join(case): place for place, case in enumerate(CASES)}
    names = sorted(cases, key=lambda name: order.get(name, len(order)))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(cases[name])}" for name in names)
    return f"{{\n{lines}\n}}\n"


def measure_case(framework: str, algorithm: str, acceleration: str) -> dict[str, Any]:
    """Measure equality and speed of one accelerated implementation."""
    began, load = time.perf_counter(), os.getloadavg()
    observable = not load_adapter(framework).why_unobservable_acceleration(acceleration)
    measure = compare_in_lockstep if observable else compare_weights
    return {
        "equality": measure(framework, algorithm, acceleration),
        "speed": measure_speed(framework, algorithm, acceleration),
        "conditions": {
            "versions": {name: version(name) for name in load_adapter(framework).packages},
            "cpu": _read_cpu_name(),
            "cores": os.cpu_count(),
            "threads": THREADS,
            "load_before": load[0],
            "load_after": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": round(time.perf_counter() - began, 1),
        },
    }


def compare_in_lockstep(
    framework: str, algorithm: str, acceleration: str, probes: bool = True
) -> dict[str, Any]:
    """Train plain and accelerated updates in lockstep, and compare their answers to probes.

    It runs in a separate process, as `parallax lockstep --json`.
    """
    updates = UPDATES.get(split_device(acceleration)[1], MOST_UPDATES)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lockstep.json"
        command = [sys.executable, "-m", "parallax", "lockstep", "--frameworks", framework]
        command += ["--algorithms", algorithm, "--acceleration", acceleration]
        command += ["--updates", str(updates), "--json", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, env=_make_environment())
        if not file.exists():
            raise RuntimeError(f"{' '.join(command)}: {ended.stderr[-2000:]}")
        found = json.loads(file.read_text("utf-8"))
        changed = (
            _compare_probes(framework, algorithm, acceleration, Path(folder)) if probes else None
        )
    distances = found["distances"]
    return {
        "method": "lockstep",
        "updates": distances[-1]["updates"],
        "bit_equal_updates": found["bit_equal_updates"],
        "equal": found["alike"],
        "difference": max(item["apart"] for item in distances),
        "rounding": max(item["rounding"] for item in distances),
        "first_divergence": found["place"],
        "probes": changed,
    }


def _compare_probes(
    framework: str, algorithm: str, acceleration: str, folder: Path
) -> dict[str, Any] | None:
    """Return the number of probes, and the names of those whose answers change."""
    if acceleration == "compile":  # every probe would compile its networks again
        return None
    from parallax.harness.probes.baseline import load_report
    from parallax.harness.probes.catalogue import PROBES
    from parallax.harness.probes.intervention_check import format_intervention_label
    from parallax.harness.probes.probe import is_same_answer

    file = folder / "answers.json"
    command = [sys.executable, "-m", "parallax", "probe", "--frameworks", framework]
    command += ["--algorithms", algorithm, "--acceleration", acceleration, "--json", str(file)]
    subprocess.run(command, capture_output=True, check=False, env=_make_environment())
    known = {probe.name: probe for probe in PROBES}
    measured, changed = 0, []
    for result in load_report(file).results:
        names = (framework, format_intervention_label(framework, acceleration))
        plain, other = (result.answers.get(name) for name in names)
        if plain is None or other is None or plain.unmeasured:
            continue
        measured += 1
        if other.unmeasured or not is_same_answer(known[result.probe], plain, other):
            changed.append(result.probe)
    return {"asked": measured, "changed": changed}


def compare_weights(framework: str, algorithm: str, acceleration: str) -> dict[str, Any]:
    """Compare weights of two real trainings with the same seed after more and more updates."""
    differences = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        both = [
            stack.enter_context(TrainingProcess(framework, algorithm, name))
            for name in (NO_ACCELERATION, acceleration)
        ]
        files = [Path(folder) / f"{number}.npz" for number in range(2)]
        for process in both:
            process.advance(WARM_UP)
        taken = 0
        for count in WEIGHT_COUNTS:
            for process, file in zip(both, files, strict=True):
                process.advance(count - taken)
                process.save_weights(file)
            differences[count] = _compute_difference(*(np.load(file) for file in files))
            taken = count
    equal = [count for count, difference in differences.items() if difference == 0]
    return {
        "method": "weights of two trainings",
        "updates": WEIGHT_COUNTS[-1],
        "bit_equal_updates": max(equal, default=0),
        "equal": None if any(differences.values()) else True,
        "difference": max(differences.values()),
        "differences": differences,
    }


def _compute_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the largest difference of a weight, as a share of the largest of its array."""
    shares = [
        float(np.abs(one[name] - other[name]).max()) / max(float(np.abs(one[name]).max()), 1e-12)
        for name in one
    ]
    return max(shares)


def measure_speed(framework: str, algorithm: str, acceleration: str) -> dict[str, Any]:
    """Time a plain and an accelerated training in turns."""
    turn = 1 if algorithm == "ppo" else STEPS_PER_TURN
    begin = 1 if algorithm == "ppo" else WARM_UP + STEPS_PER_TURN
    with contextlib.ExitStack() as stack:
        both = [
            stack.enter_context(TrainingProcess(framework, algorithm, name))
            for name in (acceleration.rpartition("+")[0] or NO_ACCELERATION, acceleration)
        ]
        first = [process.advance(begin)[0] for process in both]  # with compiling
        for process in both:  # a few of the first updates compile again
            compiles = split_device(acceleration)[1] in UPDATES
            process.advance((COMPILE_TURNS if compiles else 1) * turn)
        pairs = []
        for number in range(PAIRS):
            order = both if number % 2 else both[::-1]
            times = {process: process.advance(turn) for process in order}
            pairs.append([times[process] for process in both])
    wall = [plain[0] / fast[0] for plain, fast in pairs]
    cpu = [plain[1] / fast[1] for plain, fast in pairs]
    return {
        "wall_ratio": statistics.median(wall),
        "wall_ratios": sorted(wall),
        "cpu_ratio": statistics.median(cpu),
        "best_ratio": min(p[0][0] for p in pairs) / min(p[1][0] for p in pairs),
        "seconds_plain": statistics.median(plain[0] for plain, _ in pairs),
        "seconds_accelerated": statistics.median(fast[0] for _, fast in pairs),
        "turns_per_side": PAIRS,
        "env_steps_per_turn": ROLLOUT_STEPS if algorithm == "ppo" else STEPS_PER_TURN,
        "first_turn_extra_seconds": first[1] - first[0],
        "env": ENV,
        "recipe": RECIPE,
        "hyperparameters": _choose_sizes(algorithm),
    }


class TrainingProcess:
    """A training in a separate process that advances on request and waits in between."""

    def __init__(self, framework: str, algorithm: str, acceleration: str) -> None:
        """Start the process; it trains nothing yet."""
        names = ",".join((framework, algorithm, acceleration))
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=_make_environment(),
        )

    def __enter__(self) -> "TrainingProcess":
        """Return the process."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def advance(self, calls: int) -> tuple[float, float]:
        """Train up to the `calls`-th next safe point; return seconds and CPU seconds."""
        seconds, cpu_seconds = self._request({"advance": calls})
        return seconds, cpu_seconds

    def save_weights(self, path: Path) -> None:
        """Let the process write its weights to an `.npz` file."""
        self._request({"save": str(path)})

    def _request(self, message: Mapping[str, Any]) -> Any:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(message), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the training {self._process.args!r} ended")
        return json.loads(answer)


def train_in_turns(framework: str, algorithm: str, acceleration: str) -> None:
    """Train in this process as requested by lines on standard input."""
    from parallax.envs.tasks import make_task_env
    from parallax.harness.contract.recipes import read_recipe
    from parallax.harness.contract.run_spec import RUN_DEFAULTS, make_run_spec
    from parallax.harness.interventions.catalogue import make_replacement
    from parallax.harness.train.prepare import prepare_run

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    recipe = read_recipe(algorithm, RECIPE)
    names = {"study": "benchmark", "framework": framework, "algorithm": algorithm, "env": ENV}
    values = RUN_DEFAULTS | names | {"hps": RECIPE, "seed": SEED, "steps": 10**5}
    device, acceleration = split_device(acceleration)
    values |= {"alignment": "exact", "acceleration": acceleration, "device": device}
    spec = make_run_spec(values, recipe | _choose_sizes(algorithm), recipe)
    adapter = load_adapter(framework)
    prepared = prepare_run(spec, adapter)
    with make_replacement(prepared.interventions).apply_replacement():
        adapter.train(
            algorithm,
            prepared.native,
            prepared.context,
            lambda: make_task_env(ENV),
            _TurnMonitor(answers),
        )


def _choose_sizes(algorithm: str) -> dict[str, Any]:
    """Return hyperparameters of the speed measurement that differ from the recipe."""
    return {"rollout_steps": ROLLOUT_STEPS} if algorithm == "ppo" else {"learning_starts": WARM_UP}


class _TurnMonitor:
    """Monitor that waits at a safe point whenever a turn is over."""

    def __init__(self, answers: Any) -> None:
        self._answers, self._left = answers, 0
        self._weights: Any = None
        self._began: tuple[float, float] | None = None

    def attach(self, policy: Any, weights: Any, *_: Any) -> None:
        self._weights = weights

    def record(self, metrics: Any) -> None:
        pass

    def safe_point(self) -> None:
        self._left -= 1
        if self._left > 0:
            return
        if self._began:
            self._answer(
                [now - then for now, then in zip(_read_clocks(), self._began, strict=True)]
            )
        self._wait()

    def _wait(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "advance" in message:
                self._left, self._began = message["advance"], _read_clocks()
                return
            np.savez(message["save"], **self._weights())
            self._answer([])
        raise SystemExit

    def _answer(self, content: Any) -> None:
        print(json.dumps(content), file=self._answers, flush=True)


def _read_clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _make_environment() -> dict[str, str]:
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(threads, str(THREADS))}


def _read_cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def describe_equality(found: Mapping[str, Any]) -> str:
    """Return in words whether the accelerated update is the same."""
    updates, same = found["updates"], found["bit_equal_updates"]
    if found["equal"] and found["difference"] == 0:
        return f"bit-equal over {updates} updates"
    difference = f"up to {found['difference']:.1g} of the largest weight"
    if found["equal"]:
        text = f"equal to rounding over {updates} updates ({difference}"
        return text + (f"; bit-equal until update {same})" if same else ")")
    if found["equal"] is None:
        return f"not shown: {difference} after {updates} updates"
    place = found.get("first_divergence")
    where = f", from update {place['update']} on: {place['what']}" if place else ""
    return f"another update ({difference}{where})"


def is_recommendable(case: Mapping[str, Any]) -> bool:
    """Return whether equality was shown, no answer changed, and it was faster in every pair."""
    probes = case["equality"].get("probes") or {"changed": []}
    faster = case["speed"]["wall_ratios"][0] > 1 and case["speed"]["cpu_ratio"] > 1
    return bool(case["equality"]["equal"] and not probes["changed"] and faster)


def _describe_probes(probes: Mapping[str, Any] | None) -> str:
    if probes is None:
        return "not measured"
    if not probes["changed"]:
        return f"none of {probes['asked']}"
    names = ", ".join(name.split(".", 1)[1] for name in probes["changed"])
    return f"{len(probes['changed'])} of {probes['asked']}: {names}"


def render_table(cases: Mapping[str, Any]) -> str:
    """Return the table of all cases."""
    lines = [
        "| framework | algorithm | acceleration | equality | answers of probes that change "
        "| speed: median of pairs [range] | CPU time | first turn, more by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, case in cases.items():
        framework, algorithm, acceleration = name.split("/")
        speed = case["speed"]
        low, high = speed["wall_ratios"][0], speed["wall_ratios"][-1]
        cells = (
            framework,
            algorithm,
            f"`{acceleration}`",
            describe_equality(case["equality"]),
            _describe_probes(case["equality"].get("probes")),
            f"{speed['wall_ratio']:.2f} [{low:.2f}, {high:.2f}]",
            f"{speed['cpu_ratio']:.2f}",
            f"{speed['first_turn_extra_seconds']:.1f} s",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def render_page(cases: Mapping[str, Any]) -> str:
    """Return the reference page."""
    shown = [name for name, case in cases.items() if is_recommendable(case)]
    unequal = [name for name, case in cases.items() if not case["equality"]["equal"]]
    conditions = [case["conditions"] for case in cases.values()]
    loads = [value for item in conditions for value in (item["load_before"], item["load_after"])]
    speeds = next(iter(cases.values()))["speed"]
    listed = "\n".join(f"- {_format_case(name)}" for name in shown) or "- none"
    return _PAGE.format(
        table=render_table(cases),
        recommended=listed,
        unequal="; ".join(map(_format_case, unequal)) or "none",
        count=len(cases),
        cpu=", ".join(sorted({item["cpu"] for item in conditions})),
        cores=conditions[0]["cores"],
        threads=THREADS,
        low=min(loads),
        high=max(loads),
        pairs=PAIRS,
        steps=STEPS_PER_TURN,
        rollout=ROLLOUT_STEPS,
        env=speeds["env"],
        recipe=RECIPE,
        minutes=round(sum(item["seconds"] for item in conditions) / 60),
        descriptions="\n".join(
            f"| `{name}` | {text} |" for name, text in ACCELERATIONS.items() if name != "none"
        ),
    )


def _format_case(name: str) -> str:
    framework, algorithm, acceleration = name.split("/")
    return f"`{acceleration}` for {algorithm} of {framework}"


_PAGE = """\
# Accelerations: equality and speed

This page shows for each acceleration whether the update stays the same, and how much faster a
training becomes. [Accelerate a training](../how-to/accelerate-a-training.md) explains the option
and the terms. Written by `benchmarks/accelerations.py` from `docs/accelerations.json`.

| acceleration | what it does |
|---|---|
{descriptions}

## {count} cases
{table}

The speed is the time of plain training, environment included, divided by that of the accelerated
one: above 1 is faster. It is the median of {pairs} pairs of turns, with the smallest and the
largest. The last column is the additional time of the first turn of the accelerated training. Only
this column includes compiling. Values below 1 s are noise.

## Recommended accelerations
These were equal in every comparison, and faster in each of their pairs on this machine:

{recommended}

Nothing is recommended if its equality was not shown. Not shown here: {unequal}.

Speeds depend on the machine, the size of the networks and the task. Measure your own case before
you rely on them.

## Conditions
- Processor: {cpu}, {cores} cores, {threads} thread per training.
- Load of the machine during the measurement: {low:.1f} to {high:.1f}. Other programs were running,
  so times vary; both sides of a pair were affected equally.
- Speed: {env}, recipe `{recipe}` at `alignment=exact` (TD3, DDPG and SAC: two hidden layers of 256,
  minibatches of 256; PPO: two of 64, minibatches of 64), {steps} environment steps in a turn, or a
  rollout of {rollout} with PPO.
- Equality: `parallax lockstep --acceleration` and `parallax probe --acceleration`, with the small
  networks of the probes. For sbx, which compiles whole updates, the weights of two real
  trainings with the same seed are compared. Differences in such trainings change the data, and no
  copy shows how fast rounding grows, so a difference is not shown to be rounding.
- Networks and minibatches of other sizes were not measured.
- Probes are not run with `compile`, since each would compile its networks again.
- All cases together took {minutes} minutes.

    python benchmarks/accelerations.py --output docs/accelerations.json \\
        --markdown docs/reference/accelerations.md
"""


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/accelerations.json"))
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--again", action="store_true", help="measure stored cases anew")
    parser.add_argument(
        "--cases", nargs="+", metavar="FRAMEWORK,ALGORITHM,ACCELERATION", help="only these"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
