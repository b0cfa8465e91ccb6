"""CleanRL's scripts: where they are, whether they are those known here, and their defaults."""

import argparse
import ast
import hashlib
import importlib.metadata
import os
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parallax.adapters.cleanrl.settings import ALGORITHMS, ScriptKind
from parallax.adapters.cleanrl.versions import SCRIPTS_BEFORE_1_2, is_before_1_2
from parallax.harness.contract.fields import SpecError

INSTALL_COMMAND = "pip install --no-deps --ignore-requires-python cleanrl==1.2.0"


KINDS: tuple[ScriptKind, ...] = ("continuous", "discrete", "images")


def get_script_file(algorithm: str, kind: ScriptKind = "continuous") -> tuple[str, str]:
    """Name of an algorithm's script in the installed cleanrl, and the hash of its bytes.

    Args:
        algorithm: Name of the algorithm.
        kind: What it is for; PPO has a script for each kind.
    """
    name, digest = ALGORITHMS[algorithm].get_script(kind)
    return name, SCRIPTS_BEFORE_1_2[name] if is_before_1_2() else digest


def get_script_module(algorithm: str, kind: ScriptKind) -> str:
    """Dotted name of an algorithm's script, by which changes of its source name it."""
    return f"cleanrl.{Path(get_script_file(algorithm, kind)[0]).stem}"


def check_installed() -> None:
    """Look for the scripts of cleanrl 1.2.0 or 1.1.0.

    Raises:
        SpecError: A script is missing or is not the one that was tested.
    """
    for algorithm in ALGORITHMS:
        for kind in KINDS:
            read_script(algorithm, kind)


def read_script(algorithm: str, kind: ScriptKind = "continuous") -> tuple[Path, str]:
    """Path and source of an algorithm's script.

    Raises:
        SpecError: The wheel is missing, or the script is not the one that was tested.
    """
    name, expected = get_script_file(algorithm, kind)
    path = _find_package_folder() / name
    if not path.is_file():
        raise SpecError(f"framework=cleanrl needs its script {name}. Run: {INSTALL_COMMAND}")
    content = path.read_bytes()
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise SpecError(
            f"framework=cleanrl: {name} is not the script of cleanrl's wheel "
            f"(sha256 {actual[:12]}..., expected {expected[:12]}...). Run: {INSTALL_COMMAND}"
        )
    return path, content.decode()


def _find_package_folder() -> Path:
    # The package has no __init__.py and must not be imported: its scripts pull in old packages.
    try:
        distribution = importlib.metadata.distribution("cleanrl")
    except importlib.metadata.PackageNotFoundError:
        raise SpecError(
            f"framework=cleanrl needs the wheel cleanrl 1.2.0. Run: {INSTALL_COMMAND}"
        ) from None
    return Path(str(distribution.locate_file("cleanrl")))


class _EmptyCommandLine(argparse.ArgumentParser):
    def parse_args(self) -> argparse.Namespace:  # type: ignore[override]
        return super().parse_args([])


def read_upstream_defaults(algorithm: str) -> Mapping[str, Any]:
    """Run the script's own `parse_args`; names are those of its options, without dashes before."""
    path, source = read_script(algorithm)
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    parser = [node for node in functions if node.name == "parse_args"]
    names: dict[str, Any] = {
        "argparse": types.SimpleNamespace(ArgumentParser=_EmptyCommandLine),
        "os": os,
        "strtobool": lambda text: text.lower() in ("y", "yes", "t", "true", "on", "1"),
        "__file__": str(path),
    }
    exec(compile(ast.Module(list(parser), []), str(path), "exec"), names)
    arguments = vars(names["parse_args"]())
    return {name.replace("_", "-"): value for name, value in arguments.items()}
