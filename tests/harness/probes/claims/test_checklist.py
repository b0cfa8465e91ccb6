"""The 37 details of PPO, answered by stored answers and by the installed frameworks' files."""

import dataclasses
import json

import pytest

from parallax.harness.cli import main
from parallax.harness.probes.baseline import load_report
from parallax.harness.probes.claims.checklist import (
    ABSENT,
    COMPONENT,
    DEFAULT,
    IMPORT_NAMES,
    LEFT,
    OPTION,
    UNKNOWN,
    count_checked,
    judge_detail,
    judge_details,
    load_details,
)
from tests.support import ROOT

STORED = ROOT / "docs" / "differences.json"
DETAILS = load_details()


@pytest.fixture(scope="module")
def report():
    return load_report(STORED)


@pytest.fixture(scope="module")
def answers(report):
    return judge_details(report, DETAILS)


def test_there_are_as_many_details_as_the_paper_has():
    parts = [detail.part for detail in DETAILS]
    assert [parts.count(part) for part in dict.fromkeys(parts)] == [13, 9, 9, 5, 1]
    assert [detail.number for detail in DETAILS] == list(range(1, 38))


# Read in the installed sources: file and line of each stand in the page.
@pytest.mark.parametrize(
    ("number", "framework", "status"),
    [
        (2, "cleanrl", DEFAULT),  # layer_init(..., std=0.01), std=1.0, np.sqrt(2)
        (2, "sbx", ABSENT),  # flax's own initialization
        (3, "skrl", ABSENT),  # torch.optim.Adam without eps
        (4, "cleanrl", DEFAULT),  # anneal_lr=True
        (4, "sb3", OPTION),  # a schedule as learning_rate
        (7, "skrl", ABSENT),  # compute_gae standardises the whole rollout
        (9, "sb3", ABSENT),  # the clipped error alone
        (11, "sbx", ABSENT),  # two optimizers, each clipped to 0.5
        (17, "torchrl", ABSENT),
        (27, "torchrl", ABSENT),  # TanhNormal
        (28, "skrl", COMPONENT),
        (37, "cleanrl", ABSENT),  # ppo_multidiscrete.py is not in the wheel
    ],
)
def test_answers_are_those_of_the_sources(answers, number, framework, status):
    assert answers[number][framework].status == status


def test_what_the_users_bring_is_not_answered_by_our_recipe(answers):
    for name in ("torchrl", "tianshou", "skrl"):
        assert answers[2][name].status == LEFT
        assert "our recipe" in answers[2][name].evidence


def test_every_answer_has_evidence(answers):
    for row in answers.values():
        assert set(row) == set(IMPORT_NAMES)
        assert all(answer.evidence for answer in row.values())
    assert count_checked(answers)["sb3"] == len(DETAILS)


def test_a_component_that_moved_is_not_checked(report):
    detail = next(d for d in DETAILS if d.number == 14)
    moved = dataclasses.replace(detail, code={"sb3": ("stable_baselines3/ppo/ppo.py", "Noop")})
    assert judge_detail(moved, "sb3", {}).status == UNKNOWN
    denied = dataclasses.replace(detail, code={"sb3": None}, words={"sb3": "class NoopReset"})
    assert "which the checklist does not know" in judge_detail(denied, "sb3", {}).evidence


def test_the_published_page_is_that_of_the_stored_answers(tmp_path, capsys):
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    for path in (page, data):
        words = ["probe", "--algorithms", "ppo", "--answers", str(STORED), "--details", str(path)]
        assert main.dispatch_command(words) == 0
    assert page.read_text() == (ROOT / "docs" / "reference" / "ppo-details.md").read_text()
    assert len(json.loads(data.read_text())) == len(DETAILS)


def test_answers_to_other_questions_are_refused(tmp_path, capsys):
    words = ["probe", "--probe", "sac.tau", "--answers", str(STORED)]
    assert main.dispatch_command([*words, "--details", str(tmp_path / "page.md")]) == 2
    assert "--details needs the answers to all probes of PPO" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()
