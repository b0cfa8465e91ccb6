"""What `parallax train --help` prints, without Hydra, which takes a second of CPU to ask.

It is Hydra's own answer to the letter; with further words on the command line Hydra is asked.
"""

import re
import string
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

from harness.cli.config_groups import group_names, option

_REFERENCE = re.compile(r"\$\{([\w.]+)\}")


def train_help() -> str:
    """The groups and every value that can be set, as they are by default."""
    config = _read("config")
    layout = config.pop("hydra")["help"]
    values = _composed(config.pop("defaults"), config)
    studies = [path.name for path in (files("harness.conf") / "study").iterdir()]
    groups = group_names() | {"study": [n.removesuffix(".yaml") for n in studies if "yaml" in n]}
    template = layout["template"].replace("${hydra.help.header}", layout["header"])
    return string.Template(template).substitute(
        APP_CONFIG_GROUPS="".join(
            f"{group}: {', '.join(sorted(names))}\n"
            for group, names in sorted(_by_folder(groups).items())
        ),
        CONFIG=yaml.dump(values, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True),
    )


def _by_folder(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The groups as Hydra lists them, to whom a slash in an option's name is a folder."""
    found: dict[str, list[str]] = {}
    for group, names in groups.items():
        for name in names:
            above, _, last = f"{group}/{name}".rpartition("/")
            found.setdefault(above, []).append(last)
    return found


def _composed(defaults: list[Any], values: dict[str, Any]) -> dict[str, Any]:
    choices: dict[str, str] = {}
    for entry in defaults:
        if isinstance(entry, dict):
            choices |= {name: value for name, value in entry.items() if " " not in name}
    for name, value in choices.items():
        group, _, package = name.partition("@")
        path = f"{group}/{_REFERENCE.sub(lambda found: choices[found[1]], value)}"
        if group == "study":
            values |= _read(path)
        else:
            values[package or group] = dict(option(*path.rsplit("/", 1)))
    return values


def _read(name: str) -> dict[str, Any]:
    text = (files("harness.conf") / f"{name}.yaml").read_text("utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content
