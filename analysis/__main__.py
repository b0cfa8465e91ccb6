"""`python -m analysis RESULTS` compares; `python -m analysis COMMAND ...` does something else.

Commands are the modules of `analysis.commands` that have a function `run`.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.commands.shell import CommandError

DEFAULT = "compare"
_FOLDER = Path(__file__).parent / "commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: The command line; that of the process if None. Where its first word is no
            command, `compare` is run.

    Returns:
        0, or 2 if the command could not do its work, with one message on standard error.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in commands():
        name, words = words[0], words[1:]
        program = f"python -m analysis {name}"
    else:
        name, program = DEFAULT, "python -m analysis"
    module = importlib.import_module(f"analysis.commands.{name}")
    parser = argparse.ArgumentParser(
        prog=program,
        description=(module.__doc__ or "").strip(),
        epilog=f"Commands: {', '.join(commands())} (default: {DEFAULT}).",
    )
    module.add_arguments(parser)
    try:
        return int(module.run(parser.parse_args(words)))
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def commands() -> list[str]:
    """The names of all commands, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.py") if path.stem not in _HELPERS)


_HELPERS = {"__init__", "shell", "verdict_options"}


if __name__ == "__main__":
    sys.exit(main())
