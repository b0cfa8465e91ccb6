"""The appendix is made of what the code passes, and marks what the thesis prints otherwise."""

from pathlib import Path

import pytest

from harness.cli.hyperparameter_tables import (
    RECIPE,
    TABLES,
    Column,
    _correction,
    appendix,
    columns,
    counts,
    document,
    print_appendix,
)
from harness.contract.adapter import Setting, installed_adapters

DOCUMENT = Path(__file__).parents[3] / "docs" / "hyperparameters.md"
ENV = "HalfCheetah-v4"


def test_the_document_is_what_the_command_prints():
    frameworks = sorted(installed_adapters())
    assert DOCUMENT.read_text("utf-8") == document(list(TABLES), ENV, frameworks, "github") + "\n"


@pytest.mark.parametrize("algorithm", TABLES)
def test_every_native_option_is_the_one_that_a_run_sets(algorithm: str):
    table = appendix(algorithm, ENV, ["sb3", "torchrl"])
    for index, side in enumerate(columns(algorithm, RECIPE, "thesis", ENV, ["sb3", "torchrl"])):
        for row in table.rows:
            setting = side.settings[row[0].strip("*")]
            expected = "fixed:" if setting.is_fixed else f"`{setting.native_name}`"
            assert row[2 + index].startswith(expected)


def setting(name: str, kind: str = "aligned", note: str = "") -> Column:
    row = Setting("field", 1, kind, name, 1, note)
    return Column("sb3", {"field": row})


def test_a_name_that_differs_is_corrected():
    assert _correction(setting("train_freq"), "field", {"sb3": "train_freq"}) == ""
    assert "`train_freq`" in _correction(setting("train_freq"), "field", {"sb3": "train_frequency"})
    assert "names no option" in _correction(setting("train_freq"), "field", {"sb3": "-"})
    assert "fixed at 1" in _correction(setting("", "constant"), "field", {"sb3": "tau"})
    shared = setting("", "constant", "one tau for both")
    assert _correction(shared, "field", {"sb3": "tau"}) == ""


def test_the_flipped_tau_of_the_thesis_is_corrected():
    assert "tau: the thesis prints 0.995; the recipe has 0.005." in (
        appendix("sac", ENV, ["sb3"]).corrections
    )


def test_an_unknown_framework_is_refused_by_name(capsys):
    assert print_appendix(["--framework", "foo"]) == 2
    assert "framework=foo" in capsys.readouterr().err


def test_recipes_that_are_translated_and_refused_are_counted():
    row = Column("b", {}, "hyperparameters.gamma=2: in b it is fixed at 1.")
    sides = [Column("a", {}), row, Column("a", {})]
    assert counts(sides) == [
        "a: 2 of 2 recipes translated, 0 refused",
        "b: 0 of 1 recipes translated, 1 refused",
    ]
