"""Checkpoints of a run: complete states, of which only new chunks are written.

A state is nested plain values and arrays. Arrays are split into chunks, and a chunk whose hash was
written before is not written again: of a replay buffer of a million transitions, only the chunks
that changed since the last checkpoint are written. A checkpoint is two files in the folder
`checkpoint/` of the run: `<n>.pieces` holds new chunks one after the other, `<n>.state` holds
everything else and the place of each chunk, and has its own hash. Both are written under temporary
names and moved into place under the run's lock, `<n>.state` last: without it there is no
checkpoint. The last two checkpoints are stored.

A hash can be computed by anyone. The `.state` file ends in an HMAC-SHA256 (RFC 2104) with a key
that only the user can read, so that other users' checkpoints are recognized.
"""

import contextlib
import dataclasses
import errno
import hashlib
import hmac
import math
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parallax.harness.record.files import (
    DECODE_ERRORS,
    UnusableError,
    make_bytes_writer,
    open_regular_file,
    read_bounded,
    summarize_error,
)
from parallax.harness.record.layout import CHECKPOINT_FOLDER
from parallax.harness.record.lock import RunLock

VERSION = 1
"""Version of the files' format."""

CHUNK_BYTES = 2**18
"""Bytes of a chunk, at most."""

MAX_CHECKPOINTS = 2
"""Number of checkpoints that are stored."""

_STATE_SUFFIX, _CHUNKS_SUFFIX = ".state", ".pieces"
_HASH_BYTES = 32  # of SHA-256, of a signature by it, and of the key
_MAX_STATE_BYTES, _FEWEST_BYTES = 2**30, 2**22  # of a `.state` file
_MAX_DIMENSIONS, _LONGEST_KIND = 64, 16  # of an array of numpy, and of the name of its type
_MOST_TRIED = 8  # checkpoints in a folder that are read, the newest
_SMALL_WASTE = 2**26  # bytes of unreferenced chunks that do not justify writing all again
_MOST_REPEATED = 8  # such as target networks, and the moments of their optimizers, at the start
# Key of a mapping in place of an array, or of an integer beyond the 64 bits of MessagePack.
_ENCODING_TAG = "\0"

Digest = bytes


@dataclasses.dataclass(frozen=True)
class SavedCheckpoint:
    """Cost of saving a state.

    Attributes:
        number: Number of the checkpoint, from 1.
        new_bytes: Bytes that were written.
        state_bytes: Bytes of all arrays together.
    """

    number: int
    new_bytes: int
    state_bytes: int


@dataclasses.dataclass(frozen=True)
class LoadedCheckpoint:
    """A complete checkpoint.

    Attributes:
        is_own: Whether it was written with this user's key.
    """

    number: int
    about: Mapping[str, Any]
    state: Any
    is_own: bool


class _ChunkLocation(msgspec.Struct, frozen=True, array_like=True):
    """Location of a chunk: the checkpoint, the first byte, and the number of bytes."""

    number: int
    offset: int
    size: int


class _StateFile(msgspec.Struct, frozen=True):
    """Contents of a `.state` file behind its hash."""

    version: int
    about: dict[str, Any]
    state: Any
    pieces: dict[Digest, _ChunkLocation]


class CheckpointStore:
    """The checkpoints of one run, written by the owner of its lock."""

    def __init__(self, lock: RunLock) -> None:
        """Read nothing yet."""
        self._lock = lock
        self._folder = lock.folder / CHECKPOINT_FOLDER
        # Oldest first; known to be complete.
        self._complete: dict[int, dict[Digest, _ChunkLocation]] = {}

    def list_numbers(self) -> list[int]:
        """Return the numbers of the newest checkpoints, intact or not, newest first."""
        return _list_newest(self._folder)

    def save(self, metadata: Mapping[str, Any], state: Any) -> SavedCheckpoint:
        """Save a state, and remove all checkpoints but the last two.

        Raises:
            OSError: For example a full disk; the earlier checkpoints are unchanged.
            LockLostError: The folder has another writer now.
        """
        self._lock.make_folder(CHECKPOINT_FOLDER)
        suffixes = (_STATE_SUFFIX, _CHUNKS_SUFFIX)
        number = 1 + max((n for s in suffixes for n in _list_numbers(self._folder, s)), default=0)
        known: dict[Digest, _ChunkLocation] = {}
        if not self._is_wasteful():
            for chunks in self._complete.values():
                known |= chunks
        packer = _StatePacker(number, known)
        name = f"{CHECKPOINT_FOLDER}/{number}"
        try:
            self._lock.write(name + _CHUNKS_SUFFIX, lambda file: packer.pack_state(state, file))
            content = _StateFile(VERSION, dict(metadata), packer.packed, packer.used)
            raw = msgspec.msgpack.encode(content)
            guarded = hashlib.sha256(raw).digest() + raw + _sign_content(raw)
            if len(guarded) > (limit := _limit_state_bytes(self._folder)):
                raise OSError(
                    errno.EFBIG,
                    f"all but its arrays takes {len(guarded):,} bytes, and a checkpoint could be "
                    f"read again with up to {limit:,}",
                )
            self._lock.write(name + _STATE_SUFFIX, make_bytes_writer(guarded))
        except OSError:
            self._lock.remove(name + _CHUNKS_SUFFIX)
            raise
        self._complete[number] = packer.used
        self._prune()
        return SavedCheckpoint(number, packer.written + len(guarded), packer.total)

    def load(self, number: int, room: float = math.inf) -> LoadedCheckpoint:
        """Return a checkpoint, after checking the hashes of all its bytes.

        Its arrays may take `room` bytes beyond some times those that are stored: a chunk is stored
        once, however often a state repeats it.

        Raises:
            UnusableError: It is damaged, or was written by another version; says which.
        """
        raw, signature = _read_signed_state(self._folder, number)
        content = _decode_state(raw)
        is_own = bool(signature) and hmac.compare_digest(signature, _sign_content(raw))
        stored = _MOST_REPEATED * _sum_chunk_bytes(self._folder)
        unpacker = _StateUnpacker(self, content.pieces, room + stored)
        try:
            state = unpacker.unpack(content.state)
        # NumPy reads some names of types as Python, hence the last one.
        except (*DECODE_ERRORS, SyntaxError) as error:
            raise UnusableError(f"is damaged: {summarize_error(error)}") from error
        except RecursionError as error:
            raise UnusableError("is damaged: it is nested too deeply") from error
        except MemoryError as error:
            raise UnusableError("is too large for the memory of this machine") from error
        # Later checkpoints rely only on chunks that have been checked.
        self._complete = {number: content.pieces}
        return LoadedCheckpoint(number, content.about, state, is_own)

    def read_metadata(self, number: int) -> Mapping[str, Any]:
        """Return the description of a checkpoint without reading its chunks.

        Raises:
            UnusableError: It is damaged, or was written by another version; says which.
        """
        return _decode_state(_read_signed_state(self._folder, number)[0]).about

    def remove(self) -> None:
        """Remove all checkpoints."""
        self._lock.remove(CHECKPOINT_FOLDER)
        self._complete = {}

    def read_chunk(self, place: _ChunkLocation) -> bytes:
        """Return the bytes at a place.

        Raises:
            UnusableError: They cannot be read.
        """
        path = self._folder / f"{place.number}{_CHUNKS_SUFFIX}"
        try:
            with open_regular_file(path) as file:
                file.seek(place.offset)
                return file.read(place.size)
        except OSError as error:
            raise UnusableError(
                f"is damaged: {path.name} cannot be read ({error.strerror})"
            ) from error

    def _is_wasteful(self) -> bool:
        """Return whether most stored chunks are unreferenced, or some are missing."""
        live: dict[tuple[int, int], int] = {}
        for chunks in self._complete.values():
            live |= {(place.number, place.offset): place.size for place in chunks.values()}
        numbers = {number for number, _ in live}
        files = [self._folder / f"{number}{_CHUNKS_SUFFIX}" for number in numbers]
        if not all(file.exists() for file in files):  # somebody has deleted one
            return True
        used = sum(live.values())
        return sum(file.stat().st_size for file in files) - used > max(used, _SMALL_WASTE)

    def _prune(self) -> None:
        for number in sorted(self._complete)[:-MAX_CHECKPOINTS]:
            del self._complete[number]
        for number in _list_numbers(self._folder, _STATE_SUFFIX):
            if number not in self._complete:
                self._lock.remove(f"{CHECKPOINT_FOLDER}/{number}{_STATE_SUFFIX}")
        needed = {place.number for places in self._complete.values() for place in places.values()}
        for number in _list_numbers(self._folder, _CHUNKS_SUFFIX):
            if number not in needed:
                self._lock.remove(f"{CHECKPOINT_FOLDER}/{number}{_CHUNKS_SUFFIX}")


class LastCheckpoint(msgspec.Struct, frozen=True):
    """The last checkpoint of a run, as seen without its lock."""

    number: int
    step: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


def find_last_checkpoint(folder: Path) -> LastCheckpoint | None:
    """Return the last checkpoint in a run folder whose step is known, without reading arrays."""
    checkpoints = folder / CHECKPOINT_FOLDER
    for number in _list_newest(checkpoints):
        with contextlib.suppress(UnusableError, msgspec.ValidationError):
            content = _decode_state(_read_signed_state(checkpoints, number)[0])
            about = {"number": number, "step": content.about.get("step")}
            return msgspec.convert(about, LastCheckpoint)
    return None


def _read_signed_state(checkpoints: Path, number: int) -> tuple[bytes, bytes]:
    """Return the content of a `.state` file and its signature, empty before there were any."""
    path = checkpoints / f"{number}{_STATE_SUFFIX}"
    try:
        guarded = read_bounded(path, _limit_state_bytes(checkpoints))
    except OSError as error:
        raise UnusableError(f"cannot be read: {error.strerror}") from error
    digest, raw, signature = guarded[:_HASH_BYTES], guarded[_HASH_BYTES:], b""
    if hashlib.sha256(raw).digest() != digest:
        raw, signature = raw[:-_HASH_BYTES], raw[-_HASH_BYTES:]
        if hashlib.sha256(raw).digest() != digest:
            raise UnusableError("is damaged: its checksum does not match")
    return raw, signature


def _decode_state(raw: bytes) -> _StateFile:
    try:
        content = msgspec.msgpack.decode(raw, type=_StateFile)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnusableError("is of another version of this project") from error
    if content.version != VERSION:
        raise UnusableError(
            f"is of format {content.version}, and this version of the project knows {VERSION}"
        )
    return content


def _sign_content(raw: bytes) -> bytes:
    """Return the signature of the content of a `.state` file; empty if there is no key."""
    key = _load_signing_key()
    return hmac.digest(key, raw, "sha256") if key else b""


def _load_signing_key() -> bytes:
    """Return the user's key, made when it is first needed; empty if it cannot be stored."""
    try:
        given = Path(os.environ.get("XDG_STATE_HOME", ""))
        # A relative path would be one in the current folder, which may be somebody else's.
        home = given if given.is_absolute() else Path.home() / ".local" / "state"
        path = home / "parallax" / "checkpoint.key"
        if not home.is_absolute():
            return b""
        if os.path.lexists(path) and not _is_private_key(path):
            path.unlink()  # earlier checkpoints then count as another user's
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent) as file:  # only the user may read it
                file.write(secrets.token_bytes(_HASH_BYTES))
                file.flush()
                os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):  # another process was faster
                    os.link(file.name, path)
        return read_bounded(path, _HASH_BYTES)
    except (OSError, RuntimeError, UnusableError):  # no home, or a full disk
        return b""


def _is_private_key(path: Path) -> bool:
    """Return whether a file of the user is a whole key that nobody else can read or write."""
    found = path.lstat()
    if found.st_uid != os.geteuid():
        raise UnusableError("belongs to another user")
    is_private = stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077
    return is_private and found.st_size == _HASH_BYTES


def _limit_state_bytes(checkpoints: Path) -> int:
    """Return the largest size of a `.state` file in bytes, given the chunks that it can refer to.

    Decoded, the file may take a hundred times as much memory. A training's state outside its arrays
    takes some 100 KB; a state above the limit is refused when it is saved, not only when it is
    needed.
    """
    return min(_MAX_STATE_BYTES, _FEWEST_BYTES + _sum_chunk_bytes(checkpoints) // 1024)


def _sum_chunk_bytes(checkpoints: Path) -> int:
    stats = [one.lstat() for one in checkpoints.glob(f"*{_CHUNKS_SUFFIX}")]
    # A sparse file may have terabytes that are not on the disk.
    # `st_blocks` counts units of 512 bytes on every file system.
    return sum(min(one.st_size, 512 * getattr(one, "st_blocks", 2**54)) for one in stats)


def _list_newest(checkpoints: Path) -> list[int]:
    return sorted(_list_numbers(checkpoints, _STATE_SUFFIX), reverse=True)[:_MOST_TRIED]


def _list_numbers(checkpoints: Path, suffix: str) -> list[int]:
    if checkpoints.is_symlink() or not checkpoints.is_dir():
        return []
    names = [path.stem for path in checkpoints.glob(f"*{suffix}")]
    return [int(name) for name in names if name.isdecimal() and len(name) < 10]


class _StatePacker:
    """Writes the new chunks of a state, and serializes the rest with their hashes."""

    def __init__(self, number: int, known: Mapping[Digest, _ChunkLocation]) -> None:
        self._number, self._known = number, known
        self.used: dict[Digest, _ChunkLocation] = {}
        self.written = self.total = 0
        self.packed: Any = None

    def pack_state(self, state: Any, file: IO[bytes]) -> None:
        self.packed = self.pack(state, file)

    def pack(self, value: Any, file: IO[bytes]) -> Any:
        if isinstance(value, np.ndarray):
            whole = np.ascontiguousarray(value)
            digests = [self._pack_chunk(chunk, file) for chunk in _split_array(whole)]
            return {_ENCODING_TAG: [value.dtype.str, list(value.shape), digests]}
        if isinstance(value, dict):
            return {name: self.pack(item, file) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.pack(item, file) for item in value]
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return {_ENCODING_TAG: str(value)}  # such as the state of a generator
        return value

    def _pack_chunk(self, chunk: memoryview, file: IO[bytes]) -> Digest:
        digest = hashlib.sha256(chunk).digest()
        self.total += len(chunk)
        if digest not in self.used:
            place = self._known.get(digest)
            if place is None:
                place = _ChunkLocation(self._number, self.written, len(chunk))
                file.write(chunk)
                self.written += len(chunk)
            self.used[digest] = place
        return digest


class _StateUnpacker:
    """Rebuilds arrays from chunks whose hashes match."""

    def __init__(
        self, checkpoints: CheckpointStore, places: Mapping[Digest, _ChunkLocation], most: float
    ) -> None:
        self._checkpoints, self._places = checkpoints, places
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._total, self._most = 0, int(min(memory, most))

    def unpack(self, value: Any) -> Any:
        if isinstance(value, dict):
            if _ENCODING_TAG in value:
                encoded = value[_ENCODING_TAG]
                return int(encoded) if isinstance(encoded, str) else self._unpack_array(*encoded)
            return {name: self.unpack(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.unpack(item) for item in value]
        return value

    def _unpack_array(self, kind: str, shape: list[int], digests: list[Digest]) -> NDArray[Any]:
        if len(kind) > _LONGEST_KIND or len(shape) > _MAX_DIMENSIONS:  # which take minutes to read
            raise UnusableError("is damaged: it declares an array that numpy cannot represent")
        dtype, number = np.dtype(kind), math.prod(shape)
        size = number * dtype.itemsize
        # Checked before memory is allocated: the array must have its chunks, and must fit.
        is_endless = number > 0 and not dtype.itemsize  # values that take no bytes
        is_odd = dtype.hasobject or is_endless or min(shape, default=0) < 0
        if is_odd or len(digests) != -(-size // CHUNK_BYTES):
            raise UnusableError(
                f"is damaged: it declares an array of {size:,} bytes, but holds {len(digests):,} "
                f"chunks of {CHUNK_BYTES:,} bytes"
            )
        self._total += size
        if self._total > self._most:
            raise UnusableError(
                f"is too large: its arrays take more than {self._most:,} bytes, the memory that "
                "such a training or this machine has"
            )
        array = np.empty(shape, dtype)
        for chunk, digest in zip(_split_array(array), digests, strict=True):
            place = self._places[digest]
            if place.size != len(chunk):
                raise UnusableError("is damaged: the lengths of its arrays do not agree")
            raw = self._checkpoints.read_chunk(place)
            if hashlib.sha256(raw).digest() != digest or len(raw) != len(chunk):
                raise UnusableError("is damaged: a checksum of its arrays does not match")
            chunk[:] = raw
        return array


def _split_array(array: NDArray[Any]) -> Iterator[memoryview]:
    if not array.size:
        return
    numbers: Any = array.reshape(-1).view(np.uint8)
    whole = memoryview(numbers)
    for start in range(0, len(whole), CHUNK_BYTES):
        yield whole[start : start + CHUNK_BYTES]
