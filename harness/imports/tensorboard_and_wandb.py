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
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.record.files import UnusableError, read_bounded

MAX_FILE_BYTES = 2**28
_MAX_POINTS = 2**22  # values of all names in a file
_MAX_NAMES = 2**13
_MAX_CHECKED_BYTES = 2**12  # of an event: scalars are shorter, images and histograms longer
_IDENTITY = ("env_id", "env", "env_name", "seed")  # settings that two runs of a study differ in
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers


@dataclasses.dataclass(frozen=True, eq=False)
class RecordedValues:
    """Values and settings in a file, or in several of one run.

    Attributes:
        values: By name, pairs of step and value in the order of the file.
        settings: Settings of the run in the file, such as CleanRL's command line or W&B's config.
        incomplete: Names of values of which some are no numbers, and left out.
    """

    values: Mapping[str, Sequence[tuple[int, float]]]
    settings: Mapping[str, Any]
    incomplete: Collection[str] = ()


def read_event_files(paths: Sequence[Path]) -> RecordedValues:
    """Read TensorBoard's event files of one run, in the order of their names.

    Args:
        paths: All event files of one folder: a restarted process writes a new one.

    Raises:
        UnusableError: One is damaged, too large, or has other content.
    """
    values: dict[str, list[tuple[int, float]]] = collections.defaultdict(list)
    texts: list[tuple[str, str]] = []
    for path in sorted(paths):
        _read_events(read_bounded(path, MAX_FILE_BYTES), values, texts)
    settings: dict[str, Any] = {}
    for name, text in texts:
        if name == "hyperparameters/text_summary":
            for pair in _parse_settings_table(text):
                _add_settings(settings, dict([pair]))
    return RecordedValues(dict(values), settings)


def _add_settings(settings: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Add settings to those before; raise an `UnusableError` if they are of another run."""
    for name in _IDENTITY:
        if name in settings and name in new and new[name] != settings[name]:
            words = f"{name}={str(settings[name])[:40]} and {name}={str(new[name])[:40]}"
            raise UnusableError(
                f"says {words}: it holds several runs. Put each into a folder of its own"
            )
    settings |= new


def _read_events(
    raw: bytes, values: dict[str, list[tuple[int, float]]], texts: list[tuple[str, str]]
) -> None:
    for event in _split_events(raw):
        # Event: step = 2, summary = 5; Summary: value = 1 (tensorboard/compat/proto/event.proto).
        fields = _collect_fields(event)
        step = _to_signed(fields.get(2, [0])[-1])
        for summary in _take_bytes(fields, 5):
            for value in _take_bytes(_collect_fields(summary), 1):
                _read_summary_value(value, step, values, texts)
    _check_counts(values)


def _read_summary_value(
    raw: bytes, step: int, values: dict[str, list[tuple[int, float]]], texts: list[tuple[str, str]]
) -> None:
    # Summary.Value: tag = 1, simple_value = 2, tensor = 8.
    fields = _collect_fields(raw)
    name = b"".join(_take_bytes(fields, 1)[-1:]).decode("utf-8", "replace")
    if 2 in fields and isinstance(fields[2][-1], int):
        values[name].append((step, _to_float(fields[2][-1], "<f", 4)))
    for tensor in _take_bytes(fields, 8):
        parts = _collect_fields(tensor)
        number = _read_scalar_tensor(parts)
        if number is not None:
            values[name].append((step, number))
        elif text := _take_bytes(parts, 8):
            texts.append((name, text[0].decode("utf-8", "replace")))


def _read_scalar_tensor(fields: Mapping[int, list[Any]]) -> float | None:
    """Return the number in a tensor of one element, the newer encoding of scalars."""
    # TensorProto: dtype = 1 (float 1, double 2), tensor_content = 4, float_val = 5, double_val = 6.
    dtype = fields.get(1, [0])[-1]
    layout = {1: ("<f", 5), 2: ("<d", 6)}.get(dtype)
    if layout is None:
        return None
    form, field = layout
    for content in (*_take_bytes(fields, 4), *_take_bytes(fields, field)):
        if len(content) == struct.calcsize(form):
            return float(struct.unpack(form, content)[0])
    found = [value for value in fields.get(field, []) if isinstance(value, int)]
    return _to_float(found[0], form, struct.calcsize(form)) if len(found) == 1 else None


def _split_events(raw: bytes) -> Iterator[bytes]:
    """Yield the events of a file of TensorFlow records; a truncated last one is left out.

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
        if length <= _MAX_CHECKED_BYTES and _mask_checksum(data) != expected:
            raise UnusableError(
                f"corrupted event file: the checksum of event {count:,} does not match"
            )
        yield data
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
    rows: list[dict[str, Any]] = []
    settings: dict[str, Any] = {}
    for record in _split_wandb_records(read_bounded(path, MAX_FILE_BYTES)):
        # Record: history = 2, config = 5, run = 17; wandb/proto/wandb_internal.proto.
        fields = _collect_fields(record)
        rows += [_read_items(history) for history in _take_bytes(fields, 2)]
        for config in _take_bytes(fields, 5):
            _add_settings(settings, _read_items(config))
        for run in _take_bytes(fields, 17):
            for config in _take_bytes(_collect_fields(run), 4):  # RunRecord: config = 4
                _add_settings(settings, _read_items(config))
    settings = {name: value for name, value in settings.items() if not name.startswith("_")}
    values = _group_by_name(rows, step_name or "global_step")
    incomplete = {n for row in rows for n in row if n in values and _to_number(row[n]) is None}
    return RecordedValues(values, settings, incomplete)


def _group_by_name(
    rows: Sequence[Mapping[str, Any]], step_name: str
) -> dict[str, list[tuple[int, float]]]:
    values: dict[str, list[tuple[int, float]]] = collections.defaultdict(list)
    names = {name for row in rows for name in row if not name.startswith("_")}
    if names and step_name not in names:
        raise UnusableError(
            f"logs no value {step_name}, and W&B's own step counts calls of log, not environment "
            f"steps: name the value that does with --columns step=NAME, one of "
            f"{', '.join(sorted(names)[:12])}"
        )
    for row in rows:
        numbers = {n: number for n in row if (number := _to_number(row[n])) is not None}
        if step_name not in numbers:
            continue
        if not numbers[step_name].is_integer():
            raise UnusableError(f"has a row whose {step_name} is not a number of steps")
        for name, value in numbers.items():
            values[name].append((int(numbers[step_name]), value))
    _check_counts(values)
    return dict(values)


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
        for text in _take_bytes(fields, 16):
            with contextlib.suppress(ValueError, RecursionError):
                found[name] = json.loads(text)
        if 4 in fields:
            found[name] = bool(fields[4][-1])
        elif 5 in fields:
            zigzag = _to_signed(fields[5][-1])  # of type sint64
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
    position = 7
    waiting: list[bytes] = []
    while len(raw) - position >= 7:
        if _BLOCK - position % _BLOCK < 7:
            position += _BLOCK - position % _BLOCK
            continue
        check, length, kind = struct.unpack_from("<IHB", raw, position)
        data = raw[position + 7 : position + 7 + length]
        if not check and not length and not kind:
            break  # an allocated but unfilled rest of the file
        if len(data) < length:
            break  # a training that was killed
        if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or check != zlib.crc32(
            data, zlib.crc32(bytes([kind]))
        ):
            raise UnusableError(f"corrupted W&B file: the checksum at byte {position:,} fails")
        if kind in (_FULL, _FIRST):
            waiting.clear()
        waiting.append(data)
        if kind in (_FULL, _LAST):
            yield b"".join(waiting)
        position += 7 + length


def _collect_fields(raw: bytes) -> dict[int, list[Any]]:
    """Return the fields of a message by number: bytes, or numbers in wire format."""
    fields: dict[int, list[Any]] = collections.defaultdict(list)
    position = 0
    try:
        while position < len(raw):
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


def _check_counts(values: Mapping[str, Sequence[Any]]) -> None:
    total = sum(map(len, values.values()))
    if len(values) > _MAX_NAMES or total > _MAX_POINTS:
        raise UnusableError(f"is too large: {total:,} values of {len(values):,} names")


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
