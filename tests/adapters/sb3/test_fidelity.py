"""A run through the harness ends in the weights that SB3 alone ends in, bit for bit."""

import gymnasium
import pytest
import stable_baselines3
import support

from adapters.sb3.train import weights
from harness.record.provenance import weights_sha256

ENV = "Hopper-v4"
CASES = {
    "ppo": (4096, {"epochs": 3}, {"n_epochs": 3}),
    "td3": (800, {"learning_starts": 500}, {"learning_starts": 500}),
    "sac": (800, {"learning_starts": 500}, {"learning_starts": 500}),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("algorithm", CASES)
def test_harness_changes_nothing(algorithm, tmp_path):
    steps, unified, native = CASES[algorithm]
    spec = support.spec(
        "sb3",
        algorithm,
        hyperparameters=unified,
        env=ENV,
        steps=steps,
        eval_every=steps // 4,
        seed=5,
    )
    _, run = support.run(spec, tmp_path)
    # All that is not named here is SB3's own default, so this tests the recipe file as well.
    model = getattr(stable_baselines3, algorithm.upper())(
        "MlpPolicy", gymnasium.make(ENV), seed=5, device="cpu", **native
    )
    model.learn(steps)
    assert run["status"] == "completed"
    assert run["weights_sha256"] == weights_sha256(weights(model))
