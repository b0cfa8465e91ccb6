"""Evaluate checks during a training and collect their findings, each once with a count."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Policy, Weights
from parallax.harness.contract.events import (
    EnvStep,
    EnvTransition,
    PolicyAttached,
    ReportedMetrics,
    TrainingEnd,
    TrainingError,
    TrainingEvents,
)
from parallax.harness.diagnosis.check import (
    ERROR,
    CheckFinding,
    DiagnosisCheck,
    name_hyperparameters,
    replace_hyperparameters,
)
from parallax.harness.diagnosis.environment_signals import EnvironmentSignalCollector
from parallax.harness.diagnosis.network_signals import NetworkSignalCollector
from parallax.harness.diagnosis.signals import Array, TrainingFacts

SCHEMA = 1
CHECKS_PER_RUN = 100
MIN_PERIOD = 400
DEFAULT_PERIOD = 500
_ACTING_STEPS = 3
_EXAMINE_EVERY = 20  # evaluations of the diagnosis; each calls the policy 16 times
_NOTIFY_EVERY = 10  # evaluations; for callers that display the last values
CURVE_POINTS = 64
"""Maximum number of points of a signal in the report."""

_GOLDEN_FRACTION = 0.6180339887498949  # checks must not coincide with periodic target updates

LogFunction = Callable[[str], None]


class DiagnosisEngine:
    """Diagnosis of one training.

    At irregular steps, one `period` apart on average, it reads signals and evaluates the checks.

    Attributes:
        findings: By check id, in the order they were found.
        signals: Signals collected so far.
        problems: Messages about what could not be evaluated or watched, each once.
        changed: Called after a new finding, and at every tenth evaluation.
    """

    def __init__(
        self,
        facts: TrainingFacts,
        checks: Sequence[DiagnosisCheck],
        thresholds: Mapping[str, float],
        *,
        strict: bool = False,
        period: int | None = None,
        periods: Mapping[str, int] | None = None,
        left_out: Mapping[str, str] | None = None,
        say: LogFunction = print,
        on_change: Callable[[], None] = lambda: None,
        normalizer: Callable[[], Callable[[Array], Array]] = lambda: lambda batch: batch,
        start_step: int = 0,
        reported_ids: Collection[str] = (),
        names: Mapping[str, str] | None = None,
        replaces_names: bool = False,
    ) -> None:
        """Create a diagnosis; `subscribe` starts it.

        Args:
            facts: Facts of the training.
            checks: Checks to evaluate.
            thresholds: By check id, if not the default.
            strict: Whether a finding at error level ends the training.
            period: Environment steps between evaluations; None is a hundredth of the run.
            periods: Minimum number of steps between two evaluations by check id, if it is larger
                than `period`.
            left_out: Ids of checks that are not evaluated, with the reason.
            say: Prints a message; called once per finding and problem.
            on_change: Called after a new finding, and at every tenth evaluation.
            normalizer: Returns the current normalisation of observations for the policy.
            start_step: First step; checks that need the signal `beginning` are evaluated only if it
                is 0.
            reported_ids: Ids of findings before `start_step`, which are not printed again.
            names: The framework's name of each hyperparameter, for remedies.
            replaces_names: Whether remedies have these names instead of ours, not after ours.
        """
        self.findings: dict[str, CheckFinding] = {}
        self.problems: list[str] = []
        self._names, self._replaces_names = dict(names or {}), replaces_names
        self._facts, self._strict, self._say, self.changed = facts, strict, say, on_change
        self._thresholds = {check.id: thresholds.get(check.id, check.threshold) for check in checks}
        self._not_applicable = {
            check.id: reason for check in checks if (reason := check.why_not_applicable(facts))
        } | dict(left_out or {})
        self._checks = [check for check in checks if check.id not in self._not_applicable]
        self._evaluation_counts = dict.fromkeys((check.id for check in self._checks), 0)
        self._normalizer, self._reported_ids = normalizer, frozenset(reported_ids)
        self._period = period or compute_default_period(facts.steps)
        self._collector = EnvironmentSignalCollector(facts)
        self.signals = self._collector.signals
        self._networks = NetworkSignalCollector(
            self.signals, self._collector.recent, self._collector.stored, self._guard
        )
        self._policy: Policy | None = None
        self._weights: Callable[[], Weights] | None = None
        self._periods, self._next_evaluation = dict(periods or {}), dict[str, float]()
        self._next, self._n_checks = float(start_step + self._period), 0
        self._due = float(start_step)
        self._has_begun, self._is_first = bool(start_step), True
        if not start_step:
            self.signals.values["beginning"] = True
        self._acting_until = 0
        self._follow_up = 0
        self._watches = True

    def subscribe(self, events: TrainingEvents) -> None:
        """Subscribe to the events of a training."""
        self._events = events
        events.subscribe(PolicyAttached, self._attach)
        events.subscribe(ReportedMetrics, self._collector.metrics)
        events.subscribe(EnvStep, self._before_step)
        events.subscribe(EnvTransition, self._collector.transition)
        events.subscribe(TrainingEnd, lambda _: self.end())

    def end(self) -> None:
        """Evaluate the checks one last time and remove all hooks.

        Raises:
            TrainingError: There is a finding at error level, and the diagnosis is strict.
        """
        self.close()
        self._run_checks(last=True)
        if missing := self.list_missing_signals():
            text = "; ".join(f"{name} ({', '.join(signals)})" for name, signals in missing.items())
            self._say(f"[diagnosis] not evaluated, missing signals: {text}")

    def end_after_failure(self, failure: str) -> None:
        """Evaluate the checks one last time on a training that ended with an error.

        A training that fails early may not have been checked yet, and its last state may show the
        cause. Nothing is raised, so that the error that ended the training is reported.
        """
        self.close()
        self._strict = False
        self.signals.values["failure"] = failure
        self.signals.step = self._events.steps
        self._run_checks(last=True)

    def drop_policy(self) -> None:
        """Skip everything that evaluates the policy."""
        self._policy = None

    def close(self) -> None:
        """Remove all hooks."""
        self._networks.close()

    def list_missing_signals(self) -> dict[str, list[str]]:
        """Return the checks that have not been evaluated, with their missing signals."""
        lacking = {
            check.id: [name for name in check.needs if not self.signals.has(name)]
            for check in self._checks
            if not self._evaluation_counts[check.id]
        }
        return {name: lacks for name, lacks in lacking.items() if lacks}

    def report(self) -> dict[str, Any]:
        """Return the report as plain data for `diagnosis.json`."""
        signals = self.signals
        return {
            "schema": SCHEMA,
            "step": signals.step,
            "looks": self._n_checks,
            "period": self._period,
            "findings": [dict(finding.to_dict()) for finding in self.findings.values()],
            "asked": dict(self._evaluation_counts),
            "meaningless": dict(self._not_applicable),
            "unasked": self.list_missing_signals(),
            "troubles": list(self.problems),
            "signals": {
                name: {
                    "step": signals.step,
                    "last": series.latest,
                    "count": series.count,
                    "curve": series.curve(CURVE_POINTS),
                }
                for name, series in {**signals.series, **signals.metrics}.items()
            },
        }

    def report_problem(self, text: str) -> None:
        """Print once that something could not be evaluated or watched."""
        if text not in self.problems:
            self.problems.append(text)
            self._say(f"[diagnosis] {text}")

    def _attach(self, attached: PolicyAttached) -> None:
        self._policy, self._weights = attached.policy, attached.weights

    def _before_step(self, event: EnvStep) -> None:
        step = self._events.steps
        self.signals.step = step
        if step >= self._due:
            self._process_step(step)

    def _process_step(self, step: int) -> None:
        self._networks.tidy()
        if not self._has_begun:  # initial weights
            self._has_begun = True
            self._read_weights()
        if self._is_first:
            self._is_first = False
            self._await_update()
        if step >= self._next:
            self._run_checks()
            self._schedule(step)
        elif self._follow_up and step >= self._follow_up:
            self._follow_up = 0
            self._query_policy(self._collector.query_policy_again)
        if self._acting_until and (
            step >= self._acting_until or self._networks.is_acting_network_known
        ):
            self._acting_until = 0
            self._networks.close_acting_window()
        follow_up = self._follow_up or self._next
        self._due = step + 1 if self._acting_until else min(self._next, follow_up)

    def _schedule(self, step: int) -> None:
        self._n_checks += 1
        # The next evaluation is 0.5 to 1.5 periods away, 1 on average.
        self._next = step + self._period * (0.5 + math.fmod(self._n_checks * _GOLDEN_FRACTION, 1.0))
        if self._n_checks % _EXAMINE_EVERY == 2:
            self._examine()
        if self._n_checks % 2:  # alternate the two windows, because they are the main cost
            self._await_update()
            return
        self._follow_up = step + self._facts.n_envs
        if self._watches and not self._networks.is_open:
            self._guard(lambda: self._networks.open_acting_window(self._policy))
            if self._networks.is_open:
                self._acting_until = step + _ACTING_STEPS * self._facts.n_envs

    def _examine(self) -> None:
        policy, first = self._policy, "fitting" not in self.signals.values
        if policy is None or not self._watches or self._networks.is_open:
            return
        rng = np.random.default_rng(self._n_checks)
        with self._networks.pause_watching():
            self._guard(lambda: self._networks.examine(policy, rng, first))

    def _await_update(self) -> None:
        weights = self._weights
        if weights is not None and self._watches:
            self._guard(lambda: self._networks.await_update_window(weights, self._act_soon))

    def _act_soon(self) -> None:
        self._due = 0.0  # a hook cannot remove itself while it runs

    def _guard(self, watch: Callable[[], None]) -> None:
        try:
            watch()
        except Exception as error:
            self._watches = False
            self._act_soon()
            self._networks.stop_watching()
            self.report_problem(f"networks are not watched: {type(error).__name__}: {error}")

    def _query_policy(self, query: Callable[[Policy], None]) -> None:
        if self._policy is None:
            return
        try:
            with self._networks.pause_watching():
                query(self._policy)
        except Exception as error:
            self._policy = None
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            self.report_problem(f"the policy cannot be evaluated: {reason}")

    def _read_weights(self) -> None:
        if self._weights is None:
            return
        try:
            self._collector.weights(self._weights())
        except Exception as error:
            self._weights = None
            self.report_problem(f"weights cannot be read: {type(error).__name__}: {error}")

    def _run_checks(self, last: bool = False) -> None:
        self._query_policy(lambda policy: self._collector.query_policy(policy, self._normalizer()))
        if self._n_checks % 2 == 0 or last:
            self._read_weights()
        now = [check for check in self._checks if last or self._is_time_for(check)]
        new = [finding for check in now if (finding := self._evaluate_check(check))]
        self.signals.values.pop("regressions", None)  # evaluated once
        for finding in new:
            if finding.check.id not in self._reported_ids:
                self._say(finding.format_line())
        if new or self._n_checks % _NOTIFY_EVERY == 0:
            self.changed()
        errors = [finding for finding in new if finding.level == ERROR]
        if self._strict and errors:
            worst = errors[0]
            self.close()
            raise TrainingError(
                f"diagnosis=strict ended the run: {worst.check.id} ({worst.check.name}) at step "
                f"{worst.first_step}: {worst.seen.text} Use diagnosis=on to continue after errors."
            )

    def _is_time_for(self, check: DiagnosisCheck) -> bool:
        """Return whether a check's own period has passed since its last evaluation."""
        return self.signals.step >= self._next_evaluation.get(check.id, 0)

    def _evaluate_check(self, check: DiagnosisCheck) -> CheckFinding | None:
        """Evaluate a check and return a finding if it is the check's first."""
        signals = self.signals
        if not check.is_due(signals) or not all(signals.has(name) for name in check.needs):
            return None
        self._evaluation_counts[check.id] += 1
        self._next_evaluation[check.id] = signals.step + self._periods.get(check.id, 0)
        threshold = self._thresholds[check.id]
        try:
            seen = check.detect(signals, threshold)
        except Exception as error:
            self._checks.remove(check)
            text = f"{type(error).__name__}: {error}"
            self.report_problem(f"{check.id} failed and is no longer evaluated: {text}")
            return None
        if seen is None:
            return None
        step, found = signals.step, self.findings.get(check.id)
        if found:
            found.count += 1
            found.last_step = step
            return None
        level = seen.level or check.level
        name = replace_hyperparameters if self._replaces_names else name_hyperparameters
        remedies = name(check.remedies, self._names)
        self.findings[check.id] = CheckFinding(
            check, level, step, step, 1, seen, threshold, remedies
        )
        return self.findings[check.id]


def compute_default_period(steps: int | None) -> int:
    """Return the steps between evaluations: a hundredth of the run, but at least 400."""
    return max(MIN_PERIOD, steps // CHECKS_PER_RUN) if steps else DEFAULT_PERIOD
