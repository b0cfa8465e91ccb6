"""Networks that are compiled or compute in bfloat16, and options of Adam."""

import copy
import shutil

import pytest

torch = pytest.importorskip("torch")

from parallax.adapters.torch_common.acceleration import (
    accelerate_networks,
    apply_torch_acceleration,
    get_accelerated_forward,
    list_networks,
)
from parallax.adapters.torch_common.recording import TorchRecorder
from parallax.harness.contract.acceleration import explain_missing_compiler
from parallax.harness.contract.events import LayerForward


class Actor(torch.nn.Module):
    """A network without a sequence of layers, as in CleanRL's scripts."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, observations):
        return torch.tanh(self.layer(observations))


class Policy(torch.nn.Module):
    """A module whose sequences are called, as in Stable-Baselines3."""

    def __init__(self):
        super().__init__()
        self.flatten = torch.nn.Sequential(torch.nn.Flatten())
        self.body = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2))
        )


def test_networks_are_the_outermost_sequences_that_are_trained():
    policy, actor = Policy(), Actor()
    assert list_networks(policy) == [policy.body]
    assert list_networks(actor) == [actor]


def test_bfloat16_rounds_within_networks_and_returns_float32():
    policy, rows = Policy(), torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    plain = policy.body(rows)
    accelerate_networks("bfloat16", policy)
    other = policy.body(rows)
    assert other.dtype == torch.float32
    assert not torch.equal(plain, other) and torch.allclose(plain, other, atol=0.02)
    other.sum().backward()
    assert policy.body[0].weight.grad.dtype == torch.float32


def test_a_copy_of_an_accelerated_network_computes_with_its_own_weights():
    actor, rows = Actor(), torch.ones(1, 3)
    accelerate_networks("bfloat16", actor)
    copied = copy.deepcopy(actor)
    with torch.no_grad():
        copied.layer.weight.zero_()
        copied.layer.bias.zero_()
    assert copied(rows).abs().max() == 0 and actor(rows).abs().max() > 0
    assert get_accelerated_forward(copied) is None


@pytest.mark.parametrize(("name", "option"), [("fused-adam", "fused"), ("foreach-adam", "foreach")])
def test_adam_options_are_set_before_the_first_step_within_the_context(name, option):
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    inside, outside, other = (
        kind([weight]) for kind in (torch.optim.Adam,) * 2 + (torch.optim.SGD,)
    )
    with apply_torch_acceleration(name):
        inside.step()
        other.step()
    outside.step()
    assert inside.param_groups[0][option] is True
    assert not outside.param_groups[0][option] and not other.param_groups[0].get(option)


def test_matmul_precision_is_restored():
    before = torch.get_float32_matmul_precision()
    with apply_torch_acceleration("matmul-medium"):
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before


def test_a_compiler_is_found_by_its_usual_names(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    for found in ("g++", "clang++"):
        monkeypatch.setattr(shutil, "which", lambda name, found=found: name == found or None)
        assert not explain_missing_compiler()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "g++" in explain_missing_compiler()


needs_compiler = pytest.mark.skipif(
    bool(explain_missing_compiler()), reason=explain_missing_compiler() or "there is a compiler"
)


@needs_compiler
def test_compiled_network_is_one_layer_to_hooks_and_computes_the_same():
    actor, rows = Actor(), torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    plain = actor(rows)
    accelerate_networks("compile", actor)
    called = []
    hook = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda layer, inputs: None if torch.compiler.is_compiling() else called.append(layer)
    )
    try:
        other = actor(rows)
    finally:
        hook.remove()
    torch.testing.assert_close(plain, other)
    assert called == [actor] and get_accelerated_forward(actor).is_compiled
    event = LayerForward(actor, (rows,), (), lambda: None, lambda: None)
    size = TorchRecorder._get_input_size(None, event)
    assert size == 3 and TorchRecorder._read_layer_input(None, event).shape == (5, 3)


@needs_compiler
def test_many_networks_of_one_class_are_all_compiled():
    # PyTorch gives up on a code object that it has compiled too often.
    from torch._dynamo.utils import counters

    actors, rows = (
        [Actor() for _ in range(torch._dynamo.config.recompile_limit + 2)],
        torch.ones(2, 3),
    )
    with apply_torch_acceleration("compile"):
        counters.clear()
        accelerate_networks("compile", *actors)
        for actor in actors:
            actor(rows)
    assert counters["stats"]["unique_graphs"] == len(actors)
