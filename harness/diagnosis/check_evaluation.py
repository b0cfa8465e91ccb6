"""Evaluate checks on signals and collect their findings, each once with a count."""

from collections.abc import Callable, Mapping, Sequence

from parallax.harness.diagnosis.check import (
    CheckFinding,
    CheckResult,
    DiagnosisCheck,
    name_hyperparameters,
    replace_hyperparameters,
)
from parallax.harness.diagnosis.signals import TrainingSignals


class CheckEvaluator:
    """Evaluator of the checks of one training.

    Attributes:
        findings: By check id, in the order they were found.
        counts: Number of evaluations by check id.
        not_applicable: Why a check is not evaluated, by check id.
    """

    def __init__(
        self,
        signals: TrainingSignals,
        checks: Sequence[DiagnosisCheck],
        thresholds: Mapping[str, float],
        periods: Mapping[str, int],
        left_out: Mapping[str, str],
        names: Mapping[str, str],
        replaces_names: bool,
        report_problem: Callable[[str], None],
    ) -> None:
        """Create an evaluator without findings.

        Args:
            signals: Inputs of the checks.
            checks: Checks to evaluate.
            thresholds: By check id, if not the default.
            periods: Minimum number of steps between two evaluations, by check id.
            left_out: Ids of checks that are not evaluated, with the reason.
            names: The framework's name of each hyperparameter, for remedies.
            replaces_names: Whether remedies have these names instead of ours, not after ours.
            report_problem: Prints that a check failed.
        """
        self._signals, self._report_problem = signals, report_problem
        self._thresholds, self._periods = thresholds, periods
        self._names, self._replaces_names = names, replaces_names
        self.not_applicable = {
            check.id: reason
            for check in checks
            if (reason := check.why_not_applicable(signals.facts))
        } | dict(left_out)
        self._checks = [check for check in checks if check.id not in self.not_applicable]
        self.counts = dict.fromkeys((check.id for check in self._checks), 0)
        self.findings: dict[str, CheckFinding] = {}
        self._next_steps: dict[str, int] = {}

    def evaluate(self, last: bool = False) -> list[CheckFinding]:
        """Evaluate the checks that are due, and return the findings that are new.

        Args:
            last: Whether the training is over, so that no check waits for its period.
        """
        step = self._signals.step
        due = [c for c in self._checks if last or step >= self._next_steps.get(c.id, 0)]
        return [finding for check in due if (finding := self._evaluate_check(check))]

    def list_missing_signals(self) -> dict[str, list[str]]:
        """Return the checks that have not been evaluated, with their missing signals."""
        missing = {
            check.id: [name for name in check.needs if not self._signals.has(name)]
            for check in self._checks
            if not self.counts[check.id]
        }
        return {name: signals for name, signals in missing.items() if signals}

    def _evaluate_check(self, check: DiagnosisCheck) -> CheckFinding | None:
        """Evaluate a check and return its finding if it is the check's first."""
        signals = self._signals
        if not check.is_due(signals) or not all(signals.has(name) for name in check.needs):
            return None
        self.counts[check.id] += 1
        self._next_steps[check.id] = signals.step + self._periods.get(check.id, 0)
        threshold = self._thresholds.get(check.id, check.threshold)
        try:
            seen = check.detect(signals, threshold)
        except Exception as error:
            # Checks of other packages and of users may fail; the training goes on without them.
            self._checks.remove(check)
            text = f"{type(error).__name__}: {error}"
            self._report_problem(f"{check.id} failed and is no longer evaluated: {text}")
            return None
        if seen is None:
            return None
        if finding := self.findings.get(check.id):
            finding.count += 1
            finding.last_step = signals.step
            return None
        self.findings[check.id] = self._make_finding(check, seen, threshold)
        return self.findings[check.id]

    def _make_finding(
        self, check: DiagnosisCheck, seen: CheckResult, threshold: float
    ) -> CheckFinding:
        step = self._signals.step
        translate = replace_hyperparameters if self._replaces_names else name_hyperparameters
        remedies = translate(check.remedies, self._names)
        level = seen.level or check.level
        return CheckFinding(check, level, step, step, 1, seen, threshold, remedies)
