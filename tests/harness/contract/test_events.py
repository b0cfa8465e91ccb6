import pytest

from harness.contract.events import End, EnvStep, EpisodeEnd, Events


def test_subscribers_are_told_in_the_order_in_which_they_came():
    events, told = Events(), []
    for name in "abc":
        events.subscribe(EpisodeEnd, lambda end, name=name: told.append((name, end.length)))
    events.tell(EpisodeEnd(1.0, 5))
    assert told == [("a", 5), ("b", 5), ("c", 5)]


def test_an_event_that_nobody_wants_has_nobody_to_call():
    events = Events()
    events.subscribe(End, print)
    assert events.teller(EpisodeEnd) is None
    assert not events.has_subscriber(EpisodeEnd, EnvStep) and events.has_subscriber(EnvStep, End)
    seam = events.seam()
    assert seam.pop("before_step") and set(seam.values()) == {None}


def test_a_single_subscriber_is_called_without_anything_in_between():
    events = Events()
    events.subscribe(End, print)
    assert events.teller(End) is print


def test_who_comes_too_late_is_told_so():
    events = Events()
    events.seam()
    with pytest.raises(AssertionError, match="subscribes to EnvStep when it has been settled"):
        events.subscribe(EnvStep, print)


def test_steps_of_all_copies_are_counted_after_they_are_told_of():
    events, seen = Events(), []
    events.subscribe(EnvStep, lambda step: seen.append(events.steps))
    copies = [events.seam()["before_step"] for _ in range(2)]
    for step in copies * 2:
        step()
    assert seen == [0, 1, 2, 3] and events.steps == 4
