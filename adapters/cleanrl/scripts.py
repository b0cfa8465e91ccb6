"""CleanRL's scripts: their location, a check of their hashes, and their defaults."""

import argparse
import ast
import hashlib
import importlib.metadata
import os
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parallax.adapters.cleanrl.settings import ALGORITHMS, ScriptKind, is_before_1_2
from parallax.harness.contract.fields import SpecError

INSTALL_COMMAND = "pip install --no-deps --ignore-requires-python cleanrl==1.2.0"

SCRIPTS_BEFORE_1_2: Mapping[str, str] = {
    "ppo_continuous_action.py": "965b9bdb5ac6d066f342f48b2c08e3b751a46ab3bc8cd8c9721c5cdcfd6ab020",
    "ppo.py": "bc30f6a822e570e8c4fd973c738a5a449c2fc95ef9c74fef261062e087a682a9",
    "ppo_atari.py": "b9a71b6c700c0e5fffb3fb06e86ebe15633c623207a106782df3898d92dc4631",
    "td3_continuous_action.py": "d464a156859c82d09d76983ceebd2e56e61980680ac5043ac8b1b1f131e80c3b",
    "sac_continuous_action.py": "31a7f30f0f95155b4cb863bb66f51376429a1a7fff57e8ae5487c77c0d5fb1f3",
    "ddpg_continuous_action.py": "2ba4a125099b52eefab7398841adf596689e1fdafbf27aa7aa55f3c4e6288008",
    "dqn.py": "00be4e239da50de92b4f19cd723beab821e7e8ddade8e4ef91792eb41be96bce",
}
"""The sha256 of each script in cleanrl 1.1.0."""
KINDS: tuple[ScriptKind, ...] = ("continuous", "discrete", "images")


def get_script_file(algorithm: str, kind: ScriptKind = "continuous") -> tuple[str, str]:
    """Return an algorithm's script in the installed cleanrl, and the hash of its bytes."""
    name, digest = ALGORITHMS[algorithm].get_script(kind)
    return name, SCRIPTS_BEFORE_1_2[name] if is_before_1_2() else digest


def get_script_module(algorithm: str, kind: ScriptKind) -> str:
    """Return the dotted name of an algorithm's script, which source changes refer to."""
    return f"cleanrl.{Path(get_script_file(algorithm, kind)[0]).stem}"


def check_installed() -> None:
    """Look for the scripts of cleanrl 1.2.0 or 1.1.0.

    Raises:
        SpecError: A script is missing or is not the one that was tested.
    """
    # Once for all scripts: a look at the installed packages takes a millisecond, and a study checks
    # the installation for each of its runs.
    folder, is_old = _find_package_folder(), is_before_1_2()
    scripts = [ALGORITHMS[name].get_script(kind) for name in ALGORITHMS for kind in KINDS]
    for name, digest in dict.fromkeys(scripts):
        _read_tested_script(folder / name, SCRIPTS_BEFORE_1_2[name] if is_old else digest)


def read_script(algorithm: str, kind: ScriptKind = "continuous") -> tuple[Path, str]:
    """Return the path and source of an algorithm's script.

    Raises:
        SpecError: The wheel is missing, or the script is not the one that was tested.
    """
    name, expected = get_script_file(algorithm, kind)
    path = _find_package_folder() / name
    return path, _read_tested_script(path, expected)


def _read_tested_script(path: Path, expected: str) -> str:
    if not path.is_file():
        raise SpecError(f"framework=cleanrl needs its script {path.name}. Run: {INSTALL_COMMAND}")
    content = path.read_bytes()
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise SpecError(
            f"framework=cleanrl: {path.name} is not the script of cleanrl's wheel "
            f"(sha256 {actual[:12]}..., expected {expected[:12]}...). Run: {INSTALL_COMMAND}"
        )
    return content.decode()


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
    """Run the script's own `parse_args`; names are its options without leading dashes."""
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
