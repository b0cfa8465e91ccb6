"""What becomes of a mutant: no other weights, a training that breaks, or probes that say so."""

import dataclasses
import time
from collections.abc import Mapping

from harness.contract.adapter import Adapter
from harness.detection.training import digests
from harness.interventions.mutants import Mutant
from harness.interventions.source import Replacement
from harness.probes.lab import Lab, quiet
from harness.probes.probe import Probe, same
from harness.probes.registry import PROBES
from harness.probes.results import Answer
from harness.probes.telling import answer_of, in_order

EQUIVALENT, BREAKS, FOUND, MISSED = "equivalent", "breaks", "found", "missed"


@dataclasses.dataclass(frozen=True)
class Fate:
    """What became of a mutant.

    Attributes:
        mutant: With framework and algorithm.
        operator: What made it.
        place: Upstream's module or function, and the line.
        outcome: `equivalent`, `breaks` (the short training ends with an error or does not end),
            `found` or `missed`.
        by: The first probe whose answer changed; how the training broke; else empty.
        asked: Probes that were asked.
        seconds: Of processor time.
        text: What was changed, for those who read the list.
    """

    mutant: str
    operator: str
    place: str
    outcome: str
    by: str
    asked: int
    seconds: float
    text: str


@dataclasses.dataclass(frozen=True)
class Known:
    """A framework's algorithm as it is, to compare mutants with.

    Attributes:
        digests: Weights after the short trainings.
        answers: By probe, in the order in which they are asked.
    """

    digests: tuple[str, ...]
    answers: Mapping[str, Answer]


def know(adapter: Adapter, algorithm: str) -> Known:
    """Trains and asks without any change."""
    with quiet():
        found = digests(adapter, algorithm)
    lab = Lab(adapter)
    answers = {p.name: answer_of(lab, p) for p in in_order(algorithm)}
    return Known(found, {name: answer for name, answer in answers.items() if answer is not None})


def hunt(mutant: Mutant, adapter: Adapter, known: Known) -> Fate:
    """Makes a mutant in this process, trains and asks until a probe notices.

    Args:
        mutant: What is changed; the process has upstream's own code again afterwards.
        adapter: Of its framework.
        known: The same framework as it is.
    """
    started = time.process_time()
    outcome, by, asked = _outcome(mutant, adapter, known)
    return fate(mutant, outcome, by, asked, time.process_time() - started)


def fate(mutant: Mutant, outcome: str, by: str, asked: int, seconds: float) -> Fate:
    """What became of a mutant, with what it is."""
    return Fate(
        mutant.whole_name,
        mutant.operator,
        f"{mutant.piece.where}:{mutant.line}",
        outcome,
        by,
        asked,
        seconds,
        mutant.does,
    )


def _outcome(mutant: Mutant, adapter: Adapter, known: Known) -> tuple[str, str, int]:
    with Replacement([mutant.piece]).made():
        try:
            with quiet():
                found = digests(adapter, mutant.algorithm)
        except Exception as error:
            return BREAKS, type(error).__name__, 0
        if found == known.digests:
            return EQUIVALENT, "", 0
        lab = Lab(adapter)
        probes = {probe.name: probe for probe in PROBES}
        for number, (name, before) in enumerate(known.answers.items(), 1):
            after = answer_of(lab, probes[name])
            if not unchanged(probes[name], before, after):
                return FOUND, name, number
    return MISSED, "", len(known.answers)


def unchanged(probe: Probe, before: Answer, after: Answer | None) -> bool:
    """Whether two answers of one implementation say the same; None is an error."""
    if after is None:
        return False
    if before.unmeasured or after.unmeasured:
        return bool(before.unmeasured) == bool(after.unmeasured)
    return same(probe, before, after)
