"""`parallax new-algorithm NAME`: the skeleton of another algorithm, in a checkout of this project.

It is a description, recipes, and a module of settings in each framework that is named.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.cli.new_adapter import Skeleton, add_entry, check_checkout, check_word, write
from harness.contract.algorithms import ALGORITHMS, ENTRY_POINT_GROUP
from harness.contract.fields import SpecError

DESCRIPTIONS = "harness/contract/algorithms"
FAMILIES = ("on-policy", "off-policy")
_SHARED = {
    "learning_rate": 0.001,
    "gamma": 0.99,
    "adam_eps": 0.00000001,
    "hidden_sizes": [64, 64],
    "bootstrap_truncation": "true",
}
_REPLAY = {
    "batch_size": 32,
    "buffer_size": 10000,
    "learning_starts": 1000,
    "env_steps_per_round": 1,
    "gradient_steps_per_round": 1,
}
# The fields that a skeleton begins with, with values that stand until the paper's are given.
FIELDS: Mapping[str, Mapping[str, object]] = {
    "on-policy": _SHARED | {"rollout_steps": 128},
    "off-policy": _SHARED | _REPLAY,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0, or 2 for bad input.
    """
    parser = argparse.ArgumentParser(prog="parallax new-algorithm", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="how the algorithm is called: algorithm=NAME")
    parser.add_argument("--family", choices=FAMILIES, default="off-policy")
    parser.add_argument("--actions", choices=["continuous", "discrete"], default="continuous")
    parser.add_argument(
        "--frameworks", nargs="*", default=[], help="adapters of the checkout that will have it"
    )
    parser.add_argument(
        "--in", dest="folder", type=Path, default=Path(), help="a checkout of this project"
    )
    options = parser.parse_args(arguments)
    try:
        written = new_algorithm(
            options.name, options.folder, options.family, options.actions, options.frameworks
        )
    except SpecError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print("\n".join(["Written:", *(f"  {path}" for path in written)]))
    print(_next_steps(options.name, options.folder))
    return 0


def new_algorithm(
    name: str, root: Path, family: str, actions: str, frameworks: Sequence[str]
) -> list[Path]:
    """Writes an algorithm into a checkout of this project.

    Args:
        name: Name of the algorithm.
        root: The checkout.
        family: `on-policy` or `off-policy`.
        actions: `continuous` or `discrete`.
        frameworks: Adapters of the checkout that get a module of settings and a recipe.

    Returns:
        The files written, the changed pyproject.toml last.

    Raises:
        SpecError: The name cannot be had, the folder is no checkout, it has no such adapter, or
            a file is in the way.
    """
    check_word(name)
    if name in ALGORITHMS or (root / DESCRIPTIONS / f"{name}.py").exists():
        raise SpecError(f"NAME={name} is taken by an algorithm or its parts: choose another.")
    project = check_checkout(root)
    for framework in frameworks:
        _check_framework(framework, root)
    files = {f"{DESCRIPTIONS}/{name}.py": _description(name, family, actions)}
    for recipe in ("original", *frameworks):
        files[f"hp_configs/{name}/{recipe}.yaml"] = _recipe(recipe, FIELDS[family])
    for framework in frameworks:
        files[f"adapters/{framework}/settings/{name}.py"] = _settings(name, framework, family)
    entry = f'{name} = "harness.contract.algorithms.{name}:{_class_name(name)}"'
    changed = add_entry(project.read_text(), ENTRY_POINT_GROUP, entry)
    return write({root / path: text for path, text in files.items()}, {project: changed})


def _check_framework(framework: str, root: Path) -> None:
    found = sorted(path.parent.name for path in (root / "adapters").glob("*/settings"))
    if framework not in found:
        raise SpecError(
            f"--frameworks {framework} has no folder adapters/{framework}/settings. "
            f"Known: {', '.join(found)}."
        )


def _class_name(name: str) -> str:
    return name.upper() if len(name) <= 4 else "".join(map(str.capitalize, name.split("_")))


def _description(name: str, family: str, actions: str) -> str:
    template = f"algorithm_{family.replace('-', '_')}.py"
    return _skeleton(name).fill(
        template, algorithm=name, algorithm_class=_class_name(name), actions=actions
    )


def _recipe(recipe: str, values: Mapping[str, object]) -> str:
    whose = "the paper's values" if recipe == "original" else f"{recipe}'s own defaults"
    lines = [f"# TODO: {whose}, each with the place where it stands."]
    return "\n".join([*lines, *(f"{name}: {_plain(values[name])}  # TODO" for name in values), ""])


def _plain(value: object) -> str:
    return f"{value:.8f}".rstrip("0") if isinstance(value, float) else str(value)


def _settings(name: str, framework: str, family: str) -> str:
    return _skeleton(framework).fill(
        "settings.py",
        algorithm=name,
        algorithm_module=f"harness.contract.algorithms.{name}",
        algorithm_class=_class_name(name),
        label=_class_name(name),
        fields="\n".join(f'    # t.aligned("{field}", "its option")' for field in FIELDS[family]),
    )


def _skeleton(name: str) -> Skeleton:
    return Skeleton(name, f"adapters.{name}", f"adapters/{name}", f"tests/adapters/{name}")


def _next_steps(name: str, folder: Path) -> str:
    return f"""Next:
  1. python -m pip install --no-deps --editable {folder}    (so that algorithm={name} is found)
  2. fill in {folder / DESCRIPTIONS / name}.py, then the recipes, then each framework's settings
  3. python -m pytest {folder}/tests/adapters -k {name}    (each failure names what to fill in)
docs/adding-an-algorithm.md tells each step."""
