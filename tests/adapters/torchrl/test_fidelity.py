"""A run through the harness ends in the same weights as TorchRL's own script, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
import support

from parallax.harness.record.provenance import hash_weights

ROUND = {"train_freq": 50, "gradient_steps": 50}
OFF_POLICY = {"collector": {"init_random_frames": 200, "frames_per_batch": 50}}
# The second requests one rollout and a half. The pendulum's actions range from -3 to 3.
CASES = {
    "ppo": ("ppo", "Hopper-v4", 512, {"rollout_steps": 256, "epochs": 4}),
    "ppo, a part of a rollout": ("ppo", "Hopper-v4", 400, {"rollout_steps": 256, "epochs": 4}),
    "td3": ("td3", "InvertedPendulum-v4", 250, {"learning_starts": 200, **ROUND}),
    "sac": ("sac", "InvertedPendulum-v4", 250, {"learning_starts": 200, **ROUND}),
}
NOT_CONVERTED = "without.log-probability-of-the-scaled-action"
# The second has a whole rollout, too.
WANTED = [pytest.param(case, marks=pytest.mark.long if case == "ppo" else ()) for case in CASES]
NATIVE = {"ppo": {"collector": {"frames_per_batch": 256}, "loss": {"ppo_epochs": 4}}}


@pytest.fixture(scope="module")
def reference():
    return support.load_file(Path(__file__).with_name("reference.py"))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("case", WANTED)
def test_harness_changes_nothing(case, tmp_path, reference):
    algorithm, env, steps, unified = CASES[case]
    spec = support.spec(
        "torchrl",
        algorithm,
        hyperparameters=unified,
        # Under exact, schedules of PPO do not fall with each minibatch as in its script.
        alignment="common" if algorithm == "ppo" else "exact",
        intervention=NOT_CONVERTED if algorithm == "sac" else "none",
        env=env,
        steps=steps,
        eval_every=steps // 4,
        seed=5,
    )
    _, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    # All that is not named here is the script's own value, so the recipe is tested as well.
    weights = reference.train(algorithm, env, 5, steps, **NATIVE.get(algorithm, OFF_POLICY))
    assert all(np.isfinite(array).all() for array in weights.values())
    assert run["weights_sha256"] == hash_weights(weights)
