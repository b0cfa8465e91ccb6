"""Histories of answers over releases, on answers that are made up."""

import numpy as np
import pytest

from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.results import (
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    make_missing_answer,
)
from parallax.harness.versions import environments
from parallax.harness.versions.environments import build_environment, parse_index_answer
from parallax.harness.versions.history import (
    bisect_releases,
    count_failures,
    extend_history,
    find_missing_probes,
    list_answer_changes,
)

RELEASES = ["2.9.0", "2.10.0", "2.0.0", "2.1.0"]


def answer(number):
    value = np.array([float(number)])
    return ProbeAnswer(value, value, AnswerComparison("number", 0.5), "a number")


def report(**numbers):
    answers = {
        name.replace("_", ".")[1:]: make_missing_answer("it broke", failed=True)
        if number is None
        else answer(number)
        for name, number in numbers.items()
    }
    result = ProbeResult("sac.critic_target", "sac", "?", "paper", "units", None, answers, ())
    return ProbeReport((result,), dict.fromkeys(answers, ("x 1",)), {}, 1.0)


def test_changes_are_between_neighbours_in_the_order_of_numbers():
    history = report(v2_10_0=3, v2_0_0=1, v2_1_0=1, v2_9_0=2)
    changes = list_answer_changes(history, RELEASES)
    assert [(c.before, c.after) for c in changes] == [("2.1.0", "2.9.0"), ("2.9.0", "2.10.0")]


def test_a_release_that_failed_is_skipped_and_counted():
    history = report(v2_0_0=1, v2_1_0=None, v2_9_0=1)
    assert list_answer_changes(history, RELEASES) == []
    assert count_failures(history, RELEASES) == {"2.1.0": 1}


def test_a_history_is_extended_and_measures_nothing_twice():
    history = extend_history(report(v2_0_0=1), report(v2_1_0=2))
    assert set(history.versions) == {"2.0.0", "2.1.0"}
    (result,) = history.results
    assert set(result.answers) == {"2.0.0", "2.1.0"}
    probes = [type("P", (), {"name": "sac.critic_target"}), type("P", (), {"name": "sac.other"})]
    assert [p.name for p in find_missing_probes(history, "2.1.0", probes)] == ["sac.other"]
    assert find_missing_probes(history, "2.2.0", probes) == probes
    assert find_missing_probes(None, "2.2.0", probes) == probes


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


def test_bisection_of_no_change_asks_once():
    assert bisect_releases(["1", "2", "3"], lambda release: False) is None
    assert bisect_releases(["1"], lambda release: True) is None


def test_environments_are_built_once_and_whole(tmp_path, monkeypatch):
    installed = []

    def install(requirements, folder):
        installed.append(requirements)
        if requirements[0].startswith("broken"):
            raise SpecError("broken==1 cannot be installed: no such thing")
        (folder / "module.py").write_text("")

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
