"""Has a run watched by the diagnosis, and its findings kept in the run folder and the log."""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

from harness.contract.algorithms import Hyperparameters
from harness.diagnosis.engine import Engine
from harness.diagnosis.registry import all_checks, check_thresholds
from harness.diagnosis.signals import Facts
from harness.record.folder import RunFolder
from harness.record.lease import FolderGone, LeaseLost
from harness.train.monitor import TrainingMonitor
from harness.train.prepare import Prepared


def diagnose(prepared: Prepared, monitor: TrainingMonitor, folder: RunFolder) -> Engine | None:
    """Joins a training; None where nobody wants that.

    Raises:
        SpecError: A threshold is that of no check.
    """
    settings = prepared.spec.diagnosis
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
    )
    engine.changed = lambda: _keep(engine, folder)
    for trouble in troubles:
        engine.trouble(trouble)
    engine.subscribe(monitor.events)
    return engine


def conclude(engine: Engine | None, folder: RunFolder) -> None:
    """Writes the last report, however the training ended."""
    if engine is not None:
        engine.close()
        _keep(engine, folder)


def facts_of(prepared: Prepared) -> Facts:
    """What is known of a run before it begins."""
    spec, task = prepared.spec, prepared.context.task
    asked: Hyperparameters = prepared.hyperparameters
    known = {name: getattr(asked, name) for name in type(asked).__dataclass_fields__}
    exploration = known.get("exploration_initial"), known.get("exploration_final")
    import gymnasium  # as late as the environments themselves

    declared = gymnasium.spec(spec.env)
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


def _keep(engine: Engine, folder: RunFolder) -> None:
    report: dict[str, Any] = {"mode": folder.content["spec"]["diagnosis"]["mode"]}
    try:
        folder.keep_diagnosis(report | engine.report())
    except (LeaseLost, FolderGone):
        raise
    except OSError as error:  # a full disk: what was found is in the log
        with contextlib.suppress(OSError):
            engine.trouble(f"diagnosis.json cannot be written: {error.strerror}")
