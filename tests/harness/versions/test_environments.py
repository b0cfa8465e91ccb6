"""Environments of releases that several processes build at once, or that are damaged."""

import pytest

from parallax.harness.contract.fields import SpecError
from parallax.harness.versions import environments


def test_an_environment_that_another_process_has_built_meanwhile_is_used(tmp_path, monkeypatch):
    def install_late(requirements, folder):
        monkeypatch.setattr(environments, "install_packages", lambda requirements, folder: None)
        built.append(environments.build_environment(requirements, tmp_path))

    built = []
    monkeypatch.setattr(environments, "install_packages", install_late)
    assert environments.build_environment(["x==1"], tmp_path) == built[0]
    assert built[0].exists() and len(list(built[0].parents[2].iterdir())) == 1


def test_a_damaged_environment_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "install_packages", lambda requirements, folder: None)
    environments.build_environment(["x==1"], tmp_path).unlink()
    with pytest.raises(SpecError, match=r"x-1: .*: delete it, and it will be built again"):
        environments.build_environment(["x==1"], tmp_path)
