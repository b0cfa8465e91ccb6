"""Replay metrics of runs: strategy, error of priorities, cost, and staleness of states."""

import collections
import dataclasses
import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from parallax.analysis.data.runs import CompletedRun, ExcludedRun, LoadedRuns, StudyCell
from parallax.analysis.data.settings import serialize_settings
from parallax.harness.record.files import UnusableError
from parallax.harness.record.layout import TRACE_FILE
from parallax.harness.record.reading import check_recorded_file, parse_record, read_run
from parallax.harness.record.trace import read_metric

UNIFORM, UNKNOWN = "uniform", "?"
MAPE, MEAN_WEIGHT = "replay/mape", "replay/mean_weight"
_COMPARED_FIELDS = ("replay", "seed", "study", "framework")
_Key = TypeVar("_Key", bound=Hashable)
MetricSeries: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Environment steps, int64[k], and the values recorded at them, float64[k]."""
_NO_VALUES: MetricSeries = np.zeros(0, np.int64), np.zeros(0)


@dataclasses.dataclass(frozen=True, eq=False)
class ReplayMetrics:
    """Replay metrics of one run folder.

    Attributes:
        cell: The setting, its variant without the replay strategy.
        name: Replay strategy, with the options in which runs of one strategy differ.
        errors: Mean absolute relative error of predicted probabilities, at each comparison.
        weights: Mean weight of the losses of the minibatch after each comparison.
        costs: CPU seconds by operation, and `minibatches`; empty if not recorded.
        unread: Reason why there are no checks although there should be; empty otherwise.
    """

    item: CompletedRun | ExcludedRun
    cell: StudyCell
    name: str
    errors: MetricSeries
    weights: MetricSeries
    costs: Mapping[str, float]
    unread: str = ""


def read_replay_metrics(loaded: LoadedRuns) -> tuple[ReplayMetrics, ...]:
    """Return the replay metrics of all runs, in order; packed files have no traces of errors."""
    specs = [dict(item.spec) for item in loaded.folders]
    known = iter(_name_strategies([_get_strategy(spec) for spec in specs if spec]))
    names = [
        next(known) if spec else _guess_strategy(item.id.cell.variant)
        for item, spec in zip(loaded.folders, specs, strict=True)
    ]
    variants = _find_shared_variants(loaded.folders, specs, names)
    return tuple(
        _read_run_metrics(item, dataclasses.replace(item.id.cell, variant=variant), name)
        for item, variant, name in zip(loaded.folders, variants, names, strict=True)
    )


def _guess_strategy(variant: str) -> str:
    """Return the strategy of a run whose record cannot be read; `?` if a digest hides it."""
    options = dict(part.partition("=")[::2] for part in variant.split(","))
    return options.get("replay", UNKNOWN if "overrides" in options else UNIFORM)


def _get_strategy(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the replay strategy that a record names; an unnamed one is called `?`."""
    replay = dict(spec.get("replay") or {"name": UNIFORM})
    usual = {"smallest": "memory"} if replay.get("name") == "imp" else {}  # of older records
    return {**usual, **replay, "name": str(replay.get("name", UNKNOWN))}


def _read_run_metrics(
    item: CompletedRun | ExcludedRun, cell: StudyCell, name: str
) -> ReplayMetrics:
    errors, weights, unread = _NO_VALUES, _NO_VALUES, ""
    costs: Mapping[str, float] = {}
    if isinstance(item, CompletedRun) and name != UNIFORM:
        if item.record is None:
            reading = read_run(item.path)
            record = reading.record
            try:
                check_recorded_file(reading, TRACE_FILE)
                errors = read_metric(item.path / TRACE_FILE, MAPE)
                weights = read_metric(item.path / TRACE_FILE, MEAN_WEIGHT)
            except UnusableError as error:
                unread = str(error)
        else:
            record, unread = parse_record(item.record.encode())[0], "packed files have no traces"
        costs = record.timings.parts.get("replay", {}) if record else {}
    return ReplayMetrics(item, cell, name, errors, weights, costs, unread)


def _name_strategies(strategies: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the strategies; those of the same name also by the fields in which they differ."""
    kinds: dict[str, set[str]] = collections.defaultdict(set)
    for one in strategies:
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
        for one in strategies
    ]


def _find_shared_variants(
    items: Sequence[CompletedRun | ExcludedRun],
    specs: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> list[str]:
    """Return a variant for each folder that is the same for all replay strategies.

    It is the variant of uniform replay if there is one, since long names are cut to a hash.
    """
    plain = [
        ",".join(p for p in item.id.cell.variant.split(",") if not p.startswith("replay"))
        for item in items
    ]
    keys = [
        # Without a record, settings are known by the variant alone.
        serialize_settings(spec or {"variant": variant}, without=_COMPARED_FIELDS)
        for spec, variant in zip(specs, plain, strict=True)
    ]
    best: dict[str, tuple[bool, str]] = {}
    for variant, key, name in zip(plain, keys, names, strict=True):
        candidate = (name != UNIFORM, variant)
        best[key] = min(best.get(key, candidate), candidate)
    return [best[key][1] for key in keys]


SEQUENCE_POSITIONS = ("first", "last")
"""Steps of a replayed sequence at which discrepancies are recorded."""
LAG_THIRDS = ("fresh", "middle", "stale")
"""Thirds of a minibatch's sequences, by the updates since their states were made."""
LAGS = ("actor", "mean", "max", *LAG_THIRDS)
"""Lags that a run records: when stored, and when replayed."""


@dataclasses.dataclass(frozen=True, order=True)
class RecurrentStateStrategy:
    """Strategy that gives a sequence its initial recurrent state.

    Attributes:
        stored_state: Whether it starts from the state that the actor had; otherwise from zeros.
        burn_in: Burn-in steps, which update the state.
        actors: Processes that act.
    """

    stored_state: bool
    burn_in: int
    actors: int = 1

    @property
    def title(self) -> str:
        """Name of the strategy in words."""
        name = f"{'stored' if self.stored_state else 'zero'} state, burn-in {self.burn_in}"
        return name if self.actors == 1 else f"{name}, {self.actors} actors"


@dataclasses.dataclass(frozen=True, eq=False)
class RunStaleness:
    """Staleness of recurrent states that one run recorded.

    Attributes:
        discrepancies: Environment steps, int64[n], and discrepancies, float64[n], by position.
        by_lag: Mean discrepancies over the training, by position and third; empty where the run
            recorded no lag.
        lags: Mean lag over the training in updates, by a name of `LAGS`; empty as well.
    """

    run: CompletedRun
    strategy: RecurrentStateStrategy
    discrepancies: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]
    by_lag: Mapping[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    lags: Mapping[str, float] = dataclasses.field(default_factory=dict)


def read_staleness(runs: Sequence[CompletedRun]) -> tuple[list[RunStaleness], list[CompletedRun]]:
    """Return the staleness that runs recorded, and the runs that recorded none."""
    from parallax.harness.record import trace  # pyarrow takes half a second to load

    found, without = [], []
    for run in runs:
        values = run.effective_hyperparameters
        stored_state, burn_in = (values.get(name, "") for name in ("stored_state", "burn_in"))
        is_count = isinstance(burn_in, int | float) and 0 <= burn_in <= 2**53 and burn_in % 1 == 0
        if not is_count or not isinstance(stored_state, int):
            without.append(run)
            continue
        file = run.path / TRACE_FILE
        try:
            check_recorded_file(read_run(run.path), TRACE_FILE)
            recorded = {
                place: trace.read_metric(file, f"discrepancy/{place}")
                for place in SEQUENCE_POSITIONS
            }
        except UnusableError:
            without.append(run)
            continue
        if not any(len(steps) for steps, _ in recorded.values()):
            without.append(run)
            continue
        strategy = RecurrentStateStrategy(
            bool(stored_state), int(burn_in), run.spec.get("actors", 1)
        )
        lags = _read_means(file, {name: f"lag/{name}" for name in LAGS})
        names = {(p, t): f"discrepancy/{p}/{t}" for p in SEQUENCE_POSITIONS for t in LAG_THIRDS}
        by_lag = _read_means(file, names) if lags else {}
        found.append(RunStaleness(run, strategy, recorded, by_lag, lags))
    return found, without


def _read_means(file: Path, names: Mapping[_Key, str]) -> dict[_Key, float]:
    """Return the mean over the training of each metric that a run has recorded."""
    from parallax.harness.record import trace

    values = {key: trace.read_metric(file, metric)[1] for key, metric in names.items()}
    return {key: float(found.mean()) for key, found in values.items() if len(found)}
