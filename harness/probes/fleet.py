"""Puts probes to several implementations, each in a process of its own, two at a time.

Here is which implementations are asked, and how their answers come together.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import numpy as np

from harness.contract.adapter import find_adapter, installed_adapters, load_adapter
from harness.contract.fields import SpecError, unknown
from harness.contract.interpreter import check_interpreter, lend_project
from harness.probes.contract import Probeable
from harness.probes.probe import Probe, alike
from harness.probes.results import Answer, Axis, Report, Result, no_answer, result_from_json


def died(probe: Probe, why: str) -> Result:
    """The result of a process that ended before it answered."""
    return bare(probe, {"": no_answer(why, failed=True)}, None)


def merge(probe: Probe, results: Mapping[str, Result]) -> Result:
    """One result of several, by implementation, each with one answer at most."""
    answers: dict[str, Answer] = {}
    axis: Axis | None = None
    for label, result in results.items():
        axis = result.axis if axis is None else axis
        for answer in result.answers.values():  # one at most
            answers[label] = answer if axis is result.axis else _own_axis(answer, result, axis)
    return bare(probe, answers, axis)


def _own_axis(answer: Answer, result: Result, common: Axis | None) -> Answer:
    if result.axis is None or common is None:
        return answer
    same = np.allclose(result.axis.values, common.values, rtol=1e-4, atol=1e-6)
    return answer if same else dataclasses.replace(answer, along=result.axis.values)


def bare(probe: Probe, answers: Mapping[str, Answer], axis: Axis | None) -> Result:
    """A result with what the probe says of itself."""
    return Result(
        probe=probe.name,
        algorithm=probe.algorithm,
        question=probe.question,
        citation=probe.citation,
        quantity=probe.quantity,
        axis=axis,
        answers=answers,
        groups=alike(probe, answers),
    )


PROCESSES = 2

Tell = Callable[[str], None]
"""Is told, once per answer, what was answered."""


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


def ask(
    parties: Sequence[Party],
    probes: Sequence[Probe],
    tell: Tell,
    not_probed: Mapping[str, str] | None = None,
) -> Report:
    """Puts probes to parties.

    Args:
        parties: Implementations; their labels differ.
        probes: Questions.
        tell: Is told of progress.
        not_probed: What the report says about implementations that were left out.
    """
    started = time.perf_counter()
    pool = ThreadPoolExecutor(PROCESSES)
    children: list[subprocess.Popen[bytes]] = []
    try:
        # The last begins first: TorchRL takes as long as the other two together.
        futures = [pool.submit(_hear, party, probes, tell, children) for party in reversed(parties)]
        statements = [future.result() for future in reversed(futures)]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.kill()
        raise
    finally:
        pool.shutdown()
    labels = [party.label for party in parties]
    return Report(
        results=tuple(
            merge(p, {n: s.results[p.name] for n, s in zip(labels, statements, strict=True)})
            for p in probes
        ),
        versions={label: said.versions for label, said in zip(labels, statements, strict=True)},
        not_probed=not_probed or {},
        seconds=time.perf_counter() - started,
    )


def _hear(
    party: Party, probes: Sequence[Probe], tell: Tell, children: list[subprocess.Popen[bytes]]
) -> Reply:
    names = ",".join(probe.name for probe in probes)
    command = [party.python, "-m", "harness.probes.worker", party.entry, names]
    command += [party.intervention] if party.intervention else []
    environment = lend_project({"OMP_NUM_THREADS": "1"} | dict(os.environ))
    versions: tuple[str, ...] = ()
    results: dict[str, Result] = {}
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        children.append(process)
        assert process.stdout is not None
        for text in process.stdout:
            line: Mapping[str, Any] = json.loads(text)
            if "versions" in line:
                versions = tuple(line["versions"])
            else:
                result = result_from_json(line["result"])
                results[result.probe] = result
                tell(f"{party.label} {result.probe}")
        if process.wait():
            why = f"its process ended with code {process.returncode}: {_last_line(complaints)}"
            results |= {p.name: died(p, why) for p in probes if p.name not in results}
    return Reply(versions, results)


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


OTHER, HERE = "other", "here"
"""Names of the two versions of one framework."""


def find(
    names: Sequence[str] | None, python: str | None = None
) -> tuple[list[Party], dict[str, str]]:
    """The frameworks that can be asked, and why others cannot.

    Args:
        names: Frameworks asked for; None is all that are installed.
        python: Another interpreter to ask in.

    Raises:
        SpecError: A framework asked for by name is not known or cannot be asked.
    """
    parties: list[Party] = []
    not_probed: dict[str, str] = {}
    for name in names if names is not None else sorted(installed_adapters()):
        try:
            parties.append(party(name, python))
        except SpecError as error:
            if names is not None:
                raise
            not_probed[name] = str(error)
    if not parties:
        why = "; ".join(f"{name}: {text}" for name, text in not_probed.items())
        raise SpecError(f"--frameworks: there is none to ask. {why}")
    return parties, not_probed


def drifting(name: str, python: str) -> tuple[list[Party], dict[str, str]]:
    """One framework twice, in another interpreter and in this one; nothing is left out."""
    return [party(name, python, OTHER), party(name, None, HERE)], {}


def party(
    name: str, python: str | None = None, label: str | None = None, intervention: str = ""
) -> Party:
    """One framework.

    Raises:
        SpecError: It is not known, not installed or has no probing part.
    """
    known = installed_adapters()
    if name not in known:
        raise SpecError(unknown(f"--frameworks {name}", name, list(known)))
    adapter = load_adapter(name)
    if not isinstance(adapter, Probeable):
        raise SpecError(f"framework={name}: its adapter has no probing part.")
    if python is None:
        adapter.check_installed()
    else:
        check_interpreter(python, name)
    entry = find_adapter(name).value
    return Party(label or name, entry, python or sys.executable, intervention)
