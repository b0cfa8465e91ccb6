"""`parallax new recipe`: writes a recipe from RL Baselines3 Zoo's hyperparameter files."""

import argparse
import ast
import dataclasses
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from parallax.harness.cli.arguments import check_links
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.data_files import load_yaml
from parallax.harness.contract.fields import SpecError, build_dataclass, format_unknown_name
from parallax.harness.contract.recipes import find_recipe_files, list_recipe_names, read_recipe
from parallax.harness.record.files import (
    DECODE_ERRORS,
    escape_unprintable,
    print_lines,
    write_files_atomically,
)

_NO_COUNTERPART = "no counterpart here"
_NO_LITERAL = object()
_LONGEST_SHOWN = 200  # characters of an entry
_MAX_NUMBER = 2**53
_LEARNING_RATES = (
    *("learning_rate", "policy_learning_rate", "critic_learning_rate"),
    "temperature_learning_rate",
)
# Options of stable_baselines3 2.9.2 whose values mean the same here, with the names here.
_SAME_NAMES = (
    *("gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm", "target_kl", "tau"),
    *("normalize_advantage", "buffer_size", "learning_starts", "target_update_interval"),
    *("policy_delay", "target_policy_noise", "target_noise_clip", "target_entropy"),
)
_FIELDS = {name: name for name in _SAME_NAMES} | {
    "n_epochs": "epochs",
    "clip_range_vf": "value_clip_range",
    "exploration_initial_eps": "exploration_initial",
    "exploration_final_eps": "exploration_final",
}
_EPILOG = """\
examples:
  parallax new recipe ppo.yml --algorithms ppo --env Hopper-v4 --name tuned --output mine
  parallax train --config-dir mine algorithm=ppo env=Hopper-v4 hps=tuned"""


@dataclasses.dataclass(frozen=True)
class TranslatedRecipe:
    """A Zoo entry, translated to this project's names.

    Attributes:
        hyperparameters: All hyperparameters of the algorithm.
        origins: The Zoo's own entry for each hyperparameter that it sets.
        overrides: Options of `parallax train` in the entry that are not hyperparameters.
        untranslated: Entries that have no counterpart, with the reason.
    """

    hyperparameters: Mapping[str, Any]
    origins: Mapping[str, str]
    overrides: Mapping[str, str]
    untranslated: Mapping[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="the Zoo's hyperparams/<algorithm>.yml")
    add(
        "--algorithms",
        dest="algorithm",
        required=True,
        # A recipe of Stable-Baselines3 completes entries.
        choices=[name for name in ALGORITHMS if "sb3" in find_recipe_files(name)],
        help="the algorithm of the file",
    )
    add("--env", required=True, metavar="TASK", help="task whose entry is read from the file")
    add("--name", required=True, help="name of the recipe: hps=NAME")
    add("--output", required=True, type=Path, metavar="FOLDER", help="folder for --config-dir")
    add(
        "--partial",
        action="store_true",
        help="write the recipe even if some entries have no counterpart",
    )


def run(options: argparse.Namespace) -> int:
    """Write the recipe, and print the command that trains with it."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", options.name):
        raise SpecError(f"--name {options.name!r} must be a valid file name.")
    if options.name in list_recipe_names(options.algorithm):
        raise SpecError(
            f"--name {options.name} is the name of a recipe that is installed: choose another one."
        )
    entry = read_zoo_entry(options.file, options.env)
    try:
        found = translate_zoo_entry(options.algorithm, entry)
    except SpecError as error:
        raise SpecError(f"{options.file}, {options.env}: {error}") from error
    lines = [f"  {name} ({reason})" for name, reason in found.untranslated.items()]
    if lines and not options.partial:
        raise SpecError(
            f"{options.file}, {options.env}: {len(lines)} entries cannot be translated. Add "
            "--partial to leave them out:\n" + "\n".join(lines)
        )
    folder = options.output
    recipe = folder / "hyperparameters" / options.algorithm / f"{options.name}.yaml"
    group = folder / "hps" / f"{options.name}.yaml"
    text = f"name: {options.name}\n".encode()
    # A recipe of another algorithm may have the name and the same file.
    is_same = group.is_file() and group.stat().st_size == len(text) and group.read_bytes() == text
    for path in (recipe,) if is_same else (recipe, group):
        if path.exists():
            raise SpecError(f"{path} already exists: choose another --name.")
    check_links(folder, [recipe, group])
    head = (
        f"# {options.file.name} of RL Baselines3 Zoo, {options.env}; the rest as Stable-Baselines3."
    )
    write_files_atomically({group: text, recipe: f"{head}\n{format_recipe(found)}"})
    omitted = ["Left out:", *lines] if lines else []
    following = f"Next: {_format_train_command(options, found.overrides)}"
    print_lines([f"Written: {recipe}", *omitted, following])
    return 0


def format_recipe(found: TranslatedRecipe) -> str:
    """Return the text of a recipe, with comments on the origin of values and omitted entries."""
    lines = []
    for name, value in found.hyperparameters.items():
        origin = f"  # {found.origins[name]}" if name in found.origins else ""
        lines.append(f"{name}: {_format_yaml_value(value)}{origin}")
    lines += [f"# left out: {name} ({reason})" for name, reason in found.untranslated.items()]
    # YAML ends a comment at more characters than Python ends a line at.
    return "\n".join(map(escape_unprintable, lines)) + "\n"


def _format_yaml_value(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")


def _format_train_command(options: argparse.Namespace, overrides: Mapping[str, str]) -> str:
    words = ["parallax", "train", "--config-dir", str(options.output), "framework=sb3"]
    words += [f"algorithm={options.algorithm}", f"env.name={options.env}", f"hps={options.name}"]
    words += ["alignment=exact", *(f"{name}={value}" for name, value in overrides.items())]
    return shlex.join(words)


def read_zoo_entry(path: Path, env: str) -> dict[str, Any]:
    """Return the entry of a task."""
    content = load_yaml(path, "hyperparameter file")
    if not isinstance(content, dict):
        raise SpecError(f"{path} holds no entries by task, as the Zoo's files do.")
    names = [str(name) for name, entry in content.items() if isinstance(entry, dict)]
    if env not in names:
        raise SpecError(f"{path}: {format_unknown_name(f'task {env}', env, names)}")
    return dict(content[env])


def translate_zoo_entry(algorithm: str, entry: Mapping[str, Any]) -> TranslatedRecipe:
    """Translate an entry; omitted values are Stable-Baselines3's defaults."""
    return _EntryTranslator(algorithm, entry).translate()


class _EntryTranslator:
    """Translates one entry, value by value."""

    def __init__(self, algorithm: str, entry: Mapping[str, Any]) -> None:
        self._algorithm = algorithm
        self._entry = entry
        self._values = read_recipe(algorithm, "sb3")
        self._origins: dict[str, str] = {}
        self._overrides: dict[str, str] = {}
        self._untranslated: dict[str, str] = {}
        self._n_envs = self._get_number("n_envs", 1)
        self._steps = self._get_number("n_timesteps", 0)

    def _get_number(self, name: str, default: int) -> int:
        value = self._entry.get(name, default)
        try:
            number = float(value)
        except (OverflowError, TypeError, ValueError):
            raise SpecError(f"{name}={_shorten_entry(repr(value))} must be a number.") from None
        if isinstance(value, bool) or not number.is_integer():
            raise SpecError(f"{name}={_shorten_entry(repr(value))} must be a whole number.")
        if name in self._entry and not 1 <= number <= _MAX_NUMBER:
            raise SpecError(f"{name}={_shorten_entry(repr(value))} must be from 1 to 2^53.")
        return int(number)

    def translate(self) -> TranslatedRecipe:
        special: Mapping[str, Callable[[str, Any], str]] = {
            "learning_rate": self._translate_learning_rate,
            "clip_range": self._translate_scheduled,
            "n_steps": self._translate_rollout_steps,
            "batch_size": self._translate_batch_size,
            "train_freq": self._translate_train_freq,
            "gradient_steps": self._translate_gradient_steps,
            "exploration_fraction": self._translate_exploration_fraction,
            "noise_type": self._translate_noise,
            "noise_std": lambda name, value: "",  # read together with noise_type
            "policy_kwargs": self._translate_policy_kwargs,
            "policy": self._translate_policy,
            "n_envs": self._translate_run_option,
            "n_timesteps": self._translate_run_option,
            "env_kwargs": self._translate_env_kwargs,
            "env_wrapper": self._translate_wrappers,
            "normalize": self._translate_normalize,
        }
        if "temperature_learning_rate" in self._values:  # SAC calls the temperature ent_coef
            special = {**special, "ent_coef": self._translate_temperature}
        for name, value in self._entry.items():
            try:
                if name in special:
                    reason = special[name](name, value)
                elif name in _FIELDS:
                    reason = self._set(_FIELDS[name], name, value)
                else:
                    reason = _NO_COUNTERPART
            except DECODE_ERRORS:  # such as `lin_1.2.3`, or a list as the key of a dictionary
                reason = "it cannot be read"
            if reason:
                self._untranslated[f"{_shorten_entry(str(name))}: {_shorten_entry(str(value))}"] = (
                    reason
                )
        build_dataclass(ALGORITHMS[self._algorithm], self._values, f"the {self._algorithm} recipe")
        return TranslatedRecipe(self._values, self._origins, self._overrides, self._untranslated)

    def _set(self, field: str, name: str, value: Any) -> str:
        if field not in self._values:
            return f"{self._algorithm} has no {field} here"
        # True counts as 1 in Python.
        if isinstance(self._entry[name], bool) and not isinstance(self._values[field], bool):
            return "it is not a number"
        if isinstance(value, str):
            number = _parse_literal(value)
            if number is _NO_LITERAL:
                return "it is not a number"
            value = number
        self._values[field] = value
        self._origins[field] = f"{name} {self._entry[name]}"
        return ""

    def _translate_scheduled(self, name: str, value: Any) -> str:
        """Set a value that may fall linearly to 0: `lin_0.001` (rl_zoo3/utils.py)."""
        linear = re.fullmatch(r"lin_([\d.eE+-]+)", value) if isinstance(value, str) else None
        if linear and f"{name}_schedule" not in self._values:
            return f"{self._algorithm} has a constant {name} here"
        reason = self._set(name, name, float(linear[1]) if linear else value)
        if not reason and f"{name}_schedule" in self._values:
            self._values[f"{name}_schedule"] = "linear" if linear else "constant"
            self._origins[f"{name}_schedule"] = f"{name} {value}"
        return reason

    def _translate_learning_rate(self, name: str, value: Any) -> str:
        if "learning_rate_schedule" in self._values:
            return self._translate_scheduled(name, value)
        if isinstance(value, str) and value.startswith("lin_"):
            return f"{self._algorithm} has a constant learning rate here"
        fields = [field for field in _LEARNING_RATES if field in self._values]
        return next(filter(None, [self._set(field, name, value) for field in fields]), "")

    def _translate_rollout_steps(self, name: str, value: Any) -> str:
        if not isinstance(value, int):
            return "it is not a whole number"
        reason = self._set("rollout_steps", name, value * self._n_envs)
        if not reason:
            self._origins["rollout_steps"] = f"n_steps {value} of each of n_envs {self._n_envs}"
        return reason

    def _translate_batch_size(self, name: str, value: Any) -> str:
        return self._set(
            "minibatch_size" if "minibatch_size" in self._values else name, name, value
        )

    def _translate_train_freq(self, name: str, value: Any) -> str:
        if isinstance(value, list | tuple):
            if len(value) != 2 or value[1] != "step":
                return "it counts episodes; here it counts steps"
            value = value[0]
        # Counts steps of all parallel environments here, and of each one in Stable-Baselines3.
        return self._set(name, name, value * self._n_envs if isinstance(value, int) else value)

    def _translate_gradient_steps(self, name: str, value: Any) -> str:
        if value != -1:
            return self._set(name, name, value)
        freq = self._entry.get("train_freq", 1)
        if not isinstance(freq, int):
            return "-1 is as many as an episode has steps"
        return self._set(name, name, freq * self._n_envs)  # as many as collected transitions

    def _translate_exploration_fraction(self, name: str, value: Any) -> str:
        if not self._steps or not isinstance(value, int | float):
            return "it is a share of n_timesteps, which are not given"
        reason = self._set("exploration_steps", name, round(value * self._steps))
        if not reason:
            self._origins["exploration_steps"] = f"{name} {value} of {self._steps} steps"
        return reason

    def _translate_temperature(self, name: str, value: Any) -> str:
        """Set the start of a learned temperature: `auto` or `auto_0.1`."""
        found = re.fullmatch(r"auto(?:_([\d.eE+-]+))?", str(value))
        if not found:
            return "the temperature is always learned here"
        return self._set("initial_temperature", name, float(found[1] or 1.0))

    def _translate_noise(self, name: str, value: Any) -> str:
        kind = {"normal": "gaussian", "ornstein-uhlenbeck": "ornstein-uhlenbeck"}.get(str(value))
        if kind is None or "exploration_noise" not in self._values:
            return _NO_COUNTERPART
        if "exploration_noise_kind" in self._values:
            self._values["exploration_noise_kind"] = kind
            self._origins["exploration_noise_kind"] = f"{name} {value}"
        elif kind != "gaussian":
            return f"{self._algorithm} has gaussian noise here"
        deviation = self._entry.get("noise_std", 0.0)
        reason = self._set("exploration_noise", name, deviation)
        self._origins["exploration_noise"] = f"noise_std {deviation}"
        return reason

    def _translate_policy(self, name: str, value: Any) -> str:
        return "" if value == "MlpPolicy" else "only MlpPolicy has a counterpart"

    def _translate_policy_kwargs(self, name: str, value: Any) -> str:
        """Set the layers; list all other arguments by name."""
        arguments = _parse_call(value)
        if arguments is None:
            return "it cannot be read as dict(name=value, ...)"
        for key, argument in arguments.items():
            reason = self._set_layers(argument) if key == "net_arch" else _NO_COUNTERPART
            if reason:
                self._untranslated[f"policy_kwargs.{key}"] = reason
        return ""

    def _set_layers(self, layers: Any) -> str:
        if isinstance(layers, list) and len(layers) == 1 and isinstance(layers[0], dict):
            layers = layers[0]  # the form of Stable-Baselines3 before 1.8
        if isinstance(layers, dict):
            different = {tuple(value) for value in layers.values() if isinstance(value, list)}
            if len(different) != 1:
                return "policy and value network have the same layers here"
            layers = list(different.pop())
        if not isinstance(layers, list) or not all(isinstance(size, int) for size in layers):
            return "it is not a list of layers"
        self._values["hidden_sizes"] = layers
        self._origins["hidden_sizes"] = f"policy_kwargs net_arch {layers}"
        return ""

    def _translate_run_option(self, name: str, value: Any) -> str:
        option, number = ("n_envs", self._n_envs) if name == "n_envs" else ("steps", self._steps)
        self._overrides[option] = str(number)
        return ""

    def _translate_env_kwargs(self, name: str, value: Any) -> str:
        arguments = value if isinstance(value, dict) else _parse_call(value)
        if arguments is None:
            return "it cannot be read as values by name"
        for key, argument in arguments.items():
            if isinstance(argument, _Name):
                self._untranslated[f"env_kwargs.{key}"] = "it is code"
            else:
                self._overrides[f"+env.kwargs.{key}"] = str(argument)
        return ""

    def _translate_wrappers(self, name: str, value: Any) -> str:
        given = value if isinstance(value, list) else [value]
        classes = []
        for wrapper in given:
            if not isinstance(wrapper, str):
                return "a wrapper with arguments has to be written as a class of its own"
            module, _, last = wrapper.rpartition(".")
            classes.append(f"{module}:{last}")
        self._overrides["env.wrappers"] = f"[{','.join(classes)}]"
        return ""

    def _translate_normalize(self, name: str, value: Any) -> str:
        if value is True:
            self._overrides["wrappers"] = "normalized"
        return "" if isinstance(value, bool) else "only true and false have a counterpart"


class _Name(str):
    """A name in code, such as `nn.ReLU`, which is not executed."""


def _parse_literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _NO_LITERAL


def _shorten_entry(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _parse_call(value: Any) -> dict[str, Any] | None:
    """Read `dict(name=value, ...)` or a dictionary in a text, without executing it."""
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    if not isinstance(value, str):
        return None
    try:
        found = _evaluate_node(ast.parse(value.strip(), mode="eval").body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _evaluate_node(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict" and not node.args:
        return {word.arg: _evaluate_node(word.value) for word in node.keywords if word.arg}
    if isinstance(node, ast.Dict):
        keys = [_evaluate_node(key) for key in node.keys if key is not None]
        return {str(k): _evaluate_node(v) for k, v in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.List | ast.Tuple):
        return [_evaluate_node(item) for item in node.elts]
    if isinstance(node, ast.Name | ast.Attribute | ast.Call):
        return _Name(ast.unparse(node))
    return ast.literal_eval(node)
