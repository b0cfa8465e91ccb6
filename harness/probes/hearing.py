"""Starts the processes in which implementations answer, and hears what they say.

Those of one interpreter are forked from one process that has imported what they share: most of a
short training is imports. See `harness.probes.worker`.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.contract.interpreter import lend_project
from harness.probes.probe import Probe, bare
from harness.probes.results import Result, no_answer, result_from_json
from harness.probes.worker import Task, last_line

Tell = Callable[[str], None]
"""Is told, once per answer, what was answered."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
"""One thread each; functions that are called a few times are not compiled for it."""


@dataclasses.dataclass(frozen=True)
class Party:
    """One implementation that is asked.

    Attributes:
        label: Its name in the report.
        entry: `module:class` of its adapter.
        python: The interpreter it runs in.
        intervention: What is changed of it, as for a run; empty for nothing.
    """

    label: str
    entry: str
    python: str = sys.executable
    intervention: str = ""


@dataclasses.dataclass(frozen=True)
class Reply:
    """What one implementation answered.

    Attributes:
        versions: Of its packages, `name version`.
        results: By probe; each has one answer at most.
    """

    versions: tuple[str, ...]
    results: Mapping[str, Result]


class Hearing:
    """One process, and the implementations of one interpreter that answer in it or its children.

    Args of the constructor:
        parties: Implementations; all have the same interpreter.
        probes: Questions.
        at_once: How many answer at a time, at most.
    """

    def __init__(self, parties: Sequence[Party], probes: Sequence[Probe], at_once: int) -> None:
        self._parties, self._probes = parties, probes
        pipes = [os.pipe() for _ in parties]
        self._answers = [os.fdopen(reading) for reading, _ in pipes]
        tasks = [
            Task(p.entry, file, p.intervention).text
            for p, (_, file) in zip(parties, pipes, strict=True)
        ]
        names = ",".join(probe.name for probe in probes)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [parties[0].python, "-m", "harness.probes.worker", names, str(at_once), *tasks],
                env=lend_project(ENVIRONMENT | dict(os.environ)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                pass_fds=[file for _, file in pipes],
                process_group=0,  # so that its children end with it
            )
        finally:
            for _, file in pipes:
                os.close(file)

    def replies(self, tell: Tell) -> list[Reply]:
        """What all of them answer, when they have; `tell` is told of each answer."""
        with ThreadPoolExecutor(len(self._parties)) as readers, self._complaints:
            said = list(readers.map(lambda i: self._read(i, tell), range(len(self._parties))))
            code, words = self._process.wait(), last_line(self._complaints)
            return [self._reply(lines, code, words) for lines in said]

    def end(self) -> None:
        """Ends the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self, number: int, tell: Tell) -> list[Mapping[str, Any]]:
        said: list[Mapping[str, Any]] = []
        with self._answers[number] as answers:
            for text in answers:
                said.append(json.loads(text))
                if "result" in said[-1]:
                    tell(f"{self._parties[number].label} {said[-1]['result']['probe']}")
        return said

    def _reply(self, said: Sequence[Mapping[str, Any]], code: int, words: str) -> Reply:
        versions: tuple[str, ...] = ()
        results: dict[str, Result] = {}
        for line in said:
            if "versions" in line:
                versions = tuple(line["versions"])
            elif "ended" in line:
                code, words = line["ended"], line["words"]
            else:
                result = result_from_json(line["result"])
                results[result.probe] = result
        why = f"its process ended with code {code}: {words}"
        missing = [probe for probe in self._probes if probe.name not in results]
        return Reply(versions, results | {probe.name: died(probe, why) for probe in missing})


def died(probe: Probe, why: str) -> Result:
    """The result of a process that ended before it answered."""
    return bare(probe, {"": no_answer(why, failed=True)}, None)
