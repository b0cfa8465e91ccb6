"""Archives of arrays that announce more than they may are refused before they are unpacked."""

import io
import zipfile

import numpy as np
import pytest

from parallax.harness.record.files import UnusableError
from parallax.harness.record.npz_files import unpack_arrays


def write_archive(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
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


def test_many_members_are_refused_before_they_are_listed(monkeypatch):
    raw = write_archive((f"a{i}.npy", b"") for i in range(2**12 + 1))
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(UnusableError, match="arrays are too many"):
        unpack_arrays(raw, ("a",))


def test_the_long_format_of_archives_is_refused(monkeypatch):
    raw = write_archive((f"a{i}.npy", b"") for i in range(2**16))
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(UnusableError, match="65,535"):
        unpack_arrays(raw, ("a",))


def test_a_claimed_shape_is_not_believed():
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
