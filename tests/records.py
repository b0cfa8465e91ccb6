"""Results and records must not change, as they are shared."""

import dataclasses
import importlib
import inspect
import pkgutil
import re

import msgspec


def list_record_classes(package):
    """Return the dataclasses and structs that the modules of a package define."""
    modules = [
        importlib.import_module(info.name)
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    found = {
        cls
        for module in modules
        for cls in vars(module).values()
        if inspect.isclass(cls) and cls.__module__ == module.__name__
        if dataclasses.is_dataclass(cls) or issubclass(cls, msgspec.Struct)
    }
    assert found
    return found


def find_changeable(package):
    """Return the names of the classes whose instances accept a new value for a field."""
    changeable = set()
    for cls in list_record_classes(package):
        if issubclass(cls, msgspec.Struct):
            is_frozen = cls.__struct_config__.frozen
        else:
            try:
                object.__new__(cls).anything = 0
                is_frozen = False
            except dataclasses.FrozenInstanceError:
                is_frozen = True
            except AttributeError:  # slots
                is_frozen = False
        if not is_frozen:
            changeable.add(cls.__name__)
    return changeable


def find_incomparable(package):
    """Return the names of the classes with arrays that are not compared by identity.

    Comparison field by field fails for arrays, also in `in` and for keys of a dictionary. A class
    has arrays, too, if a field has a class that has some, also of a package beside this one.
    """
    around = importlib.import_module(package.__name__.rpartition(".")[0])
    classes = {cls for cls in list_record_classes(around) if dataclasses.is_dataclass(cls)}
    types = {
        cls: set(re.findall(r"\w+", " ".join(str(field.type) for field in dataclasses.fields(cls))))
        for cls in classes
    }
    having = {cls for cls in classes if {"ndarray", "NDArray"} & types[cls]}
    while more := {
        cls for cls in classes - having if types[cls] & {other.__name__ for other in having}
    }:
        having |= more
    own = having & list_record_classes(package)
    return {cls.__name__ for cls in own if cls.__eq__ is not object.__eq__}
