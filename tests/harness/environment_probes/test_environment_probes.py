"""Environments and wrappers that are compared with definitions."""

import json
import os

import pytest
from loops import iterate_some

from parallax.harness.cli.main import dispatch_command
from parallax.harness.environment_probes import page
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


QUESTION = page.ALL_QUESTIONS[0].name
ANSWER = {"outcome": "differs", "words": "a; b", "measured": [1.0]}
HOSTILE = "<img src=x>[c](http://evil.example)\x1b[31m"


def store_answers(file, **changes):
    fields = {"versions": {"gymnasium": "1"}, "answers": {"wrapper": {QUESTION: ANSWER}}}
    file.write_text(json.dumps(fields | changes))
    return ["probe", "--environments", "--answers", str(file)]


@pytest.mark.parametrize(
    "changes",
    [
        {"versions": 3},
        {"versions": {"gymnasium": [1]}},
        {"seconds": "long"},
        {"seconds": -1},
        {"seconds": 1e300},
        {"missing": [1]},
        {"missing": {"wrapper": 3}},
        {"answers": {"wrapper": []}},
        *(
            {"answers": {"wrapper": {QUESTION: ANSWER | change}}}
            for change in ({"outcome": []}, {"words": 3}, {"words": None}, {"measured": ["x"]})
        ),
    ],
)
def test_stored_answers_of_other_types_are_refused(tmp_path, capsys, changes):
    assert dispatch_command(store_answers(tmp_path / "answers.json", **changes)) == 2
    assert "answers.json cannot be read as answers" in capsys.readouterr().err


def test_texts_of_stored_answers_are_escaped(tmp_path, capsys):
    answers = {HOSTILE: {QUESTION: ANSWER | {"words": HOSTILE}}}
    texts = {"versions": {HOSTILE: HOSTILE}, "missing": {HOSTILE: HOSTILE}, "answers": answers}
    file = tmp_path / "page.md"
    words = store_answers(tmp_path / "answers.json", **texts)
    assert dispatch_command([*words, "--all", "--markdown", str(file)]) == 0
    printed, written = capsys.readouterr().out, file.read_text()
    assert "\x1b" not in printed + written and printed.count(r"\x1b[31m") > 5
    assert written.count("&lt;img src=x") > 4 and "<img" not in written
    assert r"](http:/\/evil" in written and "](http://evil" not in written


def test_answers_to_questions_that_do_not_exist_are_refused(tmp_path, capsys):
    answers = {"wrapper": {"role.nothing": ANSWER}}
    assert dispatch_command(store_answers(tmp_path / "answers.json", answers=answers)) == 2
    assert "question=role.nothing is not known" in capsys.readouterr().err


def test_ends_of_lines_in_stored_answers_begin_no_line(tmp_path, capsys):
    answers = {"wrapper": {QUESTION: ANSWER | {"words": "a\n0 differ", "outcome": "differs"}}}
    words, file = store_answers(tmp_path / "answers.json", answers=answers), tmp_path / "page.md"
    assert dispatch_command([*words, "--all", "--markdown", str(file)]) == 0
    assert "\n0 differ" not in capsys.readouterr().out + file.read_text()


def test_one_question_about_tasks_makes_a_page(tmp_path):
    file, written = DOCS / "environments.json", tmp_path / "page.md"
    words = ["probe", "--environments", "--answers", str(file), "--probe", "task.n"]
    assert dispatch_command([*words, "--markdown", str(written)]) == 0
    assert "Hopper" in written.read_text()


@pytest.mark.parametrize("kind", ["history", "plants"])
@pytest.mark.parametrize(
    "text", ["[]", "{}", "[1]", '{"1": 3}', "[{}]", "null", "[", "9" * 5000, None]
)
def test_files_beside_the_page_of_another_shape_are_refused(tmp_path, capsys, kind, text):
    beside = tmp_path / f"page-{kind}.json"
    beside.write_text(text) if text is not None else os.mkfifo(beside)
    words = [*store_answers(tmp_path / "answers.json"), "--markdown", str(tmp_path / "page.md")]
    assert dispatch_command(words) == 2
    assert f"{beside} is beside the page and cannot be shown" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()
