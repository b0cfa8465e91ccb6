"""`parallax interventions`: which changes of one thing there are, and what each does."""

import argparse
import dataclasses
import json
import textwrap
from collections import Counter
from collections.abc import Sequence

from parallax.harness.contract.adapter import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import (
    HANDLED_ERRORS,
    SpecError,
    format_unknown_name,
    format_value,
    report_error,
)
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.interventions.catalogue import Intervention, list_interventions
from parallax.harness.interventions.mutants import CodeMutant, load_mutants
from parallax.harness.interventions.mutation_operators import OPERATOR_DESCRIPTIONS
from parallax.harness.interventions.source import locate_segment
from parallax.harness.interventions.user_faults import (
    FAULT_OPERATORS,
    draw_values,
    list_fault_names,
    supports_algorithm,
)


def run_interventions_command(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 1 where one cannot be made in the installed versions; 2 for bad input.
    """
    try:
        options = _make_interventions_parser().parse_args(arguments)
        chosen = _select_interventions(options)
    except HANDLED_ERRORS as error:
        return report_error(error)
    troubles = {(framework, item.name): _why_unavailable(item) for framework, item in chosen}
    if options.json:
        told = [_intervention_to_dict(framework, item) for framework, item in chosen]
        print(json.dumps(told, indent=1))
    else:
        for framework in dict.fromkeys(framework for framework, _ in chosen):
            print(f"framework={framework}")
            for item in (item for other, item in chosen if other == framework):
                print(_format_intervention(item, troubles[framework, item.name], options.all))
    return 1 if any(troubles.values()) else 0


def _make_interventions_parser() -> argparse.ArgumentParser:
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


def _select_interventions(options: argparse.Namespace) -> list[tuple[str, Intervention]]:
    frameworks = list(find_adapter_entry_points())
    if options.framework and options.framework not in frameworks:
        what = f"--framework {options.framework}"
        raise SpecError(format_unknown_name(what, options.framework, frameworks))
    if options.algorithm and options.algorithm not in ALGORITHMS:
        what = f"--algorithm {options.algorithm}"
        raise SpecError(format_unknown_name(what, options.algorithm, list(ALGORITHMS)))
    found = [
        (framework, item)
        for framework in frameworks
        if options.framework in (None, framework)
        for item in list_interventions(framework)
        if options.algorithm in (None, *item.algorithms)
    ]
    known = sorted({item.name for _, item in found})
    for name in options.names:
        if name not in known:
            raise SpecError(format_unknown_name(name, name, known))
    return [(f, item) for f, item in found if not options.names or item.name in options.names]


def _why_unavailable(item: Intervention) -> str:
    try:
        for piece in item.source:
            locate_segment(piece)
    except SpecError as error:
        return str(error)
    return ""


def _intervention_to_dict(framework: str, item: Intervention) -> dict[str, object]:
    return {
        "name": item.name,
        "framework": framework,
        "algorithms": list(item.algorithms),
        "kind": item.kind,
        **item.told(),
        "answers": dict(item.answers),
        "file": str(item.file),
    }


def _format_intervention(item: Intervention, trouble: str, whole: bool) -> str:
    parts = [f"  {item.name}  ({item.kind}; {', '.join(item.algorithms)})"]
    parts += textwrap.wrap(item.does, 94, initial_indent="    ", subsequent_indent="    ")
    parts += [f"    sets {field}={format_value(value)}" for field, value in item.set.items()]
    if whole:
        for piece in item.source:
            parts.append(f"    in {piece.where}")
            parts.append(textwrap.indent(piece.find.rstrip(), "    - "))
            parts.append(textwrap.indent(piece.replace.rstrip() or "(nothing)", "    + "))
        parts += [f"    then {probe} is {promised}" for probe, promised in item.answers.items()]
    if trouble:
        parts.append(f"    CANNOT BE MADE: {trouble}")
    return "\n".join(parts)


def run_mutants_command(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 2 for bad input.
    """
    try:
        options = _make_mutants_parser().parse_args(arguments)
        found = _select_mutants(options)
    except HANDLED_ERRORS as error:
        return report_error(error)
    if options.json:
        print(json.dumps([dataclasses.asdict(item) | {"name": item.name} for item in found]))
    elif options.list:
        for item in found:
            print(f"{item.qualified_name}  {item.does}")
    else:
        print("\n".join(_format_mutant_counts(found)))
    return 0


def _make_mutants_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parallax mutants",
        description="Counts and lists small faults in upstream's code: parallax train "
        "intervention=mutant-NNN makes one.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--framework", help="only of this one")
    add("--algorithm", help="only of this one")
    add("--operator", help=f"only of this one: {', '.join(OPERATOR_DESCRIPTIONS)}")
    add("--list", action="store_true", help="each with what it changes, instead of counts")
    add("--json", action="store_true", help="everything as JSON")
    return parser


def _select_mutants(options: argparse.Namespace) -> list[CodeMutant]:
    allowed = {
        "framework": list(find_adapter_entry_points()),
        "algorithm": list(ALGORITHMS),
        "operator": list(OPERATOR_DESCRIPTIONS),
    }
    for option, known in allowed.items():
        if (value := getattr(options, option)) not in (None, *known):
            raise SpecError(format_unknown_name(f"--{option} {value}", value, known))
    return [
        item
        for framework in allowed["framework"]
        for algorithm in allowed["algorithm"]
        if options.framework in (None, framework) and options.algorithm in (None, algorithm)
        for item in load_mutants(framework, algorithm)
        if options.operator in (None, item.operator)
    ]


def _format_mutant_counts(found: Sequence[CodeMutant]) -> list[str]:
    counts = Counter((item.framework, item.algorithm, item.operator) for item in found)
    operators = [name for name in OPERATOR_DESCRIPTIONS if any(key[2] == name for key in counts)]
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


def run_operators_command(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 2 for bad input.
    """
    try:
        options = _make_operators_parser().parse_args(arguments)
        print("\n".join(_draw_operator_values(options) if options.algorithm else _list_operators()))
    except HANDLED_ERRORS as error:
        return report_error(error)
    return 0


def _make_operators_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parallax faults",
        description="Lists the fifteen operators of muPRL's Table II; with an algorithm it draws "
        "values for a study: parallax train -m intervention=none,$(parallax faults ...).",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--algorithm", help="that is to be trained")
    add("--hps", default="original", help="recipe of the originals (%(default)s)")
    add("--steps", type=int, default=50000, help="of the originals (%(default)s)")
    add("--values", type=int, default=5, help="of each operator (%(default)s)")
    add("--seed", type=int, default=0, help="of the values (%(default)s)")
    add("--operators", help="only these: A,B")
    return parser


def _list_operators() -> list[str]:
    width = max(map(len, FAULT_OPERATORS))
    return [
        f"{fault.id:{width}}  {fault.does}"
        + (f" (asked for by {fault.asked}=...)" if fault.asked else "")
        + (f" (not made: {fault.why_not})" if fault.why_not else "")
        for fault in FAULT_OPERATORS.values()
    ]


def _draw_operator_values(options: argparse.Namespace) -> list[str]:
    if options.algorithm not in ALGORITHMS:
        what = f"--algorithm {options.algorithm}"
        raise SpecError(format_unknown_name(what, options.algorithm, list(ALGORITHMS)))
    chosen = options.operators.split(",") if options.operators else list(FAULT_OPERATORS)
    for name in chosen:
        if name not in FAULT_OPERATORS:
            raise SpecError(format_unknown_name(f"--operators {name}", name, list(FAULT_OPERATORS)))
    original = load_recipe(options.algorithm, options.hps)
    fitting = [
        FAULT_OPERATORS[n]
        for n in chosen
        if supports_algorithm(FAULT_OPERATORS[n], options.algorithm)
    ]
    made = [fault for fault in fitting if not (fault.asked or fault.why_not)]
    sizes = options.steps, options.values, options.seed
    lines = [",".join(list_fault_names(made, original, *sizes))] if made else []
    for fault in fitting:
        if fault.asked == "steps":
            values = draw_values(fault, options.steps, *sizes)
            lines.append(f"steps={','.join(str(int(value)) for value in values)}")
    return lines
