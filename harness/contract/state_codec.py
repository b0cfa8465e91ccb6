"""Serialization of objects to plain values, and restoring of objects of the same structure.

A training is a graph of objects that every process creates again: arrays, some of which are views
of others, generators, counters, lists. A `StateReader` walks through the graph and serializes what
can change, as nested plain values and arrays. A `StateWriter` walks through the graph that a later
process has created and restores the saved values, those of arrays in place. Functions, classes and
modules belong to the code and are not changed.

A state is read from a file, which may be untrusted. The types it names are therefore never looked
up: an object is only created with a registered type (`TYPES`, or the types that an adapter passes
to its `StateWriter`), or with the type of the object that already exists in the same place. No
other constructor runs.
"""

import collections
import dataclasses
import enum
import functools
import logging
import random
import struct
import sys
import threading
import types
import weakref
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

State = Any
"""None, bool, int, float, str, bytes, an array, or a list or dict (by str) of such."""

_KIND = "kind"
_ABSENT: Any = object()
_PLAIN_TYPES = (type(None), bool, int, float, str, bytes)
_LOCK_TYPES = (type(threading.Lock()), type(threading.RLock()), threading.local)
_CODE_TYPES: tuple[type[Any], ...] = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type),
    *(types.MethodWrapperType, types.WrapperDescriptorType, types.GenericAlias, np.dtype, np.ufunc),
    *(functools.partial, weakref.ref, property, logging.Logger, PurePath, *_LOCK_TYPES),
)


TYPES: tuple[type[Any], ...] = (
    *(dict, list, tuple, set, frozenset, collections.deque, collections.OrderedDict),
    *(collections.defaultdict, collections.Counter, types.SimpleNamespace),
)
"""Types that every `StateWriter` can create; adapters register those of their framework."""

_CONTAINERS = {np.ndarray, *TYPES}

_BASES: dict[str, tuple[type[Any], ...]] = {
    "dict": (dict,),
    "list": (list, collections.deque),
    "set": (set, frozenset),
    "tuple": (tuple,),
    "enum": (enum.Enum,),
    "object": (object,),
}
"""Base types of the objects that can have a state of each kind."""

_WORK_SETTINGS = (
    *("batch_size", "gradient_steps", "gradient_steps_per_sample", "repetitions"),
    *("epochs", "num_minibatches", "n_minibatches", "mini_batches"),
    *("n_step_return_horizon", ".n_step", "stack_num"),  # of Tianshou, for each row of a batch
)
"""Ends of the names of settings by which one update takes any time or memory."""
_WORK_SETTING_ENDS = tuple(name + end for name in _WORK_SETTINGS for end in ("", "']"))

_BIT_GENERATORS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937),
        *(np.random.Philox, np.random.SFC64),
    )
}


class UnsupportedStateError(TypeError):
    """An object whose state cannot be serialized."""


class StateMismatchError(ValueError):
    """A state that does not fit the object to be restored."""


@dataclasses.dataclass(frozen=True)
class ObjectCodec:
    """Serialization of a type whose objects cannot simply be walked through.

    Attributes:
        type: The type, subclasses included.
        read: Serializes an object; the second argument serializes what it contains.
        write: Loads a state into the existing object, or into a new one if there is none
            (None), and returns it; the third argument loads what the object contains.
    """

    type: type[Any]
    read: Callable[[Any, Callable[[Any], State]], State]
    write: Callable[[Any, State, Callable[[Any, State], Any]], Any]


def make_stateless_codec(of: type[Any]) -> ObjectCodec:
    """Return a codec for objects that belong to the code: none of their state is saved."""
    return ObjectCodec(of, lambda value, read: None, lambda live, state, write: live)


class StateReader:
    """Serializes objects. Shared objects are serialized once, and shared again when restored."""

    def __init__(
        self, codecs: Sequence[ObjectCodec] = (), external_objects: Collection[Any] = ()
    ) -> None:
        """Create a reader that has visited no object yet.

        Args:
            codecs: Serializers of types that are not walked through; the first that fits is used.
            external_objects: Objects that are saved elsewhere.
        """
        self._codecs = (*codecs, *RNG_CODECS)
        self._outside = {id(value) for value in external_objects}
        self._seen: dict[int, int] = {}
        self._referenced_objects: list[Any] = []  # so that no id is used twice

    def read(self, value: Any, path: str = "") -> State:
        """Return the state of an object.

        Raises:
            UnsupportedStateError: The object at `path` cannot be serialized.
        """
        if type(value) in _PLAIN_TYPES:
            return value
        if id(value) in self._outside or isinstance(value, _CODE_TYPES) or type(value) is object:
            return {_KIND: "code"}
        if isinstance(value, enum.Enum):
            return {_KIND: "enum", "class": _format_class_name(type(value)), "member": value.name}
        if isinstance(value, np.generic):
            return {_KIND: "number", "value": np.asarray(value)}
        if isinstance(value, tuple):
            return self._read_tuple(value, path)
        if isinstance(value, slice | range):
            parts = [value.start, value.stop, value.step]
            return {_KIND: type(value).__name__, "parts": [self.read(part) for part in parts]}
        if id(value) in self._seen:
            return {_KIND: "seen", "number": self._seen[id(value)]}
        self._seen[id(value)] = len(self._referenced_objects)
        self._referenced_objects.append(value)
        return self._read_new_object(value, path)

    def _read_tuple(self, value: tuple[Any, ...], path: str) -> State:
        parts = [self.read(part, f"{path}[{i}]") for i, part in enumerate(value)]
        return {_KIND: "tuple", "class": _format_class_name(type(value)), "parts": parts}

    def _read_new_object(self, value: Any, path: str) -> State:
        for number, codec in enumerate(self._codecs):
            if isinstance(value, codec.type):
                encoded = codec.read(value, lambda part: self.read(part, f"{path}.*"))
                return {_KIND: "special", "number": number, "state": encoded}
        if isinstance(value, np.ndarray):
            return self._read_array(value, path)
        class_name = {"class": _format_class_name(type(value))}
        if isinstance(value, dict):
            pairs = [
                [_encode_key(key, path), self.read(item, f"{path}[{key!r}]")]
                for key, item in value.items()
            ]
            return {_KIND: "dict", **class_name, "pairs": pairs}
        if isinstance(value, list | collections.deque):
            parts = [self.read(part, f"{path}[{i}]") for i, part in enumerate(value)]
            longest = getattr(value, "maxlen", None)
            return {_KIND: "list", **class_name, "parts": parts, "longest": longest}
        if isinstance(value, set | frozenset):
            parts = [_encode_key(part, path) for part in value]
            return {_KIND: "set", **class_name, "parts": parts}
        names = get_attributes(value)
        if not (names or hasattr(value, "__dict__") or hasattr(value, "__slots__")):
            raise UnsupportedStateError(
                f"{path.lstrip('.') or 'it'} is a {_format_class_name(type(value))}, whose state "
                "cannot be read"
            )
        parts_by_name = {name: self.read(part, f"{path}.{name}") for name, part in names.items()}
        return {_KIND: "object", **class_name, "attributes": parts_by_name}

    def _read_array(self, value: np.ndarray[Any, Any], path: str) -> State:
        if value.dtype.hasobject:
            parts = [self.read(part, f"{path}[{i}]") for i, part in enumerate(value.ravel())]
            return {_KIND: "objects", "shape": list(value.shape), "parts": parts}
        return {_KIND: "array", "value": value, "memory": get_memory_address(value)}


class StateWriter:
    """Loads states into objects; needs the same roots in the same order as the reader.

    An existing object is reused if it has the class that was saved. An array that shares its memory
    with another one is reused only if the saved arrays shared theirs.
    """

    def __init__(
        self, codecs: Sequence[ObjectCodec] = (), types: Collection[type[Any]] = ()
    ) -> None:
        """Create a writer that has restored no object yet.

        Args:
            codecs: Those of the reader.
            types: Types, besides `TYPES`, of which objects may be created where none exists yet.
        """
        self._codecs = (*codecs, *RNG_CODECS)
        self._coded_types: Any = (np.ndarray, *(codec.type for codec in self._codecs))
        self._types = {_format_class_name(kind): kind for kind in (*TYPES, *types)}
        self._done: list[Any] = []
        # A constant is not changed in place: other trainings of this process use it as well.
        self._used = find_constants()
        self._memory: dict[int, int] = {}

    def restore(self, root: Any, state: State, path: str) -> None:
        """Load a state into a root, which others refer to and no other object may replace.

        Raises:
            StateMismatchError: The state does not fit; the root may have been partly changed.
        """
        if self.write(root, state, path) is not root:
            raise StateMismatchError(f"{path} has another kind than the saved state")

    def write(self, live: Any, state: State, path: str = "") -> Any:
        """Load a state into an existing object, and return the object to use in its place.

        Raises:
            StateMismatchError: The state does not fit; the object may have been partly changed.
        """
        # No training changes these, and nothing that is checked between updates limits them.
        if type(live) in (int, float) and state != live and path.endswith(_WORK_SETTING_ENDS):
            raise StateMismatchError(f"{path} is another number than {live}, which the run has")
        if not isinstance(state, dict):
            return state
        kind = state[_KIND]
        if kind == "code":
            return live
        if kind == "enum":
            return self._find_type(state, live, path)[state["member"]]
        if kind == "number":
            return state["value"][()]
        if kind == "tuple":
            return self._write_tuple(live, state, path)
        if kind in ("slice", "range"):
            return (slice if kind == "slice" else range)(*state["parts"])
        if kind == "seen":
            return self._done[state["number"]]
        number = len(self._done)
        self._done.append(None)
        # An object that already represents another saved object only shows the class.
        free = None if id(live) in self._used else live
        found = self._write_new_object(free, live, state, number, path)
        self._register_object(number, found)
        return found

    def _register_object(self, number: int, value: Any) -> None:
        self._done[number] = value
        self._used.add(id(value))

    def _write_parts(self, before: Sequence[Any], state: State, path: str) -> list[Any]:
        return [
            self.write(before[i] if i < len(before) else None, part, f"{path}[{i}]")
            for i, part in enumerate(state["parts"])
        ]

    def _write_tuple(self, live: Any, state: State, path: str) -> Any:
        parts = self._write_parts(live if isinstance(live, tuple) else (), state, path)
        found = self._find_type(state, live, path)
        names = getattr(found, "_fields", parts)
        if len(names) != len(parts):
            raise StateMismatchError(
                f"{path} has {len(parts)} parts, and {_format_class_name(found)} {len(names)}"
            )
        if names is parts and self._types.get(state["class"]) is found:
            made: Any = found
            return made(parts)  # such as PyTorch's sizes, which only their own class creates
        return tuple.__new__(found, parts)

    def _find_type(self, state: State, live: Any, path: str) -> Any:
        """Return the type that a state names: a registered one, or that of the live object.

        Raises:
            StateMismatchError: It is neither, or cannot hold a state of this kind.
        """
        name, kind = state["class"], state[_KIND]
        found = type(live) if _format_class_name(type(live)) == name else self._types.get(name)
        # Attributes and items of a type with a codec are not checked: it may be compiled code.
        is_coded = found is not None and issubclass(found, self._coded_types)
        if found is None or is_coded or not issubclass(found, _BASES[kind]):
            raise StateMismatchError(
                f"{path} is of the type {name}, which is not registered for a state of the kind "
                f"{kind}, and the set-up has made none there"
            )
        return found

    def _write_new_object(self, live: Any, model: Any, state: State, number: int, path: str) -> Any:
        kind = state[_KIND]
        if kind == "special":
            codec = self._codecs[state["number"]]
            fitting = live if isinstance(live, codec.type) else None
            return codec.write(
                fitting, state["state"], lambda part, inner: self.write(part, inner, f"{path}.*")
            )
        if kind == "array":
            return self._write_array(live, state)
        if kind == "objects":
            array = np.empty(len(state["parts"]), object)
            self._register_object(number, array)
            array[:] = [self.write(None, part, path) for part in state["parts"]]
            return array.reshape(state["shape"])
        target = self._get_or_create_target(live, model, state, path)
        self._register_object(number, target)
        if kind == "dict":
            keys = [self._decode_key(key, target, path) for key, _ in state["pairs"]]
            written = {
                key: self.write(dict.get(target, key), item, f"{path}[{key!r}]")
                for key, (_, item) in zip(keys, state["pairs"], strict=True)
            }
            target.clear()
            target.update(written)
        elif kind == "list":
            parts = self._write_parts(list(target), state, path)
            target.clear()
            target.extend(parts)
        elif kind == "set":
            parts = [self._decode_key(part, target, path) for part in state["parts"]]
            if isinstance(target, frozenset):
                return frozenset(parts)
            target.clear()
            target.update(parts)
        else:
            self._write_attributes(target, state["attributes"], path)
        return target

    def _get_or_create_target(self, live: Any, model: Any, state: State, path: str) -> Any:
        """Return the existing object, or a new one of its class."""
        found = self._find_type(state, model, path)
        if type(live) is found:
            return live
        if found is collections.deque:
            return collections.deque(maxlen=state["longest"])
        return found.__new__(found)

    def _decode_key(self, key: State, owner: Collection[Any], path: str) -> Any:
        if not isinstance(key, dict):
            return key
        if key[_KIND] == "tuple":
            return tuple(self._decode_key(part, owner, path) for part in key["parts"])
        if key[_KIND] == "number":
            return key["value"][()]
        like = next(
            (other for other in owner if _format_class_name(type(other)) == key["class"]), None
        )
        return self._find_type(key, like, path)[key["member"]]

    def _write_array(self, live: Any, state: State) -> Any:
        value, memory = state["value"], state["memory"]
        fits = (
            isinstance(live, np.ndarray)
            and live.dtype == value.dtype
            and live.shape == value.shape
            and live.flags.writeable
        )
        if fits and (not live.size or self.can_reuse_memory(get_memory_address(live), memory)):
            live[...] = value
            return live
        return np.array(value)

    def can_reuse_memory(self, place: int, memory: int) -> bool:
        """Return whether numbers from the saved `memory` may be written to `place`."""
        return self._memory.setdefault(place, memory) == memory

    def _write_attributes(self, target: Any, states: dict[str, State], path: str) -> None:
        before = get_attributes(target)
        for name in before.keys() - states.keys():
            object.__delattr__(target, name)
        for name, state in states.items():
            live = before.get(name, _ABSENT)
            if live is _ABSENT and isinstance(state, dict) and state[_KIND] == "code":
                if hasattr(type(target), name):
                    continue  # it is created on access
                raise StateMismatchError(f"{path}.{name} does not exist and cannot be created")
            found = self.write(None if live is _ABSENT else live, state, f"{path}.{name}")
            if found is not live:
                _set_attribute(target, name, found)


def find_constants() -> set[int]:
    """Return the ids of containers and arrays that belong to loaded modules and their classes.

    Objects often refer to such a constant, as environments do to the `metadata` of their class.
    """
    found: set[int] = set()
    for module_name, module in list(sys.modules.items()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            kind = type(value)
            if kind in _CONTAINERS:
                if name.isupper():
                    found.add(id(value))
            elif issubclass(kind, type) and vars(value).get("__module__") == module_name:
                found.update(id(one) for one in vars(value).values() if type(one) in _CONTAINERS)
    return found


def get_attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object by name, without calling its own `__getattr__`."""
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        found = {}
    for name in _list_slots(type(value)):
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    return found


def get_memory_address(array: np.ndarray[Any, Any]) -> int:
    """Return the start of the memory that an array is a view of."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return int(owner.__array_interface__["data"][0])


def _list_slots(kind: type[Any]) -> list[str]:
    slots = [owner.__dict__.get("__slots__", ()) for owner in kind.__mro__]
    names = [name for one in slots for name in ((one,) if isinstance(one, str) else one)]
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _set_attribute(target: Any, name: str, value: Any) -> None:
    """Set an attribute without calling a property, which may lead into compiled code."""
    if name in _list_slots(type(target)):
        object.__setattr__(target, name, value)
        return
    own = getattr(target, "__dict__", None)
    if not isinstance(own, dict):
        raise StateMismatchError(f"{_format_class_name(type(target))} has no attribute {name}")
    own[name] = value


def _format_class_name(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _encode_key(key: Any, path: str) -> State:
    if type(key) in _PLAIN_TYPES:
        return key
    if isinstance(key, tuple):
        return {_KIND: "tuple", "parts": [_encode_key(part, path) for part in key]}
    if isinstance(key, enum.Enum):
        return {_KIND: "enum", "class": _format_class_name(type(key)), "member": key.name}
    if isinstance(key, np.generic):
        return {_KIND: "number", "value": np.asarray(key)}
    raise UnsupportedStateError(f"{path.lstrip('.')} has {type(key).__name__} as keys")


def _read_numpy_generator(generator: np.random.Generator, read: Callable[[Any], State]) -> State:
    return read_bit_generator(generator.bit_generator)


def _write_numpy_generator(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    if live is None:
        live = np.random.Generator(_make_bit_generator(state))
    write_bit_generator(live.bit_generator, state)
    return live


def read_bit_generator(bits: Any) -> State:
    """Return the state of a NumPy bit generator."""
    return bits.state


def write_bit_generator(bits: Any, state: State) -> None:
    """Set the state of a NumPy bit generator.

    Raises:
        StateMismatchError: It is of another kind, or reads outside its buffer.
    """
    check_buffer_positions(state)
    if type(bits).__name__ != state["bit_generator"]:
        raise StateMismatchError(
            f"a generator is a {type(bits).__name__} and was a {state['bit_generator']}"
        )
    bits.state = state


def check_buffer_positions(state: State) -> None:
    """Check the positions that NumPy's generators read their buffers at; NumPy does not.

    Raises:
        StateMismatchError: One is outside the buffer.
    """
    # MT19937 has a buffer of 624 words, Philox of 4; at the end of it they make new ones.
    for place, name, size in ((state["state"], "pos", 624), (state, "buffer_pos", 4)):
        if not 0 <= place.get(name, 0) <= size:
            raise StateMismatchError(f"a generator reads at {name}={place[name]} of {size}")


def check_torch_position(state: np.ndarray[Any, Any]) -> None:
    """Check where PyTorch's generator on the CPU reads its 624 words; PyTorch does not.

    Raises:
        StateMismatchError: It would read behind them before it makes new ones.
    """
    # `CPUGeneratorImplStateLegacy` of PyTorch: seed (8 bytes), left, seeded, next. New words are
    # made when left falls to 0, so left - 1 are read from next on.
    left, _, position = struct.unpack_from("<iiQ", state.tobytes(), 8)
    if left + position > 625:
        raise StateMismatchError(f"a generator reads {left} words at {position} of 624")


def _read_random_state(legacy: np.random.RandomState, read: Callable[[Any], State]) -> State:
    return legacy.get_state(legacy=False)


def _write_random_state(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    live = np.random.RandomState() if live is None else live
    check_buffer_positions(state)
    live.set_state(state)
    return live


def _read_python_random(generator: random.Random, read: Callable[[Any], State]) -> State:
    return read(generator.getstate())


def _write_python_random(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    live = random.Random() if live is None else live
    live.setstate(write(None, state))
    return live


def _write_or_create_bit_generator(
    live: Any, state: State, write: Callable[[Any, State], Any]
) -> Any:
    live = _make_bit_generator(state) if live is None else live
    write_bit_generator(live, state)
    return live


def _make_bit_generator(state: State) -> Any:
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise StateMismatchError(f"{name!r} is not a bit generator of numpy's")
    return _BIT_GENERATORS[name]()


RNG_CODECS = (
    ObjectCodec(
        np.random.BitGenerator,
        lambda bits, read: read_bit_generator(bits),
        _write_or_create_bit_generator,
    ),
    ObjectCodec(np.random.Generator, _read_numpy_generator, _write_numpy_generator),
    ObjectCodec(np.random.RandomState, _read_random_state, _write_random_state),
    ObjectCodec(random.Random, _read_python_random, _write_python_random),
)
"""Random generators of Python and numpy."""
