import pytest

from tests.planted_faults import core, find, is_right, measure_plant
from tests.plants import LATER_PLANTS, PLANTS, misses, skrl_copies

ENOUGH = 25
SHARE, FEW = 6, 9
"""One plant in so many is looked for in every run of the tests, the others in the long one."""


def some(plants, name, share=SHARE):
    """Parameters: all plants, most of them for the long run."""
    marks = [() if number % share == 0 else pytest.mark.long for number in range(len(plants))]
    pairs = zip(plants, marks, strict=True)
    return [pytest.param(plant, id=name(plant), marks=mark) for plant, mark in pairs]


def name_plant(plant):
    return f"{plant.framework}-{plant.algorithm}-{plant.name}"


@pytest.mark.parametrize("plant", [*some(PLANTS, name_plant), *some(LATER_PLANTS, name_plant, FEW)])
def test_planted_bug_is_found_named_and_measured(plant):
    result = measure_plant(plant, core(plant.algorithm))
    assert is_right(plant, result), result


def test_planted_bugs_cover_all_algorithms_and_frameworks():
    assert len(PLANTS) >= ENOUGH
    assert len({(plant.framework, plant.algorithm) for plant in PLANTS}) == 9
    assert len({(plant.framework, plant.algorithm) for plant in LATER_PLANTS}) == 8
    assert len({plant.probe for plant in PLANTS}) >= ENOUGH


@pytest.mark.parametrize("plant", some(misses.PLANTS, lambda p: f"{p.framework}-{p.name}"))
def test_bugs_after_the_first_updates_are_found_by_the_expected_probe(plant):
    found = find(plant)
    assert found.probe == plant.probe, found
    assert found.meaning


@pytest.mark.parametrize("plant", some(skrl_copies.PLANTS, lambda p: f"{p.algorithm}-{p.name}"))
def test_skrl_bugs_with_parallel_environments_are_found_and_named(plant):
    found = find(plant)
    assert found.probe == plant.probe and plant.says in found.meaning, found
