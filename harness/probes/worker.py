"""Puts probes to frameworks, each in a process of its own, in whichever interpreter that is.

`python -m parallax.harness.probes.worker PROBE,PROBE,... AT_ONCE MODULE:ADAPTER@FD[@INTERVENTION] ...`
writes one JSON object per line to the file FD of each: first the versions, then each result.
Several frameworks answer in processes that are forked from this one when it has imported what they
share.
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

from parallax.harness.contract.adapter import ENTRY_POINT_GROUP, Adapter, get_training_modules
from parallax.harness.contract.interpreter import has_other_threads, import_modules
from parallax.harness.contract.run_spec import INTERVENTION_SEPARATOR
from parallax.harness.interventions.catalogue import (
    Intervention,
    find_intervention,
    make_replacement,
)
from parallax.harness.probes import catalogue
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import Probe, build_result, run_probe
from parallax.harness.probes.results import ProbeResult, make_missing_answer, to_plain

MAX_ERROR_CHARACTERS = 200
"""Characters of what a process said last."""


@dataclasses.dataclass(frozen=True)
class WorkerTask:
    """One framework that is asked.

    Attributes:
        entry: `module:class` of its adapter.
        file: Number of the open file that gets its answers.
        intervention: What is changed of it, as for a run; empty for nothing.
    """

    entry: str
    file: int
    intervention: str = ""

    @classmethod
    def of(cls, text: str) -> Self:
        """From `MODULE:ADAPTER@FD` or `MODULE:ADAPTER@FD@INTERVENTION`."""
        entry, file, *intervention = text.split("@")
        return cls(entry, int(file), *intervention)

    @property
    def text(self) -> str:
        """The inverse of `of`."""
        parts = (self.entry, str(self.file), self.intervention)
        return "@".join(part for part in parts if part)

    def adapter(self) -> Adapter:
        """The framework's."""
        adapter: Adapter = EntryPoint("adapter", self.entry, ENTRY_POINT_GROUP).load()()
        return adapter


def main(arguments: Sequence[str]) -> int:
    """Answers into the files; whatever is printed goes to standard error."""
    names, at_once = arguments[0].split(","), int(arguments[1])
    tasks = [WorkerTask.of(text) for text in arguments[2:]]
    os.dup2(2, 1)
    if len(tasks) == 1:
        return answer_probes(tasks[0], names)
    import_modules(find_shared_modules(tasks, names))
    if has_other_threads():
        command = [sys.executable, "-m", "parallax.harness.probes.worker", *arguments[:2]]

        def begin(task: WorkerTask) -> int:
            os.execv(sys.executable, [*command, task.text])

    else:
        gc.freeze()

        def begin(task: WorkerTask) -> int:
            return answer_probes(task, names)

    fork_tasks(tasks, at_once, begin)
    return 0


def find_shared_modules(tasks: Sequence[WorkerTask], names: Sequence[str]) -> list[str]:
    """Modules that at least two of the frameworks train with."""
    algorithms = dict.fromkeys(name.split(".")[0] for name in names)
    counts: Counter[str] = Counter()
    for task in tasks:
        try:
            adapter = task.adapter()
        except Exception:  # its own process says so
            continue
        asked = filter(adapter.supports, algorithms)
        named = dict.fromkeys(m for a in asked for m in get_training_modules(adapter, a))
        counts.update(list(named))
    return [module for module, count in counts.items() if count > 1]


def fork_tasks(
    tasks: Sequence[WorkerTask], at_once: int, run_task: Callable[[WorkerTask], int]
) -> None:
    """Lets a process begin each task, some at a time, and tells in its file how each ended.

    Args:
        tasks: What is to be done.
        at_once: How many processes there are at a time, at most.
        run_task: Does a task in the new process; returns its exit code.
    """
    waiting, running = list(tasks), dict[int, tuple[WorkerTask, IO[bytes]]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            task, complaints = waiting.pop(0), tempfile.TemporaryFile()  # noqa: SIM115
            pid = os.fork()
            if not pid:
                for other in (*waiting, *(t for t, _ in running.values())):
                    os.close(other.file)
                _run_and_exit(task, complaints, run_task)
            running[pid] = task, complaints
        pid, status = os.wait()
        ended, said = running.pop(pid)
        with said, os.fdopen(ended.file, "w") as answers:
            code = os.waitstatus_to_exitcode(status)
            _write_line(answers, {"ended": code, "words": read_last_line(said)})


def _run_and_exit(
    task: WorkerTask, complaints: IO[bytes], begin: Callable[[WorkerTask], int]
) -> None:
    # Ends the process, whatever happens in it.
    code = 1
    try:
        os.dup2(complaints.fileno(), 2)
        os.dup2(2, 1)
        code = begin(task)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def read_last_line(file: IO[bytes]) -> str:
    """What a process said last."""
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:MAX_ERROR_CHARACTERS] if lines else "it said nothing"


def answer_probes(task: WorkerTask, names: Sequence[str]) -> int:
    """Puts probes to one framework in this process."""
    with os.fdopen(task.file, "w") as answers:
        adapter = task.adapter()
        packages = (*adapter.packages, "gymnasium", "numpy")
        _write_line(
            answers, {"versions": [f"{package} {version(package)}" for package in packages]}
        )
        lab = ExperimentCache(adapter)
        known = {probe.name: probe for probe in catalogue.PROBES}
        asked = list(dict.fromkeys(known[name].algorithm for name in names))
        with make_replacement(
            find_task_interventions(adapter, task.intervention, asked)
        ).apply_replacement():
            for name in names:
                lab.drop_other_algorithms(known[name].algorithm)
                _write_line(answers, {"result": to_plain(answer_probe(known[name], lab))})
    return 0


def find_task_interventions(
    adapter: Adapter, text: str, algorithms: Sequence[str]
) -> list[Intervention]:
    """Interventions by the names that a task has, which were checked when it was made."""
    found = (
        [
            find_intervention(name, adapter, algorithms)
            for name in text.split(INTERVENTION_SEPARATOR)
        ]
        if text
        else []
    )
    return [item for item in found if item is not None]


def answer_probe(probe: Probe, lab: ExperimentCache) -> ProbeResult:
    """One framework's answer; an error becomes a failed answer and goes to standard error."""
    try:
        return run_probe(probe, {lab.adapter.name: lab})
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split())[:MAX_ERROR_CHARACTERS]
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        failed = make_missing_answer(f"{type(error).__name__}: {text} ({where})", failed=True)
        return build_result(probe, {lab.adapter.name: failed}, None)


def _write_line(answers: IO[str], line: dict[str, Any]) -> None:
    print(json.dumps(line, allow_nan=False), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
