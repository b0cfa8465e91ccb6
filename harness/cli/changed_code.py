"""Code that differs between two states of a package, and which of it changes an answer.

A `CodeChange` is a block of changed lines. To find the ones behind a changed answer, the later
state is measured again without each of them: if the answer is as before then, the block is its
cause. This needs no knowledge of what the code does.
"""

import ast
import dataclasses
import difflib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.results import ProbeAnswer, ProbeReport, ProbeResult
from parallax.harness.probes.runner import MAX_PROCESSES

MAX_PRINTED_LINES = 40
MAX_MEASURED_CHANGES, MAX_JOINT_CHANGES = 40, 8
"""Most changes that are left out one by one, and together: each trial needs a new process."""


@dataclasses.dataclass(frozen=True)
class ChangedBlock:
    """Lines of the text before and of the text after that replaced them; ends are exclusive."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@dataclasses.dataclass(frozen=True)
class CodeChange:
    """Changed lines of one file. Without them, the file is still valid Python.

    Attributes:
        file: Path below the package.
        blocks: The changed lines.
        old: Lines of the file before; empty if it did not exist.
        new: Lines of the file after; empty if it does not exist any more.
        function: Qualified name of the function or class around the first line, or "module".
    """

    file: str
    blocks: tuple[ChangedBlock, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    function: str

    @property
    def title(self) -> str:
        """File, first line after the change, and function."""
        return f"{self.file}, line {self.blocks[0].new_start + 1}, {self.function}"

    @property
    def lines(self) -> list[str]:
        """Removed and added lines, each with its sign."""
        return [
            f"{sign} {line.strip()}"
            for block in self.blocks
            for sign, text in (
                ("-", self.old[block.old_start : block.old_end]),
                ("+", self.new[block.new_start : block.new_end]),
            )
            for line in text
            if line.strip()
        ]


def list_code_changes(before: Path, after: Path) -> list[CodeChange]:
    """Return the changed lines between two folders, file by file.

    Lines that only change comments, docstrings or the form of the code are left out.
    """
    files = {p.relative_to(top).as_posix() for top in (before, after) for p in top.rglob("*.py")}
    return [
        change
        for file in sorted(files)
        for change in _compare_files(file, *(_read_lines(top / file) for top in (before, after)))
    ]


def _read_lines(path: Path) -> tuple[str, ...]:
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    return tuple(text.splitlines(keepends=True))


def _compare_files(file: str, old: tuple[str, ...], new: tuple[str, ...]) -> list[CodeChange]:
    before, after = _read_code(old), _read_code(new)
    if old == new or (before == after and after is not None):
        return []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    blocks = [ChangedBlock(*places) for tag, *places in matcher.get_opcodes() if tag != "equal"]
    return [
        CodeChange(file, group, old, new, _find_function(new, group[0].new_start))
        for group in _group_blocks(blocks, old, new)
        if after is None or _read_code(_restore_blocks(group, old, new)) != after
    ]


def _group_blocks(
    blocks: Sequence[ChangedBlock], old: Sequence[str], new: Sequence[str]
) -> list[tuple[ChangedBlock, ...]]:
    # Blocks that are valid Python only together, such as both brackets, are one change.
    groups: list[tuple[ChangedBlock, ...]] = []
    pending: tuple[ChangedBlock, ...] = ()
    for block in blocks:
        pending += (block,)
        if _read_code(_restore_blocks(pending, old, new)) is not None:
            groups.append(pending)
            pending = ()
    if pending:
        groups[-1:] = [(*(groups[-1] if groups else ()), *pending)]
    return groups


def _restore_blocks(
    blocks: Sequence[ChangedBlock], old: Sequence[str], new: Sequence[str]
) -> tuple[str, ...]:
    lines = list(new)
    for block in sorted(blocks, key=lambda block: -block.new_start):
        lines[block.new_start : block.new_end] = old[block.old_start : block.old_end]
    return tuple(lines)


def _read_code(lines: Sequence[str]) -> str | None:
    # The code without comments, docstrings and form; None if it is not valid Python.
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            texts = [
                e for e in body if isinstance(e, ast.Expr) and isinstance(e.value, ast.Constant)
            ]
            node.body = [each for each in body if each not in texts]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _find_function(lines: Sequence[str], line: int) -> str:
    try:
        owner: ast.AST | None = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return "module"
    names: list[str] = []
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    while owner is not None:
        inner = (n for n in ast.iter_child_nodes(owner) if isinstance(n, kinds))
        owner = next((n for n in inner if n.lineno <= line + 1 <= (n.end_lineno or 0)), None)
        names += [owner.name] if owner is not None else []
    return ".".join(names) or "module"


def format_code_changes(changes: Sequence[CodeChange], first: str = "") -> list[str]:
    """Return changes with their lines, at most 40; those of files that `first` names lead."""
    lines: list[str] = []
    ordered = sorted(changes, key=lambda change: change.file not in first)
    for number, change in enumerate(ordered):
        if lines and len(lines) + len(change.lines) > MAX_PRINTED_LINES:
            return [*lines, f"{len(changes) - number} further changes of {len(changes)}"]
        lines += [change.title, *(f"  {line}" for line in change.lines)]
    return lines


def write_without(changes: Sequence[CodeChange], package: Path, folder: Path) -> Path:
    """Copy a package into a folder, restore the lines that some changes replaced, return it."""
    shutil.copytree(
        package, folder / package.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    for file, of_file in itertools.groupby(changes, key=lambda change: change.file):
        first, *others = of_file
        blocks = [*first.blocks, *itertools.chain(*(other.blocks for other in others))]
        path = folder / package.name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # it may be a link
        path.write_text("".join(_restore_blocks(blocks, first.old, first.new)), "utf-8")
    return folder


ChangeSet = tuple[CodeChange, ...]
"""Changes that are left out together, in order."""
UNMOVED, MOVED, RESTORED = range(3)
"""Effects of leaving changes out on a changed answer; `RESTORED`: it is as before all changes."""


def find_causes(
    answers: Mapping[str, tuple[ProbeAnswer, ProbeAnswer]],
    package: Path,
    changes: Sequence[CodeChange],
    measure: Callable[[Path], ProbeReport],
) -> dict[str, tuple[ChangeSet, ...]]:
    """Return the changes without which an answer is as before, by probe.

    Changes are left out file by file, then one by one in files that matter. Where no single one
    brings the earlier answer back, those that act on the answer are left out together, and then all
    but one of them, so that only those remain that it takes.

    Args:
        answers: Changed answers of the earlier and the later state, by probe.
        package: Package of the later state, which `changes` led to.
        changes: Changes from the earlier to the later state, file by file.
        measure: Measures the probes of `answers` in a folder; called by several threads.

    Returns:
        For each probe, single changes each of which brings the earlier answer back; or one set that
        does; or single changes without which the answer is at least another one; or nothing.
    """
    if len(changes) == 1:  # without it, the code is that of the earlier state
        return dict.fromkeys(answers, ((changes[0],),))
    trials: dict[ChangeSet, Mapping[str, int]] = {}

    def measure_effects(without: ChangeSet) -> Mapping[str, int]:
        # An answer that could not be measured without these changes is missing.
        with tempfile.TemporaryDirectory() as folder:
            report = measure(write_without(without, package, Path(folder)))
        return {
            result.probe: _find_effect(result, *answers[result.probe], answer)
            for result in report.results
            for answer in result.answers.values()
            if not answer.failed
        }

    def leave_out(sets: Iterable[ChangeSet]) -> None:
        new = [each for each in dict.fromkeys(sets) if each not in trials]
        trials.update(zip(new, pool.map(measure_effects, new), strict=True))

    files = [tuple(g) for _, g in itertools.groupby(changes, key=lambda change: change.file)]
    with ThreadPoolExecutor(MAX_PROCESSES) as pool:
        leave_out(files)
        single = [
            (change,)
            for of_file, effects in trials.items()
            if any(effects.values()) or len(effects) < len(answers)
            for change in of_file
        ]
        if len(single) <= MAX_MEASURED_CHANGES:
            leave_out(single)
        joint = (_join_acting_changes(probe, changes, trials) for probe in answers)
        leave_out(each for each in joint if 1 < len(each) <= MAX_JOINT_CHANGES)
        smallest = [min(_list_restoring(probe, trials), key=len, default=()) for probe in answers]
        leave_out(
            tuple(change for change in each if change != needed)
            for each in smallest
            if 1 < len(each) <= MAX_JOINT_CHANGES
            for needed in each
        )
    return {probe: _choose_causes(probe, changes, trials) for probe in answers}


def _find_effect(
    result: ProbeResult, before: ProbeAnswer, after: ProbeAnswer, without: ProbeAnswer
) -> int:
    if not describe_change(result, after, without):
        return UNMOVED
    return MOVED if describe_change(result, before, without) else RESTORED


def _list_restoring(probe: str, trials: Mapping[ChangeSet, Mapping[str, int]]) -> list[ChangeSet]:
    return [each for each, effects in trials.items() if effects.get(probe) == RESTORED]


def _join_acting_changes(
    probe: str, changes: Sequence[CodeChange], trials: Mapping[ChangeSet, Mapping[str, int]]
) -> ChangeSet:
    return tuple(c for c in changes if trials.get((c,), {}).get(probe, UNMOVED) != UNMOVED)


def _choose_causes(
    probe: str, changes: Sequence[CodeChange], trials: Mapping[ChangeSet, Mapping[str, int]]
) -> tuple[ChangeSet, ...]:
    restoring = _list_restoring(probe, trials)
    if alone := tuple(each for each in restoring if len(each) == 1):
        return alone
    if not restoring:
        return tuple((change,) for change in _join_acting_changes(probe, changes, trials))
    # A change that all of these leave out is needed; what some keep is not.
    common = set(restoring[0]).intersection(*restoring[1:])
    return (tuple(c for c in changes if c in common) or min(restoring, key=len),)


def format_causes(
    answers: Mapping[str, tuple[ChangeSet, ...]], changes: Sequence[CodeChange]
) -> list[str]:
    """Return the changed lines behind answers, given the causes of each by the answer's line."""
    by_causes: dict[tuple[ChangeSet, ...], list[str]] = {}
    for line, causes in answers.items():
        by_causes.setdefault(causes, []).append(line)
    lines: list[str] = []
    for causes in sorted(by_causes, key=lambda each: not each):
        of_all = list(dict.fromkeys(itertools.chain(*causes)))
        if len(of_all) != 1:
            word = "Only together" if len(causes) == 1 else "Each of these"
            lines.append(f"{word if of_all else 'Not explained by any change'}:")
        lines += format_code_changes(of_all)
        lines += [f"    {line}" for line in by_causes[causes]]
    acting = set(itertools.chain(*itertools.chain(*by_causes)))
    if idle := len(changes) - len(acting):
        lines.append(f"{idle} of {len(changes)} changes are behind none of these answers.")
    return lines
