"""How each hyperparameter reaches each framework, as tables.

`parallax alignment` prints, for any recipe, the rows that a run's translation made while it set
what upstream receives. `parallax appendix` prints the tables of a paper's appendix from the same
rows; the thesis' Tables 6 to 8 are only read to mark where they differ from what the code passes.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml
from tabulate import tabulate

from parallax.envs.tasks import TaskError, load_task
from parallax.harness.contract.adapter import RunContext, find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError, format_value
from parallax.harness.contract.recipes import list_recipe_names, load_recipe
from parallax.harness.contract.run_spec import ALIGNMENTS
from parallax.harness.contract.translation import TranslatedSetting
from parallax.harness.train.prepare import resolve_hyperparameters, resolve_library_recipe

ORIGINAL_RECIPE = "original"
EXAMPLE_TASKS = {"continuous": "HalfCheetah-v4", "discrete": "CartPole-v1"}
"""Tasks whose actions count unless one is named, by the kind of an algorithm's actions."""
THESIS_TABLE_NUMBERS = {
    name: cls.thesis_table for name, cls in ALGORITHMS.items() if cls.thesis_table
}
# TorchRL's names in the thesis are those of its scripts' files, which are not in its package.
FRAMEWORKS_WITH_SAME_NAMES = ("sb3", "cleanrl")
INTRODUCTION = """# Hyperparameters by framework

The values of the original papers (`hps=original`) on {env} under `alignment=common`,
as each framework receives them: the name of its option, `= value` where what is passed is not
the paper's value, or `fixed` where it has no option. In italics: left at each framework's own
default. †: not in the thesis' Tables 6 to 8. Numbers in brackets refer to the list below each
table.

Made from the translations that a run uses, by `parallax appendix --markdown`."""
_ALIGNMENT_DESCRIPTION = "Prints what each framework receives for each hyperparameter."
_APPENDIX_DESCRIPTION = (
    "Prints the tables of a paper's appendix, with what the thesis prints otherwise."
)


@dataclasses.dataclass(frozen=True)
class FrameworkColumn:
    """One framework's side of the table.

    Attributes:
        framework: Name of the adapter.
        settings: Rows by unified name; empty where the recipe was refused.
        refusal: Why the framework refuses the recipe, or an empty text.
    """

    framework: str
    settings: Mapping[str, TranslatedSetting]
    refusal: str = ""


def translate_recipe(
    algorithm: str, hps: str, alignment: str, env: str | None, frameworks: Sequence[str]
) -> list[FrameworkColumn]:
    """Translates a recipe for each framework.

    Raises:
        SpecError: A name is not known.
    """
    try:
        env = env or EXAMPLE_TASKS[ALGORITHMS[algorithm].actions]
        context = RunContext(task=load_task(env), steps=1_000_000, seed=0)
    except TaskError as error:
        raise SpecError(str(error)) from error
    requested = load_recipe(algorithm, hps)
    result = []
    for name in frameworks:
        adapter = load_adapter(name)
        if not adapter.supports(algorithm):
            continue
        try:
            asked = requested
            if hps == name:
                asked = resolve_library_recipe(adapter, algorithm, requested, (), context)
            effective = resolve_hyperparameters(adapter, algorithm, asked, alignment, context)
            effective = effective.resolve_for_task(context.task)
            native = adapter.translate(algorithm, effective, context)
        except SpecError as error:
            result.append(FrameworkColumn(name, {}, str(error)))
        else:
            result.append(FrameworkColumn(name, {row.field: row for row in native.alignment}))
    return result


def format_alignment_table(algorithm: str, sides: Sequence[FrameworkColumn], form: str) -> str:
    """The table as text, in one of tabulate's formats."""
    fields = [field.name for field in dataclasses.fields(ALGORITHMS[algorithm])]
    rows = [[field, *(_format_alignment_cell(side, field) for side in sides)] for field in fields]
    return tabulate(rows, headers=["hyperparameter", *(s.framework for s in sides)], tablefmt=form)


def format_notes(sides: Sequence[FrameworkColumn]) -> list[str]:
    """What a reader must know about cells, and every refusal."""
    lines = [
        f"{side.framework}, {row.field}: {row.note}"
        for side in sides
        for row in side.settings.values()
        if row.note
    ]
    return lines + [f"{side.framework} refuses: {side.refusal}" for side in sides if side.refusal]


def format_translation_counts(sides: Sequence[FrameworkColumn]) -> list[str]:
    """How many recipes each framework translates, and how many it refuses."""
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
        algorithm: Its name.
        headers: Of the columns.
        rows: Cells by row; a number in brackets refers to a correction.
        corrections: What the thesis prints and what the code passes, in the order of their numbers.
    """

    algorithm: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    corrections: Sequence[str]


def make_appendix_table(algorithm: str, env: str, frameworks: Sequence[str]) -> AppendixTable:
    """Builds the table of the original papers' values.

    Raises:
        SpecError: A name is not known, or a framework refuses the recipe.
    """
    printed = _load_thesis_tables()[algorithm]
    sides = [
        s
        for s in translate_recipe(algorithm, ORIGINAL_RECIPE, "common", env, frameworks)
        if s.settings
    ]
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
        name = (
            field.name if field.name in ALGORITHMS[algorithm].common_fields else f"*{field.name}*"
        )
        symbol = str(line.get("symbol", "")).replace("|", r"\|") if line else "†"
        texts = [
            cell + mark for cell, mark in zip([*cells, format_value(value)], marks, strict=True)
        ]
        rows.append([name, symbol, *texts])
    headers = ["hyperparameter", "symbol", *(side.framework for side in sides), ORIGINAL_RECIPE]
    return AppendixTable(algorithm, headers, rows, corrections)


def format_appendix_table(table: AppendixTable, form: str) -> str:
    """The table and its corrections; `form` is one of tabulate's formats."""
    body = tabulate(table.rows, headers=table.headers, tablefmt=form, disable_numparse=True)
    lines = [f"{i}. {line}" for i, line in enumerate(table.corrections, 1)]
    number = THESIS_TABLE_NUMBERS[table.algorithm]
    heading = f"What Table {number} of the thesis prints otherwise:"
    return "\n".join([f"## {ALGORITHMS[table.algorithm].label}", "", body, "", heading, "", *lines])


def format_appendix(
    algorithms: Sequence[str], env: str, frameworks: Sequence[str], form: str
) -> str:
    """All tables under one heading.

    Raises:
        SpecError: A name is not known, or a framework refuses the recipe.
    """
    tables = [
        format_appendix_table(make_appendix_table(name, env, frameworks), form)
        for name in algorithms
    ]
    return "\n\n".join([INTRODUCTION.format(env=env), *tables])


def print_alignment(arguments: Sequence[str] | None = None) -> int:
    """Command line of `parallax alignment`.

    Returns:
        0, or 2 for a name that is not known.
    """
    options = _make_alignment_parser().parse_args(arguments)
    form = "github" if options.markdown else "simple"
    every: list[FrameworkColumn] = []
    try:
        for algorithm in options.algorithm or list(ALGORITHMS):
            for hps in options.hps or list_recipe_names(algorithm):
                sides = translate_recipe(
                    algorithm, hps, options.alignment, options.env, options.framework
                )
                env = options.env or EXAMPLE_TASKS[ALGORITHMS[algorithm].actions]
                print(f"\n{algorithm}, hps={hps}, alignment={options.alignment}, {env}\n")
                print(format_alignment_table(algorithm, sides, form))
                print("".join(f"\n- {line}" for line in format_notes(sides)))
                every += sides
        print("", *format_translation_counts(every), sep="\n")
    except SpecError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def print_appendix(arguments: Sequence[str] | None = None) -> int:
    """Command line of `parallax appendix`.

    Returns:
        0, or 2 for a name that is not known.
    """
    parser = argparse.ArgumentParser(prog="parallax appendix", description=_APPENDIX_DESCRIPTION)
    parser.add_argument(
        "--algorithm",
        nargs="+",
        choices=list(THESIS_TABLE_NUMBERS),
        default=list(THESIS_TABLE_NUMBERS),
    )
    parser.add_argument("--framework", nargs="+", default=sorted(find_adapter_entry_points()))
    parser.add_argument("--env", default="HalfCheetah-v4", help="whose action bounds count")
    parser.add_argument("--markdown", action="store_true", help="as Markdown")
    options = parser.parse_args(arguments)
    form = "github" if options.markdown else "simple"
    try:
        print(format_appendix(options.algorithm, options.env, options.framework, form))
    except SpecError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def _format_alignment_cell(side: FrameworkColumn, field: str) -> str:
    row = side.settings.get(field)
    if row is None:
        return "refused"
    name = f" ({row.native_name})" if row.native_name else ""
    return f"{row.kind}: {format_value(row.native_value)}{name}"


def _make_alignment_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parallax alignment", description=_ALIGNMENT_DESCRIPTION)
    parser.add_argument("--algorithm", nargs="+", choices=list(ALGORITHMS))
    parser.add_argument("--hps", nargs="+", help="recipes; all unless given")
    parser.add_argument("--framework", nargs="+", default=sorted(find_adapter_entry_points()))
    parser.add_argument("--alignment", choices=ALIGNMENTS, default="common")
    parser.add_argument("--env", help="whose action bounds count; HalfCheetah or CartPole")
    parser.add_argument("--markdown", action="store_true", help="for a paper's appendix")
    return parser


def _format_appendix_cell(row: TranslatedSetting, value: Any) -> str:
    passed = format_value(row.native_value)
    if row.is_fixed:
        return f"fixed: {passed}" + (f" ({row.note})" if row.note else "")
    kind = " (emulated)" if row.kind == "emulated" else ""
    return f"`{row.native_name}`{kind}" + ("" if passed == format_value(value) else f" = {passed}")


def _format_name_correction(side: FrameworkColumn, field: str, line: Mapping[str, Any]) -> str:
    """Where the thesis' name for an option is not what the code passes."""
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
    return f"{field}: the thesis prints {format_value(line['value'])}; the recipe has {format_value(value)}."


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


if __name__ == "__main__":
    sys.exit(print_alignment())

if __name__ == "__main__":
    sys.exit(print_appendix())
