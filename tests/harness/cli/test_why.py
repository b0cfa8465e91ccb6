"""Explanations of the difference between two implementations."""

import argparse
import types
from pathlib import Path

import pytest
from loops import iterate_some

from parallax.harness.cli import main, why
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import OwnScript
from parallax.harness.contract.recipes import load_recipe, read_recipe
from parallax.harness.probes.baseline import load_report
from tests.support import ROOT

PAIR = ("sb3", "cleanrl")


@pytest.fixture(scope="module")
def found():
    return why.list_differing_answers(load_report(ROOT / "docs" / "differences.json"), PAIR)


def test_differing_answers_name_what_removes_them(found):
    removals = {item.result.probe: item.removed_by for item in found}
    assert ("cleanrl", "value-loss-x1") in removals["ppo.value_loss_factor"]
    assert ("sb3", "value-loss-x0.5") in removals["ppo.value_loss_factor"]
    assert "ppo.policy_loss" not in removals and "ppo.gae" not in removals


def test_missing_answers_are_no_difference(found):
    for item in iterate_some(found):
        assert not any(item.result.answers[name].unmeasured for name in PAIR)


def test_equal_descriptions_are_no_difference():
    report = load_report(ROOT / "docs" / "differences.json")
    result = next(one for one in report.results if one.probe == "sac.temperature_gradient")
    assert any({"sb3", "torchrl"} <= set(group) for group in result.groups)  # 2.52 and 2.5
    probes = {item.result.probe for item in why.list_differing_answers(report, ("sb3", "torchrl"))}
    assert "sac.temperature_gradient" not in probes and "sac.log_prob" in probes


def test_next_commands_train_what_removes_a_difference(found):
    options = argparse.Namespace(hps="original", alignment="exact", study=None)
    some = [item for item in found if item.result.probe == "ppo.value_loss_factor"]
    sides = tuple(why.ComparedSide(name) for name in PAIR)
    first, *rest = why._suggest_commands(options, sides, some, "algorithm=ppo steps=9")
    assert "framework=sb3,cleanrl algorithm=ppo steps=9 " in first and "alignment=exact" in first
    assert any("framework=sb3 " in line and "none,value-loss-x0.5" in line for line in rest)
    assert rest[-1] == "parallax study ablation results/why"


def test_interventions_judged_by_the_study_are_not_trained_again(found):
    options = argparse.Namespace(hps="original", alignment="exact", study=Path("study"))
    some = [item for item in found if item.result.probe == "ppo.value_loss_factor"]
    sides = tuple(why.ComparedSide(name) for name in PAIR)
    removals = {removal for item in some for removal in item.removed_by}
    of_sb3 = {removal for removal in removals if removal[0] == "sb3"}
    lines = why._suggest_commands(options, sides, some, "", of_sb3, ["different"])
    assert ["framework=cleanrl" in line for line in lines] == [True, False]
    (line,) = why._suggest_commands(options, sides, some, "", removals, ["equivalent"])
    assert line.startswith("Nothing: the ablations above")
    assert why._suggest_commands(options, sides, [], "", [], ["different"]) == [
        "Nothing: no known change of the code removes a difference."
    ]


def test_runs_that_are_missing_are_trained_and_too_few_are_planned():
    options = argparse.Namespace(hps="original", alignment="exact", study=Path("my study"))
    sides = tuple(why.ComparedSide(name) for name in PAIR)
    train, judge = why._suggest_commands(options, sides, [], "algorithm=ppo")
    assert "framework=sb3,cleanrl " in train and judge == "parallax study verdicts results/why"
    options.alignment = "exact; touch x"  # the study's
    assert " 'alignment=exact; touch x' " in why._suggest_commands(options, sides, [], "")[0]
    lines = why._suggest_commands(options, sides, [], "", [], ["inconclusive"])
    assert lines == ["parallax study plan 'my study'"]


def test_settings_that_no_option_names_are_those_of_the_study():
    loaded = why.load_study(ROOT / "docs" / "ladder" / "ablation_torchrl_ppo.parquet")
    options = argparse.Namespace(env=None, hps=None, alignment="exact")
    why.take_settings_of_study(options, loaded, ("sb3", "torchrl"), "ppo")
    assert (options.env, options.hps) == ("InvertedPendulum-v4", "original")
    options = argparse.Namespace(env=None, hps="mine.yaml", alignment=None)
    why.take_settings_of_study(options, loaded, ("sb3", "torchrl"), "ppo")
    assert vars(options) == {"env": "HalfCheetah-v4", "hps": "mine.yaml", "alignment": "exact"}


def test_a_recipe_that_only_the_runs_have_is_read_from_them(tmp_path):
    place = types.SimpleNamespace(cell=types.SimpleNamespace(hps="mine", algorithm="ppo"))
    spec = {"hyperparameters": read_recipe("ppo", "original")}
    loaded = types.SimpleNamespace(runs=[types.SimpleNamespace(id=place, spec=spec)])
    recipe = why._find_recipe("mine", loaded, "ppo", tmp_path)
    assert load_recipe("ppo", recipe) == load_recipe("ppo", "original")
    assert why._find_config_folder(Path(recipe)) == "FOLDER"
    (tmp_path / "hps").mkdir()
    (tmp_path / "hps" / "mine.yaml").touch()
    own = tmp_path / "hyperparameters" / "ppo" / "mine.yaml"
    assert why._find_config_folder(own) == str(tmp_path)


def test_name_of_a_stored_recipe_is_no_path(tmp_path):
    (tmp_path / "temporary").mkdir()
    name = str(tmp_path / "victim")
    place = types.SimpleNamespace(cell=types.SimpleNamespace(hps=name, algorithm="ppo"))
    spec = {"hyperparameters": read_recipe("ppo", "original")}
    loaded = types.SimpleNamespace(runs=[types.SimpleNamespace(id=place, spec=spec)])
    recipe = why._find_recipe(name, loaded, "ppo", tmp_path / "temporary")
    assert Path(recipe).parent == tmp_path / "temporary" and not (tmp_path / "victim.yaml").exists()


def test_recipe_file_that_a_study_names_is_not_read(tmp_path):
    (tmp_path / "victim.yaml").write_text("password: x\n")
    name = str(tmp_path / "victim.yaml")
    place = types.SimpleNamespace(cell=types.SimpleNamespace(hps=name, algorithm="ppo"))
    spec = {"hyperparameters": read_recipe("ppo", "original")}
    loaded = types.SimpleNamespace(runs=[types.SimpleNamespace(id=place, spec=spec)])
    (tmp_path / "temporary").mkdir()
    recipe = why._find_recipe(name, loaded, "ppo", tmp_path / "temporary", is_stored=True)
    assert load_recipe("ppo", recipe) == load_recipe("ppo", "original")
    with pytest.raises(SpecError, match="password"):  # an option may name any file
        why._find_recipe(name, loaded, "ppo", tmp_path)


def test_other_values_than_those_of_the_recipe_are_named():
    cell = types.SimpleNamespace(hps="original", algorithm="ppo")
    values = {**read_recipe("ppo", "original"), "gamma": 0.5, "adam_eps": 0.1}
    spec = {"hyperparameters": values, "overridden": ["adam_eps"], "alignment": "exact"}
    run = types.SimpleNamespace(id=types.SimpleNamespace(cell=cell), spec=spec)
    verdict = types.SimpleNamespace(
        first=types.SimpleNamespace(runs=[run]), second=types.SimpleNamespace(runs=[])
    )
    (line,) = why._describe_changed_recipe([verdict], "original", "original")
    assert line.endswith("than the recipe original above: gamma.")
    values["gamma"] = load_recipe("ppo", "original").gamma
    assert why._describe_changed_recipe([verdict], "original", "original") == []


def test_next_commands_quote_texts_of_the_study():
    cell = types.SimpleNamespace(algorithm="ppo", env="a", hps="b")
    spec = {"alignment": "exact", "wrappers": "$(touch x)"}
    run = types.SimpleNamespace(id=types.SimpleNamespace(cell=cell), spec=spec)
    words = why._repeat_settings(types.SimpleNamespace(runs=[run]), ("ppo", "a", "b", "exact"))
    assert words == " 'wrappers=$(touch x)'"


def test_next_commands_train_as_long_as_the_study():
    loaded = why.load_study(ROOT / "docs" / "ladder" / "ablation_torchrl_ppo.parquet")
    setting = ("ppo", "InvertedPendulum-v4", "original")
    words = why._repeat_settings(loaded, (*setting, "exact"))
    assert words == " steps=61440 eval_every=5120 eval_episodes=50"
    assert why._repeat_settings(loaded, (*setting, "common")) == ""
    pair = ("sb3", "torchrl")
    judged = why._judge_ablations(loaded, pair, "ppo")
    verdicts, _ = why._judge_returns(loaded, pair, ("ppo", "InvertedPendulum-v4"))
    lines = why._describe_returns(verdicts, pair, judged)
    ablations = [line.partition(": ")[0] for line in lines if line.startswith("critic-initial")]
    assert len(set(ablations)) == len(ablations) == 2  # one for each level of alignment


def test_user_script_is_trained_by_a_separate_command():
    options = argparse.Namespace(hps="original", alignment="exact", study=None)
    script = OwnScript("my.py", "1a2b3c4d" + "0" * 56, "")
    sides = why.ComparedSide("cleanrl", script, Path("my.py")), why.ComparedSide("sb3")
    first, second, last = why._suggest_commands(options, sides, [], "algorithm=ppo")
    assert "framework=cleanrl " in first and " script=my.py " in first
    assert "framework=sb3 " in second and "script" not in second
    assert last == "parallax study verdicts results/why"


def test_answers_have_a_text_and_a_source_line(found):
    item = next(one for one in found if one.result.probe == "ppo.value_clipping")
    lines = "\n".join(why._describe_answers([item], PAIR))
    assert "beyond the range (other function, by 3.87, at stable_baselines3/ppo/ppo.py:" in lines
    assert "[f " not in lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sb3", "cleanrl@a-12345678", "--algorithms", "ppo"], "give its file with --script"),
        (["sb3", "skrl", "--algorithms", "ppo", "--script", "x.py"], "runs no scripts"),
        (["sb3", "cleanrl", "--algorithms", "ppo", "--script", "x.py"], "x.py cannot be read"),
        (
            ["sb3", "cleanrl@a-12345678", "--algorithms", "ppo", "--script", __file__],
            "and not cleanrl@a-12345678",
        ),
        (["sb3", "sb3", "--algorithms", "ppo"], "sb3 is named twice"),
        (["sb3", "cleanr", "--algorithms", "ppo"], "Did you mean cleanrl"),
        (["sb3", "cleanrl", "--algorithms", "a2c"], "--algorithms a2c is not known"),
        (["sb3", "cleanrl", "--algorithms", "ppo", "--hps", "mine"], "--hps mine is not known"),
        (["sb3", "cleanrl", "--algorithms", "ppo", "--study", "mine"], "mine: no such folder"),
    ],
)
def test_bad_names_are_refused(words, message, capsys):
    assert main.dispatch_command(["why", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_why_prints_the_complete_explanation(capsys):
    words = [
        "why",
        "sb3",
        "cleanrl",
        "--algorithms",
        "td3",
        "--study",
        str(ROOT / "docs/ladder/ladder.parquet"),
    ]
    assert main.dispatch_command([*words, "--env", "Pendulum-v1"]) == 0
    printed = capsys.readouterr().out
    for title in ("Hyperparameters", "One update", "Lockstep", "Returns", "Next"):
        assert f"\n{title}\n" in printed
    assert "All 15 are equal." in printed or "All 16 are equal." in printed
    assert "sb3 = " in printed or "cleanrl - sb3" in printed
