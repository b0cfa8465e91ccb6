"""Runner of probes: from a request to a report, with one worker process per implementation.

A `ProbeRequest` names probes and implementations. Each implementation becomes a `ProbeTarget` that
carries what its worker needs. Targets of one interpreter share a process that imports their common
modules and forks a child for each: most of a short training is imports (see
`parallax.harness.probes.worker`). Answers come back as JSON lines through pipes.
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
from pathlib import Path
from typing import Any

import numpy as np

from parallax.harness.contract.acceleration import NO_ACCELERATION, check_observable_acceleration
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.interpreter import add_project_to_path, check_interpreter
from parallax.harness.contract.probing.protocol import PROBED_SOURCE
from parallax.harness.probes.experiments import OWN_DEFAULTS, AlignmentLevel
from parallax.harness.probes.intervention_check import (
    format_intervention_label,
    get_single_framework,
    list_reference_frameworks,
)
from parallax.harness.probes.probe import Probe, build_result
from parallax.harness.probes.results import (
    HERE,
    OTHER,
    AnswerAxis,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    format_seed_label,
    make_missing_answer,
    result_from_dict,
)
from parallax.harness.probes.worker import ProbeTarget, WorkerTask, read_last_line

ReportAnswer = Callable[[str], None]
"""Called once per answer with the implementation and the probe."""
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
"""One thread per worker, and no compilation: it costs more than it saves in short trainings."""
MAX_PROCESSES = 2
"""Largest number of implementations that are measured at the same time."""


@dataclasses.dataclass(frozen=True)
class ProbeRequest:
    """Probes, and the implementations that they are measured on.

    Attributes:
        probes: The questions.
        frameworks: Names of frameworks; None for all that are installed.
        python: Another interpreter to run them in.
        compares_versions: Whether the one framework is measured in that interpreter and in this
            one, to compare its versions.
        intervention: Names of interventions with `+` between them: the one framework is measured
            without and with them, and so are frameworks that their predictions refer to.
        level: Alignment of the hyperparameters.
        seeds: Number of sets of scripted numbers that each implementation is measured on.
        acceleration: The one framework is measured without and with this acceleration; empty for
            no such comparison.
        uses_store: Whether answers of unchanged code are reused; see `stored_answers`.
    """

    probes: tuple[Probe, ...]
    frameworks: tuple[str, ...] | None = None
    python: str | None = None
    compares_versions: bool = False
    intervention: str = ""
    level: AlignmentLevel = OWN_DEFAULTS
    seeds: int = 1
    acceleration: str = ""
    uses_store: bool = False

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Algorithms of the probes, in order."""
        return tuple(dict.fromkeys(probe.algorithm for probe in self.probes))


@dataclasses.dataclass(frozen=True)
class ProbeTargets:
    """The implementations that a request is about.

    Attributes:
        targets: Implementations that are measured.
        not_probed: Reasons by framework for those that cannot be measured.
    """

    targets: tuple[ProbeTarget, ...]
    not_probed: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TargetReply:
    """Answers of one implementation.

    Attributes:
        versions: Its packages, `name version`.
        results: Results by probe; each has at most one answer.
        n_stored: Number of results that were measured before, on the same code.
    """

    versions: tuple[str, ...]
    results: Mapping[str, ProbeResult]
    n_stored: int = 0


def find_targets(request: ProbeRequest) -> ProbeTargets:
    """Return the implementations of a request.

    Raises:
        SpecError: A requested framework is unknown or cannot be probed, no framework can be
            probed, or an intervention is unknown.
    """
    found = _find_targets(request)
    targets = tuple(
        dataclasses.replace(item, level=request.level, uses_store=request.uses_store)
        for item in found.targets
    )
    return dataclasses.replace(found, targets=targets)


def _find_targets(request: ProbeRequest) -> ProbeTargets:
    if request.compares_versions:
        name = get_single_framework("--drift", request.frameworks)
        return ProbeTargets(
            (make_probe_target(name, request.python, OTHER), make_probe_target(name, None, HERE))
        )
    if request.acceleration:
        return _find_accelerated_targets(request)
    if request.intervention:
        return _find_changed_targets(request)
    return _find_requested_targets(request)


def _find_requested_targets(request: ProbeRequest) -> ProbeTargets:
    """Return the requested frameworks, or all that can be probed, each with every seed."""
    targets: list[ProbeTarget] = []
    not_probed: dict[str, str] = {}
    if request.frameworks is not None:
        targets = [make_probe_target(name, request.python) for name in request.frameworks]
    else:
        for name in sorted(find_adapter_entry_points()):
            try:
                targets.append(make_probe_target(name, request.python))
            except SpecError as error:
                not_probed[name] = str(error)
    if not targets:
        why = "; ".join(f"{name}: {text}" for name, text in not_probed.items())
        raise SpecError(f"--frameworks: no installed framework can be probed. {why}")
    seeded = (
        dataclasses.replace(target, label=format_seed_label(target.label, seed), seed=seed)
        for seed in range(request.seeds)
        for target in targets
    )
    return ProbeTargets(tuple(seeded), not_probed)


def _find_changed_targets(request: ProbeRequest) -> ProbeTargets:
    """Return a framework without and with interventions, and those that predictions refer to."""
    text = request.intervention
    name = get_single_framework(f"--intervention {text}", request.frameworks)
    changed = make_probe_target(
        name, label=format_intervention_label(name, text), intervention=text
    )
    references = list_reference_frameworks(text, name, request.algorithms)
    return ProbeTargets((make_probe_target(name), changed, *map(make_probe_target, references)))


def _find_accelerated_targets(request: ProbeRequest) -> ProbeTargets:
    """Return a framework without and with an acceleration."""
    text = request.acceleration
    name = get_single_framework(f"--acceleration {text}", request.frameworks)
    adapter, plain = load_adapter(name), make_probe_target(name)
    for algorithm in filter(adapter.supports, request.algorithms):
        check_observable_acceleration(algorithm, text, adapter)
    label = format_intervention_label(name, text)
    plain = dataclasses.replace(plain, acceleration=text.rpartition("+")[0] or NO_ACCELERATION)
    return ProbeTargets((plain, dataclasses.replace(plain, label=label, acceleration=text)))


def make_probe_target(
    name: str, python: str | None = None, label: str | None = None, intervention: str = ""
) -> ProbeTarget:
    """Return the target of one framework.

    Raises:
        SpecError: The framework is unknown, not installed, or its adapter cannot be probed.
    """
    entries = find_adapter_entry_points()
    if name not in entries:
        raise SpecError(format_unknown_name(f"--frameworks {name}", name, list(entries)))
    adapter = entries[name].load()()
    if not adapter.is_probeable:
        raise SpecError(f"framework={name}: its adapter has no module `probing`.")
    if python is None:
        adapter.check_installed()
    else:
        check_interpreter(python, name)
    return ProbeTarget(
        label or name,
        entries[name].value,
        python or sys.executable,
        intervention,
        uses_jax="jax" in adapter.packages,
    )


def run_probes(
    probes: Sequence[Probe], targets: ProbeTargets, on_answer: ReportAnswer
) -> ProbeReport:
    """Measure probes on implementations.

    Args:
        probes: The questions.
        targets: Implementations; their labels differ.
        on_answer: Called once per answer.
    """
    started = time.perf_counter()
    replies = _collect_replies(targets.targets, probes, on_answer)
    labels = [target.label for target in targets.targets]
    return ProbeReport(
        results=tuple(
            merge_results(p, {label: replies[label].results[p.name] for label in labels})
            for p in probes
        ),
        versions={label: replies[label].versions for label in labels},
        not_probed=targets.not_probed,
        seconds=time.perf_counter() - started,
        alignment=targets.targets[0].level.name,
        hps=targets.targets[0].level.hps,
        n_stored=sum(reply.n_stored for reply in replies.values()),
    )


def _collect_replies(
    targets: Sequence[ProbeTarget], probes: Sequence[Probe], on_answer: ReportAnswer
) -> dict[str, TargetReply]:
    # The slowest start first: those that use JAX, then the others in reverse order, since TorchRL
    # is slow and the last by name.
    by_python: dict[tuple[str, Path | None], list[ProbeTarget]] = {}
    for target in sorted(targets, key=lambda target: target.uses_jax)[::-1]:
        by_python.setdefault((target.python, target.source), []).append(target)
    max_processes = max(MAX_PROCESSES // len(by_python), 1)
    pool = ThreadPoolExecutor(len(by_python))
    processes: list[ProbeProcess] = []
    try:
        for group in by_python.values():
            processes.append(ProbeProcess(group, probes, max_processes))
        replies = list(pool.map(lambda process: process.read_replies(on_answer), processes))
    except BaseException:
        for process in processes:
            process.kill()
        raise
    finally:
        pool.shutdown()
    return {
        target.label: reply
        for group, group_replies in zip(by_python.values(), replies, strict=True)
        for target, reply in zip(group, group_replies, strict=True)
    }


def make_worker_environment(source: Path | None = None) -> dict[str, str]:
    """Return the environment of workers; variables of this process have priority.

    Args:
        source: Folder that packages are imported from before all others.
    """
    found = WORKER_ENVIRONMENT | dict(os.environ)
    if source is not None:
        paths = [str(source), *filter(None, [found.get("PYTHONPATH")])]
        found |= {"PYTHONPATH": os.pathsep.join(paths), PROBED_SOURCE: str(source)}
    return found


class ProbeProcess:
    """One worker process, and the implementations that it or its children measure.

    Args of the constructor:
        targets: Implementations; all have the same interpreter and source.
        probes: The questions.
        max_processes: Largest number of children at the same time.
    """

    def __init__(
        self, targets: Sequence[ProbeTarget], probes: Sequence[Probe], max_processes: int
    ) -> None:
        self._targets, self._probes = targets, probes
        pipes = [os.pipe() for _ in targets]
        self._answers = [os.fdopen(reading) for reading, _ in pipes]
        tasks = [
            WorkerTask(target, file).text for target, (_, file) in zip(targets, pipes, strict=True)
        ]
        names = ",".join(probe.name for probe in probes)
        worker = ["-m", "parallax.harness.probes.worker", names, str(max_processes), *tasks]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [targets[0].python, *worker],
                env=add_project_to_path(make_worker_environment(targets[0].source)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[file for _, file in pipes],
                process_group=0,  # so that its children are killed with it
            )
        finally:
            for _, file in pipes:
                os.close(file)

    def read_replies(self, on_answer: ReportAnswer) -> list[TargetReply]:
        """Return the replies of all targets once they are complete."""
        count = len(self._targets)
        with ThreadPoolExecutor(count) as readers, self._stderr:
            lines = list(readers.map(lambda i: self._read_lines(i, on_answer), range(count)))
            code, last_line = self._process.wait(), read_last_line(self._stderr)
            return [self._parse_reply(each, code, last_line) for each in lines]

    def kill(self) -> None:
        """Kill the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read_lines(self, number: int, on_answer: ReportAnswer) -> list[Mapping[str, Any]]:
        lines: list[Mapping[str, Any]] = []
        with self._answers[number] as answers:
            for text in answers:
                lines.append(json.loads(text))
                if "result" in lines[-1]:
                    on_answer(f"{self._targets[number].label} {lines[-1]['result']['probe']}")
        return lines

    def _parse_reply(
        self, lines: Sequence[Mapping[str, Any]], code: int, last_line: str
    ) -> TargetReply:
        versions: tuple[str, ...] = ()
        results: dict[str, ProbeResult] = {}
        for line in lines:
            if "versions" in line:
                versions = tuple(line["versions"])
            elif "ended" in line:
                code, last_line = line["ended"], line["words"]
            else:
                result = result_from_dict(line["result"])
                results[result.probe] = result
        crash = make_missing_answer(f"its process ended with code {code}: {last_line}", failed=True)
        missing = [probe for probe in self._probes if probe.name not in results]
        return TargetReply(
            versions,
            results | {probe.name: build_result(probe, {"": crash}, None) for probe in missing},
            sum(line.get("stored", False) for line in lines),
        )


def merge_results(probe: Probe, results: Mapping[str, ProbeResult]) -> ProbeResult:
    """Merge results of several implementations, each with at most one answer.

    Args:
        probe: The question.
        results: By label.
    """
    answers: dict[str, ProbeAnswer] = {}
    axis: AnswerAxis | None = None
    for label, result in results.items():
        axis = result.axis if axis is None else axis
        for answer in result.answers.values():
            answers[label] = _attach_own_axis(answer, result.axis, axis)
    return build_result(probe, answers, axis)


def _attach_own_axis(
    answer: ProbeAnswer, own: AnswerAxis | None, common: AnswerAxis | None
) -> ProbeAnswer:
    if own is None or common is None or own is common:
        return answer
    same = np.allclose(own.values, common.values, rtol=1e-4, atol=1e-6)
    return answer if same else dataclasses.replace(answer, axis_values=own.values)
