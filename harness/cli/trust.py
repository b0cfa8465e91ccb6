"""Folders of somebody else's name code; nobody's machine runs it before they have seen it."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec
from harness.record.files import visible


def code_of_specs(specs: Iterable[RunSpec]) -> list[str]:
    """What runs because a recorded run says so, a line each: interpreters and modules of tasks.

    Not this interpreter and not this project's own tasks: they are here without the folder.
    """
    lines = []
    for spec in specs:
        if spec.python not in (None, sys.executable):
            lines.append(f"interpreter: {spec.python}")
        module, colon, _ = spec.env.partition(":")
        if colon and not module.startswith("envs."):
            lines.append(f"import of the module {module}: env={spec.env}")
    return list(dict.fromkeys(lines))


def require_trust(folder: Path, code: Sequence[str], *, trust: bool) -> None:
    """Shows what would run because a folder says so, and asks; nothing is asked for nothing.

    Args:
        folder: Where it is named.
        code: What would run, a line each.
        trust: Whether the user has said beforehand that it may.

    Raises:
        SpecError: The user does not want it, or nobody can be asked.
    """
    if not code or trust:
        return
    listed = "\n".join(f"    {visible(line)}" for line in code)
    what = f"{visible(str(folder))} names what would run as you, here or on the nodes:\n{listed}"
    if not sys.stdin.isatty():
        raise SpecError(f"{what}\nAdd --trust if whoever made the folder may run it.")
    print(what)
    if not says_yes("Run it?"):
        raise SpecError("Nothing was started: what the folder names was not trusted.")


def says_yes(question: str) -> bool:
    """Whether somebody at the terminal says so."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
