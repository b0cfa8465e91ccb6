"""Puts probes to frameworks, each in a process of its own, in whichever interpreter that is.

`python -m harness.probes.worker PROBE,PROBE,... AT_ONCE MODULE:ADAPTER@FD[@INTERVENTION] ...`
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

from harness.contract.adapter import ENTRY_POINT_GROUP, Adapter, training_modules
from harness.contract.preloading import has_threads, preload
from harness.contract.run_spec import JOINT
from harness.interventions.catalogue import Intervention, by_name, replacement
from harness.probes import registry
from harness.probes.contract import Probeable
from harness.probes.lab import Lab
from harness.probes.probe import Probe, bare, put
from harness.probes.results import Result, no_answer, plain

LAST_WORDS = 200
"""Characters of what a process said last."""


@dataclasses.dataclass(frozen=True)
class Task:
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
    tasks = [Task.of(text) for text in arguments[2:]]
    os.dup2(2, 1)
    if len(tasks) == 1:
        return answer(tasks[0], names)
    preload(shared_modules(tasks, names))
    if has_threads():
        command = [sys.executable, "-m", "harness.probes.worker", *arguments[:2]]

        def begin(task: Task) -> int:
            os.execv(sys.executable, [*command, task.text])

    else:
        gc.freeze()

        def begin(task: Task) -> int:
            return answer(task, names)

    fork_each(tasks, at_once, begin)
    return 0


def shared_modules(tasks: Sequence[Task], names: Sequence[str]) -> list[str]:
    """Modules that at least two of the frameworks train with."""
    algorithms = dict.fromkeys(name.split(".")[0] for name in names)
    counts: Counter[str] = Counter()
    for task in tasks:
        try:
            adapter = task.adapter()
        except Exception:  # its own process says so
            continue
        asked = filter(adapter.supports, algorithms)
        named = dict.fromkeys(m for a in asked for m in training_modules(adapter, a))
        counts.update(list(named))
    return [module for module, count in counts.items() if count > 1]


def fork_each(tasks: Sequence[Task], at_once: int, begin: Callable[[Task], int]) -> None:
    """Lets a process begin each task, some at a time, and tells in its file how each ended.

    Args:
        tasks: What is to be done.
        at_once: How many processes there are at a time, at most.
        begin: Does a task in the new process; returns its exit code.
    """
    waiting, running = list(tasks), dict[int, tuple[Task, IO[bytes]]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            task, complaints = waiting.pop(0), tempfile.TemporaryFile()  # noqa: SIM115
            pid = os.fork()
            if not pid:
                for other in (*waiting, *(t for t, _ in running.values())):
                    os.close(other.file)
                _leave(task, complaints, begin)
            running[pid] = task, complaints
        pid, status = os.wait()
        ended, said = running.pop(pid)
        with said, os.fdopen(ended.file, "w") as answers:
            code = os.waitstatus_to_exitcode(status)
            _say(answers, {"ended": code, "words": last_line(said)})


def _leave(task: Task, complaints: IO[bytes], begin: Callable[[Task], int]) -> None:
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


def last_line(file: IO[bytes]) -> str:
    """What a process said last."""
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:LAST_WORDS] if lines else "it said nothing"


def answer(task: Task, names: Sequence[str]) -> int:
    """Puts probes to one framework in this process."""
    with os.fdopen(task.file, "w") as answers:
        adapter = task.adapter()
        assert isinstance(adapter, Probeable)
        packages = (*adapter.packages, "gymnasium", "numpy")
        _say(answers, {"versions": [f"{package} {version(package)}" for package in packages]})
        lab = Lab(adapter)
        known = {probe.name: probe for probe in registry.PROBES}
        asked = list(dict.fromkeys(known[name].algorithm for name in names))
        with replacement(changes(adapter.name, task.intervention, asked)).made():
            for name in names:
                lab.forget_others(known[name].algorithm)
                _say(answers, {"result": plain(ask(known[name], lab))})
    return 0


def changes(framework: str, text: str, algorithms: Sequence[str]) -> list[Intervention]:
    """Interventions by the names that a task has, which were checked when it was made."""
    found = [by_name(name, framework, algorithms) for name in text.split(JOINT)] if text else []
    return [item for item in found if item is not None]


def ask(probe: Probe, lab: Lab) -> Result:
    """One framework's answer; an error becomes a failed answer and goes to standard error."""
    try:
        return put(probe, {lab.adapter.name: lab})
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split())[:LAST_WORDS]
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        failed = no_answer(f"{type(error).__name__}: {text} ({where})", failed=True)
        return bare(probe, {lab.adapter.name: failed}, None)


def _say(answers: IO[str], line: dict[str, Any]) -> None:
    print(json.dumps(line, allow_nan=False), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
