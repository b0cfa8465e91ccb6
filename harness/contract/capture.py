"""Objects to plain values, and plain values laid into objects of the same making again.

What a training consists of is a web of objects that its set-up makes anew in every process: arrays
that others hold a view of, generators, counters, lists. A `Reader` walks through it and writes down
what can change, as nested plain values and arrays; a `Writer` walks through the web that a later
set-up has made and gives every array, in place, the numbers of then. Functions, classes and modules
belong to the code and stay as they are.
"""

import collections
import dataclasses
import enum
import functools
import logging
import random
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
_PLAIN = (type(None), bool, int, float, str, bytes)
_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.local)
_CODE: tuple[type[Any], ...] = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type),
    *(types.MethodWrapperType, types.WrapperDescriptorType, types.GenericAlias, np.dtype, np.ufunc),
    *(functools.partial, weakref.ref, property, logging.Logger, PurePath, *_LOCKS),
)


class NotCapturedError(TypeError):
    """Something whose state nobody knows how to tell."""


class NotLaidInError(ValueError):
    """A state that does not fit what it is to be laid into."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """How objects of a type are told, where walking through them would not do.

    Attributes:
        type: The type; its subclasses are told in the same way.
        read: Tells an object; what lies in it is told by the second argument.
        write: Puts a state into the object that is there, or makes one where there is none
            (None), and returns it; what lies in it is put there by the third argument.
    """

    type: type[Any]
    read: Callable[[Any, Callable[[Any], State]], State]
    write: Callable[[Any, State, Callable[[Any, State], Any]], Any]


def fixed(of: type[Any]) -> Kind:
    """A kind of objects that belong to the code: nothing of them is kept."""
    return Kind(of, lambda value, read: None, lambda live, state, write: live)


class Reader:
    """Tells objects. What two places share is told once, and shared again when it is laid in."""

    def __init__(self, kinds: Sequence[Kind] = (), outside: Collection[Any] = ()) -> None:
        """Knows nothing yet.

        Args:
            kinds: What is told otherwise than by walking through it; the first that fits.
            outside: Objects that somebody else keeps.
        """
        self._kinds = (*kinds, *KINDS)
        self._outside = {id(value) for value in outside}
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []  # so that no id is used twice

    def read(self, value: Any, path: str = "") -> State:
        """The state of an object.

        Raises:
            NotCapturedError: Nobody knows how; `path` leads to what it is about.
        """
        if type(value) in _PLAIN:
            return value
        if id(value) in self._outside or isinstance(value, _CODE) or type(value) is object:
            return {_KIND: "code"}
        if isinstance(value, enum.Enum):
            return {_KIND: "enum", "class": _name(type(value)), "member": value.name}
        if isinstance(value, np.generic):
            return {_KIND: "number", "value": np.asarray(value)}
        if isinstance(value, tuple):
            return self._tuple(value, path)
        if isinstance(value, slice | range):
            parts = [value.start, value.stop, value.step]
            return {_KIND: type(value).__name__, "parts": [self.read(part) for part in parts]}
        if id(value) in self._seen:
            return {_KIND: "seen", "number": self._seen[id(value)]}
        self._seen[id(value)] = len(self._held)
        self._held.append(value)
        return self._first(value, path)

    def _tuple(self, value: tuple[Any, ...], path: str) -> State:
        parts = [self.read(part, f"{path}[{i}]") for i, part in enumerate(value)]
        return {_KIND: "tuple", "class": _name(type(value)), "parts": parts}

    def _first(self, value: Any, path: str) -> State:
        for number, kind in enumerate(self._kinds):
            if isinstance(value, kind.type):
                told = kind.read(value, lambda part: self.read(part, f"{path}.*"))
                return {_KIND: "special", "number": number, "state": told}
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        told = {"class": _name(type(value))}
        if isinstance(value, dict):
            pairs = [
                [_key(key, path), self.read(item, f"{path}[{key!r}]")]
                for key, item in value.items()
            ]
            return {_KIND: "dict", **told, "pairs": pairs}
        if isinstance(value, list | collections.deque):
            parts = [self.read(part, f"{path}[{i}]") for i, part in enumerate(value)]
            longest = getattr(value, "maxlen", None)
            return {_KIND: "list", **told, "parts": parts, "longest": longest}
        if isinstance(value, set | frozenset):
            return {_KIND: "set", **told, "parts": [_key(part, path) for part in value]}
        names = attributes(value)
        if not (names or hasattr(value, "__dict__") or hasattr(value, "__slots__")):
            raise NotCapturedError(
                f"{path.lstrip('.') or 'it'} is a {_name(type(value))}, whose state cannot be told"
            )
        parts_by_name = {name: self.read(part, f"{path}.{name}") for name, part in names.items()}
        return {_KIND: "object", **told, "attributes": parts_by_name}

    def _array(self, value: np.ndarray[Any, Any], path: str) -> State:
        if value.dtype.hasobject:
            parts = [self.read(part, f"{path}[{i}]") for i, part in enumerate(value.ravel())]
            return {_KIND: "objects", "shape": list(value.shape), "parts": parts}
        return {_KIND: "array", "value": value, "memory": address(value)}


class Writer:
    """Lays states into objects; must be asked for the same roots in the same order as the reader.

    An object that is there is used again, if it is of the class of then. An array that shares its
    memory with another one is used again only if it shared it then.
    """

    def __init__(self, kinds: Sequence[Kind] = ()) -> None:
        """Knows nothing yet; `kinds` are those of the reader."""
        self._kinds = (*kinds, *KINDS)
        self._done: list[Any] = []
        self._used: set[int] = set()
        self._memory: dict[int, int] = {}

    def write(self, live: Any, state: State, path: str = "") -> Any:
        """Lays a state into what is there, and returns what is to stand in its place.

        Raises:
            NotLaidInError: It does not fit; what is there may have been changed in part.
        """
        if not isinstance(state, dict):
            return state
        kind = state[_KIND]
        if kind == "code":
            return live
        if kind == "enum":
            return _class(state["class"], path)[state["member"]]
        if kind == "number":
            return state["value"][()]
        if kind == "tuple":
            return self._tuple(live, state, path)
        if kind in ("slice", "range"):
            return (slice if kind == "slice" else range)(*state["parts"])
        if kind == "seen":
            return self._done[state["number"]]
        number = len(self._done)
        self._done.append(None)
        if id(live) in self._used:
            live = None  # it stands for something else already
        found = self._first(live, state, number, path)
        self._enter(number, found)
        return found

    def _enter(self, number: int, value: Any) -> Any:
        self._done[number] = value
        self._used.add(id(value))
        return value

    def _tuple(self, live: Any, state: State, path: str) -> Any:
        before = live if isinstance(live, tuple) else ()
        parts = [
            self.write(before[i] if i < len(before) else None, part, f"{path}[{i}]")
            for i, part in enumerate(state["parts"])
        ]
        if state["class"] == "builtins:tuple":
            return tuple(parts)
        named = _class(state["class"], path)
        return named(*parts) if hasattr(named, "_fields") else named(parts)

    def _first(self, live: Any, state: State, number: int, path: str) -> Any:
        kind = state[_KIND]
        if kind == "special":
            known = self._kinds[state["number"]]
            fitting = live if isinstance(live, known.type) else None
            inner = lambda part, told: self.write(part, told, f"{path}.*")  # noqa: E731
            return known.write(fitting, state["state"], inner)
        if kind == "array":
            return self._array(live, state)
        if kind == "objects":
            array = np.empty(len(state["parts"]), object)
            self._enter(number, array)
            array[:] = [self.write(None, part, path) for part in state["parts"]]
            return array.reshape(state["shape"])
        target = self._target(live, state, path)
        self._enter(number, target)
        if kind == "dict":
            laid = {
                _unkey(key, path): self.write(_item(target, key, path), item, f"{path}[{key!r}]")
                for key, item in state["pairs"]
            }
            target.clear()
            target.update(laid)
        elif kind == "list":
            before = list(target)
            parts = [
                self.write(before[i] if i < len(before) else None, part, f"{path}[{i}]")
                for i, part in enumerate(state["parts"])
            ]
            target.clear()
            target.extend(parts)
        elif kind == "set":
            if isinstance(target, frozenset):
                return frozenset(_unkey(part, path) for part in state["parts"])
            target.clear()
            target.update(_unkey(part, path) for part in state["parts"])
        else:
            self._attributes(target, state["attributes"], path)
        return target

    def _target(self, live: Any, state: State, path: str) -> Any:
        """What is there, or a new object of the class."""
        if _name(type(live)) == state["class"]:
            return live
        made = _class(state["class"], path)
        if made is collections.deque:
            return collections.deque(maxlen=state["longest"])
        if issubclass(made, dict | list | set | frozenset):
            return made()
        return made.__new__(made)

    def _array(self, live: Any, state: State) -> Any:
        value, memory = state["value"], state["memory"]
        fits = (
            isinstance(live, np.ndarray)
            and live.dtype == value.dtype
            and live.shape == value.shape
            and live.flags.writeable
        )
        if fits and (not live.size or self.may_use(address(live), memory)):
            live[...] = value
            return live
        return np.array(value)

    def may_use(self, place: int, memory: int) -> bool:
        """Whether numbers that lay in `memory` may be put into what lies at `place` now."""
        return self._memory.setdefault(place, memory) == memory

    def _attributes(self, target: Any, told: dict[str, State], path: str) -> None:
        before = attributes(target)
        for name in before.keys() - told.keys():
            object.__delattr__(target, name)
        for name, state in told.items():
            live = before.get(name, _ABSENT)
            if live is _ABSENT and isinstance(state, dict) and state[_KIND] == "code":
                if hasattr(type(target), name):
                    continue  # it is made again when it is asked for
                raise NotLaidInError(f"{path}.{name} is not there and cannot be made again")
            found = self.write(None if live is _ABSENT else live, state, f"{path}.{name}")
            if found is not live:
                _set(target, name, found)


def attributes(value: Any) -> dict[str, Any]:
    """What an object holds by name, whatever it answers when it is asked."""
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        found = {}
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                try:
                    found[name] = object.__getattribute__(value, name)
                except AttributeError:
                    continue
    return found


def address(array: np.ndarray[Any, Any]) -> int:
    """Where the memory begins that an array is a view of."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return int(owner.__array_interface__["data"][0])


def _set(target: Any, name: str, value: Any) -> None:
    own = getattr(target, "__dict__", None)
    if isinstance(own, dict) and name not in dir(type(target)):
        own[name] = value
    else:
        try:
            object.__setattr__(target, name, value)
        except AttributeError:
            own[name] = value  # type: ignore[index]  # such as a property of the same name


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str, path: str) -> Any:
    """A class of a module that is loaded; nothing is imported."""
    module, _, qualified = name.partition(":")
    try:
        return functools.reduce(getattr, qualified.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        raise NotLaidInError(f"{path} is of {name}, which is not loaded") from None


def _key(key: Any, path: str) -> State:
    if type(key) in _PLAIN:
        return key
    if isinstance(key, tuple):
        return {_KIND: "tuple", "parts": [_key(part, path) for part in key]}
    if isinstance(key, enum.Enum):
        return {_KIND: "enum", "class": _name(type(key)), "member": key.name}
    if isinstance(key, np.generic):
        return {_KIND: "number", "value": np.asarray(key)}
    raise NotCapturedError(f"{path.lstrip('.')} has {type(key).__name__} as keys")


def _unkey(key: State, path: str) -> Any:
    if not isinstance(key, dict):
        return key
    if key[_KIND] == "tuple":
        return tuple(_unkey(part, path) for part in key["parts"])
    if key[_KIND] == "number":
        return key["value"][()]
    return _class(key["class"], path)[key["member"]]


def _item(target: dict[Any, Any], key: State, path: str) -> Any:
    return dict.get(target, _unkey(key, path))


def _read_generator(generator: np.random.Generator, read: Callable[[Any], State]) -> State:
    return read_bits(generator.bit_generator)


def _write_generator(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    if live is None:
        live = np.random.Generator(getattr(np.random, state["bit_generator"])())
    write_bits(live.bit_generator, state)
    return live


def read_bits(bits: Any) -> State:
    """The state of a bit generator of numpy's."""
    return bits.state


def write_bits(bits: Any, state: State) -> None:
    """Gives a bit generator of numpy's a state.

    Raises:
        NotLaidInError: It is of another kind.
    """
    if type(bits).__name__ != state["bit_generator"]:
        raise NotLaidInError(
            f"a generator is a {type(bits).__name__} and was a {state['bit_generator']}"
        )
    bits.state = state


def _read_legacy(legacy: np.random.RandomState, read: Callable[[Any], State]) -> State:
    return legacy.get_state(legacy=False)


def _write_legacy(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    live = np.random.RandomState() if live is None else live
    live.set_state(state)
    return live


def _read_random(generator: random.Random, read: Callable[[Any], State]) -> State:
    return read(generator.getstate())


def _write_random(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    live = random.Random() if live is None else live
    live.setstate(write(None, state))
    return live


def _write_bits(live: Any, state: State, write: Callable[[Any, State], Any]) -> Any:
    live = getattr(np.random, state["bit_generator"])() if live is None else live
    write_bits(live, state)
    return live


KINDS = (
    Kind(np.random.BitGenerator, lambda bits, read: read_bits(bits), _write_bits),
    Kind(np.random.Generator, _read_generator, _write_generator),
    Kind(np.random.RandomState, _read_legacy, _write_legacy),
    Kind(random.Random, _read_random, _write_random),
)
"""Random generators of Python and numpy."""
