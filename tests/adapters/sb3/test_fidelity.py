"""A run through the harness ends in the weights that SB3 alone ends in, bit for bit."""

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import support
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from parallax.adapters.sb3.train import copy_weights
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.record.provenance import hash_weights

ENVS = {"continuous": "Hopper-v4", "discrete": "CartPole-v1"}
GAME = "MinAtar/Breakout-v1"
NOISE = NormalActionNoise(np.zeros(3), 0.1 * np.ones(3))
CASES = {
    "ppo": (1024, {"rollout_steps": 512, "epochs": 2}, {"n_steps": 512, "n_epochs": 2}),
    "td3": (140, {}, {}),
    "sac": (140, {}, {}),
    "ddpg": (140, {"exploration_noise": 0.1}, {"action_noise": NOISE}),
    "dqn": (
        1300,
        {"exploration_steps": 130, "target_update_interval": 300},
        {"target_update_interval": 300},
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("algorithm", "env"),
    [*((name, ENVS[ALGORITHMS[name].actions]) for name in CASES), ("ppo", ENVS["discrete"])],
)
def test_harness_changes_nothing(algorithm, env, tmp_path):
    steps, unified, native = CASES[algorithm]
    spec = support.spec(
        "sb3",
        algorithm,
        hyperparameters=unified,
        env=env,
        steps=steps,
        eval_every=steps // 4,
        seed=5,
        alignment="exact",
    )
    _, run = support.run(spec, tmp_path)
    # All that is not named here is SB3's own default, so this tests the recipe file as well.
    model = getattr(stable_baselines3, algorithm.upper())(
        "MlpPolicy", gymnasium.make(env), seed=5, device="cpu", **native
    )
    model.learn(steps)
    assert run["status"] == "completed"
    assert run["weights_sha256"] == hash_weights(copy_weights(model))


class Extractor(BaseFeaturesExtractor):
    """A user's own, as SB3's guide on custom networks has it."""

    def __init__(self, space):
        super().__init__(space, 16 * 8 * 8)
        parts = nn.Conv2d(space.shape[0], 16, kernel_size=3), nn.ReLU(), nn.Flatten()
        self.layers = nn.Sequential(*parts)

    def forward(self, observations):
        return self.layers(observations)


def test_harness_changes_nothing_on_images(tmp_path):
    pytest.importorskip("minatar")
    unified = {"learning_starts": 100, "target_update_interval": 100, "buffer_size": 1000}
    native = unified | {"exploration_fraction": 0.5, "policy_kwargs": {"net_arch": [16]}}
    unified |= {"exploration_steps": 150, "hidden_sizes": [16]}
    values = {"env": GAME, "steps": 300, "eval_every": 100, "seed": 5, "alignment": "exact"}
    _, run = support.run(support.spec("sb3", "dqn", hyperparameters=unified, **values), tmp_path)
    assert run["status"] == "completed", run["failure"]
    native["policy_kwargs"] |= {"features_extractor_class": Extractor, "normalize_images": False}
    env = support.as_torch_sees(gymnasium.make(GAME))
    model = stable_baselines3.DQN("CnnPolicy", env, seed=5, device="cpu", **native)
    model.learn(300)
    assert run["weights_sha256"] == hash_weights(copy_weights(model))
