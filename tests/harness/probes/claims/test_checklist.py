"""Checklists of implementation details, answered by stored answers and the frameworks' files."""

import dataclasses
import json

import pytest
from loops import iterate_some

from parallax.harness.cli import main
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes import catalogue
from parallax.harness.probes.baseline import load_report
from parallax.harness.probes.claims import checklist
from parallax.harness.probes.claims.checklist import (
    ABSENT,
    COMPONENT,
    DEFAULT,
    IMPORT_NAMES,
    LEFT,
    MEASURED,
    OPTION,
    READ,
    UNKNOWN,
    count_answers,
    judge_detail,
    judge_details,
    load_checklist,
)
from tests.support import ROOT

STORED = ROOT / "docs" / "differences.json"
FAMILIES = ("ppo", "td3", "sac", "dqn")


@pytest.fixture(scope="module")
def report():
    return load_report(STORED)


@pytest.fixture(scope="module")
def checklists():
    return {name: load_checklist([name]) for name in FAMILIES}


@pytest.fixture(scope="module")
def answers(report, checklists):
    return {name: judge_details(report, found.details) for name, found in checklists.items()}


def find_answer(checklists, answers, name, start, framework):
    """The answer to the one detail whose text begins so."""
    (number,) = [d.number for d in checklists[name].details if d.text.startswith(start)]
    return answers[name][number][framework]


def test_number_of_details_is_that_of_the_paper(checklists):
    details = checklists["ppo"].details
    parts = [detail.part for detail in details]
    assert [parts.count(part) for part in dict.fromkeys(parts)] == [13, 9, 9, 5, 1]
    assert [detail.number for detail in details] == list(range(1, 38))


# Read in the installed sources: the page has file and line of each.
@pytest.mark.parametrize(
    ("number", "framework", "status"),
    [
        (2, "cleanrl", DEFAULT),  # layer_init(..., std=0.01), std=1.0, np.sqrt(2)
        (2, "sbx", ABSENT),  # flax's own initialization
        (3, "skrl", ABSENT),  # torch.optim.Adam without eps
        (4, "cleanrl", DEFAULT),  # anneal_lr=True
        (4, "sb3", OPTION),  # a schedule as learning_rate
        (4, "skrl", OPTION),  # learning_rate_scheduler
        (6, "torchrl", COMPONENT),  # buffers draw with replacement by default
        (7, "skrl", ABSENT),  # compute_gae standardises the whole rollout
        (7, "torchrl", OPTION),  # normalize_advantage=False
        (9, "sb3", ABSENT),  # the clipped error alone
        (9, "sbx", ABSENT),  # clip_range_vf is not used
        (9, "tianshou", OPTION),  # value_clip=False
        (10, "sbx", ABSENT),  # one loss for the policy, one for the value
        (11, "sbx", ABSENT),  # two optimizers, each clipped to 0.5
        (11, "skrl", DEFAULT),  # grad_norm_clip=0.5
        (17, "torchrl", ABSENT),
        (23, "skrl", COMPONENT),  # GaussianMixin
        (27, "torchrl", COMPONENT),  # ClipTransform(in_keys_inv=["action"])
        (28, "skrl", COMPONENT),
        (30, "torchrl", ABSENT),  # VecNorm knows no discount
        (34, "tianshou", COMPONENT),  # the collector resets them
        (37, "cleanrl", ABSENT),  # ppo_multidiscrete.py is not in the wheel
    ],
)
def test_answers_are_those_of_the_sources(answers, number, framework, status):
    assert answers["ppo"][number][framework].status == status


# Read in the installed sources as well.
@pytest.mark.parametrize(
    ("name", "start", "framework", "status"),
    [
        ("td3", "Policy and critics have two hidden layers of 256", "sb3", OPTION),  # 400, 300
        ("td3", "The next action with noise is cut", "tianshou", ABSENT),  # act_ += noise
        ("td3", "The next action with noise is cut", "cleanrl", ABSENT),  # low[0], high[0]
        ("td3", "The next action with noise is cut", "sb3", DEFAULT),  # .clamp(-1, 1)
        ("td3", "The policy maximizes the first critic", "sbx", ABSENT),  # jnp.min(qf_pi)
        ("td3", "The noise in targets", "torchrl", OPTION),  # policy_noise=0.2 of no range
        ("td3", "The critic's loss has a weight decay", "sb3", ABSENT),  # the policy gets it, too
        ("td3", "The critic's loss has a weight decay", "torchrl", LEFT),  # torch.optim.Adam
        ("td3", "Both critics start differently", "torchrl", DEFAULT),  # expanded, drawn anew
        ("td3", "The critics' losses are two mean squared", "torchrl", OPTION),  # smooth_l1
        ("td3", "Evaluations act without noise", "skrl", ABSENT),  # act() adds it
        ("td3", "Minibatches are drawn with replacement", "skrl", OPTION),  # replacement=False
        ("td3", "Exploration noise is an Ornstein", "sb3", COMPONENT),  # dt=1
        ("td3", "The buffer has a million", "tianshou", OPTION),  # batch_size=64
        ("sac", "The correction of the log-prob", "sb3", ABSENT),  # epsilon = 1e-6
        ("sac", "Log-probabilities are those", "sb3", DEFAULT),
        ("sac", "Log-probabilities are those", "cleanrl", ABSENT),  # action_scale in the log
        ("sac", "The log standard deviation", "cleanrl", ABSENT),  # from -5, by a tanh
        ("sac", "Its loss multiplies the temperature itself", "sb3", ABSENT),  # log_ent_coef
        (
            "sac",
            "Policy and temperature learn at each step",
            "cleanrl",
            OPTION,
        ),  # --policy-frequency
        ("sac", "Evaluations act with the mean", "skrl", DEFAULT),  # stochastic_evaluation=False
        ("sac", "The target entropy", "tianshou", COMPONENT),  # AutoAlpha takes a number
        ("dqn", "Errors are clipped", "sb3", DEFAULT),  # smooth_l1_loss
        ("dqn", "Errors are clipped", "skrl", ABSENT),  # mse_loss
        ("dqn", "The norm of gradients is not clipped", "sb3", ABSENT),  # max_grad_norm=10
        ("dqn", "It is copied every 10,000", "sb3", DEFAULT),
        ("dqn", "Evaluations act at random", "cleanrl", DEFAULT),  # epsilon=0.05
        ("dqn", "Evaluations act at random", "sb3", OPTION),  # predict(deterministic=False)
        ("dqn", "All actions are random until", "skrl", OPTION),  # random_timesteps
        ("dqn", "Epsilon falls linearly", "torchrl", COMPONENT),  # EGreedyModule
        ("dqn", "Epsilon begins to fall", "tianshou", COMPONENT),  # env_step of the trainer
        ("dqn", "The network has three convolutions", "skrl", LEFT),  # conv2d in a definition
        ("dqn", "The optimizer is RMSProp", "skrl", ABSENT),  # torch.optim.Adam
    ],
)
def test_answers_of_other_algorithms_are_those_of_the_sources(
    checklists, answers, name, start, framework, status
):
    assert find_answer(checklists, answers, name, start, framework).status == status


def test_user_provided_parts_are_not_answered_by_the_recipe(answers):
    for name in ("torchrl", "tianshou", "skrl"):
        assert answers["ppo"][2][name].status == LEFT
        assert "our recipe" in answers["ppo"][2][name].evidence
    for rows in answers.values():
        found = [answer for row in rows.values() for answer in row.values()]
        measured = [answer.evidence for answer in found if answer.is_measured]
        assert measured and not any("our recipe" in evidence for evidence in measured)


def test_undeclared_upstream_default_answers_no_check(checklists, answers):
    # Tianshou's class of SAC has a tau, TorchRL's loss has none.
    assert find_answer(checklists, answers, "sac", "Targets move", "tianshou").status == DEFAULT
    answer = find_answer(checklists, answers, "sac", "Targets move", "torchrl")
    assert (answer.status, answer.is_measured) == (LEFT, False)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_answer_has_evidence(checklists, answers, name):
    for row in answers[name].values():
        assert set(row) == set(IMPORT_NAMES)
        assert all(answer.evidence for answer in row.values())
    counts = count_answers(answers[name])
    total = len(checklists[name].details)
    assert {sum(found[n] for found in counts.values()) for n in IMPORT_NAMES} == {total}
    assert counts[MEASURED]["sb3"] + counts[READ]["sb3"] == total


def test_checks_name_probes_of_their_algorithms(checklists):
    for found in iterate_some(checklists.values()):
        known = {probe.name for probe in catalogue.select_probes(found.algorithms, [])}
        for detail in iterate_some((*found.details, *found.causes)):
            assert set(detail.list_probes()) <= known


def test_component_with_a_deviating_remark_does_not_count(checklists, answers):
    for name in iterate_some(FAMILIES):
        for detail in iterate_some(checklists[name].details):
            for framework, note in detail.notes.items():
                if any(word in note for word in (" not ", "without ", "keeps ")):
                    assert answers[name][detail.number][framework].status != COMPONENT, note


def test_absence_patterns_are_not_specific_to_one_script(checklists):
    # CleanRL's variables, such as mbenvinds, are in no other package, whatever it does.
    folders = [
        checklist._find_package(name) for key, name in IMPORT_NAMES.items() if key != "cleanrl"
    ]
    patterns = {
        detail.words[framework]
        for found in checklists.values()
        for detail in found.details
        for framework, place in detail.code.items()
        if place is None
    }
    for pattern in iterate_some(sorted(patterns)):
        assert any(checklist._find_pattern(folder, pattern) for folder in folders), pattern


def test_causes_are_answered_by_probes(report, checklists):
    causes = judge_details(report, checklists["ppo"].causes)
    assert causes[1]["cleanrl"].status == ABSENT and causes[1]["sb3"].status == DEFAULT
    assert causes[1]["skrl"].status == OPTION  # time_limit_bootstrap=False
    assert causes[2]["sb3"].status == ABSENT and causes[2]["cleanrl"].status == DEFAULT
    assert {answer.status for answer in causes[4].values()} == {UNKNOWN}


def test_a_component_that_moved_is_not_checked(checklists):
    detail = next(d for d in checklists["ppo"].details if d.number == 14)
    place = ("stable_baselines3/ppo/ppo.py", "Noop", COMPONENT)
    moved = dataclasses.replace(detail, code={"sb3": place})
    assert judge_detail(moved, "sb3", {}).status == UNKNOWN
    denied = dataclasses.replace(detail, code={"sb3": None}, words={"sb3": "class NoopReset"})
    assert "which the checklist does not know" in judge_detail(denied, "sb3", {}).evidence


@pytest.mark.parametrize("name", FAMILIES)
def test_checklist_page_is_up_to_date(tmp_path, checklists, name):
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    for path in (page, data):
        words = ["probe", "--algorithms", name, "--answers", str(STORED), "--details", str(path)]
        assert main.dispatch_command(words) == 0
    assert page.read_text() == (ROOT / "docs" / "reference" / f"{name}-details.md").read_text()
    found = checklists[name]
    assert len(json.loads(data.read_text())) == len(found.details) + len(found.causes)


def test_answers_to_other_questions_are_refused(tmp_path, capsys):
    words = ["probe", "--probe", "sac.tau", "--answers", str(STORED)]
    assert main.dispatch_command([*words, "--details", str(tmp_path / "page.md")]) == 2
    assert "--details needs the answers to all probes" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def test_an_algorithm_without_a_checklist_is_refused():
    assert load_checklist(["ddpg"]).algorithms == ("td3", "ddpg")
    with pytest.raises(SpecError, match="r2d2 has no checklist; use one of ppo, td3, ddpg"):
        load_checklist(["r2d2"])
