"""How runs replayed: by which strategy, how well it knew the priorities, and what it cost."""

import collections
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.data.runs import Cell, Excluded, Loaded, Run
from harness.record.files import Unusable
from harness.record.layout import TRACE_FILE
from harness.record.reading import read_run
from harness.record.trace import values

UNIFORM = "uniform"
MAPE = "replay/mape"
_APART = ("replay", "seed", "study", "framework")


@dataclasses.dataclass(frozen=True, eq=False)
class Replayed:
    """One run folder.

    Attributes:
        item: The run, or why it is not used.
        cell: The setting, whose variant does not tell the way of replaying.
        name: The way of replaying, with those values in which runs of one name differ.
        looks: Environment steps at which predicted priorities were compared, int64[k].
        errors: Mean absolute relative error of the probabilities then, float64[k].
        costs: CPU seconds by what they went to, and `minibatches`; empty where not recorded.
        unread: Why there are no looks where there should be; empty where there are.
    """

    item: Run | Excluded
    cell: Cell
    name: str
    looks: NDArray[np.int64]
    errors: NDArray[np.float64]
    costs: Mapping[str, float]
    unread: str = ""


def replayed(loaded: Loaded) -> tuple[Replayed, ...]:
    """All run folders, in their order."""
    specs = [dict(read_run(item.path).spec) for item in loaded.folders]
    told = [dict(spec.get("replay") or {"name": UNIFORM}) for spec in specs]
    names = _names(told)
    variants = _variants(loaded.folders, specs, names)
    return tuple(
        _of(item, dataclasses.replace(item.id.cell, variant=variant), name)
        for item, variant, name in zip(loaded.folders, variants, names, strict=True)
    )


def _of(item: Run | Excluded, cell: Cell, name: str) -> Replayed:
    looks, errors, unread = np.zeros(0, np.int64), np.zeros(0), ""
    costs: Mapping[str, float] = {}
    if isinstance(item, Run) and name != UNIFORM:
        try:
            looks, errors = values(item.path / TRACE_FILE, MAPE)
        except Unusable as error:
            unread = str(error)
        record = read_run(item.path).record
        costs = record.timings.parts.get("replay", {}) if record else {}
    return Replayed(item, cell, name, looks, errors, costs, unread)


def _names(told: Sequence[Mapping[str, Any]]) -> list[str]:
    """The strategies' names; of several of one name also the fields in which they differ."""
    kinds: dict[str, set[str]] = collections.defaultdict(set)
    for one in told:
        kinds[one["name"]].add(json.dumps(one, sort_keys=True))
    differing = {
        name: [
            key
            for key in sorted(set().union(*map(json.loads, texts)))
            if len({json.dumps(json.loads(text).get(key)) for text in texts}) > 1
        ]
        for name, texts in kinds.items()
    }
    return [
        ", ".join([one["name"], *(f"{key}={one.get(key)}" for key in differing[one["name"]])])
        for one in told
    ]


def _variants(
    items: Sequence[Run | Excluded], specs: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> list[str]:
    """A variant for each folder that is the same for all ways of replaying.

    It is that of uniform replay where there is one, since long names are cut to a hash.
    """
    keys = [_key(spec) for spec in specs]
    best: dict[str, tuple[bool, str]] = {}
    for item, key, name in zip(items, keys, names, strict=True):
        parts = [p for p in item.id.cell.variant.split(",") if not p.startswith("replay")]
        candidate = (name != UNIFORM, ",".join(parts))
        best[key] = min(best.get(key, candidate), candidate)
    return [best[key][1] for key in keys]


def _key(spec: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in spec.items() if name not in _APART}
    return json.dumps(kept, sort_keys=True, default=str)
