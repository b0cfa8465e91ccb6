"""`parallax mutants`: which small faults in upstream's update code there are, by number."""

import argparse
import dataclasses
import json
from collections import Counter
from collections.abc import Sequence

from harness.cli.errors import HANDLED, exit_code
from harness.contract.adapter import installed_adapters
from harness.contract.algorithms import ALGORITHMS
from harness.contract.fields import SpecError, unknown
from harness.interventions.mutants import Mutant, mutants
from harness.interventions.operators import WORDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 2 for bad input.
    """
    try:
        options = _parser().parse_args(arguments)
        found = _chosen(options)
    except HANDLED as error:
        return exit_code(error)
    if options.json:
        print(json.dumps([dataclasses.asdict(item) | {"name": item.name} for item in found]))
    elif options.list:
        for item in found:
            print(f"{item.whole_name}  {item.does}")
    else:
        print("\n".join(_table(found)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parallax mutants",
        description="Counts and lists small faults in upstream's code: parallax train "
        "intervention=mutant-NNN makes one.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--framework", help="only of this one")
    add("--algorithm", help="only of this one")
    add("--operator", help=f"only of this one: {', '.join(WORDS)}")
    add("--list", action="store_true", help="each with what it changes, instead of counts")
    add("--json", action="store_true", help="everything as JSON")
    return parser


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    allowed = {
        "framework": list(installed_adapters()),
        "algorithm": list(ALGORITHMS),
        "operator": list(WORDS),
    }
    for option, known in allowed.items():
        if (value := getattr(options, option)) not in (None, *known):
            raise SpecError(unknown(f"--{option} {value}", value, known))
    return [
        item
        for framework in allowed["framework"]
        for algorithm in allowed["algorithm"]
        if options.framework in (None, framework) and options.algorithm in (None, algorithm)
        for item in mutants(framework, algorithm)
        if options.operator in (None, item.operator)
    ]


def _table(found: Sequence[Mutant]) -> list[str]:
    counts = Counter((item.framework, item.algorithm, item.operator) for item in found)
    operators = [name for name in WORDS if any(key[2] == name for key in counts)]
    rows = [["", *operators, "all"]]
    for framework, algorithm in dict.fromkeys((i.framework, i.algorithm) for i in found):
        numbers = [counts[framework, algorithm, name] for name in operators]
        rows.append([f"{framework} {algorithm}", *map(str, numbers), str(sum(numbers))])
    totals = [sum(n for key, n in counts.items() if key[2] == name) for name in operators]
    rows.append(["all", *map(str, totals), str(len(found))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
