"""What the runs themselves say of where, with what and for how long they ran."""

import collections
import dataclasses
import math
from collections.abc import Sequence

from analysis.runs import Run
from harness.record import reading

# Packages whose versions matter to results; others stand in each run.json.
PACKAGES = (
    *("stable_baselines3", "cleanrl", "torchrl", "tensordict", "tianshou"),
    *("torch", "gymnasium", "mujoco", "numpy"),
)


@dataclasses.dataclass(frozen=True)
class Provenance:
    """A summary over runs.

    Attributes:
        rows: What is told (a package, Python, processor, ...), its value, and how many runs.
        hours: Sum of the runs' core-hours: durations times threads.
        timed: Runs that tell their duration.
        silent: Runs that tell nothing at all, as those of other projects do.
    """

    rows: tuple[tuple[str, str, int], ...]
    hours: float
    timed: int
    silent: int


def read_provenance(runs: Sequence[Run]) -> Provenance:
    """What the runs tell; those that tell nothing are counted."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    silent = 0
    for run in runs:
        facts = _facts(run.provenance) if run.provenance else []
        silent += not facts
        counts.update(facts)
    timed = [run for run in runs if not math.isnan(run.seconds)]
    names = [*PACKAGES, "Python", "processor", "host", "platform", "commit"]
    rows = sorted(counts.items(), key=lambda item: (names.index(item[0][0]), item[0][1]))
    return Provenance(
        tuple((name, value, count) for (name, value), count in rows),
        math.fsum(run.seconds * run.spec.get("threads", 1) for run in timed) / 3600,
        len(timed),
        silent,
    )


def _facts(found: reading.Provenance) -> list[tuple[str, str]]:
    facts = [(name, found.packages[name]) for name in PACKAGES if name in found.packages]
    for value, name in (
        (found.python, "Python"),
        (found.processor, "processor"),
        (found.host, "host"),
        (found.platform, "platform"),
    ):
        if value:
            facts.append((name, value))
    if found.commit.get("commit"):
        dirty = " with changes" if found.commit.get("dirty") else ""
        facts.append(("commit", f"{str(found.commit['commit'])[:12]}{dirty}"))
    return facts
