"""Environments and wrappers that are compared with definitions."""

import json

import pytest
from loops import iterate_some

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
        for name, answers in iterate_some(found.answers.items()):
            for question, answer in iterate_some(answers.items()):
                assert answer.differences == published.answers[name][question].differences


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--environments", "nowhere:Wrapper"], "nowhere"),
        (["--environments", "gymnasium.wrappers:Nothing"], "Nothing"),
        (["--environments", "--algorithms", "ppo"], "drop --algorithms"),
        (["--environments", "--fresh"], "drop --fresh"),
        (["--environments", "--answers", "x.json", "--python", "python"], "drop --python"),
        (["--environments", "a:B", "--frameworks", "sb3"], "drop --frameworks"),
        (["--environments", "--releases", "1.0", "--markdown", "x.md"], "drop --markdown"),
        (["--environments", "--probe", "no.question"], "--list"),
    ],
)
def test_refusals_name_what_is_wrong(words, message, capsys):
    assert dispatch_command(["probe", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["def (", "raise SystemExit(0)", "raise RuntimeError('no')", None])
def test_a_module_that_cannot_be_imported_is_named(text, tmp_path, monkeypatch, capsys):
    name = ".relative:Wrapper" if text is None else f"unusable_{len(text)}:Wrapper"
    (tmp_path / f"{name.partition(':')[0]}.py").write_text(text or "")
    monkeypatch.syspath_prepend(tmp_path)
    assert dispatch_command(["probe", "--environments", name]) == 2
    assert f"--environments {name} cannot be loaded: " in capsys.readouterr().err


ANSWER = {"outcome": "differs", "words": "a; b", "measured": [1.0]}
HOSTILE = "<img src=x>[c](http://evil.example)\x1b[31m"


def store_answers(file, **changes):
    fields = {"versions": {"gymnasium": "1"}, "answers": {"wrapper": {"role.question": ANSWER}}}
    file.write_text(json.dumps(fields | changes))
    return ["probe", "--environments", "--answers", str(file)]


@pytest.mark.parametrize(
    "changes",
    [
        {"versions": 3},
        {"versions": {"gymnasium": [1]}},
        {"seconds": "long"},
        {"missing": [1]},
        {"missing": {"wrapper": 3}},
        {"answers": {"wrapper": []}},
        *(
            {"answers": {"wrapper": {"role.question": ANSWER | change}}}
            for change in ({"outcome": []}, {"words": 3}, {"words": None}, {"measured": ["x"]})
        ),
    ],
)
def test_stored_answers_of_other_types_are_refused(tmp_path, capsys, changes):
    assert dispatch_command(store_answers(tmp_path / "answers.json", **changes)) == 2
    assert "answers.json cannot be read as answers" in capsys.readouterr().err


def test_texts_of_stored_answers_are_escaped(tmp_path, capsys):
    answers = {HOSTILE: {"role.question": ANSWER | {"words": HOSTILE}}}
    texts = {"versions": {HOSTILE: HOSTILE}, "missing": {HOSTILE: HOSTILE}, "answers": answers}
    page = tmp_path / "page.md"
    words = store_answers(tmp_path / "answers.json", **texts)
    assert dispatch_command([*words, "--all", "--markdown", str(page)]) == 0
    printed, written = capsys.readouterr().out, page.read_text()
    assert "\x1b" not in printed + written and printed.count(r"\x1b[31m") > 5
    assert written.count("&lt;img src=x") > 4 and "<img" not in written
    assert r"](http:/\/evil" in written and "](http://evil" not in written
