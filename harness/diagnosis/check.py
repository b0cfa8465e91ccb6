"""A check: one question about a training, with its threshold and its words."""

import dataclasses
from collections.abc import Callable, Mapping

from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals

ONCE, EARLY, THROUGHOUT, LATE = "once", "early", "throughout", "late"
ERROR, WARNING, NOTE = "error", "warning", "note"

EARLY_SHARE, LATE_SHARE = 0.2, 0.8
"""Stages as the paper has them: the first and the last 20% of a run."""


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """What a check has seen that it asks for.

    Attributes:
        text: In one sentence, with the numbers.
        value: The number that was held against the threshold.
        level: Where it is another than the check's own.
    """

    text: str
    value: float
    level: str | None = None


CheckFunction = Callable[[TrainingSignals, float], CheckResult | None]


@dataclasses.dataclass(frozen=True)
class DiagnosisCheck:
    """One question.

    Attributes:
        id: Table I's, with an underscore for the dot, such as `large-policy-shift`.
        name: In a few words.
        stage: `once` (as soon as it can be told), `early`, `throughout` or `late`.
        level: `error` (the training cannot be right), `warning` (it seldom is), `note` (a
            property that one should know of).
        needs: Names of signals without which it is not asked.
        threshold: Default.
        source: Of the threshold.
        ask: From signals and threshold to what was seen; pure.
        causes: Probable ones.
        remedies: What to do, by our hyperparameters' names.
        may_be_wrong: When it says what is not so.
        unless: Why it means nothing in a training with such facts; empty where it does.
    """

    id: str
    name: str
    stage: str
    level: str
    needs: tuple[str, ...]
    threshold: float
    source: str
    ask: CheckFunction
    causes: str
    remedies: str
    may_be_wrong: str
    why_not_applicable: Callable[[TrainingFacts], str] = lambda facts: ""
    paper_id: str = ""

    def is_due(self, signals: TrainingSignals) -> bool:
        """Whether it is asked at this stage of the run."""
        progress = signals.progress
        if self.stage == EARLY:
            return signals.step <= 2000 if progress is None else progress <= EARLY_SHARE + 0.02
        if self.stage == LATE:
            return progress is not None and progress > LATE_SHARE
        return True


@dataclasses.dataclass
class CheckFinding:
    """What a check has found in a training, once, with a count.

    Attributes:
        check: The check.
        level: Its level.
        first_step: When it was found first, in environment steps.
        last_step: When it was found last.
        count: In how many looks.
        seen: What was seen first.
        threshold: That it was held against.
    """

    check: DiagnosisCheck
    level: str
    first_step: int
    last_step: int
    count: int
    seen: CheckResult
    threshold: float

    def told(self) -> Mapping[str, object]:
        """Plain data for `diagnosis.json`."""
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
            "remedies": self.check.remedies,
            "may_be_wrong": self.check.may_be_wrong,
        }

    def line(self) -> str:
        """For the log."""
        return (
            f"[diagnosis] {self.level} {self.check.id} at step {self.first_step}: {self.seen.text} "
            f"Probably: {self.check.causes} Try: {self.check.remedies}"
        )


def _why_no_reward_threshold(facts: TrainingFacts) -> str:
    return "" if facts.reward_threshold is not None else "the task declares no reward threshold"
