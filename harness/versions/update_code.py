"""Digests of a release's update code, to find releases between which it did not change."""

import ast
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from parallax.harness.contract.versions import VersionRange

_Body = TypeVar("_Body", ast.Module, ast.ClassDef, ast.FunctionDef)


def compute_update_digests(supported: VersionRange, packages: Path) -> Mapping[str, str]:
    """Return a digest of each algorithm's update code, whatever its comments and types.

    Args:
        supported: Names the modules of each algorithm.
        packages: Folder that the release is installed in.
    """
    return {
        algorithm: _digest_modules(modules, packages)
        for algorithm, modules in supported.update_modules.items()
    }


def _digest_modules(modules: tuple[str, ...], packages: Path) -> str:
    digest = hashlib.sha256()
    for module in modules:
        path = packages / Path(*module.split(".")).with_suffix(".py")
        digest.update(module.encode())
        if path.is_file():  # a module may be younger than the release
            digest.update(normalize_source(path.read_text()).encode())
    return digest.hexdigest()[:12]


def normalize_source(text: str) -> str:
    """Return source without what no update depends on.

    That is docstrings, comments, types, imports, and CleanRL's functions of the command line.
    """
    return ast.unparse(ast.fix_missing_locations(_MeaninglessPartRemover().visit(ast.parse(text))))


class _MeaninglessPartRemover(ast.NodeTransformer):
    def _remove_docstring(self, node: _Body) -> _Body:
        self.generic_visit(node)
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:]
        node.body = node.body or [ast.Pass()]
        return node

    def visit_Module(self, node: ast.Module) -> ast.Module:
        return self._remove_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return self._remove_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef | None:
        if node.name == "parse_args":
            return None
        node.returns = None
        return self._remove_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | None:
        return ast.Assign([node.target], node.value) if node.value else None

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None
