"""`parallax new recipe`: writes a recipe from RL Baselines3 Zoo's hyperparameter files."""

import argparse
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from parallax.harness.contract.fields import SpecError
from parallax.harness.imports.zoo_recipe import (
    TranslatedRecipe,
    list_zoo_algorithms,
    read_zoo_entry,
    translate_zoo_entry,
)
from parallax.harness.record.files import write_texts_atomically

_EPILOG = """\
examples:
  parallax new recipe ppo.yml --algorithms ppo --env Hopper-v4 --name tuned --output mine
  parallax train --config-dir mine algorithm=ppo env=Hopper-v4 hps=tuned"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="hyperparams/<algorithm>.yml of the Zoo")
    add(
        "--algorithms",
        dest="algorithm",
        required=True,
        choices=list_zoo_algorithms(),
        help="the algorithm of the file",
    )
    add("--env", required=True, metavar="TASK", help="entry of the file")
    add("--name", required=True, help="name of the recipe: hps=NAME")
    add("--output", required=True, type=Path, metavar="FOLDER", help="folder for --config-dir")
    add(
        "--partial",
        action="store_true",
        help="write the recipe although some entries have no counterpart",
    )


def run(options: argparse.Namespace) -> int:
    """Write the recipe, and print the command that trains with it.

    Raises:
        SpecError: The entry cannot be translated, or a recipe of this name exists.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", options.name):
        raise SpecError(f"--name {options.name!r} must be a name that can name a file.")
    found = translate_zoo_entry(options.algorithm, read_zoo_entry(options.file, options.env))
    lines = [f"  {name} ({reason})" for name, reason in found.untranslated.items()]
    if lines and not options.partial:
        raise SpecError(
            f"{options.file}, {options.env}: {len(lines)} entries cannot be translated. Add "
            "--partial to leave them out:\n" + "\n".join(lines)
        )
    folder = options.output
    recipe = folder / "hyperparameters" / options.algorithm / f"{options.name}.yaml"
    if recipe.exists():
        raise SpecError(f"{recipe} is there already: choose another --name.")
    head = (
        f"# {options.file.name} of RL Baselines3 Zoo, {options.env}; the rest as Stable-Baselines3."
    )
    write_texts_atomically(
        {
            folder / "hps" / f"{options.name}.yaml": f"name: {options.name}\n",
            recipe: f"{head}\n{format_recipe(found)}",
        }
    )
    print(f"Written: {recipe}")
    if lines:
        print("Left out:", *lines, sep="\n")
    print(f"Next: {_format_train_command(options, found.overrides)}")
    return 0


def format_recipe(found: TranslatedRecipe) -> str:
    """Return the text of a recipe, with comments on the origin of values and omitted entries."""
    lines = []
    for name, value in found.hyperparameters.items():
        origin = f"  # {found.origins[name]}" if name in found.origins else ""
        lines.append(f"{name}: {_format_yaml_value(value)}{origin}")
    lines += [f"# left out: {name} ({reason})" for name, reason in found.untranslated.items()]
    return "\n".join(line.replace("\n", " ") for line in lines) + "\n"


def _format_yaml_value(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")


def _format_train_command(options: argparse.Namespace, overrides: Mapping[str, str]) -> str:
    words = ["parallax", "train", "--config-dir", str(options.output), "framework=sb3"]
    words += [f"algorithm={options.algorithm}", f"env.name={options.env}", f"hps={options.name}"]
    words += ["alignment=exact", *(f"{name}={value}" for name, value in overrides.items())]
    return shlex.join(words)
