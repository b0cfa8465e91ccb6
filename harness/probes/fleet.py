"""Puts probes to several implementations, each in a process of its own, two at a time.

Here is which implementations are asked, and how their answers come together.
"""

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from harness.contract.adapter import find_adapter, installed_adapters, load_adapter
from harness.contract.fields import SpecError, unknown
from harness.contract.interpreter import check_interpreter
from harness.probes.contract import Probeable
from harness.probes.hearing import Hearing, Party, Reply, Tell
from harness.probes.probe import Probe, bare
from harness.probes.results import Answer, Axis, Report, Result


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


PROCESSES = 2


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
    statements = _statements(parties, probes, tell)
    labels = [party.label for party in parties]
    return Report(
        results=tuple(
            merge(p, {label: statements[label].results[p.name] for label in labels}) for p in probes
        ),
        versions={label: statements[label].versions for label in labels},
        not_probed=not_probed or {},
        seconds=time.perf_counter() - started,
    )


def _statements(parties: Sequence[Party], probes: Sequence[Probe], tell: Tell) -> dict[str, Reply]:
    # The last begins first: TorchRL takes longest.
    rooms: dict[str, list[Party]] = {}
    for party in reversed(parties):
        rooms.setdefault(party.python, []).append(party)
    at_once = max(PROCESSES // len(rooms), 1)
    pool, hearings = ThreadPoolExecutor(len(rooms)), list[Hearing]()
    try:
        for room in rooms.values():
            hearings.append(Hearing(room, probes, at_once))
        heard = list(pool.map(lambda hearing: hearing.replies(tell), hearings))
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
