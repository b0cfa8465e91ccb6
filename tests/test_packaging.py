import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TOP_LEVEL = ["harness", "adapters", "hp_configs", "analysis", "envs", "slurm", "tests"]


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_environment_yml_is_in_step_with_pyproject(project):
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, from_pip = environment["dependencies"]
    assert (python, pip) == (f"python{project['requires-python']}", "pip")
    assert from_pip["pip"] == [*project["dependencies"], "--editable ."]


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_fixed_folders_exist(name):
    assert (ROOT / name).is_dir()


def test_dependencies_have_a_lower_and_an_upper_bound(project):
    for requirement in project["dependencies"]:
        assert "==" in requirement or (">=" in requirement and "<" in requirement), requirement


def test_two_makefile_targets_are_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme and "make test" in readme
