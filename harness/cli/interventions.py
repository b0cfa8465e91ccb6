"""`parallax intervention list`: changes that runs can be trained with, mutants, user faults."""

import argparse
import dataclasses
import json
import textwrap
from collections import Counter
from collections.abc import Sequence

from parallax.harness.cli.arguments import (
    add_algorithms_argument,
    add_frameworks_argument,
    add_names_argument,
    check_used_options,
    get_single_algorithm,
    select_frameworks,
    select_names,
)
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError, format_unknown_name, format_value
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
from parallax.harness.record.files import make_number_parser, parse_seed

CHANGES, MUTANTS, USER_FAULTS = "changes", "mutants", "user-faults"
_EPILOG = """\
operators of mutants:
{operators}
The operators of user faults are those of Table II of muPRL.

examples:
  parallax intervention list --frameworks sb3 --algorithms td3
  parallax intervention list --kind mutants --frameworks cleanrl --algorithms ppo --all
  parallax train framework=cleanrl algorithm=ppo intervention=mutant-000
  parallax intervention list --kind user-faults --algorithms dqn"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    operators = (f"  {name:17} {text}" for name, text in OPERATOR_DESCRIPTIONS.items())
    parser.epilog = _EPILOG.replace("{operators}", "\n".join(operators))
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="only changes with these names")
    add(
        "--kind",
        choices=(CHANGES, MUTANTS, USER_FAULTS),
        default=CHANGES,
        help="changes: single changes of code or settings; mutants: artificial bugs in a "
        "framework's code; user-faults: mistakes that users make with a framework "
        "(default: %(default)s)",
    )
    add_frameworks_argument(parser)
    add_algorithms_argument(
        parser,
        "algorithms, such as ppo,sac (default: all); with --kind user-faults one of them: print "
        "the overrides of a study that trains it with these mistakes",
    )
    add(
        "--all",
        "--list",
        action="store_true",
        help="changes: also show the changed source and the probe answers that prove each change; "
        "mutants: print each mutant and its change, not counts",
    )
    add("--json", action="store_true", help="print changes or mutants as JSON")
    text = "only these operators of mutants or user faults, named below (default: all)"
    add_names_argument(parser, "--operators", text)
    study = parser.add_argument_group("with --kind user-faults and --algorithms").add_argument
    shown = "(default: %(default)s)"
    study("--hps", metavar="RECIPE", default="original", help=f"recipe of the healthy runs {shown}")
    text = f"environment steps of the healthy runs {shown}"
    steps, values = make_number_parser(1, 2**53), make_number_parser(1, 1000)
    study("--steps", type=steps, metavar="N", default=50000, help=text)
    text = f"values drawn for each operator {shown}"
    study("--values", type=values, metavar="N", default=5, help=text)
    text = f"random seed of values {shown}"
    study("--seed", type=parse_seed, metavar="N", default=0, help=text)


def run(options: argparse.Namespace) -> int:
    """Print changes, mutants or user faults.

    Returns:
        0; 1 where a change cannot be applied to the installed versions.
    """
    if options.names and options.kind != CHANGES:
        raise SpecError(f"{options.names[0]}: only --kind {CHANGES} takes names: leave it out.")
    mode = f"--kind {options.kind} does not use all options given"
    check_used_options(options, _list_used_options(options), mode)
    if options.kind == MUTANTS:
        return _print_mutants(options)
    if options.kind == USER_FAULTS:
        lines = _draw_operator_values(options) if options.algorithms else _list_operators()
        print("\n".join(lines))
        return 0
    return _print_changes(options)


def _list_used_options(options: argparse.Namespace) -> tuple[str, ...]:
    if options.kind == USER_FAULTS:
        drawn = ("operators", "hps", "steps", "values", "seed") if options.algorithms else ()
        return "kind", "names", "algorithms", *drawn
    used = ("kind", "names", "frameworks", "algorithms", "all", "json")
    return used if options.kind == CHANGES else (*used, "operators")


def _print_changes(options: argparse.Namespace) -> int:
    chosen = _select_interventions(options)
    troubles = {(framework, item.name): _why_unavailable(item) for framework, item in chosen}
    if options.json:
        content = [_intervention_to_dict(framework, item) for framework, item in chosen]
        print(json.dumps(content, indent=1))
    else:
        for framework in dict.fromkeys(framework for framework, _ in chosen):
            print(f"framework={framework}")
            for item in (item for other, item in chosen if other == framework):
                print(_format_intervention(item, troubles[framework, item.name], options.all))
    return 1 if any(troubles.values()) else 0


def _select_interventions(options: argparse.Namespace) -> list[tuple[str, Intervention]]:
    frameworks = select_frameworks(options.frameworks)
    algorithms = select_names("--algorithms", options.algorithms, list(ALGORITHMS))
    found = [
        (framework, item)
        for framework in frameworks
        for item in list_interventions(load_adapter(framework))
        if set(algorithms).intersection(item.algorithms)
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
        **item.to_dict(),
        "answers": dict(item.answers),
        "file": str(item.file),
    }


def _format_intervention(item: Intervention, trouble: str, whole: bool) -> str:
    where = "all algorithms" if len(item.algorithms) == len(ALGORITHMS) else ""
    parts = [f"  {item.name}  ({item.kind}; {where or ', '.join(item.algorithms)})"]
    parts.append(textwrap.indent(textwrap.fill(item.does, 90, break_on_hyphens=False), " " * 4))
    parts += [f"    sets {field}={format_value(value)}" for field, value in item.set.items()]
    if whole:
        for piece in item.source:
            parts.append(f"    in {piece.where}")
            parts.append(textwrap.indent(piece.find.rstrip(), "    - "))
            parts.append(textwrap.indent(piece.replace.rstrip() or "(nothing)", "    + "))
        parts += [f"    probe {probe}: {promised}" for probe, promised in item.answers.items()]
    if trouble:
        parts.append(f"    CANNOT BE APPLIED: {trouble}")
    return "\n".join(parts)


def _print_mutants(options: argparse.Namespace) -> int:
    found = _select_mutants(options)
    if options.json:
        print(json.dumps([dataclasses.asdict(item) | {"name": item.name} for item in found]))
    elif options.all:
        for item in found:
            print(f"{item.qualified_name}  {item.does}")
    else:
        print("\n".join(_format_mutant_counts(found)))
    return 0


def _select_mutants(options: argparse.Namespace) -> list[CodeMutant]:
    operators = select_names("--operators", options.operators, list(OPERATOR_DESCRIPTIONS))
    algorithms = select_names("--algorithms", options.algorithms, list(ALGORITHMS))
    return [
        item
        for framework in select_frameworks(options.frameworks)
        for algorithm in algorithms
        for item in load_mutants(load_adapter(framework), algorithm)
        if item.operator in operators
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


def _list_operators() -> list[str]:
    width = max(map(len, FAULT_OPERATORS))
    return [
        f"{fault.id:{width}}  {fault.does}"
        + (f" (requested by {fault.option}=...)" if fault.option else "")
        + (f" (not available: {fault.why_not})" if fault.why_not else "")
        for fault in FAULT_OPERATORS.values()
    ]


def _draw_operator_values(options: argparse.Namespace) -> list[str]:
    algorithm = get_single_algorithm(options.algorithms, list(ALGORITHMS))
    chosen = select_names("--operators", options.operators, list(FAULT_OPERATORS))
    original = load_recipe(algorithm, options.hps)
    fitting = [
        FAULT_OPERATORS[n] for n in chosen if supports_algorithm(FAULT_OPERATORS[n], algorithm)
    ]
    made = [fault for fault in fitting if not (fault.option or fault.why_not)]
    sizes = options.steps, options.values, options.seed
    lines = [",".join(list_fault_names(made, original, *sizes))] if made else []
    for fault in fitting:
        if fault.option == "steps":
            values = draw_values(fault, options.steps, *sizes)
            lines.append(f"steps={','.join(str(int(value)) for value in values)}")
    return lines
