"""Has a run watched by the diagnosis, and its findings kept in the run folder and the log."""

import contextlib
import functools
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.contract.algorithms import Hyperparameters
from harness.diagnosis.engine import CURVE, Engine
from harness.diagnosis.registry import all_checks, check_thresholds
from harness.diagnosis.signals import Facts
from harness.record.diagnosis import Diagnosed, read_diagnosis
from harness.record.folder import RunFolder
from harness.record.lease import FolderGone, LeaseLost
from harness.train.monitor import TrainingMonitor
from harness.train.prepare import Prepared

WENT_ON = (
    "the diagnosis starts anew at step {step}, where the run went on: what compares with a run's "
    "beginning is not asked; {count} findings of before are kept."
)


class Diagnosing:
    """One attempt's diagnosis, and what those before it had found.

    Attributes:
        engine: This attempt's.
    """

    def __init__(self, engine: Engine, mode: str, before: Diagnosed) -> None:
        """Begins.

        Args:
            engine: This attempt's.
            mode: `on` or `strict`.
            before: What the run folder told when this attempt took it up.
        """
        self.engine, self._mode = engine, mode
        self._before = before
        self._kept: Mapping[str, Any] | None = None

    def state(self) -> dict[str, Any]:
        """For a checkpoint: the report by now."""
        told: dict[str, Any] = json.loads(json.dumps(self._report(), default=float))
        return told

    def lay_in(self, state: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint, whose report tells what was found by then."""
        self._kept = state

    def keep(self, folder: RunFolder) -> None:
        """Writes the report by now."""
        try:
            folder.keep_diagnosis(self._report())
        except (LeaseLost, FolderGone):
            raise
        except OSError as error:  # a full disk: what was found is in the log
            with contextlib.suppress(OSError):
                self.engine.trouble(f"diagnosis.json cannot be written: {error.strerror}")

    def _report(self) -> dict[str, Any]:
        report = {"mode": self._mode} | self.engine.report()
        if self._kept is None:
            report["findings"] = together(self._before.findings, report["findings"])
            return report
        kept = self._kept
        found = together(kept["findings"], report["findings"])
        report["findings"] = with_undone(found, self._before.findings)
        report["looks"] += kept["looks"]
        for name, told in kept["signals"].items():
            report["signals"][name] = joined(told, report["signals"].get(name))
        return report


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
    before = read_diagnosis(folder.path) if begins else Diagnosed(folder.path)
    engine = Engine(
        facts_of(prepared),
        checks,
        thresholds,
        strict=settings["mode"] == "strict",
        period=settings.get("period"),
        say=functools.partial(print, flush=True),
        normalizer=monitor.normalizer,
        begins=begins,
        said={finding["id"] for finding in before.findings},
    )
    diagnosing = Diagnosing(engine, settings["mode"], before)
    folder.beside.add("diagnosis", diagnosing)
    engine.changed = lambda: diagnosing.keep(folder)
    for trouble in troubles:
        engine.trouble(trouble)
    if begins:
        engine.trouble(WENT_ON.format(step=begins, count=len(before.findings)))
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


def with_undone(
    found: Sequence[Mapping[str, Any]], undone: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Findings with those of steps that a killed attempt took and that are taken anew.

    What was found then and is found again counts once, from where it was found first.
    """
    steps = {finding["id"]: finding["first_step"] for finding in undone}
    ids = {finding["id"] for finding in found}
    again = [
        {**one, "first_step": min(one["first_step"], steps.get(one["id"], one["first_step"]))}
        for one in found
    ]
    return [*again, *(dict(one) for one in undone if one["id"] not in ids)]


def joined(before: Mapping[str, Any], now: Mapping[str, Any] | None) -> dict[str, Any]:
    """A signal of the report with what a checkpoint told of it; the curve stays as short."""
    if now is None:
        return dict(before)
    curve = [*before["curve"], *now["curve"]]
    every = -(-len(curve) // CURVE)
    thinned = [*curve[:-1:every], curve[-1]]
    return {**now, "count": before["count"] + now["count"], "curve": thinned}


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
