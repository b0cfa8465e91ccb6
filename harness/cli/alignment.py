"""Tables of how each hyperparameter reaches each framework: `parallax alignment`.

The rows are recorded while a run's hyperparameters are translated to upstream options. With
`--paper` the same rows become the tables of a paper's appendix; Tables 6 to 8 of the thesis are
read only to mark where they differ from the values that the code passes.
"""

import argparse
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml
from tabulate import tabulate

from parallax.envs.tasks import TaskError, load_task
from parallax.harness.cli.arguments import (
    add_algorithms_argument,
    add_frameworks_argument,
    add_names_argument,
    check_used_options,
    select_frameworks,
    select_names,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError, format_value
from parallax.harness.contract.recipes import list_recipe_names, load_recipe
from parallax.harness.contract.run_spec import ALIGNMENTS
from parallax.harness.contract.translation import TranslatedSetting
from parallax.harness.interventions.catalogue import make_patches
from parallax.harness.train.limits import check_actions
from parallax.harness.train.prepare import (
    check_no_conversion,
    resolve_hyperparameters,
    resolve_library_recipe,
)

ORIGINAL_RECIPE = "original"
COMMON_ALIGNMENT, EXACT_ALIGNMENT = "common", "exact"
EXAMPLE_TASKS = {"continuous": "HalfCheetah-v4", "discrete": "CartPole-v1"}
"""Default tasks, whose action bounds are used, by action space."""
THESIS_TABLE_NUMBERS = {
    name: cls.thesis_table for name, cls in ALGORITHMS.items() if cls.thesis_table
}
# TorchRL's names in the thesis are those of its scripts' files, which are not in its package.
FRAMEWORKS_WITH_SAME_NAMES = ("sb3", "cleanrl")
INTRODUCTION = """# Hyperparameters by framework

The values of the original papers (`hps=original`) on {env} under `alignment={alignment}`,
as each framework receives them. A cell has the name of the framework's option, `= value` if the
passed value is not the paper's, or `fixed` if there is no option. Hyperparameters in italics stay
at each framework's own default. †: not in the thesis' Tables 6 to 8. Numbers in brackets refer to
the list below each table.

Made from the translations that a run uses, by `parallax alignment --paper --markdown`."""
_EXAMPLES = """\
status of a cell:
  aligned    the unified value is passed to an option of the framework
  tied       the value follows from another option
  constant   the framework hard-codes the value
  emulated   the framework lacks the feature, and Parallax adds it
  patched    a declared patch changes the framework's constant
  rounded    the framework uses the next value that fits its update cycles
  converted  an intervention makes the framework use the value as the schema defines it
A cell that ends in "recipe: VALUE" differs from the recipe, which has VALUE.

example:
  parallax alignment --algorithms ppo --hps original --frameworks sb3,cleanrl"""


@dataclasses.dataclass(frozen=True)
class FrameworkColumn:
    """One framework's side of the table.

    Attributes:
        settings: Rows by unified name; empty where the recipe was refused.
        recipe: The recipe's own values; None where it was refused.
        refusal: Why the framework refuses the recipe, or an empty text.
    """

    framework: str
    settings: Mapping[str, TranslatedSetting]
    recipe: Hyperparameters | None = None
    refusal: str = ""


def make_example_context(algorithm: str, env: str | None) -> RunContext:
    """Return the run that values are translated for.

    Args:
        algorithm: Name of the algorithm.
        env: Name of the task; None for an example.

    Raises:
        SpecError: The task is not known.
    """
    try:
        task = load_task(env or EXAMPLE_TASKS[ALGORITHMS[algorithm].actions])
    except TaskError as error:
        raise SpecError(str(error)) from error
    return RunContext(task, steps=1_000_000, seed=0)


def translate_recipe(
    algorithm: str,
    hps: str,
    alignment: str,
    env: str | None,
    frameworks: Sequence[str],
    patches: bool = True,
) -> list[FrameworkColumn]:
    """Translate a recipe for each framework.

    Args:
        algorithm: Name of the algorithm.
        hps: Name of the recipe.
        alignment: One of `ALIGNMENTS`.
        env: Name of the task; None for an example.
        frameworks: Names of adapters.
        patches: Whether constants of upstream may be patched under `exact` and `lockstep`.

    Raises:
        SpecError: A name is not known.
    """
    exact = alignment in (EXACT_ALIGNMENT, "lockstep")
    context = dataclasses.replace(
        make_example_context(algorithm, env),
        patch_constants=patches and exact,
        converts_meanings=exact,
    )
    requested = resolve_library_recipe(hps, algorithm, load_recipe(algorithm, hps), (), context)
    result: list[FrameworkColumn] = []
    for name in frameworks:
        adapter = load_adapter(name)
        if not adapter.supports(algorithm):
            continue
        try:
            check_actions(algorithm, adapter, context.task)
            effective = resolve_hyperparameters(adapter, algorithm, requested, alignment, context)
            effective = effective.resolve_for_task(context.task)
            native = adapter.translate(algorithm, effective, context)
            make_patches(adapter, algorithm, effective, native.patched_fields)
            if not patches and alignment == EXACT_ALIGNMENT:
                check_no_conversion(name, native)
        except SpecError as error:
            result.append(FrameworkColumn(name, {}, refusal=str(error)))
        else:
            rows = {row.field: row for row in native.alignment}
            result.append(FrameworkColumn(name, rows, requested.resolve_for_task(context.task)))
    return result


def format_alignment_table(algorithm: str, sides: Sequence[FrameworkColumn], form: str) -> str:
    """Return the table as text, in one of tabulate's formats."""
    fields = [field.name for field in dataclasses.fields(ALGORITHMS[algorithm])]
    rows = [[field, *(_format_alignment_cell(side, field) for side in sides)] for field in fields]
    return tabulate(rows, headers=["hyperparameter", *(s.framework for s in sides)], tablefmt=form)


def format_notes(sides: Sequence[FrameworkColumn]) -> list[str]:
    """Return the notes that explain cells, and every refusal."""
    lines = [
        f"{side.framework}, {row.field}: {row.note}"
        for side in sides
        for row in side.settings.values()
        if row.note
    ]
    return lines + [f"{side.framework} refuses: {side.refusal}" for side in sides if side.refusal]


def format_translation_counts(sides: Sequence[FrameworkColumn]) -> list[str]:
    """Return the number of recipes that each framework translates and refuses."""
    lines = []
    for name in dict.fromkeys(side.framework for side in sides):
        refused = [bool(side.refusal) for side in sides if side.framework == name]
        taken = f"{len(refused) - sum(refused)} of {len(refused)} recipes translated"
        lines.append(f"{name}: {taken}, {sum(refused)} refused")
    return lines


@dataclasses.dataclass(frozen=True)
class AppendixTable:
    """One algorithm's table.

    Attributes:
        rows: Cells by row; a number in brackets refers to a correction.
        corrections: What the thesis prints and what the code passes, in the order of their numbers.
    """

    algorithm: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    corrections: Sequence[str]


def make_appendix_table(algorithm: str, env: str, frameworks: Sequence[str]) -> AppendixTable:
    """Build the table of the original papers' values."""
    printed = _load_thesis_tables()[algorithm]
    columns = translate_recipe(algorithm, ORIGINAL_RECIPE, COMMON_ALIGNMENT, env, frameworks)
    sides = [column for column in columns if column.settings]
    recipe = load_recipe(algorithm, ORIGINAL_RECIPE)
    corrections: list[str] = []
    rows = []
    for field in dataclasses.fields(ALGORITHMS[algorithm]):
        line = printed.get(field.name, {})
        value = getattr(recipe, field.name)
        cells = [_format_appendix_cell(side.settings[field.name], value) for side in sides]
        found = [_format_name_correction(side, field.name, line) for side in sides]
        marks = [
            _add_footnote(text, corrections)
            for text in (*found, _format_value_correction(field.name, line, value))
        ]
        is_common = field.name in ALGORITHMS[algorithm].common_fields
        name = field.name if is_common else f"*{field.name}*"
        symbol = str(line.get("symbol", "")).replace("|", r"\|") if line else "†"
        texts = [
            cell + mark for cell, mark in zip([*cells, format_value(value)], marks, strict=True)
        ]
        rows.append([name, symbol, *texts])
    headers = ["hyperparameter", "symbol", *(side.framework for side in sides), ORIGINAL_RECIPE]
    return AppendixTable(algorithm, headers, rows, corrections)


def format_appendix_table(table: AppendixTable, form: str) -> str:
    """Return the table and its corrections; `form` is one of tabulate's formats."""
    body = tabulate(table.rows, headers=table.headers, tablefmt=form, disable_numparse=True)
    lines = [f"{i}. {line}" for i, line in enumerate(table.corrections, 1)]
    number = THESIS_TABLE_NUMBERS[table.algorithm]
    heading = f"Differences from Table {number} of the thesis:"
    return "\n".join([f"## {ALGORITHMS[table.algorithm].label}", "", body, "", heading, "", *lines])


def format_appendix(
    algorithms: Sequence[str], env: str, frameworks: Sequence[str], form: str
) -> str:
    """Return all tables under one heading."""
    tables = [
        format_appendix_table(make_appendix_table(name, env, frameworks), form)
        for name in algorithms
    ]
    return "\n\n".join([INTRODUCTION.format(env=env, alignment=COMMON_ALIGNMENT), *tables])


def format_options(
    algorithms: Sequence[str], env: str | None, frameworks: Sequence[str], form: str
) -> str:
    """Return upstream's options that no hyperparameter covers, as two tables."""
    overridden: list[tuple[str, ...]] = []
    untouched: list[tuple[str, ...]] = []
    for framework, algorithm in itertools.product(frameworks, algorithms):
        adapter = load_adapter(framework)
        if not adapter.supports(algorithm):
            continue
        adapter.check_installed()
        context = make_example_context(algorithm, env)
        own = adapter.get_library_defaults(algorithm, load_recipe(algorithm, framework), context)
        native = adapter.translate(algorithm, own.resolve_for_task(context.task), context)
        options = native.list_upstream_options(adapter.upstream_defaults(algorithm))
        others = [f"{o.name} {_shorten_value(o.default)}" for o in options if not o.is_overridden]
        untouched.append((framework, algorithm, ", ".join(others) or "none declared"))
        for option in options:
            if option.is_overridden:
                values = _shorten_value(option.default), _shorten_value(option.value)
                overridden.append((framework, algorithm, option.name, *values))
    heads = ("framework", "algorithm", "option", "upstream's default", "in runs")
    return "\n\n".join(
        [
            "Options that no hyperparameter covers and that runs set to another value:",
            tabulate(overridden, headers=heads, tablefmt=form),
            "Options that no hyperparameter covers and that stay at upstream's default:",
            tabulate(untouched, headers=(*heads[:2], "options"), tablefmt=form),
        ]
    )


def _shorten_value(value: Any) -> str:
    text = format_value(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EXAMPLES
    add_algorithms_argument(parser)
    text = "recipes of hyperparameters: names such as original,sb3, or paths of YAML files"
    add_names_argument(parser, "--hps", f"{text} (default: all)")
    add_frameworks_argument(parser)
    parser.add_argument(
        "--alignment",
        choices=ALIGNMENTS,
        help=f"defaults: each framework's own values; {COMMON_ALIGNMENT}: the settings that every "
        "framework has are set equal, the others stay at the library defaults; "
        f"{EXACT_ALIGNMENT}: all are set equal; lockstep: as {EXACT_ALIGNMENT}, and known "
        f"differences of the update are removed (default: {EXACT_ALIGNMENT})",
    )
    parser.add_argument(
        "--no-patches",
        action="store_true",
        help="refuse a value that upstream hard-codes, instead of patching its constant",
    )
    parser.add_argument(
        "--env",
        metavar="TASK",
        help="task whose action bounds are used (default: HalfCheetah-v4, or CartPole-v1 for "
        "discrete actions)",
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help="tables for the appendix of a paper: the values of the original papers, and where "
        "Tables 6 to 8 of the thesis differ; takes neither --hps nor --alignment",
    )
    parser.add_argument(
        "--options",
        action="store_true",
        help="list upstream options that no hyperparameter covers, each with its default and its "
        "value in runs; takes neither --hps nor --alignment",
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")


def run(options: argparse.Namespace) -> int:
    """Print the tables."""
    form = "github" if options.markdown else "simple"
    frameworks = select_frameworks(options.frameworks)
    used = ("algorithms", "frameworks", "env", "markdown")
    if options.options:
        check_used_options(options, ("options", *used), "--options lists defaults")
        algorithms = select_names("--algorithms", options.algorithms, list(ALGORITHMS))
        print(format_options(algorithms, options.env, frameworks, form))
        return 0
    if options.paper:
        check_used_options(options, ("paper", *used), "--paper uses the original papers' values")
        algorithms = select_names("--algorithms", options.algorithms, list(THESIS_TABLE_NUMBERS))
        env = options.env or EXAMPLE_TASKS["continuous"]
        print(format_appendix(algorithms, env, frameworks, form))
        return 0
    alignment = options.alignment or EXACT_ALIGNMENT
    every: list[FrameworkColumn] = []
    for algorithm, hps in _list_recipes(options.algorithms, options.hps):
        columns = translate_recipe(
            algorithm, hps, alignment, options.env, frameworks, not options.no_patches
        )
        env = options.env or EXAMPLE_TASKS[ALGORITHMS[algorithm].actions]
        print(f"\n{algorithm}, hps={hps}, alignment={alignment}, {env}\n")
        print(format_alignment_table(algorithm, columns, form))
        print("".join(f"\n- {line}" for line in format_notes(columns)))
        every += columns
    print("", *format_translation_counts(every), sep="\n")
    return 0


def _list_recipes(
    algorithms: Sequence[str] | None, names: Sequence[str] | None
) -> list[tuple[str, str]]:
    """List algorithms and recipes; where no algorithm is named, those that have the recipe."""
    chosen = select_names("--algorithms", algorithms, list(ALGORITHMS))
    found = [
        (algorithm, name)
        for algorithm in chosen
        for name in names or list_recipe_names(algorithm)
        if algorithms or name in list_recipe_names(algorithm)
    ]
    for name in names or ():
        if all(name != other for _, other in found):
            load_recipe(chosen[0], name)
    return found


def _format_alignment_cell(side: FrameworkColumn, field: str) -> str:
    row = side.settings.get(field)
    if row is None:
        return "refused"
    name = f" ({row.native_name})" if row.native_name else ""
    cell = f"{row.kind}: {format_value(row.native_value)}{name}"
    wanted = getattr(side.recipe, field)
    if row.value == wanted:
        return cell
    kind = "default" if row.kind == "aligned" else row.kind
    return f"{kind}: {format_value(row.native_value)}{name}, recipe: {format_value(wanted)}"


def _format_appendix_cell(row: TranslatedSetting, value: Any) -> str:
    passed = format_value(row.native_value)
    if row.is_fixed:
        return f"fixed: {passed}" + (f" ({row.note})" if row.note else "")
    kind = " (emulated)" if row.kind == "emulated" else ""
    return f"`{row.native_name}`{kind}" + ("" if passed == format_value(value) else f" = {passed}")


def _format_name_correction(side: FrameworkColumn, field: str, line: Mapping[str, Any]) -> str:
    """Return a correction where the thesis names an option that the code does not pass."""
    named, row = line.get(side.framework), side.settings[field]
    option = f"`{row.native_name}`"
    if named is None or (named == "-" and row.is_fixed):
        return ""
    if row.is_fixed and named in row.note.replace("-", "_"):
        return ""  # one option for several hyperparameters
    if named == "-":
        return f"{side.framework}, {field}: the thesis names no option; it is {option}."
    if row.is_fixed:
        why = f" ({row.note})" if row.note else ""
        fixed = f"it is fixed at {format_value(row.native_value)}{why}"
        return f"{side.framework}, {field}: the thesis names `{named}`; {fixed}."
    if side.framework in FRAMEWORKS_WITH_SAME_NAMES and not _is_same_name(named, row.native_name):
        return f"{side.framework}, {field}: the thesis names `{named}`; it is {option}."
    return ""


def _format_value_correction(field: str, line: Mapping[str, Any], value: Any) -> str:
    if not line or format_value(line["value"]) == format_value(value):
        return ""
    printed = format_value(line["value"])
    return f"{field}: the thesis prints {printed}; the recipe has {format_value(value)}."


def _add_footnote(text: str, corrections: list[str]) -> str:
    if not text:
        return ""
    corrections.append(text)
    return f" [{len(corrections)}]"


def _is_same_name(named: str, native: str) -> bool:
    return named.replace("-", "_") == native.split(".")[-1].replace("-", "_")


def _load_thesis_tables() -> dict[str, dict[str, dict[str, Any]]]:
    source = files("parallax.harness.cli") / "thesis_tables.yaml"
    loaded: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(source.read_text("utf-8"))
    return loaded
