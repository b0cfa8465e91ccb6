"""Runs of frameworks, watched: the same weights, and a diagnosis in the folder."""

import dataclasses
import json

import pytest
import support

from parallax.harness.cli.run_watch import format_findings
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.record.reading import read_diagnosis

SMALL = {"sb3": ("ppo", {"rollout_steps": 64, "minibatch_size": 32, "epochs": 2})}
SMALL["cleanrl"] = ("dqn", {"learning_starts": 64, "batch_size": 16, "buffer_size": 500})


@pytest.fixture(scope="module", params=support.frameworks("sb3", "cleanrl"))
def both(request, tmp_path_factory):
    algorithm, values = SMALL[request.param]
    spec = support.spec(request.param, algorithm, hyperparameters=values, steps=320, eval_every=320)
    runs = []
    for mode in ("off", "on"):
        one = dataclasses.replace(spec, diagnosis={"mode": mode, "period": 40})
        runs.append(support.run(one, tmp_path_factory.mktemp(mode)))
    return runs


def test_run_diagnosis_does_not_change_weights(both):
    (_, off), (_, on) = both
    assert off["status"] == on["status"] == "completed", (off["failure"], on["failure"])
    assert off["weights_sha256"] == on["weights_sha256"]


def test_run_folder_has_the_findings(both):
    (off, _), (on, _) = both
    assert not (off / "diagnosis.json").exists()
    report = json.loads((on / "diagnosis.json").read_text())
    assert report["mode"] == "on" and report["n_evaluations"] >= 2 and not report["problems"]
    assert (
        report["evaluations"]["vanishing-or-exploding-gradients"]
        and report["evaluations"]["bad-weights"]
    )
    assert read_diagnosis(on).reason == "" and "not requested" in read_diagnosis(off).reason
    assert "1 runs, 1 of them with a diagnosis" in format_findings(on, notes=True)


def test_diagnosis_is_not_part_of_the_run_identity(both, tmp_path):
    plain = support.spec()
    watched = dataclasses.replace(plain, diagnosis={"mode": "strict"})
    assert plain == watched and plain.folder(tmp_path) == watched.folder(tmp_path)
    recorded = spec_to_dict(watched)
    assert spec_from_dict(recorded).diagnosis == {"mode": "strict"}
    del recorded["diagnosis"]  # as older folders are
    assert spec_from_dict(recorded).diagnosis == {"mode": "off"}


def test_damaged_report_is_reported_without_failing_the_run(both):
    folder = both[1][0]
    path = folder / "diagnosis.json"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    try:
        assert "cannot be read" in read_diagnosis(folder).reason
    finally:
        path.write_bytes(whole)
