"""Interventions in real trainings: what they change, and what they leave alone."""

import dataclasses

import pytest
import support

from parallax.harness.interventions.source import SourceReplacement, SourceSegment, locate_segment
from parallax.harness.record.reading import read_run

SMALL = {"learning_starts": 30, "batch_size": 8, "buffer_size": 100}


def digest(folder, intervention="none", framework="sb3"):
    spec = support.spec(
        framework,
        "sac",
        hyperparameters=SMALL,
        steps=60,
        eval_every=30,
        alignment="common",
        intervention=intervention,
    )
    return support.run(spec, folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Weights of an unchanged run, by framework."""
    folder = tmp_path_factory.mktemp("plain")
    return {name: digest(folder, framework=name)[1] for name in ("sb3", "cleanrl")}


@pytest.mark.parametrize(
    ("framework", "name"), [("sb3", "critic-loss-x1"), ("cleanrl", "critic-loss-x0.5")]
)
def test_intervention_changes_a_run_and_is_recorded(framework, name, plain, tmp_path):
    folder, run = digest(tmp_path, name, framework)
    assert run["status"] == "completed", run["failure"]
    assert run["weights_sha256"] != plain[framework]["weights_sha256"]
    assert run["interventions"][name]["source"][0]["replace"]
    assert "interventions" not in plain[framework]
    assert read_run(folder).complete and read_run(folder).record.spec.intervention == name
    # Nothing is left behind in this process.
    _, again = digest(tmp_path, framework=framework)
    assert again["weights_sha256"] == plain[framework]["weights_sha256"]


def test_the_task_is_changed_for_training_and_not_for_evaluation(plain, tmp_path):
    _, run = digest(tmp_path, "reward-times-10")
    assert run["status"] == "completed", run["failure"]
    assert run["weights_sha256"] != plain["sb3"]["weights_sha256"]
    assert run["interventions"]["reward-times-10"]["wrap"][0]["factor"] == 10


PIECES = {
    "sb3": [
        SourceSegment("stable_baselines3.sac.sac", "SAC.train", "critic_loss = 0.5 * sum(", ""),
        SourceSegment(
            "stable_baselines3.sac.sac",
            "SAC.train",
            "self.actor.optimizer.zero_grad()\nactor_loss.backward()\n",
            "",
        ),
    ],
    "cleanrl": [
        SourceSegment("cleanrl.sac_continuous_action", "", "qf_loss = qf1_loss + qf2_loss\n", "")
    ],
}


@pytest.mark.parametrize("framework", PIECES)
def test_segment_replaced_by_itself_changes_no_result(framework, plain, tmp_path):
    same = [dataclasses.replace(piece, replace=piece.find) for piece in PIECES[framework]]
    assert all(locate_segment(piece) for piece in same)
    with SourceReplacement(same).apply_replacement():
        _, run = digest(tmp_path, framework=framework)
    assert run["weights_sha256"] == plain[framework]["weights_sha256"]
