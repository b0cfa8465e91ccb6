"""Checkpoints are complete or absent, and only new data is written."""

import errno
import functools
import hashlib
import os
import shutil
import sys

import msgspec
import numpy as np
import pytest

from parallax.harness.record import checkpoints
from parallax.harness.record.checkpoints import (
    CHUNK_BYTES,
    CheckpointStore,
    LastCheckpoint,
    SavedCheckpoint,
    find_last_checkpoint,
)
from parallax.harness.record.files import UnusableError
from parallax.harness.record.lock import LockLostError, RunLock, read_lock_owner, unlock_folder

PIECES = 8
ROWS = PIECES * CHUNK_BYTES // 8


@pytest.fixture
def run_lock(tmp_path):
    with RunLock.acquire(tmp_path) as run_lock:
        yield run_lock


def buffer(rows, seed=0):
    array = np.zeros(ROWS)
    array[:rows] = np.random.default_rng(seed).normal(size=rows)
    return array


def test_a_relative_state_folder_is_ignored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert checkpoints._load_signing_key()
    assert (tmp_path / "home" / ".local" / "state" / "parallax" / "checkpoint.key").exists()
    assert not (tmp_path / "here").exists()

    monkeypatch.setenv("HOME", "there")
    assert checkpoints._load_signing_key() == b"" and not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key.write_bytes(b""),
        lambda key: key.write_bytes(b"k" * 31),
        lambda key: key.write_bytes(b"k" * 33),
        lambda key: key.chmod(0o644),
        lambda key: key.chmod(0o620),
        lambda key: (key.unlink(), key.symlink_to("nowhere")),
        lambda key: (key.unlink(), key.symlink_to(key.with_name("other"))),
        lambda key: (key.unlink(), os.mkfifo(key)),
    ],
)
def test_a_key_that_is_damaged_or_that_others_can_read_is_replaced(tmp_path, monkeypatch, spoil):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before, key = checkpoints._load_signing_key(), tmp_path / "parallax" / "checkpoint.key"
    assert checkpoints._load_signing_key() == before
    key.with_name("other").write_bytes(b"k" * 32)
    spoil(key)
    after = checkpoints._load_signing_key()
    assert len(after) == 32 and after not in (before, b"k" * 32)
    assert checkpoints._load_signing_key() == after == key.read_bytes()
    assert key.lstat().st_mode & 0o777 == 0o600 and not key.is_symlink()


def test_signing_key_of_another_user_is_neither_used_nor_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before, mine = checkpoints._load_signing_key(), os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: mine + 1)
        assert checkpoints._load_signing_key() == b""
    assert checkpoints._load_signing_key() == before


def test_state_is_restored_unchanged(run_lock):
    state = {
        "numbers": [1, -(2**200), 0.1, float("inf"), True, None, "text", b"bytes"],
        "arrays": {"empty": np.empty((0, 3)), "one": np.array(2.5), "bits": np.array([True])},
        "strided": np.arange(12.0).reshape(3, 4).T,
        "single": np.float32([1.5]),
    }
    store = CheckpointStore(run_lock)
    store.save({"step": 7}, state)
    loaded = CheckpointStore(run_lock).load(1)
    assert (loaded.number, loaded.about) == (1, {"step": 7})
    assert loaded.state["numbers"] == state["numbers"]
    for name, array in (state["arrays"] | {"strided": state["strided"]}).items():
        found = (loaded.state["arrays"] | {"strided": loaded.state["strided"]})[name]
        assert found.dtype == array.dtype and np.array_equal(found, array)
    assert loaded.state["single"].dtype == np.float32


def test_only_new_rows_are_written_even_if_the_buffer_wraps(run_lock):
    store, array = CheckpointStore(run_lock), buffer(ROWS)
    first = store.save({}, {"buffer": array})
    assert first.new_bytes > array.nbytes == first.state_bytes
    array[-10:], array[:10] = 1.0, 2.0
    second = store.save({}, {"buffer": array})
    assert 2 * CHUNK_BYTES < second.new_bytes < 2 * CHUNK_BYTES + 10_000
    assert np.array_equal(CheckpointStore(run_lock).load(2).state["buffer"], array)
    # A later process continues to write little.
    later = CheckpointStore(run_lock)
    later.load(2)
    array[:10] = 3.0
    assert later.save({}, {"buffer": array}).new_bytes < CHUNK_BYTES + 10_000
    assert np.array_equal(CheckpointStore(run_lock).load(3).state["buffer"], array)


def test_unfilled_rows_share_one_chunk(run_lock):
    assert (
        CheckpointStore(run_lock).save({}, {"buffer": buffer(10)}).new_bytes
        < 2 * CHUNK_BYTES + 10_000
    )


def test_last_two_checkpoints_and_only_their_chunks_are_stored(run_lock, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SMALL_WASTE", 0)
    store, sizes = CheckpointStore(run_lock), []
    for seed in range(12):
        store.save({}, {"weights": buffer(ROWS, seed), "constant": buffer(10)})
        sizes.append(sum(file.stat().st_size for file in (tmp_path / "checkpoint").iterdir()))
    assert store.list_numbers() == [12, 11]
    assert max(sizes) < 4 * ROWS * 8
    store.load(11), store.load(12)
    store.remove()
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("suffix", ["state", "pieces"])
@pytest.mark.parametrize("harm", ["flipped", "truncated", "missing", "empty"])
def test_damaged_checkpoint_is_refused_and_the_previous_one_is_intact(
    run_lock, tmp_path, suffix, harm
):
    store = CheckpointStore(run_lock)
    store.save({}, {"weights": buffer(ROWS, 1)})
    store.save({}, {"weights": buffer(ROWS, 2)})
    file = tmp_path / "checkpoint" / f"2.{suffix}"
    raw = bytearray(file.read_bytes())
    if harm == "flipped":
        raw[len(raw) // 2] ^= 4
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes({"truncated": raw[:-1], "empty": b""}.get(harm, raw))
    later = CheckpointStore(run_lock)
    if (suffix, harm) != ("state", "missing"):
        with pytest.raises(UnusableError, match=r"is damaged|cannot be read"):
            later.load(2)
    assert np.array_equal(later.load(1).state["weights"], buffer(ROWS, 1))
    later.save({}, {"weights": buffer(ROWS, 2)})  # relies on nothing of the damaged one
    assert later.list_numbers()[1] == 1
    found = CheckpointStore(run_lock).load(later.list_numbers()[0]).state["weights"]
    assert np.array_equal(found, buffer(ROWS, 2))


def test_other_format_is_refused_by_its_number(run_lock, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "VERSION", 2)
    CheckpointStore(run_lock).save({}, {})
    monkeypatch.undo()
    with pytest.raises(
        UnusableError, match="is of format 2, and this version of the project knows 1"
    ):
        CheckpointStore(run_lock).load(1)
    file = tmp_path / "checkpoint" / "1.state"
    file.write_bytes(hashlib.sha256(b"\xc1").digest() + b"\xc1")
    with pytest.raises(UnusableError, match="another version"):
        CheckpointStore(run_lock).load(1)


@pytest.mark.parametrize("which", [".pieces", ".state"])
def test_full_disk_leaves_the_previous_checkpoint(run_lock, tmp_path, monkeypatch, which):
    store = CheckpointStore(run_lock)
    store.save({}, {"weights": buffer(ROWS, 1)})
    write = RunLock.write

    def full(self, name, content):
        if name.endswith(which):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, name, content)

    monkeypatch.setattr(RunLock, "write", full)
    with pytest.raises(OSError, match="No space left"):
        store.save({}, {"weights": buffer(ROWS, 2)})
    monkeypatch.undo()
    assert sorted(file.name for file in (tmp_path / "checkpoint").iterdir()) == [
        "1.pieces",
        "1.state",
    ]
    store.save({}, {"weights": buffer(ROWS, 2)})
    assert np.array_equal(CheckpointStore(run_lock).load(2).state["weights"], buffer(ROWS, 2))


def test_former_lock_owner_writes_no_checkpoint(tmp_path):
    run_lock = RunLock.acquire(tmp_path)
    store = CheckpointStore(run_lock)
    store.save({}, {"weights": buffer(10, 1)})
    unlock_folder(tmp_path, read_lock_owner(tmp_path))
    with RunLock.acquire(tmp_path):
        with pytest.raises(LockLostError):
            store.save({}, {"weights": buffer(10, 2)})
        with pytest.raises(LockLostError):
            store.remove()
    assert {file.name for file in (tmp_path / "checkpoint").iterdir()} == {"1.pieces", "1.state"}


@pytest.mark.parametrize("deleted", ["", "1.pieces"])
def test_checkpoints_are_written_after_some_were_deleted_manually(run_lock, tmp_path, deleted):
    store = CheckpointStore(run_lock)
    store.save({}, {"weights": buffer(ROWS, 1)})
    if deleted:
        (tmp_path / "checkpoint" / deleted).unlink()
    else:
        shutil.rmtree(tmp_path / "checkpoint")
    store.save({}, {"weights": buffer(ROWS, 1)})
    newest = CheckpointStore(run_lock).list_numbers()[0]
    found = CheckpointStore(run_lock).load(newest)
    assert np.array_equal(found.state["weights"], buffer(ROWS, 1))


def test_link_in_place_of_the_folder_is_not_followed(run_lock, tmp_path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tmp_path / "checkpoint").symlink_to(elsewhere)
    store = CheckpointStore(run_lock)
    assert store.list_numbers() == []
    store.save({}, {})
    assert list(elsewhere.iterdir()) == [] and store.list_numbers() == [1]


def rehash(path, change):
    """Changes the content of a `.state` file, whose hash holds again."""
    content = msgspec.msgpack.decode(path.read_bytes()[32:-32])
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
        lambda array: array.__setitem__(0, "(,)f8"),  # a syntax error in NumPy
        lambda array: array.__setitem__(slice(None), ["V0", [2**40], []]),
        lambda array: array.__setitem__(0, 5),
        lambda array: array.__setitem__(2, []),
        lambda array: array.__setitem__(2, array[2] * 1000),
        lambda array: array.clear(),
    ],
)
def test_declared_shapes_are_checked_before_allocation(run_lock, tmp_path, claim):
    CheckpointStore(run_lock).save({}, {"array": buffer(5)})
    rehash(tmp_path / "checkpoint/1.state", lambda content: claim(content["state"]["array"]["\0"]))
    with pytest.raises(UnusableError):
        CheckpointStore(run_lock).load(1)


def test_arrays_larger_than_memory_are_refused(run_lock, tmp_path):
    CheckpointStore(run_lock).save({}, {"array": np.zeros(CHUNK_BYTES // 8)})

    def claim(content):
        array = content["state"]["array"]["\0"]
        array[1], array[2] = [2**40 // 8], array[2] * (2**40 // CHUNK_BYTES)

    rehash(tmp_path / "checkpoint/1.state", claim)
    with pytest.raises(UnusableError, match="too large"):
        CheckpointStore(run_lock).load(1)


def test_repeated_chunks_are_bounded_by_memory_and_stored_size(run_lock):
    """A few bytes of a file can stand for any number of equal chunks."""
    store = CheckpointStore(run_lock)
    store.save({}, {"array": np.zeros(20 * CHUNK_BYTES, np.uint8)})
    assert store.load(1, room=12 * CHUNK_BYTES).state["array"].size == 20 * CHUNK_BYTES
    with pytest.raises(UnusableError, match=r"is too large: its arrays take more than 5,242,879"):
        store.load(1, room=12 * CHUNK_BYTES - 1)


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
def test_altered_states_are_refused(run_lock, tmp_path, change):
    CheckpointStore(run_lock).save({}, {"array": buffer(5)})
    rehash(tmp_path / "checkpoint/1.state", change)
    with pytest.raises(UnusableError):
        CheckpointStore(run_lock).load(1)


def test_state_that_could_not_be_loaded_again_is_not_saved(run_lock, tmp_path):
    """Data outside of arrays is bounded relative to the arrays."""
    store = CheckpointStore(run_lock)
    store.save({"step": 1}, {"buffer": buffer(10)})
    with pytest.raises(OSError, match="all but its arrays takes 5,0") as error:
        store.save({"step": 2}, {"texts": ["x" * 1000] * 5_000})
    assert error.value.errno == errno.EFBIG
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == [
        "1.pieces",
        "1.state",
    ]
    assert CheckpointStore(run_lock).load(1).about == {"step": 1}
    store.save({"step": 3}, {"texts": ["x" * 1000] * 4_000})
    assert len(CheckpointStore(run_lock).load(2).state["texts"]) == 4_000


def test_checkpoint_cost_is_the_size_written_for_it(run_lock, tmp_path):
    store, folder = CheckpointStore(run_lock), tmp_path / "checkpoint"
    state = {"a": np.zeros(CHUNK_BYTES, np.uint8), "b": [np.zeros(CHUNK_BYTES + 1, np.uint8)]}
    total = 2 * CHUNK_BYTES + 1
    for number, written in ((1, CHUNK_BYTES + 1), (2, 0)):  # equal chunks are written once
        saved = store.save({"step": 5}, state)
        size = (folder / f"{number}.state").stat().st_size
        assert saved == SavedCheckpoint(number, written + size, total)
        assert (folder / f"{number}.pieces").exists() == (number == 1)
    assert (folder / "1.pieces").stat().st_size == CHUNK_BYTES + 1
    assert store.read_metadata(2) == {"step": 5} and store.list_numbers() == [2, 1]
    found = CheckpointStore(run_lock).load(2).state
    assert found["b"][0].shape == (CHUNK_BYTES + 1,)


def test_numbers_of_checkpoints_follow_all_that_are_there(run_lock, tmp_path):
    store, folder = CheckpointStore(run_lock), tmp_path / "checkpoint"
    store.save({}, {})
    for name in ("x.state", "1234567890.state", "5.pieces", "-3.state", "3.state.old"):
        (folder / name).touch()
    assert store.list_numbers() == [1]
    assert store.save({}, {}).number == 6
    (folder / "123456789.state").touch()
    assert store.list_numbers() == [123456789, 6, 1]
    assert store.save({}, {}).number == 123456790


def test_only_the_newest_of_many_checkpoints_are_read(run_lock, tmp_path, monkeypatch):
    """Otherwise the time would grow with the square of their number, also in `status`."""
    (tmp_path / "checkpoint").mkdir()
    for number in range(3000):
        (tmp_path / f"checkpoint/{number}.state").touch()
    sizes = []
    limit = checkpoints._limit_state_bytes
    monkeypatch.setattr(
        checkpoints, "_limit_state_bytes", lambda path: sizes.append(path) or limit(path)
    )
    assert find_last_checkpoint(tmp_path) is None and len(sizes) == 8
    assert CheckpointStore(run_lock).list_numbers() == list(range(2999, 2991, -1))


@pytest.mark.parametrize(("waste", "is_written_again"), [(2, False), (1, True)])
def test_stored_data_is_rewritten_if_most_is_unused(run_lock, monkeypatch, waste, is_written_again):
    chunks = [np.full(CHUNK_BYTES, value, np.uint8) for value in range(3)]
    monkeypatch.setattr(checkpoints, "_SMALL_WASTE", waste * CHUNK_BYTES)
    store = CheckpointStore(run_lock)
    store.save({}, chunks)
    for _ in range(2):
        assert store.save({}, chunks[:1]).new_bytes < CHUNK_BYTES
    assert (store.save({}, chunks[:1]).new_bytes > CHUNK_BYTES) is is_written_again


def test_unused_data_up_to_the_used_size_is_not_rewritten(run_lock, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SMALL_WASTE", 0)
    chunks = [np.full(CHUNK_BYTES, value, np.uint8) for value in range(2)]
    store = CheckpointStore(run_lock)
    store.save({}, chunks)
    assert all(store.save({}, chunks[:1]).new_bytes < CHUNK_BYTES for _ in range(3))


def test_integers_of_any_size_are_restored(run_lock):
    numbers = [value + change for value in (2**63, -(2**63), 2**64) for change in (-1, 0, 1)]
    CheckpointStore(run_lock).save({}, {"numbers": numbers, "flags": (True, False)})
    assert CheckpointStore(run_lock).load(1).state == {"numbers": numbers, "flags": [True, False]}


@pytest.mark.parametrize("odd", [{}, {"step": -1}, {"step": 2**53 + 1}, {"step": "7"}, None])
def test_the_last_checkpoint_whose_step_is_known_is_found_without_the_lock(tmp_path, odd):
    assert find_last_checkpoint(tmp_path) is None
    folder = tmp_path / "checkpoint"
    with RunLock.acquire(tmp_path) as run_lock:
        store = CheckpointStore(run_lock)
        store.save({"step": 2**53}, {})
        store.save({"step": 9} if odd is None else odd, {})
        if odd is None:
            (folder / "2.state").write_bytes(b"damaged")
        assert find_last_checkpoint(tmp_path) == LastCheckpoint(1, 2**53)
        store.save({"step": 0}, {})
    assert find_last_checkpoint(tmp_path) == LastCheckpoint(3, 0)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to("elsewhere")
    assert find_last_checkpoint(tmp_path) is None


def test_a_state_may_be_larger_with_more_chunks_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_FEWEST_BYTES", 10)
    monkeypatch.setattr(checkpoints, "_MAX_STATE_BYTES", 14)
    for chunks, limit in (((), 10), ((2047,), 11), ((2047, 1), 12), ((9000,), 14)):
        for number, size in enumerate(chunks, 1):
            (tmp_path / f"{number}.pieces").write_bytes(bytes(size))
        (tmp_path / "1.state").write_bytes(bytes(4000))
        assert checkpoints._limit_state_bytes(tmp_path) == limit
    with (tmp_path / "3.pieces").open("wb") as file:
        file.truncate(2**40)  # sparse: nothing of it is on the disk
    monkeypatch.setattr(checkpoints, "_MAX_STATE_BYTES", 2**40)
    assert checkpoints._limit_state_bytes(tmp_path) < 30


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda file: file.with_name("1.state").unlink(), "cannot be read: No such file or direc"),
        (lambda file: file.with_name("1.state").write_bytes(b""), "is damaged: its checksum does"),
        (lambda file: file.unlink(), "is damaged: 1.pieces cannot be read (No such file or direct"),
        (lambda file: file.write_bytes(b"x" * 40), "is damaged: a checksum of its arrays does not"),
        (lambda file: file.write_bytes(b""), "is damaged: a checksum of its arrays does not match"),
    ],
)
def test_damage_is_named(run_lock, tmp_path, harm, words):
    CheckpointStore(run_lock).save({}, {"array": np.ones(5)})
    harm(tmp_path / "checkpoint" / "1.pieces")
    with pytest.raises(UnusableError) as error:
        CheckpointStore(run_lock).load(1)
    assert str(error.value).startswith(words)


def set_array_part(place, value, content):
    content["state"]["array"]["\0"][place] = value


def test_sizes_that_do_not_agree_are_named(run_lock, tmp_path):
    CheckpointStore(run_lock).save({}, {"array": np.ones(5)})
    file = tmp_path / "checkpoint" / "1.state"
    whole = file.read_bytes()

    def resize(content):
        content["pieces"] = {key: [1, 0, 39] for key in content["pieces"]}

    for change, words in (
        (resize, "is damaged: the lengths of its arrays do not agree"),
        (
            lambda content: content["state"]["array"]["\0"].__setitem__(1, [10**6]),
            "is damaged: it declares an array of 8,000,000 bytes, but holds 1 chunks of 262,144 b",
        ),
        *(
            (
                functools.partial(set_array_part, place, value),
                "is damaged: it declares an array that numpy cannot represent",
            )
            for place, value in ((0, "i1," * 9), (1, [1] * 65))
        ),
        (lambda content: content.update(state=nest(TOO_DEEP)), "is damaged: it is nested too deep"),
    ):
        file.write_bytes(whole)
        rehash(file, change)
        with pytest.raises(UnusableError) as error:
            CheckpointStore(run_lock).load(1)
        assert str(error.value).startswith(words)


def test_states_and_arrays_have_the_largest_size_that_can_be_read_again(
    run_lock, tmp_path, monkeypatch
):
    store, state = (
        CheckpointStore(run_lock),
        {"a": np.zeros(6, np.uint8), "b": np.zeros(4, np.uint8)},
    )
    store.save({}, state)
    size = (tmp_path / "checkpoint" / "1.state").stat().st_size
    monkeypatch.setattr(checkpoints, "_FEWEST_BYTES", size)
    assert store.save({}, state).new_bytes == size
    monkeypatch.setattr(checkpoints, "_FEWEST_BYTES", size - 1)
    words = f"all but its arrays takes {size} bytes, and .* with up to {size - 1}$"
    with pytest.raises(OSError, match=words):
        store.save({}, state)
    monkeypatch.undo()
    memory = {"SC_PAGE_SIZE": 5, "SC_PHYS_PAGES": 2}
    monkeypatch.setattr(checkpoints.os, "sysconf", memory.get)
    assert CheckpointStore(run_lock).load(1).state["b"].tolist() == [0] * 4
    memory["SC_PAGE_SIZE"], memory["SC_PHYS_PAGES"] = 3, 3
    words = "is too large: its arrays take more than 9 bytes, the memory that such a training or "
    with pytest.raises(UnusableError, match=words):
        CheckpointStore(run_lock).load(1)
