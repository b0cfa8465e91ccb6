"""The device is part of a run's identity and refused before training if unavailable."""

import pytest
import support
from loops import iterate_some

from parallax.adapters.torch_common import devices
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.train.prepare import prepare_run

OFFERING = support.frameworks("sb3", "cleanrl", "tianshou", "skrl", "torchrl")


@pytest.fixture
def machine(monkeypatch):
    """Has so many devices of each kind; nothing is trained on them."""

    def has(count):
        monkeypatch.setattr(devices, "count_devices", lambda kind: count)

    return has


@pytest.mark.parametrize("framework", OFFERING)
def test_gpu_is_accepted_only_if_present(framework, machine):
    spec = support.spec(framework, "td3", device="cuda")
    adapter = load_adapter(framework)
    machine(0)
    with pytest.raises(SpecError, match=r"device=cuda .*no cuda device.* Use device=cpu"):
        prepare_run(spec, adapter)
    assert (
        prepare_run(spec, adapter, on_this_machine=False).context.device == "cuda"
    )  # another machine trains
    machine(1)
    assert prepare_run(spec, adapter).context.device == "cuda"
    with pytest.raises(SpecError, match="device=cuda:1 "):
        prepare_run(support.spec(framework, "td3", device="cuda:1"), adapter)
    with pytest.raises(SpecError, match=r"device=tpu .*Use"):
        prepare_run(support.spec(framework, "td3", device="tpu"), adapter)


def test_the_framework_gets_the_device(machine):
    machine(1)
    expected = {"sb3": ("device", "cuda"), "cleanrl": ("cuda", True)}
    for framework, (name, value) in iterate_some(expected.items()):
        spec = support.spec(framework, "td3", device="cuda")
        assert prepare_run(spec, load_adapter(framework)).native.settings[name] == value


def test_framework_without_devices_is_named():
    with pytest.raises(SpecError, match=r"device=mps .*torchrl.* Use one of them"):
        prepare_run(support.spec("torchrl", "td3", device="mps"), load_adapter("torchrl"))


def test_device_is_part_of_the_path_unless_it_is_the_cpu():
    assert "device" not in support.spec().variant
    assert "device=cuda" in support.spec(device="cuda").variant.split(",")
    with pytest.raises(SpecError, match="device='CUDA 0'"):
        support.spec(device="CUDA 0")


def test_records_without_a_device_mean_cpu():
    content = spec_to_dict(support.spec())
    assert content.pop("device") == "cpu"
    assert spec_from_dict(content).device == "cpu"
