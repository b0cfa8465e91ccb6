"""`parallax train`: trains one run, or with `--multirun` a sweep."""

import contextlib
import dataclasses
import inspect
import json
import os
import re
import shlex
import sys
import textwrap
import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from parallax.harness.cli.config_groups import explain_unknown_option, list_group_options
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, BROKEN_ALGORITHMS
from parallax.harness.contract.algorithms.base import field_names
from parallax.harness.contract.data_files import load_named_values
from parallax.harness.contract.fields import HANDLED_ERRORS, SpecError, format_unknown_name
from parallax.harness.contract.recipes import list_recipe_names, read_recipe
from parallax.harness.record.files import escape_unprintable, summarize_error

if TYPE_CHECKING:
    from parallax.harness.sweep.forked_process import ForkServer


def run(words: Sequence[str]) -> int:
    """Run the Hydra application and translate its errors.

    Returns:
        0 when all runs are complete, 1 when some are not, 2 for bad input or none, 130 for Ctrl-C.
    """
    settings = [word for word in words if word not in ("-h", "--help")]
    chosen = dict(word.partition("=")[::2] for word in settings)
    is_help = len(settings) < len(words) and chosen.keys() <= {"algorithm", "hps"}
    if (not words or is_help) and (text := format_train_help(chosen)):
        print(text)
        # Without arguments, nothing is trained: the default run takes hours.
        return 0 if words else 2
    shows_frames = os.environ.get("HYDRA_FULL_ERROR", "")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra raise its errors instead of printing them
    try:
        with _start_fork_server(words, chosen) as server:
            _run_hydra(words, server, shows_frames)
    finally:
        os.environ["HYDRA_FULL_ERROR"] = shows_frames
    return 0


def _start_fork_server(
    words: Sequence[str], chosen: Mapping[str, str]
) -> contextlib.AbstractContextManager[Any]:
    """Start to import the framework of a single run while Hydra composes its configuration.

    Args:
        words: The command line.
        chosen: Values of its settings by name.

    Returns:
        A context that holds a `ForkServer`, or None if the words do not name what to import.
    """
    framework, algorithm = chosen.get("framework"), chosen.get("algorithm")
    if any(word.startswith("-") for word in words) or algorithm not in ALGORITHMS:
        return contextlib.nullcontext()
    if framework not in find_adapter_entry_points() or "framework.python" in chosen:
        return contextlib.nullcontext()
    from parallax.harness.sweep.forked_process import (
        ForkServer,
        list_training_modules,
        supports_pidfd,
    )
    from parallax.harness.sweep.run_process import make_run_environment

    if not supports_pidfd():
        return contextlib.nullcontext()
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"  # as gymnasium does when it is imported
    environment = make_run_environment(chosen.get("threads", "1"), {})
    return ForkServer(framework, list_training_modules(framework, [algorithm]), environment)


def _run_hydra(words: Sequence[str], early_server: "ForkServer | None", shows_frames: str) -> None:
    from parallax.harness.cli.hydra_app import register_config_groups, run_hydra_app
    from parallax.harness.train.stop_signals import stop_launcher_on_signals

    line = _parse_command_line(words)
    check_config_files(line.config_dir, line.settings)
    sys.argv[1:] = defer_hyperparameters(line.words)  # Hydra reads the process' command line
    register_config_groups()
    stop_launcher_on_signals()
    try:
        run_hydra_app(early_server)
    except SystemExit as ended:  # Hydra ends the process after an error of the application
        error = ended.__cause__ or ended
        if isinstance(error, SpecError):
            error = _add_config_line(str(error), line)
        raise error from None
    except Exception as error:
        if shows_frames or (translated := _translate_error(error, line)) is None:
            raise
        raise translated from error


class _CommandLine(NamedTuple):
    """Command line of `parallax train`.

    Attributes:
        words: All words, in the order that Hydra's parser needs.
        settings: Those that set a value, such as `seed=0`.
        config_dir: Folder of the option `--config-dir`; None without the option.
    """

    words: list[str]
    settings: list[str]
    config_dir: str | None


def _parse_command_line(words: Sequence[str]) -> _CommandLine:
    """Sort the words for Hydra.

    Raises:
        SpecError: An option does not exist, or runs code from a file.
    """
    from hydra._internal.utils import get_args_parser

    words = ["hydra.launcher.dry_run=true" if word == "--dry-run" else word for word in words]
    # Hydra's parser needs all settings together, not on both sides of an option.
    settings = [word for word in words if word[:1] != "-" and ("=" in word or word[:1] == "~")]
    words = [*(word for word in words if word not in settings), *settings]
    options, unknown = get_args_parser().parse_known_args(words)
    if unknown:
        name = unknown[0].strip("-").partition("=")[0]
        raise SpecError(f"{unknown[0]} is not an option. Settings are written as {name}=VALUE.")
    if options.experimental_rerun:
        raise SpecError("--experimental-rerun runs code from a pickle file: give the settings.")
    return _CommandLine(words, settings, options.config_dir)


def _translate_error(error: Exception, line: _CommandLine) -> SpecError | None:
    """Return an error of Hydra in our words; None for an error that is ours or handled as it is."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(error, HydraException | OmegaConfBaseException):
        return _add_config_line(explain_hydra_error(error), line)
    check_config_files(line.config_dir)  # also those that a user's study names
    frames = traceback.walk_tb(error.__traceback__)
    modules = [str(frame.f_globals["__name__"]) for frame, _ in frames]
    # The first two frames, `_run_hydra` and `run_hydra_app`, are there in any case.
    is_ours = any(name.startswith("parallax.") for name in modules[2:])
    if is_ours or isinstance(error, HANDLED_ERRORS) or getattr(error, "filename", None):
        return None
    return SpecError(  # Hydra's own code ends in many kinds of errors
        f"Hydra cannot use these settings, or a file's `defaults`: {summarize_error(error)}. "
        "HYDRA_FULL_ERROR=1 shows where."
    )


def check_config_files(folder: str | None, settings: Sequence[str] | None = None) -> None:
    """Check that files of `--config-dir` are YAML; Hydra's errors do not name the file.

    Args:
        folder: The folder; None without the option.
        settings: Only files that these words name are checked; None checks all.

    Raises:
        SpecError: A file is damaged; names file and line.
    """
    named = None if settings is None else _find_names(" ".join(settings))
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


def _find_names(text: str) -> set[str]:
    """Return the words of a text that may be names of configuration files."""
    return set(re.findall(r"[\w.-]+", text))


def _add_config_line(message: str, line: _CommandLine) -> SpecError:
    """Return the error, with the line in `--config-dir` that sets the name in the message."""
    found = re.search(r"at input '([^']+)'", message) or re.match(r"(?:\w+\.)*(\w+)", message)
    if not line.config_dir or not found:
        return SpecError(message)
    settings = " ".join(line.settings)
    pattern = re.compile(rf"(?<!\w){re.escape(found[1])}(?!\w)")
    if pattern.search(settings):
        return SpecError(message)
    files = sorted(Path(line.config_dir).rglob("*.yaml"))
    named = _find_names(settings)
    for file in [file for file in files if file.stem in named]:
        # A file's list of defaults names further files.
        named |= _find_names(str(load_named_values(file, "file").get("defaults")))
    for file in [file for file in files if file.stem in named]:
        for number, text in enumerate(file.read_text().splitlines(), 1):
            if pattern.search(text.partition("#")[0]):
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

    choices = [word for word in words if word.startswith(("hydra.sweeper.parts=", "algorithm="))]
    may_have_several = any("," in word or word.startswith("hydra") for word in choices)
    parser = OverridesParser.create()
    deferred = []
    for word in words:
        _check_word(word)
        # Every word is parsed: Hydra would end with a traceback if a word is too large for it.
        is_single = _is_single_choice(parser, word)
        if is_single and may_have_several and word.startswith("hyperparameters."):
            name, _, value = word.partition("=")
            word = f"{name}=choice({value})"
        deferred.append(word)
    return deferred


def _check_word(word: str) -> None:
    """Refuse an override that Hydra accepts and that runs cannot use."""
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


_HELP_WIDTH, _HELP_INDENT = 96, 28  # columns


def format_train_help(chosen: Mapping[str, str]) -> str:
    """Return the help of `parallax train`, with an algorithm's hyperparameters in a recipe.

    Thresholds of the diagnosis, a hundred lines, are listed by `--cfg job` and in the docs. An
    empty string if the algorithm has no such recipe.
    """
    text = (files("parallax.harness.conf") / "config.yaml").read_text("utf-8")
    groups, settings = read_setting_descriptions(text)
    options = list_group_options()
    used = {group.name: group.default for group in groups} | dict(chosen)
    algorithm, recipe = used["algorithm"], used["hps"]
    if recipe not in options.get(f"hyperparameters/{algorithm}", ()):
        return ""
    lines = ["groups: GROUP=OPTION, here with the default, the meaning and the options"]
    for group in groups:
        lines += ["", *_format_group(group, options)]
    lines += ["", "settings: NAME=VALUE, here with the default and the meaning", ""]
    for name, default, meaning in settings:
        lines += _format_setting(f"{name}={default}", meaning)
    of_recipe = f"algorithm={algorithm} hps={recipe}"
    lines += ["", f"hyperparameters: hyperparameters.NAME=VALUE, here of {of_recipe}", ""]
    values, meanings = read_recipe(algorithm, recipe), describe_hyperparameters(algorithm)
    for name in field_names(ALGORITHMS[algorithm]):
        value = json.dumps(values.get(name), separators=(",", ":")).replace('"', "")
        lines += _format_setting(f"{name}={value}", meanings.get(name, ""))
    return "\n".join([yaml.safe_load(text)["hydra"]["help"]["header"], *lines, "", _HELP_END])


_HELP_END = """\
Another algorithm's hyperparameters: parallax train algorithm=NAME hps=NAME --help
All values of a command line: add --cfg job. Hydra's own options: parallax train --hydra-help"""


def _format_group(group: "SettingDescription", options: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of a group, with its options or recipes."""
    lines = _format_setting(f"{group.name}={group.default}", group.meaning)
    if group.name == "study":
        for study, summary in describe_studies():
            lines += _format_setting(f"    {study}", summary)
    elif group.name == "hps":
        for algorithm in ALGORITHMS:
            names = options[f"hyperparameters/{algorithm}"]
            lines += _format_setting("", f"{algorithm}: {', '.join(sorted(names))}")
    elif group.name in options:
        lines += _format_setting("", f"options: {', '.join(sorted(options[group.name]))}")
    return lines


def _format_setting(left: str, text: str) -> list[str]:
    """Return the lines of a row of help."""
    indent, left = " " * _HELP_INDENT, f"  {left}"
    rows = textwrap.wrap(
        text, _HELP_WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    if len(left) < _HELP_INDENT - 1 and rows:
        rows[0] = f"{left:{_HELP_INDENT}}{rows[0].lstrip()}"
        return rows
    return [left, *rows] if left.strip() else rows


class SettingDescription(NamedTuple):
    """A group or setting of `parallax train`, as help lists it."""

    name: str
    default: str
    meaning: str


def read_setting_descriptions(
    text: str,
) -> tuple[list[SettingDescription], list[SettingDescription]]:
    """Return the groups and the settings that comments of `config.yaml` describe."""
    found: list[SettingDescription] = []
    for line in text.partition("\nhydra:")[0].splitlines()[2:]:
        code, _, comment = line.partition("#")
        name, colon, default = code.strip(" -").partition(": ")
        if colon:
            name = name.removeprefix("override ")
            found.append(SettingDescription(name, default.strip(' "'), comment.strip()))
        elif comment:
            meaning = f"{found[-1].meaning} {comment.strip()}"
            found[-1] = found[-1]._replace(meaning=meaning)
    rows = [row for row in found if row.meaning and "@" not in row.name]
    first_setting = [row.name for row in rows].index("seed")
    return rows[:first_setting], rows[first_setting:]


def describe_studies() -> Iterator[tuple[str, str]]:
    """Yield names of studies and the first sentences of their comments."""
    folder = files("parallax.harness.conf") / "study"
    for name in sorted(path.name for path in folder.iterdir() if path.name.endswith(".yaml")):
        lines = re.findall(r"^# +(?!@)(.*)", (folder / name).read_text("utf-8"), re.M)
        text = re.split(r"(?<=[.?])\s", " ".join(lines))[0]
        yield name.removesuffix(".yaml"), text.rstrip(".:") or "an empty study"


def describe_hyperparameters(algorithm: str) -> dict[str, str]:
    """Return the first sentence on each hyperparameter in the docstrings of an algorithm."""
    found: dict[str, str] = {}
    for cls in reversed(ALGORITHMS[algorithm].__mro__):
        attributes = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")[2]
        for entry in re.split(r"^    (?=\w)", attributes, flags=re.M):
            name, _, text = entry.partition(": ")
            found[name] = re.split(r"\.\s", f"{' '.join(text.split())} ")[0]
    return found


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
