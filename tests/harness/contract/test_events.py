import pytest

from parallax.harness.contract.events import EnvStep, EpisodeEnd, TrainingEnd, TrainingEvents


def test_subscribers_are_told_in_the_order_in_which_they_came():
    events, told = TrainingEvents(), []
    for name in "abc":
        events.subscribe(EpisodeEnd, lambda end, name=name: told.append((name, end.length)))
    events.tell(EpisodeEnd(1.0, 5))
    assert told == [("a", 5), ("b", 5), ("c", 5)]


def test_an_event_that_nobody_wants_has_nobody_to_call():
    events = TrainingEvents()
    events.subscribe(TrainingEnd, print)
    assert events.get_publisher(EpisodeEnd) is None
    assert not events.has_subscriber(EpisodeEnd, EnvStep) and events.has_subscriber(
        EnvStep, TrainingEnd
    )
    seam = events.make_env_hooks()
    assert seam.pop("before_step") and set(seam.values()) == {None}


def test_a_single_subscriber_is_called_without_anything_in_between():
    events = TrainingEvents()
    events.subscribe(TrainingEnd, print)
    assert events.get_publisher(TrainingEnd) is print


def test_who_comes_too_late_is_told_so():
    events = TrainingEvents()
    events.make_env_hooks()
    with pytest.raises(AssertionError, match="subscribes to EnvStep when it has been settled"):
        events.subscribe(EnvStep, print)


def test_steps_of_all_copies_are_counted_after_they_are_told_of():
    events, seen = TrainingEvents(), []
    events.subscribe(EnvStep, lambda step: seen.append(events.steps))
    copies = [events.make_env_hooks()["before_step"] for _ in range(2)]
    for step in copies * 2:
        step()
    assert seen == [0, 1, 2, 3] and events.steps == 4
