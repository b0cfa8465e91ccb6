"""PPO on games: one network in all frameworks, trained, saved, loaded and played again."""

import dataclasses
import functools
import json
from collections import Counter

import gymnasium
import numpy as np
import pytest
import support

from parallax.envs.tasks import Task, load_task
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
from parallax.harness.record.layout import POLICY_FILE
from parallax.harness.record.provenance import hash_weights
from parallax.harness.record.reading import read_run
from parallax.harness.train.prepare import prepare_run

pytest.importorskip("minatar")
ENV = "MinAtar/Breakout-v1"
ATARI = "ALE/Pong-v5"
SHORT = {"rollout_steps": 64, "minibatch_size": 16, "epochs": 2, "hidden_sizes": [24, 20]}
LAYERS = [(4, 16, 3, 3), (1024, 24), (24, 20)]
HEADS = [(20, 3), (1, 20)]
TORCH = ("sb3", "cleanrl", "tianshou", "torchrl", "skrl")
SLOW = pytest.mark.long  # what JAX compiles takes half a minute


def spec(framework, hyperparameters=None, **changes):
    values = {"env": ENV, "alignment": "exact", "steps": 192, "eval_every": 96, "seed": 5}
    return support.spec(
        framework, "ppo", "minatar", SHORT | (hyperparameters or {}), **values | changes
    )


def all_frameworks():
    return [*support.frameworks(*TORCH), pytest.param("sbx", marks=SLOW)]


def read_weights(folder):
    """Arrays of a saved policy by name."""
    with np.load(folder / POLICY_FILE) as file:
        names = [name for name in file.files if name.startswith("weights/")]
        return {name.removeprefix("weights/"): file[name] for name in names}


def count_shapes(weights):
    """Number of layers by shape, whose axes frameworks order differently."""
    return Counter(tuple(sorted(v.shape)) for v in weights.values() if v.ndim > 1)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("framework", all_frameworks())
def test_run_has_a_shared_network_and_its_policy_is_replayed(framework, tmp_path):
    watched = {"diagnosis": {"mode": "on", "period": 32}}
    folder, content = support.run(spec(framework, **watched), tmp_path)
    assert content["status"] == "completed", content["failure"]
    assert content["hyperparameters"]["conv_filters"] == [16] and read_run(folder).complete
    report = json.loads((folder / "diagnosis.json").read_text())
    assert not report["problems"] and {"return", "gradient_norm"} <= report["signals"].keys()
    policy = load_policy(folder)
    assert has_same_returns(
        evaluate_loaded_policy(policy, EvaluationConditions()), get_recorded_returns(policy)
    )
    seen = np.random.default_rng(0).integers(0, 2, (9, *load_task(ENV).image)).astype(np.float32)
    assert policy(seen).dtype == np.int64 and (policy(seen) == policy(seen)).all()
    weights = read_weights(folder)
    copies = 2 if framework == "sbx" else 1
    expected = Counter({tuple(sorted(shape)): copies for shape in LAYERS})
    assert count_shapes(weights) == expected + Counter(tuple(sorted(shape)) for shape in HEADS)
    if framework == "sbx":  # two copies that are equal
        shared = [name for name in weights if name.startswith("policy.NatureCNN_0.")]
        assert len(shared) == 6
        for name in shared:
            counterpart = weights[name.replace("policy.", "value.", 1)]
            assert (weights[name] == counterpart).all(), name


@pytest.mark.parametrize("framework", [f for f in all_frameworks() if f.values[0] != "skrl"])
def test_parallel_environments_give_another_run_of_equal_length(framework, tmp_path):
    _, one = support.run(spec(framework), tmp_path / "one")
    _, four = support.run(spec(framework, n_envs=4), tmp_path / "four")
    assert one["status"] == four["status"] == "completed", four["failure"]
    assert one["weights_sha256"] != four["weights_sha256"]
    assert one["steps"]["taken"] == four["steps"]["taken"] == 192


def atari_weights(framework, tmp_path, **changes):
    pytest.importorskip("ale_py")
    hyperparameters = {"hidden_sizes": [512], "rollout_steps": 32, "epochs": 1}
    short = {"env_kwargs": {"max_episode_steps": 400}, "eval_episodes": 1}
    values = {"env": ATARI, "steps": 64, "eval_every": 64, **short, **changes}
    folder, content = support.run(spec(framework, hyperparameters, **values), tmp_path)
    assert content["status"] == "completed", content["failure"]
    return content, read_weights(folder)


def test_cleanrls_own_network_trains_on_atari_without_a_patch(tmp_path):
    content, weights = atari_weights("cleanrl", tmp_path)
    kinds = {row["field"]: row["kind"] for row in content["alignment"]}
    assert kinds["conv_filters"] == kinds["hidden_sizes"] == "constant"
    shapes = count_shapes(weights)
    assert shapes == Counter(
        [(4, 8, 8, 32), (4, 4, 32, 64), (3, 3, 64, 64), (512, 3136), (6, 512), (1, 512)]
    )


@pytest.mark.long
@pytest.mark.parametrize("framework", support.frameworks("sb3", "tianshou", "torchrl", "skrl"))
def test_other_frameworks_have_the_same_network_on_atari(framework, tmp_path):
    ours = count_shapes(atari_weights("cleanrl", tmp_path / "cleanrl")[1])
    assert count_shapes(atari_weights(framework, tmp_path / framework)[1]) == ours


def translate(framework, task, **changes):
    recipe = dataclasses.replace(load_recipe("ppo", "minatar"), **changes).resolve_for_task(task)
    context = RunContext(task, 100_000, 0, patch_constants=True)
    return load_adapter(framework).translate("ppo", recipe, context)


def test_layers_of_cleanrl_are_patched_together():
    frames = load_task(ENV), Task("mine", 4 * 84 * 84, (), (), 0, 3, (4, 84, 84), 255)
    patched = functools.partial(translate, "cleanrl")
    networks = {"conv_filters", "hidden_sizes"}
    assert networks <= set(patched(frames[0]).patched_fields)
    for changes, count in (
        ({"hidden_sizes": (512,)}, 0),
        ({"hidden_sizes": (256,)}, 1),
        ({"hidden_sizes": (512,), "conv_filters": (8,)}, 2),
    ):
        assert len(networks & set(patched(frames[1], **changes).patched_fields)) == count


def test_invalid_ppo_image_settings_are_refused_by_name():
    refusals = [
        (
            spec("cleanrl", patches=False),
            r"conv_filters=\[16\]: in cleanrl it is fixed by ppo_atari.py, for four frames",
        ),
        (spec("sb3", {"conv_filters": [8] * 5}), "5 convolutions are too many"),
        (spec("sb3", {"conv_filters": [8]}, env="CartPole-v1"), r"\[8\] would have no effect"),
        (spec("skrl", n_envs=3), "rollout_steps=.*a multiple of n_envs=3"),
    ]
    for requested, message in refusals:
        with pytest.raises(SpecError, match=message):
            prepare_run(requested, load_adapter(requested.framework))
    driving = Task("Driving-v0", 300, (-1.0,), (1.0,), 0, image=(3, 10, 10))
    with pytest.raises(SpecError, match="Driving-v0 shows images and has continuous actions"):
        load_recipe("ppo", "minatar").resolve_for_task(driving)


NATIVE = {"learning_rate": 0.005, "gamma": 0.99, "gae_lambda": 0.95, "ent_coef": 0.01}


def test_harness_changes_nothing_in_sb3(tmp_path):
    import stable_baselines3
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import nn

    from parallax.adapters.sb3.train import copy_weights

    class Extractor(BaseFeaturesExtractor):
        """A user's own, as SB3's guide on custom networks has it."""

        def __init__(self, space):
            super().__init__(space, 20)
            convolution = nn.Sequential(nn.Conv2d(4, 16, 3), nn.ReLU(), nn.Flatten())
            linear = (nn.Linear(1024, 24), nn.ReLU(), nn.Linear(24, 20), nn.ReLU())
            self.layers = nn.Sequential(convolution, *linear)

        def forward(self, observations):
            return self.layers(observations)

    plain = {"learning_rate_schedule": "constant", "value_clip_range": None}
    _, run = support.run(spec("sb3", plain | {"bootstrap_truncation": True}), tmp_path)
    assert run["status"] == "completed", run["failure"]
    layers = {"features_extractor_class": Extractor, "net_arch": [], "normalize_images": False}
    model = stable_baselines3.PPO(
        "CnnPolicy",
        support.as_torch_sees(gymnasium.make(ENV)),
        n_steps=64,
        batch_size=16,
        n_epochs=2,
        vf_coef=0.25,
        policy_kwargs=layers,
        seed=5,
        device="cpu",
        **NATIVE,
    )
    model.learn(192)
    assert run["weights_sha256"] == hash_weights(copy_weights(model))


def test_optimizer_of_torchrl_has_each_shared_layer_once():
    pytest.importorskip("torchrl")
    from parallax.adapters.torchrl.ppo import build_components

    task = load_task(ENV)
    settings = translate("torchrl", task, hidden_sizes=(128,)).settings
    made = build_components(settings, task)
    trained = [p for group in made.optimizer.param_groups for p in group["params"]]
    assert len(trained) == len({id(p) for p in trained}) == 8
    assert sum(p.numel() for p in trained) == 16 * 37 + 128 * 1025 + 4 * 129


def test_policy_and_value_layers_of_tianshou_begin_as_in_its_atari_example():
    pytest.importorskip("tianshou")
    import torch

    from parallax.adapters.tianshou.algorithms import build_algorithm

    task = load_task(ENV)
    settings = translate("tianshou", task, hidden_sizes=(128,)).settings
    torch.manual_seed(0)
    model = build_algorithm("ppo", settings, task)
    body, head = model.policy.actor.preprocess, model.policy.actor.last.model[0]
    assert body is model.critic.preprocess
    weight = body.layers[1].weight  # orthogonal rows of length sqrt(2)
    assert torch.allclose(weight @ weight.T, 2 * torch.eye(128), atol=1e-4)
    assert head.bias.abs().max() > 0 and head.weight.abs().max() < 128**-0.5 + 1e-6


ALONE = """
import sys
import numpy as np
sys.modules |= dict.fromkeys(("parallax", "adapters", "harness", "envs"))  # not to be had
from {package} import PPO
image = np.load(sys.argv[2])
print(*PPO.load(sys.argv[1]).predict(image, deterministic=True)[0])
"""


@pytest.mark.parametrize(
    ("framework", "package"), [("sb3", "stable_baselines3"), pytest.param("sbx", "sbx", marks=SLOW)]
)
def test_exported_policy_loads_without_this_project(framework, package, tmp_path):
    import forked

    folder, _ = support.run(spec(framework), tmp_path / "results")
    policy = load_policy(folder)
    policy.save(tmp_path / "policy.zip")
    seen = np.random.default_rng(0).integers(0, 2, (9, *load_task(ENV).image)).astype(np.float32)
    np.save(tmp_path / "seen.npy", seen)
    files = [str(tmp_path / name) for name in ("policy.zip", "seen.npy")]
    done = forked.run_without_us("-c", ALONE.format(package=package), *files)
    assert done.stdout.split() == [str(action) for action in policy(seen)], done.stderr
