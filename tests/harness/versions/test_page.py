"""The page of histories and its figures, on a history that is made up."""

import datetime
import json

import numpy as np
import pytest
from loops import iterate_some

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.versions.figures import list_answer_rows, list_bug_lifetimes, spread_labels
from parallax.harness.versions.history import (
    ReleaseRecord,
    history_to_text,
    load_history,
    load_release_dates,
)
from parallax.harness.versions.page import BugEffect, render_files
from tests.harness.versions.test_history import history

FRAMEWORKS = ("cleanrl", "sb3", "sbx", "skrl", "tianshou", "torchrl")
TODAY = datetime.date(2026, 10, 26)


@pytest.fixture
def folder(tmp_path):
    stored = history(v2_0_0=1, v2_1_0=1, v2_9_0=2)
    stored.releases["2.8.0"] = ReleaseRecord(failure="it cannot be installed")
    (tmp_path / "sb3.json").write_text(history_to_text(stored))
    return tmp_path


def test_the_page_has_changes_failures_and_bugs(folder):
    texts = {path.name: text for path, text in render_files(folder).items()}
    assert set(texts) == {"README.md", "sb3.svg"}
    page = texts["README.md"]
    assert "**1 answers changed from one release to the next, in 3 releases.**" in page
    assert "| 2.1.0 -> 2.9.0 | 2026-06-15 | `sac.critic_target` |" in page
    assert "| 2.8.0 | it cannot be installed |" in page
    assert "| Stable-Baselines3 | dqn |" in page and "| CleanRL | none |" in page
    assert texts["sb3.svg"] == {p.name: t for p, t in render_files(folder).items()}["sb3.svg"]


def test_a_folder_without_histories_is_refused(tmp_path):
    with pytest.raises(SpecError, match="holds no FRAMEWORK"):
        render_files(tmp_path)


def test_rows_number_answers_and_mark_missing_ones(folder):
    stored = load_history("sb3", folder / "sb3.json")
    (row,) = list_answer_rows(stored, ["2.0.0", "2.1.0", "2.8.0", "2.9.0"])
    assert list(row.answers.values()) == [0, 0, None, 1]


def test_labels_do_not_overlap_and_are_inside():
    places = spread_labels([0.0, 0.1, 5.0, 9.9, 10.0], 0.5, 10.0)
    assert (np.diff(places) > 0.5 - 1e-9).all() and places[-1] <= 10.0
    assert places[2] == 5.0


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_dates_of_bugs_and_releases_are_known_and_in_order(framework):
    adapter = load_adapter(framework)
    dates = load_release_dates(adapter)
    assert dates and all(isinstance(day, datetime.date) for day in dates.values())
    for bug in iterate_some(list_bug_lifetimes(adapter, dates)):
        if bug.release.first_bad:
            assert bug.introduced, bug
        if bug.release.first_good:
            assert bug.fixed, bug
        months = bug.count_months(TODAY)
        assert months is None or months > 0, bug


def test_answers_of_stored_histories_name_earlier_releases(folder):
    content = json.loads((folder / "sb3.json").read_text())
    assert content["results"][0]["answers"]["2.1.0"] == "2.0.0"


def test_the_page_has_refused_releases_and_their_reasons(folder):
    page = render_files(folder)[folder / "README.md"]
    supported = load_adapter("tianshou").supported_versions
    assert f"- Tianshou: `{supported}` is supported. {supported.why_not_older}" in page


def test_effects_on_trainings_have_their_numbers_and_commands(folder):
    numbers = (5, 400.0, -100.4, -180.0, -20.6, 0.024)
    effect = BugEffect("sb3", "ppo", "signed-kl", "CartPole-v1, 9 steps", *numbers, "changes")
    assert "Does a bug change training?" not in render_files(folder)[folder / "README.md"]
    page = render_files(folder, [effect], "parallax train\n")[folder / "README.md"]
    assert "| 5 | 400 | -100 \\[-180, -21] | 0.024 | changes |" in page
    assert "which can be negative. (`bug.signed-kl`, PPO)" in page
    assert "```sh\nparallax train\n```" in page
