"""A run through the harness ends in the same weights as skrl alone, bit for bit."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import support

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.record.provenance import hash_weights

pytest.importorskip("skrl")

# Actions range from -3 to 3 there, so that noise and actions in a wrong unit show.
ENVS = {"continuous": "InvertedPendulum-v4", "discrete": "CartPole-v1"}
FORM = ("minibatch-advantage-normalization", "larger-value-loss", "kl-stop-ends-rollout")
FORM += ("lr-decay-per-rollout", "tanh-networks")
LEFT_OUT = "+".join(f"without.{name}" for name in FORM)
STEPS = {"ppo": 1024, "td3": 160, "sac": 160, "ddpg": 160, "dqn": 300}


@pytest.fixture(scope="module")
def reference():
    return support.load_file(Path(__file__).with_name("reference.py"))


def test_upstream_repeats_one_random_action_and_the_harness_does_not():
    # If the first part fails, skrl draws again: take `RandomActionModel` out of the adapter and the
    # reference.
    from skrl.models.torch import Model

    from parallax.adapters.skrl.agents import DeterministicActor, ModelSpaces

    box = gymnasium.spaces.Box(-3, 3, (2,))
    box.seed(0)
    actor, seen = (
        DeterministicActor(ModelSpaces(box, box, "cpu"), [4]),
        {"observations": np.zeros((1, 2))},
    )
    theirs = [Model.random_act(actor, seen)[0].numpy() for _ in range(8)]
    ours = [actor.random_act(seen)[0].numpy() for _ in range(8)]
    assert len(np.unique(theirs, axis=0)) == 1
    assert len(np.unique(ours, axis=0)) == 8
    assert np.abs(ours).max() <= 3


# DDPG represents TD3, whose trainer is the same.
RUNS = [pytest.param(name, marks=pytest.mark.long if name == "td3" else ()) for name in STEPS]


@pytest.mark.parametrize("algorithm", RUNS)
def test_harness_changes_nothing(algorithm, tmp_path, reference):
    steps, env = STEPS[algorithm], ENVS[ALGORITHMS[algorithm].actions]
    overrides = {"epochs": 2} if algorithm == "ppo" else {}
    every = {"steps": steps, "eval_every": steps // 2, "seed": 5, "alignment": "exact"}
    if algorithm == "sac":  # exact would convert the target entropy
        every["intervention"] = "without.log-probability-of-the-scaled-action"
    if algorithm == "ppo":  # exact would normalize the advantages of each minibatch
        every |= {"alignment": "lockstep", "intervention": LEFT_OUT}
    spec = support.spec("skrl", algorithm, hyperparameters=overrides, env=env, **every)
    _, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    # All that is not named here is the recipe's value, so that this tests the recipe as well.
    weights = reference.train(algorithm, env, 5, steps)
    assert run["weights_sha256"] == hash_weights(weights)
