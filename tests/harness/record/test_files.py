"""Files are written whole or not at all, and archives of odd formats are not opened."""

import argparse
import dataclasses
import io
import os
import socket
import zipfile

import msgspec
import numpy as np
import pytest

from parallax.harness.record import files, npz_files
from parallax.harness.record.run_json import Name


def test_files_written_before_a_failure_are_rolled_back(tmp_path):
    old, new, beyond = tmp_path / "old", tmp_path / "made" / "new", tmp_path / ("x" * 300)
    old.write_text("before")
    with pytest.raises(OSError, match="File name too long"):
        files.write_files_atomically({old: "after", new: "after", beyond / "file": "after"})
    assert old.read_text() == "before"
    assert not new.exists() and not new.parent.exists()
    files.write_files_atomically({old: "after", new: "after"})
    assert old.read_text() == new.read_text() == "after"


@pytest.mark.parametrize("has_links", [True, False])
def test_replaced_files_are_restored_without_reading_them(tmp_path, monkeypatch, has_links):
    def refuse(*_, **__):
        raise PermissionError("no hard links")

    if not has_links:
        monkeypatch.setattr("os.link", refuse)
    secret, link, large = tmp_path / "secret", tmp_path / "to/link", tmp_path / "to/large"
    secret.write_text("mine")
    link.parent.mkdir()
    link.symlink_to(secret)
    large.touch()
    os.truncate(large, 2**40)  # none of its bytes is on the disk
    beyond = link.parent / ("x" * 300) / "file"
    with pytest.raises(OSError, match="File name too long") as caught:
        files.write_files_atomically({link: "a", large: "b", beyond: "c"})
    assert caught.value.filename == str(beyond)
    assert link.is_symlink() and large.stat().st_size == 2**40
    files.write_files_atomically({link: "a", large: b"b"})
    assert (link.read_text(), large.read_text(), secret.read_text()) == ("a", "b", "mine")
    assert sorted(link.parent.iterdir()) == [large, link] and not link.is_symlink()


def test_lines_are_printed_without_control_characters(capsys):
    files.print_lines(["two\nlines", "\x1b[31mred\r\t\x00", "gr\u00fc\u00df"])
    assert capsys.readouterr().out == "two\nlines\n\\x1b[31mred\\r\\t\\x00\ngr\u00fc\u00df\n"
    files.print_lines([])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "4294967296", "0" * 17 + "1", "\u00b2"])
def test_seeds_on_the_command_line_have_bounds(text):
    assert (files.parse_seed("0"), files.parse_seed("4294967295")) == (0, 4294967295)
    with pytest.raises(argparse.ArgumentTypeError, match="must be from 0 to 4294967295"):
        files.parse_seed(text)


@pytest.mark.parametrize("text", ["0", "-3", "1025", "10000000000", "many"])
def test_numbers_of_processes_have_bounds(text):
    assert [files.parse_jobs(number) for number in ("-1", "1", "1024")] == [-1, 1, 1024]
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' must be from 1 to 1024, or -1"):
        files.parse_jobs(text)


def test_archive_with_a_directory_for_more_than_65535_arrays_is_refused():
    whole = io.BytesIO()
    np.savez(whole, timesteps=np.arange(3))
    raw = whole.getvalue()
    end = raw.rindex(b"PK\5\6")
    locator = b"PK\6\7" + bytes(16)
    assert set(npz_files.unpack_arrays(raw)) == {"timesteps"}
    with pytest.raises(files.UnusableError, match="more than 65,535 arrays"):
        npz_files.unpack_arrays(raw[:end] + locator + raw[end:])
    assert zipfile.is_zipfile(io.BytesIO(raw))


@pytest.mark.parametrize("length", [0, 1, 255, 256])
def test_names_of_a_record_have_one_to_255_characters(length):
    fits = 1 <= length <= 255
    try:
        assert msgspec.convert("x" * length, Name) and fits
    except msgspec.ValidationError:
        assert not fits


def test_special_files_are_neither_read_nor_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="no regular file"):
            files.write_files_atomically({tmp_path / "first": "a", tmp_path / "socket": "b"})
    assert not (tmp_path / "first").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": np.ones(2)},
        {"mean": np.zeros(3)},
        {"mean": np.full(2, np.nan)},
        {"var": -np.ones(2)},
        {"epsilon": np.float64(0)},
    ],
)
def test_statistics_of_a_policy_are_numbers_that_can_normalize(change):
    statistics = {"mean": np.zeros(2), "var": np.ones(2), "epsilon": np.float64(1e-8)}
    stored = npz_files.StoredPolicy({"w": np.ones(1)}, statistics)
    assert npz_files.unpack_policy(npz_files.pack_policy(stored)).normalization
    other = dataclasses.replace(stored, normalization=statistics | change)
    with pytest.raises(files.UnusableError, match="the normalisation has"):
        npz_files.unpack_policy(npz_files.pack_policy(other))


def test_no_link_is_written_through_by_a_temporary_name(tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_text("mine")
    folder.mkdir()
    (folder / f".page.{os.getpid()}.png").symlink_to(victim)
    files.write_path_atomically(folder / "page.png", lambda path: path.write_text("page"))
    assert victim.read_text() == "mine" and (folder / "page.png").read_text() == "page"
    assert not (folder / "page.png").is_symlink()
