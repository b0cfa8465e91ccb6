import pytest

from tests.hunting import core, find, hunt, is_right
from tests.plants import PLANTS, misses

ENOUGH = 25


@pytest.mark.parametrize("plant", PLANTS, ids=lambda p: f"{p.framework}-{p.algorithm}-{p.name}")
def test_a_plant_is_found_named_and_measured(plant):
    catch = hunt(plant, core(plant.algorithm))
    assert is_right(plant, catch), catch


def test_plants_cover_all_algorithms_and_frameworks():
    assert len(PLANTS) >= ENOUGH
    assert len({(plant.framework, plant.algorithm) for plant in PLANTS}) == 9
    assert len({plant.probe for plant in PLANTS}) >= ENOUGH


@pytest.mark.parametrize("plant", misses.PLANTS, ids=lambda p: f"{p.framework}-{p.name}")
def test_what_first_updates_do_not_show_is_found_by_the_probe_meant(plant):
    found = find(plant)
    assert found.probe == plant.probe, found
    assert found.meaning
