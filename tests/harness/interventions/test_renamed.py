"""Interventions under their present names train to the weights that they had under earlier ones."""

import json

import pytest
import support

from parallax.harness.record.old_names import translate_intervention

# Weights of commits 4dbae1a5 and (TorchRL) 356685c6^, by the names of interventions there.
STORED = json.loads((support.ROOT / "tests/data/renamed_interventions.json").read_text())
RECIPES = {"ppo": "original", "td3": "original", "ddpg": "tianshou", "sac": "original"}
OFF_POLICY = {"steps": 500, "eval_every": 500, "hyperparameters": {"learning_starts": 100}}
SETTINGS = {
    "ppo": {"steps": 1024, "eval_every": 1024, "hyperparameters": {"rollout_steps": 256}},
    "dqn": OFF_POLICY | {"steps": 700, "eval_every": 700, "env": "CartPole-v1"},
}


def train(framework, algorithm, name, folder):
    settings = {"env": "Pendulum-v1"} | SETTINGS.get(algorithm, OFF_POLICY)
    spec = support.spec(
        *(framework, algorithm, RECIPES.get(algorithm, "sb3")),
        alignment="common",
        intervention=translate_intervention(name),
        **settings,
    )
    _, content = support.run(spec, folder)
    assert content["status"] == "completed", content.get("failure")
    return content["weights_sha256"][:16]


@pytest.mark.long
@pytest.mark.parametrize("pair", STORED)
def test_renamed_intervention_gives_the_same_weights(pair, tmp_path):
    framework, algorithm = pair.split()
    expected = dict(STORED[pair])
    if train(framework, algorithm, "none", tmp_path) != expected.pop("none"):
        pytest.skip("this machine or these versions train to other weights")
    assert {name: train(framework, algorithm, name, tmp_path) for name in expected} == expected
