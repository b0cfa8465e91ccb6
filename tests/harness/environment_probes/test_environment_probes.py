"""Environments and wrappers that are compared with definitions."""

import json

import pytest

from parallax.harness.cli.main import dispatch_command
from parallax.harness.environment_probes.answers import load_environment_report
from tests.harness.environment_probes.detection import judge_plant
from tests.plants.environments import PLANTS
from tests.support import ROOT

DOCS = ROOT / "docs" / "reference"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_planted_differences_are_found_and_named(plant):
    outcome = judge_plant(plant)
    assert outcome["found"] and outcome["named"], outcome


def test_the_published_outcomes_are_those_of_the_plants():
    published = json.loads((DOCS / "environments-plants.json").read_text())
    assert [row["name"] for row in published] == [plant.name for plant in PLANTS]
    assert all(row["found"] and row["named"] for row in published)


def test_gymnasiums_wrappers_answer_as_published(tmp_path, capsys):
    file = tmp_path / "answers.json"
    words = ["probe", "--environments", "--frameworks", "gymnasium", "--json", str(file)]
    assert dispatch_command(words) == 0
    assert "the discounted return is carried over time limits" in capsys.readouterr().out
    found = load_environment_report(file.read_text())
    published = load_environment_report((DOCS / "environments.json").read_text())
    if found.versions["gymnasium"] == published.versions["gymnasium"]:
        for name, answers in found.answers.items():
            for question, answer in answers.items():
                assert answer.differences == published.answers[name][question].differences


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--environments", "nowhere:Wrapper"], "nowhere"),
        (["--environments", "gymnasium.wrappers:Nothing"], "Nothing"),
        (["--environments", "--algorithms", "ppo"], "drop --algorithms"),
        (["--environments", "--probe", "no.question"], "--list"),
    ],
)
def test_refusals_name_what_is_wrong(words, message, capsys):
    assert dispatch_command(["probe", *words]) == 2
    assert message in capsys.readouterr().err
