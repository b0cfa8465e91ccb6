"""Numbers and switches that modules define; `python tests/constants.py` stores them again."""

import ast
import dataclasses
import hashlib
import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("constants.json")
PACKAGES = (
    *("analysis.stats", "analysis.verdicts", "analysis.data", "harness.record"),
    *("harness.contract", "harness.sweep", "harness.train", "slurm"),
)


def list_modules(name):
    """Return a module, or the modules of a package."""
    module = importlib.import_module(f"parallax.{name}")
    found = pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}.")
    return [module, *(importlib.import_module(info.name) for info in found)]


def describe(value):
    """Return a value as text if it has a number or a switch and is the same in other processes."""
    text = repr(sorted(value, key=repr) if isinstance(value, set | frozenset) else value)
    # Types of arrays have other texts in other versions of NumPy.
    if re.search(r" at 0x|<(function|module|class)|Path\(|numpy\.|collections\.abc", text):
        return None
    if isinstance(value, str):
        return None
    if not re.search(r"\d|True|False|inf|nan", text):
        return None
    return text if len(text) < 100 else hashlib.sha256(text.encode()).hexdigest()[:16]


def list_values(name, value):
    """Yield the constant that a name has, the defaults of a function, or the fields of a class."""
    if inspect.isclass(value):
        fields = ()
        if issubclass(value, msgspec.Struct):
            fields = msgspec.structs.fields(value)
            yield from ((f"{name}.{field.name}", field.default) for field in fields)
            yield from ((f"{name}.{field.name}: ", field.type) for field in fields)
        elif dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            for field in fields:
                default = None if field.default is dataclasses.MISSING else field.default
                options = {"init": True, "compare": True, "repr": True, "hash": None}
                others = {key: getattr(field, key) for key in options} | dict(field.metadata)
                yield (
                    f"{name}.{field.name}",
                    (default, *(item for item in others.items() if item not in options.items())),
                )
        for inner, item in vars(value).items():
            if not inner.startswith("__") and inner not in {field.name for field in fields}:
                yield from list_values(f"{name}.{inner}", getattr(item, "__func__", item))
    elif inspect.isfunction(inspect.unwrap(value)):
        for parameter in inspect.signature(inspect.unwrap(value)).parameters.values():
            yield f"{name}({parameter.name})", parameter.default
    else:
        yield name, value


def collect(package):
    """Return the values of a package's modules as text, by name."""
    found = {}
    for module in list_modules(package):
        for node in ast.parse(Path(module.__file__).read_text()).body:
            found_names = [item for item in ast.walk(node) if isinstance(item, ast.Name)]
            names = {item.id for item in found_names if isinstance(item.ctx, ast.Store)}
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = {node.name}
            elif not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            else:
                names = {name for name in names if name.isupper()}  # others are state, or types
            for name in sorted(names & vars(module).keys()):
                for label, item in list_values(name, vars(module)[name]):
                    if text := describe(item):
                        found[f"{module.__name__.removeprefix('parallax.')}.{label}"] = text
    return found


def compare_with_stored(package):
    """Return what has another value than is stored."""
    stored, now = json.loads(FILE.read_text())[package], collect(package)
    return sorted(name for name in stored.keys() | now.keys() if stored.get(name) != now.get(name))


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: collect(name) for name in PACKAGES}, indent=0) + "\n")
