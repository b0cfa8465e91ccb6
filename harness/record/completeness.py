"""Decides whether a run is complete: one rule, for run folders and packed runs.

A run is complete if all of these conditions hold, and only then:

1. `run.json` can be read and says `completed`,
2. the evaluations in `evaluations.npz` are at the steps that `eval_every` means, with as many
   episodes as requested, and the last one is at the last scheduled step, which is the requested
   one or later, or the end of the last whole rollout before it,
3. every return is finite,
4. the hashes in `run.json`, of the other files' content and of its own, still match.

Rows of packed files pass the same function, with the hash of the row in place of that of the file.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from parallax.harness.record.files import UnusableError, escape_unprintable, summarize_error
from parallax.harness.record.layout import RUN_FILE, RunPath, parse_run_path
from parallax.harness.record.run_json import (
    CHECKSUM_FIELD,
    RunRecord,
    find_other_variant,
    has_valid_checksum,
)

if TYPE_CHECKING:
    from parallax.harness.record.npz_files import RunEvaluations

# Levels at which frameworks have the requested hyperparameters.
_EQUAL_LEVELS = ("exact", "lockstep")
# Returns are recorded as float32: a larger value is not a return.
_MAX_RETURN = 3.4028234663852886e38

NON_FINITE = "non-finite returns"
"""Beginning of the reason of a run with returns that are not finite."""
CHECKSUM_MISMATCH = (
    f"{RUN_FILE} was changed after it was written: its checksum does not match "
    f"(to accept the change, remove the entry `{CHECKSUM_FIELD}`)"
)


class NewerSchemaError(UnusableError):
    """The record has a newer schema than this version supports."""

    def __init__(self, message: str, content: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.content = dict(content or {})


class UnreadableError(UnusableError):
    """The system prevents reading a file; the file may be intact."""


class DivergedError(UnusableError):
    """A return is not finite: the policy or the environment has diverged."""


@dataclasses.dataclass(frozen=True, eq=False)
class RunReading:
    """Contents of one run folder.

    Attributes:
        record: Its `run.json`; None where that cannot be used.
        content: The same as decoded from the file, for writing it again.
        evaluations: Its evaluations; None unless they were requested and the run is complete.
        reason: Why the run is not complete, in a line; empty if it is.
        damaged: Whether the reason is a damaged file.
        newer: Whether the record was written by a later version of this project.
        unreadable: Whether the system prevents reading a file, so that its state is unknown.
        failed: Whether training failed, by its record, or diverged, by returns that are not finite.
    """

    folder: Path
    record: RunRecord | None = None
    content: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    evaluations: "RunEvaluations | None" = None
    reason: str = ""
    damaged: bool = False
    newer: bool = False
    unreadable: bool = False
    failed: bool = False

    @property
    def complete(self) -> bool:
        """Return whether the run is complete."""
        return not self.reason

    @property
    def spec(self) -> dict[str, Any]:
        """Return the requested settings, with defaults for older records; empty without a record.

        Fields that this version does not know are preserved.
        """
        if self.record is None:
            return {}
        known = {**self.content["spec"], **msgspec.to_builtins(self.record.spec)}
        if self.record.imported is None:
            return known
        # Settings that another tool's files leave out are unknown: defaults are those of our runs.
        stated = {name: known[name] for name in self.content["spec"]}
        return {**stated, "imported": self.record.imported.format}

    @property
    def place(self) -> RunPath:
        """Return the identity of the run: by its record, or else by its path.

        The study is the folder that it is in, since studies are renamed.
        """
        by_path = parse_run_path(self.folder)
        if self.record is None:
            return by_path
        spec, other = self.record.spec, ""
        if self.record.imported is None:  # whose variants also say where returns are from
            other = find_other_variant(by_path.variant, spec, states_all=False)
        named = RunPath(
            spec.study,
            spec.task_name,
            spec.algorithm,
            spec.hps,
            spec.implementation,
            other or by_path.variant,
            spec.seed,
        )
        return by_path if dataclasses.replace(named, study=by_path.study) == by_path else named


class RunSource(Protocol):
    """Source of a run's record and evaluations: a folder, or a row of a packed file."""

    def read_record(self) -> tuple[RunRecord, dict[str, Any]]:
        """Return the checked record, and the decoded JSON; raises `UnusableError`."""

    def check_content(self, record: RunRecord) -> bool | None:
        """Compare the content with the hash stored for it; None where there is no hash."""

    def read_evaluations(self) -> "RunEvaluations":
        """Return the evaluations; raises `UnusableError`."""

    def explain_change(self) -> str:
        """Return why a run is not used if its content has another hash."""


def judge_run(folder: Path, source: RunSource, with_evaluations: bool = False) -> RunReading:
    """Apply the rule of completeness to one run; never raise because of its contents.

    Run folders and rows of packed files are judged here, and nowhere else.

    Args:
        folder: The run folder, or the path that represents it in a packed file.
        source: Reads the run's record and evaluations.
        with_evaluations: Whether to return the evaluations of a complete run as well.
    """
    try:
        record, content = source.read_record()
    except NewerSchemaError as error:
        return RunReading(folder, content=error.content, reason=str(error), newer=True)
    except UnreadableError as error:
        return RunReading(folder, reason=str(error), unreadable=True)
    except UnusableError as error:
        return RunReading(folder, reason=str(error), damaged=True)
    reading = functools.partial(RunReading, folder, record, content)
    if unfinished := why_unfinished(record.status, record.failure):
        return reading(reason=unfinished, failed=record.status == "failed")
    same = None
    try:
        _check_schedule(record)
        same = source.check_content(record)
        is_guarded = CHECKSUM_FIELD in content and has_valid_checksum(content)
        if same and is_guarded and not with_evaluations:
            return reading()
        evaluations = source.read_evaluations()
        check_complete(evaluations, record.steps.scheduled)
        _check_evaluation_steps(record, evaluations)
        if same is False:
            raise UnusableError(source.explain_change())
        if not has_valid_checksum(content):
            raise UnusableError(CHECKSUM_MISMATCH)
    except UnreadableError as error:
        return reading(reason=str(error), unreadable=True)
    except UnusableError as error:
        diverged = isinstance(error, DivergedError) and same is not False
        return reading(reason=str(error), damaged=True, failed=diverged)
    return reading(evaluations=evaluations if with_evaluations else None)


def _check_schedule(record: RunRecord) -> None:
    scheduled, spec = record.steps.scheduled, record.spec
    own_adapter = re.match(r"(?:parallax\.)?adapters\.(\w+)", record.adapter)
    if own_adapter and own_adapter[1] != spec.framework:
        names = map(escape_unprintable, (record.adapter[:200], spec.framework))
        raise UnusableError("adapter={}, and spec.framework={}".format(*names))
    if record.imported is not None:  # files of other tools end where they end
        if record.weights_sha256 or record.update_schedule:
            raise UnusableError(f"{RUN_FILE} has weights of a training and says `imported`")
        return
    if record.failure:
        raise UnusableError(f"{RUN_FILE} says `completed` and has a failure")
    if scheduled >= spec.steps:
        # Frameworks end after whole rollouts or update cycles; old records may not have them.
        given = (record.hyperparameters, spec.hyperparameters)
        found = (of.get(name) for of in given for name in ("rollout_steps", "train_freq"))
        counts = [count for count in found if isinstance(count, int)]
        if counts and scheduled - spec.steps > 2 * max(spec.n_envs, *counts):
            raise UnusableError(
                f"steps.scheduled={scheduled:,} is more than spec.steps={spec.steps:,}"
            )
        return
    # CleanRL's PPO trains on the whole rollouts that fit.
    rollout = record.hyperparameters.get("rollout_steps")
    is_requested = rollout == spec.hyperparameters.get("rollout_steps")
    whole = 0
    if isinstance(rollout, int) and rollout > 0:
        whole = spec.steps // rollout * rollout
    may_differ = spec.alignment not in _EQUAL_LEVELS
    if not (is_requested or may_differ) or not whole or scheduled != whole:
        raise UnusableError(f"steps.scheduled={scheduled:,} is less than spec.steps={spec.steps:,}")


def _check_evaluation_steps(record: RunRecord, evaluations: "RunEvaluations") -> None:
    if record.imported is not None:  # other tools have schedules of their own
        return
    episodes, requested = evaluations.results.shape[1], record.spec.eval_episodes
    if episodes != requested:
        raise UnusableError(f"evaluations have {episodes} episodes, and eval_episodes={requested}")
    every, end = record.spec.eval_every, record.steps.scheduled
    planned = range(0 if record.spec.evaluate_untrained else every, end, every)
    found = evaluations.timesteps[:-1].tolist()  # the last one is at the end
    if len(found) != len(planned):
        raise UnusableError(
            f"{len(found) + 1} evaluations, and eval_every={every:,} in {end:,} steps means "
            f"{len(planned) + 1}"
        )
    for step, wanted in zip(found, planned, strict=True):
        if step != wanted:
            raise UnusableError(f"an evaluation is at step {step:,}, not {wanted:,}")


def why_unfinished(status: str, failure: str | None) -> str:
    """Return why a run is not complete, in a line; empty if it is."""
    if status == "completed":
        return ""
    return f"failed: {summarize_error(failure or '')}" if status == "failed" else status


def check_complete(evaluations: "RunEvaluations", scheduled: int) -> None:
    """Check the half of the rule that concerns evaluations.

    Raises:
        UnusableError: The evaluations end elsewhere, or a return is not finite.
    """
    last = int(evaluations.timesteps[-1])
    if last != scheduled:
        word = "too short" if last < scheduled else "too long"
        raise UnusableError(f"{word}: last evaluation at step {last:,} of {scheduled:,}")
    check_finite(evaluations)


def check_finite(evaluations: "RunEvaluations") -> None:
    """Check that every return is a number.

    Raises:
        DivergedError: A return is not finite.
    """
    if reason := describe_nonfinite(evaluations):
        raise DivergedError(reason)


def describe_nonfinite(evaluations: "RunEvaluations") -> str:
    """Return how many returns are not finite and where the first is; empty if all are."""
    # Not `>`: NaN fails every comparison, and must count as bad.
    bad = ~(abs(evaluations.results) <= _MAX_RETURN)
    if not bad.any():
        return ""
    at = int(evaluations.timesteps[bad.any(axis=1)][0])
    count = f"{int(bad.sum())} of {evaluations.results.size}"
    return f"{NON_FINITE}: {count}, first at step {at:,}"
