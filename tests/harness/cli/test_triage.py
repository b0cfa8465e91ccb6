"""`parallax triage`: from a changed version to a verdict."""

import argparse
import dataclasses
import sys

import pytest

from parallax.analysis.data.packed import REFERENCE_FILE, select_reference_rows
from parallax.analysis.verdicts.sequential import SequentialSchedule, compute_reference_spread
from parallax.harness.cli import main, triage
from parallax.harness.cli.arguments import load_study
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.packed import read_rows
from tests.support import ROOT

FAR_APART = {"a": [0.0], "b": [1000.0], "c": [-1000.0]}


def options(**changes):
    content = {"reference": None, "env": None, "endpoint": "auc", "trust": False, **changes}
    return argparse.Namespace(**content)


@pytest.fixture(scope="module")
def reference():
    return triage.find_reference(options(), "td3")


@pytest.fixture(scope="module")
def short(reference):
    """The reference's setting, but so short that a pair trains in seconds."""
    return shorten(reference, 128, learning_starts=64, hidden_sizes=(16, 16), batch_size=16)


def shorten(reference, steps, **changes):
    """Return a reference of fewer steps, with other hyperparameters."""
    spec = dataclasses.replace(
        *(reference.spec,),
        steps=steps,
        eval_every=steps // 2,
        eval_episodes=2,
        hyperparameters=dataclasses.replace(reference.spec.hyperparameters, **changes),
        overridden=tuple(sorted(changes)),
    )
    return dataclasses.replace(reference, spec=spec, spread=compute_reference_spread(FAR_APART))


def test_the_reference_runs_are_those_of_the_published_study():
    study = list(select_reference_rows(read_rows(ROOT / "docs" / "ladder" / "ladder.parquet")))
    shipped = [row["content_sha256"] for row in read_rows(REFERENCE_FILE)]
    assert shipped == [row["content_sha256"] for row in study]
    assert len(shipped) > 60


def test_the_reference_has_all_frameworks_and_excludes_clear_failures(reference):
    assert len(reference.groups) == 6
    assert reference.spread.low < min(reference.spread.means.values())
    assert reference.bottom < reference.spread.low - 500  # Pendulum's least return
    assert reference.spec.alignment == "exact" and reference.spec.endpoint == "auc"


@pytest.mark.long
def test_equal_trainings_need_two_pairs(short, tmp_path):
    sides = [triage.TriageSide(name, "sb3") for name in ("old", "new")]
    verdict, lines = triage.compare_trainings(
        sides, short, SequentialSchedule(3, 6), argparse.Namespace(results=tmp_path, jobs=2)
    )
    assert verdict == triage.SAME and "2 of 2 pairs" in lines[0]
    assert triage.EXIT_CODES[verdict] == 0


@pytest.mark.long
def test_changed_trainings_are_judged_by_the_spread(short, tmp_path):
    sides = [
        triage.TriageSide("sb3", "sb3"),
        triage.TriageSide("changed", "sb3", "target-update-every-step"),
    ]
    verdict, lines = triage.compare_trainings(
        sides, short, SequentialSchedule(2, 2), argparse.Namespace(results=tmp_path, jobs=2)
    )
    assert verdict == triage.INSIDE
    assert "n = 2 pairs" in lines[0] and "0 pairs are equal" in lines[0]
    assert "inside" in lines[1] and "3 frameworks" in lines[1]


@pytest.mark.long
def test_equal_weights_with_other_evaluations_are_not_equal_trainings(tmp_path):
    # sbx 0.19.0 stretched the actions of predict, which only evaluations use.
    found = triage.find_reference(options(env="Pendulum-v1"), "ppo")
    short = shorten(found, 256, rollout_steps=32, minibatch_size=32, epochs=1)
    sides = [
        triage.TriageSide("sbx", "sbx"),
        triage.TriageSide("stretched", "sbx", "bug.prediction-stretched"),
    ]
    verdict, lines = triage.compare_trainings(
        sides, short, SequentialSchedule(2, 2), argparse.Namespace(results=tmp_path, jobs=1)
    )
    assert verdict != triage.SAME and "0 pairs are equal" in lines[0]


@pytest.mark.long
def test_lockstep_in_other_processes_finds_the_first_difference():
    changed = triage.TriageSide("changed", "sb3", "target-update-every-step")
    sides = [triage.TriageSide("sb3", "sb3"), changed]
    is_equal, lines = triage.compare_in_lockstep(sides, "td3")
    assert not is_equal and "weights of the critic1_target" in lines[0]


def test_rounding_is_no_change_of_the_update():
    # Stable-Baselines3 2.3.2 and 2.4.0 differ in the last bits of PPO, and in no rule.
    assert triage.describe_lockstep(False, None, 20) == (
        True,
        ["Equal to rounding over 20 updates."],
    )
    assert "to the last bit" in triage.describe_lockstep(True, None, 20)[1][0]


def test_sides_that_lockstep_cannot_train_are_not_called_changed(tmp_path):
    sides = [triage.TriageSide(name, "sb3", python=str(tmp_path / "python")) for name in "ab"]
    (tmp_path / "python").symlink_to("/bin/false")
    is_equal, lines = triage.compare_in_lockstep(sides, "td3")
    assert is_equal is None and lines[0].startswith("Not compared")


@pytest.mark.long
def test_lockstep_in_other_processes_finds_no_difference_between_equal_sides():
    sides = [triage.TriageSide(name, "sb3") for name in ("a", "b")]
    assert triage.compare_in_lockstep(sides, "td3")[0] is True


@pytest.mark.long
def test_changed_answers_come_before_numbers_that_follow_from_them():
    sides = [
        triage.TriageSide("sb3", "sb3"),
        triage.TriageSide("changed", "sb3", "value-loss-x0.5"),
    ]
    found = triage.list_changed_answers(sides, "ppo")
    assert found[0].startswith("ppo.value_loss_factor")
    assert len(found) <= triage.MAX_LISTED_CHANGES + 1


def test_changes_are_shortened_by_removing_numbers():
    changed = "before: as in the paper; now: action: off by up to 2 [td3.py:188] (9 -0.1 -> -0.5)"
    assert triage.shorten_change(changed).endswith("off by up to 2 [td3.py:188]")
    assert triage.shorten_change("per target update 3 -> 1") == "per target update 3 -> 1"
    numbers = "as in the paper as before, with other numbers (9 -0.1 -> -0.5)"
    assert triage.shorten_change(numbers) == numbers


def test_names_are_parsed(tmp_path):
    side = triage.parse_side("sb3+value-loss-x0.5", "ppo", tmp_path)
    assert (side.framework, side.intervention) == ("sb3", "value-loss-x0.5")
    assert side.python == sys.executable and side.study == "triage-sb3+value-loss-x0.5"
    assert triage.TriageSide("sb3==2.4.0", "sb3").study == "triage-sb3--2.4.0"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sb4", "sb3", "--algorithms", "ppo"], "sb4 is not known"),
        (["sb3", "sb3", "--algorithms", "ppo"], "named twice"),
        (["sb3", "cleanrl", "--algorithms", "ppo"], "parallax why sb3 cleanrl"),
        (["sb3", "sb3==1.0", "--algorithms", "ppo"], "is not supported"),
        (["sb3", "sb3+nothing", "--algorithms", "ppo"], "nothing"),
        (["sb3", "sb3+x", "--algorithms", "ppo", "--batch", "1"], "--batch 1"),
        (["sb3", "sb3+x", "--algorithms", "ppo", "--env", "Hopper-v9"], "Hopper-v9"),
        (["sb3", "sb3+x", "--algorithms", "ppo", "--endpoint", "best"], "--endpoint best"),
        (["sb3", "sb3+x", "--algorithms", "ppo", "--endpoint", "steps-90"], "use auc"),
        (["sb3", "sb3+x", "--algorithms", "ppo", "--reference", "nowhere"], "nowhere"),
        (["sb3", "sb3+x", "--algorithms", "r2d2"], "r2d2"),
    ],
)
def test_refusals_name_what_to_type(words, message, capsys):
    assert main.dispatch_command(["triage", *words]) == 2
    assert message in capsys.readouterr().err


def test_failed_run_counts_as_the_lowest_score(reference, tmp_path):
    assert triage._score_run(tmp_path / "no run", reference) == reference.bottom


@pytest.mark.parametrize(
    "verdict", [triage.INSIDE, triage.OUTSIDE, triage.CHANGED, triage.INCONCLUSIVE]
)
def test_conclusions_state_whether_the_update_changed(verdict):
    assert triage.conclude(verdict, True).startswith("The update changed")
    assert triage.conclude(verdict, False).startswith("No difference in an update")


def test_equal_trainings_do_not_outweigh_a_changed_answer():
    assert triage.conclude(triage.SAME, False).startswith("No difference")
    assert "has no effect on this task" in triage.conclude(triage.SAME, True)


def test_other_algorithms_have_their_own_reference():
    with pytest.raises(SpecError, match="--no-training"):
        triage.find_reference(options(), "r2d2")


@pytest.mark.parametrize(("changes", "is_used"), [({"logger": "wandb"}, True), ({}, False)])
def test_reference_sets_neither_logger_nor_intervention(monkeypatch, changes, is_used):
    loaded = load_study(REFERENCE_FILE)
    own = {} if is_used else {"intervention": "value-loss-x0.5"}
    runs = [dataclasses.replace(run, spec={**run.spec, **changes, **own}) for run in loaded.runs]
    changed = dataclasses.replace(loaded, runs=tuple(runs))
    monkeypatch.setattr(triage, "load_study", lambda place: changed)
    if is_used:
        assert triage.find_reference(options(), "td3").spec.logger == "none"
    else:
        with pytest.raises(SpecError, match="holds no runs"):
            triage.find_reference(options(), "td3")
