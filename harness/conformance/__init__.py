"""A test suite for adapters, shipped with the package.

An adapter's test file subclasses `AdapterConformance` with the adapter's name:

    from harness.conformance import AdapterConformance

    class TestMine(AdapterConformance):
        framework = "mine"

and gets, for every algorithm that the adapter supports, the tests of the classes below.
It needs pytest, and trains on small tasks only (`envs.scripted`).
"""

import dataclasses

import pytest

# Before the parts are imported, or failures do not say what was compared.
_PARTS = (
    *("cadence", "devices", "exits", "hyperparameters", "images", "meanings"),
    *("resuming", "seeds_and_bounds", "targets"),
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from harness.conformance.cadence import CadenceConformance  # noqa: E402
from harness.conformance.devices import DeviceConformance  # noqa: E402
from harness.conformance.exits import ExitConformance  # noqa: E402
from harness.conformance.hyperparameters import HyperparameterConformance  # noqa: E402
from harness.conformance.images import ImageConformance  # noqa: E402
from harness.conformance.meanings import MeaningConformance  # noqa: E402
from harness.conformance.resuming import ResumingConformance  # noqa: E402
from harness.conformance.seeds_and_bounds import LuckConformance  # noqa: E402
from harness.conformance.targets import TargetConformance  # noqa: E402
from harness.contract.adapter import load_adapter  # noqa: E402
from harness.contract.algorithms import ALGORITHMS, field_names  # noqa: E402


class AdapterConformance(
    HyperparameterConformance,
    MeaningConformance,
    TargetConformance,
    CadenceConformance,
    DeviceConformance,
    LuckConformance,
    ExitConformance,
    ResumingConformance,
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
