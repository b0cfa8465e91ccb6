"""Checkpoints of a training: their schedule, their parts, and resuming from one."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from parallax.harness.contract.state_codec import StateMismatchError, UnsupportedStateError
from parallax.harness.record.checkpoints import CheckpointStore, LoadedCheckpoint
from parallax.harness.record.files import UnusableError
from parallax.harness.record.lock import Count, Duration, FolderDeletedError, LockLostError
from parallax.harness.record.lock_owner import BatchJob
from parallax.harness.train.run_identity import describe_identity_difference
from parallax.harness.train.stop_signals import StopRequest


@dataclasses.dataclass(frozen=True)
class CheckpointPart:
    """Part of a training's state: serialized as plain values and arrays, and restored."""

    state: Callable[[], Any]
    load_state: Callable[[Any], None]


class _Metadata(msgspec.Struct, frozen=True):
    """Metadata of a checkpoint, needed before its state is loaded."""

    step: Count
    seconds: Duration
    cpu_seconds: float = math.nan
    identity: dict[str, Any] = {}
    is_own: bool = True  # whether no checkpoint that it continues was of another user


class ResumeError(Exception):
    """A state did not fit; the training that it was loaded into must not continue."""


def iterate_resume_points(
    checkpoints: CheckpointStore,
    identity: Mapping[str, Any],
    say: Callable[[str], None],
    room: float,
) -> Iterator[LoadedCheckpoint | None]:
    """Yield the checkpoints to resume from, the best first; the last is None, the start.

    Args:
        checkpoints: The checkpoints of the run.
        identity: Identity of the run, which checkpoints must have.
        say: Called with a sentence about each that is refused, or of another user.
        room: Bytes that the arrays of a checkpoint may take.
    """
    for number in checkpoints.list_numbers():
        try:
            about = msgspec.convert(checkpoints.read_metadata(number), _Metadata)
            if refusal := describe_identity_difference(about.identity, identity):
                say(f"Checkpoint {number} cannot be resumed from: {refusal}.")
                continue
            loaded = checkpoints.load(number, room)
        except UnusableError as error:
            say(f"Checkpoint {number} cannot be resumed from: it {error}.")
            continue
        except msgspec.ValidationError as error:
            say(f"Checkpoint {number} cannot be resumed from: it is damaged ({error}).")
            continue
        if not (loaded.is_own and about.is_own):
            continues = "continues one that " if loaded.is_own else ""
            say(
                f"Checkpoint {number} {continues}was not written with this user's key. Its author "
                "may have changed it: to be sure of numbers, delete checkpoint/ and train again."
            )
        yield dataclasses.replace(loaded, is_own=loaded.is_own and about.is_own)
    yield None


# Checkpoints until a job's limit, and seconds between them.
_MIN_CHECKPOINTS_PER_JOB, _MIN_CHECKPOINT_SECONDS = 4, 10.0


def compute_checkpoint_interval(every: float, job: BatchJob | None, now: float) -> float:
    """Return the seconds between checkpoints.

    A job that ends sooner gets some nevertheless, so that a run makes progress even if a
    warning comes far from a safe point, or never comes.

    Args:
        every: Requested minutes; 0 is never.
        job: Job that the run is part of.
        now: Time by the machine's monotonic clock, in seconds.
    """
    if not every:
        return math.inf
    left = job.limit_from - now if job else math.inf
    return min(60 * every, max(left / _MIN_CHECKPOINTS_PER_JOB, _MIN_CHECKPOINT_SECONDS))


_FIRST_CHECKPOINT_SECONDS = 1.0
_MAX_COST = 0.01  # share of the training time that early checkpoints may take


class CheckpointSchedule:
    """Schedule of checkpoints.

    The first one is due a second after the training starts, and each later interval is twice
    as long as the one before, up to the requested one: a run that is killed early does not start
    again from step 0. Before the requested interval is reached, checkpoints take at most 1% of the
    time: one that took long to write is followed by a longer interval.
    """

    def __init__(self, seconds: float) -> None:
        """Start with the shortest interval.

        Args:
            seconds: Requested interval; infinite for no checkpoints.
        """
        self._requested = seconds
        self._next = min(_FIRST_CHECKPOINT_SECONDS, seconds)

    def next_interval(self, write_seconds: float) -> float:
        """Return the seconds until the next checkpoint."""
        interval = min(max(self._next, write_seconds / _MAX_COST), self._requested)
        self._next = min(2 * self._next, self._requested)
        return interval


class CheckpointManager:
    """Saves the state of a training at its safe points; at the first it may load one.

    Attributes:
        has_resumed: Whether it has loaded one.
    """

    def __init__(
        self,
        checkpoints: CheckpointStore,
        about: Callable[[], dict[str, Any]],
        every: float,
        stop: StopRequest,
        start: LoadedCheckpoint | None,
        say: Callable[[str], None],
    ) -> None:
        """Create a manager that has saved nothing yet.

        Args:
            checkpoints: Where they are stored.
            about: Returns a checkpoint's metadata: the run's `identity`, and the `step`.
            every: Minutes between checkpoints; 0 is never.
            stop: Requests a stop, after one more checkpoint.
            start: Checkpoint to load at the first safe point.
            say: Called with a sentence about each problem.
        """
        self._checkpoints, self._about, self._say = checkpoints, about, say
        self._schedule = CheckpointSchedule(
            compute_checkpoint_interval(every, BatchJob.from_environment(), time.monotonic())
        )
        self._stop, self._start = stop, start
        self._parts: Mapping[str, CheckpointPart] = {}
        # By the monotonic clock; infinite if there are no checkpoints.
        self._due = -math.inf if every else math.inf
        self._is_serializable = False
        self._is_requested = False
        self.has_resumed = False

    def watch(self, parts: Mapping[str, CheckpointPart], lacking: str) -> None:
        """Set the parts to be saved, in order; `lacking` says why they are not the whole state."""
        self._parts = parts
        if lacking and self._due < math.inf:
            self._disable_checkpoints(lacking)

    def request_checkpoint(self) -> None:
        """Request a checkpoint at the next safe point, unless checkpoints are off."""
        if self._due < math.inf:
            self._due, self._is_requested = -math.inf, True

    def safe_point(self) -> None:
        """See `parallax.harness.contract.adapter.Monitor.safe_point`."""
        if time.monotonic() >= self._due or self._stop.is_wanted:
            self._load_or_save()

    def _load_or_save(self) -> None:
        if self._due == math.inf:
            self._stop.carry_out()
        if self._start is not None:
            self._load_checkpoint(self._start)
            self._start, self.has_resumed = None, True
        is_first, is_requested = not self._is_serializable, self._is_requested
        self._is_requested = False
        started = time.monotonic()
        if is_first:
            self._check_serializable()
        if self._stop.is_wanted:
            self._stop.cancel_deadline()
            self._save_checkpoint()
            self._stop.carry_out()
        elif self._is_serializable and (is_requested or not is_first):
            self._save_checkpoint()
        if self._due < math.inf:
            now = time.monotonic()
            self._due = now + self._schedule.next_interval(0.0 if is_first else now - started)

    def _load_checkpoint(self, start: LoadedCheckpoint) -> None:
        try:
            for name, part in self._parts.items():
                part.load_state(start.state[name])
            if (step := self._about()["step"]) != start.about["step"]:
                raise StateMismatchError(f"step {start.about['step']} is that of step {step}")
        except KeyError as error:
            raise ResumeError(f"it does not fit (it has no {error})") from error
        except Exception as error:  # a state is data from a file, and may be anything
            raise ResumeError(f"it does not fit ({error})") from error

    def _check_serializable(self) -> None:
        """Check once, at the first safe point, that the whole state can be serialized."""
        try:
            for part in self._parts.values():
                part.state()
        except UnsupportedStateError as error:
            self._disable_checkpoints(str(error))
            return
        self._is_serializable = True
        self._stop.allow_waiting()

    def _disable_checkpoints(self, why: str) -> None:
        self._due = math.inf
        self._say(f"The run keeps no checkpoints and would start again from its start: {why}.")

    def _save_checkpoint(self) -> None:
        about = self._about()
        try:
            self._checkpoints.save(about, {n: part.state() for n, part in self._parts.items()})
        except (LockLostError, FolderDeletedError):
            raise
        except UnsupportedStateError as error:
            self._disable_checkpoints(str(error))
        except OSError as error:
            self._say(
                f"At step {about['step']:,} no checkpoint could be written ({error.strerror}); "
                "the training continues, and the previous checkpoint stays."
            )
