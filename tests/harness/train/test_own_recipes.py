"""A recipe that is named after a framework gives that framework its own defaults on every task."""

import pytest
import support
from loops import iterate_some

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.train.prepare import prepare_run

ENVS = {
    "continuous": ("InvertedPendulum-v4", "Humanoid-v4", "Hopper-v4"),  # bounds of 3, 0.4 and 1
    "discrete": ("CartPole-v1",),
}


@pytest.mark.parametrize("framework", support.frameworks())
@pytest.mark.parametrize("alignment", ["common", "exact"])
def test_own_recipe_gives_own_defaults(framework, alignment):
    adapter = load_adapter(framework)
    having = {name: kind for name, kind in ALGORITHMS.items() if adapter.supports(name)}
    pairs = [(name, env) for name, kind in having.items() for env in ENVS[kind.actions]]
    for algorithm, env in iterate_some(pairs):
        requested = support.spec(framework, algorithm, env=env, alignment=alignment, steps=100_000)
        prepared = prepare_run(requested, adapter)
        context = prepared.context
        own = adapter.get_library_defaults(algorithm, load_recipe(algorithm, framework), context)
        assert prepared.native.settings == adapter.translate(algorithm, own, context).settings
