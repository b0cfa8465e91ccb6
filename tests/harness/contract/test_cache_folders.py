import os
import stat
from pathlib import Path

import pytest

from parallax.harness.contract.interpreter import find_cache_folder, make_private_cache_folder


def test_user_cache_folder_follows_the_environment_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert find_cache_folder("jax") == Path("/elsewhere/parallax/jax")
    monkeypatch.setenv("HOME", "/home/somebody")
    for empty in ("", None):
        monkeypatch.setenv("XDG_CACHE_HOME", empty) if empty == "" else monkeypatch.delenv(
            "XDG_CACHE_HOME"
        )
        assert find_cache_folder("jax") == Path("/home/somebody/.cache/parallax/jax")


def test_a_relative_cache_folder_is_ignored(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")  # of the current folder
    assert find_cache_folder("jax") == Path("/home/somebody/.cache/parallax/jax")


@pytest.mark.parametrize("before", [None, 0o777, 0o700])
def test_private_folder_is_accessible_to_its_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int | None
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    expected = tmp_path / "parallax" / "jax"
    if before:
        expected.mkdir(parents=True)
        expected.chmod(before)
    folder = make_private_cache_folder("jax")
    assert folder == expected
    assert stat.S_IMODE(expected.stat().st_mode) == 0o700


@pytest.mark.parametrize("obstacle", ["link", "file", "owner"])
def test_folder_of_another_user_is_not_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place, other = tmp_path / "parallax" / "jax", tmp_path / "other"
    place.parent.mkdir()
    other.mkdir(0o755)
    if obstacle == "link":
        place.symlink_to(other)
    elif obstacle == "file":
        place.touch()
    else:
        place.mkdir(0o755)
        monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert make_private_cache_folder("jax") is None
    assert stat.S_IMODE(other.stat().st_mode) == 0o755
