"""`parallax train`: trains one run, or with `--multirun` a sweep."""

import contextlib
import dataclasses
import os
import re
import shlex
import string
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from parallax.harness.cli.config_groups import (
    DIAGNOSIS_KEYS,
    explain_unknown_option,
    list_group_options,
    read_group_option,
    register_config_groups,
)
from parallax.harness.contract.adapter import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, BROKEN_ALGORITHMS
from parallax.harness.contract.data_files import load_named_values
from parallax.harness.contract.fields import HANDLED_ERRORS, SpecError, format_unknown_name
from parallax.harness.contract.recipes import list_recipe_names, read_recipe
from parallax.harness.record.files import escape_unprintable, summarize_error


def run(words: Sequence[str]) -> int:
    """Run the Hydra application and translate its errors.

    Returns:
        0 when all runs are complete, 1 when some are not, 2 for bad input or none, 130 for Ctrl-C.
    """
    if list(words) in ([], ["-h"], ["--help"]):
        print(format_train_help())
        # Without arguments, nothing is trained: the default run takes hours.
        return 0 if words else 2
    from hydra._internal.utils import get_args_parser
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from parallax.harness.cli.hydra_app import run_hydra_app
    from parallax.harness.train.stop_signals import stop_launcher_on_signals

    # Hydra's parser needs all settings together, not on both sides of an option.
    settings = [word for word in words if word[:1] != "-" and ("=" in word or word[:1] == "~")]
    words = [*(word for word in words if word not in settings), *settings]
    options, unknown = get_args_parser().parse_known_args(list(words))
    if unknown:
        name = unknown[0].strip("-").partition("=")[0]
        raise SpecError(f"{unknown[0]} is not an option. Settings are written as {name}=VALUE.")
    check_own_files(options.config_dir, settings)
    sys.argv[1:] = defer_hyperparameters(words)  # Hydra reads the process' command line
    register_config_groups()
    stop_launcher_on_signals()
    full = os.environ.get("HYDRA_FULL_ERROR", "")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra raise its errors instead of printing them
    try:
        run_hydra_app()
    except SystemExit as ended:
        if not isinstance(ended.__cause__, SpecError):
            raise ended.__cause__ or ended from None
        raise _add_own_line(str(ended.__cause__), options.config_dir, settings) from None
    except (HydraException, OmegaConfBaseException) as error:
        if full:
            raise
        raise _add_own_line(explain_hydra_error(error), options.config_dir, settings) from error
    except Exception as error:  # Hydra's own code ends in many kinds of errors
        check_own_files(options.config_dir)  # a user's study may name the other files
        frames = traceback.walk_tb(error.__traceback__)
        modules = [str(frame.f_globals["__name__"]) for frame, _ in frames][1:]
        known = isinstance(error, HANDLED_ERRORS) or getattr(error, "filename", None)
        if full or known or any(name.startswith("parallax.") for name in modules):
            raise
        raise SpecError(
            f"Hydra cannot use these settings, or a file's `defaults`: {summarize_error(error)}. "
            "HYDRA_FULL_ERROR=1 shows where."
        ) from error
    finally:
        os.environ["HYDRA_FULL_ERROR"] = full
    return 0


def check_own_files(folder: str | None, settings: Sequence[str] | None = None) -> None:
    """Check that files of `--config-dir` are YAML; Hydra's errors do not name the file.

    Args:
        folder: The folder; None without the option.
        settings: Only files whose names occur in these words are checked; None checks all.

    Raises:
        SpecError: A file is damaged; names file and line.
    """
    named = None if settings is None else set(re.findall(r"[\w.-]+", " ".join(settings)))
    for file in sorted(Path(folder).rglob("*.yaml")) if folder else []:
        if named is not None and file.stem not in named:
            continue
        content = load_named_values(file, "file")
        is_recipe = file.parent.parent.name == "hyperparameters"
        if is_recipe and re.match(r"\s*#\s*@package", file.read_text()):
            raise SpecError(f"{file}:1: a recipe has no `@package` of its own. Remove the line.")
        entries = content.get("defaults", [])
        if not isinstance(entries, list) or not all(isinstance(e, dict | str) for e in entries):
            raise SpecError(f"{file}: defaults={entries} must be a list of files.")


def _add_own_line(message: str, folder: str | None, settings: Sequence[str]) -> SpecError:
    """Return the error, with the line of `--config-dir` that sets the name in the message."""
    found = re.search(r"at input '([^']+)'", message) or re.match(r"(?:\w+\.)*(\w+)", message)
    wanted = re.compile(rf"(?<!\w){re.escape(found[1])}(?!\w)") if found else None
    named = set(re.findall(r"[\w.-]+", " ".join(settings)))
    if not folder or not wanted or wanted.search(" ".join(settings)):
        return SpecError(message)
    files = sorted(Path(folder).rglob("*.yaml"))
    for file in [file for file in files if file.stem in named]:  # which may name others
        named |= set(re.findall(r"[\w.-]+", str(load_named_values(file, "file").get("defaults"))))
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if file.stem in named and wanted.search(line.partition("#")[0]):
                return SpecError(f"{message} {file}:{number} sets it.")
    return SpecError(message)


_NAME_WITHOUT_VALUES_PATTERN = re.compile(
    r"\+*((recipe|hps\.name|algorithm\.name)\b|hyperparameters@)"
)


def defer_hyperparameters(words: Sequence[str]) -> list[str]:
    """Return the words of a sweep, with hyperparameters set in its runs instead of in the sweep.

    Hydra applies every override with one value to the configuration of the sweep itself, which has
    the default algorithm if `hydra.sweeper.parts` or a list of algorithms name others. It applies
    an override that is a choice, even of one value, to each run.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    sweeps = [word for word in words if word.startswith(("hydra.sweeper.parts=", "algorithm="))]
    defers = any("," in word or word.startswith("hydra") for word in sweeps)
    parser = OverridesParser.create()
    deferred = []
    for word in words:
        if word.startswith("~") and not word.startswith("~hydra"):
            name = word[1:].partition("=")[0]
            raise SpecError(f"{word} would remove a setting that runs need: use {name}=VALUE.")
        if _NAME_WITHOUT_VALUES_PATTERN.match(word):
            raise SpecError(
                f"{word} would change the name but not the values. Choose a recipe with "
                "algorithm=NAME hps=NAME, and change values with hyperparameters.NAME=VALUE."
            )
        if word.startswith(("+hydra.", "++hydra.")):
            _check_hydra_section(word)
        # Every word is parsed: Hydra would end with a traceback if a word is too large for it.
        if _is_single_choice(parser, word) and defers and word.startswith("hyperparameters."):
            name, _, value = word.partition("=")
            word = f"{name}=choice({value})"
        deferred.append(word)
    return deferred


def _check_hydra_section(word: str) -> None:
    """Refuse a new section of Hydra's own settings, which would have no effect."""
    from hydra.conf import HydraConf

    section = ".".join(word.lstrip("+").partition("=")[0].split(".")[:2])
    known = [f"hydra.{field.name}" for field in dataclasses.fields(HydraConf)]
    if section not in known:
        raise SpecError(format_unknown_name(section, section, known))


def _is_single_choice(parser: Any, word: str) -> bool:
    from hydra.errors import HydraException

    try:
        return not parser.parse_override(word).is_sweep_override()
    except HydraException:
        return False  # an option, or Hydra reports the error
    except (ValueError, RecursionError):
        raise SpecError(
            f"{word[:40]}... is too large: a number may have 4,300 digits, and lists and "
            "dictionaries can be nested about 100 levels deep."
        ) from None


_CONFIG_REFERENCE_PATTERN = re.compile(r"\$\{([\w.]+)\}")


def format_train_help() -> str:
    """Return the help of `parallax train`: the groups, and every value with its default.

    Thresholds of the diagnosis, a hundred lines, are listed by `--cfg job` and in the docs.
    """
    config = _read_config_file("config")
    layout = config.pop("hydra")["help"]
    values = _compose_defaults(config.pop("defaults"), config)
    studies = [path.name for path in (files("parallax.harness.conf") / "study").iterdir()]
    groups = list_group_options() | {
        "study": [n.removesuffix(".yaml") for n in studies if "yaml" in n]
    }
    template = layout["template"].replace("${hydra.help.header}", layout["header"])
    return string.Template(template).substitute(
        APP_CONFIG_GROUPS="".join(
            f"{group}: {', '.join(sorted(names))}\n"
            for group, names in sorted(_group_by_folder(groups).items())
        ),
        CONFIG=yaml.dump(values, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True),
    )


def _group_by_folder(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the groups as Hydra lists them: a slash in an option's name is a folder."""
    found: dict[str, list[str]] = {}
    for group, names in groups.items():
        for name in names:
            above, _, last = f"{group}/{name}".rpartition("/")
            found.setdefault(above, []).append(last)
    return found


def _compose_defaults(defaults: list[Any], values: dict[str, Any]) -> dict[str, Any]:
    choices: dict[str, str] = {}
    for entry in defaults:
        if isinstance(entry, dict):
            choices |= {name: value for name, value in entry.items() if " " not in name}
    for name, value in choices.items():
        group, _, package = name.partition("@")
        path = f"{group}/{_CONFIG_REFERENCE_PATTERN.sub(lambda found: choices[found[1]], value)}"
        if group == "study":
            values |= _read_config_file(path)
        else:
            content = dict(read_group_option(*path.rsplit("/", 1)))
            if group == "diagnosis":
                content = {key: content[key] for key in DIAGNOSIS_KEYS}
            if package != "recipe":  # a second copy of the values, which users cannot set
                values[package or group] = content
    return values


def _read_config_file(name: str) -> dict[str, Any]:
    text = (files("parallax.harness.conf") / f"{name}.yaml").read_text("utf-8")
    return dict(yaml.safe_load(text))


_CUSTOM_NAME_HINTS = {
    "env": "For any other gymnasium task, use env.name={}.",
    "study": "For a study of your own, use study.name={}.",
    "hps": "For a recipe of your own, use --config-dir FOLDER hps={0}, with its values in "
    "FOLDER/hyperparameters/ALGORITHM/{0}.yaml and the line `name: {0}` in FOLDER/hps/{0}.yaml.",
}


def explain_hydra_error(error: BaseException) -> str:
    """Return the message of a Hydra error, with the text to type instead."""
    from hydra.errors import MissingConfigException

    text = str(error)
    # The folders that Hydra searched do not help a user who mistyped a name.
    shortened = text.split("Config search path", maxsplit=1)[0].strip()
    if recipe := re.search(r"Could not find 'hyperparameters/([^/']+)/([^']+)'", text):
        return _explain_recipe(*recipe.groups())
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _explain_choice(error.missing_cfg_file, error.options or ()) or shortened
    if listed := re.match(r"Ambiguous value for argument '([^=]+)=(.*)'", text):
        name, values = listed.groups()
        command = shlex.join(["parallax", "train", "--multirun", *sys.argv[1:]])
        brackets = f" A list is written in brackets: {name}=[{values}]." if "." in name else ""
        return (
            f"{name}={values} has several values, and a single run takes one. To train one run per "
            f"value: {command}.{brackets}"
        )
    if text.startswith("LexerNoViableAlt"):
        word = escape_unprintable(text.partition(": ")[2].split("\n ")[0])
        return f"{word} has a character that needs quotes: '{word.partition('=')[0]}=\"VALUE\"'."
    mistyped = re.match(r"Could not override '([^']+)'", text)
    if not mistyped:
        return shortened
    words = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith("algorithm=")]
    algorithm = words[-1].split(",")[0] if words else next(iter(ALGORITHMS))
    return explain_unknown_option(mistyped[1], algorithm)


def _explain_choice(path: str, options: Sequence[str]) -> str:
    """Return the options of a group as a sentence; empty for a group that is not known."""
    group, _, name = path.partition("/")  # a slash in a name or a path is a folder to Hydra
    if group == "hyperparameters":
        group, name = "hps", path.rpartition("/")[2]
    options = options or list_group_options().get(group, ())
    if not options or "/" not in path:
        return ""
    if group == "algorithm" and name in BROKEN_ALGORITHMS:
        return f"algorithm={name} cannot be used ({BROKEN_ALGORITHMS[name]})."
    other = _CUSTOM_NAME_HINTS.get(group, "").format(Path(name).stem if group == "hps" else name)
    meant = _find_framework_of_package(name) if group == "framework" else name
    return f"{format_unknown_name(f'{group}={name}', meant, list(options))} {other}".strip()


def _find_framework_of_package(name: str) -> str:
    """Return the framework whose package is called `name`, such as stable-baselines3, or `name`."""
    wanted = name.lower().replace("_", "-")
    for framework in find_adapter_entry_points():
        with contextlib.suppress(Exception):  # a damaged adapter must not hide the message
            if wanted in load_adapter(framework).packages[:1]:
                return framework
    return name


def _explain_recipe(algorithm: str, name: str) -> str:
    known = list_recipe_names(algorithm) if algorithm in ALGORITHMS else []
    if name in known:
        try:
            read_recipe(algorithm, name)
        except SpecError as error:
            return f"hps={name} cannot be used: {error}"
    unknown = format_unknown_name(f"hps={name}", name, known)
    return f"algorithm={algorithm} has no such recipe: {unknown}"
