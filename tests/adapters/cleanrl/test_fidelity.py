"""A run through the harness ends in the weights that the script alone ends in, bit for bit."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import support

from parallax.adapters.cleanrl.scripts import read_script
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.record.provenance import hash_weights
from parallax.harness.record.reading import read_run

ENVS = {"continuous": "Hopper-v4", "discrete": "CartPole-v1"}
CASES = {
    "ppo": (
        1100,  # of which two rollouts are whole: the script leaves out the rest
        {"rollout_steps": 512, "minibatch_size": 16, "epochs": 2},
        ["--num-steps", "512", "--update-epochs", "2"],  # in 32 minibatches, as by default
    ),
    "td3": (340, {"learning_starts": 300}, ["--learning-starts", "300"]),
    "sac": (340, {"learning_starts": 300}, ["--learning-starts", "300"]),
    "ddpg": (340, {"learning_starts": 300}, ["--learning-starts", "300"]),
    "dqn": (
        2000,
        {"learning_starts": 500, "exploration_steps": 1000},
        ["--learning-starts", "500"],
    ),
}


DISCRETE_PPO = ["--num-envs", "1", "--num-steps", "512", "--num-minibatches", "32"]
DISCRETE_PPO += ["--update-epochs", "2", "--learning-rate", "3e-4", "--ent-coef", "0"]
"""Options of ppo.py whose defaults are not those of ppo_continuous_action.py, as in `CASES`."""


@pytest.mark.parametrize(
    ("algorithm", "wrappers", "actions"),
    [
        *((algorithm, "none", ALGORITHMS[algorithm].actions) for algorithm in CASES),
        ("ppo", "normalized", "continuous"),
        ("ppo", "none", "discrete"),
    ],
)
def test_harness_changes_nothing(algorithm, wrappers, actions, tmp_path):
    # The script's own four wrappers replace those of the harness, and are the same.
    steps, unified, native = CASES[algorithm]
    env, discrete = ENVS[actions], actions == "discrete"
    if algorithm == "ppo" and discrete:
        native = DISCRETE_PPO
    spec = support.spec(
        "cleanrl",
        algorithm,
        hyperparameters=unified,
        env=env,
        steps=steps,
        eval_every=steps // 2,
        seed=5,
        wrappers=wrappers,
    )
    folder, run = support.run(spec, tmp_path)
    assert read_run(folder).complete
    # All that is not named here is the script's own default: this tests the recipe file as well.
    script, _ = read_script(algorithm, actions)
    arguments = ["--env-id", env, "--seed", "5", "--total-timesteps", str(steps), *native]
    output = tmp_path / "weights.npz"
    # A process of its own, which need not import everything again.
    alone = multiprocessing.get_context("fork").Process(
        target=support.load_file(Path(__file__).with_name("reference.py")).main,
        args=(output, script, arguments),
        kwargs={"own_wrappers": wrappers == "normalized"},
    )
    alone.start()
    alone.join()
    assert alone.exitcode == 0
    with np.load(output) as file:
        assert run["weights_sha256"] == hash_weights(dict(file))
