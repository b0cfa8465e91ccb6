"""Diagnosis of a running training: when signals are collected and checks are evaluated."""

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
from parallax.harness.diagnosis.check import ERROR, CheckFinding, DiagnosisCheck
from parallax.harness.diagnosis.check_evaluation import CheckEvaluator
from parallax.harness.diagnosis.environment_signals import EnvironmentSignalCollector
from parallax.harness.diagnosis.network_signals import NetworkSignalCollector
from parallax.harness.diagnosis.parameter_signals import ParameterSignalCollector
from parallax.harness.diagnosis.policy_signals import PolicySignalCollector
from parallax.harness.diagnosis.signals import Array, TrainingFacts

SCHEMA = 2
EVALUATIONS_PER_RUN = 100
MIN_PERIOD = 400
DEFAULT_PERIOD = 500
_ACTING_STEPS = 3  # of each environment, in a window of acting
_EXAMINE_EVERY = 20  # evaluations of the checks; each calls the policy 16 times
_NOTIFY_EVERY = 10  # evaluations; for callers that display the last values
CURVE_POINTS = 64
"""Maximum number of points of a signal in the report."""

_GOLDEN_FRACTION = 0.6180339887498949  # checks must not coincide with periodic target updates

LogFunction = Callable[[str], None]


class DiagnosisEngine:
    """Diagnosis of one training.

    At irregular steps, one `period` apart on average, it collects signals and evaluates the checks.

    Attributes:
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
        self.problems: list[str] = []
        self._facts, self._strict, self._say, self.changed = facts, strict, say, on_change
        self._normalizer, self._reported_ids = normalizer, frozenset(reported_ids)
        self._env_steps = EnvironmentSignalCollector(facts)
        self.signals = self._env_steps.signals
        self._parameters = ParameterSignalCollector(self.signals)
        self._policy_answers = PolicySignalCollector(self.signals)
        self._networks = NetworkSignalCollector(
            self.signals,
            self._env_steps.get_recent_observations,
            self._env_steps.get_history,
            self._guard,
        )
        self._evaluator = CheckEvaluator(
            *(self.signals, checks, thresholds, periods or {}, left_out or {}),
            *(names or {}, replaces_names, self.report_problem),
        )
        self._policy: Policy | None = None
        self._read_weights: Callable[[], Weights] | None = None
        self._is_watching = True
        self._period = period or compute_default_period(facts.steps)
        self._n_evaluations = 0
        # Environment steps at which something is due; 0 where nothing is.
        self._next_evaluation = float(start_step + self._period)
        self._follow_up = 0
        self._acting_until = 0
        self._due = float(start_step)  # the earliest of them
        self._is_first_step, self._needs_first_weights = True, not start_step
        if not start_step:
            self.signals.values["beginning"] = True

    @property
    def findings(self) -> Mapping[str, CheckFinding]:
        """Findings by check id, in the order they were found."""
        return self._evaluator.findings

    def subscribe(self, events: TrainingEvents) -> None:
        """Subscribe to the events of a training."""
        self._events = events
        events.subscribe(PolicyAttached, self._attach)
        events.subscribe(ReportedMetrics, self._env_steps.add_metrics)
        events.subscribe(EnvStep, self._before_step)
        events.subscribe(EnvTransition, self._env_steps.add_transition)
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
        return self._evaluator.list_missing_signals()

    def report(self) -> dict[str, Any]:
        """Return the report as plain data for `diagnosis.json`."""
        signals = self.signals
        return {
            "schema": SCHEMA,
            "step": signals.step,
            "n_evaluations": self._n_evaluations,
            "period": self._period,
            "findings": [dict(finding.to_dict()) for finding in self.findings.values()],
            "evaluations": dict(self._evaluator.counts),
            "not_applicable": dict(self._evaluator.not_applicable),
            "missing_signals": self.list_missing_signals(),
            "problems": list(self.problems),
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
        self._policy, self._read_weights = attached.policy, attached.weights

    def _before_step(self, event: EnvStep) -> None:
        step = self._events.steps
        self.signals.step = step
        if step >= self._due:
            self._process_step(step)

    def _process_step(self, step: int) -> None:
        """Do everything that is due before this step, and determine when something is due next."""
        self._networks.remove_ended_hooks()
        if self._needs_first_weights:
            self._needs_first_weights = False
            self._collect_parameter_signals()
        if self._is_first_step:
            self._is_first_step = False
            self._await_update()
        if step >= self._next_evaluation:
            self._run_checks()
            self._schedule(step)
        elif self._follow_up and step >= self._follow_up:
            self._follow_up = 0
            self._query_policy(self._policy_answers.query_again)
        if self._acting_until and (
            step >= self._acting_until or self._networks.is_acting_network_known
        ):
            self._acting_until = 0
            self._networks.close_acting_window()
        follow_up = self._follow_up or self._next_evaluation
        self._due = step + 1 if self._acting_until else min(self._next_evaluation, follow_up)

    def _schedule(self, step: int) -> None:
        """Set the step of the next evaluation, and open a window of networks until then."""
        self._n_evaluations += 1
        # The next evaluation is 0.5 to 1.5 periods away, 1 on average.
        fraction = math.fmod(self._n_evaluations * _GOLDEN_FRACTION, 1.0)
        self._next_evaluation = step + self._period * (0.5 + fraction)
        if self._n_evaluations % _EXAMINE_EVERY == 2:
            self._examine_policy()
        if self._n_evaluations % 2:  # alternate the two windows, because they are the main cost
            self._await_update()
            return
        self._follow_up = step + self._facts.n_envs
        if self._is_watching and not self._networks.is_open:
            self._guard(lambda: self._networks.open_acting_window(self._policy))
            if self._networks.is_open:
                self._acting_until = step + _ACTING_STEPS * self._facts.n_envs

    def _examine_policy(self) -> None:
        policy, fits_copy = self._policy, "fitting" not in self.signals.values
        if policy is None or not self._is_watching or self._networks.is_open:
            return
        rng = np.random.default_rng(self._n_evaluations)
        with self._networks.pause_watching():
            self._guard(
                lambda: self._policy_answers.examine(
                    policy, rng, self._networks.get_watchers(), fits_copy
                )
            )

    def _await_update(self) -> None:
        read = self._read_weights
        if read is not None and self._is_watching:
            self._guard(lambda: self._networks.await_update_window(read, self._process_next_step))

    def _process_next_step(self) -> None:
        self._due = 0.0  # a hook cannot remove itself while it runs

    def _guard(self, watch: Callable[[], None]) -> None:
        """Watch networks; if that fails, watch them no longer and let the training go on."""
        try:
            watch()
        except Exception as error:
            self._is_watching = False
            self._process_next_step()
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

    def _collect_parameter_signals(self) -> None:
        if self._read_weights is None:
            return
        try:
            self._parameters.read(self._read_weights())
        except Exception as error:
            self._read_weights = None
            self.report_problem(f"weights cannot be read: {type(error).__name__}: {error}")

    def _run_checks(self, last: bool = False) -> None:
        """Collect the signals of policy and parameters, evaluate the checks and print findings.

        Raises:
            TrainingError: There is a finding at error level, and the diagnosis is strict.
        """
        self._query_policy(
            lambda policy: self._policy_answers.query(
                policy, self._normalizer(), self._env_steps.get_last_steps()
            )
        )
        if self._n_evaluations % 2 == 0 or last:
            self._collect_parameter_signals()
        new = self._evaluator.evaluate(last)
        self.signals.values.pop("regressions", None)  # evaluated once
        for finding in new:
            if finding.check.id not in self._reported_ids:
                self._say(finding.format_line())
        if new or self._n_evaluations % _NOTIFY_EVERY == 0:
            self.changed()
        errors = [finding for finding in new if finding.level == ERROR]
        if self._strict and errors:
            worst = errors[0]
            self.close()
            raise TrainingError(
                f"diagnosis=strict ended the run: {worst.check.id} ({worst.check.name}) at step "
                f"{worst.first_step}: {worst.seen.text} Use diagnosis=on to continue after errors."
            )


def compute_default_period(steps: int | None) -> int:
    """Return the steps between evaluations: a hundredth of the run, but at least 400."""
    return max(MIN_PERIOD, steps // EVALUATIONS_PER_RUN) if steps else DEFAULT_PERIOD
