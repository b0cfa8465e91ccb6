"""A run through the harness ends in the weights that sbx alone ends in, bit for bit."""

import gymnasium
import numpy as np
import pytest
import support
from stable_baselines3.common.noise import NormalActionNoise

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.record.provenance import hash_weights

sbx = pytest.importorskip("sbx")

NOISE = NormalActionNoise(np.zeros(1), 0.1 * np.ones(1))
CASES = {
    "ppo": (512, {"rollout_steps": 256, "epochs": 2}, {"n_steps": 256, "n_epochs": 2}),
    "td3": (140, {}, {}),
    "sac": (140, {}, {}),
    "ddpg": (140, {"exploration_noise": 0.1}, {"action_noise": NOISE}),
    "dqn": (
        700,
        {"exploration_steps": 70, "target_update_interval": 300},
        {"target_update_interval": 300},
    ),
}
DEAR = pytest.mark.long
LEFT_OUT = {"ppo": "without.joint-grad-clip", "td3": "without.delayed-target-update"}
"""What `exact` would change besides values."""


@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=() if name == "dqn" else DEAR) for name in CASES]
)
def test_harness_changes_nothing(algorithm, tmp_path):
    from parallax.adapters.sbx.train import copy_weights

    steps, unified, native = CASES[algorithm]
    env = support.ENVS[ALGORITHMS[algorithm].actions]
    spec = support.spec(
        "sbx",
        algorithm,
        hyperparameters=unified,
        env=env,
        steps=steps,
        eval_every=steps // 2,
        seed=5,
        alignment="exact",
        intervention=LEFT_OUT.get(algorithm, "none"),
    )
    _, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    # All that is not named here is sbx's own default, so this tests the recipe file as well.
    model = getattr(sbx, algorithm.upper())("MlpPolicy", gymnasium.make(env), seed=5, **native)
    model.learn(steps)
    assert run["weights_sha256"] == hash_weights(copy_weights(model))
