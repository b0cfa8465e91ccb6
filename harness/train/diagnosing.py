"""Has a run watched by the diagnosis, and its findings kept in the run folder and the log."""

import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from harness.contract.algorithms import Hyperparameters
from harness.diagnosis.engine import Engine
from harness.diagnosis.registry import all_checks, check_thresholds
from harness.diagnosis.signals import Facts
from harness.record.diagnosis import read_diagnosis
from harness.record.folder import RunFolder
from harness.record.lease import FolderGone, LeaseLost
from harness.train.monitor import TrainingMonitor
from harness.train.prepare import Prepared

WENT_ON = (
    "the diagnosis starts anew at step {step}, where the run went on: what compares with a run's "
    "beginning is not asked; {count} findings of before are kept."
)


@dataclasses.dataclass(frozen=True)
class Diagnosing:
    """One attempt's diagnosis, and what those before it had found."""

    engine: Engine
    mode: str
    earlier: tuple[dict[str, Any], ...]

    def keep(self, folder: RunFolder) -> None:
        """Writes the report by now."""
        report = {"mode": self.mode} | self.engine.report()
        report["findings"] = together(self.earlier, report["findings"])
        try:
            folder.keep_diagnosis(report)
        except (LeaseLost, FolderGone):
            raise
        except OSError as error:  # a full disk: what was found is in the log
            with contextlib.suppress(OSError):
                self.engine.trouble(f"diagnosis.json cannot be written: {error.strerror}")


def diagnose(
    prepared: Prepared, monitor: TrainingMonitor, folder: RunFolder, begins: int = 0
) -> Diagnosing | None:
    """Joins a training; None where nobody wants that.

    Args:
        prepared: The run.
        monitor: What it reports to.
        folder: Where the report is kept.
        begins: The step from which it goes on; 0 is its start.

    Raises:
        SpecError: A threshold is that of no check.
    """
    settings = prepared.spec.diagnosis
    if not begins:
        folder.forget_diagnosis()
    if settings["mode"] == "off":
        return None
    checks, troubles = all_checks(settings.get("also", ()))
    thresholds: Mapping[str, float] = settings.get("thresholds", {})
    if not troubles:  # what could not be loaded may be whose threshold it is
        check_thresholds(list(thresholds), checks)
    engine = Engine(
        facts_of(prepared),
        checks,
        thresholds,
        strict=settings["mode"] == "strict",
        period=settings.get("period"),
        say=functools.partial(print, flush=True),
        normalizer=monitor.normalizer,
        begins=begins,
    )
    earlier = read_diagnosis(folder.path).findings if begins else ()
    diagnosing = Diagnosing(engine, settings["mode"], earlier)
    engine.changed = lambda: diagnosing.keep(folder)
    for trouble in troubles:
        engine.trouble(trouble)
    if begins:
        engine.trouble(WENT_ON.format(step=begins, count=len(earlier)))
    engine.subscribe(monitor.events)
    return diagnosing


def conclude(diagnosing: Diagnosing | None, folder: RunFolder) -> None:
    """Writes the last report, however the training ended."""
    if diagnosing is not None:
        diagnosing.engine.close()
        diagnosing.keep(folder)


def together(
    earlier: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Findings of several attempts at a run, each once: first steps, and counts added up."""
    found = {finding["id"]: dict(finding) for finding in earlier}
    for finding in now:
        before = found.get(finding["id"])
        if before is None:
            found[finding["id"]] = dict(finding)
        else:
            before["count"] += finding["count"]
            before["last_step"] = max(before["last_step"], finding["last_step"])
    return list(found.values())


def facts_of(prepared: Prepared) -> Facts:
    """What is known of a run before it begins."""
    spec, task = prepared.spec, prepared.context.task
    asked: Hyperparameters = prepared.hyperparameters
    known = {name: getattr(asked, name) for name in type(asked).__dataclass_fields__}
    exploration = known.get("exploration_initial"), known.get("exploration_final")
    import gymnasium  # as late as the environments themselves

    module, _, name = spec.env.rpartition(":")
    if module:  # a task of one's own, which its module registers
        importlib.import_module(module)
    declared = gymnasium.spec(name)
    return Facts(
        algorithm=spec.algorithm,
        steps=prepared.native.total_steps,
        gamma=known.get("gamma"),
        has_targets=type(asked).has_targets,
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
