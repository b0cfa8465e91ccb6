"""Diagnosis of a run, with its findings stored in the run folder and the log."""

import contextlib
import dataclasses
import functools
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.state_codec import StateMismatchError
from parallax.harness.diagnosis.checks import check_names, list_left_out, load_all_checks
from parallax.harness.diagnosis.engine import CURVE_POINTS, DiagnosisEngine
from parallax.harness.diagnosis.signals import TrainingFacts
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import Count, FolderDeletedError, LockLostError
from parallax.harness.record.old_names import translate_diagnosis_report
from parallax.harness.record.reading import DiagnosisReading, is_finding, read_diagnosis
from parallax.harness.train.monitor import TrainingMonitor
from parallax.harness.train.prepare import PreparedRun

RESUME_NOTICE = (
    "the diagnosis restarts at step {step}, where the run resumed: checks that compare with the "
    "start of a run are skipped; {count} earlier findings remain."
)


class _LoadedReport(msgspec.Struct, frozen=True):
    """Report in a checkpoint."""

    n_evaluations: Count
    findings: list[dict[str, Any]]
    signals: dict[str, dict[str, Any]]


class _LoadedSignal(msgspec.Struct, frozen=True):
    """Signal of a report in a checkpoint."""

    count: Count
    curve: list[tuple[Count, float | None]]


class RunDiagnosis:
    """Diagnosis of one attempt, with the findings of earlier attempts."""

    def __init__(self, engine: DiagnosisEngine, mode: str, before: DiagnosisReading) -> None:
        """Create the diagnosis of an attempt."""
        self.engine, self._mode = engine, mode
        self._before = before
        self._loaded_report: Mapping[str, Any] | None = None

    def state(self) -> dict[str, Any]:
        """Return the current report, for a checkpoint."""
        report: dict[str, Any] = json.loads(json.dumps(self._build_report(), default=float))
        return report

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint, whose report has the findings until then."""
        state = translate_diagnosis_report(state)
        for signal in msgspec.convert(state, _LoadedReport).signals.values():
            msgspec.convert(signal, _LoadedSignal)
        if not all(is_finding(finding) for finding in state["findings"]):
            raise StateMismatchError("a finding lacks what findings have")
        self._loaded_report = state

    def save_report(self, folder: RunFolder) -> None:
        """Write the current report."""
        try:
            folder.save_diagnosis(self._build_report())
        except (LockLostError, FolderDeletedError):
            raise
        except OSError as error:  # a full disk: what was found is in the log
            with contextlib.suppress(OSError):
                self.engine.report_problem(f"diagnosis.json cannot be written: {error.strerror}")

    def _build_report(self) -> dict[str, Any]:
        report = {"mode": self._mode} | self.engine.report()
        if self._loaded_report is None:
            report["findings"] = merge_findings(self._before.findings, report["findings"])
            return report
        loaded = self._loaded_report
        found = merge_findings(loaded["findings"], report["findings"])
        report["findings"] = merge_undone_findings(found, self._before.findings)
        report["n_evaluations"] += loaded["n_evaluations"]
        for name, signal in loaded["signals"].items():
            report["signals"][name] = merge_signal(signal, report["signals"].get(name))
        return report


def start_diagnosis(
    prepared: PreparedRun, monitor: TrainingMonitor, folder: RunFolder, first_step: int = 0
) -> RunDiagnosis | None:
    """Start the diagnosis of a training; return None if it is off.

    Args:
        prepared: The run.
        monitor: Monitor of the training.
        folder: Where the report is stored.
        first_step: The step from which the training resumes; 0 is its start.

    Raises:
        SpecError: A name is that of no check, or no check is left.
    """
    settings = prepared.spec.diagnosis
    if not first_step:
        folder.remove_diagnosis()
    if settings["mode"] == "off":
        return None
    checks, problems = load_all_checks(settings.get("extra_checks", ()))
    thresholds: Mapping[str, float] = settings.get("thresholds", {})
    periods: Mapping[str, int] = settings.get("periods", {})
    only, skip = settings.get("only", ()), settings.get("skip", ())
    if problems:  # a name may be that of a check that could not be loaded
        known = {check.id for check in checks}
        only, skip = ([name for name in names if name in known] for names in (only, skip))
    else:
        check_names([*thresholds, *periods], checks)
    left_out = list_left_out(checks, only, skip)
    before = read_diagnosis(folder.path) if first_step else DiagnosisReading(folder.path)
    engine = DiagnosisEngine(
        collect_facts(prepared),
        checks,
        thresholds,
        strict=settings["mode"] == "strict",
        period=settings.get("period"),
        periods=periods,
        left_out=left_out,
        say=functools.partial(print, flush=True),
        normalizer=monitor.get_normalizer,
        start_step=first_step,
        reported_ids={finding["id"] for finding in before.findings},
        names={row.field: row.native_name for row in prepared.native.alignment},
    )
    diagnosis = RunDiagnosis(engine, settings["mode"], before)
    folder.checkpoint_extras.add("diagnosis", diagnosis)
    engine.changed = lambda: diagnosis.save_report(folder)
    for problem in problems:
        engine.report_problem(problem)
    if first_step:
        engine.report_problem(RESUME_NOTICE.format(step=first_step, count=len(before.findings)))
    engine.subscribe(monitor.events)
    return diagnosis


def finish_diagnosis(diagnosis: RunDiagnosis | None, folder: RunFolder, failure: str = "") -> None:
    """Write the last report, however the training ended; after a failure with a last check."""
    if diagnosis is not None:
        diagnosis.engine.close()
        if failure:
            diagnosis.engine.end_after_failure(failure)
        diagnosis.save_report(folder)


def merge_findings(
    earlier: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Merge findings of attempts at a run: each once, with its first step and the sum of counts."""
    found = {finding["id"]: dict(finding) for finding in earlier}
    for finding in now:
        before = found.get(finding["id"])
        if before is None:
            found[finding["id"]] = dict(finding)
        else:
            before["count"] += finding["count"]
            before["last_step"] = max(before["last_step"], finding["last_step"])
    return list(found.values())


def merge_undone_findings(
    found: Sequence[Mapping[str, Any]], undone: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Merge findings with those of steps that a killed attempt took and that are repeated.

    A finding that occurs in both counts once, from the step where it occurred first.
    """
    steps = {finding["id"]: finding["first_step"] for finding in undone}
    ids = {finding["id"] for finding in found}
    again = [
        {**one, "first_step": min(one["first_step"], steps.get(one["id"], one["first_step"]))}
        for one in found
    ]
    return [*again, *(dict(one) for one in undone if one["id"] not in ids)]


def merge_signal(before: Mapping[str, Any], now: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a signal of the report with its data from a checkpoint; the curve is thinned out."""
    if now is None:
        return dict(before)
    curve = [*before["curve"], *now["curve"]]
    every = -(-len(curve) // CURVE_POINTS)
    thinned = [*curve[:-1:every], curve[-1]]
    return {**now, "count": before["count"] + now["count"], "curve": thinned}


def collect_facts(prepared: PreparedRun) -> TrainingFacts:
    """Return the facts about a run that are known before it begins."""
    spec, task = prepared.spec, prepared.context.task
    hp: Hyperparameters = prepared.hyperparameters
    known = {field.name: getattr(hp, field.name) for field in dataclasses.fields(hp)}
    exploration = known.get("exploration_initial"), known.get("exploration_final")
    import gymnasium  # not before the environments need it

    module, _, name = spec.env.rpartition(":")
    if module:  # a user's own task, which its module registers
        importlib.import_module(module)
    declared = gymnasium.spec(name)
    return TrainingFacts(
        algorithm=spec.algorithm,
        steps=prepared.native.total_steps,
        gamma=known.get("gamma"),
        has_targets=type(hp).has_targets,
        tau=known.get("tau"),
        target_interval=known.get("target_update_interval", 1 if "tau" in known else None),
        learning_starts=int(known.get("learning_starts", 0)),
        exploration=None if None in exploration else exploration,  # type: ignore[arg-type]
        constant_exploration=exploration[0] == exploration[1],
        choices=task.choices,
        action_low=task.action_low,
        action_high=task.action_high,
        reward_threshold=declared.reward_threshold,
        time_limit=task.max_episode_steps,
        normalized=spec.wrappers == "normalized",
        n_envs=spec.n_envs,
        hyperparameters=known,
    )
