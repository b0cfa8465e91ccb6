"""`parallax COMMAND ...`: the one door to training, analysis and clusters.

Only the modules of the chosen command are imported, so that help and short commands answer at once.
"""

import ast
import difflib
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

CommandFunction = Callable[[list[str]], int]

_TABLES_MODULE = "parallax.harness.cli.alignment"
_TRAINING_COMMANDS = {
    "train": ("parallax.harness.cli.train:main", "Trains one run, or with --multirun a sweep"),
    "rerun": (
        "parallax.harness.cli.run_reproduce:main",
        "Trains a finished run again and compares",
    ),
    "evaluate": (
        "parallax.harness.cli.policy:run_evaluate_command",
        "Plays episodes with what runs have learned",
    ),
    "export": (
        "parallax.harness.cli.policy:run_export_command",
        "Writes policies as their framework's own files",
    ),
    "video": (
        "parallax.harness.cli.policy:run_video_command",
        "Films policies, alone or side by side",
    ),
    "diagnose": (
        "parallax.harness.cli.run_folders:run_diagnosis_command",
        "Tells which faults were found while runs trained",
    ),
    "watch": (
        "parallax.harness.cli.run_watch:main",
        "Shows a run's last values and findings as it goes on",
    ),
    "free": (
        "parallax.harness.cli.run_folders:run_unlock_command",
        "Ends the lease of a process that nobody can ask any more",
    ),
    "probe": ("parallax.harness.cli.probe:main", "Compares one update of each implementation"),
    "twins": (
        "parallax.harness.cli.lockstep:main",
        "Tells until when two implementations learn the same",
    ),
    "interventions": (
        "parallax.harness.cli.interventions:run_interventions_command",
        "Lists changes of exactly one thing",
    ),
    "mutants": (
        "parallax.harness.cli.interventions:run_mutants_command",
        "Lists small faults in upstream's update code",
    ),
    "detection": (
        "parallax.harness.cli.mutation:run_detectors_command",
        "Tells which detector notices which fault",
    ),
    "faults": (
        "parallax.harness.cli.interventions:run_operators_command",
        "Lists muPRL's operators and draws their values",
    ),
    "challenge": (
        "parallax.harness.cli.mutation:run_mutation_test_command",
        "Plays originals and mutants against tests",
    ),
    "alignment": (f"{_TABLES_MODULE}:print_alignment", "What each framework receives, and how"),
    "appendix": (f"{_TABLES_MODULE}:print_appendix", "The same as tables for a paper's appendix"),
    "new-adapter": (
        "parallax.harness.cli.new_adapter:main",
        "Starts an adapter for another framework",
    ),
    "new-algorithm": (
        "parallax.harness.cli.new_algorithm:main",
        "Starts the files of another algorithm",
    ),
}
_HELP_HEADER = """\
usage: parallax COMMAND ...

Do implementations of the same reinforcement-learning algorithm agree?
parallax COMMAND --help tells what a command takes.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: The command line; that of the process if None.

    Returns:
        What the command returns; 2 without one, and for one that does not exist.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch_command(words)
    except BrokenPipeError:
        # The reader has seen enough, as `head` has. Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _dispatch_command(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_format_help(), flush=True)
        return 0 if words else 2
    if words[0] == "--version":
        print(f"parallax {importlib.metadata.version('parallax-rl')}")
        return 0
    if words[0] in ("-sc", "--shell-completion"):
        return complete_command_line(words, list_command_names())
    run = find_command(words[0])
    if run is None:
        print(f"Error: {_explain_unknown_command(words[0])}", file=sys.stderr)
        return 2
    return run(words[1:])


def find_command(name: str) -> CommandFunction | None:
    """The function that runs a command, or None where there is no such command."""
    if name in _TRAINING_COMMANDS:
        run: CommandFunction = _load_function(_TRAINING_COMMANDS[name][0])
        return run
    if name in _read_analysis_summaries():
        return lambda words: int(
            _load_function("parallax.analysis.__main__:run_analysis_command")(
                [name, *words], "parallax"
            )
        )
    if name in _read_slurm_summaries():
        return lambda words: int(_load_function("parallax.slurm.commands:main")([name, *words]))
    return None


def list_command_names() -> list[str]:
    """All commands, in the order of the help."""
    return [name for section in _group_commands().values() for name in section]


def _group_commands() -> dict[str, Mapping[str, str]]:
    training = {name: summary for name, (_, summary) in _TRAINING_COMMANDS.items()}
    return {
        "Train": training,
        "Look at results": _read_analysis_summaries(),
        "On a cluster": _read_slurm_summaries(),
    }


def _format_help() -> str:
    sections = _group_commands()
    width = max(map(len, list_command_names()))
    lines = [_HELP_HEADER]
    for title, commands in sections.items():
        lines += [f"{title}:"]
        for name, summary in commands.items():
            lines += [f"  {name:{width}}  {summary[:1].upper()}{summary[1:].rstrip('.')}"]
        lines += [""]
    return "\n".join(lines).rstrip()


def _explain_unknown_command(name: str) -> str:
    known = list_command_names()
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"parallax has no command {name!r}. Did you mean {close[0]}?"
    if "=" in name or name.startswith("-"):
        return f"parallax has no command {name!r}. Did you mean parallax train {name}?"
    return f"parallax has no command {name!r}. Commands: {', '.join(known)}."


def _read_analysis_summaries() -> Mapping[str, str]:
    summaries: Mapping[str, str] = _load_function(
        "parallax.analysis.__main__:list_analysis_commands"
    )()
    return summaries


def _read_slurm_summaries() -> dict[str, str]:
    """Its commands with their summaries; read, since importing them takes half a second."""
    spec = importlib.util.find_spec("parallax.slurm")
    folders = spec.submodule_search_locations if spec else None
    found: dict[str, str] = {}
    for folder in folders or ():
        for node in ast.walk(ast.parse((Path(folder) / "commands.py").read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="add_parser"), args=[ast.Constant(value=str(name))]
                ):
                    options = {word.arg: word.value for word in node.keywords}
                    summary = options.get("help")
                    text = summary.value if isinstance(summary, ast.Constant) else ""
                    found[name] = str(text)
    return found


def _load_function(place: str) -> Any:
    # By name: what one command needs is not imported for another.
    module, _, function = place.partition(":")
    return getattr(importlib.import_module(module), function)


def complete_command_line(arguments: Sequence[str], names: Iterable[str]) -> int:
    """Prints what the last word of the line may become, where anything is known of it.

    Args:
        arguments: What the shell's function passes on: whose answer in which form.
        names: Names of commands.
    """
    line = os.environ.get("COMP_LINE", "")
    program, *words = line.split(" ")
    if words[:1] == ["train"] and len(words) > 1:
        from parallax.harness.cli.train import main as train

        os.environ["COMP_LINE"] = " ".join([program, *words[1:]])
        return train(arguments)
    if len(words) == 1:
        print(*(name for name in names if name.startswith(words[0])), sep="\n")
    return 0
