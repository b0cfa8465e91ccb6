"""Reads and checks the files of run folders: one strict and bounded loader.

`read_run` never raises because of contents; other functions raise `UnusableError` where a file is
missing, damaged or of a later version.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parallax.harness.record.completeness import (
    CHECKSUM_MISMATCH,
    NewerSchemaError,
    RunReading,
    UnreadableError,
    judge_run,
)
from parallax.harness.record.files import (
    DECODE_ERRORS,
    UnusableError,
    open_regular_file,
    read_bounded,
    summarize_error,
)
from parallax.harness.record.layout import (
    DIAGNOSIS_FILE,
    EVALUATIONS_FILE,
    POLICY_FILE,
    RUN_FILE,
    TRACE_FILE,
)
from parallax.harness.record.old_names import translate_check_id, translate_record
from parallax.harness.record.run_json import (
    CHECKSUM_FIELD,
    SCHEMA,
    RunRecord,
    compute_checksum,
    has_valid_checksum,
)

if TYPE_CHECKING:
    from parallax.harness.record.npz_files import RunEvaluations, StoredPolicy

MAX_JSON_BYTES = 2**22
_MAX_DIAGNOSIS_BYTES = 2**22
_MAX_EVALUATIONS_BYTES = 2**28
_MAX_HASHED_BYTES, _MAX_TRACE_BYTES = 2**29, 2**33
_MAX_STEP = 2**53
_MAX_BRACKETS, MAX_DEPTH = 400, 64
_MAX_FINDING_TEXT, _MAX_SIGNAL_NAME = 2000, 255  # characters: tables pad each row to the longest
NOT_REQUESTED = "it was not requested"  # reason of a run without a diagnosis
FINDING_LEVELS = ("error", "warning", "note")
_TEXT_FIELDS = ("id", "name", "level", "seen", "causes", "remedies", "may_be_wrong")
# Resolves the record's types: msgspec crashes where two threads do so for the first time at once.
msgspec.json.Decoder(RunRecord)


def read_run(folder: Path, with_evaluations: bool = False) -> RunReading:
    """Read one run folder; never raise because of its contents.

    Args:
        folder: The run folder.
        with_evaluations: Whether to return the evaluations of a complete run as well. If not,
            those whose hash matches a record with a valid checksum are not unpacked.
    """
    return judge_run(folder, _FolderSource(folder), with_evaluations)


class _FolderSource:
    """Reads a run from its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._raw = b""

    def read_record(self) -> tuple[RunRecord, dict[str, Any]]:
        return read_record(self._folder)

    def check_content(self, record: RunRecord) -> bool | None:
        self._raw = _read_file(self._folder, EVALUATIONS_FILE, _MAX_EVALUATIONS_BYTES)
        known = record.files.get(EVALUATIONS_FILE)
        return None if known is None else known == hashlib.sha256(self._raw).hexdigest()

    def read_evaluations(self) -> "RunEvaluations":
        # Imported here: importing numpy takes longer than checking all runs of a study.
        from parallax.harness.record.npz_files import unpack_evaluations

        return unpack_evaluations(self._raw)

    def explain_change(self) -> str:
        return f"corrupted {EVALUATIONS_FILE}: it is not what the run wrote"


def read_record(folder: Path) -> tuple[RunRecord, dict[str, Any]]:
    """Read `run.json`: the checked record, with defaults for later fields, and the decoded JSON.

    Raises:
        UnusableError: It is missing, damaged or of a later version.
    """
    return parse_record(_read_file(folder, RUN_FILE, MAX_JSON_BYTES))


def decode_record(text: str | None) -> dict[str, Any]:
    """Decode the text of a `run.json` that was read before; empty for None.

    Unlike `parse_record` this validates nothing; names of earlier versions are translated.
    """
    content: dict[str, Any] = msgspec.json.decode(text) if text else {}
    return translate_record(content)


def parse_record(raw: bytes) -> tuple[RunRecord, dict[str, Any]]:
    """Parse the bytes of a `run.json`: validated, and the decoded JSON itself.

    Names of earlier versions are translated in both.

    Raises:
        UnusableError: It is damaged or of a later version.
    """
    try:
        content = msgspec.json.decode(raw, type=dict[str, Any])
        version = content.get("schema")
        if isinstance(version, int) and version > SCHEMA:
            raise NewerSchemaError(
                f"{RUN_FILE} has schema={version}, and this version of the project knows schemas "
                f"up to {SCHEMA}: use a later one",
                content,
            )
        content = _translate_old_names(content)
        record = msgspec.convert(content, RunRecord)
        if raw.count(b"[") + raw.count(b"{") > _MAX_BRACKETS and measure_depth(content) > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise UnusableError(f"corrupted {RUN_FILE}: {_explain_decode_error(error)}") from error
    return record, content


def _translate_old_names(content: dict[str, Any]) -> dict[str, Any]:
    """Translate names of earlier versions; a checksum that was valid is computed again."""
    new = translate_record(content)
    if new is not content and CHECKSUM_FIELD in content and has_valid_checksum(content):
        new[CHECKSUM_FIELD] = compute_checksum(new)
    return new


def read_evaluations(folder: Path) -> "RunEvaluations":
    """Return the three arrays of a run's evaluations, with at least one evaluation and episode.

    Raises:
        UnusableError: The file is missing, cannot be read, or has other contents.
    """
    from parallax.harness.record.npz_files import unpack_evaluations

    return unpack_evaluations(_read_file(folder, EVALUATIONS_FILE, _MAX_EVALUATIONS_BYTES))


def find_damage(folder: Path) -> dict[str, str]:
    """Return the damage of one run's files, which are read completely, by file name.

    Files of runs that are not complete are read as well: each is written atomically.
    """
    damage: dict[str, str] = {}
    reading = read_run(folder)
    if reading.newer:
        # A later version's own, or an altered number.
        is_sound = has_valid_checksum(reading.content)
        return {} if is_sound else {RUN_FILE: f"{reading.reason}; {CHECKSUM_MISMATCH}"}
    if reading.record is None:
        damage[RUN_FILE] = reading.reason
    elif not has_valid_checksum(reading.content):
        damage[RUN_FILE] = CHECKSUM_MISMATCH
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
        if known or _may_exist(folder / name):
            try:
                if known and reading.record is not None:
                    _check_hash(folder, name, known, reading.record.sizes.get(name))
                else:
                    read(folder)
            except UnusableError as error:
                damage[name] = str(error)
    return damage


def read_policy(folder: Path) -> "StoredPolicy":
    """Return the saved policy of a run.

    Raises:
        UnusableError: The file is missing, cannot be read, or has other contents.
    """
    from parallax.harness.record.npz_files import unpack_policy

    raw = _read_file(folder, POLICY_FILE, _MAX_HASHED_BYTES)
    with _name_file_in_errors(POLICY_FILE):
        return unpack_policy(raw)


def check_trace(folder: Path) -> None:
    """Read a trace, a part at a time.

    Raises:
        UnusableError: It is missing, damaged or has other columns.
    """
    from parallax.harness.record import trace  # pyarrow takes half a second to load

    trace.check_trace_file(folder / TRACE_FILE)


def check_recorded_file(reading: RunReading, name: str) -> None:
    """Check that a file is the one that the run wrote; older records have no hashes.

    Raises:
        UnusableError: It is missing, or may be that of another run.
    """
    record = reading.record
    if record is not None and name in record.files:
        _check_hash(reading.folder, name, record.files[name], record.sizes.get(name))


def _check_hash(folder: Path, name: str, known: str, size: int | None) -> None:
    with _name_file_in_errors(name), open_regular_file(folder / name) as file:
        there = file.seek(0, 2)
        # Checked before reading: a sparse file can have terabytes that are not on the disk.
        most = _MAX_TRACE_BYTES if name == TRACE_FILE else _MAX_HASHED_BYTES
        if there > most or size not in (None, there):
            raise UnusableError(f"corrupted {name}: {there:,} bytes are not what the run wrote")
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != known:
        raise UnusableError(f"corrupted {name}: it is not what the run wrote")


def _read_file(folder: Path, name: str, limit: int) -> bytes:
    with _name_file_in_errors(name):
        return read_bounded(folder / name, limit)


@contextlib.contextmanager
def _name_file_in_errors(name: str) -> Iterator[None]:
    """Name the file in errors that are raised within the context."""
    try:
        yield
    except FileNotFoundError as error:
        raise UnusableError(f"missing {name}") from error
    except NotADirectoryError as error:
        raise UnusableError(f"missing {name}: its folder is a file") from error
    except OSError as error:
        # No file can have a name that is too long.
        kind = UnusableError if error.errno == errno.ENAMETOOLONG else UnreadableError
        raise kind(f"unreadable {name}: {error.strerror}") from error
    except UnusableError as error:
        raise UnusableError(f"corrupted {name}: {error}") from error


def _may_exist(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return True


def measure_depth(content: Any) -> int:
    """Return the nesting depth of lists and mappings, up to `MAX_DEPTH` + 1."""
    depth, layer = 0, [content]
    while layer and depth <= MAX_DEPTH:
        depth += 1
        inside = [item.values() if isinstance(item, dict) else item for item in layer]
        layer = [item for items in inside for item in items if isinstance(item, dict | list)]
    return depth


def _explain_decode_error(error: Exception) -> str:
    """Return msgspec's message with the field's name first."""
    text, _, place = summarize_error(error).partition(" - at `")
    where = place.rstrip("`").removeprefix("$").lstrip(".")
    return f"{where}: {text[:1].lower()}{text[1:]}" if where else text


@dataclasses.dataclass(frozen=True)
class DiagnosisReading:
    """Diagnosis of a run as stored in its folder.

    Attributes:
        findings: One mapping each, as `diagnosis.json` has them.
        curves: By a signal's name its steps and values, thinned out.
        reason: Why there is no diagnosis; empty if it was read.
    """

    folder: Path
    findings: tuple[dict[str, Any], ...] = ()
    curves: dict[str, tuple[tuple[int, float], ...]] = dataclasses.field(default_factory=dict)
    reason: str = ""


def read_diagnosis(folder: Path) -> DiagnosisReading:
    """Return the diagnosis of a run; never raises because of a file's content."""
    try:
        content = json.loads(read_bounded(folder / DIAGNOSIS_FILE, _MAX_DIAGNOSIS_BYTES))
        findings = tuple(content["findings"])
        if not all(is_finding(finding) for finding in findings):
            raise ValueError("a finding lacks required fields")
        curves = {
            str(name): tuple((int(step), float(value)) for step, value in signal.get("curve", ()))
            for name, signal in content.get("signals", {}).items()
        }
        if any(not 0 <= step <= _MAX_STEP for curve in curves.values() for step, _ in curve):
            raise ValueError("a step of a curve is not a step of a training")
        if any(len(name) > _MAX_SIGNAL_NAME for name in curves):
            raise ValueError(f"a signal has a name of more than {_MAX_SIGNAL_NAME} characters")
        texts = ({name: one[name][:_MAX_FINDING_TEXT] for name in _TEXT_FIELDS} for one in findings)
        # Older files have other ids; the schema of `diagnosis.json` did not change with them.
        findings = tuple(
            one | text | {"id": translate_check_id(text["id"])}
            for one, text in zip(findings, texts, strict=True)
        )
        return DiagnosisReading(folder, findings, curves)
    except (FileNotFoundError, NotADirectoryError):  # the latter in a file of packed runs
        return DiagnosisReading(folder, reason=NOT_REQUESTED)
    except OSError as error:
        reason = str(error.strerror)  # its text contains the path on this machine
    except (UnusableError, *DECODE_ERRORS) as error:
        reason = summarize_error(error)
    except RecursionError:
        reason = "it is nested too deep"
    return DiagnosisReading(folder, reason=f"{DIAGNOSIS_FILE} cannot be read ({reason})")


def is_finding(finding: Any) -> bool:
    """Return whether a decoded finding of a diagnosis has all required fields."""
    return (
        all(isinstance(finding.get(word), str) for word in _TEXT_FIELDS)
        and all(
            isinstance(finding.get(name), int) and 0 <= finding[name] <= _MAX_STEP
            for name in ("first_step", "last_step", "count")
        )
        and finding["level"] in FINDING_LEVELS
    )
