"""What the classes of hyperparameters say of themselves."""

import dataclasses

import pytest

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.algorithms.image_encoder import compute_feature_map_sizes
from parallax.harness.contract.fields import SpecError, build_dataclass
from parallax.harness.contract.recipes import list_recipe_names, load_recipe

OFF_POLICY = [name for name, kind in ALGORITHMS.items() if hasattr(kind, "buffer_size")]


def any_recipe(algorithm):
    return load_recipe(algorithm, list_recipe_names(algorithm)[0])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_alternative_values_are_within_the_bounds_of_their_fields(algorithm):
    recipe = dataclasses.asdict(any_recipe(algorithm))
    kind = ALGORITHMS[algorithm]
    assert kind.alternatives
    for name, values in kind.alternatives.items():
        for value in values:
            build_dataclass(kind, recipe | {name: value}, "hyperparameters")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_minibatches_and_buffers_of_one_are_allowed_and_none_is_not(algorithm):
    kind = ALGORITHMS[algorithm]
    recipe = dataclasses.asdict(any_recipe(algorithm))
    fields = {"batch_size", "buffer_size", "minibatch_size"} & recipe.keys()
    assert fields
    for name in fields:
        made = build_dataclass(kind, recipe | {name: 1}, "hyperparameters")
        assert getattr(made, name) == 1
        with pytest.raises(SpecError, match=f"{name}=0 must be at least 1"):
            build_dataclass(kind, recipe | {name: 0}, "hyperparameters")


def test_an_algorithm_has_no_probes_unless_it_says_so():
    assert not Hyperparameters.has_probes
    with_probes = {name for name, kind in ALGORITHMS.items() if kind.has_probes}
    assert with_probes == {"ppo", "td3", "sac", "ddpg", "dqn", "r2d2"}


def test_tables_of_the_thesis_are_those_of_its_appendix():
    numbers = {name: kind.thesis_table for name, kind in ALGORITHMS.items() if kind.thesis_table}
    assert numbers == {"ppo": 6, "td3": 7, "sac": 8}


def test_convolutions_of_the_nature_paper_leave_maps_of_seven_by_seven():
    sizes = compute_feature_map_sizes((4, 84, 84), (32, 64, 64))
    assert sizes == [(84, 84), (20, 20), (9, 9), (7, 7)]
    heights_and_widths = compute_feature_map_sizes((4, 84, 60), (32, 64, 64))
    assert heights_and_widths == [(84, 60), (20, 14), (9, 6), (7, 4)]
