"""The `parallax` command: the table of all commands, and the one driver that runs them.

A command is a module with `add_arguments(parser)` and `run(options)`, which returns an exit code. A
module with several commands has `add_NAME_arguments` and `run_NAME` for each of them. Help is
printed from the table: only the module of the command that runs is imported. If a name,
option or file cannot be used, a command raises `SpecError` with the remedy; the driver prints it.
"""

import dataclasses
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import argparse
    from types import ModuleType


@dataclasses.dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        words: Words to type after `parallax`: a name, or a group and a name.
        module: Module that implements it; after a colon, the command of that module.
        summary: One line of help.
    """

    words: str
    module: str
    summary: str

    @property
    def group(self) -> str:
        """Group of the command; empty for commands at the top."""
        return self.words.rpartition(" ")[0]

    @property
    def name(self) -> str:
        """Its name in the group."""
        return self.words.rpartition(" ")[2]

    @property
    def takes_overrides(self) -> bool:
        """Return whether its arguments are Hydra overrides, which argparse cannot parse."""
        return self.words == "train"


_CLI = "parallax.harness.cli"
_ANALYSIS = "parallax.analysis.commands"
_SLURM = "parallax.slurm.commands"
COMMANDS = (
    Command("train", f"{_CLI}.train", "Trains one run, or with --multirun a sweep of runs"),
    Command(
        "compare",
        f"{_ANALYSIS}.compare",
        "Prints each framework's score with intervals, and draws learning curves",
    ),
    Command(
        "report",
        f"{_ANALYSIS}.report",
        "Writes one HTML page about a study: verdicts, figures, tables and runs",
    ),
    Command(
        "view",
        f"{_ANALYSIS}.view",
        "Shows all studies of a folder in the browser: filter, reports, runs side by side",
    ),
    Command(
        "status", f"{_SLURM}:status", "Counts a study's runs by state and lists incomplete ones"
    ),
    Command(
        "import",
        f"{_CLI}.import_runs",
        "Converts runs of other tools to run folders, so that verdicts compare them",
    ),
    Command(
        "alignment", f"{_CLI}.alignment", "Shows how each framework receives each hyperparameter"
    ),
    Command(
        "probe",
        f"{_CLI}.probe",
        "Feeds every implementation the same data and compares one gradient step with the paper",
    ),
    Command(
        "bugs",
        f"{_CLI}.bugs",
        "Reintroduces bugs of released versions and reports which of them the probes detect",
    ),
    Command(
        "versions",
        f"{_CLI}.versions",
        "Probes several releases of a framework and reports which answers changed, and when",
    ),
    Command(
        "lockstep",
        f"{_CLI}.lockstep",
        "Trains two implementations side by side on identical weights and data, and reports the "
        "first update at which they differ",
    ),
    Command(
        "why",
        f"{_CLI}.why",
        "Explains why two implementations differ: settings, updates, first divergence, returns",
    ),
    Command(
        "triage",
        f"{_CLI}.triage",
        "Tests whether a new version of an implementation learns like the old one: runs probes, "
        "lockstep and trainings",
    ),
    Command(
        "run watch",
        f"{_CLI}.run_watch",
        "Shows curves and findings of a run, or of a study's runs, during training and after it",
    ),
    Command(
        "run reproduce",
        f"{_CLI}.run:reproduce",
        "Trains finished runs again and compares returns and weights bit by bit",
    ),
    Command(
        "run unlock", f"{_CLI}.run:unlock", "Releases a run folder that a dead process still locks"
    ),
    Command(
        "policy evaluate",
        f"{_CLI}.policy:evaluate",
        "Plays episodes with trained policies and prints their returns",
    ),
    Command(
        "policy export",
        f"{_CLI}.policy:export",
        "Saves trained policies in the file format of their framework",
    ),
    Command(
        "policy video",
        f"{_CLI}.policy:video",
        "Records a video of a trained policy, or of several side by side",
    ),
    Command(
        "study verdicts",
        f"{_ANALYSIS}.verdicts:study",
        "Tests reproduction, consistency and ranking, and writes the verdicts as CSV",
    ),
    Command(
        "study figures",
        f"{_ANALYSIS}.verdicts:figures",
        "Draws the figures of a study as PNG and PDF",
    ),
    Command(
        "study plan",
        f"{_CLI}.plan",
        "Estimates how many more seeds are needed and writes the command that trains them",
    ),
    Command(
        "study ablation",
        f"{_ANALYSIS}.questions:ablation",
        "Measures the effect of each intervention on the return, and how much of a gap it explains",
    ),
    Command(
        "study replay", f"{_ANALYSIS}.questions:replay", "Compares the replay strategies of a study"
    ),
    Command(
        "study pack",
        f"{_ANALYSIS}.pack",
        "Writes all runs of a study into one Parquet file, with your own runs merged into it",
    ),
    Command(
        "study publish",
        f"{_ANALYSIS}.publish",
        "Writes a packed study into a repository: page, tables, figures and a README section",
    ),
    Command(
        "study thesis",
        f"{_ANALYSIS}.verdicts:thesis",
        "Re-checks the tables printed in the thesis; needs no runs",
    ),
    Command(
        "intervention list",
        f"{_CLI}.interventions",
        "Lists changes to train a run with: single edits, artificial bugs, user mistakes",
    ),
    Command(
        "mutation test",
        f"{_CLI}.mutation:test",
        "Plays healthy and faulty agents in test scenarios; run before `mutation score`",
    ),
    Command(
        "mutation score",
        f"{_ANALYSIS}.questions:mutation",
        "Reports which injected faults the tests detect",
    ),
    Command(
        "mutation detectors",
        f"{_CLI}.mutation:detectors",
        "Measures which tool (probes, diagnosis, returns, conformance) catches which injected bug",
    ),
    Command("new adapter", f"{_CLI}.new_adapter", "Writes the files of a new framework adapter"),
    Command("new algorithm", f"{_CLI}.new_algorithm", "Writes the files of a new algorithm"),
    Command(
        "new recipe",
        f"{_CLI}.new_recipe",
        "Writes a recipe with the values of RL Baselines3 Zoo's hyperparameter files",
    ),
    Command(
        "slurm resubmit",
        f"{_SLURM}:resubmit",
        "Resubmits all runs of a study that are neither complete nor queued",
    ),
    Command("slurm cancel", f"{_SLURM}:cancel", "Cancels the queued and running jobs of a study"),
)
OLD_COMMANDS = {
    "intervention mutants": "intervention list --kind mutants",
    "intervention user-faults": "intervention list --kind user-faults",
    "run diagnosis": "run watch --findings",
    "run validate": "status --files",
    "study merge": "study pack",
}
"""Old names of commands, which still work."""
GROUPS = {
    "run": "run folders",
    "study": "statistics, figures and files of a study",
    "policy": "trained policies",
    "intervention": "changes that runs can be trained with",
    "mutation": "tests and tools that detect injected faults",
    "new": "files for another framework, algorithm or recipe",
    "slurm": "jobs on a cluster",
}
_OPTION_SYNONYMS = {"--algorithm": "--algorithms", "--framework": "--frameworks"}
_HELP_WIDTH = 96  # columns
_HELP = """\
usage: parallax COMMAND ...

Do implementations of the same reinforcement-learning algorithm agree?

A study in three commands:
  parallax train --multirun study=demo
  parallax compare results/demo
  parallax report results/demo

Commands:
{commands}

Groups of commands:
{groups}

`parallax COMMAND --help` lists the options of a command, `parallax GROUP` its commands."""
_GROUP_HELP = """\
usage: parallax {group} COMMAND ...

{summary}.

Commands:
{commands}

`parallax {group} COMMAND --help` lists the options of a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The command line; `sys.argv[1:]` if None.

    Returns:
        The exit code: 0 for success, 1 where runs failed or answers differ, 2 for bad input, 130
        for Ctrl-C, or the code that the command's help states.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names can be any bytes
    os.environ["MPLBACKEND"] = "agg"  # figures are files, and other backends may be missing
    # Libraries start Python, too (glfw when MuJoCo's tasks are imported, multiprocessing), with
    # `-c`, which would import `ctypes` or another name from the current folder first.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        code = dispatch_command(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does. Python would complain again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def dispatch_command(words: Sequence[str]) -> int:
    """Run the command that the words name, or print the help that they request."""
    if not words or words[0] in ("-h", "--help"):
        print(format_help())
        return 0 if words else 2
    if words[0] == "--version":
        import importlib.metadata

        print(f"parallax {importlib.metadata.version('parallax-drl')}")
        return 0
    if words[0] in ("-sc", "--shell-completion"):
        return complete_command_line(words)
    if words[0] in GROUPS and (len(words) == 1 or words[1] in ("-h", "--help")):
        print(format_group_help(words[0]))
        return 0
    words = replace_old_command(words)
    command = find_command(words)
    if command is None:
        print(f"Error: {_explain_unknown_command(words)}", file=sys.stderr)
        return 2
    return run_command(command, words[len(command.words.split()) :])


def replace_old_command(words: Sequence[str]) -> list[str]:
    """Return a command line with the old name of a command replaced by the current one."""
    for old, new in OLD_COMMANDS.items():
        name = old.split()
        if list(words[: len(name)]) == name:
            return [*new.split(), *words[len(name) :]]
    return list(words)


def find_command(words: Sequence[str]) -> Command | None:
    """Return the command that a command line begins with, or None."""
    for command in COMMANDS:
        name = command.words.split()
        if list(words[: len(name)]) == name:
            return command
    return None


def run_command(command: Command, words: Sequence[str]) -> int:
    """Import a command, parse its words, run it, and turn its errors into one message each."""
    from parallax.harness.contract.fields import SpecError

    path, _, part = command.module.partition(":")
    try:
        module = importlib.import_module(path)  # also reads tables, which may be damaged
        if command.takes_overrides:
            return int(module.run(words))
        run = getattr(module, f"run_{part}" if part else "run")
        words = [_OPTION_SYNONYMS.get(word, word) for word in words]
        return int(run(make_parser(command, module).parse_args(words)))
    except _list_handled_errors() as error:
        return report_error(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None and error.strerror is None:
            raise
        place = f"{error.filename}: " if error.filename is not None else ""
        is_disk_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = " Free some space and run the same command again." if is_disk_full else ""
        return report_error(SpecError(_escape(f"{place}{error.strerror}.{remedy}")))


def report_error(error: BaseException) -> int:
    """Print one message and return the exit code that goes with it."""
    from parallax.harness.contract.fields import RunsFailedError
    from parallax.harness.record.files import escape_lines

    if isinstance(error, KeyboardInterrupt):
        print("Interrupted. Run the same command again to resume.", file=sys.stderr)
        return 130
    is_incomplete = isinstance(error, RunsFailedError)
    lead = "Not complete" if is_incomplete else "Error"
    # Texts of files can hold control characters, and names of files bytes that are not text.
    print(f"{lead}: {escape_lines(str(error))}", file=sys.stderr)
    return 1 if is_incomplete else 2


def make_parser(command: Command, module: "ModuleType | None" = None) -> "argparse.ArgumentParser":
    """Return the parser of a command, with all its options.

    Args:
        command: Any command but `train`, which Hydra parses.
        module: Its module, if it is already imported.
    """
    import argparse
    import difflib
    import textwrap

    from parallax.harness.contract.fields import SpecError

    class CommandParser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            _, _, unknown = message.partition("unrecognized arguments: ")
            known = self._option_string_actions
            close = difflib.get_close_matches(unknown.partition(" ")[0], known, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise SpecError(_escape(f"{message}. {hint}{self.prog} --help lists the options."))

    path, _, part = command.module.partition(":")
    module = module or importlib.import_module(path)
    parser = CommandParser(
        prog=f"parallax {command.words}",
        description=textwrap.fill(f"{command.summary}.", _HELP_WIDTH),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    getattr(module, f"add_{part}_arguments" if part else "add_arguments")(parser)
    for action in parser._actions:
        if not action.option_strings and not action.metavar:
            action.metavar = action.dest.upper()  # as help texts refer to it
        if action.type is Path:
            action.type = parse_path
        elif action.type in (None, str) and action.nargs != 0:  # flags take no text
            if action.default == "":
                action.default = EmptyDefault()
            if action.const == "":
                action.const = EmptyDefault()
            action.type = parse_text
    defaults = {action.dest: action.default for action in parser._actions}
    parser.set_defaults(option_defaults=defaults)
    return parser


def parse_path(text: str) -> Path:
    """Return a path; an empty one, such as that of an unset variable, is the current folder."""
    import argparse

    if not text:
        raise argparse.ArgumentTypeError("names nothing: give a path, or . for the current folder")
    return Path(text)


class EmptyDefault(str):
    """The empty text as a default: argparse converts defaults like texts that are given."""

    __slots__ = ()


def parse_text(text: str) -> str:
    """Return a text; an empty one, such as that of an unset variable, would mean the default."""
    import argparse

    if isinstance(text, EmptyDefault):
        return ""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty: leave it out, or give a value")
    return text


def _list_handled_errors() -> tuple[type[BaseException], ...]:
    from parallax.harness.contract.fields import HANDLED_ERRORS
    from parallax.harness.record.files import UnusableError

    if f"{_ANALYSIS}.common" not in sys.modules:  # the command does not use the analysis
        return (*HANDLED_ERRORS, UnusableError)
    # The analysis imports only records from the harness, so it has its own error class.
    from parallax.analysis.commands.common import CommandError
    from parallax.analysis.verdicts.groups import UnknownScaleError

    return (*HANDLED_ERRORS, CommandError, UnknownScaleError, UnusableError)


def _escape(text: str) -> str:
    from parallax.harness.record.files import escape_unprintable

    return escape_unprintable(text)


def format_help() -> str:
    """Return the text of `parallax --help`."""
    top = [command for command in COMMANDS if not command.group]
    width = max(len(name) for name in (*GROUPS, *(command.name for command in top)))
    groups = [
        _format_row(
            group, f"{summary}: {', '.join(c.name for c in COMMANDS if c.group == group)}", width
        )
        for group, summary in GROUPS.items()
    ]
    return _HELP.format(commands=_format_commands(top, width), groups="\n".join(groups))


def format_group_help(group: str) -> str:
    """Return the text of `parallax GROUP --help`."""
    own = [command for command in COMMANDS if command.group == group]
    width = max(len(command.name) for command in own)
    return _GROUP_HELP.format(
        group=group, summary=GROUPS[group].capitalize(), commands=_format_commands(own, width)
    )


def _format_commands(commands: Sequence[Command], width: int) -> str:
    return "\n".join(_format_row(command.name, command.summary, width) for command in commands)


def _format_row(name: str, text: str, width: int) -> str:
    import textwrap

    indent = " " * (width + 4)
    return textwrap.fill(f"  {name:{width}}  {text}", _HELP_WIDTH, subsequent_indent=indent)


def _explain_unknown_command(words: Sequence[str]) -> str:
    import difflib

    if words[0] in GROUPS:
        given = " ".join(words[:2])
        names = {c.name: c.words for c in COMMANDS if c.group == words[0]}
        close = difflib.get_close_matches(words[1], names, n=1)
    else:
        given = words[0]
        names = {c.name: c.words for c in COMMANDS} | {group: group for group in GROUPS}
        # `parallax evaluate` means `parallax policy evaluate`.
        close = difflib.get_close_matches(given, names, n=1)
    if close:
        return f"parallax has no command {given!r}. Did you mean parallax {names[close[0]]}?"
    if "=" in given or given.startswith("-"):
        return f"parallax has no command {given!r}. Did you mean parallax train {given}?"
    known = [name for name in names.values() if " " not in name]
    return f"parallax has no command {given!r}. Known: {', '.join(known or names.values())}."


def complete_command_line(arguments: Sequence[str]) -> int:
    """Print completions of the last word of a command line.

    Args:
        arguments: What the shell's function passes on: `-sc` and the name of the shell, for Hydra.
    """
    program, *words = os.environ.get("COMP_LINE", "").split(" ")
    if not words or (words[0] == "train" and len(words) > 1):
        os.environ["COMP_LINE"] = " ".join([program, *words[1:]])
        return run_command(COMMANDS[0], arguments)
    print(*(word for word in _list_next_words(words[:-1]) if word.startswith(words[-1])), sep="\n")
    return 0


def _list_next_words(words: Sequence[str]) -> list[str]:
    """Return the words that can follow `words` in the names of commands."""
    place = len(words)
    names = [command.words.split() for command in COMMANDS]
    fitting = [name for name in names if len(name) > place and name[:place] == list(words)]
    return list(dict.fromkeys(name[place] for name in fitting))
