"""Worker process that measures probes on the implementations of one interpreter.

`python -m parallax.harness.probes.worker PROBE,PROBE,... N TASK ...`
writes one JSON object per line to the file descriptor of each task: first the versions, then each
result. A task is the JSON of a `WorkerTask`. For several tasks it imports their common modules and
forks a child for each, at most N at a time.
"""

import dataclasses
import gc
import json
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, version
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from parallax.harness.contract.acceleration import NO_ACCELERATION
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.adapter_discovery import ENTRY_POINT_GROUP
from parallax.harness.contract.interpreter import end_process, has_other_threads, import_modules
from parallax.harness.contract.own_script import read_own_script
from parallax.harness.contract.packages import list_changed_modules
from parallax.harness.contract.probing.protocol import PROBED_SOURCE
from parallax.harness.contract.run_spec import INTERVENTION_SEPARATOR
from parallax.harness.interventions.catalogue import (
    Intervention,
    find_intervention,
    list_reference_form,
)
from parallax.harness.probes import catalogue
from parallax.harness.probes.experiments import OWN_DEFAULTS, AlignmentLevel, ExperimentCache
from parallax.harness.probes.probe import Probe, build_result, run_probe
from parallax.harness.probes.results import ProbeResult, make_missing_answer, to_plain
from parallax.harness.probes.stored_answers import AnswerStore, open_answer_store

MAX_ERROR_CHARACTERS = 200
"""Largest length of error messages; longer ones are shortened."""


@dataclasses.dataclass(frozen=True)
class ProbeTarget:
    """One implementation that is measured.

    Attributes:
        label: Its name in the report.
        entry: `module:class` of its adapter.
        python: Interpreter that it runs in.
        intervention: Names of its interventions; empty for none.
        level: Alignment of its hyperparameters.
        seed: Seed of the scripted numbers.
        source: Folder that the framework's package is imported from; None for the installed one.
        script: File of the user's own script that is run instead of the framework's.
        acceleration: How its updates are accelerated, or `none`.
        uses_store: Whether answers of unchanged code are reused; see `stored_answers`.
        explains: Whether answers say in words how they differ, which can take a minute.
        uses_jax: Whether its packages include JAX, whose watched trainings take longest.
    """

    label: str
    entry: str
    python: str = sys.executable
    intervention: str = ""
    level: AlignmentLevel = OWN_DEFAULTS
    seed: int = 0
    source: Path | None = None
    script: Path | None = None
    acceleration: str = NO_ACCELERATION
    uses_store: bool = False
    explains: bool = True
    uses_jax: bool = False

    def open_store(self, adapter: Adapter) -> AnswerStore | None:
        """Open the store of its answers; None unless they depend only on the installed code."""
        changed = self.intervention or self.script or self.acceleration != NO_ACCELERATION
        if changed or self.source or not self.uses_store:
            return None
        return open_answer_store(adapter, self.level, self.seed)

    def load_adapter(self) -> Adapter:
        """Return the framework's adapter."""
        adapter: Adapter = EntryPoint("adapter", self.entry, ENTRY_POINT_GROUP).load()()
        return adapter


@dataclasses.dataclass(frozen=True)
class WorkerTask:
    """An implementation, and the file descriptor that receives its answers."""

    target: ProbeTarget
    file: int

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse the JSON of a task."""
        return msgspec.json.decode(text, type=cls, dec_hook=lambda kind, value: kind(value))

    @property
    def text(self) -> str:
        """The task as JSON."""
        return msgspec.json.encode(self, enc_hook=str).decode()


def main(arguments: Sequence[str]) -> int:
    """Write the answers of all tasks; what they print goes to standard error."""
    names, max_processes = arguments[0].split(","), int(arguments[1])
    tasks = [WorkerTask.from_text(text) for text in arguments[2:]]
    os.dup2(2, 1)
    if len(tasks) == 1:
        return answer_probes(tasks[0], names)
    if not all(has_all_answers(task, names) for task in tasks):
        import_modules(find_shared_modules(tasks, names))
    # A child of a process with threads may inherit a lock that nobody releases: it starts anew.
    starts_anew = has_other_threads()
    gc.freeze()

    def run_task(task: WorkerTask) -> int:
        if starts_anew:
            command = ["-m", "parallax.harness.probes.worker", *arguments[:2], task.text]
            os.execv(sys.executable, [sys.executable, *command])
        return answer_probes(task, names)

    fork_tasks(tasks, max_processes, run_task)
    return 0


def has_all_answers(task: WorkerTask, names: Sequence[str]) -> bool:
    """Return whether all answers of a task are stored, so that nothing needs to be imported."""
    try:
        store = task.target.open_store(task.target.load_adapter())
    except Exception:  # reported by its own process
        return False
    return store is not None and all(map(store.load_answer, names))


def find_shared_modules(tasks: Sequence[WorkerTask], names: Sequence[str]) -> list[str]:
    """Return the modules that at least two of the frameworks train with."""
    algorithms = dict.fromkeys(name.split(".")[0] for name in names)
    counts: Counter[str] = Counter()
    for task in tasks:
        try:
            adapter = task.target.load_adapter()
        except Exception:  # reported by its own process
            continue
        supported = filter(adapter.supports, algorithms)
        named = dict.fromkeys(m for a in supported for m in adapter.training_modules(a))
        counts.update(list(named))
    return [module for module, count in counts.items() if count > 1]


def fork_tasks(
    tasks: Sequence[WorkerTask], max_processes: int, run_task: Callable[[WorkerTask], int]
) -> None:
    """Fork a process for each task and write its exit code and last error line to its file.

    Args:
        tasks: The tasks.
        max_processes: Largest number of processes at the same time.
        run_task: Runs a task in the new process; returns its exit code.
    """
    waiting = list(tasks)
    running: dict[int, tuple[WorkerTask, IO[bytes]]] = {}
    while waiting or running:
        while waiting and len(running) < max_processes:
            task, stderr = waiting.pop(0), tempfile.TemporaryFile()  # noqa: SIM115
            pid = os.fork()
            if not pid:
                for other in (*waiting, *(t for t, _ in running.values())):
                    os.close(other.file)
                _run_and_exit(task, stderr, run_task)
            running[pid] = task, stderr
        pid, status = os.wait()
        ended, child_stderr = running.pop(pid)
        with child_stderr, os.fdopen(ended.file, "w") as answers:
            code = os.waitstatus_to_exitcode(status)
            _write_line(answers, {"ended": code, "words": read_last_line(child_stderr)})


def _run_and_exit(
    task: WorkerTask, stderr: IO[bytes], run_task: Callable[[WorkerTask], int]
) -> None:
    # A forked child must never return into the parent's code.
    code = 1
    try:
        os.dup2(stderr.fileno(), 2)
        os.dup2(2, 1)
        code = run_task(task)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def read_last_line(file: IO[bytes]) -> str:
    """Return the last line that a process wrote to standard error."""
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:MAX_ERROR_CHARACTERS] if lines else "it wrote no message"


def answer_probes(task: WorkerTask, names: Sequence[str]) -> int:
    """Measure probes on one implementation in this process."""
    target = task.target
    with os.fdopen(task.file, "w") as answers:
        adapter = target.load_adapter()
        _write_line(answers, {"versions": _list_versions(adapter)})
        known = {probe.name: probe for probe in catalogue.PROBES}
        algorithms = list(dict.fromkeys(known[name].algorithm for name in names))
        changes = list_target_interventions(target, adapter, algorithms)
        script = read_own_script(target.script) if target.script else None
        cache = ExperimentCache(
            adapter, target.seed, changes, target.level, script, target.acceleration
        )
        store = target.open_store(adapter)
        for name in names:
            stored = store.load_answer(name) if store else None
            if stored is None:
                cache.drop_other_algorithms(known[name].algorithm)
                measured = to_plain(answer_probe(known[name], cache, target.explains))
                if store:
                    store.save_answer(measured)
            _write_line(answers, {"result": stored or measured, "stored": stored is not None})
    return 0


def _list_versions(adapter: Adapter) -> list[str]:
    packages = (*adapter.packages, "gymnasium", "numpy")
    found = [f"{package} {version(package)}" for package in packages]
    if not os.environ.get(PROBED_SOURCE) and (changed := list_changed_modules(packages[0])):
        found[0] += f" (not as its wheel brought it: {', '.join(changed[:5])})"
    return found


def list_target_interventions(
    target: ProbeTarget, adapter: Adapter, algorithms: Sequence[str]
) -> list[Intervention]:
    """Return the interventions of an implementation and of its level; names were checked."""
    names = target.intervention.split(INTERVENTION_SEPARATOR) if target.intervention else []
    found = [find_intervention(name, adapter, algorithms) for name in names]
    if target.level.name == "lockstep":
        for algorithm in algorithms:
            for item in list_reference_form(adapter, algorithm):
                if item not in found:  # an intervention may belong to several algorithms
                    found.append(item)
    return [item for item in found if item is not None]


def answer_probe(probe: Probe, cache: ExperimentCache, explains: bool = True) -> ProbeResult:
    """Return one framework's answer; an error becomes a failed answer."""
    try:
        return run_probe(probe, {cache.adapter.name: cache}, explains)
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split())[:MAX_ERROR_CHARACTERS]
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        failed = make_missing_answer(f"{type(error).__name__}: {text} ({where})", failed=True)
        return build_result(probe, {cache.adapter.name: failed}, None)


def _write_line(answers: IO[str], line: dict[str, Any]) -> None:
    print(json.dumps(line, allow_nan=False), file=answers, flush=True)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
