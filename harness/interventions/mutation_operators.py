"""Mutation operators: small faults that a programmer could make, found in the syntax tree.

Each operator looks at one node of the tree and returns the characters to replace. Nothing here
depends on a framework; `mutants` chooses the code to mutate.
"""

import ast
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence


@dataclasses.dataclass(frozen=True, order=True)
class SourceEdit:
    """Replacement of a range of characters."""

    start: int
    end: int
    operator: str
    text: str


class ParsedSource:
    """A file's text, its syntax tree, and the positions of nodes."""

    def __init__(self, text: str) -> None:
        """Parse the text.

        Raises:
            SyntaxError: The text is not valid Python.
        """
        self.text, self.tree = text, ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self.names = frozenset(
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute | ast.Name)
        )

    def find_span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the index of a node's first character and the index after its last."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self._get_offset(node.lineno, node.col_offset),
            self._get_offset(node.end_lineno, node.end_col_offset),
        )

    def get_text(self, node: ast.expr | ast.stmt) -> str:
        """Return a node's text."""
        start, end = self.find_span(node)
        return self.text[start:end]

    def get_line_number(self, at: int) -> int:
        """Return the number of the line with a character, from 1."""
        return next(number for number, start in enumerate(self._starts[1:], 1) if at < start)

    def list_names_bound_before(self, line: int) -> set[str]:
        """Return the names that are assigned somewhere above a line."""
        return {
            node.id
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            if node.lineno < line
        }

    def find_lines(self, first: int, last: int) -> tuple[int, int]:
        """Return the indices of the start of line `first` and the end of line `last`, from 1."""
        return self._starts[first - 1], self._starts[last]

    def _get_offset(self, line: int, column: int) -> int:
        # `ast` counts columns in bytes of UTF-8.
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def generate_edits(
    source: ParsedSource, body: Sequence[ast.stmt], bound: Collection[str] = ()
) -> list[SourceEdit]:
    """Return every edit that any operator makes in statements, in the order of the text.

    Args:
        source: Source of the statements.
        body: Consecutive statements to mutate.
        bound: Names that have a value before the statements, such as a function's arguments.
    """
    found: set[SourceEdit] = set()
    known = set(bound)
    for statement in _iterate_statements(body):
        if not _is_report(statement):
            for node in _iterate_own_nodes(statement):
                for name, operator in MUTATION_OPERATORS.items():
                    for start, end, text in operator(node, source, known):
                        if source.text[start:end] != text:
                            found.add(SourceEdit(start, end, name, text))
        known |= _list_bound_names(statement)
    return sorted(found)


def _iterate_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all statements, outer first; bodies of `if`s that only report errors are left out."""
    for statement in body:
        if isinstance(statement, ast.If) and all(map(_is_error_report, statement.body)):
            yield from _iterate_statements(statement.orelse)
            continue
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from _iterate_statements(getattr(statement, field, []))


def _iterate_own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the statement and those of its nodes that are in no nested statement."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.stmt | ast.arguments)
        ]


_REPORTING_NAMES = ("logger", "writer", "print", "append", "TraceLogger", "warn", "_clear_weakrefs")


def _is_report(statement: ast.stmt) -> bool:
    """Return whether a statement only reports, documents, checks or stores results."""
    if isinstance(statement, ast.Assert | ast.Raise | ast.Import | ast.ImportFrom | ast.Pass):
        return True
    if not isinstance(statement, ast.Expr):
        return False
    if not isinstance(statement.value, ast.Call):
        return True
    names = {n.id for n in ast.walk(statement.value.func) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(statement.value.func) if isinstance(n, ast.Attribute)}
    return bool(names & set(_REPORTING_NAMES))


def _is_error_report(statement: ast.stmt) -> bool:
    return _is_report(statement) and not isinstance(statement, ast.Pass)


def _list_bound_names(statement: ast.stmt) -> set[str]:
    return {
        node.id
        for node in _iterate_own_nodes(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


EditIterator = Iterator[tuple[int, int, str]]
MutationOperator = Callable[[ast.AST, ParsedSource, Collection[str]], EditIterator]

_OPPOSITES = {
    **{"min": "max", "minimum": "maximum", "amin": "amax", "argmin": "argmax"},
    "clamp_min": "clamp_max",
}
_OPPOSITES |= {other: one for one, other in _OPPOSITES.items()}


def _swap_min_max(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    if isinstance(node, ast.Call) and (name := _get_name(node.func)) in _OPPOSITES:
        _, end = source.find_span(node.func)
        yield end - len(name), end, _OPPOSITES[name]


def _flip_sign(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not _is_number(operand, int):
            start, end = source.find_span(node)
            yield start, end, f"({source.get_text(operand)})"
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            if not any(_is_sequence(side) for side in (left, right)):
                yield from _swap_sign(source, source.find_span(left)[1], source.find_span(right)[0])
        case ast.AugAssign(op=ast.Add() | ast.Sub(), target=target, value=value):
            if not _is_sequence(value):
                yield from _swap_sign(
                    source, source.find_span(target)[1], source.find_span(value)[0]
                )


def _swap_sign(source: ParsedSource, start: int, end: int) -> EditIterator:
    between = source.text[start:end]
    for sign, other in (("+", "-"), ("-", "+")):
        if between.count(sign) == 1 and other not in between:
            at = start + between.index(sign)
            yield at, at + 1, other


def _drop_detach(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    match node:
        case ast.Call(func=ast.Attribute(attr="detach", value=value), args=[]):
            start, end = source.find_span(node)
            yield start, end, source.get_text(value)
        case ast.Call(func=ast.Attribute(attr="no_grad")):
            _, end = source.find_span(node.func)
            yield end - len("no_grad"), end, "enable_grad"


def _drop_zero_grad(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="zero_grad"))):
            yield *source.find_span(node), "pass"


_ARRAY_MODULES = ("th", "torch", "np", "F", "nn")


def _drop_clamp(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="clip_grad_norm_"))):
            yield *source.find_span(node), "pass"
        case ast.Call(func=ast.Attribute(attr=name, value=value), args=args) if (
            name in _CLAMP_NAMES
        ):
            start, end = source.find_span(node)
            if not (isinstance(value, ast.Name) and value.id in _ARRAY_MODULES):
                yield start, end, source.get_text(value)
            elif args:
                yield start, end, f"({source.get_text(args[0])})"


_CLAMP_NAMES = ("clamp", "clamp_", "clip", "clamp_min", "clamp_max")
_MASK_WORDS = ("done", "terminat", "terminal", "mask", "truncat", "timeout")


def _drop_mask(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            start, end = source.find_span(node)
            for side, other in ((left, right), (right, left)):
                if _is_mask(side):
                    yield start, end, f"({source.get_text(other)})"
        case ast.AugAssign(op=ast.Mult(), value=value) if _is_mask(value):
            yield *source.find_span(node), "pass"


def _is_mask(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return False
    names = [_get_name(part) for part in ast.walk(node)]
    return any(word in name for name in names for word in _MASK_WORDS)


_NEIGHBOURS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _off_by_one(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _NEIGHBOURS:
            start, end = source.find_span(left)[1], source.find_span(right)[0]
            between = source.text[start:end]
            yield start, end, between.replace(_SIGNS[type(op)], _NEIGHBOURS[type(op)])
        case ast.BinOp(op=ast.Mod(), left=left) if not _is_sequence(left):
            yield *source.find_span(left), f"({source.get_text(left)} + 1)"
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            for side in (left, right):
                if _is_number(side, int):
                    yield *source.find_span(side), str(ast.literal_eval(side) + 1)
        case ast.AugAssign(op=ast.Add() | ast.Sub(), value=value) if _is_number(value, int):
            yield *source.find_span(value), str(ast.literal_eval(value) + 1)
        case ast.Call(func=ast.Name(id="range"), args=[*_, last]):
            yield *source.find_span(last), f"{source.get_text(last)} + 1"
        case ast.Subscript(slice=index, ctx=ast.Load()) if _is_number(index, int):
            yield *source.find_span(index), str(ast.literal_eval(index) + 1)


def _scale_constant(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.Call | ast.UnaryOp):
        for part in _list_operands(node):
            if _is_number(part, float) and ast.literal_eval(part):
                yield *source.find_span(part), repr(2 * ast.literal_eval(part))
            elif _is_setting(part):
                yield *source.find_span(part), f"(0.5 * {source.get_text(part)})"


def _list_operands(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.AugAssign(value=value) | ast.UnaryOp(operand=value):
            return [value]
        case ast.Call(args=args):
            return [
                part
                for part in args
                if _is_number(part, float) or _get_name(part) in _SETTING_NAMES
            ]
    return []


_SETTING_NAMES = (
    *("gamma", "tau", "max_grad_norm", "noise_clip", "policy_noise", "clip_coef", "gae_lambda"),
    *("target_policy_noise", "target_noise_clip", "eps_clip"),
)


def _is_setting(node: ast.expr) -> bool:
    owner = node.value if isinstance(node, ast.Attribute) else None
    named = isinstance(owner, ast.Name) and owner.id in ("self", "args")
    return named or (isinstance(node, ast.Name) and node.id in _SETTING_NAMES)


def _negate_condition(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield *source.find_span(node.test), f"not ({source.get_text(node.test)})"


_TARGET_NAME_PARTS = ("target_", "_target", "_old")


def _swap_networks(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    """Swap online and target network, where the file has a network of each name."""
    if not (isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load)):
        return
    name = _get_name(node)
    if name in bound and any(mark in name for mark in _TARGET_NAME_PARTS) and _is_value(name):
        return
    candidates = [name.replace(mark, "") for mark in _TARGET_NAME_PARTS if mark in name]
    if name == "target_network":
        candidates.append("q_network")
    if not candidates and not _is_value(name):
        candidates = [f"target_{name}", f"{name}_target", f"{name}_old"]
        candidates += ["target_network"] if name == "q_network" else []
    other = next((c for c in candidates if c in source.names and c != name), None)
    if other and not _is_value(other):
        _, end = source.find_span(node)
        yield end - len(name), end, other


def _is_value(name: str) -> bool:
    return any(word in name for word in ("value", "entropy", "max", "kl", "_q", "log", "loss"))


def _drop_statement(node: ast.AST, source: ParsedSource, bound: Collection[str]) -> EditIterator:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="zero_grad" | "clip_grad_norm_"))):
            return
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield *source.find_span(node), "pass"
        case ast.Assign(targets=targets) if all(_has_earlier_value(t, bound) for t in targets):
            yield *source.find_span(node), "pass"


def _has_earlier_value(target: ast.expr, bound: Collection[str]) -> bool:
    """Return whether an assignment's target already has a value before it."""
    if isinstance(target, ast.Tuple):
        return all(_has_earlier_value(part, bound) for part in target.elts)
    return not isinstance(target, ast.Name) or target.id in bound or target.id == "_"


def _get_name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _is_number(node: ast.AST, kind: type) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is kind


def _is_sequence(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    is_list = isinstance(node, ast.Call) and _get_name(node.func) in ("list", "tuple")
    return is_list or isinstance(node, ast.List | ast.Tuple | ast.ListComp | ast.JoinedStr)


MUTATION_OPERATORS: Mapping[str, MutationOperator] = {
    "swap-min-max": _swap_min_max,
    "flip-sign": _flip_sign,
    "drop-detach": _drop_detach,
    "drop-zero-grad": _drop_zero_grad,
    "drop-clamp": _drop_clamp,
    "drop-mask": _drop_mask,
    "off-by-one": _off_by_one,
    "scale-constant": _scale_constant,
    "negate-condition": _negate_condition,
    "swap-networks": _swap_networks,
    "drop-statement": _drop_statement,
}
"""Operators by name."""

OPERATOR_DESCRIPTIONS: Mapping[str, str] = {
    "swap-min-max": "swaps minimum and maximum",
    "flip-sign": "flips a sign",
    "drop-detach": "does not stop a gradient",
    "drop-zero-grad": "does not reset gradients",
    "drop-clamp": "does not clip",
    "drop-mask": "does not mask the end of an episode",
    "off-by-one": "is off by one",
    "scale-constant": "scales a constant",
    "negate-condition": "negates a condition",
    "swap-networks": "swaps the online and the target network",
    "drop-statement": "removes a statement",
}
"""What a mutant of each operator does."""
