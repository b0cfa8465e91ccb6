"""What was run, on what, what is missing, and what the runs say of where and how they ran."""

import collections
import dataclasses
import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path

from analysis.data.runs import Excluded, Loaded, Run, absent_runs
from analysis.report.links import Links
from analysis.words import label, recipes
from harness.record import run_json


@dataclasses.dataclass(frozen=True)
class Part:
    """One algorithm and variant of a study.

    Attributes:
        study: Name of the study.
        algorithm: Algorithm.
        variant: What else is held equal.
        frameworks: Names.
        hps: Sets of hyperparameters.
        tasks: Tasks.
        seeds: Seeds, as few words.
        evaluations: Evaluations (episodes in each) of the runs used; several if they differ.
        alignment: `thesis`, `full` or what run.json says.
        requested: Run folders found.
        completed: Runs that meet the completeness rule.
        used: Runs that enter the statistics.
    """

    study: str
    algorithm: str
    variant: str
    frameworks: tuple[str, ...]
    hps: tuple[str, ...]
    tasks: tuple[str, ...]
    seeds: str
    evaluations: str
    alignment: str
    requested: int
    completed: int
    used: int


def parts(loaded: Loaded) -> tuple[Part, ...]:
    """What was run, one line per study, algorithm and variant."""
    found: dict[tuple[str, str, str], list[Run | Excluded]] = collections.defaultdict(list)
    for item in loaded.folders:
        cell = item.id.cell
        found[cell.study, cell.algorithm, cell.variant].append(item)
    return tuple(_part(*key, found[key]) for key in sorted(found))


def _part(study: str, algorithm: str, variant: str, items: list[Run | Excluded]) -> Part:
    runs = [item for item in items if isinstance(item, Run)]
    shapes = sorted({run.results.shape for run in runs})
    seeds = sorted({item.id.seed for item in items if item.id.seed is not None})
    return Part(
        study,
        algorithm,
        variant,
        tuple(sorted({item.id.framework for item in items})),
        recipes(item.id.cell.hps for item in items),
        tuple(sorted({item.id.cell.env for item in items})),
        _ranges(seeds),
        ", ".join(f"{count} ({episodes})" for count, episodes in shapes),
        ", ".join(sorted({str(run.spec.get("alignment", "not told")) for run in runs})),
        len(items),
        sum(isinstance(item, Run) or item.completed for item in items),
        len(runs),
    )


def _ranges(values: list[int]) -> str:
    """Such as `0 to 4, 7`."""
    words: list[list[int]] = []
    for value in values:
        if words and value == words[-1][-1] + 1:
            words[-1].append(value)
        else:
            words.append([value])
    return ", ".join(f"{w[0]} to {w[-1]}" if len(w) > 1 else str(w[0]) for w in words)


def reasons(loaded: Loaded) -> tuple[tuple[str, int], ...]:
    """Kinds of reasons why folders are not used, the most frequent first."""
    kinds = collections.Counter(item.reason.partition(":")[0] for item in loaded.excluded)
    return tuple(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])))


def absent(loaded: Loaded) -> tuple[str, ...]:
    """Runs without a folder that other frameworks lead one to expect."""
    return tuple(str(item) for item in absent_runs(loaded))


# Packages whose versions matter to results; others stand in each run.json.
# Of the packages that a run recorded, these are told, and what bears its framework's name.
PACKAGES = (
    *("stable_baselines3", "cleanrl", "torchrl", "tensordict", "tianshou", "skrl"),
    *("sbx", "jax", "flax", "optax"),
    *("torch", "gymnasium", "mujoco", "numpy"),
)
_MACHINE = ("Python", "processor", "host", "platform", "commit")


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
        facts = _facts(run.provenance, run.id.framework) if run.provenance else []
        silent += not facts
        counts.update(facts)
    timed = [run for run in runs if not math.isnan(run.seconds)]
    others = sorted({name for name, _ in counts} - {*PACKAGES, *_MACHINE})
    names = [*others, *PACKAGES, *_MACHINE]
    rows = sorted(counts.items(), key=lambda item: (names.index(item[0][0]), item[0][1]))
    return Provenance(
        tuple((name, value, count) for (name, value), count in rows),
        math.fsum(run.seconds * run.spec.get("threads", 1) for run in timed) / 3600,
        len(timed),
        silent,
    )


def _plain(package: str) -> str:
    return package.lower().replace("_", "-").replace(".", "-")


def _code(adapter: run_json.AdapterCode) -> str:
    """Distribution and version, and the start of a hash over the hashes of all files."""
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(adapter.files.items()))
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    owner = f"{adapter.distribution} {adapter.version}, " if adapter.distribution else ""
    return f"{owner}files {digest}"


def _facts(found: run_json.Provenance, framework: str) -> list[tuple[str, str]]:
    asked_for = set(map(_plain, found.adapter.requires))
    own = (
        name
        for name in found.packages
        if name not in PACKAGES and (framework in name.lower() or _plain(name) in asked_for)
    )
    told = [*own, *(name for name in PACKAGES if name in found.packages)]
    facts = [(name, found.packages[name]) for name in told]
    facts += [
        (f"{label(framework)}'s {name}", f"sha256 {digest[:12]}")
        for name, digest in sorted(found.sources.items())
    ]
    if found.adapter.files:
        facts.append((f"adapter of {framework}", _code(found.adapter)))
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


def films(loaded: Loaded, links: Links) -> tuple[tuple[str, str], ...]:
    """Name below the results folder and relative address of each film that lies there."""
    # Unlike rglob, walk passes over folders that a run has just given up.
    found = sorted(
        Path(top, name)
        for top, _, names in os.walk(loaded.root)
        for name in names
        if name.endswith(".mp4")
    )
    return tuple((str(path.relative_to(loaded.root)), links.file(path)) for path in found)
