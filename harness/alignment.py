"""The alignment table: how each hyperparameter reaches each framework.

`python -m harness.alignment` prints it; the rows are those that a run's translation made
while it set what upstream receives.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence

from tabulate import tabulate

from envs.tasks import TaskError, load_task
from harness.adapter import Context, Setting, installed_adapters, load_adapter
from harness.fields import SpecError
from harness.prepare import resolve
from harness.recipes import load_recipe, recipe_names
from harness.run_spec import ALIGNMENTS
from harness.spec import ALGORITHMS
from harness.translation import plain


@dataclasses.dataclass(frozen=True)
class Column:
    """One framework's side of the table.

    Attributes:
        framework: Name of the adapter.
        settings: Rows by unified name; empty where the recipe was refused.
        refusal: Why the framework refuses the recipe, or an empty text.
    """

    framework: str
    settings: Mapping[str, Setting]
    refusal: str = ""


def columns(
    algorithm: str, hps: str, alignment: str, env: str, frameworks: Sequence[str]
) -> list[Column]:
    """Translates a recipe for each framework.

    Raises:
        SpecError: A name is not known.
    """
    try:
        context = Context(task=load_task(env), steps=1_000_000, seed=0)
    except TaskError as error:
        raise SpecError(str(error)) from error
    requested = load_recipe(algorithm, hps)
    result = []
    for name in frameworks:
        adapter = load_adapter(name)
        if not adapter.supports(algorithm):
            continue
        try:
            effective = resolve(adapter, algorithm, requested, alignment, context)
            native = adapter.translate(algorithm, effective, context)
        except SpecError as error:
            result.append(Column(name, {}, str(error)))
        else:
            result.append(Column(name, {row.field: row for row in native.alignment}))
    return result


def table(algorithm: str, sides: Sequence[Column], form: str) -> str:
    """The table as text, in one of tabulate's formats."""
    fields = [field.name for field in dataclasses.fields(ALGORITHMS[algorithm])]
    rows = [[field, *(_cell(side, field) for side in sides)] for field in fields]
    return tabulate(rows, headers=["hyperparameter", *(s.framework for s in sides)], tablefmt=form)


def notes(sides: Sequence[Column]) -> list[str]:
    """What a reader must know about cells, and every refusal."""
    lines = [
        f"{side.framework}, {row.field}: {row.note}"
        for side in sides
        for row in side.settings.values()
        if row.note
    ]
    return lines + [f"{side.framework} refuses: {side.refusal}" for side in sides if side.refusal]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0, or 2 for a name that is not known.
    """
    options = _parser().parse_args(arguments)
    form = "github" if options.markdown else "simple"
    try:
        for algorithm in options.algorithm or list(ALGORITHMS):
            for hps in options.hps or recipe_names(algorithm):
                sides = columns(algorithm, hps, options.alignment, options.env, options.framework)
                print(f"\n{algorithm}, hps={hps}, alignment={options.alignment}, {options.env}\n")
                print(table(algorithm, sides, form))
                print("".join(f"\n- {line}" for line in notes(sides)))
    except SpecError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def _cell(side: Column, field: str) -> str:
    row = side.settings.get(field)
    if row is None:
        return "refused"
    name = f" ({row.native_name})" if row.native_name else ""
    return f"{row.kind}: {plain(row.native_value)}{name}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.alignment", description=__doc__)
    parser.add_argument("--algorithm", nargs="+", choices=list(ALGORITHMS))
    parser.add_argument("--hps", nargs="+", help="recipes; all unless given")
    parser.add_argument("--framework", nargs="+", default=sorted(installed_adapters()))
    parser.add_argument("--alignment", choices=ALIGNMENTS, default="thesis")
    parser.add_argument("--env", default="HalfCheetah-v4", help="whose action bounds count")
    parser.add_argument("--markdown", action="store_true", help="for a paper's appendix")
    return parser


if __name__ == "__main__":
    sys.exit(main())
