"""`python -m analysis RESULTS` compares; `python -m analysis COMMAND ...` does something else.

Commands are the modules of `analysis.format_commands` that have a function `run`. Only the module of the
chosen one is imported: all of them together take seconds.
"""

import argparse
import ast
import functools
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

DEFAULT_ANALYSIS_COMMAND = "compare"
_COMMANDS_FOLDER = Path(__file__).parent / "commands"
_ANALYSIS_HELP = """\
usage: python -m analysis [COMMAND] RESULTS ...

Looks at the results of runs. {default} is what runs where no command is named;
python -m analysis COMMAND --help tells what a command takes.

Commands:
{commands}"""


def run_analysis_command(
    arguments: Sequence[str] | None = None, program: str = "python -m analysis"
) -> int:
    """Runs one command.

    Args:
        arguments: The command line; that of the process if None. Where its first word is no
            command, `compare` is run.
        program: What stands before the command in help and messages.

    Returns:
        0, or 2 if the command could not do its work, with one message on standard error.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_format_analysis_help())
        return 0 if words else 2
    if words[0] in list_analysis_commands():
        name, words = words[0], words[1:]
        program = f"{program} {name}"
    else:
        name = DEFAULT_ANALYSIS_COMMAND
    module = importlib.import_module(f"parallax.analysis.commands.{name}")
    shell = importlib.import_module("parallax.analysis.commands.common")
    description = (module.__doc__ or "").strip()
    parser = argparse.ArgumentParser(prog=program, description=description)
    module.add_arguments(parser)
    try:
        return int(module.run(parser.parse_args(words)))
    except shell.CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


@functools.cache
def list_analysis_commands() -> Mapping[str, str]:
    """What each command does, by its name, sorted; nothing is imported."""
    trees = {
        path.stem: ast.parse(path.read_text("utf-8")) for path in _COMMANDS_FOLDER.glob("*.py")
    }
    return {
        name: (ast.get_docstring(tree) or "").partition("\n")[0]
        for name, tree in sorted(trees.items())
        if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body)
    }


def _format_analysis_help() -> str:
    width = max(map(len, list_analysis_commands()))
    lines = [f"  {name:{width}}  {summary}" for name, summary in list_analysis_commands().items()]
    return _ANALYSIS_HELP.format(default=DEFAULT_ANALYSIS_COMMAND, format_commands="\n".join(lines))


if __name__ == "__main__":
    sys.exit(run_analysis_command())
