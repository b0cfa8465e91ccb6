"""Diagnoses a training while it runs: what is wrong, why, and what to do."""

import importlib
from typing import TYPE_CHECKING, Any

from harness.diagnosis.check import Check, Finding, Seen
from harness.diagnosis.signals import Facts, Series, Signals

if TYPE_CHECKING:
    from harness.diagnosis.library import Diagnosis

__all__ = ["Check", "Diagnosis", "Facts", "Finding", "Seen", "Series", "Signals"]


def __getattr__(name: str) -> Any:
    # Loads gymnasium, which a command line that only wants thresholds can do without.
    if name == "Diagnosis":
        return importlib.import_module("harness.diagnosis.library").Diagnosis
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
