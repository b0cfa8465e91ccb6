"""Diagnosis of a running training: what is wrong, probable causes, and what to do."""

import importlib
from typing import Any

__all__ = [
    "CheckFinding",
    "CheckResult",
    "Diagnosis",
    "DiagnosisCheck",
    "SignalSeries",
    "TrainingFacts",
    "TrainingSignals",
]


def __getattr__(name: str) -> Any:
    # Imported lazily: it loads gymnasium, which commands that only need thresholds do not use.
    if name == "Diagnosis":
        return importlib.import_module("parallax.harness.diagnosis.user_loop").Diagnosis
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
