"""Frameworks under their own defaults are a setting of its own, in words, tables and figures."""

import numpy as np
import pytest

from analysis.data.load import load
from analysis.data.runs import Cell
from analysis.figures.curves import lines_of_frameworks, recipes_across
from analysis.figures.overview import sheets
from analysis.figures.sheet import NotDrawn
from analysis.report import decided, learned, picked
from analysis.tables.verdicts import verdict_tables
from analysis.verdicts.defaults import as_they_come
from analysis.verdicts.options import Options
from analysis.verdicts.study import gather

# By recipe and framework; random actions have -1225 on the task.
SCORES = {
    ("original", "sb3"): -1220.0,
    ("original", "cleanrl"): -1225.0,
    ("sb3", "sb3"): -200.0,
    ("cleanrl", "cleanrl"): -1225.0,
    ("torchrl", "torchrl"): -210.0,
}


@pytest.fixture(scope="module")
def material(tmp_path_factory, writer):
    root = tmp_path_factory.mktemp("own")
    noise = np.random.default_rng(0)
    for (hps, framework), score in SCORES.items():
        for seed in range(5):
            names = {"env": "Pendulum-v1", "hps": hps, "framework": framework, "seed": seed}
            writer(root, score=score + noise.normal(scale=5), **names)
    return gather(load(root), Options(ranges=(("Pendulum-v1", -1600.0, 0.0),)))


def test_pairs_under_own_defaults_are_judged_apart(material):
    verdicts = material.verdicts
    assert {item.cell.hps for item in verdicts.consistency} == {"original"}
    assert {item.cell.hps for item in verdicts.defaults} == {"own defaults"}
    found = {
        (item.first.framework, item.second.framework): item.verdict for item in verdicts.defaults
    }
    assert found["cleanrl", "sb3"] == found["cleanrl", "torchrl"] == "different"
    assert {item.family_size for item in verdicts.defaults} == {3}
    assert {item.family_size for item in verdicts.consistency} == {1}
    assert {item.first.cell.hps for item in verdicts.defaults} == {"cleanrl", "sb3"}
    assert len(verdict_tables(verdicts)["defaults.csv"]) == 3


def test_a_section_tells_of_them_and_of_who_is_above_random_actions(material):
    verdicts = material.verdicts
    (section,) = decided.settings(verdicts, decided.default_pairs(verdicts))
    text = "\n".join(section.blocks)
    assert section.heading.startswith("PPO on Pendulum-v1 under each framework's own defaults")
    assert "3 frameworks, runs requested/completed/used: 5/5/5 of each." in text
    assert "Above random actions (-1225, 300 episodes): 2 of 3 frameworks. Not shown" in text
    assert "- CleanRL (-12" in text and "n = 5." in text
    assert "| 2 of 3 " in decided.summary(verdicts, decided.default_pairs(verdicts))


def test_what_has_not_learned_is_said_beside_a_pair(material):
    verdicts = material.verdicts
    (pair,) = verdicts.consistency
    assert learned.remark(pair, verdicts.learning).endswith(
        "neither is shown to be above random actions"
    )
    assert all("neither is shown" in text for text in picked.findings(verdicts)[:2])
    own = {(i.first.framework, i.second.framework): i for i in verdicts.defaults}
    assert learned.remark(own["cleanrl", "sb3"], verdicts.learning).startswith("; CleanRL is not")
    assert learned.remark(own["sb3", "torchrl"], verdicts.learning) == ""


def test_figures_have_them_in_one_column_and_a_figure_of_their_own(material):
    cells = {cell for cell, _ in material.curves}
    assert recipes_across(material, cells) == ("original", "own defaults")
    own = as_they_come(Cell("demo", "Pendulum-v1", "ppo", "sb3", "steps=20000"), "sb3")
    assert [line.name for line in lines_of_frameworks(material, own)] == [
        "cleanrl",
        "sb3",
        "torchrl",
    ]
    assert [sheet.name for sheet in sheets(material)] == ["overview", "as_they_come"]


def test_a_recipe_that_others_ran_too_keeps_its_name(tmp_path, writer):
    for framework in ("sb3", "cleanrl"):
        for seed in range(2):
            writer(tmp_path, score=1.0 + seed, hps="sb3", framework=framework, seed=seed)
    found = gather(load(tmp_path), Options())
    assert recipes_across(found, {cell for cell, _ in found.curves}) == ("sb3",)
    assert found.verdicts.defaults == () and isinstance(sheets(found)[1], NotDrawn)
