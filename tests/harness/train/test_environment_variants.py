"""Several copies of an environment, and normalised environments."""

import gymnasium
import numpy as np
import pytest
import support

from parallax.envs.make import make_training_env, share_statistics
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.reading import read_run
from parallax.harness.train.prepare import prepare_run

PPO = {"rollout_steps": 128, "minibatch_size": 64, "epochs": 1}
WITH_COPIES = ("sb3", "cleanrl", "torchrl", "tianshou")
OFF_POLICY = {"learning_starts": 64, "batch_size": 32}


@pytest.mark.parametrize("framework", support.frameworks(*WITH_COPIES))
def test_ppo_steps_count_all_environments(framework, tmp_path):
    spec = support.spec(
        framework, hyperparameters=PPO, n_envs=4, steps=256, eval_every=100, wrappers="normalized"
    )
    folder, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    assert run["steps"]["taken"] == run["steps"]["scheduled"] == run["steps"]["framework"] == 256
    with np.load(folder / "evaluations.npz") as file:
        assert file["timesteps"].tolist() == [100, 200, 256]


@pytest.mark.parametrize("framework", support.frameworks("sb3", "tianshou", "torchrl"))
@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_off_policy_steps_count_all_environments(framework, algorithm, tmp_path):
    spec = support.spec(
        framework,
        algorithm,
        hps="original",
        hyperparameters=OFF_POLICY
        | {"train_freq": 4, "gradient_steps": 1, "hidden_sizes": [16, 16]},
        alignment="exact",
        n_envs=4,
        steps=128,
        eval_every=128,
    )
    _, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    assert run["steps"]["taken"] == 128


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_single_environment_scripts_refuse_n_envs(algorithm):
    spec = support.spec("cleanrl", algorithm, n_envs=2)
    with pytest.raises(SpecError, match=r"n_envs=2: cleanrl's scripts with a replay buffer"):
        prepare_run(spec, load_adapter("cleanrl"))


@pytest.mark.parametrize("framework", support.frameworks(*WITH_COPIES))
def test_n_envs_must_divide_a_rollout(framework):
    spec = support.spec(framework, hyperparameters=PPO, n_envs=3)
    with pytest.raises(SpecError, match=r"rollout_steps=128: .*n_envs=3"):
        prepare_run(spec, load_adapter(framework))


def test_stable_baselines3_defaults_to_one_update_cycle_per_vector_step():
    for n_envs in (1, 4):
        prepared = prepare_run(support.spec("sb3", "td3", n_envs=n_envs), load_adapter("sb3"))
        assert prepared.hyperparameters.train_freq == n_envs
        assert prepared.native.settings["train_freq"] == 1


def test_parallel_environments_share_statistics():
    first, second = (
        make_training_env(
            "InvertedPendulum-v4",
            wrappers="normalized",
            gamma=0.9,
            before_step=lambda: None,
            after_episode=lambda total, length: None,
        )
        for _ in range(2)
    )
    share_statistics(first, second)
    first.reset(seed=0)
    second.reset(seed=1)
    second.step(second.action_space.sample())
    layers = [layer for env in (first, second) for layer in normalizers(env)]
    assert len({id(layer.obs_rms) for layer in layers}) == 1
    assert layers[0].obs_rms.count > 3


def normalizers(env):
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.NormalizeObservation):
            yield env
        env = env.env


# The conformance suite covers the frameworks that compile for seconds.
@pytest.mark.parametrize("framework", support.frameworks(*(n for n in support.NAMES if n != "sbx")))
def test_normalized_training_is_another_run_with_raw_evaluation(framework, tmp_path):
    runs = {}
    for wrappers in ("none", "normalized"):
        spec = support.spec(
            framework, hyperparameters=PPO, steps=256, eval_every=256, wrappers=wrappers
        )
        folder, runs[wrappers] = support.run(spec, tmp_path)
        with np.load(folder / "evaluations.npz") as file:
            # This task pays 1 a step, so raw returns are the lengths.
            assert file["results"].tolist() == file["ep_lengths"].tolist()
    assert runs["none"]["weights_sha256"] != runs["normalized"]["weights_sha256"]
    assert read_run(folder).content["spec"]["wrappers"] == "normalized"
