"""Objects are serialized to plain values, which are loaded into equally constructed objects."""

import collections
import copy
import dataclasses
import enum
import random
from typing import ClassVar

import numpy as np
import pytest

from parallax.harness.contract.state_codec import (
    RNG_CODECS,
    ObjectCodec,
    StateMismatchError,
    StateReader,
    StateWriter,
    UnsupportedStateError,
    get_attributes,
    get_memory_address,
    make_stateless_codec,
)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


LIMITS = np.zeros(2)


class Task:
    metadata: ClassVar = {"fps": 30, "modes": ["rgb"]}

    def __init__(self):
        self.settings, self.limits = self.metadata, LIMITS


class Slotted:
    __slots__ = ("x",)


@dataclasses.dataclass
class Inner:
    values: np.ndarray
    colour: Colour = Colour.RED


class Web:
    """Object graph with shared arrays, back references and generators."""

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


def round_trip(web=None):
    old = web or Web()
    old.live()
    state, new = StateReader().read(old), Web()
    before = new.memory, new.part, new.inner[0]
    assert StateWriter(types=(Inner, Colour)).write(new, state) is new
    return old, new, before


def test_all_parts_of_an_object_are_restored():
    old, new, _ = round_trip()
    assert np.array_equal(new.memory, old.memory) and new.inner[2].colour is Colour.BLUE
    assert list(new.recent) == [2, (3, [4])] and new.recent.maxlen == 2
    assert new.counts == {"a": 5} and new.counts["b"] == 0
    assert new.table[("a", 1)] is None and new.table[Colour.RED] == 7
    assert list(new.table) == list(old.table) and new.table["new"] == slice(1, 2)
    assert new.seen == {("k", 1)} and new.slotted.x == 9
    assert new.conformance_values == 2.5 and isinstance(new.conformance_values, np.float32)
    assert np.array_equal(new.objects[1]["k"], [0, 1]) and not hasattr(new, "text")
    assert new.draw() == old.draw()
    assert new.call.__self__ is new  # code, which is no state


def test_arrays_are_restored_in_place_with_shared_memory():
    _, new, (memory, part, inner) = round_trip()
    assert new.memory is memory and new.part is part and new.inner[0] is inner
    assert new.part.base is new.memory and new.part.tolist() == [2, 3]
    assert new.again is new.inner[0] and new.me is new and new.late.values is new.memory


def test_arrays_saved_without_shared_memory_are_restored_separately():
    old, new = Web(), Web()
    old.late, old.part = np.full(6, 5.0), np.full(2, 8.0)
    new.late = new.memory  # as where a set-up hands out its own array, and later copies
    StateWriter(types=[Inner]).write(new, StateReader().read(old))
    assert new.memory.tolist() == [0] * 6 and new.late.tolist() == [5] * 6
    assert new.part.tolist() == [8, 8]


def test_parts_that_cannot_be_serialized_are_named_by_path():
    web = Web()
    web.inner[1].values = {"stream": iter([1])}
    with pytest.raises(UnsupportedStateError, match=r"inner\[1\].values\['stream'\] is"):
        StateReader().read(web)
    web.inner[1].values = {object(): 1}
    with pytest.raises(UnsupportedStateError, match="has object as keys"):
        StateReader().read(web)


def test_mismatching_state_is_refused():
    state = StateReader().read(np.random.Generator(np.random.PCG64(0)))
    with pytest.raises(StateMismatchError, match="is a MT19937 and was a PCG64"):
        StateWriter().write(np.random.Generator(np.random.MT19937(0)), state)
    with pytest.raises(StateMismatchError, match=r"no.such:Thing, which is not registered"):
        StateWriter().write(None, {"kind": "object", "class": "no.such:Thing", "attributes": {}})


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox])
@pytest.mark.parametrize("position", [-1, 10**6])
def test_generator_state_with_invalid_offsets_is_refused(kind, position):
    state = StateReader().read(np.random.Generator(kind(0)))
    inner = state["state"]
    (inner["state"] if "pos" in inner["state"] else inner).update(
        {"pos" if kind is np.random.MT19937 else "buffer_pos": position}
    )
    with pytest.raises(StateMismatchError, match=f"pos={position} of"):
        StateWriter().write(np.random.Generator(kind(0)), state)
    if kind is np.random.MT19937:
        with pytest.raises(StateMismatchError, match=f"pos={position} of"):
            StateWriter().write(
                None, StateReader().read(np.random.RandomState(0)) | {"state": inner}
            )


def test_external_objects_are_not_changed():
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


def test_enum_keys_are_found_in_live_objects_or_registered_types():
    state = StateReader().read({Colour.BLUE: 1})
    assert StateWriter().write({Colour.RED: 0}, state) == {Colour.BLUE: 1}
    assert StateWriter(types=[Colour]).write({}, state) == {Colour.BLUE: 1}
    with pytest.raises(StateMismatchError, match="not registered"):
        StateWriter().write({}, state)


def test_named_tuple_with_other_fields_is_refused():
    Point = collections.namedtuple("Point", "x y")
    state = StateReader().read(Point(1, 2))
    assert StateWriter(types=[Point]).write(None, state) == Point(1, 2)
    state["parts"].append(3)
    with pytest.raises(StateMismatchError, match=r"has 3 parts, and .*Point 2"):
        StateWriter(types=[Point]).write(None, state)


def test_framework_types_in_checkpoints_are_registered():
    torch = pytest.importorskip("torch")
    from parallax.adapters.torch_common.state import make_checkpointable

    parts = {"shape": [None], "spread": [None]}
    filled = {"shape": [torch.Size([2])], "spread": [torch.distributions.Normal(0.0, 1.0)]}
    make_checkpointable(parts).load_state(make_checkpointable(filled).state())
    assert parts["shape"] == [torch.Size([2])] and parts["spread"][0].scale == 1
    state = make_checkpointable({"x": torch.zeros(2)}).state()
    state["x"]["state"]["type"] = "load"
    with pytest.raises(StateMismatchError, match="'load' is not a numeric type"):
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
def test_new_objects_have_the_saved_values(value, model):
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


class Base:
    __slots__ = "first"


class Derived(Base):
    __slots__ = ("__dict__", "second", "unset")

    def __init__(self, first=1):
        self.first, self.second, self.third = first, 2, 3

    def __getattr__(self, name):
        raise AssertionError(f"{name} is computed")

    @property
    def shown(self):
        return self.__dict__.get("shown", "nothing")


def test_attributes_come_from_slots_and_the_instance_dictionary():
    assert get_attributes(Derived()) == {"first": 1, "second": 2, "third": 3}
    assert get_attributes(3) == {}
    old, new = Derived(5), Derived()
    old.__dict__["shown"] = "x"  # beside a property of the same name, which cannot be set
    new.extra = 4
    state = StateReader().read(old)
    assert state == {
        "kind": "object",
        "class": f"{__name__}:Derived",
        "attributes": {"shown": "x", "third": 3, "second": 2, "first": 5},
    }
    assert StateWriter().write(new, state) is new
    assert get_attributes(new) == get_attributes(old) and new.shown == "x"
    made = StateWriter(types=[Derived]).write(None, state)
    assert type(made) is Derived and get_attributes(made) == get_attributes(old)


class Caller:
    def method(self):
        return "a method"


def test_functions_are_not_restored_and_must_exist():
    value = Caller()
    value.method, value.function = len, print
    state = StateReader().read(value)
    assert state["attributes"] == {"method": {"kind": "code"}, "function": {"kind": "code"}}
    new = Caller()
    with pytest.raises(StateMismatchError, match=r"^\.function does not exist and cannot be cr"):
        StateWriter().write(new, state)
    new.function = sum
    StateWriter().write(new, state)
    assert new.function is sum and "method" not in vars(new)  # made when it is looked up


def read_and_write(value, live):
    return StateWriter().write(live, StateReader().read(value))


def test_an_array_is_filled_in_place_if_it_fits():
    value = np.arange(4.0)
    fitting = np.zeros(4)
    assert read_and_write(value, fitting) is fitting and fitting.tolist() == value.tolist()
    locked = np.zeros(4)
    locked.setflags(write=False)
    for other in (np.zeros(4, np.float32), np.zeros((2, 2)), np.zeros(5), locked, [0.0] * 4, None):
        found = read_and_write(value, other)
        assert found is not other and found is not value
        assert (found.dtype, found.tolist()) == (value.dtype, value.tolist())
    assert locked.tolist() == [0] * 4
    empty, apart = np.empty((0, 3)), [np.empty((0, 3)), np.empty((0, 3))]
    assert read_and_write([np.zeros((0, 3)), np.zeros((0, 3))], [empty, empty])[0] is empty
    assert all(map(lambda a, b: a is b, read_and_write([empty, apart[0]], apart), apart))


def test_view_has_the_memory_address_of_its_base():
    whole = np.zeros((4, 4))
    assert get_memory_address(whole[1:][1:, 1:]) == get_memory_address(whole)
    assert get_memory_address(whole) == whole.__array_interface__["data"][0]
    assert get_memory_address(whole.copy()) != get_memory_address(whole)


def test_numbers_slices_ranges_and_members_are_plain_parts():
    values = [np.float32(2.5), np.int64(3), slice(1, None, 2), range(1, 9, 3), Colour.BLUE]
    reader = StateReader()
    assert reader.read(values)["parts"][2:] == [
        {"kind": "slice", "parts": [1, None, 2]},
        {"kind": "range", "parts": [1, 9, 3]},
        {"kind": "enum", "class": f"{__name__}:Colour", "member": "BLUE"},
    ]
    found = StateWriter(types=[Colour]).write([], StateReader().read(values))
    assert found == values and [type(one) for one in found] == [type(one) for one in values]


def test_object_arrays_are_restored_with_shape_and_shared_elements():
    part = [1]
    value = np.array([[part, None], ["x", part]], dtype=object)
    found = StateWriter().write(None, StateReader().read(value))
    assert found.shape == (2, 2) and found.dtype == object
    assert found.tolist() == [[[1], None], ["x", [1]]] and found[0, 0] is found[1, 1]
    value = np.array([None, 2], dtype=object)
    value[0] = [value]  # contains itself
    found = StateWriter().write(None, StateReader().read(value))
    assert found[1] == 2 and np.shares_memory(found[0][0], found)


def test_cyclic_and_shared_references_are_restored_as_one_object():
    value = {"a": [1]}
    value["b"], value["me"] = value["a"], value
    live = {"a": [], "b": []}
    first = live["a"]
    assert StateReader().read(value)["pairs"][1:] == [
        ["b", {"kind": "seen", "number": 1}],
        ["me", {"kind": "seen", "number": 0}],
    ]
    StateWriter().write(live, StateReader().read(value))
    assert live["a"] is first is live["b"] and live["me"] is live and first == [1]
    shared = []
    twice = StateWriter().write([shared, shared], StateReader().read([[1], [2]]))
    assert twice == [[1], [2]] and twice[0] is shared is not twice[1]


def test_constants_of_classes_and_modules_are_not_changed():
    saved, live = Task(), Task()
    saved.settings, saved.limits = {"fps": 0, "modes": ["x", "y"]}, np.ones(2)
    StateWriter().restore(live, StateReader().read(saved), "it")
    assert live.settings == saved.settings and live.limits.tolist() == [1, 1]
    assert Task.metadata == {"fps": 30, "modes": ["rgb"]} and LIMITS.tolist() == [0, 0]


def test_existing_list_and_tuple_elements_are_reused_by_index():
    inner = [0], [0]
    lists = read_and_write([[1], [2], [3]], [inner[0], inner[1]])
    assert lists == [[1], [2], [3]] and lists[0] is inner[0] and lists[1] is inner[1]
    inner = [0], [0]
    tuples = read_and_write(([1], [2], [3]), (inner[0], inner[1]))
    assert tuples == ([1], [2], [3]) and tuples[0] is inner[0] and tuples[1] is inner[1]
    mapping = read_and_write({"a": 1, "b": 2}, {"c": 3, "b": 0})
    assert list(mapping.items()) == [("a", 1), ("b", 2)]
    assert read_and_write([1], [1, 2, 3]) == [1] and read_and_write({1}, {2, 3}) == {1}


def test_codecs_read_and_write_types_and_their_contents():
    box = ObjectCodec(
        Slotted,
        lambda value, read: [read(value.x)],
        lambda live, state, write: (live, write(None, state[0])),
    )
    value, live = Slotted(), Slotted()
    value.x = (1, Colour.RED)
    codecs = (make_stateless_codec(Inner), box)
    state = StateReader(codecs).read([value, Inner(np.ones(1))])
    assert [part["number"] for part in state["parts"]] == [1, 0]
    writer = StateWriter(codecs, types=[Colour])
    other = Inner(np.zeros(1))
    assert writer.write([live, other], state) == [(live, (1, Colour.RED)), other]
    assert other.values == 0
    assert StateWriter(codecs, [Colour]).write([5, 5], state) == [(None, (1, Colour.RED)), None]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (iter([1]), r"^it is a builtins:list_iterator, whose state cannot be read$"),
        ([1, (2, iter([1]))], r"^\[1\]\[1\] is a builtins:list_iterator, whose state"),
        ({"a": {"b": iter([1])}}, r"^\['a'\]\['b'\] is a "),
        ({frozenset(): 1}, r"^ has frozenset as keys$"),
        ([{frozenset()}], r"^\[0\] has frozenset as keys$"),
    ],
)
def test_places_that_cannot_be_read_are_named(value, words):
    with pytest.raises(UnsupportedStateError, match=words):
        StateReader().read(value)


class Compiled:
    """An object whose attributes a compiled program trusts."""

    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value):
        raise AssertionError("the compiled program has another size now")


@pytest.mark.parametrize("kind", ["object", "dict", "list", "set"])
def test_objects_with_a_codec_are_restored_by_it_alone(kind):
    codec = ObjectCodec(Compiled, lambda value, read: 5, lambda live, state, write: live)
    content = {"attributes": {"other": 1}, "pairs": [], "parts": [], "longest": None}
    state = named(kind, f"{__name__}:Compiled", **content)
    live = Compiled()
    with pytest.raises(StateMismatchError, match="Compiled, which is not registered for a state"):
        StateWriter([codec]).write(live, state)
    assert vars(live) == {}
    with pytest.raises(StateMismatchError, match="ndarray, which is not registered"):
        array = named("object", "numpy:ndarray", attributes={"shape": (2, 2)})
        StateWriter().write(np.zeros(4), array)


def test_no_property_is_set_and_no_attribute_of_compiled_objects():
    live = Compiled()
    StateWriter().write(live, named("object", f"{__name__}:Compiled", attributes={"size": 2}))
    assert vars(live) == {"size": 2} and live.size == 1
    state = named("object", "builtins:object", attributes={"__class__": 1})
    with pytest.raises(StateMismatchError, match="builtins:object has no attribute __class__"):
        StateWriter().write(object(), state)


@pytest.mark.parametrize("state", [5, None, "x", named("list", "builtins:list", parts=[])])
def test_a_root_that_would_be_replaced_is_refused(state):
    """Otherwise the training would continue with the values of its set-up."""
    state = state | {"longest": None} if isinstance(state, dict) else state
    with pytest.raises(StateMismatchError, match=r"^net has another kind than the saved"):
        StateWriter().restore(Web(), state, "net")
    pytest.importorskip("torch")
    from parallax.adapters.torch_common.state import make_checkpointable

    with pytest.raises(StateMismatchError, match=r"^net has another kind"):
        make_checkpointable({"net": Web()}).load_state({"net": state})


NUMBER = {"kind": "number", "value": np.array(10**9)}


@pytest.mark.parametrize("number", [10**9, -1, "x", None, NUMBER])
def test_settings_of_an_updates_size_are_not_changed(number):
    """One update with a batch of a billion transitions takes all memory."""
    live = Web()
    live.batch_size, live.cfg, live.minibatches = 256, {"gradient_steps": 1}, 0
    live.n_step_return_horizon = live.n_step = live.stack_num = 1
    live.train_step = 0  # a counter
    state = StateReader().read(live)
    for name, change in (
        ("batch_size", lambda found: found.update(batch_size=number)),
        ("horizon", lambda found: found.update(n_step_return_horizon=number)),
        ("n_step", lambda found: found.update(n_step=number)),
        ("stack_num", lambda found: found.update(stack_num=number)),
        ("gradient_steps", lambda found: found["cfg"]["pairs"][0].__setitem__(1, number)),
    ):
        changed = copy.deepcopy(state)
        change(changed["attributes"])
        with pytest.raises(StateMismatchError, match=rf"{name}.* is another number than"):
            StateWriter().write(live, changed)
    state["attributes"] |= {"minibatches": 10**9, "train_step": 7}
    StateWriter().write(live, state)
    assert (live.batch_size, live.cfg, live.minibatches) == (256, {"gradient_steps": 1}, 10**9)
    assert live.train_step == 7


def make_optimizer(torch):
    parameter = torch.nn.Parameter(torch.zeros(4, 3))
    return parameter, torch.optim.Adam([parameter])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state["groups"][0].update(fused=True), "fused of an optimizer was True"),
        (lambda state: state["groups"][0].update(params=[]), "has other settings"),
        (lambda state: state["groups"][0].pop("lr"), "has other settings"),
        (lambda state: set_moment(state, np.zeros((1,), np.float32)), "has other moments"),
        (lambda state: set_moment(state, np.zeros((4, 3), np.float64)), "has other moments"),
    ],
)
def test_optimizers_resume_with_their_flags_and_moments(change, words):
    """Compiled updates write as many moments as there are parameters, without a check."""
    torch = pytest.importorskip("torch")
    from parallax.adapters.torch_common.state import make_checkpointable

    parameter, optimizer = make_optimizer(torch)
    parameter.grad = torch.ones(4, 3)
    optimizer.step()
    state = make_checkpointable({"optimizer": optimizer}).state()
    other, fresh = make_optimizer(torch)
    make_checkpointable({"optimizer": fresh}).load_state(state)
    assert torch.equal(fresh.state[other]["exp_avg"], optimizer.state[parameter]["exp_avg"])
    change(state["optimizer"]["state"])
    with pytest.raises(StateMismatchError, match=words):
        make_checkpointable({"optimizer": make_optimizer(torch)[1]}).load_state(state)


def set_moment(state, values):
    moment = dict(map(tuple, state["parameters"][0]["pairs"]))["exp_avg"]["state"]
    moment.update(values=values, type=str(values.dtype))


def test_referenced_tensors_are_not_resized():
    torch = pytest.importorskip("torch")
    from parallax.adapters.torch_common import state as torch_state

    live = {"a": torch.zeros(2)}
    write = StateWriter(torch_state.TORCH_CODECS).write
    read = StateReader(torch_state.TORCH_CODECS).read
    torch_state.restore_tensors(live, {"a": read(torch.ones(2))}, write)
    assert live["a"].tolist() == [1, 1]
    for states in ({"a": read(torch.ones(3))}, {"a": 5}, {}, {"b": read(torch.ones(2))}):
        with pytest.raises(StateMismatchError):
            torch_state.restore_tensors({"a": torch.zeros(2)}, states, write)


def test_pytorch_generator_state_with_invalid_offsets_is_refused():
    torch = pytest.importorskip("torch")
    from parallax.adapters.torch_common.state import make_checkpointable
    from parallax.harness.train.env_states import load_rng_state, read_rng_state

    generator = torch.Generator().manual_seed(3)
    for draws in (0, 1, 623, 1, 700):
        torch.rand(draws, generator=generator)
        state = make_checkpointable({"generator": generator}).state()
        make_checkpointable({"generator": torch.Generator()}).load_state(state)
    raw = state["generator"]["state"]["state"].copy()
    raw[8:12], raw[16:24] = np.array([624], "<i4").view("u1"), np.array([624], "<u8").view("u1")
    state["generator"]["state"]["state"] = raw
    with pytest.raises(StateMismatchError, match="reads 624 words at 624 of 624"):
        make_checkpointable({"generator": torch.Generator()}).load_state(state)
    before = read_rng_state()
    with pytest.raises(StateMismatchError, match="reads 624 words at 624 of 624"):
        load_rng_state(before | {"torch": raw})
