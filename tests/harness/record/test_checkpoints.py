"""What a run keeps to go on from: whole or not there, and only what is new is written."""

import errno
import hashlib

import numpy as np
import pytest

from harness.record import checkpoints
from harness.record.checkpoints import PIECE, Checkpoints
from harness.record.files import Unusable
from harness.record.lease import Lease, LeaseLost, free, read_holder

PIECES = 8
ROWS = PIECES * PIECE // 8


@pytest.fixture
def lease(tmp_path):
    with Lease.acquire(tmp_path) as lease:
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
    kept = Checkpoints(lease)
    kept.save({"step": 7}, state)
    loaded = Checkpoints(lease).load(1)
    assert (loaded.number, loaded.about) == (1, {"step": 7})
    assert loaded.state["numbers"] == state["numbers"]
    for name, array in (state["arrays"] | {"strided": state["strided"]}).items():
        found = (loaded.state["arrays"] | {"strided": loaded.state["strided"]})[name]
        assert found.dtype == array.dtype and np.array_equal(found, array)
    assert loaded.state["single"].dtype == np.float32


def test_only_what_is_new_is_written_also_where_the_buffer_wraps_around(lease):
    kept, array = Checkpoints(lease), buffer(ROWS)
    first = kept.save({}, {"buffer": array})
    assert first.new_bytes > array.nbytes == first.state_bytes
    array[-10:], array[:10] = 1.0, 2.0
    second = kept.save({}, {"buffer": array})
    assert 2 * PIECE < second.new_bytes < 2 * PIECE + 10_000
    assert np.array_equal(Checkpoints(lease).load(2).state["buffer"], array)
    # A later process goes on writing little.
    later = Checkpoints(lease)
    later.load(2)
    array[:10] = 3.0
    assert later.save({}, {"buffer": array}).new_bytes < PIECE + 10_000
    assert np.array_equal(Checkpoints(lease).load(3).state["buffer"], array)


def test_rows_that_are_not_filled_cost_one_piece(lease):
    assert Checkpoints(lease).save({}, {"buffer": buffer(10)}).new_bytes < 2 * PIECE + 10_000


def test_last_two_are_kept_and_nothing_that_nobody_needs(lease, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SMALL_WASTE", 0)
    kept, sizes = Checkpoints(lease), []
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
    kept = Checkpoints(lease)
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
    later = Checkpoints(lease)
    if (suffix, harm) != ("state", "missing"):
        with pytest.raises(Unusable, match=r"is damaged|cannot be read"):
            later.load(2)
    assert np.array_equal(later.load(1).state["weights"], buffer(ROWS, 1))
    later.save({}, {"weights": buffer(ROWS, 2)})  # relies on nothing of the damaged one
    assert later.numbers()[1] == 1
    found = Checkpoints(lease).load(later.numbers()[0]).state["weights"]
    assert np.array_equal(found, buffer(ROWS, 2))


def test_other_format_is_refused_by_its_number(lease, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "VERSION", 2)
    Checkpoints(lease).save({}, {})
    monkeypatch.undo()
    with pytest.raises(Unusable, match="is of format 2, and this version of the project knows 1"):
        Checkpoints(lease).load(1)
    file = tmp_path / "checkpoint" / "1.state"
    file.write_bytes(hashlib.sha256(b"\xc1").digest() + b"\xc1")
    with pytest.raises(Unusable, match="another version"):
        Checkpoints(lease).load(1)


@pytest.mark.parametrize("which", [".pieces", ".state"])
def test_full_disk_leaves_what_was_there(lease, tmp_path, monkeypatch, which):
    kept = Checkpoints(lease)
    kept.save({}, {"weights": buffer(ROWS, 1)})
    write = Lease.write

    def full(self, name, content):
        if name.endswith(which):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, name, content)

    monkeypatch.setattr(Lease, "write", full)
    with pytest.raises(OSError, match="No space left"):
        kept.save({}, {"weights": buffer(ROWS, 2)})
    monkeypatch.undo()
    assert sorted(file.name for file in (tmp_path / "checkpoint").iterdir()) == [
        "1.pieces",
        "1.state",
    ]
    kept.save({}, {"weights": buffer(ROWS, 2)})
    assert np.array_equal(Checkpoints(lease).load(2).state["weights"], buffer(ROWS, 2))


def test_who_has_lost_the_lease_writes_no_checkpoint(tmp_path):
    lease = Lease.acquire(tmp_path)
    kept = Checkpoints(lease)
    kept.save({}, {"weights": buffer(10, 1)})
    free(tmp_path, read_holder(tmp_path))
    with Lease.acquire(tmp_path):
        with pytest.raises(LeaseLost):
            kept.save({}, {"weights": buffer(10, 2)})
        with pytest.raises(LeaseLost):
            kept.remove()
    assert {file.name for file in (tmp_path / "checkpoint").iterdir()} == {"1.pieces", "1.state"}


def test_link_in_place_of_the_folder_is_not_followed(lease, tmp_path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tmp_path / "checkpoint").symlink_to(elsewhere)
    kept = Checkpoints(lease)
    assert kept.numbers() == []
    kept.save({}, {})
    assert list(elsewhere.iterdir()) == [] and kept.numbers() == [1]
