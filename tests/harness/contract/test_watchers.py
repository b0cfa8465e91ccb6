"""Watchers are found by their entry points, and leave libraries alone that nobody asks about."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
from support import PROJECT, register
from torch.nn.modules.module import _global_forward_pre_hooks
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from adapters.torch_common.watch import watching as watching_torch
from harness.conformance.trainings import base_hyperparameters, observe
from harness.contract import watchers
from harness.contract.events import (
    Backward,
    Events,
    Forward,
    OptimizerStep,
    OptimizerStepped,
    TargetUpdate,
)
from harness.contract.watchers import TargetWatch, UnwatchedError, installed_watchers, watching

INSIDE = (Forward, Backward, OptimizerStep, OptimizerStepped)


@pytest.fixture
def registered(tmp_path, monkeypatch):
    register(tmp_path / "site", PROJECT["entry-points"])
    monkeypatch.syspath_prepend(tmp_path / "site")


def a_step():
    """One training step of a small network."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.25)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return layer


def hooks():
    """All that a watcher may leave in torch."""
    registries = (
        _global_forward_pre_hooks,
        _global_optimizer_pre_hooks,
        _global_optimizer_post_hooks,
    )
    return *map(dict, registries), torch.Tensor.backward


def test_watchers_of_this_project_are_installed():
    ours = PROJECT["entry-points"]["parallax.watchers"]
    remedy = "install this project again: make install"
    assert installed_watchers().keys() >= ours.keys(), remedy


def test_registered_watcher_tells_in_order(registered):
    events, told = Events(), []
    for kind in INSIDE:
        events.subscribe(kind, told.append)
    with watching(events):
        layer = a_step()
    assert [type(event) for event in told] == list(INSIDE)
    forward, backward, step, _ = told
    (group,) = step.groups
    assert forward.layer is layer and forward.places == tuple(p.place for p in group.parameters)
    assert backward.loss != 0
    assert step.optimizer == "Adam" and group.settings["lr"] == 0.25
    assert [p.size for p in group.parameters] == [3, 1]
    np.testing.assert_array_equal(group.parameters[0].gradient(), np.ones((1, 3)))


@pytest.mark.parametrize("number", range(len(INSIDE)))
def test_only_what_somebody_wants_to_know_is_hooked_in(number):
    events, before = Events(), hooks()
    events.subscribe(INSIDE[number], lambda event: None)
    with watching_torch(events):
        within = hooks()
    assert [a == b for a, b in zip(within, before, strict=True)].count(False) == 1
    assert hooks() == before


def test_nothing_is_looked_for_where_nobody_wants_to_know(monkeypatch):
    monkeypatch.setattr(watchers, "installed_watchers", None)
    before = hooks()
    with watching(Events()):
        assert hooks() == before


def test_without_a_registered_watcher_conformance_fails_and_names_the_remedy(monkeypatch):
    monkeypatch.setattr(watchers, "installed_watchers", dict)
    with pytest.raises(LookupError, match=r"parallax\.watchers.*make install"):
        observe("sb3", "ppo", base_hyperparameters("sb3", "ppo"), seed=77)  # kept by no other test


def test_without_a_library_that_can_be_watched_conformance_skips(monkeypatch):
    entry = EntryPoint("no_such_library", "no_such_library:watching", watchers.GROUP)
    monkeypatch.setattr(watchers, "installed_watchers", lambda: {entry.name: entry})
    with pytest.raises(pytest.skip.Exception, match="sb3 trains with torch, which nobody watches"):
        observe("sb3", "ppo", base_hyperparameters("sb3", "ppo"), seed=77)
    events = Events()
    events.subscribe(OptimizerStep, print)
    with pytest.raises(UnwatchedError), watching(events):
        pass


def test_targets_that_moved_are_told_once():
    events, moves = Events(), []
    events.subscribe(TargetUpdate, moves.append)
    weights = {"online": np.zeros(2), "a.target": np.zeros(2), "b.target": np.zeros(2)}
    watch = TargetWatch(events, lambda: {name: value.copy() for name, value in weights.items()})
    watch.look()
    weights["online"] += 1
    watch.look()
    weights["b.target"] += 1
    watch.look()
    watch.look()
    (move,) = moves
    assert move.moved == ("b.target",)
    assert move.before["b.target"][0] == 0 and move.after["b.target"][0] == 1
