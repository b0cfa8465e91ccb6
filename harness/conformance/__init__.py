"""A test suite for adapters, shipped with the package.

An adapter's test file subclasses `AdapterConformance` with the adapter's name:

    from parallax.harness.conformance import AdapterConformance

    class TestMine(AdapterConformance):
        framework = "mine"

It then has the tests of the classes below for every algorithm that the adapter supports.
The tests need pytest and train on small tasks only (`parallax.envs.scripted`).
"""

import dataclasses

import pytest

# pytest explains failed assertions of these modules only if they are registered before import.
_MODULES = ("hyperparameters", "patches", "run_folders", "semantics", "update_counts")
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from parallax.harness.conformance.hyperparameters import HyperparameterConformance  # noqa: E402
from parallax.harness.conformance.patches import PatchConformance  # noqa: E402
from parallax.harness.conformance.run_folders import ResumeConformance, RunFolderConformance  # noqa: E402
from parallax.harness.conformance.semantics import (  # noqa: E402
    DeterminismConformance,
    ExtraActionConformance,
    ImageConformance,
    SemanticsConformance,
    TargetNoiseConformance,
)
from parallax.harness.conformance.update_counts import DeviceConformance, UpdateCountConformance  # noqa: E402
from parallax.harness.contract.adapter_discovery import load_adapter  # noqa: E402
from parallax.harness.contract.algorithms import ALGORITHMS  # noqa: E402
from parallax.harness.contract.algorithms.base import field_names  # noqa: E402


class AdapterConformance(
    HyperparameterConformance,
    PatchConformance,
    SemanticsConformance,
    TargetNoiseConformance,
    UpdateCountConformance,
    DeviceConformance,
    DeterminismConformance,
    RunFolderConformance,
    ResumeConformance,
    ImageConformance,
    ExtraActionConformance,
):
    """Tests that every adapter must pass. Subclass it and set `framework`."""

    framework: str

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Generate one test per supported algorithm, and per hyperparameter if a test takes one."""
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
        if "patched_field" in names:
            patched = [(a, f) for a in supported for f in sorted(adapter.list_patchable_fields(a))]
            metafunc.parametrize(("patched_algorithm", "patched_field"), patched)
        if "off_policy_algorithm" in names:
            off_policy = [a for a in supported if ALGORITHMS[a].family == "off-policy"]
            metafunc.parametrize("off_policy_algorithm", off_policy)
        if "noisy_algorithm" in names:
            noisy = [a for a in supported if "exploration_noise" in field_names(ALGORITHMS[a])]
            metafunc.parametrize("noisy_algorithm", noisy)
        if "further_actions" in names:
            kinds = [(a, kind) for a in supported for kind in adapter.extra_action_spaces(a)]
            metafunc.parametrize("further_actions", kinds)
        if "image_algorithm" in names:
            seeing = [a for a in supported if "conv_filters" in field_names(ALGORITHMS[a])]
            metafunc.parametrize("image_algorithm", seeing)
