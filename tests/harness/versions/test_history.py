"""Histories of answers over releases, on answers that are made up."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import support
from hypothesis import given
from hypothesis import strategies as st

from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.baseline import load_report
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.probe import group_answers
from parallax.harness.probes.results import (
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    make_missing_answer,
)
from parallax.harness.versions import environments
from parallax.harness.versions import history as history_module
from parallax.harness.versions.environments import build_environment, parse_index_answer
from parallax.harness.versions.history import (
    AnswerChange,
    ReleaseHistory,
    ReleaseRecord,
    bisect_releases,
    extend_history,
    find_missing_probes,
    history_to_text,
    list_answer_changes,
    list_change_causes,
    list_control_pairs,
    list_failures,
    load_history,
    make_empty_history,
    measure_release,
    normalize_source,
    remove_folder,
)

RELEASES = ["2.9.0", "2.10.0", "2.0.0", "2.1.0"]
(CRITIC_TARGET,) = (probe for probe in PROBES if probe.name == "sac.critic_target")
CODE = {"2.0.0": "a", "2.1.0": "a", "2.9.0": "b", "2.10.0": "b"}


def answer(number):
    value = np.array([float(number)])
    return ProbeAnswer(value, value + 1, AnswerComparison("offset", -1.0), "a number")


def history(**numbers):
    answers = {
        name.replace("_", ".")[1:]: make_missing_answer("it broke", failed=True)
        if number is None
        else answer(number)
        for name, number in numbers.items()
    }
    groups = group_answers(CRITIC_TARGET, answers)
    result = ProbeResult(CRITIC_TARGET.name, "sac", "?", "paper", "units", None, answers, groups)
    stored = ProbeReport((result,), dict.fromkeys(answers, ("x 1",)), {}, 1.0)
    records = {name: ReleaseRecord(update_code={"sac": CODE[name]}) for name in answers}
    return ReleaseHistory("sb3", stored, records)


def test_changes_are_between_neighbours_in_the_order_of_numbers():
    changes = list_answer_changes(history(v2_10_0=3, v2_0_0=1, v2_1_0=1, v2_9_0=2), RELEASES)
    assert [(c.before, c.after) for c in changes] == [("2.1.0", "2.9.0"), ("2.9.0", "2.10.0")]


def test_failed_release_is_skipped_and_reported_with_the_reason():
    stored = history(v2_0_0=1, v2_1_0=None, v2_9_0=1)
    assert list_answer_changes(stored, RELEASES) == []
    assert list_failures(stored, "2.1.0") == ["sac.critic_target: it broke"]
    assert list_failures(stored, "2.0.0") == []


def test_reasons_name_no_folder_of_this_machine(tmp_path):
    words = f"FileNotFoundError: {tmp_path}/sac.py"
    result = ProbeResult(
        "sac.x", "sac", "?", "", "", None, {"2.0.0": make_missing_answer(words)}, ()
    )
    (found,) = remove_folder(ProbeReport((result,), {}, {}, 0.0), tmp_path).results
    assert found.answers["2.0.0"].unmeasured == "FileNotFoundError: sac.py"


def test_pairs_with_the_same_update_code_are_compared():
    pairs = list_control_pairs(history(v2_0_0=1, v2_1_0=1, v2_9_0=2, v2_10_0=3), RELEASES)
    assert [(p.before, p.after, p.compared, p.changed) for p in pairs] == [
        ("2.0.0", "2.1.0", 1, ()),
        ("2.9.0", "2.10.0", 1, ("sac.critic_target",)),
    ]


def test_a_history_is_extended_and_measures_nothing_twice():
    stored = extend_history(history(v2_0_0=1), history(v2_1_0=2))
    assert set(stored.releases) == {"2.0.0", "2.1.0"}
    (result,) = stored.report.results
    assert set(result.answers) == {"2.0.0", "2.1.0"}
    probes = [type("P", (), {"name": "sac.critic_target"}), type("P", (), {"name": "sac.other"})]
    assert [p.name for p in find_missing_probes(stored, "2.1.0", probes)] == ["sac.other"]
    assert find_missing_probes(stored, "2.2.0", probes) == probes
    assert find_missing_probes(make_empty_history("sb3"), "2.2.0", probes) == probes
    failed = history(v2_1_0=None)
    assert find_missing_probes(failed, "2.1.0", probes) == probes


def test_a_history_is_stored_without_repeating_answers(tmp_path):
    stored, file = history(v2_0_0=1, v2_1_0=1, v2_9_0=2), tmp_path / "sb3.json"
    file.write_text(history_to_text(stored))
    answers = json.loads(file.read_text())["results"][0]["answers"]
    assert answers["2.1.0"] == "2.0.0" and answers["2.9.0"]["value"] == [2.0]
    again = load_history("sb3", file)
    assert again.releases == stored.releases
    assert history_to_text(again) == file.read_text()
    assert list_answer_changes(again, RELEASES) == list_answer_changes(stored, RELEASES)
    assert load_report(file).results[0].answers["2.1.0"].value == 1.0


def test_a_release_that_cannot_be_installed_has_a_record_with_the_reason(tmp_path, monkeypatch):
    def refuse(requirements, cache):
        raise SpecError(f"{requirements[0]} cannot be installed: no such thing")

    monkeypatch.setattr(history_module, "build_environment", refuse)
    new = measure_release("sb3", "2.0.0", (), tmp_path, print)
    stored = extend_history(history(v2_9_0=1), new)
    (reason,) = list_failures(stored, "2.0.0")
    assert reason == "stable-baselines3==2.0.0 cannot be installed: no such thing"
    file = tmp_path / "sb3.json"
    file.write_text(history_to_text(stored))
    assert load_history("sb3", file).releases == stored.releases


@pytest.mark.parametrize("first_changed", range(1, 12))
def test_bisection_finds_the_release_with_few_environments(first_changed):
    releases = [str(number) for number in range(12)]
    queried = []

    def is_changed(release):
        queried.append(release)
        return int(release) >= first_changed

    found = bisect_releases(releases, is_changed)
    assert found == (str(first_changed - 1), str(first_changed))
    assert len(queried) <= 5


@given(st.integers(1, 11), st.sets(st.integers(1, 11)))
def test_bisection_skips_releases_that_cannot_be_measured(first_changed, broken):
    def is_changed(release):
        return None if int(release) in broken else int(release) >= first_changed

    found = bisect_releases([str(number) for number in range(12)], is_changed)
    working = [number for number in range(12) if number not in broken]
    changed = [number for number in working if number >= first_changed]
    expected = (str(working[working.index(changed[0]) - 1]), str(changed[0])) if changed else None
    assert found == expected


def test_bisection_without_a_change_queries_once():
    assert bisect_releases(["1", "2", "3"], lambda release: False) is None
    assert bisect_releases(["1"], lambda release: True) is None


def test_environments_are_built_once_and_completely(tmp_path, monkeypatch):
    installed = []

    def install(requirements, folder):
        installed.append(requirements)
        if requirements[0].startswith("broken"):
            raise SpecError("broken==1 cannot be installed: no such thing")
        support.install(requirements, folder)

    monkeypatch.setattr(environments, "install_packages", install)
    first = build_environment(["good==1", "beside==2"], tmp_path)
    assert first.exists() and build_environment(["good==1", "beside==2"], tmp_path) == first
    assert len(installed) == 1
    with pytest.raises(SpecError, match="cannot be installed"):
        build_environment(["broken==1"], tmp_path)
    assert [folder.name for folder in first.parents[2].iterdir()] == ["good-1+beside-2"]
    (shared,) = first.parents[1].rglob("*.pth")
    assert "site-packages" in shared.read_text()


def test_the_index_is_read_from_pips_output():
    text = "skrl (2.1.1)\nAvailable versions: 2.1.1, 2.1.0, 2.0.0\n  INSTALLED: 2.1.1\n"
    assert parse_index_answer(text) == ["2.1.1", "2.1.0", "2.0.0"]
    assert parse_index_answer("nothing") == []


def test_update_code_is_compared_without_comments_types_imports_and_command_lines():
    old = """
import a
def parse_args():
    return 1
class A:
    '''Doc.'''
    x: int = 1
    def f(self, y: float) -> int:
        return y
"""
    new = """
from b import a
def parse_args():
    return 2
class A:
    x = 1  # why
    def f(self, y):
        '''Other.'''
        return y
"""
    assert normalize_source(old) == normalize_source(new)
    assert normalize_source(old) != normalize_source(new.replace("return y", "return -y"))


def test_causes_are_those_of_the_releases_between_and_of_the_probes(tmp_path):
    entry = '"2.10.0":\n  - probes: ["dqn.*"]\n    cause: The loss is clipped.\n'
    (tmp_path / "change_causes.yaml").write_text(entry)
    changes = [
        AnswerChange("dqn.loss", "2.9.0", "2.11.0", ""),
        AnswerChange("dqn.steps", "2.8.0", "2.9.0", ""),
        AnswerChange("dqn.seed", "2.10.0", "2.11.0", ""),
        AnswerChange("sac.loss", "2.9.0", "2.10.0", ""),
    ]
    (cause,) = list_change_causes(SimpleNamespace(folder=tmp_path), changes)
    assert cause == "2.10.0: The loss is clipped. Changed: `dqn.loss`."


@pytest.mark.parametrize(
    "change",
    [
        lambda content: [content],
        lambda content: content | {"releases": [1]},
        lambda content: content | {"releases": {"2.0.0": {"update_code": 5}}},
        lambda content: content | {"releases": {"2.0.0": {"failure": 5}}},
        lambda content: content | {"results": 2 * content["results"]},
    ],
)
def test_fields_of_another_type_are_refused(tmp_path, change):
    file = tmp_path / "sb3.json"
    file.write_text(history_to_text(history(_2_0_0=1)))
    load_history("sb3", file)
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    with pytest.raises(SpecError, match="holds no history"):
        load_history("sb3", file)
