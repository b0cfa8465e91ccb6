"""Diagnoses a training while it runs: what is wrong, why, and what to do."""

from harness.diagnosis.check import Check, Finding, Seen
from harness.diagnosis.library import Diagnosis
from harness.diagnosis.signals import Facts, Series, Signals

__all__ = ["Check", "Diagnosis", "Facts", "Finding", "Seen", "Series", "Signals"]
