"""A recipe that is named after a framework gives that framework its own defaults on every task."""

import pytest
import support
from loops import iterate_some

from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.train.prepare import prepare_run

ENVS = {
    "continuous": ("InvertedPendulum-v4", "Humanoid-v4", "Hopper-v4"),  # bounds of 3, 0.4 and 1
    "discrete": ("CartPole-v1",),
}


@pytest.mark.parametrize("framework", support.frameworks())
@pytest.mark.parametrize("alignment", ["common", "exact"])
def test_own_recipe_gives_library_defaults(framework, alignment):
    adapter = load_adapter(framework)
    having = {name: kind for name, kind in ALGORITHMS.items() if adapter.supports(name)}
    pairs = [(name, env) for name, kind in having.items() for env in ENVS[kind.actions]]
    for algorithm, env in iterate_some(pairs):
        requested = support.spec(framework, algorithm, env=env, alignment=alignment, steps=100_000)
        prepared = prepare_run(requested, adapter)
        context = prepared.context
        own = adapter.get_library_defaults(algorithm, load_recipe(algorithm, framework), context)
        assert prepared.native.settings == adapter.translate(algorithm, own, context).settings


def test_own_recipe_has_the_same_values_in_every_framework():
    # TorchRL's noise is in action units; its own recipe is converted, and for all others with it.
    for algorithm in iterate_some(("td3", "ddpg")):
        requested = [
            support.spec(
                *(name, algorithm, "torchrl"), env="Pendulum-v1", alignment="exact", steps=100_000
            )
            for name in find_adapter_entry_points()
        ]
        trained = [prepare_run(spec, load_adapter(spec.framework)) for spec in requested]
        assert len(trained) > 5 and len({run.hyperparameters for run in trained}) == 1
        recipe = load_recipe(algorithm, "torchrl")
        assert trained[0].hyperparameters.exploration_noise == recipe.exploration_noise / 2
