import shutil
import sys
from pathlib import Path

import pytest
import stable_baselines3

from parallax.harness.cli.main import main

CHANGED = ("td3/td3.py", "noise = noise.clamp(", "noise = noise.clone() if True else noise.clamp(")


@pytest.fixture(scope="module")
def other_python(tmp_path_factory):
    """An interpreter with a release of SB3 that never was: it does not clip TD3's target noise."""
    folder = tmp_path_factory.mktemp("other")
    package = Path(stable_baselines3.__file__).parent
    shutil.copytree(package, folder / "stable_baselines3")
    (info,) = package.parent.glob("stable_baselines3-*.dist-info")
    metadata = folder / "stable_baselines3-2.9.99.dist-info" / "METADATA"
    metadata.parent.mkdir()
    version = f"Version: {info.name.removesuffix('.dist-info').split('-')[1]}"
    metadata.write_text((info / "METADATA").read_text().replace(version, "Version: 2.9.99"))
    file, before, after = CHANGED
    source = (folder / "stable_baselines3" / file).read_text()
    assert before in source
    (folder / "stable_baselines3" / file).write_text(source.replace(before, after))
    python = folder / "python"
    path = f'PYTHONPATH="{folder}:$PYTHONPATH"'
    python.write_text(f'#!/bin/sh\n{path} exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


@pytest.mark.long
def test_changes_between_versions_are_named(other_python, capsys):
    probes = "td3.target_action,td3.target_update"
    arguments = ["--drift", "sb3", "--python", str(other_python), "--probe", probes]
    assert main(["probe", *arguments]) == 1
    out = capsys.readouterr().out
    assert "from stable-baselines3 2.9.99" in out
    assert "1 of 3 answers changed:" in out
    assert "td3.target_action: before: " in out
