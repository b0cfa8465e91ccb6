"""What CleanRL's scripts take when nothing is said on their command line."""

import argparse
import ast
import os
import types
from collections.abc import Mapping
from typing import Any

from adapters.cleanrl.scripts import read_script


class _EmptyCommandLine(argparse.ArgumentParser):
    def parse_args(self) -> argparse.Namespace:  # type: ignore[override]
        return super().parse_args([])


def upstream_defaults(algorithm: str) -> Mapping[str, Any]:
    """Runs the script's own `parse_args`; names are those of its options, without dashes before."""
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
