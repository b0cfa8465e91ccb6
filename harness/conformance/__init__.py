"""A test suite for adapters, shipped with the package.

An adapter's test file subclasses `AdapterConformance` with the adapter's name:

    from harness.conformance import AdapterConformance

    class TestMine(AdapterConformance):
        framework = "mine"

and gets, for every algorithm that the adapter supports, the tests of the classes below.
It needs pytest, and trains on small tasks only (`parallax.envs.scripted`).
"""

import dataclasses

import pytest

from parallax.harness.conformance.determinism import DeterminismConformance
from parallax.harness.conformance.hyperparameters import HyperparameterConformance
from parallax.harness.conformance.images import ImageConformance
from parallax.harness.conformance.resuming import ResumeConformance
from parallax.harness.conformance.run_folders import RunFolderConformance
from parallax.harness.conformance.semantics import (
    SemanticsConformance,
    TargetNoiseConformance,
)
from parallax.harness.conformance.update_counts import (
    DeviceConformance,
    UpdateCountConformance,
)
from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import field_names

# Before the parts are imported, or failures do not say what was compared.
_PARTS = (
    *("cadence", "devices", "exits", "hyperparameters", "images", "meanings"),
    *("resuming", "seeds_and_bounds", "targets"),
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))


class AdapterConformance(
    HyperparameterConformance,
    SemanticsConformance,
    TargetNoiseConformance,
    UpdateCountConformance,
    DeviceConformance,
    DeterminismConformance,
    RunFolderConformance,
    ResumeConformance,
    ImageConformance,
):
    """What every adapter must keep. Subclass it and set `framework`."""

    framework: str

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test per supported algorithm, and per hyperparameter where one is asked for."""
        adapter = load_adapter(self.framework)
        supported = [name for name in ALGORITHMS if adapter.supports(name)]
        names = metafunc.fixturenames
        if "field" in names:
            pairs = [
                (algorithm, field.name)
                for algorithm in supported
                for field in dataclasses.fields(ALGORITHMS[algorithm])
            ]
            metafunc.parametrize(("algorithm", "field"), pairs)
        elif "algorithm" in names:
            metafunc.parametrize("algorithm", supported)
        if "off_policy_algorithm" in names:
            off_policy = [a for a in supported if ALGORITHMS[a].family == "off-policy"]
            metafunc.parametrize("off_policy_algorithm", off_policy)
        if "noisy_algorithm" in names:
            noisy = [a for a in supported if "exploration_noise" in field_names(ALGORITHMS[a])]
            metafunc.parametrize("noisy_algorithm", noisy)
        if "image_algorithm" in names:
            seeing = [a for a in supported if "conv_filters" in field_names(ALGORITHMS[a])]
            metafunc.parametrize("image_algorithm", seeing)
