"""Exported policies load with the classes of the framework alone and act identically."""

import ast
import importlib.util
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import support
import torch

from parallax.harness.cli.main import main
from parallax.harness.policies.loading import load_policy

pytestmark = pytest.mark.long
SMALL = {"learning_starts": 100, "batch_size": 16}
OBSERVATIONS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
BOUND = 3  # of InvertedPendulum's action


def cleanrl(state):
    """The script's own class, without the script's loop."""
    (folder,) = importlib.util.find_spec("cleanrl").submodule_search_locations
    file = Path(folder, "td3_continuous_action.py")
    classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    names = {"nn": torch.nn, "torch": torch, "np": np, "F": torch.nn.functional}
    exec(compile(ast.Module(classes, []), str(file), "exec"), names)

    class Envs:
        single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
        single_action_space = gymnasium.spaces.Box(-BOUND, BOUND, (1,))
        action_space = gymnasium.spaces.Box(-BOUND, BOUND, (1, 1))

    actor = names["Actor"](Envs)
    actor.load_state_dict(state["actor"])
    return actor(torch.tensor(OBSERVATIONS))


def torchrl(state):
    """A network of the package, as the script makes it."""
    from torchrl.modules import MLP

    mlp = MLP(in_features=4, out_features=1, num_cells=[256, 256], activation_class=torch.nn.ReLU)
    mlp.load_state_dict(below("actor_network_params.module.0.module.", state))
    return BOUND * torch.tanh(mlp(torch.tensor(OBSERVATIONS)))


def tianshou(state):
    """The package's actor, whose actions are within one."""
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ContinuousActorDeterministic

    net = Net(state_shape=(4,), hidden_sizes=[256, 256])
    actor = ContinuousActorDeterministic(preprocess_net=net, action_shape=(1,), max_action=1.0)
    actor.load_state_dict(below("policy.actor.", state))
    return BOUND * actor(OBSERVATIONS)[0]


def below(prefix, state):
    return {
        key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
    }


@pytest.mark.parametrize("alone", [cleanrl, torchrl, tianshou])
def test_exported_weights_act_identically_in_the_framework_alone(alone, tmp_path):
    spec = support.spec(
        alone.__name__,
        "td3",
        "original",
        SMALL,
        env="InvertedPendulum-v4",
        alignment="common",
        steps=150,
        eval_every=150,
    )
    folder, _ = support.run(spec, tmp_path / "results")
    assert main(["policy", "export", str(folder), "--output", str(tmp_path / "exported")]) == 0
    (file,) = (tmp_path / "exported").rglob("*.pt")
    with torch.no_grad():
        actions = alone(torch.load(file)).numpy()
    np.testing.assert_allclose(
        actions, load_policy(folder).policy(OBSERVATIONS), rtol=1e-5, atol=1e-6
    )
