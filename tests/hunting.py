"""Puts the probes to planted and unplanted implementations, and tells what they found.

`python -m tests.hunting` plants everything and prints the score; with `seeds`, it asks all
implementations on 20 seeds and prints which answers changed.
"""

import dataclasses
import fnmatch
import sys

import numpy as np

from harness.adapter import load_adapter
from harness.probes import registry
from harness.probes.lab import Lab
from harness.probes.probe import put, relate, same
from harness.probes.results import AGREES, Answer
from tests.plants import PLANTS

COSTLY = (
    "ppo.divergence_limit",
    "ppo.*_annealing",
    "*.counts_with_copies",
    "*.initial_*",
    "*.std_map",
    "*.std_bounds",
)
"""Probes with trainings of their own, which are put only where they are asked for."""
PROBES = {probe.name: probe for probe in registry.PROBES}
FRAMEWORKS = ("sb3", "cleanrl", "torchrl")
ALGORITHMS = ("ppo", "td3", "sac")
ROUNDING = 0.01
"""Largest relative error of a size that was measured."""


@dataclasses.dataclass(frozen=True)
class Catch:
    """What was said about a plant.

    Attributes:
        found: Whether the probe that must find it did.
        kind: How its answer relates to the unplanted one.
        size: Of that difference.
        meaning: Its words.
        others: Further probes whose answers changed and should not have.
    """

    found: bool
    kind: str
    size: float
    meaning: str
    others: tuple[str, ...]


def ask(framework, algorithm, also=(), seed=0) -> dict[str, Answer]:
    """Answers of one implementation to the cheap probes and to those of some names."""
    lab = Lab(load_adapter(framework), seed)
    names = [name for name in PROBES if name.startswith(f"{algorithm}.")]
    wanted = [n for n in names if _matches(n, also) or not _matches(n, COSTLY)]
    return {name: put(PROBES[name], {framework: lab}).answers[framework] for name in wanted}


def hunt(plant, before) -> Catch:
    """Plants, asks, and compares with the answers before."""
    with plant.planted():
        after = ask(plant.framework, plant.algorithm, (plant.probe,))
    allowed = tuple(f"{plant.algorithm}.{part}*" for part in plant.also)
    changed = [name for name in after if not unchanged(name, before[name], after[name])]
    hit = relate(PROBES[plant.probe], after[plant.probe].value, before[plant.probe].value)
    return Catch(
        found=plant.probe in changed and hit.kind != AGREES,
        kind=hit.kind,
        size=hit.size,
        meaning=after[plant.probe].meaning,
        others=tuple(n for n in changed if n != plant.probe and not _matches(n, allowed)),
    )


def is_right(plant, catch: Catch) -> bool:
    """Whether a plant was found, by the right probe alone, with the right kind and size."""
    sized = plant.size is None or np.isclose(catch.size, plant.size, rtol=ROUNDING, atol=1e-4)
    return bool(catch.found and catch.kind == plant.kind and sized and not catch.others)


def unchanged(name, before: Answer, after: Answer) -> bool:
    """Whether two answers of one implementation say the same about it."""
    if before.unmeasured or after.unmeasured:
        return bool(before.unmeasured) == bool(after.unmeasured)
    return same(PROBES[name], before, after)


def _matches(name, patterns) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def score() -> int:
    """Plants everything; prints a line per plant and the score."""
    before = {(f, a): ask(f, a, ("*",)) for f in FRAMEWORKS for a in ALGORITHMS}
    right = 0
    for plant in PLANTS:
        catch = hunt(plant, before[plant.framework, plant.algorithm])
        right += is_right(plant, catch)
        verdict = "found " if is_right(plant, catch) else "MISSED"
        print(f"{verdict} {plant.framework:8} {plant.algorithm} {plant.name}: {plant.probe}")
        print(f"       {catch.kind} {catch.size:.4g}; {catch.meaning}", *catch.others, flush=True)
    print(f"{right} of {len(PLANTS)} plants found, named right and of the right size")
    return 0 if right == len(PLANTS) else 1


def seeds(count=20) -> int:
    """Asks everything on several seeds; prints answers that are not those of the first."""
    asked = changed = 0
    for framework in FRAMEWORKS:
        for algorithm in ALGORITHMS:
            first = ask(framework, algorithm, ("*",))
            for seed in range(1, count):
                for name, answer in ask(framework, algorithm, ("*",), seed).items():
                    asked += 1
                    if steady(name, first[name], answer):
                        continue
                    changed += 1
                    now = answer.unmeasured or (answer.comparison, answer.meaning)
                    print(framework, name, f"seed {seed}: {now}", flush=True)
    print(f"{changed} of {asked} answers on {count - 1} further seeds are not those of the first")
    return 0 if not changed else 1


def steady(name, first: Answer, other: Answer) -> bool:
    """Whether answers on two seeds agree on whether there is a difference."""
    if first.unmeasured or other.unmeasured:
        return bool(first.unmeasured) == bool(other.unmeasured)
    kinds = first.comparison.kind, other.comparison.kind
    return (kinds[0] == AGREES) == (kinds[1] == AGREES)


if __name__ == "__main__":
    sys.exit(seeds() if sys.argv[1:] == ["seeds"] else score())
