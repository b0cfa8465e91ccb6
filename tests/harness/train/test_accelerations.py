"""Accelerations: part of a run's identity, refused where they cannot be had, the same update."""

import numpy as np
import pytest
import support
from loops import iterate_some

from parallax.harness.contract import acceleration as contract
from parallax.harness.contract.acceleration import ACCELERATIONS, NO_ACCELERATION
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.record.reading import read_run
from parallax.harness.train.prepare import prepare_run

SMALL = {"hidden_sizes": [16, 16], "batch_size": 32, "learning_starts": 64}
TINY_RUN = {"steps": 96, "eval_every": 96, "eval_episodes": 1}


def skip_unless_installed(framework):
    try:
        load_adapter(framework).check_installed()
    except SpecError as error:
        pytest.skip(str(error))


def prepare(framework, algorithm="td3", **changes):
    return prepare_run(support.spec(framework, algorithm, **changes), load_adapter(framework))


def train(framework, folder, acceleration=NO_ACCELERATION, algorithm="td3"):
    spec = support.spec(
        framework,
        algorithm,
        hps="original",
        hyperparameters=SMALL,
        alignment="exact",
        acceleration=acceleration,
        **TINY_RUN,
    )
    folder, content = support.run(spec, folder)
    assert content["status"] == "completed", content.get("failure")
    return folder, content["weights_sha256"]


def test_acceleration_is_part_of_the_path_unless_there_is_none():
    assert "acceleration" not in support.spec().variant
    accelerated = support.spec(acceleration="fused-adam")
    assert "acceleration=fused-adam" in accelerated.variant.split(",")
    assert accelerated != support.spec() and "+fused-adam" in accelerated.title
    assert spec_from_dict(spec_to_dict(accelerated)) == accelerated


def test_records_without_acceleration_mean_none():
    content = spec_to_dict(support.spec())
    assert content.pop("acceleration") == NO_ACCELERATION
    assert spec_from_dict(content).acceleration == NO_ACCELERATION
    old = support.ROOT / "tests/data/schema_1/results/plain"
    spec = read_run(next(old.glob("Inverted*/ppo/sb3/sb3/*/seed=0"))).spec
    assert spec_from_dict(spec).acceleration == NO_ACCELERATION


def test_unknown_acceleration_is_refused_with_the_known_ones():
    with pytest.raises(SpecError, match=r"acceleration=.*warp.* none, compile, fused-adam"):
        support.spec(acceleration="warp")


@pytest.mark.parametrize(
    ("framework", "algorithm", "name", "reason"),
    [
        ("sb3", "td3", "eager", "operation by operation"),
        ("sb3", "td3", "no-vmap", "TorchRL"),
        ("sb3", "td3", "cuda-graphs", "device=cpu has none"),
        ("torchrl", "ddpg", "no-vmap", "one critic"),
        ("torchrl", "ppo", "foreach-adam", "learning rate in a tensor"),
        ("torchrl", "td3", "bfloat16", "does not carry"),
        ("sbx", "td3", "fused-adam", "JAX"),
        ("sbx", "td3", "compile", "JAX compiles"),
    ],
)
def test_unavailable_acceleration_is_refused_with_reason_and_remedy(
    framework, algorithm, name, reason
):
    skip_unless_installed(framework)
    with pytest.raises(SpecError) as caught:
        prepare(framework, algorithm, acceleration=name)
    text = str(caught.value)
    assert text.startswith(f"acceleration={name} is not available for algorithm={algorithm}")
    assert reason in text and "Use acceleration=none" in text
    offered = text.partition("Use acceleration=")[2].rstrip(".").split(" or ")
    assert name not in offered and set(offered) <= set(ACCELERATIONS)
    for other in offered:
        prepare(framework, algorithm, acceleration=other)


def test_compile_is_refused_without_a_compiler(monkeypatch):
    monkeypatch.setattr(contract.shutil, "which", lambda name: None)
    with pytest.raises(SpecError, match=r"C\+\+ compiler.*Use acceleration=none or fused-adam"):
        prepare("sb3", acceleration="compile")
    spec = support.spec("sb3", "td3", acceleration="compile")
    elsewhere = prepare_run(spec, load_adapter("sb3"), on_this_machine=False)
    assert elsewhere.context.acceleration == "compile"


def test_cuda_graphs_are_refused_on_a_gpu_too():
    why = load_adapter("sb3").why_unsupported_acceleration("td3", "cuda-graphs", "cuda", False)
    assert "overwrites the outputs" in why


@pytest.mark.parametrize("framework", support.frameworks("sb3", "cleanrl"))
def test_foreach_adam_is_bit_identical(framework, tmp_path):
    plain, other = (train(framework, tmp_path, name) for name in (NO_ACCELERATION, "foreach-adam"))
    assert plain[0] != other[0] and plain[1] == other[1]


@pytest.mark.parametrize("framework", support.frameworks("sb3", "cleanrl", "torchrl"))
def test_fused_adam_is_equal_to_rounding(framework, tmp_path):
    plain, other = (train(framework, tmp_path, name) for name in (NO_ACCELERATION, "fused-adam"))
    assert plain[1] != other[1]  # it was in effect: the last bits differ
    for one, two in zip(*map(load_weights, (plain[0], other[0])), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-3)


def load_weights(folder):
    with np.load(folder / "policy.npz") as stored:
        return [stored[name] for name in sorted(stored)]


@pytest.mark.long
@pytest.mark.skipif(bool(contract.explain_missing_compiler()), reason="there is no C++ compiler")
def test_training_with_compiled_networks_completes(tmp_path):
    folder, _ = train("sb3", tmp_path, "compile", "ddpg")
    plain, _ = train("sb3", tmp_path, NO_ACCELERATION, "ddpg")
    for one, two in iterate_some(zip(load_weights(plain), load_weights(folder), strict=True)):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-3)


@pytest.mark.long  # JAX compiles each operation by itself
@pytest.mark.parametrize("framework", support.frameworks("sbx"))
def test_training_without_jit_completes(framework, tmp_path):
    plain, other = (train(framework, tmp_path, name) for name in (NO_ACCELERATION, "eager"))
    for one, two in iterate_some(zip(load_weights(plain[0]), load_weights(other[0]), strict=True)):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-3)


def test_state_of_accelerated_networks_is_saved_and_loaded():
    torch = pytest.importorskip("torch")
    from parallax.adapters.torch_common.acceleration import accelerate_networks
    from parallax.adapters.torch_common.state import make_checkpointable

    one, other = (torch.nn.Sequential(torch.nn.Linear(2, 2)) for _ in range(2))
    for network in (one, other):
        accelerate_networks("bfloat16", network)
    state = make_checkpointable({"network": one}).state()
    make_checkpointable({"network": other}).load_state(state)
    assert torch.equal(one(torch.ones(1, 2)), other(torch.ones(1, 2)))
    assert other.forward._network is other
