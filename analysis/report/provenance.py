"""What the runs themselves say of where, with what and for how long they ran."""

import collections
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.find import RUN_FILE
from analysis.runs import Run

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
    """Reads run.json of each run again; what cannot be read counts as not told."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    silent = 0
    for run in runs:
        record = _record(run)
        found = _mapping(record.get("provenance"))
        silent += not found
        counts.update(_facts(found))
    timed = [run for run in runs if not math.isnan(run.seconds)]
    names = [*PACKAGES, "Python", "processor", "host", "platform", "commit"]
    rows = sorted(counts.items(), key=lambda item: (names.index(item[0][0]), item[0][1]))
    return Provenance(
        tuple((name, value, count) for (name, value), count in rows),
        math.fsum(run.seconds * run.spec.get("threads", 1) for run in timed) / 3600,
        len(timed),
        silent,
    )


def _facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    packages = _mapping(found.get("packages"))
    facts = [(name, str(packages[name])) for name in PACKAGES if name in packages]
    for key, name in (
        ("python", "Python"),
        ("processor", "processor"),
        ("host", "host"),
        ("platform", "platform"),
    ):
        if found.get(key):
            facts.append((name, str(found[key])))
    commit = _mapping(found.get("commit"))
    if commit.get("commit"):
        dirty = " with changes" if commit.get("dirty") else ""
        facts.append(("commit", f"{str(commit['commit'])[:12]}{dirty}"))
    return facts


def _record(run: Run) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads((run.path / RUN_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
