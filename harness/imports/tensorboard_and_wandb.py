"""Readers of files of protocol buffers: TensorBoard's event files and W&B's offline files.

Both are read without the libraries that write them: each record has a frame with checksums, and in
it a message, of which only the fields with values, names and settings are read.
"""

import collections
import contextlib
import dataclasses
import functools
import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.record.files import UnusableError, read_bounded

MAX_FILE_BYTES = 2**28
_MAX_PARTS = 2**23  # records of a file, and values of all names in it
_MAX_NAMES, _MAX_FIELDS = 2**13, 2**14  # of a file, and of a message
_MAX_CHECKED_BYTES = 2**12  # of an event without numbers or texts, such as an image
_MAX_SETTINGS_BYTES = 2**22  # of a file, and of one value of W&B
_MAX_RECORD_BYTES = 2**24  # of W&B; a list in JSON takes 30 times as much memory in Python
_IDENTITY = ("env_id", "env", "env_name", "seed")  # settings that two runs of a study differ in
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers


@dataclasses.dataclass(eq=False)
class RecordedValues:
    """Values and settings in a file, or in several of one run.

    Attributes:
        values: By name, pairs of step and value in the order of the file.
        settings: Settings of the run in the file, such as CleanRL's command line or W&B's config.
        incomplete: Names of values of which some are no numbers, or have no step, and left out.
        n_parts: Number of records and values that were read.
    """

    values: dict[str, list[tuple[int, float]]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    incomplete: set[str] = dataclasses.field(default_factory=set)
    n_parts: int = 0

    def add(self, name: str, step: int, value: float | None) -> None:
        """Add a value; None stands for one that is no number, or has no step."""
        self.count_part()
        if value is None:
            self.incomplete.add(name)
        else:
            self.values[name].append((step, value))

    def count_part(self) -> None:
        """Count a record or value; raise an `UnusableError` if there are too many."""
        self.n_parts, names = self.n_parts + 1, len(self.values) + len(self.incomplete)
        if names > _MAX_NAMES or self.n_parts > _MAX_PARTS:
            raise UnusableError(f"is too large: {self.n_parts:,} values of {names:,} names")


def read_event_files(paths: Sequence[Path]) -> RecordedValues:
    """Read TensorBoard's event files of one run, in the order of their names.

    Args:
        paths: All event files of one folder: a restarted process writes a new one.

    Raises:
        UnusableError: One is damaged, too large, or has other content.
    """
    found = RecordedValues()
    for path in sorted(paths):
        _read_events(read_bounded(path, MAX_FILE_BYTES), found)
    return found


def _add_settings(settings: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Add settings to those before; raise an `UnusableError` if they are of another run."""
    for name in _IDENTITY:
        if name in settings and name in new and new[name] != settings[name]:
            words = f"{name}={str(settings[name])[:40]} and {name}={str(new[name])[:40]}"
            raise UnusableError(
                f"says {words}: it holds several runs. Put each into a folder of its own"
            )
    settings |= new


def _check_settings_size(n_bytes: int) -> None:
    if n_bytes > _MAX_SETTINGS_BYTES:
        raise UnusableError(f"its settings are too large: {n_bytes:,} bytes")


def _read_events(raw: bytes, found: RecordedValues) -> None:
    n_bytes = 0
    for event, checksum in _split_events(raw):
        found.count_part()
        # Event: step = 2, summary = 5; Summary: value = 1 (tensorboard/compat/proto/event.proto).
        fields = _collect_fields(event)
        step = _to_signed(fields.get(2, [0])[-1])
        values = [
            _read_summary_value(value)
            for summary in _take_bytes(fields, 5)
            for value in _take_bytes(_collect_fields(summary), 1)
        ]
        is_used = any(value is not None for _, value in values)
        if (is_used or len(event) <= _MAX_CHECKED_BYTES) and _mask_checksum(event) != checksum:
            raise UnusableError("corrupted event file: the checksum of an event does not match")
        for name, value in values:
            found.add(name, step, None if isinstance(value, str) else value)
            if name == "hyperparameters/text_summary" and isinstance(value, str):
                n_bytes += len(value)
                _check_settings_size(n_bytes)
                for pair in _parse_settings_table(value):
                    _add_settings(found.settings, dict([pair]))


def _read_summary_value(raw: bytes) -> tuple[str, float | str | None]:
    """Return a name and its number or text; None if it has neither, or more than one number."""
    # Summary.Value: tag = 1, simple_value = 2, tensor = 8.
    fields = _collect_fields(raw)
    name = b"".join(_take_bytes(fields, 1)[-1:]).decode("utf-8", "replace")
    if len(fields.get(2, [])) + len(fields.get(8, [])) != 1:
        return name, None
    if 2 in fields:
        return name, _to_float(fields[2][0], "<f", 4)
    tensor = _collect_fields(b"".join(_take_bytes(fields, 8)))
    texts = _take_bytes(tensor, 8)
    return name, texts[0].decode("utf-8", "replace") if texts else _read_scalar_tensor(tensor)


def _read_scalar_tensor(fields: Mapping[int, list[Any]]) -> float | None:
    """Return the number in a tensor of one element, the newer encoding of scalars."""
    # TensorProto: dtype = 1 (float 1, double 2), tensor_content = 4, float_val = 5, double_val = 6.
    form, field = {1: ("<f", 5), 2: ("<d", 6)}.get(fields.get(1, [0])[-1], ("", 0))
    found = [*fields.get(4, []), *fields.get(field, [])]
    if not field or len(found) != 1:
        return None
    if isinstance(found[0], int):
        return _to_float(found[0], form, struct.calcsize(form))
    is_scalar = len(found[0]) == struct.calcsize(form)
    return float(struct.unpack(form, found[0])[0]) if is_scalar else None


def _split_events(raw: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield events of a file of TensorFlow records with their checksums, the truncated last not.

    A killed training leaves a partial event at the end, which does not count as damage.
    """
    position, count = 0, 0
    while len(raw) - position >= 12:
        length, check = struct.unpack_from("<QI", raw, position)
        if _mask_checksum(raw[position : position + 8]) != check:
            raise UnusableError(
                f"corrupted event file: the checksum of event {count:,} does not match"
                if count
                else "is not a TensorBoard event file"
            )
        end = position + 12 + length
        if end + 4 > len(raw):
            break
        data = raw[position + 12 : end]
        (expected,) = struct.unpack_from("<I", raw, end)
        yield data, expected
        position, count = end + 4, count + 1
    if not count:
        raise UnusableError("is empty, or no TensorBoard event file")


def _parse_settings_table(text: str) -> list[tuple[str, Any]]:
    """Read the table of settings that CleanRL writes as text: `|param|value|` and a row for each.

    Source: cleanrl/ppo.py, `writer.add_text("hyperparameters", ...)`.
    """
    rows = [line.strip().strip("|").split("|", 1) for line in text.splitlines()]
    pairs = [row for row in rows[2:] if len(row) == 2] if rows and rows[0][0] == "param" else []
    return [(name.strip(), parse_setting(value.strip())) for name, value in pairs]


def parse_setting(text: str) -> Any:
    """Return a setting as a number, boolean or text, depending on how it is written."""
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    if "_" in text or not text.isascii():  # Python reads 1_0 as 10, and digits of other scripts
        return text
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def read_wandb_file(path: Path, step_name: str | None) -> RecordedValues:
    """Read a `run-<id>.wandb` of W&B's offline mode.

    Args:
        path: The file.
        step_name: Name of the logged value that counts environment steps. W&B's own step counts
            calls of `log` and is never used.

    Raises:
        UnusableError: It is damaged, too large, has other content, or never logs `step_name`.
    """
    found = RecordedValues()
    step_name, n_bytes = step_name or "global_step", 0
    for record in _split_wandb_records(read_bounded(path, MAX_FILE_BYTES)):
        found.count_part()
        # Record: history = 2, config = 5, run = 17; wandb/proto/wandb_internal.proto.
        fields = _collect_fields(record)
        for history in _take_bytes(fields, 2):
            _add_row(found, _read_items(history), step_name)
        configs = _take_bytes(fields, 5)
        for run in _take_bytes(fields, 17):
            configs += _take_bytes(_collect_fields(run), 4)  # RunRecord: config = 4
        n_bytes += sum(map(len, configs))
        _check_settings_size(n_bytes)
        for config in configs:
            _add_settings(found.settings, _read_items(config))
    names = {n for n in (*found.values, *found.incomplete) if not n.startswith("_")}
    if names and step_name not in names:
        raise UnusableError(
            f"logs no value {step_name}, and W&B's own step counts calls of log, not environment "
            f"steps: name the value that does with --columns step=NAME, one of "
            f"{', '.join(sorted(names)[:12])}"
        )
    found.settings = {n: value for n, value in found.settings.items() if not n.startswith("_")}
    return found


def _add_row(found: RecordedValues, row: Mapping[str, Any], step_name: str) -> None:
    step = _to_number(row.get(step_name))
    if step is not None and not step.is_integer():
        raise UnusableError(f"has a row whose {step_name} is not a number of steps")
    for name, value in row.items():
        found.add(name, int(step or 0), None if step is None else _to_number(value))


def _to_number(value: Any) -> float | None:
    """Return a JSON number, which may have any number of digits; None for other values."""
    if value in ("NaN", "Infinity", "-Infinity"):  # JSON has no numbers for them
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _read_items(raw: bytes) -> dict[str, Any]:
    """Read `HistoryItem`s and `ConfigItem`s: key = 1, nested_key = 2, value_json = 16.

    Later versions also write plain values: boolean = 4, integer = 5, number = 6, text = 7.
    """
    found: dict[str, Any] = {}
    for item in _take_bytes(_collect_fields(raw), 1):
        fields = _collect_fields(item)
        words = _take_bytes(fields, 1) or _take_bytes(fields, 2)
        name = b".".join(words).decode("utf-8", "replace")
        found[name] = None
        for text in _take_bytes(fields, 16):
            with contextlib.suppress(ValueError, RecursionError):
                found[name] = json.loads(text) if len(text) <= _MAX_SETTINGS_BYTES else None
        if 4 in fields:
            found[name] = bool(fields[4][-1])
        elif 5 in fields:
            zigzag = _to_signed(fields[5][-1]) % 2**64  # of type sint64
            found[name] = (zigzag >> 1) ^ -(zigzag & 1)
        elif 6 in fields:
            found[name] = _to_float(fields[6][-1], "<d", 8)
        for text in _take_bytes(fields, 7):
            found[name] = text.decode("utf-8", "replace")
    return found


_BLOCK = 2**15
_WANDB_HEADER = b":W&B"
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def _split_wandb_records(raw: bytes) -> Iterator[bytes]:
    """Yield the records of a file in the format of LevelDB's log, after a header of 7 bytes.

    Each chunk has a CRC-32 (not LevelDB's CRC-32C), its length and its kind; none crosses a block.
    """
    if not raw.startswith(_WANDB_HEADER):
        raise UnusableError("is not a file of W&B's offline mode")
    position, size = 7, 0
    waiting: list[bytes] = []
    while len(raw) - position >= 7:
        if _BLOCK - position % _BLOCK < 7:
            position += _BLOCK - position % _BLOCK
            continue
        check, length, kind = struct.unpack_from("<IHB", raw, position)
        data = raw[position + 7 : position + 7 + length]
        if not any(raw[position : position + 7]) and not raw[position:].strip(b"\0"):
            break  # an allocated but unfilled rest of the file
        next_kinds = (_MIDDLE, _LAST) if waiting else (_FULL, _FIRST)
        is_possible = kind in next_kinds and length <= _BLOCK - 7 - position % _BLOCK
        if is_possible and len(data) < length:
            break  # a training that was killed
        if not is_possible or check != zlib.crc32(data, zlib.crc32(bytes([kind]))):
            raise UnusableError(f"corrupted W&B file: the record at byte {position:,} is damaged")
        waiting.append(data)
        size += length
        if size > _MAX_RECORD_BYTES:
            raise UnusableError(f"is too large: a record of more than {_MAX_RECORD_BYTES:,} bytes")
        if kind in (_FULL, _LAST):
            yield b"".join(waiting)
            waiting.clear()
            size = 0
        position += 7 + length


def _collect_fields(raw: bytes) -> dict[int, list[Any]]:
    """Return the fields of a message by number: bytes, or numbers in wire format."""
    fields: dict[int, list[Any]] = collections.defaultdict(list)
    position = count = 0
    try:
        while position < len(raw):
            count += 1
            if count > _MAX_FIELDS:
                raise UnusableError(f"is too large: a message of more than {_MAX_FIELDS:,} fields")
            key, position = _read_varint(raw, position)
            kind = key & 7
            if kind == _VARINT:
                value, position = _read_varint(raw, position)
                fields[key >> 3].append(value)
                continue
            if kind == _BYTES:
                size, position = _read_varint(raw, position)
            elif kind in (_FIXED32, _FIXED64):
                size = 4 if kind == _FIXED32 else 8
            else:
                raise UnusableError("corrupted file: a record is not a message")
            part = raw[position : position + size]
            if len(part) < size:
                raise UnusableError("corrupted file: a record ends early")
            fields[key >> 3].append(part if kind == _BYTES else int.from_bytes(part, "little"))
            position += size
    except IndexError as error:
        raise UnusableError("corrupted file: a record ends early") from error
    return fields


def _read_varint(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise UnusableError("corrupted file: a number is too long")


def _take_bytes(fields: Mapping[int, list[Any]], number: int) -> list[bytes]:
    return [value for value in fields.get(number, []) if isinstance(value, bytes)]


def _to_signed(value: Any) -> int:
    if not isinstance(value, int):
        raise UnusableError("corrupted file: a step is not a number")
    return value - 2**64 if value >= 2**63 else value


def _to_float(value: Any, form: str, size: int) -> float:
    if not isinstance(value, int) or value >= 2 ** (8 * size):
        raise UnusableError("corrupted file: a value is not a number")
    return float(struct.unpack(form, value.to_bytes(size, "little"))[0])


def _mask_checksum(data: bytes) -> int:
    """Return the masked CRC-32C of TensorFlow's records (tensorflow/core/lib/io/record_writer)."""
    table = _make_checksum_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@functools.cache
def _make_checksum_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)
