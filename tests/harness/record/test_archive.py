"""Archives of arrays that announce more than they may are refused before they are unpacked."""

import io
import zipfile

import numpy as np
import pytest

from parallax.harness.record import npz_files
from parallax.harness.record.files import UnusableError
from parallax.harness.record.npz_files import (
    StoredPolicy,
    check_arrays,
    pack_policy,
    unpack_arrays,
    unpack_evaluations,
    unpack_policy,
)


def write_archive(members, method=zipfile.ZIP_DEFLATED, comment=b""):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.comment = comment
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def array(*shape):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.zeros(shape, np.uint8))
    return file.getvalue()


def test_arrays_are_bounded_together_and_not_only_one_by_one():
    large = array(2**23)
    raw = write_archive((f"a{i}.npy", large) for i in range(70))
    assert len(raw) < 2**20
    with pytest.raises(UnusableError, match="bytes unpacked where"):
        unpack_arrays(raw)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [None, ("a",)])
def test_duplicate_array_is_refused(names):
    """Programs differ in whether they read the first or the last one."""
    raw = write_archive([("a.npy", array(1)), ("b.npy", array(1)), ("a.npy", array(2))])
    with pytest.raises(UnusableError, match="an array is in it twice"):
        unpack_arrays(raw, names)


def test_arrays_in_a_format_without_numbers_are_refused_in_words():
    version = array(1).replace(b"NUMPY\1\0v\0", b"NUMPY\3\0v\0\0\0")
    with pytest.raises(UnusableError, match="no array in numpy's format"):
        unpack_arrays(write_archive([("a.npy", version)]))


def test_many_members_are_refused_before_they_are_listed(monkeypatch):
    raw = write_archive((f"a{i}.npy", b"") for i in range(2**12 + 1))
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(UnusableError, match="arrays are too many"):
        unpack_arrays(raw, ("a",))


def test_zip64_archives_are_refused(monkeypatch):
    raw = write_archive((f"a{i}.npy", b"") for i in range(2**16))
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(UnusableError, match="65,535"):
        unpack_arrays(raw, ("a",))


def test_declared_shape_is_checked_before_allocation():
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
    np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(UnusableError, match="announces"):
        unpack_arrays(write_archive([("a.npy", file.getvalue())]))


def test_archives_of_numpy_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", x=[1.0], y=[2])
    np.savez_compressed(tmp_path / "b.npz", x=[1.0], y=[2])
    for name in ("a.npz", "b.npz"):
        assert unpack_arrays((tmp_path / name).read_bytes())["x"].tolist() == [1.0]


def test_archive_may_end_with_a_comment_and_nothing_after_it(monkeypatch):
    members = [("a.npy", array(3)), ("b.npy", array(2))]
    assert unpack_arrays(write_archive([])) == {}
    assert list(unpack_arrays(write_archive(members, comment=b"x" * (2**16 - 1)))) == ["a", "b"]
    whole = write_archive(members)
    for odd in (whole[:-1], whole + bytes(2**16 + 1), b"", b"PK\5\6"):
        with pytest.raises(UnusableError, match=r"^no archive, or one that is cut off$"):
            unpack_arrays(odd)
    assert list(unpack_arrays(whole + bytes(2**16))) == ["a", "b"]
    end = whole.rindex(b"PK\5\6")
    size = end - whole.index(b"PK\1\2")
    for name, allowed in (("_MAX_ARRAYS", 2), ("_MOST_DIRECTORY", size), ("_MOST_TOGETHER", 261)):
        monkeypatch.setattr(npz_files, name, allowed)
        assert len(unpack_arrays(whole)) == 2
        monkeypatch.setattr(npz_files, name, allowed - 1)
        words = "261 bytes unpacked where 260 are" if allowed == 261 else "^2 arrays are too many$"
        with pytest.raises(UnusableError, match=words):
            unpack_arrays(whole)
        monkeypatch.undo()


def test_arrays_are_restored_by_name_with_shape_type_and_values():
    arrays = {
        "rows": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
        "none": np.empty((0, 3), np.float32),
        "one": np.array(7, np.uint8),
    }
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, **arrays)
        assert list(unpack_arrays(file.getvalue())) == list(arrays)
        found = unpack_arrays(file.getvalue(), ("one", "rows", "columns", "none"))
        assert list(found) == ["one", "rows", "columns", "none"]
        for name, array in arrays.items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            assert found[name].tolist() == array.tolist()
    with pytest.raises(UnusableError, match=r"no item named 'more\.npy'"):
        unpack_arrays(file.getvalue(), ("rows", "more"))
    second = io.BytesIO()
    np.lib.format.write_array(second, np.arange(3), version=(2, 0))
    raw = write_archive([("a.npy", second.getvalue())])
    assert unpack_arrays(raw)["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", [bool, complex, "U3", "datetime64[s]"])
def test_values_of_non_numeric_types_are_refused(kind):
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3, kind))
    with pytest.raises(UnusableError, match=r"^the values of a are not of numeric types$"):
        unpack_arrays(file.getvalue())


def test_an_array_has_a_largest_number_of_values_and_bytes(monkeypatch):
    raw = write_archive([("a.npy", array(5))])
    monkeypatch.setattr(npz_files, "_MAX_ARRAY_VALUES", 5)
    assert len(unpack_arrays(raw)["a"]) == 5
    monkeypatch.setattr(npz_files, "_MAX_ARRAY_VALUES", 4)
    with pytest.raises(UnusableError, match=r"^a is too large: 5 values$"):
        unpack_arrays(raw)
    short = write_archive([("a.npy", array(5)[:-1])])
    with pytest.raises(UnusableError, match=r"^a does not hold the 5 values that it announces$"):
        unpack_arrays(short)
    monkeypatch.undo()
    monkeypatch.setattr(npz_files, "_MAX_ARRAY_BYTES", 133)
    assert len(unpack_arrays(raw)["a"]) == 5
    monkeypatch.setattr(npz_files, "_MAX_ARRAY_BYTES", 132)
    with pytest.raises(UnusableError, match=r"^a\.npy is too large$"):
        unpack_arrays(raw)


def change(raw, mark, offset, value, size=2):
    """Write a number at an offset from the first place that has a mark."""
    at = raw.index(mark) + offset
    return raw[:at] + value.to_bytes(size, "little") + raw[at + size :]


LOCAL, CENTRAL = b"PK\3\4", b"PK\1\2"


@pytest.mark.parametrize(
    ("mark", "offset", "value", "size", "words"),
    [
        (LOCAL, 0, 0, 1, "is not where the archive says"),
        (LOCAL, 30, ord("b"), 1, "has another name at its place"),
        (LOCAL, 26, 4, 2, "has another name at its place"),
        (CENTRAL, 16, 5, 4, "the checksum of a.npy does not match"),
        (CENTRAL, 20, 132, 4, "is not as long as it says"),
        (CENTRAL, 24, 132, 4, "is not as long as it says"),
        (CENTRAL, 10, 12, 2, "is packed in a way that is not known"),
        *((CENTRAL, 8, flag, 2, "is packed in a way that is not known") for flag in (1, 32, 64)),
    ],
)
def test_members_that_contradict_the_archive_are_refused(mark, offset, value, size, words):
    raw = write_archive([("a.npy", array(5))], zipfile.ZIP_STORED)
    assert unpack_arrays(raw)["a"].tolist() == [0] * 5
    with pytest.raises(UnusableError, match=words):
        unpack_arrays(change(raw, mark, offset, value, size))


def test_members_with_wrong_lengths_are_refused_and_extra_fields_skipped():
    raw = write_archive([("a.npy", array(5))])
    for size in (132, 134):
        with pytest.raises(UnusableError):
            unpack_arrays(change(raw, CENTRAL, 24, size, 4))
    plain = write_archive([("a.npy", array(5) + b"")], zipfile.ZIP_STORED)
    directory = plain.index(CENTRAL)
    extra = b"\x99\x99\x02\0ab"  # an unknown field
    longer = change(plain, LOCAL, 28, len(extra))
    longer = longer[:35] + extra + longer[35:]
    longer = change(longer, b"PK\5\6", 16, directory + len(extra), 4)
    assert unpack_arrays(longer)["a"].tolist() == [0] * 5


@pytest.mark.parametrize("head", [b"\x92NUMPY\1\0", b"\x93NUMPY\4\0", b"\x93NUMPX\1\0"])
def test_members_that_are_no_arrays_of_numpy_are_refused(head):
    with pytest.raises(UnusableError, match=r"^no array in numpy's format$"):
        unpack_arrays(write_archive([("a.npy", head + array(5)[8:])]))


STEPS, RETURNS, LENGTHS = np.array([0, 5]), np.ones((2, 3)), np.zeros((2, 3), np.uint8)


@pytest.mark.parametrize(
    ("steps", "returns", "lengths", "words"),
    [
        (STEPS[None], RETURNS, LENGTHS, "empty or of other dimensions: timesteps (1, 2), results"),
        (STEPS, RETURNS[0], LENGTHS, "empty or of other dimensions: "),
        (STEPS, RETURNS[:, :0], LENGTHS[:, :0], "empty or of other dimensions: "),
        (STEPS[:1], RETURNS, LENGTHS, "shapes do not agree: timesteps (1,), results (2, 3), ep_"),
        (STEPS, RETURNS, LENGTHS[:, :2], "shapes do not agree: "),
        (STEPS * 1.0, RETURNS, LENGTHS, "values are not of numeric types"),
        (STEPS, RETURNS, LENGTHS * 1.0, "values are not of numeric types"),
        (STEPS[::-1], RETURNS, LENGTHS, "timesteps do not increase"),
        (STEPS * 0, RETURNS, LENGTHS, "timesteps do not increase"),
        (STEPS - 1, RETURNS, LENGTHS, "timesteps do not increase"),
        (np.array([5, -(2**63)]), RETURNS, LENGTHS, "timesteps do not increase"),
        (np.array([5, 2**63], np.uint64), RETURNS, LENGTHS, "timesteps do not increase"),
        (STEPS, RETURNS, LENGTHS.astype(int) - 1, "an episode has less than no steps"),
    ],
)
def test_arrays_of_another_layout_are_refused(steps, returns, lengths, words):
    with pytest.raises(UnusableError) as error:
        check_arrays(steps, returns, lengths, "odd")
    assert str(error.value).startswith(f"odd: {words}")


def test_evaluations_are_read_only_arrays_of_fixed_types():
    found = check_arrays(STEPS.astype(np.uint16), RETURNS.astype(np.float32), LENGTHS, "odd")
    arrays = {"timesteps": found.timesteps, "results": found.results}
    arrays |= {"ep_lengths": found.ep_lengths}
    assert [str(array.dtype) for array in arrays.values()] == ["int64", "float64", "int64"]
    assert [array.tolist() for array in arrays.values()] == [
        [0, 5],
        RETURNS.tolist(),
        LENGTHS.tolist(),
    ]
    assert not any(array.flags.writeable for array in arrays.values())
    file = io.BytesIO()
    np.savez(file, **arrays)
    assert unpack_evaluations(file.getvalue()).results.tolist() == RETURNS.tolist()
    file = io.BytesIO()
    np.savez(file, **(arrays | {"timesteps": STEPS[:1]}))
    with pytest.raises(UnusableError, match=r"^corrupted evaluations.npz: shapes do not agree"):
        unpack_evaluations(file.getvalue())
    with pytest.raises(UnusableError, match=r"^corrupted evaluations.npz: no archive"):
        unpack_evaluations(b"")


def test_policies_have_weights_and_whole_statistics_or_none():
    weights = {"a.weight": np.ones((2, 3), np.float32), "a/b": np.zeros(1)}
    statistics = {"mean": np.ones(3), "var": np.ones(3), "epsilon": np.array(1e-8)}
    for normalization in ({}, statistics):
        found = unpack_policy(pack_policy(StoredPolicy(weights, normalization)))
        for mine, given in ((found.weights, weights), (found.normalization, normalization)):
            assert {name: array.tolist() for name, array in mine.items()} == {
                name: array.tolist() for name, array in given.items()
            }
    with pytest.raises(UnusableError, match=r"^there are no weights in it$"):
        unpack_policy(pack_policy(StoredPolicy({}, statistics)))
    with pytest.raises(UnusableError, match=r"^of the normalisation only mean, var are there$"):
        unpack_policy(pack_policy(StoredPolicy(weights, {"mean": 0.0, "var": 1.0})))
    file = io.BytesIO()
    np.savez(file, other=1)
    with pytest.raises(UnusableError, match=r"^other is not part of a policy$"):
        unpack_policy(file.getvalue())
