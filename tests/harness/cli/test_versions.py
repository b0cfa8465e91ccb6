"""`parallax versions --bisect`: it measures few releases, and finds the one with a planted bug."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import stable_baselines3
import support

from parallax.harness.cli import versions as command
from parallax.harness.cli.main import main
from parallax.harness.probes.results import (
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    make_missing_answer,
)
from parallax.harness.versions import environments
from parallax.harness.versions.history import (
    ReleaseHistory,
    ReleaseRecord,
    history_to_text,
    load_history,
)

RELEASES = tuple(f"2.{minor}.{patch}" for minor in range(10) for patch in range(3))
PROBE = "sac.critic_target"
HISTORY = Path(__file__).parents[3] / "docs" / "history"


def answer(number):
    value = np.array([float(number)])
    return ProbeAnswer(value, value + 1, AnswerComparison("number", 1 / (number + 1)), "a number")


def make_history(version, found, probe=PROBE):
    result = ProbeResult(probe, "sac", "?", "paper", "units", None, {version: found}, ())
    report = ProbeReport((result,), {version: ("x 1",)}, {}, 1.0)
    return ReleaseHistory("sb3", report, {version: ReleaseRecord()})


@pytest.fixture
def measured(monkeypatch):
    """Releases that were measured; 2.3.1 is the first one with another answer, 2.5.0 is broken."""
    found = []

    def measure(framework, version, probes, cache, on_answer):
        found.append(version)
        if version == "2.5.0":
            return make_history(version, make_missing_answer("it broke", failed=True))
        return make_history(version, answer(version >= "2.3.1"))

    monkeypatch.setattr(command, "measure_release", measure)
    monkeypatch.setattr(command, "list_released_versions", lambda supported: RELEASES)
    return found


def test_bisection_builds_few_environments(measured, capsys):
    assert main(["versions", "sb3", "--bisect", PROBE, "2.0.0..2.9.2"]) == 0
    out = capsys.readouterr().out
    assert f"{PROBE} changed from 2.3.0 to 2.3.1:" in out
    assert f"{len(measured)} of 30 releases were measured." in out
    assert len(set(measured)) == len(measured) <= 2 + 5 + 1  # one more, since 2.5.0 is broken


def test_bisection_uses_stored_answers_and_stores_new_ones(measured, tmp_path, capsys):
    file = tmp_path / "sb3.json"
    words = ["versions", "sb3", "--bisect", PROBE, "2.0.0..2.9.2", "--json", str(file)]
    assert main(words) == 0
    stored = set(load_history("sb3", file).report.versions)
    assert stored == set(measured)
    measured.clear()
    assert main(words) == 0
    assert measured == []
    assert "changed from 2.3.0 to 2.3.1" in capsys.readouterr().out


def test_failed_answers_to_other_probes_do_not_count(measured, tmp_path, capsys):
    file, other = tmp_path / "sb3.json", make_missing_answer("it broke", failed=True)
    file.write_text(history_to_text(make_history("2.0.0", other, "sac.log_prob")))
    words = ["versions", "sb3", "--bisect", PROBE, "2.0.0..2.9.2", "--json", str(file)]
    assert main(words) == 0
    assert "changed from 2.3.0 to 2.3.1" in capsys.readouterr().out


def test_bisection_without_a_change_measures_two_releases(measured, capsys):
    assert main(["versions", "sb3", "--bisect", PROBE, "2.0.0..2.3.0"]) == 0
    assert f"{PROBE}: 2.3.0 answers as 2.0.0." in capsys.readouterr().out
    assert sorted(measured) == ["2.0.0", "2.3.0"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sac.no_such_probe", "2.0.0..2.9.2"], "is not a probe"),
        ([PROBE, "2.0.0"], "write two releases"),
        ([PROBE, "1.8.0..2.9.2"], "Use stable-baselines3>=2.0"),
        ([PROBE, "2.9.2..2.0.0"], "0 known releases"),
        ([PROBE, "2.5.0..2.9.2"], "Name a later release"),
    ],
)
def test_wrong_bisections_are_refused(measured, words, message, capsys):
    assert main(["versions", "sb3", "--bisect", *words]) == 2
    assert message in capsys.readouterr().err


def test_versions_page_is_up_to_date(tmp_path):
    folder = shutil.copytree(HISTORY, tmp_path / "history")
    before = (folder / "README.md").read_text()
    assert main(["versions", "--page", str(folder)]) == 0
    assert (folder / "README.md").read_text() == before


def test_page_shows_no_file_that_a_link_in_the_folder_names(tmp_path, capsys):
    folder = shutil.copytree(HISTORY, tmp_path / "history")
    before = (folder / "README.md").read_text()
    (tmp_path / "secret").write_text("my secret")
    (folder / "trainings.sh").unlink()
    (folder / "trainings.sh").symlink_to(tmp_path / "secret")
    assert main(["versions", "--page", str(folder)]) == 2
    assert f"{folder / 'trainings.sh'} cannot be shown (is a link" in capsys.readouterr().err
    assert (folder / "README.md").read_text() == before


@pytest.mark.long
def test_a_bug_planted_in_a_release_is_found_by_real_probes(tmp_path, monkeypatch, capsys):
    source = Path(stable_baselines3.__file__).parent

    def install(requirements, folder):
        support.install(requirements, folder)
        version = requirements[0].partition("==")[2]
        copy = folder / "stable_baselines3"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if version >= "2.6.0":
            file = copy / "common" / "utils.py"
            text = file.read_text()
            planted = text.replace("target_param.data.mul_(1 - tau)", "target_param.data.mul_(1)")
            assert planted != text
            file.write_text(planted)

    releases = ("2.4.0", "2.4.1", "2.5.0", "2.6.0", "2.7.0", "2.7.1", "2.8.0", "2.9.0", "2.9.2")
    monkeypatch.setattr(environments, "install_packages", install)
    monkeypatch.setattr(command, "list_released_versions", lambda supported: releases)
    words = ["--bisect", "td3.target_update", "2.4.0..2.9.2", "--cache", str(tmp_path)]
    assert main(["versions", "sb3", *words]) == 0
    out = capsys.readouterr().out
    assert "td3.target_update changed from 2.5.0 to 2.6.0:" in out
    built = list(next(tmp_path.glob("python*")).iterdir())
    assert len(built) <= 2 + 3 and f"{len(built)} of 9 releases were measured." in out
