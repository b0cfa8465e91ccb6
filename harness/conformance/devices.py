"""What holds on another device than the CPU, where there is one."""

import dataclasses

import numpy as np
import pytest

from harness.conformance.trainings import base_hyperparameters, observe, task_of, train, translate
from harness.contract.adapter import OnDevices, load_adapter
from harness.contract.algorithms import ALGORITHMS
from harness.contract.fields import SpecError
from harness.contract.run_spec import DEFAULTS, make_spec
from harness.train.prepare import prepare

DEVICE = "cuda"


class DeviceConformance:
    """Short trainings on a GPU; skipped, with the reason, where there is none."""

    framework: str

    def test_training_on_a_gpu_takes_its_steps_within_bounds(self, algorithm: str) -> None:
        """Steps as announced, numbers that are finite, and policies that answer in numpy."""
        _skip_where_refused(self.framework, algorithm)
        base = base_hyperparameters(self.framework, algorithm)
        trained = train(self.framework, algorithm, base, device=DEVICE)
        assert trained.steps == trained.scheduled
        for name, value in trained.weights.items():
            assert np.isfinite(value).all(), name
        on_cpu = train(self.framework, algorithm, base)
        assert {n: v.shape for n, v in trained.weights.items()} == {
            n: v.shape for n, v in on_cpu.weights.items()
        }
        assert trained.greedy.shape == on_cpu.greedy.shape
        assert trained.greedy.dtype == on_cpu.greedy.dtype
        if ALGORITHMS[algorithm].actions == "continuous":
            assert np.abs(trained.actions).max() <= 3 and np.abs(trained.greedy).max() <= 3

    def test_updates_on_a_gpu_are_as_many_as_announced(self, algorithm: str) -> None:
        """Where networks compute changes no count."""
        _skip_where_refused(self.framework, algorithm)
        base = base_hyperparameters(self.framework, algorithm)
        announced = translate(self.framework, algorithm, base, device=DEVICE).cadence
        assert observe(self.framework, algorithm, base, device=DEVICE).cadence == announced

    def test_device_that_is_not_there_is_refused(self, algorithm: str) -> None:
        """Before training, by name, with the remedy."""
        device = f"{DEVICE}:99"
        recipe = {"env": task_of(algorithm), "hps": self.framework, "seed": 0, "steps": 1}
        asked = {"study": "conformance", "framework": self.framework, "algorithm": algorithm}
        values = DEFAULTS | recipe | asked | {"eval_every": 1, "device": device}
        base = dataclasses.asdict(base_hyperparameters(self.framework, algorithm))
        with pytest.raises(SpecError) as caught:
            prepare(make_spec(values, base, base), load_adapter(self.framework))
        assert f"device={device}" in str(caught.value) and "Use " in str(caught.value)


def _skip_where_refused(framework: str, algorithm: str) -> None:
    adapter = load_adapter(framework)
    if not isinstance(adapter, OnDevices):
        pytest.skip(f"the adapter of {framework} trains on the CPU only")
    reason = adapter.refuses_device(algorithm, DEVICE, True)
    if reason:
        pytest.skip(f"device={DEVICE}: {reason}")
