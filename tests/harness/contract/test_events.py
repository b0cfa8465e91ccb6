"""Events reach their subscribers; watchers are found by entry points and leave the rest alone."""

import contextlib
import sys
import types
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
from support import PROJECT, register
from torch.nn.modules.module import _global_forward_pre_hooks
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from parallax.adapters.torch_common.watch import watch_training as watching_torch
from parallax.harness.conformance import trainings
from parallax.harness.conformance.trainings import make_base_hyperparameters, observe_training
from parallax.harness.contract import events as events_module
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    EnvStep,
    EpisodeBegin,
    EpisodeEnd,
    EvaluationResult,
    LayerForward,
    LossBackward,
    NoWatcherError,
    TargetNetworkUpdate,
    TargetUpdateDetector,
    TrainingEnd,
    TrainingEvents,
    find_watcher_entry_points,
    watch_libraries,
)


def test_subscribers_are_called_in_order_of_subscription():
    events, received = TrainingEvents(), []
    for name in "abc":
        events.subscribe(EpisodeEnd, lambda end, name=name: received.append((name, end.length)))
    events.publish(EpisodeEnd(1.0, 5))
    assert received == [("a", 5), ("b", 5), ("c", 5)]


def test_event_without_subscribers_has_no_publisher():
    events = TrainingEvents()
    events.subscribe(TrainingEnd, print)
    assert events.get_publisher(EpisodeEnd) is None
    assert not events.has_subscriber(EpisodeEnd, EnvStep) and events.has_subscriber(
        EnvStep, TrainingEnd
    )
    seam = events.make_env_hooks()
    assert seam.pop("before_step") and set(seam.values()) == {None}


def test_single_subscriber_is_called_directly():
    events = TrainingEvents()
    events.subscribe(TrainingEnd, print)
    assert events.get_publisher(TrainingEnd) is print


def test_late_subscription_raises():
    events = TrainingEvents()
    events.make_env_hooks()
    with pytest.raises(AssertionError, match="subscribes to EnvStep after its first event"):
        events.subscribe(EnvStep, print)


def test_steps_of_all_environments_are_counted_after_their_event():
    events, seen = TrainingEvents(), []
    events.subscribe(EnvStep, lambda step: seen.append(events.steps))
    copies = [events.make_env_hooks()["before_step"] for _ in range(2)]
    for step in copies * 2:
        step()
    assert seen == [0, 1, 2, 3] and events.steps == 4


def test_environments_report_resets_and_ends_of_episodes_by_their_copy():
    events, received = TrainingEvents(), []
    events.subscribe(EpisodeBegin, received.append)
    events.subscribe(EpisodeEnd, received.append)
    hooks = events.make_env_hooks()
    assert hooks["after_step"] is None
    hooks["before_reset"]()
    hooks["after_episode"](2.5, 7)
    assert type(received[0]) is EpisodeBegin and received[1:] == [EpisodeEnd(2.5, 7)]


def test_returns_are_finite_up_to_the_largest_recorded_number():
    most = float(np.finfo(np.float32).max)
    for value in (most, -most):
        assert EvaluationResult(np.array([1.0, value]), np.ones(2, int)).is_finite is True
    for value in (1.001 * most, -1.001 * most, np.inf, np.nan):
        assert EvaluationResult(np.array([1.0, value]), np.ones(2, int)).is_finite is False


def test_events_have_neutral_default_values():
    forward = LayerForward("layer", (), ())
    assert forward.is_preactivation() is None and forward.fit_copy() is None
    loss = LossBackward(1.0)
    assert (loss.place, loss.compared(), loss.entropy_slopes()) == (0, (), ())


def test_loading_watchers_does_not_change_numpys_generator(monkeypatch):
    def load():
        np.random.seed(7)  # as JAX does
        return "watcher"

    entries = {"torch": types.SimpleNamespace(load=load)}
    monkeypatch.setattr(events_module, "find_watcher_entry_points", lambda: entries)
    np.random.seed(3)
    expected = np.random.random(2).tolist()
    np.random.seed(3)
    assert events_module.load_watchers() == ["watcher"]
    assert np.random.random(2).tolist() == expected


def test_only_subscribed_libraries_are_watched_and_given_watchers_are_used(monkeypatch):
    entered = []

    @contextlib.contextmanager
    def watcher(events):
        entered.append(events)
        yield
        entered.append("left")

    def refuse():
        raise AssertionError("watchers are searched")

    monkeypatch.setattr(events_module, "load_watchers", refuse)
    events = TrainingEvents()
    events.subscribe(EnvStep, print)
    with watch_libraries(events):
        assert entered == []
    events.subscribe(LossBackward, print)
    with watch_libraries(events, [watcher]):
        assert entered == [events]
    assert entered == [events, "left"]
    monkeypatch.setattr(events_module, "load_watchers", lambda: [watcher])
    with watch_libraries(events):
        assert entered[2:] == [events]


def test_targets_have_moved_if_they_differ_from_the_last_check():
    events, moves, weights = TrainingEvents(), [], {}
    events.subscribe(TargetNetworkUpdate, moves.append)
    detector = TargetUpdateDetector(events, lambda: dict(weights))
    weights |= {"target.a": np.zeros(2), "policy": np.zeros(2)}
    detector.detect()
    assert moves == []  # nothing to compare with
    first = dict(weights)
    weights |= {"target.a": np.zeros(2), "policy": np.ones(2), "target.b": np.ones(2)}
    detector.detect("an event")
    assert moves == []
    second = dict(weights)
    weights |= {"target.a": np.array([0.0, 1.0])}
    detector.detect()
    assert len(moves) == 1 and moves[0].moved == ("target.a",)
    assert moves[0].before == second != first and moves[0].after == weights
    detector.detect()
    assert len(moves) == 1


INSIDE = (LayerForward, LossBackward, BeforeOptimizerStep, AfterOptimizerStep)


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


def test_only_libraries_that_are_in_use_are_watched(monkeypatch):
    """`this` can be imported and is not; of the third there is only a name."""
    names = ("torch", "this", "no_such_library")
    entries = {name: types.SimpleNamespace(load=lambda name=name: name) for name in names}
    monkeypatch.setattr(events_module, "find_watcher_entry_points", lambda: entries)
    monkeypatch.delitem(sys.modules, "this", raising=False)
    assert events_module.load_watchers() == ["torch"]
    assert events_module.load_watchers(["this", "no_such_library"]) == ["this"]
    assert events_module.load_watchers(names) == ["torch", "this"]
    for libraries in ([], ["no_such_library"], ["jax"]):
        with pytest.raises(NoWatcherError, match="no_such_library, this, torch"):
            events_module.load_watchers(libraries)
    del entries["torch"]
    assert events_module.load_watchers() == ["this"]  # where nothing is in use, all that can be
    entries.clear()
    with pytest.raises(LookupError, match="install this project again"):
        events_module.load_watchers()


def test_watchers_of_this_project_are_installed():
    ours = PROJECT["entry-points"]["parallax.watchers"]
    remedy = "install this project again: make install"
    assert find_watcher_entry_points().keys() >= ours.keys(), remedy


def test_registered_watcher_publishes_events_in_order(registered):
    events, received = TrainingEvents(), []
    for kind in INSIDE:
        events.subscribe(kind, received.append)
    with watch_libraries(events):
        layer = a_step()
    assert [type(event) for event in received] == list(INSIDE)
    forward, backward, step, _ = received
    (group,) = step.groups
    assert forward.layer is layer and forward.places == tuple(p.place for p in group.parameters)
    assert backward.loss != 0
    assert step.optimizer == "Adam" and group.settings["lr"] == 0.25
    assert [p.size for p in group.parameters] == [3, 1]
    np.testing.assert_array_equal(group.parameters[0].gradient(), np.ones((1, 3)))


@pytest.mark.parametrize("number", range(len(INSIDE)))
def test_only_subscribed_events_install_hooks(number):
    events, before = TrainingEvents(), hooks()
    events.subscribe(INSIDE[number], lambda event: None)
    with watching_torch(events):
        within = hooks()
    assert [a == b for a, b in zip(within, before, strict=True)].count(False) == 1
    assert hooks() == before


def test_watchers_are_not_searched_without_subscribers(monkeypatch):
    monkeypatch.setattr(events_module, "find_watcher_entry_points", None)
    before = hooks()
    with watch_libraries(TrainingEvents()):
        assert hooks() == before


def test_conformance_without_a_watcher_fails_with_a_remedy(monkeypatch):
    monkeypatch.setattr(events_module, "find_watcher_entry_points", dict)
    with pytest.raises(LookupError, match=r"parallax\.watchers.*make install"):
        observe_training(
            "sb3", "ppo", make_base_hyperparameters("sb3", "ppo"), seed=77
        )  # stored by no other test


def test_conformance_skips_without_a_watchable_library(monkeypatch):
    entry = EntryPoint(
        "no_such_library", "no_such_library:watching", events_module.WATCHER_ENTRY_POINT_GROUP
    )
    for module in (events_module, trainings):
        monkeypatch.setattr(module, "find_watcher_entry_points", lambda: {entry.name: entry})
    with pytest.raises(pytest.skip.Exception, match="sb3 trains with torch, for which there is no"):
        observe_training("sb3", "ppo", make_base_hyperparameters("sb3", "ppo"), seed=77)
    events = TrainingEvents()
    events.subscribe(BeforeOptimizerStep, print)
    with pytest.raises(NoWatcherError), watch_libraries(events):
        pass


def test_target_updates_are_published_once():
    events, moves = TrainingEvents(), []
    events.subscribe(TargetNetworkUpdate, moves.append)
    weights = {"online": np.zeros(2), "a.target": np.zeros(2), "b.target": np.zeros(2)}
    watch = TargetUpdateDetector(
        events, lambda: {name: value.copy() for name, value in weights.items()}
    )
    watch.detect()
    weights["online"] += 1
    watch.detect()
    weights["b.target"] += 1
    watch.detect()
    watch.detect()
    (move,) = moves
    assert move.moved == ("b.target",)
    assert move.before["b.target"][0] == 0 and move.after["b.target"][0] == 1
