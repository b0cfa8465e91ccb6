"""`parallax interventions`: which changes of one thing there are, and what each does."""

import argparse
import json
import textwrap
from collections.abc import Sequence

from harness.cli.errors import HANDLED, exit_code
from harness.contract.adapter import installed_adapters
from harness.contract.algorithms import ALGORITHMS
from harness.contract.fields import SpecError, plain, unknown
from harness.interventions.catalogue import Intervention, for_framework
from harness.interventions.source import locate


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 1 where one cannot be made in the installed versions; 2 for bad input.
    """
    try:
        options = _parser().parse_args(arguments)
        chosen = _chosen(options)
    except HANDLED as error:
        return exit_code(error)
    troubles = {(framework, item.name): _trouble(item) for framework, item in chosen}
    if options.json:
        told = [_as_data(framework, item) for framework, item in chosen]
        print(json.dumps(told, indent=1))
    else:
        for framework in dict.fromkeys(framework for framework, _ in chosen):
            print(f"framework={framework}")
            for item in (item for other, item in chosen if other == framework):
                print(_lines(item, troubles[framework, item.name], options.all))
    return 1 if any(troubles.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parallax interventions",
        description="Lists changes of exactly one thing: parallax train intervention=NAME.",
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--framework", help="only what is for this one")
    parser.add_argument("--algorithm", help="only what is for this one")
    parser.add_argument("--all", action="store_true", help="show pieces of source as well")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    return parser


def _chosen(options: argparse.Namespace) -> list[tuple[str, Intervention]]:
    frameworks = list(installed_adapters())
    if options.framework and options.framework not in frameworks:
        what = f"--framework {options.framework}"
        raise SpecError(unknown(what, options.framework, frameworks))
    if options.algorithm and options.algorithm not in ALGORITHMS:
        what = f"--algorithm {options.algorithm}"
        raise SpecError(unknown(what, options.algorithm, list(ALGORITHMS)))
    found = [
        (framework, item)
        for framework in frameworks
        if options.framework in (None, framework)
        for item in for_framework(framework).values()
        if options.algorithm in (None, *item.algorithms)
    ]
    known = sorted({item.name for _, item in found})
    for name in options.names:
        if name not in known:
            raise SpecError(unknown(name, name, known))
    return [(f, item) for f, item in found if not options.names or item.name in options.names]


def _trouble(item: Intervention) -> str:
    try:
        for piece in item.source:
            locate(piece)
    except SpecError as error:
        return str(error)
    return ""


def _as_data(framework: str, item: Intervention) -> dict[str, object]:
    return {
        "name": item.name,
        "framework": framework,
        "algorithms": list(item.algorithms),
        "kind": item.kind,
        **item.told(),
        "answers": dict(item.answers),
        "file": str(item.file),
    }


def _lines(item: Intervention, trouble: str, whole: bool) -> str:
    parts = [f"  {item.name}  ({item.kind}; {', '.join(item.algorithms)})"]
    parts += textwrap.wrap(item.does, 94, initial_indent="    ", subsequent_indent="    ")
    parts += [f"    sets {field}={plain(value)}" for field, value in item.set.items()]
    if whole:
        for piece in item.source:
            parts.append(f"    in {piece.where}")
            parts.append(textwrap.indent(piece.find.rstrip(), "    - "))
            parts.append(textwrap.indent(piece.replace.rstrip() or "(nothing)", "    + "))
        parts += [f"    then {probe} is {promised}" for probe, promised in item.answers.items()]
    if trouble:
        parts.append(f"    CANNOT BE MADE: {trouble}")
    return "\n".join(parts)
