"""Arguments that older releases of sbx lack."""

import pytest

from parallax.adapters.sbx.train import drop_later_arguments
from parallax.harness.contract.fields import SpecError


class SAC:
    def __init__(self, policy, env, tau=0.005):
        pass


def test_arguments_equal_to_the_behavior_of_older_releases_are_omitted():
    arguments = {"tau": 0.01, "target_entropy": "auto"}
    assert drop_later_arguments(SAC, arguments) == {"tau": 0.01}


@pytest.mark.parametrize("name", ["target_entropy", "n_steps"])
def test_other_arguments_of_later_releases_are_refused(name):
    with pytest.raises(SpecError, match=f"SAC has no argument {name} .* {name}=-2.0 is not"):
        drop_later_arguments(SAC, {name: -2.0})
