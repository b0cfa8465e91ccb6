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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Run = Callable[[list[str]], int]

_TABLES = "harness.cli.hyperparameter_tables"
_TRAINING = {
    "train": ("harness.cli.train:main", "Trains one run, or with --multirun a sweep"),
    "rerun": ("harness.cli.rerun:main", "Trains a finished run again and compares"),
    "evaluate": ("harness.cli.policies:evaluate", "Plays episodes with what runs have learned"),
    "export": ("harness.cli.policies:export", "Writes policies as their framework's own files"),
    "video": ("harness.cli.policies:video", "Films policies, alone or side by side"),
    "diagnose": ("harness.cli.diagnose:main", "Tells which faults were found while runs trained"),
    "watch": ("harness.cli.watch:main", "Shows a run's last values and findings as it goes on"),
    "free": ("harness.cli.free:main", "Ends the lease of a process that nobody can ask any more"),
    "probe": ("harness.probes.command:main", "Compares one update of each implementation"),
    "twins": ("harness.cli.twins:main", "Tells until when two implementations learn the same"),
    "interventions": ("harness.cli.interventions:main", "Lists changes of exactly one thing"),
    "mutants": ("harness.cli.mutants:main", "Lists small faults in upstream's update code"),
    "detection": ("harness.cli.detection:main", "Tells which detector notices which fault"),
    "faults": ("harness.cli.faults:main", "Lists muPRL's operators and draws their values"),
    "challenge": ("harness.cli.challenge:main", "Plays originals and mutants against tests"),
    "alignment": (f"{_TABLES}:print_alignment", "What each framework receives, and how"),
    "appendix": (f"{_TABLES}:print_appendix", "The same as tables for a paper's appendix"),
    "new-adapter": ("harness.cli.new_adapter:main", "Starts an adapter for another framework"),
    "new-algorithm": ("harness.cli.new_algorithm:main", "Starts the files of another algorithm"),
}
_HELP = """\
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
        return _run(words)
    except BrokenPipeError:
        # The reader has seen enough, as `head` has. Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help(), flush=True)
        return 0 if words else 2
    if words[0] == "--version":
        print(f"parallax {importlib.metadata.version('parallax-rl')}")
        return 0
    if words[0] in ("-sc", "--shell-completion"):
        from harness.cli.completion import complete

        return complete(words, names())
    run = find(words[0])
    if run is None:
        print(f"Error: {_unknown(words[0])}", file=sys.stderr)
        return 2
    return run(words[1:])


def find(name: str) -> Run | None:
    """The function that runs a command, or None where there is no such command."""
    if name in _TRAINING:
        run: Run = _load(_TRAINING[name][0])
        return run
    if name in _analysis():
        return lambda words: int(_load("analysis.__main__:main")([name, *words], "parallax"))
    if name in _slurm():
        return lambda words: int(_load("slurm.__main__:main")([name, *words]))
    return None


def names() -> list[str]:
    """All commands, in the order of the help."""
    return [name for section in _sections().values() for name in section]


def _sections() -> dict[str, Mapping[str, str]]:
    training = {name: summary for name, (_, summary) in _TRAINING.items()}
    return {"Train": training, "Look at results": _analysis(), "On a cluster": _slurm()}


def _help() -> str:
    sections = _sections()
    width = max(map(len, names()))
    lines = [_HELP]
    for title, commands in sections.items():
        lines += [f"{title}:"]
        for name, summary in commands.items():
            lines += [f"  {name:{width}}  {summary[:1].upper()}{summary[1:].rstrip('.')}"]
        lines += [""]
    return "\n".join(lines).rstrip()


def _unknown(name: str) -> str:
    known = names()
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"parallax has no command {name!r}. Did you mean {close[0]}?"
    if "=" in name or name.startswith("-"):
        return f"parallax has no command {name!r}. Did you mean parallax train {name}?"
    return f"parallax has no command {name!r}. Commands: {', '.join(known)}."


def _analysis() -> Mapping[str, str]:
    summaries: Mapping[str, str] = _load("analysis.__main__:commands")()
    return summaries


def _slurm() -> dict[str, str]:
    """Its commands with their summaries; read, since importing them takes half a second."""
    spec = importlib.util.find_spec("slurm")
    folders = spec.submodule_search_locations if spec else None
    found: dict[str, str] = {}
    for folder in folders or ():
        for node in ast.walk(ast.parse((Path(folder) / "__main__.py").read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="add_parser"), args=[ast.Constant(value=str(name))]
                ):
                    options = {word.arg: word.value for word in node.keywords}
                    summary = options.get("help")
                    text = summary.value if isinstance(summary, ast.Constant) else ""
                    found[name] = str(text)
    return found


def _load(place: str) -> Any:
    # By name: what one command needs is not imported for another.
    module, _, function = place.partition(":")
    return getattr(importlib.import_module(module), function)
