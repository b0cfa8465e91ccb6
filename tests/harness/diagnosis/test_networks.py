"""Signals of networks in a window, collected by PyTorch hooks."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import optimizer as optimizers

from parallax.harness.contract.events import (
    LayerForward,
    TrainingEvents,
    load_watchers,
    watch_libraries,
)
from parallax.harness.diagnosis.network_signals import WINDOW_UPDATES, NetworkSignalCollector
from parallax.harness.diagnosis.policy_signals import PolicySignalCollector
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals


def directly(net, inputs):
    """Return for each layer with parameters whether it feeds another layer directly."""
    found, events = [], TrainingEvents()
    events.subscribe(
        LayerForward, lambda it: found.append(it.is_preactivation()) if it.places else None
    )
    with watch_libraries(events):
        net(inputs)
    return found


@pytest.mark.parametrize(
    ("middle", "is_direct"),
    [
        ([], True),
        ([nn.ReLU()], False),
        ([nn.ReLU(inplace=True)], False),
        ([nn.Identity()], True),
        ([nn.LayerNorm(8), nn.ReLU()], False),
    ],
)
def test_direct_input_to_another_layer_is_detected(middle, is_direct):
    net = nn.Sequential(nn.Linear(4, 8), *middle, nn.Linear(8, 2))
    assert directly(net, torch.ones(3, 4))[-1] is is_direct
    with torch.no_grad():
        assert directly(net, torch.ones(3, 4))[-1] is None


def test_convolutions_followed_by_reshaping_are_measured():
    bare = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
    sound = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    assert directly(bare, torch.ones(2, 1, 4, 4))[-1] is True
    assert directly(sound, torch.ones(2, 1, 4, 4))[-1] is False


def window(net, lost=()):
    """Signals after a window of updates of a small network."""
    signals = TrainingSignals(TrainingFacts(choices=2))
    networks = NetworkSignalCollector(signals, lambda: np.zeros((0, 4)))
    optimizer = torch.optim.SGD([*net.parameters(), *lost], lr=0.01)

    def read():
        return {name: p.detach().numpy().copy() for name, p in net.named_parameters()}

    done = []
    networks.await_update_window(read, lambda: done.append(True))
    for _ in range(1 + WINDOW_UPDATES):  # the first one opens the window
        optimizer.zero_grad()
        net(
            torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
        ).square().mean().backward()
        optimizer.step()
    assert not networks.is_open and done
    networks.remove_ended_hooks()
    assert not optimizers._global_optimizer_post_hooks
    return signals


def test_window_collects_signals_and_removes_hooks():
    torch.manual_seed(0)
    backward = torch.Tensor.backward
    signals = window(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    assert signals.series["gradient_norm"].count == signals.series["loss"].count == WINDOW_UPDATES
    assert signals.series["batch_rows"].latest == 16
    assert signals.series["linear_after_linear"].latest == 0
    assert not signals.values["unreached"] and signals.values["parameters"] == 4
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    assert not hooks and torch.Tensor.backward is backward


def test_lost_parameters_and_dead_layers_are_distinguished():
    torch.manual_seed(0)
    lost = nn.Parameter(torch.ones(3))
    signals = window(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), [lost])
    assert list(signals.values["unreached"].values()) == [WINDOW_UPDATES]
    dead = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        dead[0].bias.fill_(-100.0)
    signals = window(dead)
    assert not signals.values["unreached"] and signals.values["zero_gradients"]
    assert signals.series["dead"].latest == 1


def examined(net):
    """Signals after the policy of a network was queried with units left out; nothing may change."""
    signals = TrainingSignals(TrainingFacts(choices=2))
    seen = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    signals.values["probe"], before = seen.copy(), [p.detach().clone() for p in net.parameters()]
    state = torch.random.get_rng_state()

    def policy(observations):
        with torch.no_grad():
            return net(torch.from_numpy(observations)).argmax(1).numpy()

    PolicySignalCollector(signals).examine(
        policy, np.random.default_rng(0), load_watchers(["torch"]), fits_copy=True
    )
    assert torch.equal(state, torch.random.get_rng_state())
    assert np.array_equal(seen, signals.values["probe"])
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    return signals


def test_policy_examination_does_not_change_the_policy():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    sound = examined(net)
    begun, ended = sound.values["fitting"]
    assert ended < 0.3 * begun and 0 < sound.series["uncertainty"].latest < 1
    with torch.no_grad():
        net[0].bias.fill_(-100.0)
    begun, ended = examined(net).values["fitting"]
    assert ended > 0.8 * begun
