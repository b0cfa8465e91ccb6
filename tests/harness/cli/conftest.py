import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = ("adapters", "analysis", "envs", "harness", "hp_configs", "parallax", "slurm")


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """A checkout that tests must leave as it is."""
    folder = tmp_path_factory.mktemp("original") / "checkout"
    for name in CODE:
        shutil.copytree(
            ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def checkout(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "checkout", symlinks=True))
