"""Puts probes to several implementations, each in a process of its own, two at a time."""

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

from harness.interpreter import lend_project
from harness.probes.merging import died, merge
from harness.probes.probe import Probe
from harness.probes.results import Report, Result
from harness.probes.stored import result_from_json

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
    """

    label: str
    entry: str
    python: str = sys.executable


@dataclasses.dataclass(frozen=True)
class Statement:
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
) -> Statement:
    names = ",".join(probe.name for probe in probes)
    command = [party.python, "-m", "harness.probes.worker", party.entry, names]
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
    return Statement(versions, results)


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"
