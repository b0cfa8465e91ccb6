"""A damaged recipe affects only the commands that use it."""

import re

import pytest
from hydra.core.config_store import ConfigStore

from parallax.harness.cli import hydra_app
from parallax.harness.cli import train as hydra_errors
from parallax.harness.cli.hydra_app import _check_recipe_file
from parallax.harness.contract import recipes
from parallax.harness.contract.data_files import load_yaml
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import find_recipe_files, load_recipe, read_recipe

DAMAGED = {
    "syntax": ("gamma: 0.99\nbatch_size: [1, 2\n", "sbx.yaml:3: the recipe is not valid YAML"),
    "null": ("null\n", "sbx.yaml:1: the recipe holds no values by name"),
    "empty": ("", "sbx.yaml:1: the recipe holds no values by name"),
    "list": ("- 1\n", "sbx.yaml:1: the recipe holds no values by name"),
    "number": ("gamma: 1\n2: 3\n", "sbx.yaml:1: the recipe holds no values by name"),
    "tag": ("gamma: !!python/object:os.system x\n", "sbx.yaml:1: the recipe is not valid YAML"),
    "bytes": (b"gamma: \xff\xfe\n", "sbx.yaml:1: the recipe cannot be read"),
    "deep": ("gamma: " + "[" * 5000, "sbx.yaml:1: the recipe"),
    "twice": (
        "gamma: 1\ntau: 2\ngamma: 3\n",
        "sbx.yaml:3: the recipe is not valid YAML (gamma twice)",
    ),
    "date": ("gamma: 2000-99-99\n", "sbx.yaml:1: the recipe cannot be read"),
}


@pytest.fixture(params=DAMAGED)
def damaged(request, tmp_path, monkeypatch):
    """A damaged recipe of TD3, and what is said of it."""
    content, message = DAMAGED[request.param]
    file = tmp_path / "sbx.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    usual = find_recipe_files
    changed = lambda name: usual(name) | ({"sbx": file} if name == "td3" else {})  # noqa: E731
    monkeypatch.setattr(recipes, "find_recipe_files", changed)
    return message


def test_damaged_recipe_is_named_by_file_and_line(damaged):
    with pytest.raises(SpecError) as error:
        read_recipe("td3", "sbx")
    assert damaged in str(error.value)
    assert read_recipe("td3", "sb3") and read_recipe("ppo", "sbx")


def test_damaged_recipe_is_refused_and_other_recipes_work(damaged, monkeypatch):
    stored = {}
    store = lambda self, group, name, **rest: stored.update({f"{group}/{name}": rest})  # noqa: E731
    monkeypatch.setattr(ConfigStore, "store", store)
    hydra_app.register_config_groups()
    assert "hyperparameters/ppo/sbx" in stored and "hyperparameters/td3/sbx" not in stored
    message = hydra_errors.explain_hydra_error(
        Exception("Could not find 'hyperparameters/td3/sbx'")
    )
    assert message.startswith("hps=sbx cannot be used: ") and damaged in message


UNFIT = {
    "defaults": ("defaults: [3]\n", "sbx.yaml: defaults=[3] must be a list"),
    "package": ("# @package hydra.run\ngamma: 1\n", "sbx.yaml:1: a recipe has no `@package`"),
}


@pytest.mark.parametrize("kind", [*DAMAGED, *UNFIT])
def test_damaged_file_of_a_user_folder_is_named_if_used(tmp_path, kind, monkeypatch):
    content, message = (DAMAGED | UNFIT)[kind]
    file = tmp_path / "hyperparameters" / "td3" / "sbx.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    message = message.replace("the recipe", "the file")
    words = ["--config-dir", str(tmp_path), "algorithm=td3"]
    with pytest.raises(SpecError, match=re.escape(message)):
        hydra_errors.run([*words, "hps=sbx"])
    # Another setting does not read it, except where Hydra says that it could not read a file.
    monkeypatch.setattr(hydra_app, "run_hydra_app", lambda server: calls.append(1))
    calls = []
    assert hydra_errors.run([*words, "hps=sb3"]) == 0 and calls
    monkeypatch.setattr(hydra_app, "run_hydra_app", lambda server: int("x"))
    with pytest.raises(SpecError, match=re.escape(message)):
        hydra_errors.run([*words, "study=mine"])
    file.unlink()
    with pytest.raises(ValueError, match="invalid literal"):
        hydra_errors.run([*words, "study=mine"])


@pytest.mark.parametrize(
    ("line", "words", "said"),
    [
        ("foo: 3", [], "foo is not known. .* {}:2 sets it."),
        ("study: {nam: x}  # foo", [], "study.nam is not known: .* {}:2 sets it."),
        ("hyperparameters: {gama: 1}", [], "hyperparameters.gama is not known. .* {}:2 sets it."),
        ("steps: many", [], "steps='many' must be a whole number. {}:2 sets it."),
        ("steps: many", ["steps=few"], "steps='few' must be a whole number.$"),
        ("defaults: [inner]", [], "steps=-5 must be at least 1. {inner}:2 sets it."),
        ("steps: ${bar}", [], "Interpolation key 'bar' not found"),
        (
            "hydra: {sweeper: {params: {seed: 'choice(1,'}}}",
            ["-m"],
            "(?s)no viable .* {}:2 sets it.",
        ),
    ],
)
def test_line_of_a_user_folder_with_a_wrong_value_is_named(
    tmp_path, line, words, said, monkeypatch
):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")
    file = tmp_path / "study" / "mine.yaml"
    file.parent.mkdir()
    name = "" if "study" in line else "study: {name: mine}"
    file.write_text(f"# @package _global_\n{line}\n{name}\n")
    inner = file.with_name("inner.yaml")
    inner.write_text("# @package _global_\nsteps: -5\n")
    said = said.replace("{}", re.escape(str(file))).replace("{inner}", re.escape(str(inner)))
    with pytest.raises(SpecError, match=said):
        hydra_errors.run(["--config-dir", str(tmp_path), "study=mine", *words])


def test_wrong_value_in_a_recipe_is_named_by_file_and_line(tmp_path, monkeypatch):
    text = find_recipe_files("td3")["sbx"].read_text()
    lines = [
        f"{line.split(':')[0]}: null" if "gamma:" in line else line for line in text.split("\n")
    ]
    file = tmp_path / "sbx.yaml"
    file.write_text("\n".join(lines))
    monkeypatch.setattr(recipes, "find_recipe_files", lambda name: {"sbx": file})
    number = lines.index("gamma: null") + 1
    for check in (load_recipe, _check_recipe_file):
        with pytest.raises(SpecError, match=rf"sbx.yaml:{number}: .*gamma=None must be a number"):
            check("td3", "sbx")


def make_bomb(levels):
    """Lists of nine aliases each of the list before: 9 to the power of `levels` values."""
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(["a0: &a0 [x]", *lines, f"gamma: *a{levels - 1}", ""])


@pytest.mark.parametrize("text", [make_bomb(12), "gamma: &a [*a]\n", "- " * 2 + "x" * 2**20])
def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path, text):
    file = tmp_path / "sbx.yaml"
    file.write_text(text)
    with pytest.raises(SpecError, match=r"sbx\.yaml.* the list .*(with its aliases|bytes)"):
        load_yaml(file, "list")
    file.write_text(make_bomb(4))
    assert len(load_yaml(file, "list")["gamma"]) == 9


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("hydra=null", "Hydra cannot use these settings"),
        ("hydra.job_logging.root.level=FOO hydra/job_logging=default", "HYDRA_FULL_ERROR=1"),
        ("-m hydra.launcher._target_=os.system", "Invalid plugin 'os.system'"),
        ("results_dir=2026", "results_dir=2026 must be a name: write it in quotes"),
        ("results_dir=~/runs", "results_dir=~/runs has a character that needs quotes: 'resul"),
        ("results_dir=a\x1bb", r"results_dir=a.x1bb has a character that needs quotes"),
        ("results_dir='~/runs'", "results_dir=~/runs: ~ is not expanded. Write /"),
        ("results_dir=''", "results_dir='' must name a folder in printable characters"),
        ("results_dir='a\x00b'", r"results_dir='a.x00b' must name a folder in printable"),
        ("results_dir='a\u202eb'", r"results_dir='a.u202eb' must name a folder in printable"),
        ("framework.python=5", "framework.python=5 must be the path"),
        ("diagnosis=on diagnosis.only=no-replay", "diagnosis.only=no-replay must list checks"),
        ("diagnosis=on diagnosis.skip=[5]", r"diagnosis.skip=\[5\] must list checks"),
        ("diagnosis=on diagnosis.extra_checks=5 diagnosis.only=[x]", "extra_checks=5 must list"),
        (
            "diagnosis=on diagnosis.extra_checks=[typo:X]",
            "extra_checks=typo:X cannot be loaded: Mod",
        ),
    ],
)
def test_settings_that_hydra_cannot_use_are_one_message(word, message, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")
    with pytest.raises(SpecError, match=message):
        hydra_errors.run(["framework=sb3", "env=CartPole-v1", *word.split()])
