"""`parallax twins`: do two implementations learn the same from the same, and up to where?"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.contract.fields import HANDLED_ERRORS, SpecError, report_error
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.interventions.catalogue import resolve_interventions
from parallax.harness.lockstep.comparison import (
    UNINFORMATIVE_DIFFERENCE,
    LockstepOptions,
    LockstepResult,
    LockstepSide,
    WeightDistance,
    compare_implementations,
)
from parallax.harness.lockstep.experiments import EXPERIMENT_BUILDERS, MAX_UPDATES
from parallax.harness.record.files import write_text

_EXIT_CODES = """exit codes:
  0  no further apart than rounding up to the end, and alike before they learn
  1  they part, or do other things before they learn
  2  bad input
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0 where the two are equal to rounding up to the end; 1 where they part, or do other things
        before they learn; 2 for bad input.
    """
    try:
        options = _make_parser().parse_args(arguments)
        one, two = _parse_sides(options)
        print(f"{one.label} and {two.label}, {options.algorithm}:")
        print(f"{'updates':>8}  {'apart':>9}  {'rounding':>9}  where")
        how = LockstepOptions(options.float64, options.shared)
        tell = lambda distance: print(_format_distance(distance), flush=True)  # noqa: E731
        found = compare_implementations(one, two, options.algorithm, options.until, tell, how)
        print(_format_verdict(found))
        if options.figure:
            from parallax.harness.lockstep.figure import (
                render_distance_figure,  # a plotting library takes a second
            )

            write_text(options.figure, render_distance_figure(found))
        if options.json:
            write_text(options.json, json.dumps(_result_to_dict(found), indent=1) + "\n")
    except HANDLED_ERRORS as error:
        return report_error(error)
    return 0 if found.is_equal else 1


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parallax twins",
        description="Lets two implementations learn from the same weights, minibatches and random "
        "numbers, each in its own code, until they part.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--frameworks", required=True, metavar="A,B", help="two, such as sb3,cleanrl")
    add("--algorithm", required=True, help=f"one of {', '.join(EXPERIMENT_BUILDERS)}")
    add(
        "--interventions",
        metavar="A,B",
        help="what is changed of each, in the same order; none for nothing, + joins several",
    )
    add(
        "--until",
        type=int,
        default=200,
        help=f"updates, at most {MAX_UPDATES} (default: %(default)s)",
    )
    add("--float64", action="store_true", help="train in float64, where rounding is smaller")
    add(
        "--shared",
        action="store_true",
        help="minibatches are drawn from one stream of transitions that both are given, each time "
        "other ones; without it they learn from one minibatch again and again",
    )
    add("--json", type=Path, metavar="FILE", help="write the distances")
    add("--figure", type=Path, metavar="FILE", help="draw the distances, as SVG")
    return parser


def _parse_sides(options: argparse.Namespace) -> list[LockstepSide]:
    names = options.frameworks.split(",")
    if len(names) != 2:
        raise SpecError(f"--frameworks {options.frameworks} must name two, such as sb3,cleanrl.")
    changes = (options.interventions or f"{NO_INTERVENTION},{NO_INTERVENTION}").split(",")
    if len(changes) != 2:
        raise SpecError(
            f"--interventions {options.interventions} must name one for each framework, such as "
            f"value-loss-x0.5,{NO_INTERVENTION}."
        )
    return [
        LockstepSide(name, resolve_interventions(change, name, options.algorithm))
        for name, change in zip(names, changes, strict=True)
    ]


def _format_distance(item: WeightDistance) -> str:
    where = item.network if item.apart else ""
    return f"{item.updates:>8}  {item.apart:>9.2g}  {item.rounding:>9.2g}  {where}"


def _format_verdict(found: LockstepResult) -> str:
    last = found.distances[-1]
    if found.parted is None:
        return _format_equality(found.distances) + _format_behavior_difference(found)
    equal = [item.updates for item in found.distances if item.is_rounding]
    start = f"Equal to rounding up to update {equal[-1]}" if equal else "Never equal"
    lines = [
        f"{start}; at update {last.updates} the {last.network} is {last.apart:.2g} of its largest "
        f"weight apart, where rounding makes {last.rounding:.2g}."
    ]
    if found.place is not None:
        lines.append(f"They part first at {found.place}.")
    if found.probes:
        lines.append(f"Probes that they answer differently: {', '.join(found.probes)}.")
    else:
        lines.append(
            "No probe of what an update computes tells them apart: it may be when something is "
            f"updated (parallax probe --algorithm {found.algorithm} --probe counts), or new."
        )
    return "\n".join(lines)


def _format_behavior_difference(found: LockstepResult) -> str:
    if found.place is None:
        return ""
    return (
        f"\nWhat they do is not alike: they part at {found.place}. Here both are shown the same "
        "world whatever they do, and learn the same from it; in a task they learn from their acts."
    )


def _format_equality(distances: Sequence[WeightDistance]) -> str:
    over = f"over {distances[-1].updates} updates"
    if not any(item.apart for item in distances):
        return f"Equal to the last bit {over}."
    within = all(item.is_within_perturbation for item in distances)
    text = f"Equal to rounding {over}"
    text += ", no further apart than the copies." if within else "."
    wide = next(
        (item for item in distances if item.allowed_difference >= UNINFORMATIVE_DIFFERENCE), None
    )
    if wide is not None:
        text += (
            f" From update {wide.updates} on that says little: copies that began one bit apart are "
            f"{wide.rounding:.2g} of the largest weight apart there."
        )
    return text


def _result_to_dict(found: LockstepResult) -> dict[str, object]:
    return {
        "first": found.first.label,
        "second": found.second.label,
        "algorithm": found.algorithm,
        "equal": found.parted is None,
        "alike": found.is_equal,
        "place": None if found.place is None else dataclasses.asdict(found.place),
        "probes": list(found.probes),
        "distances": [dataclasses.asdict(item) for item in found.distances],
    }
