"""Environments of releases that several processes build at once, or that are damaged."""

import os
import shutil
import sys

import pytest
import support

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import VersionRange
from parallax.harness.versions import environments


def test_an_environment_that_another_process_has_built_meanwhile_is_used(tmp_path, monkeypatch):
    def install_late(requirements, folder):
        monkeypatch.setattr(environments, "install_packages", support.install)
        built.append(environments.build_environment(requirements, tmp_path))

    built = []
    monkeypatch.setattr(environments, "install_packages", install_late)
    assert environments.build_environment(["x==1"], tmp_path) == built[0]
    assert built[0].exists() and len(list(built[0].parents[2].iterdir())) == 1


def test_a_damaged_environment_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "install_packages", support.install)
    environments.build_environment(["x==1"], tmp_path).unlink()
    with pytest.raises(SpecError, match=r"x-1: .*: delete it, and it will be built again"):
        environments.build_environment(["x==1"], tmp_path)


@pytest.mark.parametrize(
    "lost",
    [
        "pyvenv.cfg",
        "lib",
        "lib/python*/site-packages/x-1.py",
        "lib/python*/site-packages/x-1.dist-info",
    ],
)
def test_environment_that_lost_files_is_not_measured(tmp_path, monkeypatch, lost):
    monkeypatch.setattr(environments, "install_packages", support.install)
    python = environments.build_environment(["x==1"], tmp_path)
    (path,) = python.parents[1].glob(lost)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(SpecError, match="does not have all of x==1: delete it, and it will be"):
        environments.build_environment(["x==1"], tmp_path)


def test_environment_of_another_user_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "install_packages", support.install)
    environments.build_environment(["x==1"], tmp_path)
    (folder,) = tmp_path.glob("python*/x-1")
    if os.geteuid() == 0:  # root's own environments are trusted by everyone
        os.chown(folder, 1, -1)
    else:
        monkeypatch.setattr(environments.os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(SpecError, match=r"x-1 belongs to another user, .*: choose another cache"):
        environments.build_environment(["x==1"], tmp_path)


def test_an_installer_without_effect_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "install_packages", lambda requirements, folder: None)
    with pytest.raises(SpecError, match="does not have all of x==1"):
        environments.build_environment(["x==1"], tmp_path)


def test_pip_does_not_run_modules_of_the_current_folder(tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    for name in ("pip", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SpecError, match="cannot be installed"):
        environments.install_packages(["x==1"], tmp_path)
    with pytest.raises(SpecError, match="lists no versions of x"):
        environments.list_released_versions(VersionRange("x", "1", "2"))
    assert not ran.exists()


def test_settings_of_the_current_folder_do_not_reach_the_installer(tmp_path, monkeypatch):
    installer = tmp_path / "uv"
    installer.write_text(f"#!{sys.executable}\nimport pathlib\nprint(open('uv.toml').read())\n")
    installer.chmod(0o755)
    (tmp_path / "uv.toml").write_text('index-url = "https://example.com"')
    (tmp_path / "target").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: str(installer))
    with pytest.raises(SpecError, match=r"No such file or directory: 'uv.toml'"):
        environments.install_packages(["x==1"], tmp_path / "target")
