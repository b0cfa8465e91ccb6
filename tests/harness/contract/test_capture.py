"""Objects to plain values, and plain values laid into objects of the same making."""

import collections
import dataclasses
import enum
import random

import numpy as np
import pytest

from parallax.harness.contract.state_codec import (
    RNG_CODECS,
    StateMismatchError,
    StateReader,
    StateWriter,
    UnsupportedStateError,
)


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
        self.late, self.conformance_values, self.text = None, np.float32(0), "x"
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
        self.late, self.conformance_values = Inner(self.memory), np.float32(2.5)
        self.objects[1] = {"k": np.arange(2)}
        del self.text


def laid_in(web=None):
    old = web or Web()
    old.live()
    state, new = StateReader().read(old), Web()
    before = new.memory, new.part, new.inner[0]
    assert StateWriter(types=(Inner, Colour)).write(new, state) is new
    return old, new, before


def test_everything_is_as_it_was():
    old, new, _ = laid_in()
    assert np.array_equal(new.memory, old.memory) and new.inner[2].colour is Colour.BLUE
    assert list(new.recent) == [2, (3, [4])] and new.recent.maxlen == 2
    assert new.counts == {"a": 5} and new.counts["b"] == 0
    assert new.table[("a", 1)] is None and new.table[Colour.RED] == 7
    assert list(new.table) == list(old.table) and new.table["new"] == slice(1, 2)
    assert new.seen == {("k", 1)} and new.slotted.x == 9
    assert new.conformance_values == 2.5 and isinstance(new.conformance_values, np.float32)
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
    StateWriter(types=[Inner]).write(new, StateReader().read(old))
    assert new.memory.tolist() == [0] * 6 and new.late.tolist() == [5] * 6
    assert new.part.tolist() == [8, 8]


def test_what_cannot_be_told_is_named_by_its_path():
    web = Web()
    web.inner[1].values = {"stream": iter([1])}
    with pytest.raises(UnsupportedStateError, match=r"inner\[1\].values\['stream'\] is"):
        StateReader().read(web)
    web.inner[1].values = {object(): 1}
    with pytest.raises(UnsupportedStateError, match="has object as keys"):
        StateReader().read(web)


def test_what_does_not_fit_is_refused():
    state = StateReader().read(np.random.Generator(np.random.PCG64(0)))
    with pytest.raises(StateMismatchError, match="is a MT19937 and was a PCG64"):
        StateWriter().write(np.random.Generator(np.random.MT19937(0)), state)
    with pytest.raises(StateMismatchError, match=r"no.such:Thing, which is not registered"):
        StateWriter().write(None, {"kind": "object", "class": "no.such:Thing", "attributes": {}})


def test_what_others_keep_is_left_alone():
    outside = Inner(np.zeros(1))
    web = Web()
    web.late = outside
    state = StateReader(external_objects=[outside]).read(web)
    new = Web()
    new.late = other = Inner(np.full(1, 4.0))
    StateWriter().write(new, state)
    assert new.late is other and other.values == 4


def named(kind, name, **content):
    return {"kind": kind, "class": name, **content}


FOREIGN = {
    "a tuple that starts a program": named(
        "tuple", "subprocess:Popen", parts=[named("list", "builtins:list", parts=[], longest=None)]
    ),
    "a tuple of a function": named("tuple", "os:system", parts=["true"]),
    "a tuple of a list": named("tuple", "builtins:list", parts=[1]),
    "an object that removes a file": named(
        "object", "tempfile:_TemporaryFileCloser", attributes={"name": "x"}
    ),
    "an object of a builtin": named("object", "builtins:memoryview", attributes={}),
    "a dict with a constructor": named("dict", "os:_Environ", pairs=[]),
    "a dict of an object": named("dict", "test:Web", pairs=[]),
    "a list of a class of ours": named("list", "pathlib:Path", parts=[], longest=None),
    "a member of no enumeration": named("enum", "os:environ", member="PATH"),
    "a member of a dict": named("enum", "builtins:dict", member="a"),
    "a generator that is none": {
        "kind": "special",
        "number": 0,
        "state": {"bit_generator": "test"},
    },
    "a generator in one": {"kind": "special", "number": 1, "state": {"bit_generator": "seed"}},
}


@pytest.mark.parametrize("state", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("live", [None, (), {}, Slotted()], ids=lambda live: type(live).__name__)
def test_no_type_is_looked_up_by_its_name(state, live):
    with pytest.raises(StateMismatchError):
        StateWriter(types=(Inner, Colour)).write(live, state)
    with pytest.raises(StateMismatchError):
        StateWriter().write({"a": live}, named("dict", "builtins:dict", pairs=[["a", state]]))


def test_no_constructor_runs(tmp_path):
    mark = tmp_path / "mark"

    class Trap(tuple):
        def __new__(cls, *parts):
            mark.touch()
            return tuple.__new__(cls, parts)

    live = tuple.__new__(Trap, (1,))
    assert StateWriter().write(live, StateReader().read(live)) == (1,) and not mark.exists()


def test_keys_of_an_enumeration_are_those_of_what_is_there_or_registered():
    told = StateReader().read({Colour.BLUE: 1})
    assert StateWriter().write({Colour.RED: 0}, told) == {Colour.BLUE: 1}
    assert StateWriter(types=[Colour]).write({}, told) == {Colour.BLUE: 1}
    with pytest.raises(StateMismatchError, match="not registered"):
        StateWriter().write({}, told)


def test_named_tuple_with_other_fields_is_refused():
    Point = collections.namedtuple("Point", "x y")
    state = StateReader().read(Point(1, 2))
    assert StateWriter(types=[Point]).write(None, state) == Point(1, 2)
    state["parts"].append(3)
    with pytest.raises(StateMismatchError, match=r"has 3 parts, and .*Point 2"):
        StateWriter(types=[Point]).write(None, state)


def test_types_of_frameworks_that_are_in_checkpoints_by_now_are_registered():
    torch = pytest.importorskip("torch")
    from parallax.adapters.torch_common.state import make_checkpointable

    parts = {"shape": [None], "spread": [None]}
    filled = {"shape": [torch.Size([2])], "spread": [torch.distributions.Normal(0.0, 1.0)]}
    make_checkpointable(parts).load_state(make_checkpointable(filled).state())
    assert parts["shape"] == [torch.Size([2])] and parts["spread"][0].scale == 1
    state = make_checkpointable({"x": torch.zeros(2)}).state()
    state["x"]["state"]["type"] = "load"
    with pytest.raises(StateMismatchError, match="'load' is no type of numbers"):
        make_checkpointable({"x": None}).load_state(state)


@pytest.mark.parametrize(
    ("value", "model"),
    [
        (frozenset({1, ("a", 2)}), frozenset()),
        ({Colour.RED, Colour.BLUE}, {Colour.BLUE}),
        ({np.int64(3): "a", np.float32(0.5): "b"}, {}),
        ({("k", np.int64(3)): [1]}, {}),
        (collections.deque([1, 2], maxlen=2), None),
        (collections.deque([1, 2]), None),
        (random.Random(3), None),
        (np.random.Generator(np.random.MT19937(3)), None),
        (np.random.Generator(np.random.PCG64(3)), None),
    ],
)
def test_what_is_created_anew_is_as_it_was(value, model):
    state = StateReader((*RNG_CODECS,)).read([value])
    found = StateWriter((*RNG_CODECS,), types=[Colour]).write([model], state)[0]
    assert type(found) is type(value)
    if isinstance(value, collections.deque):
        assert (found, found.maxlen) == (value, value.maxlen)
    elif isinstance(value, random.Random):
        assert found.random() == value.random()
    elif isinstance(value, np.random.Generator):
        assert type(found.bit_generator) is type(value.bit_generator)
        assert (found.normal(size=3) == value.normal(size=3)).all()
    else:
        assert found == value
    if isinstance(value, dict):
        assert [type(key) for key in found] == [type(key) for key in value]
