"""A diagnosis check: its condition, threshold, texts, result and finding."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from parallax.harness.contract.data_files import load_yaml
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals

ONCE, EARLY, THROUGHOUT, LATE = "once", "early", "throughout", "late"
ERROR, WARNING, NOTE = "error", "warning", "note"

EARLY_SHARE, LATE_SHARE = 0.2, 0.8
"""Stages as in the paper (RLExplorer): the first and the last 20% of a run."""


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """Evidence that a check found at one point of a run.

    Attributes:
        text: One sentence with the numbers.
        value: The number that was compared with the threshold.
        level: Level of this result if it is not the check's own.
    """

    text: str
    value: float
    level: str | None = None


CheckFunction = Callable[[TrainingSignals, float], CheckResult | None]


@dataclasses.dataclass(frozen=True)
class DiagnosisCheck:
    """One check: the condition that it detects, and the texts of its findings.

    Attributes:
        id: Name, such as `large-policy-shift`.
        name: What it finds, in a few words.
        stage: `once` (as soon as its signals exist), `early`, `throughout` or `late`.
        level: `error` (the training cannot be right), `warning` (it rarely is), `note` (a property
            that users should know).
        needs: Names of the signals that it needs; without them it is not evaluated.
        threshold: Default threshold.
        source: Source of the threshold.
        detect: Pure function of signals and threshold; returns the evidence, or None.
        may_be_wrong: When a finding may be a false positive.
        why_not_applicable: Returns why the check does not apply to a training, or an empty string.
        paper_id: Id in Table I of the RLExplorer paper, such as `AGT.d1`; empty for our own checks.
    """

    id: str
    name: str
    stage: str
    level: str
    needs: tuple[str, ...]
    threshold: float
    source: str
    detect: CheckFunction
    causes: str
    remedies: str
    may_be_wrong: str
    why_not_applicable: Callable[[TrainingFacts], str] = lambda facts: ""
    paper_id: str = ""

    def is_due(self, signals: TrainingSignals) -> bool:
        """Return whether the check is evaluated at this stage of the run."""
        progress = signals.progress
        if self.stage == EARLY:
            return signals.step <= 2000 if progress is None else progress <= EARLY_SHARE + 0.02
        if self.stage == LATE:
            return progress is not None and progress > LATE_SHARE
        return True


WhyNotApplicable = Callable[[TrainingFacts], str]


def make_checks(
    functions: Mapping[str, CheckFunction | tuple[CheckFunction, WhyNotApplicable]],
) -> tuple[DiagnosisCheck, ...]:
    """Make checks of this project from their functions and their entries in `checks.yaml`.

    Args:
        functions: By id, the function that detects the condition, or a pair of it and the one that
            says why the check does not apply.
    """
    checks = []
    for name, given in functions.items():
        detect, *why = given if isinstance(given, tuple) else (given,)
        entry = _load_entries()[name]
        own = {"needs": tuple(entry["needs"])} | ({"why_not_applicable": why[0]} if why else {})
        checks.append(DiagnosisCheck(id=name, detect=detect, **entry | own))
    return tuple(checks)


@functools.cache
def _load_entries() -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = load_yaml(
        Path(__file__).parent / "checks" / "checks.yaml", "list of checks"
    )
    return entries


@dataclasses.dataclass
class CheckFinding:
    """A result of a check in a run, listed once with a count.

    Attributes:
        first_step: Environment step of the first result.
        last_step: Environment step of the last result.
        count: Number of evaluations with a result.
        seen: The first result.
        threshold: The threshold that its value was compared with.
        remedies: What to do, with the framework's names of hyperparameters.
    """

    check: DiagnosisCheck
    level: str
    first_step: int
    last_step: int
    count: int
    seen: CheckResult
    threshold: float
    remedies: str = ""

    COLUMNS: ClassVar[tuple[str, ...]] = (
        *("level", "id", "first_step", "seen", "name", "stage", "last_step", "count", "value"),
        *("threshold", "threshold_source", "causes", "remedies", "may_be_wrong"),
    )
    """Keys of `to_dict` in the order of a table; a narrow table shows only the first ones."""

    def __post_init__(self) -> None:
        """Use the check's own remedies if none with a framework's names were given."""
        self.remedies = self.remedies or self.check.remedies

    def __str__(self) -> str:
        """Return the finding with one line per part."""
        return (
            f"{self.level}: {self.check.name} ({self.check.id}), from step {self.first_step} on\n"
            f"  {self.seen.text}\n  Probably: {self.check.causes}\n  Try: {self.remedies}"
        )

    def to_dict(self) -> Mapping[str, object]:
        """Return the finding as plain data for `diagnosis.json`."""
        return {
            "id": self.check.id,
            "name": self.check.name,
            "level": self.level,
            "stage": self.check.stage,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "count": self.count,
            "seen": self.seen.text,
            "value": self.seen.value,
            "threshold": self.threshold,
            "threshold_source": self.check.source,
            "causes": self.check.causes,
            "remedies": self.remedies,
            "may_be_wrong": self.check.may_be_wrong,
        }

    def format_line(self) -> str:
        """Return the line of the log."""
        return (
            f"[diagnosis] {self.level} {self.check.id} at step {self.first_step}: {self.seen.text} "
            f"Probably: {self.check.causes} Try: {self.remedies}"
        )


_NAME = r"\b[a-z]+(?:_[a-z]+)*\b"
_NORMALIZED = "wrappers=normalized"  # an option of `parallax train`


def name_hyperparameters(text: str, names: Mapping[str, str]) -> str:
    """Return a text in which each of our hyperparameters is followed by a framework's own name."""

    def add_name(match: re.Match[str]) -> str:
        own = names.get(match[0], "")
        return match[0] if own.rpartition(".")[2] in ("", match[0]) else f"{match[0]} ({own})"

    return re.sub(_NAME, add_name, text)


def replace_hyperparameters(text: str, names: Mapping[str, str]) -> str:
    """Return a text with a framework's own names instead of ours.

    Args:
        text: Remedies of a check.
        names: Framework's name by ours. Names in brackets that become equal are merged.
    """
    text = text.replace(_NORMALIZED, names.get(_NORMALIZED, "normalize observations and rewards"))
    text = re.sub(_NAME, lambda match: names.get(match[0], match[0]), text)
    return re.sub(r"\b(\w+) \(\1(?:, \1)*\)", r"\1", text)


def why_no_reward_threshold(facts: TrainingFacts) -> str:
    """Return why a check of the reward threshold does not apply, or an empty string."""
    return "" if facts.reward_threshold is not None else "the task declares no reward threshold"
