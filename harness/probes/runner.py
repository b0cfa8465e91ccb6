"""Puts probes to several implementations, each in a process of its own, two at a time.

Here is which implementations are asked, and how their answers come together.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import (
    find_adapter_entry_point,
    find_adapter_entry_points,
    load_adapter,
)
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.interpreter import add_project_to_path, check_interpreter
from parallax.harness.probes.probe import Probe, build_result
from parallax.harness.probes.results import (
    AnswerAxis,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    make_missing_answer,
    result_from_dict,
)
from parallax.harness.probes.worker import WorkerTask, read_last_line

ReportAnswer = Callable[[str], None]
"""Is told, once per answer, what was answered."""
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
"""One thread each; functions that are called a few times are not compiled for it."""


@dataclasses.dataclass(frozen=True)
class ProbeTarget:
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
class TargetReply:
    """What one implementation answered.

    Attributes:
        versions: Of its packages, `name version`.
        results: By probe; each has one answer at most.
    """

    versions: tuple[str, ...]
    results: Mapping[str, ProbeResult]


class ProbeProcess:
    """One process, and the implementations of one interpreter that answer in it or its children.

    Args of the constructor:
        parties: Implementations; all have the same interpreter.
        probes: Questions.
        at_once: How many answer at a time, at most.
    """

    def __init__(
        self, parties: Sequence[ProbeTarget], probes: Sequence[Probe], at_once: int
    ) -> None:
        self._parties, self._probes = parties, probes
        pipes = [os.pipe() for _ in parties]
        self._answers = [os.fdopen(reading) for reading, _ in pipes]
        tasks = [
            WorkerTask(p.entry, file, p.intervention).text
            for p, (_, file) in zip(parties, pipes, strict=True)
        ]
        names = ",".join(probe.name for probe in probes)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [
                    parties[0].python,
                    "-m",
                    "parallax.harness.probes.worker",
                    names,
                    str(at_once),
                    *tasks,
                ],
                env=add_project_to_path(WORKER_ENVIRONMENT | dict(os.environ)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                pass_fds=[file for _, file in pipes],
                process_group=0,  # so that its children end with it
            )
        finally:
            for _, file in pipes:
                os.close(file)

    def read_replies(self, tell: ReportAnswer) -> list[TargetReply]:
        """What all of them answer, when they have; `tell` is told of each answer."""
        with ThreadPoolExecutor(len(self._parties)) as readers, self._complaints:
            said = list(readers.map(lambda i: self._read_lines(i, tell), range(len(self._parties))))
            code, words = self._process.wait(), read_last_line(self._complaints)
            return [self._parse_reply(lines, code, words) for lines in said]

    def end(self) -> None:
        """Ends the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read_lines(self, number: int, tell: ReportAnswer) -> list[Mapping[str, Any]]:
        said: list[Mapping[str, Any]] = []
        with self._answers[number] as answers:
            for text in answers:
                said.append(json.loads(text))
                if "result" in said[-1]:
                    tell(f"{self._parties[number].label} {said[-1]['result']['probe']}")
        return said

    def _parse_reply(self, said: Sequence[Mapping[str, Any]], code: int, words: str) -> TargetReply:
        versions: tuple[str, ...] = ()
        results: dict[str, ProbeResult] = {}
        for line in said:
            if "versions" in line:
                versions = tuple(line["versions"])
            elif "ended" in line:
                code, words = line["ended"], line["words"]
            else:
                result = result_from_dict(line["result"])
                results[result.probe] = result
        why = f"its process ended with code {code}: {words}"
        missing = [probe for probe in self._probes if probe.name not in results]
        return TargetReply(
            versions, results | {probe.name: make_crash_result(probe, why) for probe in missing}
        )


def make_crash_result(probe: Probe, why: str) -> ProbeResult:
    """The result of a process that ended before it answered."""
    return build_result(probe, {"": make_missing_answer(why, failed=True)}, None)


def merge_results(probe: Probe, results: Mapping[str, ProbeResult]) -> ProbeResult:
    """One result of several, by implementation, each with one answer at most."""
    answers: dict[str, ProbeAnswer] = {}
    axis: AnswerAxis | None = None
    for label, result in results.items():
        axis = result.axis if axis is None else axis
        for answer in result.answers.values():  # one at most
            answers[label] = (
                answer if axis is result.axis else _attach_own_axis(answer, result, axis)
            )
    return build_result(probe, answers, axis)


def _attach_own_axis(
    answer: ProbeAnswer, result: ProbeResult, common: AnswerAxis | None
) -> ProbeAnswer:
    if result.axis is None or common is None:
        return answer
    same = np.allclose(result.axis.values, common.values, rtol=1e-4, atol=1e-6)
    return answer if same else dataclasses.replace(answer, along=result.axis.values)


MAX_PROCESSES = 2


def run_probes(
    parties: Sequence[ProbeTarget],
    probes: Sequence[Probe],
    tell: ReportAnswer,
    not_probed: Mapping[str, str] | None = None,
) -> ProbeReport:
    """Puts probes to parties.

    Args:
        parties: Implementations; their labels differ.
        probes: Questions.
        tell: Is told of progress.
        not_probed: What the report says about implementations that were left out.
    """
    started = time.perf_counter()
    statements = _collect_replies(parties, probes, tell)
    labels = [party.label for party in parties]
    return ProbeReport(
        results=tuple(
            merge_results(p, {label: statements[label].results[p.name] for label in labels})
            for p in probes
        ),
        versions={label: statements[label].versions for label in labels},
        not_probed=not_probed or {},
        seconds=time.perf_counter() - started,
    )


def _collect_replies(
    parties: Sequence[ProbeTarget], probes: Sequence[Probe], tell: ReportAnswer
) -> dict[str, TargetReply]:
    # The last begins first: TorchRL takes longest.
    rooms: dict[str, list[ProbeTarget]] = {}
    for party in reversed(parties):
        rooms.setdefault(party.python, []).append(party)
    at_once = max(MAX_PROCESSES // len(rooms), 1)
    pool, hearings = ThreadPoolExecutor(len(rooms)), list[ProbeProcess]()
    try:
        for room in rooms.values():
            hearings.append(ProbeProcess(room, probes, at_once))
        heard = list(pool.map(lambda hearing: hearing.read_replies(tell), hearings))
    except BaseException:
        for hearing in hearings:
            hearing.end()
        raise
    finally:
        pool.shutdown()
    return {
        party.label: reply
        for room, replies in zip(rooms.values(), heard, strict=True)
        for party, reply in zip(room, replies, strict=True)
    }


OTHER, HERE = "other", "here"
"""Names of the two versions of one framework."""


def find_probe_targets(
    names: Sequence[str] | None, python: str | None = None
) -> tuple[list[ProbeTarget], dict[str, str]]:
    """The frameworks that can be asked, and why others cannot.

    Args:
        names: Frameworks asked for; None is all that are installed.
        python: Another interpreter to ask in.

    Raises:
        SpecError: A framework asked for by name is not known or cannot be asked.
    """
    parties: list[ProbeTarget] = []
    not_probed: dict[str, str] = {}
    for name in names if names is not None else sorted(find_adapter_entry_points()):
        try:
            parties.append(make_probe_target(name, python))
        except SpecError as error:
            if names is not None:
                raise
            not_probed[name] = str(error)
    if not parties:
        why = "; ".join(f"{name}: {text}" for name, text in not_probed.items())
        raise SpecError(f"--frameworks: there is none to ask. {why}")
    return parties, not_probed


def make_drift_targets(name: str, python: str) -> tuple[list[ProbeTarget], dict[str, str]]:
    """One framework twice, in another interpreter and in this one; nothing is left out."""
    return [make_probe_target(name, python, OTHER), make_probe_target(name, None, HERE)], {}


def make_probe_target(
    name: str, python: str | None = None, label: str | None = None, intervention: str = ""
) -> ProbeTarget:
    """One framework.

    Raises:
        SpecError: It is not known, not installed or has no probing part.
    """
    known = find_adapter_entry_points()
    if name not in known:
        raise SpecError(format_unknown_name(f"--frameworks {name}", name, list(known)))
    adapter = load_adapter(name)
    if not adapter.is_probeable:
        raise SpecError(f"framework={name}: its adapter has no probing part.")
    if python is None:
        adapter.check_installed()
    else:
        check_interpreter(python, name)
    entry = find_adapter_entry_point(name).value
    return ProbeTarget(label or name, entry, python or sys.executable, intervention)
