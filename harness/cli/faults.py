"""`parallax faults`: the operators of muPRL's Table II, and values for a study."""

import argparse
from collections.abc import Sequence

from harness.cli.errors import HANDLED, exit_code
from harness.contract.algorithms import ALGORITHMS
from harness.contract.fields import SpecError, unknown
from harness.contract.recipes import load_recipe
from harness.interventions.faults import FAULTS, drawn, fits, names


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 2 for bad input.
    """
    try:
        options = _parser().parse_args(arguments)
        print("\n".join(_study(options) if options.algorithm else _list()))
    except HANDLED as error:
        return exit_code(error)
    return 0


def _parser() -> argparse.ArgumentParser:
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


def _list() -> list[str]:
    width = max(map(len, FAULTS))
    return [
        f"{fault.id:{width}}  {fault.does}"
        + (f" (asked for by {fault.asked}=...)" if fault.asked else "")
        + (f" (not made: {fault.why_not})" if fault.why_not else "")
        for fault in FAULTS.values()
    ]


def _study(options: argparse.Namespace) -> list[str]:
    if options.algorithm not in ALGORITHMS:
        what = f"--algorithm {options.algorithm}"
        raise SpecError(unknown(what, options.algorithm, list(ALGORITHMS)))
    chosen = options.operators.split(",") if options.operators else list(FAULTS)
    for name in chosen:
        if name not in FAULTS:
            raise SpecError(unknown(f"--operators {name}", name, list(FAULTS)))
    original = load_recipe(options.algorithm, options.hps)
    fitting = [FAULTS[n] for n in chosen if fits(FAULTS[n], options.algorithm)]
    made = [fault for fault in fitting if not (fault.asked or fault.why_not)]
    sizes = options.steps, options.values, options.seed
    lines = [",".join(names(made, original, *sizes))] if made else []
    for fault in fitting:
        if fault.asked == "steps":
            values = drawn(fault, options.steps, *sizes)
            lines.append(f"steps={','.join(str(int(value)) for value in values)}")
    return lines
