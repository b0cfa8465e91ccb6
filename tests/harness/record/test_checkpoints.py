"""What a run keeps to go on from: whole or not there, and only what is new is written."""

import errno
import hashlib
import sys

import msgspec
import numpy as np
import pytest

from parallax.harness.record import checkpoints
from parallax.harness.record.checkpoints import CHUNK_BYTES, CheckpointStore
from parallax.harness.record.files import UnusableError
from parallax.harness.record.lock import LockLostError, RunLock, read_lock_owner, unlock_folder

PIECES = 8
ROWS = PIECES * CHUNK_BYTES // 8


@pytest.fixture
def lease(tmp_path):
    with RunLock.acquire(tmp_path) as lease:
        yield lease


def buffer(rows, seed=0):
    array = np.zeros(ROWS)
    array[:rows] = np.random.default_rng(seed).normal(size=rows)
    return array


def test_state_comes_back_as_it_was(lease):
    state = {
        "numbers": [1, -(2**200), 0.1, float("inf"), True, None, "text", b"bytes"],
        "arrays": {"empty": np.empty((0, 3)), "one": np.array(2.5), "bits": np.array([True])},
        "strided": np.arange(12.0).reshape(3, 4).T,
        "single": np.float32([1.5]),
    }
    kept = CheckpointStore(lease)
    kept.save({"step": 7}, state)
    loaded = CheckpointStore(lease).load(1)
    assert (loaded.number, loaded.about) == (1, {"step": 7})
    assert loaded.state["numbers"] == state["numbers"]
    for name, array in (state["arrays"] | {"strided": state["strided"]}).items():
        found = (loaded.state["arrays"] | {"strided": loaded.state["strided"]})[name]
        assert found.dtype == array.dtype and np.array_equal(found, array)
    assert loaded.state["single"].dtype == np.float32


def test_only_what_is_new_is_written_also_where_the_buffer_wraps_around(lease):
    kept, array = CheckpointStore(lease), buffer(ROWS)
    first = kept.save({}, {"buffer": array})
    assert first.new_bytes > array.nbytes == first.state_bytes
    array[-10:], array[:10] = 1.0, 2.0
    second = kept.save({}, {"buffer": array})
    assert 2 * CHUNK_BYTES < second.new_bytes < 2 * CHUNK_BYTES + 10_000
    assert np.array_equal(CheckpointStore(lease).load(2).state["buffer"], array)
    # A later process goes on writing little.
    later = CheckpointStore(lease)
    later.load(2)
    array[:10] = 3.0
    assert later.save({}, {"buffer": array}).new_bytes < CHUNK_BYTES + 10_000
    assert np.array_equal(CheckpointStore(lease).load(3).state["buffer"], array)


def test_rows_that_are_not_filled_cost_one_piece(lease):
    assert (
        CheckpointStore(lease).save({}, {"buffer": buffer(10)}).new_bytes < 2 * CHUNK_BYTES + 10_000
    )


def test_last_two_are_kept_and_nothing_that_nobody_needs(lease, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SMALL_WASTE", 0)
    kept, sizes = CheckpointStore(lease), []
    for seed in range(12):
        kept.save({}, {"weights": buffer(ROWS, seed), "constant": buffer(10)})
        sizes.append(sum(file.stat().st_size for file in (tmp_path / "checkpoint").iterdir()))
    assert kept.numbers() == [12, 11]
    assert max(sizes) < 4 * ROWS * 8
    kept.load(11), kept.load(12)
    kept.remove()
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("suffix", ["state", "pieces"])
@pytest.mark.parametrize("harm", ["flipped", "truncated", "missing", "empty"])
def test_damaged_one_is_refused_and_the_one_before_is_whole(lease, tmp_path, suffix, harm):
    kept = CheckpointStore(lease)
    kept.save({}, {"weights": buffer(ROWS, 1)})
    kept.save({}, {"weights": buffer(ROWS, 2)})
    file = tmp_path / "checkpoint" / f"2.{suffix}"
    raw = bytearray(file.read_bytes())
    if harm == "flipped":
        raw[len(raw) // 2] ^= 4
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes({"truncated": raw[:-1], "empty": b""}.get(harm, raw))
    later = CheckpointStore(lease)
    if (suffix, harm) != ("state", "missing"):
        with pytest.raises(UnusableError, match=r"is damaged|cannot be read"):
            later.load(2)
    assert np.array_equal(later.load(1).state["weights"], buffer(ROWS, 1))
    later.save({}, {"weights": buffer(ROWS, 2)})  # relies on nothing of the damaged one
    assert later.numbers()[1] == 1
    found = CheckpointStore(lease).load(later.numbers()[0]).state["weights"]
    assert np.array_equal(found, buffer(ROWS, 2))


def test_other_format_is_refused_by_its_number(lease, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "VERSION", 2)
    CheckpointStore(lease).save({}, {})
    monkeypatch.undo()
    with pytest.raises(
        UnusableError, match="is of format 2, and this version of the project knows 1"
    ):
        CheckpointStore(lease).load(1)
    file = tmp_path / "checkpoint" / "1.state"
    file.write_bytes(hashlib.sha256(b"\xc1").digest() + b"\xc1")
    with pytest.raises(UnusableError, match="another version"):
        CheckpointStore(lease).load(1)


@pytest.mark.parametrize("which", [".pieces", ".state"])
def test_full_disk_leaves_what_was_there(lease, tmp_path, monkeypatch, which):
    kept = CheckpointStore(lease)
    kept.save({}, {"weights": buffer(ROWS, 1)})
    write = RunLock.write

    def full(self, name, content):
        if name.endswith(which):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, name, content)

    monkeypatch.setattr(RunLock, "write", full)
    with pytest.raises(OSError, match="No space left"):
        kept.save({}, {"weights": buffer(ROWS, 2)})
    monkeypatch.undo()
    assert sorted(file.name for file in (tmp_path / "checkpoint").iterdir()) == [
        "1.pieces",
        "1.state",
    ]
    kept.save({}, {"weights": buffer(ROWS, 2)})
    assert np.array_equal(CheckpointStore(lease).load(2).state["weights"], buffer(ROWS, 2))


def test_who_has_lost_the_lease_writes_no_checkpoint(tmp_path):
    lease = RunLock.acquire(tmp_path)
    kept = CheckpointStore(lease)
    kept.save({}, {"weights": buffer(10, 1)})
    unlock_folder(tmp_path, read_lock_owner(tmp_path))
    with RunLock.acquire(tmp_path):
        with pytest.raises(LockLostError):
            kept.save({}, {"weights": buffer(10, 2)})
        with pytest.raises(LockLostError):
            kept.remove()
    assert {file.name for file in (tmp_path / "checkpoint").iterdir()} == {"1.pieces", "1.state"}


def test_link_in_place_of_the_folder_is_not_followed(lease, tmp_path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tmp_path / "checkpoint").symlink_to(elsewhere)
    kept = CheckpointStore(lease)
    assert kept.numbers() == []
    kept.save({}, {})
    assert list(elsewhere.iterdir()) == [] and kept.numbers() == [1]


def rehash(path, change):
    """Changes the content of a `.state` file, whose hash holds again."""
    content = msgspec.msgpack.decode(path.read_bytes()[32:])
    change(content)
    raw = msgspec.msgpack.encode(content)
    path.write_bytes(hashlib.sha256(raw).digest() + raw)


# Python 3.12 takes fewer frames for a level.
TOO_DEEP = 900 if sys.version_info < (3, 12) else 990


def nest(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "claim",
    [
        lambda array: array.__setitem__(1, [2**40]),
        lambda array: array.__setitem__(1, [2**20, 2**20, 2**20]),
        lambda array: array.__setitem__(1, [-1]),
        lambda array: array.__setitem__(1, [2**40, 0, "x"]),
        lambda array: array.__setitem__(1, None),
        lambda array: array.__setitem__(0, "O"),
        lambda array: array.__setitem__(0, "V1000000000"),
        lambda array: array.__setitem__(0, 5),
        lambda array: array.__setitem__(2, []),
        lambda array: array.__setitem__(2, array[2] * 1000),
        lambda array: array.clear(),
    ],
)
def test_claimed_shapes_are_refused_before_room_is_made(lease, tmp_path, claim):
    CheckpointStore(lease).save({}, {"array": buffer(5)})
    rehash(tmp_path / "checkpoint/1.state", lambda content: claim(content["state"]["array"]["\0"]))
    with pytest.raises(UnusableError):
        CheckpointStore(lease).load(1)


def test_arrays_that_the_machine_has_no_memory_for_are_refused(lease, tmp_path):
    CheckpointStore(lease).save({}, {"array": np.zeros(CHUNK_BYTES // 8)})

    def claim(content):
        array = content["state"]["array"]["\0"]
        array[1], array[2] = [2**40 // 8], array[2] * (2**40 // CHUNK_BYTES)

    rehash(tmp_path / "checkpoint/1.state", claim)
    with pytest.raises(UnusableError, match="too large"):
        CheckpointStore(lease).load(1)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(state=nest(TOO_DEEP)),
        lambda content: content.update(state={"\0": "9" * 5000}),
        lambda content: content.update(state={"\0": [1, 2, 3, 4]}),
        lambda content: content.update(state=[{}] * 2**25),
        lambda content: content["pieces"].update({key: [1, 0, 2**62] for key in content["pieces"]}),
        lambda content: content["pieces"].update(
            {key: [1, -5, size] for key, (_, _, size) in content["pieces"].items()}
        ),
    ],
)
def test_altered_states_are_refused(lease, tmp_path, change):
    CheckpointStore(lease).save({}, {"array": buffer(5)})
    rehash(tmp_path / "checkpoint/1.state", change)
    with pytest.raises(UnusableError):
        CheckpointStore(lease).load(1)


def test_state_that_could_not_be_loaded_again_is_not_saved(lease, tmp_path):
    """What is outside arrays is bounded, by the arrays that there are."""
    store = CheckpointStore(lease)
    store.save({"step": 1}, {"buffer": buffer(10)})
    with pytest.raises(OSError, match="all but its arrays takes 17,") as error:
        store.save({"step": 2}, {"texts": ["x" * 1000] * 17_000})
    assert error.value.errno == errno.EFBIG
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == [
        "1.pieces",
        "1.state",
    ]
    assert CheckpointStore(lease).load(1).about == {"step": 1}
    store.save({"step": 3}, {"texts": ["x" * 1000] * 16_000})
    assert len(CheckpointStore(lease).load(2).state["texts"]) == 16_000
