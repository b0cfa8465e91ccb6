"""Reads run folders: one strict and bounded loader, and one rule of completeness.

A run is complete when all of these hold, and nothing else counts:

1. `run.json` can be read and says `completed`,
2. the last evaluation in `evaluations.npz` is at the last scheduled environment step,
3. every return is finite,
4. what `run.json` says of the files' content, and of its own, still holds.
"""

import contextlib
import dataclasses
import errno
import functools
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.record.completeness import check_complete, why_unfinished
from harness.record.files import Unusable, first_line, open_regular, read_bounded
from harness.record.layout import (
    EVALUATIONS_FILE,
    POLICY_FILE,
    RUN_FILE,
    TRACE_FILE,
    Place,
    place_of,
)
from harness.record.run_json import CHECKSUM, SCHEMA, Record, holds

if TYPE_CHECKING:
    from harness.record.evaluations import Evaluations
    from harness.record.policy import StoredPolicy

_MOST_JSON = 2**24  # bytes
_MOST_ARRAYS = 2**28
_MOST_HASHED = 2**29  # of files whose size the record does not tell
_MOST_BRACKETS, _DEEPEST = 400, 64


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """What one run folder holds.

    Attributes:
        folder: The folder.
        record: Its `run.json`; None where that cannot be used.
        content: The same as it stands in the file, for those who write it on.
        evaluations: Its evaluations; None unless they were asked for and the run is complete.
        reason: Why the run is not complete, in a line; empty where it is.
        damaged: Whether that is because a file is damaged.
        newer: Whether the record was written by a later version of this project.
        unreadable: Whether the system keeps a file from being read, so that nobody can tell.
    """

    folder: Path
    record: Record | None = None
    content: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    evaluations: "Evaluations | None" = None
    reason: str = ""
    damaged: bool = False
    newer: bool = False
    unreadable: bool = False

    @property
    def complete(self) -> bool:
        """Whether the run is complete."""
        return not self.reason

    @property
    def spec(self) -> dict[str, Any]:
        """What was asked for, with what older records leave out; empty without a record.

        Fields that this version does not know are kept.
        """
        if self.record is None:
            return {}
        return {**self.content["spec"], **msgspec.to_builtins(self.record.spec)}

    @property
    def place(self) -> Place:
        """Which run it is: by its record, or else by its path.

        The study is the folder that it lies in, since studies are renamed.
        """
        by_path = place_of(self.folder)
        if self.record is None:
            return by_path
        spec = self.record.spec
        named = Place(
            spec.study,
            spec.env,
            spec.algorithm,
            spec.hps,
            spec.framework,
            by_path.variant,
            spec.seed,
        )
        return by_path if dataclasses.replace(named, study=by_path.study) == by_path else named


def read_run(folder: Path, with_evaluations: bool = False) -> Reading:
    """Reads one run folder; whatever is in it, nothing is raised.

    Args:
        folder: The run folder.
        with_evaluations: Whether to return the evaluations of a complete run as well. Without,
            those that are as a guarded record says are not unpacked.
    """
    try:
        record, content = read_record(folder)
    except _Newer as error:
        return Reading(folder, reason=str(error), newer=True)
    except _Unreadable as error:
        return Reading(folder, reason=str(error), unreadable=True)
    except Unusable as error:
        return Reading(folder, reason=str(error), damaged=True)
    reading = functools.partial(Reading, folder, record, content)
    if unfinished := why_unfinished(record.status, record.failure):
        return reading(reason=unfinished)
    try:
        raw = _read(folder, EVALUATIONS_FILE, _MOST_ARRAYS)
        known = record.files.get(EVALUATIONS_FILE)
        same = known is not None and known == hashlib.sha256(raw).hexdigest()
        if same and CHECKSUM in content and holds(content) and not with_evaluations:
            return reading()
        # Loaded here: numpy takes longer to load than all runs of a study to look at.
        from harness.record.evaluations import unpack

        evaluations = unpack(raw)
        check_complete(evaluations, record.steps.scheduled)
        if known is not None and not same:
            raise Unusable(f"corrupted {EVALUATIONS_FILE}: it is not what the run wrote")
        if not holds(content):
            raise Unusable(_CHANGED)
    except _Unreadable as error:
        return reading(reason=str(error), unreadable=True)
    except Unusable as error:
        return reading(reason=str(error), damaged=True)
    return reading(evaluations=evaluations if with_evaluations else None)


class _Newer(Unusable):
    """The record has a schema that is not known yet."""


class _Unreadable(Unusable):
    """The system keeps a file from being read; it may be whole."""


def read_record(folder: Path) -> tuple[Record, dict[str, Any]]:
    """The content of `run.json`: checked, with defaults for what came later; and as it stands.

    Raises:
        Unusable: It is missing, damaged or of a later version.
    """
    return parse_record(_read(folder, RUN_FILE, _MOST_JSON))


def parse_record(raw: bytes) -> tuple[Record, dict[str, Any]]:
    """The same of what stands in a `run.json`.

    Raises:
        Unusable: It is damaged or of a later version.
    """
    try:
        content = msgspec.json.decode(raw, type=dict[str, Any])
        version = content.get("schema")
        if isinstance(version, int) and version > SCHEMA:
            raise _Newer(
                f"{RUN_FILE} has schema={version}, and this version of the project knows schemas "
                f"up to {SCHEMA}: use a later one"
            )
        record = msgspec.convert(content, Record)
        if raw.count(b"[") + raw.count(b"{") > _MOST_BRACKETS and _depth(content) > _DEEPEST:
            raise ValueError("it is nested too deeply")
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Unusable(f"corrupted {RUN_FILE}: {_explain(error)}") from error
    return record, content


def read_evaluations(folder: Path) -> "Evaluations":
    """The three arrays of a run's evaluations, with at least one evaluation and episode.

    Raises:
        Unusable: The file is missing, cannot be read, or has other contents.
    """
    from harness.record.evaluations import unpack

    return unpack(_read(folder, EVALUATIONS_FILE, _MOST_ARRAYS))


def find_damage(folder: Path) -> dict[str, str]:
    """What is wrong with the files of one run, read whole, by file name.

    Files of runs that are not complete are read as well: each is written whole or not at all.
    """
    damage: dict[str, str] = {}
    reading = read_run(folder)
    if reading.newer:
        return {}
    if reading.record is None:
        damage[RUN_FILE] = reading.reason
    elif not holds(reading.content):
        damage[RUN_FILE] = _CHANGED
    claims = reading.record is not None and reading.record.status == "completed"
    if claims and reading.damaged and not damage:
        damage[EVALUATIONS_FILE] = reading.reason
    readers = (
        (EVALUATIONS_FILE, read_evaluations),
        (TRACE_FILE, check_trace),
        (POLICY_FILE, read_policy),
    )
    for name, read in readers:
        if name in damage or (name == EVALUATIONS_FILE and reading.complete):
            continue
        known = reading.record.files.get(name) if reading.record is not None else None
        if known or _exists(folder / name):
            try:
                if known and reading.record is not None:
                    _check_hash(folder, name, known, reading.record.sizes.get(name))
                else:
                    read(folder)
            except Unusable as error:
                damage[name] = str(error)
    return damage


def read_policy(folder: Path) -> "StoredPolicy":
    """What a run has learned.

    Raises:
        Unusable: The file is missing, cannot be read, or has other contents.
    """
    from harness.record.policy import unpack

    raw = _read(folder, POLICY_FILE, _MOST_HASHED)
    with _told(POLICY_FILE):
        return unpack(raw)


def check_trace(folder: Path) -> None:
    """Reads a trace, a part at a time.

    Raises:
        Unusable: It is missing, damaged or has other columns.
    """
    from harness.record import trace  # pyarrow takes half a second to load

    trace.check(folder / TRACE_FILE)


_CHANGED = (
    f"{RUN_FILE} was changed after it was written: its checksum does not hold "
    f"(whoever means the change removes the entry `{CHECKSUM}`)"
)


def _check_hash(folder: Path, name: str, known: str, size: int | None) -> None:
    with _told(name), open_regular(folder / name) as file:
        there = file.seek(0, 2)
        # Before it is read: a file can claim terabytes that are not there.
        if there != size if size is not None else there > _MOST_HASHED:
            raise Unusable(f"corrupted {name}: {there:,} bytes are not what the run wrote")
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != known:
        raise Unusable(f"corrupted {name}: it is not what the run wrote")


def _read(folder: Path, name: str, limit: int) -> bytes:
    with _told(name):
        return read_bounded(folder / name, limit)


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Says of which file there is trouble."""
    try:
        yield
    except FileNotFoundError as error:
        raise Unusable(f"missing {name}") from error
    except NotADirectoryError as error:
        raise Unusable(f"missing {name}: its folder is a file") from error
    except OSError as error:
        # No file can have a name that is too long.
        kind = Unusable if error.errno == errno.ENAMETOOLONG else _Unreadable
        raise kind(f"unreadable {name}: {error.strerror}") from error
    except Unusable as error:
        raise Unusable(f"corrupted {name}: {error}") from error


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return True


def _depth(content: Any) -> int:
    """How deep lists and mappings lie in each other, up to where it matters."""
    depth, layer = 0, [content]
    while layer and depth <= _DEEPEST:
        depth += 1
        inside = [item.values() if isinstance(item, dict) else item for item in layer]
        layer = [item for items in inside for item in items if isinstance(item, dict | list)]
    return depth


def _explain(error: Exception) -> str:
    """What msgspec says, with the field's name first."""
    text, _, place = first_line(error).partition(" - at `")
    where = place.rstrip("`").removeprefix("$").lstrip(".")
    return f"{where}: {text[:1].lower()}{text[1:]}" if where else text
