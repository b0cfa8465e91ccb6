"""Accelerations that a framework refuses, and the reasons."""

import types

import pytest

from parallax.harness.contract import acceleration
from parallax.harness.contract.acceleration import (
    check_acceleration,
    check_observable_acceleration,
    explain_missing_acceleration,
    explain_missing_compiler,
    split_device,
)
from parallax.harness.contract.fields import SpecError


@pytest.mark.parametrize(
    ("text", "device", "name"),
    [
        ("cuda", "cuda", "none"),
        ("compile", "cpu", "compile"),
        ("cuda+compile", "cuda", "compile"),
        ("none", "cpu", "none"),
    ],
)
def test_probe_devices_are_a_device_and_an_acceleration(text, device, name):
    assert split_device(text) == (device, name)


def test_reasons_for_a_missing_acceleration_depend_on_library_and_device():
    explain = explain_missing_acceleration
    assert explain("compile", "cpu", "jax") == "JAX compiles its updates in any case"
    assert explain("fused-adam", "cpu", "jax").startswith("it is an option of PyTorch")
    assert explain("cuda-graphs", "cpu") == "it replays kernels of a GPU, and device=cpu has none"
    assert "overwrites the outputs" in explain("cuda-graphs", "cuda")
    assert "operation by operation" in explain("eager", "cpu")
    assert "TorchRL" in explain("no-vmap", "cpu")
    assert explain("compile", "cpu") == "its adapter does not carry it"


@pytest.mark.parametrize(("found", "is_missing"), [("g++", False), ("clang++", False), ("", True)])
def test_a_compiler_is_missing_where_none_of_its_names_is_found(monkeypatch, found, is_missing):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(acceleration.shutil, "which", lambda name: name == found and name)
    assert bool(explain_missing_compiler()) == is_missing
    assert explain_missing_compiler() is not None
    monkeypatch.setenv("CXX", "own-compiler")
    monkeypatch.setattr(acceleration.shutil, "which", lambda name: name == "own-compiler" and name)
    assert explain_missing_compiler() == ""


def make_adapter(unsupported=(), devices=("cpu", "cuda"), unobservable=()):
    return types.SimpleNamespace(
        name="own",
        accelerations=("compile", "bfloat16"),
        why_unsupported_acceleration=lambda algorithm, name, device, here: (
            "it cannot" if name in unsupported else ""
        ),
        why_unsupported_device=lambda algorithm, device, here: (
            "" if device in devices else "no GPU"
        ),
        why_unobservable_acceleration=lambda name: "nobody sees it" if name in unobservable else "",
    )


def test_an_acceleration_that_is_not_available_is_refused_with_those_that_are():
    check_acceleration("ppo", "none", make_adapter(unsupported=["none"]))
    check_acceleration("ppo", "compile", make_adapter())
    message = (
        "acceleration=compile is not available for algorithm=ppo of framework=own: it cannot. "
        "Use acceleration=none or bfloat16."
    )
    with pytest.raises(SpecError, match=message):
        check_acceleration("ppo", "compile", make_adapter(unsupported=["compile"]))


def test_an_acceleration_that_probes_cannot_see_is_refused():
    check_observable_acceleration("ppo", "cuda+compile", make_adapter())
    check_observable_acceleration("ppo", "compile", make_adapter(devices=["cpu"]))
    with pytest.raises(SpecError, match=r"cuda\+compile needs device=cuda: no GPU"):
        check_observable_acceleration("ppo", "cuda+compile", make_adapter(devices=["cpu"]))
    with pytest.raises(SpecError, match=r"compile cannot be compared .*: nobody sees it"):
        check_observable_acceleration("ppo", "compile", make_adapter(unobservable=["compile"]))
    with pytest.raises(SpecError, match="acceleration=compile is not available"):
        check_observable_acceleration("ppo", "cuda+compile", make_adapter(unsupported=["compile"]))
