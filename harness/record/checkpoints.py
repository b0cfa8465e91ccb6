"""What a run keeps to go on from: whole states, of which only what is new is written.

A state is nested plain values and arrays. Arrays are cut into pieces, and a piece that was written
before, by its hash, is not written again: a replay buffer of a million transitions costs what has
come since the last time, wherever in the buffer that lies. A checkpoint is two files in the folder
`checkpoint/` of the run: `<n>.pieces` holds new pieces one behind the other, `<n>.state` holds
everything else, says where each piece lies, and is guarded by a hash of its own. Both are made
aside and moved into place under the run's lease, the second one last: before it is there, there is
no checkpoint. The last one and the one before it are kept.
"""

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.record.files import Unusable, bytes_writer, first_line, open_regular, read_bounded
from harness.record.layout import CHECKPOINT_FOLDER
from harness.record.lease import Lease

VERSION = 1
"""Of the files' format."""

PIECE = 2**18
"""Bytes of a piece, at most."""

KEPT = 2
"""How many checkpoints are kept."""

_STATE, _PIECES = ".state", ".pieces"
_MOST_BYTES = 2**30
_SMALL_WASTE = 2**26  # bytes of pieces that nobody refers to, which are not worth writing all anew
_TAG = "\0"

Digest = bytes


@dataclasses.dataclass(frozen=True)
class Saved:
    """What keeping a state took.

    Attributes:
        number: Of the checkpoint, from 1.
        new_bytes: That were written.
        state_bytes: That all arrays have together.
    """

    number: int
    new_bytes: int
    state_bytes: int


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A checkpoint that is whole.

    Attributes:
        number: Of the checkpoint.
        about: What was said of it.
        state: What was kept.
    """

    number: int
    about: Mapping[str, Any]
    state: Any


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a piece lies: in the pieces of which checkpoint, from which byte on, how many."""

    number: int
    offset: int
    size: int


class _Content(msgspec.Struct, frozen=True):
    """What a `.state` file holds behind its hash."""

    version: int
    about: dict[str, Any]
    state: Any
    pieces: dict[Digest, _Place]


class Checkpoints:
    """The checkpoints of one run, written by the holder of its lease."""

    def __init__(self, lease: Lease) -> None:
        """Reads nothing yet."""
        self._lease = lease
        self._folder = lease.folder / CHECKPOINT_FOLDER
        self._kept: dict[int, dict[Digest, _Place]] = {}  # oldest first; known to be whole

    def numbers(self) -> list[int]:
        """Of all checkpoints that are there, whole or not, newest first."""
        return sorted(self._numbers(_STATE), reverse=True)

    def save(self, about: Mapping[str, Any], state: Any) -> Saved:
        """Keeps a state, and removes all but the last two.

        Args:
            about: Plain values that `load` gives back before anything else is looked at.
            state: Nested dicts by text, lists, plain values and arrays.

        Raises:
            OSError: For example a full disk; the checkpoints are as they were.
            LeaseLost: The folder has another writer now.
        """
        self._make_folder()
        number = max([0, *self._numbers(_STATE), *self._numbers(_PIECES)]) + 1
        known: dict[Digest, _Place] = {}
        for pieces in () if self._is_wasteful() else self._kept.values():
            known |= pieces
        packer = _Packer(number, known)
        name = f"{CHECKPOINT_FOLDER}/{number}"
        packed: list[Any] = []
        try:
            self._lease.write(name + _PIECES, lambda file: packed.append(packer.pack(state, file)))
            content = _Content(VERSION, dict(about), packed[0], packer.used)
            raw = msgspec.msgpack.encode(content)
            guarded = hashlib.sha256(raw).digest() + raw
            self._lease.write(name + _STATE, bytes_writer(guarded))
        except OSError:
            self._lease.remove(name + _PIECES)
            raise
        self._kept[number] = packer.used
        self._prune()
        return Saved(number, packer.written + len(guarded), packer.total)

    def load(self, number: int) -> Loaded:
        """A checkpoint, all of whose bytes are those that were written.

        Raises:
            Unusable: It is damaged, or was written by another version; says which.
        """
        content = self._content(number)
        pieces = _Pieces(self, content.pieces)
        try:
            state = pieces.unpack(content.state)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise Unusable(f"is damaged: {first_line(error)}") from error
        # Only what has been looked at is relied on by later ones.
        self._kept = {number: content.pieces}
        return Loaded(number, content.about, state)

    def about(self, number: int) -> Mapping[str, Any]:
        """What was said of a checkpoint; its pieces are not looked at.

        Raises:
            Unusable: It is damaged, or was written by another version; says which.
        """
        return self._content(number).about

    def remove(self) -> None:
        """Removes all of them."""
        self._lease.remove(CHECKPOINT_FOLDER)
        self._kept = {}

    def read_piece(self, place: _Place) -> bytes:
        """The bytes at a place.

        Raises:
            Unusable: They cannot be read.
        """
        path = self._folder / f"{place.number}{_PIECES}"
        try:
            with open_regular(path) as file:
                file.seek(place.offset)
                return file.read(place.size)
        except OSError as error:
            raise Unusable(f"is damaged: {path.name} cannot be read ({error.strerror})") from error

    def _content(self, number: int) -> _Content:
        return _read(self._folder, number)

    def _numbers(self, suffix: str) -> list[int]:
        return _numbers(self._folder, suffix)

    def _make_folder(self) -> None:
        if self._folder.is_symlink() or (self._folder.exists() and not self._folder.is_dir()):
            self._lease.remove(CHECKPOINT_FOLDER)
        self._lease.make_folder(CHECKPOINT_FOLDER)

    def _is_wasteful(self) -> bool:
        """Whether most of what is there is referred to by nobody."""
        live: dict[tuple[int, int], int] = {}
        for pieces in self._kept.values():
            live |= {(place.number, place.offset): place.size for place in pieces.values()}
        there = sum(
            (self._folder / f"{number}{_PIECES}").stat().st_size
            for number in {number for number, _ in live}
        )
        used = sum(live.values())
        return there - used > max(used, _SMALL_WASTE)

    def _prune(self) -> None:
        for number in sorted(self._kept)[:-KEPT]:
            del self._kept[number]
        for number in self._numbers(_STATE):
            if number not in self._kept:
                self._lease.remove(f"{CHECKPOINT_FOLDER}/{number}{_STATE}")
        needed = {place.number for kept in self._kept.values() for place in kept.values()}
        for number in self._numbers(_PIECES):
            if number not in needed:
                self._lease.remove(f"{CHECKPOINT_FOLDER}/{number}{_PIECES}")


class Kept(msgspec.Struct, frozen=True):
    """The last checkpoint of a run, as anybody sees it.

    Attributes:
        number: Of the checkpoint.
        step: Environment steps that had been taken.
    """

    number: int
    step: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


def last_kept(folder: Path) -> Kept | None:
    """The last checkpoint of the run in a folder that says of what step it is; arrays unread."""
    checkpoints = folder / CHECKPOINT_FOLDER
    for number in sorted(_numbers(checkpoints, _STATE), reverse=True):
        with contextlib.suppress(Unusable, msgspec.ValidationError):
            told = {"number": number, "step": _read(checkpoints, number).about.get("step")}
            return msgspec.convert(told, Kept)
    return None


def _read(checkpoints: Path, number: int) -> _Content:
    path = checkpoints / f"{number}{_STATE}"
    try:
        guarded = read_bounded(path, _MOST_BYTES)
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}") from error
    digest, raw = guarded[:32], guarded[32:]
    if hashlib.sha256(raw).digest() != digest:
        raise Unusable("is damaged: its checksum does not hold")
    try:
        content = msgspec.msgpack.decode(raw, type=_Content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unusable("is of another version of this project") from error
    if content.version != VERSION:
        raise Unusable(
            f"is of format {content.version}, and this version of the project knows {VERSION}"
        )
    return content


def _numbers(checkpoints: Path, suffix: str) -> list[int]:
    if checkpoints.is_symlink() or not checkpoints.is_dir():
        return []
    names = [path.stem for path in checkpoints.glob(f"*{suffix}")]
    return [int(name) for name in names if name.isdecimal() and len(name) < 10]


class _Packer:
    """Writes the pieces of a state that are new, and tells everything else with their hashes."""

    def __init__(self, number: int, known: Mapping[Digest, _Place]) -> None:
        self._number, self._known = number, known
        self.used: dict[Digest, _Place] = {}
        self.written = self.total = 0

    def pack(self, value: Any, file: IO[bytes]) -> Any:
        if isinstance(value, np.ndarray):
            whole = np.ascontiguousarray(value)
            digests = [self._piece(piece, file) for piece in _cut(whole)]
            return {_TAG: [value.dtype.str, list(value.shape), digests]}
        if isinstance(value, dict):
            return {name: self.pack(item, file) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.pack(item, file) for item in value]
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return {_TAG: str(value)}  # such as the state of a generator
        return value

    def _piece(self, piece: memoryview, file: IO[bytes]) -> Digest:
        digest = hashlib.sha256(piece).digest()
        self.total += len(piece)
        if digest not in self.used:
            place = self._known.get(digest)
            if place is None:
                place = _Place(self._number, self.written, len(piece))
                file.write(piece)
                self.written += len(piece)
            self.used[digest] = place
        return digest


class _Pieces:
    """Puts arrays together again from pieces whose hashes hold."""

    def __init__(self, checkpoints: Checkpoints, places: Mapping[Digest, _Place]) -> None:
        self._checkpoints, self._places = checkpoints, places

    def unpack(self, value: Any) -> Any:
        if isinstance(value, dict):
            if _TAG in value:
                told = value[_TAG]
                return int(told) if isinstance(told, str) else self._array(*told)
            return {name: self.unpack(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.unpack(item) for item in value]
        return value

    def _array(self, kind: str, shape: list[int], digests: list[Digest]) -> NDArray[Any]:
        array = np.empty(shape, np.dtype(kind))
        for piece, digest in zip(_cut(array), digests, strict=True):
            raw = self._checkpoints.read_piece(self._places[digest])
            if hashlib.sha256(raw).digest() != digest or len(raw) != len(piece):
                raise Unusable("is damaged: a checksum of its arrays does not hold")
            piece[:] = raw
        return array


def _cut(array: NDArray[Any]) -> Iterator[memoryview]:
    if not array.size:
        return
    numbers: Any = array.reshape(-1).view(np.uint8)
    whole = memoryview(numbers)
    for start in range(0, len(whole), PIECE):
        yield whole[start : start + PIECE]
