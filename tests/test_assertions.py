"""Every test checks something: it has an assertion, and not only in loops that may be empty."""

import ast
from pathlib import Path

from sources import parse_files

TESTS = Path(__file__).parent
CHECKS = ("assert", "check_", "raises", "warns", "fail", "iterate_some")
"""Beginnings of the names of functions that fail by themselves; `iterate_some` fails on nothing."""
OF_THE_SAME_LENGTH = ("enumerate", "zip", "sorted", "reversed", "list", "tuple", "product")
OF_NUMBERS = ("range", "linspace", "arange", "geomspace")
MAY_BE_EMPTY = {"test_docs.py": {"test_links_resolve", "test_commands_exist"}}
"""Tests of one page each: that the pages together are not empty is a test of its own."""


def get_called_name(call):
    return getattr(call.func, "attr", None) or getattr(call.func, "id", "")


def list_functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def find_helpers(trees):
    """Return the names of the functions of `tests/` that check something, directly or not."""
    called = {}
    for function in (f for tree in trees.values() for f in list_functions(tree)):
        if not function.name.startswith("test_"):
            nodes = list(ast.walk(function))
            names = {get_called_name(node) for node in nodes if isinstance(node, ast.Call)}
            if any(is_check(node, ()) for node in nodes):
                names.add("assert")
            called.setdefault(function.name, set()).update(names)
    helpers = {"assert"}
    while found := {name for name in called.keys() - helpers if called[name] & helpers}:
        helpers |= found
    return helpers


def is_check(node, helpers):
    if isinstance(node, ast.Call):
        name = get_called_name(node)
        return name.startswith(CHECKS) or name in helpers
    return isinstance(node, ast.Assert | ast.Raise)


def is_never_empty(items, values):
    """Return whether an expression to loop over has an item, as far as the source says so.

    Args:
        items: Expression.
        values: Expressions by the name they were assigned to; names in capitals are constants.
    """
    match items:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(not isinstance(part, ast.Starred) for part in parts)
        case ast.Dict(keys=parts):
            return bool(parts)
        case ast.Constant(value=str(text)):
            return bool(text)
        case ast.Name(id=name):
            known = name in values and is_never_empty(values[name], {})
            return known or name.isupper()
        case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(attr=name):
            return name.isupper()
        case ast.Call(func=ast.Attribute(value=of, attr="items" | "values" | "keys" | "split")):
            return is_never_empty(of, values)
        case ast.Call(args=parts):
            name = get_called_name(items)
            whole = name in OF_THE_SAME_LENGTH and all(is_never_empty(p, values) for p in parts)
            return whole or name in OF_NUMBERS or name == "iterate_some"
    return False


def checks_always(node, helpers, values):
    """Return whether a check stands outside of loops that may be empty."""
    match node:
        case ast.Assert(test=ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() as one])):
            return all(is_never_empty(part.iter, values) for part in one.generators)
        case ast.For(iter=items, body=body):
            inside = is_never_empty(items, values) and body
            return any(checks_always(part, helpers, values) for part in [items, *(inside or [])])
    inside = ast.iter_child_nodes(node)
    return is_check(node, helpers) or any(checks_always(part, helpers, values) for part in inside)


def find_empty_tests(trees):
    """Return the files and names of the tests that may pass without a check."""
    helpers = find_helpers(trees)
    found = []
    for path, tree in trees.items():
        name = path.relative_to(TESTS).as_posix()
        for function in list_functions(tree):
            if function.name.startswith("test_") and path.stem.startswith("test_"):
                values = {
                    target.id: node.value
                    for scope in (*tree.body, *ast.walk(function))
                    for node in [scope]
                    if isinstance(node, ast.Assign)
                    for target in node.targets
                    if isinstance(target, ast.Name)
                }
                if not any(checks_always(part, helpers, values) for part in function.body):
                    found.append((name, function.name))
    return found


def test_every_test_checks_something():
    found = find_empty_tests(parse_files(sorted(TESTS.rglob("*.py"))))
    allowed = [(name, test) for name, tests in MAY_BE_EMPTY.items() for test in tests]
    assert sorted(found) == sorted(allowed)


def test_tests_without_checks_are_found():
    source = """
def test_nothing(): print(1)
def test_loop():
    for item in find(): assert item
def test_all(): assert all(item for item in find())
def test_loop_over_some():
    for item in iterate_some(find()): assert item
def test_constant():
    for item in (1, 2): assert item
def test_helper(): have_checks()
def have_checks(): assert find()
"""
    found = find_empty_tests({TESTS / "test_it.py": ast.parse(source)})
    assert [name for _, name in found] == ["test_nothing", "test_loop", "test_all"]
