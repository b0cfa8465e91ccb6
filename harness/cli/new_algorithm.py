"""`parallax new algorithm NAME`: the skeleton of a new algorithm.

The skeleton has a description, recipes, and settings for each named framework. Settings are a
function in the adapter's `settings.py`, or with `--package` a module in a separate package.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from parallax.harness.cli.arguments import add_frameworks_argument, select_names
from parallax.harness.cli.new_adapter import (
    AdapterSkeleton,
    add_entry_point,
    check_checkout,
    check_module_name,
    format_table_entry,
    write_files,
    write_package,
)
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS, ENTRY_POINT_GROUP
from parallax.harness.contract.fields import SpecError

DESCRIPTIONS_FOLDER = "harness/contract/algorithms"
ALGORITHM_FAMILIES = ("on-policy", "off-policy")
_TABLE_HEADING = "ALGORITHMS: Mapping[str, AlgorithmSettings] = {\n"
_SHARED_FIELDS = {
    "learning_rate": 0.001,
    "gamma": 0.99,
    "adam_eps": 0.00000001,
    "hidden_sizes": [64, 64],
    "bootstrap_truncation": "true",
}
_REPLAY_FIELDS = {
    "batch_size": 32,
    "buffer_size": 10000,
    "learning_starts": 1000,
    "train_freq": 1,
    "gradient_steps": 1,
}
FAMILY_FIELDS: Mapping[str, Mapping[str, object]] = {
    "on-policy": _SHARED_FIELDS | {"rollout_steps": 128},
    "off-policy": _SHARED_FIELDS | _REPLAY_FIELDS,
}
"""Hyperparameters of a skeleton, with values to be replaced by the paper's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("name", metavar="NAME", help="name of the algorithm: algorithm=NAME")
    parser.add_argument(
        "--family",
        choices=ALGORITHM_FAMILIES,
        default="off-policy",
        help="on-policy: learns from rollouts; off-policy: learns from a replay buffer "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--actions",
        choices=["continuous", "discrete"],
        default="continuous",
        help="action space of the tasks that it can solve (default: %(default)s)",
    )
    add_frameworks_argument(parser, "adapters that implement it, such as sb3,skrl (default: none)")
    parser.add_argument(
        "--package", action="store_true", help="write a separate package in FOLDER/NAME instead"
    )
    parser.add_argument(
        "--in", dest="folder", type=Path, default=Path(), help="a checkout of Parallax (default: .)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the files and print the next steps."""
    create = create_algorithm_package if options.package else create_algorithm
    frameworks = options.frameworks or []
    written = create(options.name, options.folder, options.family, options.actions, frameworks)
    print("\n".join(["Written:", *(f"  {path}" for path in written)]))
    print(_format_next_steps(options.name, options.folder, options.package))
    return 0


def create_algorithm(
    name: str, root: Path, family: str, actions: str, frameworks: Sequence[str]
) -> list[Path]:
    """Write an algorithm, with settings and recipes of `frameworks`, into a checkout.

    Returns:
        The files written and changed, pyproject.toml last.
    """
    _check_algorithm_name(name, root / DESCRIPTIONS_FOLDER / f"{name}.py")
    project = check_checkout(root)
    for framework in frameworks:
        _check_framework(framework, root)
    description = f"{DESCRIPTIONS_FOLDER}/{name}.py"
    files = {description: _make_description(name, family, actions, description)}
    files |= _make_recipes(f"hp_configs/{name}", family, frameworks)
    changed = {
        root / _get_settings_file(f): _add_settings(name, f, family, root) for f in frameworks
    }
    entry = f'{name} = "parallax.harness.contract.algorithms.{name}:{_make_class_name(name)}"'
    changed[project] = add_entry_point(project.read_text(), ENTRY_POINT_GROUP, entry)
    return write_files(root, {root / path: text for path, text in files.items()}, changed)


def create_algorithm_package(
    name: str, parent: Path, family: str, actions: str, frameworks: Sequence[str]
) -> list[Path]:
    """Write an algorithm as a separate package, into the new folder `parent / name`."""
    _check_algorithm_name(name)
    select_names("--frameworks", frameworks, list(find_adapter_entry_points()))
    module = f"parallax_{name}"
    file = f"{module}/description.py"
    files = {
        f"{module}/__init__.py": f'"""{_make_class_name(name)}, an algorithm of Parallax."""\n',
        file: _make_description(name, family, actions, file),
        "pyproject.toml": _make_skeleton(name).fill(
            "pyproject.toml",
            what="an algorithm",
            group=ENTRY_POINT_GROUP,
            module=module,
            entry=f"{module}.description:{_make_class_name(name)}",
        ),
    }
    files |= _make_recipes(f"{module}/hp_configs/{name}", family, frameworks)
    for framework in frameworks:
        path = f"{module}/{framework}_settings.py"
        files[path] = _make_settings_module(name, framework, family, f"{module}.description", path)
    return write_package(parent / name, files)


def _check_algorithm_name(name: str, *parts: Path) -> None:
    check_module_name(name)
    if name in ALGORITHMS or any(part.exists() for part in parts):
        raise SpecError(f"NAME={name} is taken by an algorithm or its parts: choose another.")


def _check_framework(framework: str, root: Path) -> None:
    files = (root / "adapters").glob("*/settings.py")
    known = sorted(path.parent.name for path in files if _TABLE_HEADING in path.read_text())
    if framework not in known:
        raise SpecError(
            f"--frameworks {framework} has no {_get_settings_file(framework)} with a table of "
            f"algorithms. Known: {', '.join(known)}."
        )


def _get_settings_file(framework: str) -> str:
    return f"adapters/{framework}/settings.py"


def _add_settings(name: str, framework: str, family: str, root: Path) -> str:
    """Return the text of an adapter's `settings.py` with a function for one more algorithm."""
    file = _get_settings_file(framework)
    text = (root / file).read_text()
    module = f"parallax.harness.contract.algorithms.{name}"
    text = add_import(text, module, _make_class_name(name))
    if "UnfinishedAdapterError" not in text:
        text = add_import(text, "parallax.harness.contract.fields", "UnfinishedAdapterError")
    before, table, after = text.partition(_TABLE_HEADING)
    entries, end, rest = after.partition("}\n")
    function = _make_settings_function(name, framework, family, file)
    return f"{before}{function}\n\n\n{table}{entries}{format_table_entry(name)}\n{end}{rest}"


def add_import(text: str, module: str, name: str) -> str:
    """Return the text of a module with one more import from this project, in sorted order."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        words = line.split()
        if line.startswith(f"from {module} import ") and "(" not in line:
            names = [*line.partition(" import ")[2].strip().split(", "), name]
            lines[index] = f"from {module} import {', '.join(sorted(names))}\n"
            return "".join(lines)
        if line.startswith("from parallax.") and words[1] > module:
            lines.insert(index, f"from {module} import {name}\n")
            return "".join(lines)
    raise SpecError(f"{name} cannot be imported: no import from this project comes after {module}.")


def _make_class_name(name: str) -> str:
    return name.upper() if len(name) <= 4 else "".join(map(str.capitalize, name.split("_")))


def _make_description(name: str, family: str, actions: str, file: str) -> str:
    template = f"algorithm_{family.replace('-', '_')}.py"
    return _make_skeleton(name).fill(
        template, description=file, algorithm_class=_make_class_name(name), actions=actions
    )


def _make_recipes(folder: str, family: str, frameworks: Sequence[str]) -> dict[str, str]:
    names = ("original", *frameworks)
    return {
        f"{folder}/{recipe}.yaml": _make_recipe(recipe, FAMILY_FIELDS[family]) for recipe in names
    }


def _make_recipe(recipe: str, values: Mapping[str, object]) -> str:
    whose = "the paper's values" if recipe == "original" else f"{recipe}'s own defaults"
    lines = [f"# TODO: {whose}, each with its source."]
    return "\n".join(
        [*lines, *(f"{name}: {_format_value(values[name])}  # TODO" for name in values), ""]
    )


def _format_value(value: object) -> str:
    return f"{value:.8f}".rstrip("0") if isinstance(value, float) else str(value)


def _make_settings_module(name: str, framework: str, family: str, module: str, file: str) -> str:
    return _make_skeleton(framework).fill(
        "algorithm_settings.py",
        algorithm=name,
        algorithm_module=module,
        algorithm_class=_make_class_name(name),
        label=_make_class_name(name),
        function=_make_settings_function(name, framework, family, file),
    )


def _make_settings_function(name: str, framework: str, family: str, file: str) -> str:
    label = _make_class_name(name)
    return _make_skeleton(framework).make_settings_function(
        name, label, label, FAMILY_FIELDS[family], file
    )


def _make_skeleton(name: str) -> AdapterSkeleton:
    module = f"parallax.adapters.{name}"
    return AdapterSkeleton(name, module, f"adapters/{name}", f"tests/adapters/{name}")


def _format_next_steps(name: str, folder: Path, package: bool) -> str:
    root = folder / name if package else folder
    description = f"parallax_{name}/description" if package else f"{DESCRIPTIONS_FOLDER}/{name}"
    return f"""Next:
  1. python -m pip install --no-deps --editable {root}    (so that algorithm={name} is found)
  2. fill in {root / description}.py, then the recipes, then each framework's settings
  3. python -m pytest tests/adapters -k {name}    (in a checkout of this project; each failure
     names what to fill in)
docs/how-to/add-an-algorithm.md explains each step."""
