import dataclasses
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import yaml
from loops import iterate_some

from parallax.harness.cli.main import main
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.claims import claims as statements
from parallax.harness.probes.claims import claims as verdicts
from parallax.harness.probes.claims import page as text
from parallax.harness.probes.results import (
    AnswerComparison,
    ProbeAnswer,
    ProbeResult,
    make_missing_answer,
    report_from_dict,
)

DOCS = Path(__file__).parents[4] / "docs"
ANSWERS = DOCS / "differences.json"
AGREES = AnswerComparison("agrees")


@pytest.fixture(scope="module")
def report():
    return report_from_dict(json.loads(ANSWERS.read_text()))


def result(**answers):
    groups = (("a", "b"),) if "b" in answers else (("a",),)
    return ProbeResult("ppo.x", "ppo", "?", "paper: so", "units: one, two", None, answers, groups)


def answer(*numbers, kind="agrees", size=0.0, meaning=""):
    value = np.array(numbers, float)
    return ProbeAnswer(value, value, AnswerComparison(kind, size), meaning)


def verdict(check, **answers):
    fields = {"probe": "ppo.x", "who": ("a",), **check}
    statement = statements.ImplementationClaim("s", "p", "so", (statements.ClaimCheck(**fields),))
    return verdicts.judge_claim(statement, {"ppo.x": result(**answers)})


@pytest.mark.parametrize(
    ("check", "word"),
    [
        ({"kind": "equals", "value": [1, 2]}, "confirmed"),
        ({"kind": "equals", "value": 1}, "refuted"),
        ({"kind": "equals", "value": 2, "take": "largest"}, "confirmed"),
        ({"kind": "equals", "value": 2, "take": ("two",)}, "confirmed"),
        ({"kind": "equals", "value": 4, "take": (1,), "unit": 0.5}, "confirmed"),
        ({"kind": "above", "value": 1.5, "take": "last"}, "confirmed"),
        ({"kind": "below", "value": 1.5}, "refuted"),
        ({"kind": "factor", "value": 2}, "confirmed"),
        ({"kind": "factor", "value": 3}, "refuted"),
        ({"kind": "offset", "value": 2}, "refuted"),
        ({"kind": "paper", "value": True}, "refuted"),
        ({"kind": "paper", "value": False}, "confirmed"),
        ({"kind": "says", "value": "twice"}, "confirmed"),
        ({"kind": "like", "value": "b"}, "confirmed"),
        ({"kind": "unlike", "value": "b"}, "refuted"),
        ({"kind": "set", "value": True}, "confirmed"),
    ],
)
def test_verdict_follows_the_numbers(check, word):
    answers = {name: answer(1, 2, kind="factor", size=2.0, meaning="twice it") for name in "ab"}
    assert verdict(check, **answers).word == word


def test_refutation_states_the_measured_value():
    (finding,) = verdict({"kind": "equals", "value": 0.01}, a=answer(1.0)).findings
    assert finding.measured_text == "1, not 0.01"


@pytest.mark.parametrize(
    "a", [make_missing_answer("no such option"), make_missing_answer("broke", failed=True)]
)
def test_without_an_answer_there_is_no_verdict(a):
    assert verdict({"kind": "paper", "value": True}, a=a).word == "not testable"


def test_a_refusal_by_the_adapter_decides_nothing_about_upstream():
    assert (
        verdict({"kind": "set", "value": False}, a=make_missing_answer("fixed")).word
        == "not testable"
    )
    assert verdict({"kind": "set", "value": False}, a=answer(0.0)).word == "confirmed"
    assert verdict({"kind": "set", "value": True}, a=answer(0.0)).word == "refuted"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "either checks or untestable"),
        ({"checks": [{"probe": "p", "who": ["a"]}]}, "exactly one of"),
        ({"checks": [{"probe": "p", "who": ["a"], "equals": 1, "take": "middle"}]}, "take: middle"),
        ({"checks": [{"probe": "p", "who": ["a"], "paper": True, "take": [0]}]}, "drop take"),
    ],
)
def test_malformed_statements_are_refused(tmp_path, entry, words):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({"one": [{"place": "p", "says": "so", **entry}]}))
    with pytest.raises(SpecError, match=words):
        statements.load_claims(path)


def of_recipe(number):
    return dataclasses.replace(answer(number), origin="recipe")


def test_a_recipe_decides_nothing_and_upstreams_text_does():
    check = statements.ClaimCheck("ppo.x", ("torchrl",), "equals", 1)
    results = {"ppo.x": result(torchrl=of_recipe(1))}

    def word(*checks):
        return verdicts.judge_claim(
            statements.ImplementationClaim("s", "p", "so", checks), results
        ).word

    def reads(kind, value):
        return statements.ClaimCheck("", ("torchrl",), kind, value, file="torchrl/__init__.py")

    assert word(check) == "not testable"
    assert word(check, reads("text", "from  torchrl")) == "confirmed"
    assert word(check, reads("absent", "import torch")) == "refuted"
    assert word(check, reads("text", "no such words")) == "refuted"
    missing = statements.ClaimCheck("", ("torchrl",), "text", "x", file="torchrl/nowhere.py")
    assert word(missing) == "not testable"


def test_an_answer_that_is_like_a_recipes_decides_nothing():
    check = {"kind": "like", "value": "b"}
    assert verdict(check, a=answer(1), b=answer(1)).word == "confirmed"
    assert verdict(check, a=answer(1), b=of_recipe(1)).word == "not testable"


@pytest.mark.parametrize("check", [{"text": "x"}, {"file": "x", "probe": "ppo.x", "text": "x"}])
def test_text_claims_need_a_file_and_no_probe(check, tmp_path):
    path = tmp_path / "statements.yaml"
    entry = {"place": "p", "says": "so", "checks": [{"who": ["sb3"], **check}]}
    path.write_text(yaml.safe_dump({"s": [entry]}))
    with pytest.raises(SpecError, match="needs a probe, or a file and its text"):
        statements.load_claims(path)


def test_every_statement_names_known_probes_and_implementations():
    known = {probe.name for probe in PROBES}
    for statement in iterate_some(statements.load_claims()):
        for check in statement.checks:
            assert check.file or check.probe in known, statement.says
            assert set(check.who) <= set(text.CLAIM_FRAMEWORKS), statement.says


def test_every_box_and_footnote_is_a_claim():
    places = " ".join(statement.place for statement in statements.load_claims())
    boxes = [f"Box {number}" for number in range(1, 8)]
    for place in [*boxes, "footnote 2", "footnote 3", "footnote 4", "D Table 6 **", "D Table 8 **"]:
        assert place in places


def test_page_is_up_to_date(report):
    assert (
        text.render_claims_page(report, statements.load_claims())
        == (DOCS / "differences.md").read_text()
    )


def test_every_statement_has_a_verdict_and_known_errors_are_refuted(report):
    results = {found.probe: found for found in report.results}
    words = {s.says: verdicts.judge_claim(s, results).word for s in statements.load_claims()}
    assert set(words.values()) == {"confirmed", "refuted", "not testable"}
    for says in (
        "SB3 and CleanRL scale the policy's last layer by 1.",
        "SB3 adds no noise to the target policy's action by default.",
        "CleanRL's temperature loss is linear in alpha.",
    ):
        assert words[says] == "refuted"


def test_a_changed_answer_changes_the_verdict(report):
    results = {found.probe: found for found in report.results}
    (statement,) = (s for s in statements.load_claims() if s.says.startswith("SB3 halves"))
    assert verdicts.judge_claim(statement, results).word == "confirmed"
    old = results["sac.critic_loss_factor"]
    answers = {**old.answers, "sb3": old.answers["cleanrl"]}
    results["sac.critic_loss_factor"] = dataclasses.replace(old, answers=answers)
    assert verdicts.judge_claim(statement, results).word == "refuted"


def test_differences_without_a_statement_are_listed(report):
    found = {
        r.probe for r, _ in verdicts.list_unclaimed_differences(report, statements.load_claims())
    }
    assert "sac.critics_seen_by_policy" in found
    assert "sac.critic_loss_factor" not in found


def test_incomplete_answers_are_refused(tmp_path, capsys):
    path = str(tmp_path / "ledger.md")
    assert main(["probe", "--frameworks", "cleanrl", "--claims", path]) == 2
    assert "needs answers of sb3, torchrl, too" in capsys.readouterr().err
    assert main(["probe", "--probe", "sac.", "--claims", path]) == 2
    assert "were not run: drop --algorithms and --probe" in capsys.readouterr().err


@pytest.mark.parametrize(
    "probes",
    ["sac.critic_loss_factor", pytest.param("sac.critic,sac.initial", marks=pytest.mark.long)],
)
def test_stored_answers_are_those_of_the_installed_versions(probes, report, capsys):
    for packages in report.versions.values():
        for package, stored in (entry.split() for entry in packages):
            if version(package) != stored:
                pytest.skip(f"{package} is not {stored}: write docs/differences.json again")
    code = main(["probe", "--frameworks", "cleanrl", "--probe", probes, "--baseline", str(ANSWERS)])
    assert "0 answers changed" in capsys.readouterr().out
    assert code == 0
