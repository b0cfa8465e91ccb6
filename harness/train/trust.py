"""Shows the code that folders from other people name, and requests consent before it runs."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.contract import adapter_discovery, algorithms
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import find_entry_points
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.run_json import RecordedSpec

CHECKS = "parallax.checks"
TASKS = "gymnasium.envs"
_NAMES_PLACE = re.compile(r"[/\\:]|^[.~]")
_NUMBER = re.compile(r"[-+]?\d*\.\d*(e[-+]?\d+)?")
_MODEL_FILE = "xml_file"


def list_named_code(specs: Iterable[RunSpec], adapters: Iterable[str] = ()) -> list[str]:
    """List all code that stored specifications name and that is not installed here.

    Every command that acts on runs of a folder or file calls this function first. A specification
    can name code in these places:

    - `python`: an interpreter; this one needs no trust.
    - `env`: a module that registers tasks; those of this project, and of packages that have an
      entry point for tasks, adapters or algorithms, need none.
    - `env_wrappers`: modules of classes; the same holds for them, and Gymnasium's own need none.
    - `env_kwargs`: texts that contain a slash or colon, or begin with a tilde or dot, by which some
      tasks find a file (`xml_file`) or another task's module (`env_id`), and texts with dots other
      than numbers, as highway-env imports classes by (`config.other_vehicles_type`).
    - `script`: a user's own copy of a training script, whose text is stored.
    - `diagnosis.extra_checks`, and `adapter` of `run.json`: those of an entry point need none.

    All other fields select something installed: names of entry points or of closed lists, a file
    of values (`hps`), or an entry of a file beside an installed adapter (`intervention`).
    """
    lines = []
    known = {entry.value for entry in adapter_discovery.find_adapter_entry_points().values()}
    lines += [f"adapter: {name}" for name in adapters if name and name not in known]
    for spec in specs:
        lines += list_train_code(spec)
        if spec.diagnosis["mode"] != "off":
            extra = spec.diagnosis.get("extra_checks", ())
            installed = {entry.value for entry in find_entry_points(CHECKS)} if extra else set()
            lines += [
                f"import of the module {name.partition(':')[0]}: diagnosis.extra_checks={name}"
                for name in extra
                if name not in installed
            ]
    return list(dict.fromkeys(lines))


def list_train_code(spec: RunSpec | RecordedSpec) -> list[str]:
    """List the interpreter and script of a specification, and the code that its task names."""
    lines = [f"interpreter: {spec.python}"] if spec.python not in (None, sys.executable) else []
    if spec.script:
        lines.append(f"script stored in the run: {spec.script.name} ({spec.script.sha256})")
    lines += list_task_code(spec.env)
    lines += [
        f"import of the module {name.partition(':')[0]}: env.wrappers={name}"
        for name in spec.env_wrappers
        if not _is_installed_task(name.partition(":")[0])
    ]
    lines += [
        f"a file or module: env.kwargs.{name}={text}"
        for name, value in spec.env_kwargs.items()
        for text in list_texts(value)
        if _NAMES_PLACE.search(text) or (name != _MODEL_FILE and _has_module_name(text))
    ]
    return lines


def _has_module_name(text: str) -> bool:
    # What is before a dot is imported, whether or not the rest of the text is a name.
    return "." in text and not _NUMBER.fullmatch(text)


def list_task_code(env: str) -> list[str]:
    """List the module that a task's name imports, unless it is installed here."""
    module, colon, _ = env.partition(":")
    needs_trust = colon and not _is_installed_task(module)
    return [f"import of the module {module}: env={env}"] if needs_trust else []


def list_texts(value: Any) -> list[str]:
    """Return all texts in nested lists and dictionaries."""
    if isinstance(value, Mapping):
        return [text for part in (*value, *value.values()) for text in list_texts(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in list_texts(part)]
    return [value] if isinstance(value, str) else []


def _is_installed_task(module: str) -> bool:
    packages = {
        entry.module.partition(".")[0]
        for group in (TASKS, adapter_discovery.ENTRY_POINT_GROUP, algorithms.ENTRY_POINT_GROUP)
        for entry in find_entry_points(group)
    }
    own = ("parallax.envs.", "gymnasium.wrappers.")
    return f"{module}.".startswith(own) or module.partition(".")[0] in packages


def require_trust(folder: Path, code: Sequence[str], *, trust: bool) -> None:
    """Show what a folder would run, and request consent; without anything to run, do nothing.

    Raises:
        SpecError: The user does not consent, or there is no terminal to confirm.
    """
    if not code or trust:
        return
    listed = "\n".join(f"    {escape_unprintable(line)}" for line in code)
    name = escape_unprintable(str(folder))
    what = f"{name} names what would run as you, here or on the nodes:\n{listed}"
    if not sys.stdin.isatty():
        raise SpecError(f"{what}\nAdd --trust if you trust the author of the folder.")
    print(what)
    if not confirm_on_terminal("Run it?"):
        raise SpecError("Nothing was started: you did not trust the code that the folder names.")


def request_confirmation(question: str, *, yes: bool) -> bool:
    """Return whether the user confirms a question, with the option `--yes` or on the terminal."""
    if not yes and not sys.stdin.isatty():
        raise SpecError("Without a terminal nothing can be confirmed: add --yes.")
    return yes or confirm_on_terminal(question)


def confirm_on_terminal(question: str) -> bool:
    """Return whether the user confirms a question on the terminal."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
