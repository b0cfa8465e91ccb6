"""Runs on games, from the command line's values to folders, policies and figures."""

import dataclasses

import forked
import numpy as np
import pytest
import support

from parallax.envs.tasks import load_task, make_task_env
from parallax.harness.conformance.run_folders import check_killed_run
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.policies.loading import load_policy
from parallax.harness.policies.worker import (
    EvaluationConditions,
    evaluate_loaded_policy,
    get_recorded_returns,
    has_same_returns,
)
from parallax.harness.record.layout import find_runs
from parallax.harness.record.reading import read_run
from parallax.harness.train.prepare import prepare_run

pytest.importorskip("minatar")
ENV = "MinAtar/Breakout-v1"
SMALL = {"learning_starts": 100, "buffer_size": 500, "hidden_sizes": [16], "batch_size": 8}
ATARI = "ALE/Pong-v5"
FRAMEWORKS = ("sb3", "torchrl", "tianshou")
NETWORKS = {
    ENV: {(16, 4, 3, 3), (16,), (128, 1024), (128,), (3, 128), (3,)},
    ATARI: {
        *((32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (32,), (64,)),
        *((512, 64 * 7 * 7), (512,), (6, 512), (6,)),
    },
}
"""Shapes of the papers' networks: Young and Tian (2019), Mnih et al. (2015)."""


def spec(framework, hyperparameters=None, **changes):
    values = {"env": ENV, "alignment": "exact", "steps": 160, "eval_every": 80} | changes
    return support.spec(framework, "dqn", "minatar", SMALL | (hyperparameters or {}), **values)


@pytest.mark.parametrize("framework", support.frameworks(*FRAMEWORKS))
def test_image_run_completes_and_its_policy_is_replayed(framework, tmp_path):
    folder, content = support.run(spec(framework), tmp_path)
    assert content["status"] == "completed", content["failure"]
    assert content["hyperparameters"]["conv_filters"] == [16]
    assert find_runs(tmp_path).runs == (folder,)
    assert folder.relative_to(tmp_path).parts[1] == "MinAtar~Breakout-v1"
    reading = read_run(folder)
    assert reading.complete and reading.place.env == ENV
    policy = load_policy(folder)
    assert has_same_returns(
        evaluate_loaded_policy(policy, EvaluationConditions()), get_recorded_returns(policy)
    )
    actions = policy(np.zeros((2, *load_task(ENV).image)))
    assert actions.dtype == np.int64 and actions.shape == (2,)


ALONE = """
import sys
import numpy as np
sys.modules |= dict.fromkeys(("adapters", "harness", "envs"))  # which is None: not to be had
from stable_baselines3 import DQN
image = np.load(sys.argv[2])
print(*DQN.load(sys.argv[1]).predict(image, deterministic=True)[0])
"""


def test_exported_policy_of_sb3_loads_without_this_project(tmp_path):
    folder, _ = support.run(spec("sb3"), tmp_path / "results")
    policy = load_policy(folder)
    policy.save(tmp_path / "policy.zip")
    shown = np.random.default_rng(0).integers(0, 2, (9, *load_task(ENV).image)).astype(np.float32)
    np.save(tmp_path / "shown.npy", shown)
    files = [str(tmp_path / name) for name in ("policy.zip", "shown.npy")]
    done = forked.run_without_us("-c", ALONE, *files)
    assert done.stdout.split() == [str(action) for action in policy(shown)], done.stderr


@pytest.mark.parametrize("framework", support.frameworks(*FRAMEWORKS, quick=[]))
def test_atari_game_is_trained_and_its_policy_replayed(framework, tmp_path):
    pytest.importorskip("ale_py")
    short = {"max_episode_steps": 400}  # frames; a whole game has some 4,000
    folder, content = support.run(
        spec(framework, env=ATARI, env_kwargs=short, eval_every=160, eval_episodes=1), tmp_path
    )
    assert content["status"] == "completed", content["failure"]
    policy = load_policy(folder)
    assert has_same_returns(
        evaluate_loaded_policy(policy, EvaluationConditions()), get_recorded_returns(policy)
    )


@pytest.mark.long
@pytest.mark.parametrize("framework", support.frameworks(*FRAMEWORKS))
def test_killed_atari_run_ends_as_an_uninterrupted_one(framework, tmp_path):
    pytest.importorskip("ale_py")
    check_killed_run(framework, "dqn", tmp_path / "run", env=ATARI, eval_every=192, eval_episodes=1)


@pytest.mark.parametrize("env", NETWORKS)
@pytest.mark.parametrize("framework", support.frameworks(*FRAMEWORKS))
def test_network_is_that_of_the_paper_on_the_game(framework, env):
    if env == ATARI:
        pytest.importorskip("ale_py")
    width = {"hidden_sizes": [512 if env == ATARI else 128]}
    prepared = prepare_run(spec(framework, SMALL | width, env=env), load_adapter(framework))
    task, native = prepared.context.task, prepared.native
    if framework == "sb3":
        from parallax.adapters.sb3.train import build_model

        network = build_model(
            "dqn", native, prepared.context, lambda: make_task_env(env)
        ).policy.q_net
    elif framework == "tianshou":
        from parallax.adapters.tianshou.algorithms import build_algorithm

        network = build_algorithm("dqn", native.settings, task).policy.model
    else:
        from parallax.adapters.torchrl.dqn import build_components

        network = build_components(native.settings, task).actor
    shapes = {tuple(value.shape) for value in network.parameters()}
    assert shapes == NETWORKS[env]


def test_convolutions_are_part_of_the_runs_identity():
    plain, other = (
        support.spec("sb3", "dqn", "minatar", changed, env=ENV, alignment="exact")
        for changed in ({}, {"conv_filters": [8]})
    )
    assert "conv_filters" not in plain.variant and "conv_filters=[8]" in other.variant


def test_invalid_image_settings_are_refused_by_name():
    refusals = [
        (spec("cleanrl"), "framework=cleanrl has no script"),
        (spec("sb3", {"conv_filters": [8] * 5}), "5 convolutions are too many"),
        (spec("sb3", {"conv_filters": [8]}, env="CartPole-v1"), r"\[8\] would have no effect"),
    ]
    for requested, message in refusals:
        with pytest.raises(SpecError, match=message) as refusal:
            prepare_run(requested, load_adapter(requested.framework))
        assert requested.env in str(refusal.value)
    with pytest.raises(
        SpecError, match=r"has image observations, which SAC does not support.*dqn or ppo"
    ):
        load_recipe("sac", "sb3").resolve_for_task(load_task(ENV))


def test_dueling_heads_follow_convolutions():
    pytest.importorskip("tianshou")
    from parallax.adapters.tianshou.algorithms import build_algorithm

    recipe = dataclasses.replace(load_recipe("dqn", "minatar"), dueling=True, conv_filters=(4,))
    context = RunContext(load_task(ENV), 1000, 0)
    settings = load_adapter("tianshou").translate("dqn", recipe, context).settings
    shapes = {
        tuple(v.shape) for v in build_algorithm("dqn", settings, context.task).policy.parameters()
    }
    assert {(4, 4, 3, 3), (128, 256), (3, 128), (1, 128)} <= shapes


def test_bytes_are_not_normalized_twice():
    pytest.importorskip("ale_py")
    requested = spec("torchrl", env=ATARI, wrappers="normalized")
    with pytest.raises(SpecError, match=r"wrappers=normalized .* divide by 255"):
        prepare_run(requested, load_adapter("torchrl"))
