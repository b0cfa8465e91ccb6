"""Declared effects of interventions on probes are compared with the answers."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from parallax.harness.contract.adapter import Adapter
from parallax.harness.interventions import catalogue
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.intervention_check import list_wrong_predictions
from parallax.harness.probes.results import report_from_dict

ANSWERS = Path(__file__).parents[3] / "docs" / "differences.json"
FACTOR, ORDER = "sac.critic_loss_factor", "sac.update_order"


@pytest.fixture(scope="module")
def report():
    """Stored answers, with those of a changed framework that has the critic loss of CleanRL's."""
    found = report_from_dict(json.loads(ANSWERS.read_text()))
    results = []
    for result in found.results:
        if result.probe in (FACTOR, ORDER):
            whose = "cleanrl" if result.probe == FACTOR else "sb3"
            answers = {**result.answers, "sb3+mine": result.answers[whose]}
            results.append(dataclasses.replace(result, answers=answers))
    return dataclasses.replace(found, results=tuple(results))


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        (f"{FACTOR}: as in cleanrl", None),
        (
            f"{FACTOR}: as in sb3",
            "predicts 'as in sb3' as the answer of .*, and it is not: correct",
        ),
        (f"{ORDER}: as in cleanrl", "and it is not: correct the replacement"),
        (
            f"{ORDER}: as in sb3",
            "and it is so without the intervention too: predict a probe that changes",
        ),
        ("sac.nothing: 1", "which is not a probe: parallax probe --list"),
    ],
)
def test_prediction_is_met_and_changes_an_answer(answers, complaint, report, tmp_path, monkeypatch):
    entry = f"mine: {{does: So., algorithms: [sac], set: {{gamma: 1}}, answers: {{{answers}}}}}"
    (tmp_path / catalogue.INTERVENTIONS_FILE).write_text(entry)
    monkeypatch.setattr(Adapter, "folder", property(lambda adapter: tmp_path))
    probes = [probe for probe in PROBES if probe.name in (FACTOR, ORDER)]
    found = list_wrong_predictions(report, "sb3", "mine", probes)
    if complaint is None:
        assert found == []
    else:
        (said,) = found
        assert str(tmp_path / catalogue.INTERVENTIONS_FILE) in said and "mine" in said
        assert re.search(complaint, said), said
