import re
import tomllib
from pathlib import Path

import pytest
import support
import yaml
from loops import iterate_some

ROOT = Path(__file__).parents[1]
FRAMEWORKS = ["sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx"]
TOP_LEVEL = ["harness", "adapters", "hp_configs", "analysis", "envs", "slurm", "tests"]


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_environment_yml_matches_pyproject(project):
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, from_pip = environment["dependencies"]
    assert (python, pip) == (f"python{project['requires-python']}", "pip")
    extras = project["optional-dependencies"]
    frameworks = [*extras["sb3"], *extras["torchrl"]]
    assert from_pip["pip"] == [*project["dependencies"], *frameworks, "--editable ."]


def test_every_framework_has_an_extra_that_all_has(project):
    (everything,) = project["optional-dependencies"]["all"]
    names = set(project["entry-points"]["parallax.adapters"])
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == names
    assert names <= set(project["optional-dependencies"])


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_fixed_folders_exist(name):
    assert (ROOT / name).is_dir()


def test_dependencies_have_a_lower_and_an_upper_bound(project):
    extras = [item for name in FRAMEWORKS for item in project["optional-dependencies"][name]]
    for requirement in iterate_some([*project["dependencies"], *extras]):
        assert "==" in requirement or (">=" in requirement and "<" in requirement), requirement


def test_two_makefile_targets_are_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme and "make test" in readme


@pytest.mark.parametrize("repository", ["", "https://example.org/me/parallax"])
def test_package_page_links_resolve(repository, monkeypatch):
    monkeypatch.setenv("PARALLAX_REPOSITORY", repository)
    build = support.load_file(ROOT / "hatch_build.py")
    metadata = {}
    build.PackagePageHook(str(ROOT), {}).update(metadata)
    text = metadata["readme"]["text"]
    if not repository:
        assert text == (ROOT / "README.md").read_text() and "urls" not in metadata
        return
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 30 and all(link.startswith(("https://", "#")) for link in links)
    assert f"({repository}/raw/HEAD/docs/images/compare.png)" in text
    assert f"({repository}/blob/HEAD/docs/tutorial.md)" in text and "REPOSITORY" not in text
    assert metadata["urls"]["Repository"] == repository
    paths = re.findall(rf"{repository}/(?:raw|blob)/HEAD/([^)#\s]+)", text)
    assert not [path for path in paths if not (ROOT / path).exists()]
