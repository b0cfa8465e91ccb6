"""The appendix is made of what the code passes, and marks what the thesis prints otherwise."""

from pathlib import Path

import pytest
from loops import iterate_some

from parallax.harness.cli.alignment import (
    ORIGINAL_RECIPE,
    THESIS_TABLE_NUMBERS,
    FrameworkColumn,
    _format_name_correction,
    format_appendix,
    format_translation_counts,
    make_appendix_table,
    translate_recipe,
)
from parallax.harness.cli.main import main
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points
from parallax.harness.contract.translation import TranslatedSetting

DOCUMENT = Path(__file__).parents[3] / "docs" / "hyperparameters.md"
ENV = "HalfCheetah-v4"


def test_the_document_is_what_the_command_prints():
    frameworks = sorted(find_adapter_entry_points())
    assert (
        DOCUMENT.read_text("utf-8")
        == format_appendix(list(THESIS_TABLE_NUMBERS), ENV, frameworks, "github") + "\n"
    )


@pytest.mark.parametrize("algorithm", THESIS_TABLE_NUMBERS)
def test_every_native_option_is_the_one_that_a_run_sets(algorithm: str):
    table = make_appendix_table(algorithm, ENV, ["sb3", "torchrl"])
    for index, side in iterate_some(
        enumerate(translate_recipe(algorithm, ORIGINAL_RECIPE, "common", ENV, ["sb3", "torchrl"]))
    ):
        for row in iterate_some(table.rows):
            setting = side.settings[row[0].strip("*")]
            expected = "fixed:" if setting.is_fixed else f"`{setting.native_name}`"
            assert row[2 + index].startswith(expected)


def setting(name: str, kind: str = "aligned", note: str = "") -> FrameworkColumn:
    row = TranslatedSetting("field", 1, kind, name, 1, note)
    return FrameworkColumn("sb3", {"field": row})


def test_a_name_that_differs_is_corrected():
    assert _format_name_correction(setting("train_freq"), "field", {"sb3": "train_freq"}) == ""
    assert "`train_freq`" in _format_name_correction(
        setting("train_freq"), "field", {"sb3": "train_frequency"}
    )
    assert "names no option" in _format_name_correction(
        setting("train_freq"), "field", {"sb3": "-"}
    )
    assert "fixed at 1" in _format_name_correction(setting("", "constant"), "field", {"sb3": "tau"})
    shared = setting("", "constant", "one tau for both")
    assert _format_name_correction(shared, "field", {"sb3": "tau"}) == ""


def test_the_flipped_tau_of_the_thesis_is_corrected():
    assert "tau: the thesis prints 0.995; the recipe has 0.005." in (
        make_appendix_table("sac", ENV, ["sb3"]).corrections
    )


def test_an_unknown_framework_is_refused_by_name(capsys):
    assert main(["alignment", "--paper", "--frameworks", "foo"]) == 2
    assert "--frameworks foo is not known" in capsys.readouterr().err


def test_a_task_with_other_actions_is_refused_as_in_training():
    (side,) = translate_recipe("sac", ORIGINAL_RECIPE, "exact", "CartPole-v1", ["sb3"])
    assert "has discrete actions" in side.refusal and not side.settings


def test_recipes_that_are_translated_and_refused_are_counted():
    row = FrameworkColumn("b", {}, refusal="hyperparameters.gamma=2: in b it is fixed at 1.")
    sides = [FrameworkColumn("a", {}), row, FrameworkColumn("a", {})]
    assert format_translation_counts(sides) == [
        "a: 2 of 2 recipes translated, 0 refused",
        "b: 0 of 1 recipes translated, 1 refused",
    ]
