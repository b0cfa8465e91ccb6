"""Objects to plain values, and plain values laid into objects of the same making."""

import collections
import dataclasses
import enum
import random

import numpy as np
import pytest

from harness.contract.capture import NotCapturedError, NotLaidInError, Reader, Writer


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Slotted:
    __slots__ = ("x",)


@dataclasses.dataclass
class Inner:
    values: np.ndarray
    colour: Colour = Colour.RED


class Web:
    """What a set-up makes: things that share, refer back and draw."""

    def __init__(self):
        self.memory = np.zeros(6)
        self.part = self.memory[2:4]
        self.inner = [Inner(np.zeros(2)) for _ in range(2)]
        self.again = self.inner[0]
        self.me = self
        self.rng, self.legacy = np.random.default_rng(0), np.random.RandomState(0)
        self.python, self.bits = random.Random(0), np.random.PCG64(0)
        self.recent = collections.deque(maxlen=2)
        self.counts = collections.defaultdict(int)
        self.table = {("a", 1): None, Colour.RED: np.zeros(1)}
        self.seen, self.slotted = set(), Slotted()
        self.late, self.small, self.text = None, np.float32(0), "x"
        self.objects = np.array([None, None], dtype=object)
        self.call = self.draw

    def draw(self):
        return [self.rng.random(), self.legacy.rand(), self.python.random(), self.bits.random_raw()]

    def live(self):
        self.draw()
        self.memory[:] = np.arange(6)
        self.inner[1].values[:] = 3
        self.inner.append(Inner(np.ones(3), Colour.BLUE))
        self.recent.extend([1, 2, (3, [4])])
        self.counts["a"] += 5
        self.table[Colour.RED][:] = 7
        self.table["new"] = slice(1, 2)
        self.seen.add(("k", 1))
        self.slotted.x = 9
        self.late, self.small = Inner(self.memory), np.float32(2.5)
        self.objects[1] = {"k": np.arange(2)}
        del self.text


def laid_in(web=None):
    old = web or Web()
    old.live()
    state, new = Reader().read(old), Web()
    before = new.memory, new.part, new.inner[0]
    assert Writer().write(new, state) is new
    return old, new, before


def test_everything_is_as_it_was():
    old, new, _ = laid_in()
    assert np.array_equal(new.memory, old.memory) and new.inner[2].colour is Colour.BLUE
    assert list(new.recent) == [2, (3, [4])] and new.recent.maxlen == 2
    assert new.counts == {"a": 5} and new.counts["b"] == 0
    assert new.table[("a", 1)] is None and new.table[Colour.RED] == 7
    assert list(new.table) == list(old.table) and new.table["new"] == slice(1, 2)
    assert new.seen == {("k", 1)} and new.slotted.x == 9
    assert new.small == 2.5 and isinstance(new.small, np.float32)
    assert np.array_equal(new.objects[1]["k"], [0, 1]) and not hasattr(new, "text")
    assert new.draw() == old.draw()
    assert new.call.__self__ is new  # code, which is nobody's state


def test_arrays_get_their_numbers_in_place_and_share_what_they_shared():
    _, new, (memory, part, inner) = laid_in()
    assert new.memory is memory and new.part is part and new.inner[0] is inner
    assert new.part.base is new.memory and new.part.tolist() == [2, 3]
    assert new.again is new.inner[0] and new.me is new and new.late.values is new.memory


def test_arrays_that_share_now_and_did_not_then_are_kept_apart():
    old, new = Web(), Web()
    old.late, old.part = np.full(6, 5.0), np.full(2, 8.0)
    new.late = new.memory  # as where a set-up hands out its own array, and later copies
    Writer().write(new, Reader().read(old))
    assert new.memory.tolist() == [0] * 6 and new.late.tolist() == [5] * 6
    assert new.part.tolist() == [8, 8]


def test_what_cannot_be_told_is_named_by_its_path():
    web = Web()
    web.inner[1].values = {"stream": iter([1])}
    with pytest.raises(NotCapturedError, match=r"inner\[1\].values\['stream'\] is"):
        Reader().read(web)
    web.inner[1].values = {object(): 1}
    with pytest.raises(NotCapturedError, match="has object as keys"):
        Reader().read(web)


def test_what_does_not_fit_is_refused():
    state = Reader().read(np.random.Generator(np.random.PCG64(0)))
    with pytest.raises(NotLaidInError, match="is a MT19937 and was a PCG64"):
        Writer().write(np.random.Generator(np.random.MT19937(0)), state)
    with pytest.raises(NotLaidInError, match="which is not loaded"):
        Writer().write(None, {"kind": "object", "class": "no.such:Thing", "attributes": {}})


def test_what_others_keep_is_left_alone():
    outside = Inner(np.zeros(1))
    web = Web()
    web.late = outside
    state = Reader(outside=[outside]).read(web)
    new = Web()
    new.late = other = Inner(np.full(1, 4.0))
    Writer().write(new, state)
    assert new.late is other and other.values == 4
