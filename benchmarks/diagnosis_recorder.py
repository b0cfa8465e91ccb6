"""A check that finds nothing and saves the signals of all checks, so that these can run again.

Signals of a whole run are about a hundred copies that share their numbers, about 1 MB compressed.
"""

import copy
import dataclasses
import gzip
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parallax.harness.diagnosis.check import THROUGHOUT, WARNING, CheckResult, DiagnosisCheck
from parallax.harness.diagnosis.checks import load_own_checks
from parallax.harness.diagnosis.signals import SignalSeries, TrainingSignals

RECORDED: list[TrainingSignals] = []


def record_signals(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Save a copy of the signals at this check."""
    RECORDED.append(
        dataclasses.replace(
            signals,
            series={name: _copy_series(series) for name, series in signals.series.items()},
            metrics={name: _copy_series(series) for name, series in signals.metrics.items()},
            values=dict(signals.values),
            episodes=copy.copy(signals.episodes),
            on_value=None,
        )
    )
    return None


def _copy_series(series: SignalSeries) -> SignalSeries:
    new = copy.copy(series)
    new.__dict__ = {
        name: copy.copy(value) if isinstance(value, list) or hasattr(value, "maxlen") else value
        for name, value in series.__dict__.items()
    }
    return new


RECORDER = DiagnosisCheck(
    *(
        "RECORDER",
        "records signals",
        THROUGHOUT,
        WARNING,
        (),
        0.0,
        "none",
        record_signals,
        "none",
        "none",
    ),
    "never",
)


def save_signals(path: Path, about: dict[str, Any]) -> None:
    """Write the signals since the last call."""
    with gzip.open(path, "wb", compresslevel=3) as file:
        pickle.dump((about, RECORDED), file)
    RECORDED.clear()


def load_signals(folder: Path) -> Iterator[tuple[dict[str, Any], list[TrainingSignals]]]:
    """Yield what `save` wrote to a folder, in the order of names."""
    for path in sorted(folder.glob("*.pickle.gz")):
        with gzip.open(path, "rb") as file:
            yield pickle.load(file)


def evaluate_checks(recorded: list[TrainingSignals]) -> dict[str, tuple[str, int, str]]:
    """Return level, first step and text of the current checks' findings in signals, by id."""
    found: dict[str, tuple[str, int, str]] = {}
    facts = recorded[0].facts if recorded else None
    for check in load_own_checks():
        if facts is None or check.why_not_applicable(facts):
            continue
        for signals in recorded:
            if check.is_due(signals) and all(signals.has(name) for name in check.needs):
                seen = check.detect(signals, check.threshold)
                if seen:
                    found[check.id] = seen.level or check.level, signals.step, seen.text
                    break
    return found
