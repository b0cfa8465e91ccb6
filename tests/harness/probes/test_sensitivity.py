import pytest

from tests.hunting import core, hunt, is_right
from tests.plants import PLANTS

ENOUGH = 25


@pytest.mark.parametrize("plant", PLANTS, ids=lambda p: f"{p.framework}-{p.algorithm}-{p.name}")
def test_a_plant_is_found_named_and_measured(plant):
    catch = hunt(plant, core(plant.algorithm))
    assert is_right(plant, catch), catch


def test_plants_cover_all_algorithms_and_frameworks():
    assert len(PLANTS) >= ENOUGH
    assert len({(plant.framework, plant.algorithm) for plant in PLANTS}) == 9
    assert len({plant.probe for plant in PLANTS}) >= ENOUGH
