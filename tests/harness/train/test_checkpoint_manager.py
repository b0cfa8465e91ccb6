"""At which safe points a state is saved or loaded, and what is said where it cannot be."""

import math
import types

import pytest

from parallax.harness.contract.state_codec import UnsupportedStateError
from parallax.harness.record.checkpoints import LoadedCheckpoint
from parallax.harness.record.files import UnusableError
from parallax.harness.record.lock import FolderDeletedError, LockLostError
from parallax.harness.train import checkpointing
from parallax.harness.train.checkpointing import CheckpointManager, ResumeError
from parallax.harness.train.stop_signals import RunInterrupt, StopRequest

PERIOD = 20 / 60  # minutes


class Training:
    """A training with one part, a clock that is set, and a store that may fail."""

    def __init__(self, monkeypatch, every=PERIOD, start=None, lacking="", serializable=True):
        self.now, self.value, self.error, self.serializable = 0.0, 0, None, serializable
        self.saved, self.said, self.waits = [], [], []
        self.cost = 0.0
        monkeypatch.setattr(checkpointing, "time", types.SimpleNamespace(monotonic=self.read_clock))
        self.stop = StopRequest()
        store = types.SimpleNamespace(save=self.save)
        self.manager = CheckpointManager(
            store, lambda: {"step": 1000}, every, self.stop, start, self.said.append
        )
        part = types.SimpleNamespace(state=self.state, load_state=self.load_state)
        self.manager.watch({"part": part}, lacking)

    def read_clock(self):
        return self.now

    def state(self):
        if not self.serializable:
            raise UnsupportedStateError("a socket")
        return self.value

    def load_state(self, state):
        self.value = state + 0

    def save(self, about, state):
        self.now += self.cost
        if self.error is not None:
            raise self.error
        assert about == {"step": 1000}
        self.saved.append((self.now, state))

    def visit(self, *times):
        for now in times:
            self.now = now
            self.manager.safe_point()
        return [at for at, _ in self.saved]


@pytest.fixture(autouse=True)
def no_signals(monkeypatch):
    monkeypatch.delenv("PARALLAX_JOB", raising=False)
    monkeypatch.setattr("parallax.harness.train.stop_signals._ignore_signals", lambda: None)


def test_saves_are_due_at_the_schedules_times(monkeypatch):
    training = Training(monkeypatch)
    times = (5.0, 5.5, 6.0, 6.1, 7.9, 8.0, 11.9, 12.0, 20.0, 35.9, 36.0, 55.0, 56.5, 76.4, 76.5)
    assert training.visit(*times) == [6.0, 8.0, 12.0, 20.0, 36.0, 56.5, 76.5]
    assert training.said == [] and training.saved[0][1] == {"part": 0}


def test_a_save_that_takes_long_is_followed_by_a_longer_interval(monkeypatch):
    training = Training(monkeypatch)
    training.cost = 0.05  # a hundredth of five seconds
    assert training.visit(0.0, 1.0) == [1.05]
    assert training.visit(6.04) == [1.05]
    assert training.visit(6.06) == [1.05, pytest.approx(6.11)]


def test_a_requested_checkpoint_is_saved_once_at_the_next_safe_point(monkeypatch):
    early, late = Training(monkeypatch), Training(monkeypatch)
    early.manager.request_checkpoint()
    assert early.visit(0.0, 0.5, 0.9) == [0.0]
    monkeypatch.setattr(checkpointing, "time", types.SimpleNamespace(monotonic=late.read_clock))
    assert late.visit(0.0, 0.1) == []
    late.manager.request_checkpoint()
    assert late.visit(0.2, 0.3) == [0.2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"every": 0}, []),
        ({"every": 0, "lacking": "it has a socket"}, []),
        ({"lacking": "it has a socket"}, ["it has a socket"]),
        ({"serializable": False}, ["a socket"]),
    ],
)
def test_nothing_is_saved_without_checkpoint_support(monkeypatch, changes, said):
    training = Training(monkeypatch, **changes)
    training.manager.request_checkpoint()
    assert training.visit(0.0, 1.0, 100.0) == []
    training.manager.request_checkpoint()
    assert training.visit(200.0, 1e9) == []
    start = "The run keeps no checkpoints and would start again from its start: "
    assert training.said == [f"{start}{why}." for why in said]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "At step 1,000 no checkpoint could be written"),
        (UnsupportedStateError("a new socket"), "keeps no checkpoints"),
    ],
)
def test_training_continues_after_a_failed_checkpoint(monkeypatch, error, said):
    training = Training(monkeypatch)
    training.visit(0.0)
    training.error = error
    assert training.visit(1.0) == []
    training.error = None
    goes_on = isinstance(error, OSError)
    assert training.visit(3.0, 7.0) == ([3.0, 7.0] if goes_on else [])
    (text,) = training.said
    assert said in text and (error.strerror if goes_on else str(error)) in text


@pytest.mark.parametrize("error", [LockLostError("x"), FolderDeletedError(2, "x"), MemoryError()])
def test_fatal_errors_are_raised(monkeypatch, error):
    training = Training(monkeypatch)
    training.visit(0.0)
    training.error = error
    with pytest.raises(type(error)):
        training.visit(1.0)
    assert training.said == []


def test_a_state_is_loaded_once_at_the_first_safe_point(monkeypatch):
    training = Training(monkeypatch, start=LoadedCheckpoint(1, {"step": 1000}, {"part": 5}, True))
    assert training.value == 0
    training.visit(0.0)
    assert training.value == 5
    training.value = 6
    assert training.visit(1.0) == [1.0] and training.saved == [(1.0, {"part": 6})]
    assert training.manager.has_resumed
    for step, part, words in ((1000, "text", "it does not fit"), (999, 5, "999 is that of step 1")):
        start = LoadedCheckpoint(1, {"step": step}, {"part": part}, True)
        unfit = Training(monkeypatch, start=start)
        with pytest.raises(ResumeError, match=words):
            unfit.visit(0.0)
        assert not unfit.manager.has_resumed


@pytest.mark.parametrize(("every", "saves"), [(PERIOD, 1), (0, 0)])
def test_a_stop_comes_after_one_more_checkpoint(monkeypatch, every, saves):
    training = Training(monkeypatch, every=every)
    training.visit(0.0)
    training.stop._wanted = RunInterrupt("user")
    with pytest.raises(RunInterrupt):
        training.visit(0.1)  # before one is due
    assert len(training.saved) == saves


def test_a_run_waits_for_safe_points_once_its_state_can_be_saved(monkeypatch):
    allowed = []
    for changes in ({}, {"serializable": False}, {"every": 0}):
        training = Training(monkeypatch, **changes)
        assert training.stop._may_wait is False
        training.visit(0.0)
        allowed.append(training.stop._may_wait)
    assert allowed == [True, False, False]
    assert math.isinf(training.manager._due)


ABOUT = {"step": 1, "seconds": 0.5}


@pytest.mark.parametrize(
    "change",
    [{"step": "x"}, {"step": 2**60}, {"seconds": math.nan}, {"seconds": -1.0}, {"identity": [1]}],
)
def test_metadata_of_wrong_types_is_damage(change):
    said = []
    store = types.SimpleNamespace(
        list_numbers=lambda: [1], read_metadata=lambda number: ABOUT | change
    )
    assert list(checkpointing.iterate_resume_points(store, {}, said.append, 7.0)) == [None]
    assert "it is damaged (Expected `" in said[0] and f"$.{next(iter(change))}" in said[0]


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({}, {"a": 1}, "a was None and is 1"),
        ({"python": "3.11"}, {"python": "3.12"}, "python was 3.11 and is 3.12"),
        (
            {"packages": {"a": "1", "torch": "2.0"}},
            {"packages": {"torch": "2.1"}},
            "packages: a was 1 and is None",
        ),
        ({"adapter": {"b.py": "1"}}, {"adapter": {"b.py": "2"}}, "b.py of the adapter is another"),
        ({"settings": {"x": 1}}, {"settings": 3}, "settings was {'x': 1} and is 3"),
        ({"settings": {1: 2, "x": 1}}, {"settings": {}}, "settings: 1 was 2 and is None"),
    ],
)
def test_checkpoints_of_another_run_are_refused_with_the_differences(then, now, words):
    said = []
    store = types.SimpleNamespace(
        list_numbers=lambda: [3, 2, 1],
        read_metadata=lambda number: ABOUT | {"identity": then if number > 1 else now},
        load=lambda number, room: LoadedCheckpoint(number, {"room": room}, None, True),
    )
    found = list(checkpointing.iterate_resume_points(store, now, said.append, 7.0))
    usable = [3, 2, 1] if not words else [1]
    assert [one and one.number for one in found] == [*usable, None]
    assert found[0].about == {"room": 7.0}
    assert len(said) == (2 if words else 0)
    for number, text in zip((3, 2), said, strict=False):
        assert text.startswith(f"Checkpoint {number} cannot be resumed from: {words}")


def test_damaged_checkpoint_is_skipped():
    said = []

    def load(number, room):
        if number == 2:
            raise UnusableError("is damaged")
        return LoadedCheckpoint(number, {}, None, True)

    store = types.SimpleNamespace(
        list_numbers=lambda: [2, 1], read_metadata=lambda number: ABOUT, load=load
    )
    found = list(checkpointing.iterate_resume_points(store, {}, said.append, 7.0))
    assert [one and one.number for one in found] == [1, None]
    assert said == ["Checkpoint 2 cannot be resumed from: it is damaged."]
