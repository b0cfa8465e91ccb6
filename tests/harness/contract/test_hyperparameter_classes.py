"""Declarations of the hyperparameter classes."""

import dataclasses

import pytest

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.algorithms.image_encoder import (
    compute_feature_map_sizes,
    resolve_conv_filters,
)
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
def test_sizes_of_one_are_allowed_and_zero_is_not(algorithm):
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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_values_of_short_trainings_are_within_the_bounds_of_their_fields(algorithm):
    kind = ALGORITHMS[algorithm]
    recipe = dataclasses.asdict(any_recipe(algorithm))
    assert kind.conformance_values and kind.conformance_variation
    first = recipe | kind.conformance_values
    for values in (first, first | kind.conformance_variation):
        made = build_dataclass(kind, values, "hyperparameters")
        assert dataclasses.asdict(made) == {**values, **dataclasses.asdict(made)}
        # Priorities and weights are powers of numbers below 1.
        for name in ("importance_exponent", "priority_exponent"):
            assert 0 <= getattr(made, name, 0) <= 1


def test_alternative_target_noise_clip_clips_nearly_all_noise():
    kind = ALGORITHMS["td3"]
    recipe = any_recipe("td3")
    (clip,) = kind.alternatives["target_noise_clip"]
    assert clip < recipe.target_policy_noise / 10


@pytest.mark.parametrize(
    ("image", "most"), [((4, 10, 10), 4), ((4, 84, 84), 6), ((1, 9, 12), 4), ((1, 12, 9), 4)]
)
def test_too_many_convolutions_are_refused_with_the_maximum(image, most):
    task = Task("A-v0", 8, (), (), 0, 3, image=image)
    assert resolve_conv_filters((8,) * most, task) == (8,) * most
    with pytest.raises(SpecError, match=f"Use at most {most}"):
        resolve_conv_filters((8,) * (most + 1), task)
