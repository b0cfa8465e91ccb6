"""Trainings on a GPU; its generators are replaced by stand-ins where there is none."""

import types

import numpy as np
import pytest
import support
import torch

from benchmarks import gpu
from parallax.adapters.torch_common import devices
from parallax.adapters.torch_common.state import _write_generator, make_checkpointable
from parallax.harness.cli.main import main
from parallax.harness.contract.acceleration import split_device
from parallax.harness.contract.adapter import Checkpointable
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import RunLock
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train import env_states, run_identity
from parallax.harness.train.monitor import TrainingMonitor
from parallax.harness.train.prepare import prepare_run


@pytest.fixture
def machine_with_gpu(monkeypatch):
    """Makes PyTorch report one GPU, on which nothing can be computed."""
    monkeypatch.setattr(devices, "count_devices", lambda kind: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU of {device}")


@pytest.mark.parametrize(("framework", "algorithm"), support.pairs())
def test_resumed_and_repeated_trainings_on_a_gpu_have_the_same_bytes(framework, algorithm):
    adapter = load_adapter(framework)
    if reason := adapter.why_unsupported_device(algorithm, "cuda", True):
        pytest.skip(f"device=cuda: {reason}")
    found = gpu.measure_training(framework, algorithm)
    assert "failed" not in found, found
    if framework != "sbx":  # see docs/reference/gpu.md
        assert found["repeat_equal"] and found["was_killed"] and found["resume_equal"]
        assert found["resumed_from"]


def test_generators_of_a_gpu_are_saved_and_restored(monkeypatch):
    states = [torch.tensor([1, 2], dtype=torch.uint8)]
    restored = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", restored.extend)
    state = env_states.read_rng_state()
    env_states.load_rng_state(state)
    assert [item.tolist() for item in restored] == [[1, 2]]
    # Checkpoints of before, and those of a training on the CPU.
    env_states.load_rng_state({k: v for k, v in state.items() if k != "cuda"})
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert env_states.read_rng_state()["cuda"] is None


def test_tensors_and_generators_are_restored_on_their_device():
    class Parts(types.SimpleNamespace):
        pass

    generator = torch.Generator("cpu")
    made = Parts(tensor=torch.ones(2, device="meta"), generator=generator, plain=torch.ones(2))
    made.plain.grad = torch.full((2,), 3.0)
    state = make_checkpointable({"parts": Parts(plain=made.plain, generator=generator)}).state()
    attributes = state["parts"]["attributes"]
    plain = attributes["plain"]["state"]
    assert plain["device"] == "cpu" and attributes["generator"]["state"]["device"] == "cpu"
    plain["device"] = "meta"  # another device than the one that the values are read on
    empty = Parts(plain=None, generator=None)
    make_checkpointable({"parts": empty}).load_state(state)
    assert empty.plain.device.type == "meta"
    assert empty.plain.grad.device.type == "meta"
    assert empty.generator.initial_seed() == generator.initial_seed()
    del plain["device"]  # a checkpoint of before
    again = Parts(plain=None, generator=None)
    make_checkpointable({"parts": again}).load_state(state)
    assert again.plain.tolist() == [1, 1] and again.plain.grad.tolist() == [3, 3]


class CheckpointParts:
    """Records what a monitor would save."""

    def __init__(self):
        self.parts, self.lacking = {}, ""

    def safe_point(self):
        """Do nothing."""

    def watch(self, parts, lacking):
        """Record the parts."""
        self.parts, self.lacking = parts, lacking


@pytest.mark.parametrize(("device", "saved"), [("cuda", True), ("cpu", True), ("mps", False)])
def test_runs_on_a_gpu_have_checkpoints(device, saved, machine_with_gpu, tmp_path):
    prepared = prepare_run(support.spec("sb3", "td3", device=device), load_adapter("sb3"))
    initialize_run(prepared, tmp_path / "run")
    parts = CheckpointParts()
    with RunLock.acquire(tmp_path / "run") as run_lock:
        monitor = TrainingMonitor(prepared, RunFolder(run_lock), parts)
        monitor.attach(
            lambda observations: np.zeros((len(observations), 1), np.float32),
            dict,
            None,
            Checkpointable(lambda: None, lambda state: None),
        )
    assert ("adapter" in parts.parts) is saved
    assert bool(parts.lacking) is not saved


def test_another_gpu_cannot_resume(machine_with_gpu, monkeypatch):
    adapter = load_adapter("sb3")
    prepared = prepare_run(support.spec("sb3", "td3", device="cuda"), adapter)
    before = run_identity.describe_run_identity(prepared, adapter, {"files": {}})
    assert before["device"] == "GPU of cuda"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "another")
    now = run_identity.describe_run_identity(prepared, adapter, {"files": {}})
    why = run_identity.describe_identity_difference(before, now)
    assert why == "device was GPU of cuda and is another"
    on_cpu = prepare_run(support.spec("sb3", "td3"), adapter)
    assert "device" not in run_identity.describe_run_identity(on_cpu, adapter, {"files": {}})


def test_partial_gpu_support_is_stated(machine_with_gpu):
    torchrl = load_adapter("torchrl")
    assert torchrl.why_unsupported_device("td3", "cuda", True) == ""
    assert "NumPy" in torchrl.why_unsupported_device("r2d2", "cuda", False)
    sbx = load_adapter("sbx")
    assert sbx.why_unsupported_device("td3", "cuda", False) == ""
    assert "first one" in sbx.why_unsupported_device("td3", "cuda:1", False)
    assert "cpu, cuda" in sbx.why_unsupported_device("td3", "mps", False)


def test_noise_of_skrl_is_on_the_device_of_the_run(monkeypatch):
    from skrl import config

    from parallax.adapters.skrl.agents import CLASSES_BY_NAME

    monkeypatch.setattr(config.torch, "_device", "meta")  # a device that every machine has
    assert CLASSES_BY_NAME["GaussianNoise"](mean=0.0, std=1.0).device.type == "meta"


def test_available_gpu_is_compared_on_resume(capsys):
    assert split_device("cuda") == ("cuda", "none")
    assert split_device("cuda+compile") == ("cuda", "compile")
    assert split_device("compile") == ("cpu", "compile")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    for command in ("lockstep", "probe"):
        words = [command, "--frameworks", "sb3", "--algorithms", "td3", "--acceleration", "cuda"]
        assert main(words) == 2
        assert "PyTorch finds no cuda device" in capsys.readouterr().err


def test_gpu_page_is_up_to_date():
    stored = dict(gpu.json.loads((support.ROOT / "docs/gpu.json").read_text()))
    page = (support.ROOT / "docs/reference/gpu.md").read_text()
    assert page == gpu.render_page(stored)
    trained = [item for name, item in stored.items() if name.startswith("train,")]
    assert len(trained) == 30 and page.count("| same bytes | same bytes") == 28


def test_measurements_without_a_gpu_are_skipped_with_the_reason():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    found = gpu.measure_one("train", "sb3", "td3")
    assert found == {
        "skipped": "device=cuda: PyTorch finds no cuda device on this machine. Use device=cpu."
    }


def test_a_generator_of_an_old_checkpoint_is_that_of_the_cpu():
    live = torch.Generator().manual_seed(3)
    torch.rand(5, generator=live)
    wanted = torch.rand(2, generator=torch.Generator().set_state(live.get_state()))
    made = _write_generator(None, live.get_state().numpy(), lambda live, state: state)
    assert torch.equal(torch.rand(2, generator=made), wanted)
