"""`parallax lockstep`: trains two implementations on identical data until they differ."""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.cli.arguments import (
    add_algorithms_argument,
    add_frameworks_argument,
    get_single_name,
)
from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.fields import SpecError
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

_EPILOG = """\
exit codes:
  0  equal to rounding after every update, and the same actions before learning
  1  they differ
  2  bad input

example:
  parallax lockstep --frameworks sb3,cleanrl --algorithms td3 --updates 50"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add_frameworks_argument(parser, "two frameworks, such as sb3,cleanrl")
    add_algorithms_argument(parser, f"one algorithm of {', '.join(EXPERIMENT_BUILDERS)}")
    add(
        "--interventions",
        metavar="A,B",
        help="interventions of the first and of the second framework; none for no change, + joins "
        "several (default: none,none)",
    )
    add(
        "--updates",
        type=int,
        default=200,
        help=f"updates, at most {MAX_UPDATES} (default: %(default)s)",
    )
    add(
        "--float64", action="store_true", help="train in float64, where rounding errors are smaller"
    )
    add(
        "--shared",
        action="store_true",
        help="draw a new minibatch for each update from one stream of transitions that both get; "
        "without it both train on the same minibatch again and again",
    )
    add("--json", type=Path, metavar="FILE", help="write the distances to this JSON file")
    add("--figure", type=Path, metavar="FILE", help="draw the distances to this SVG file")


def run(options: argparse.Namespace) -> int:
    """Train two implementations side by side and print their distance after each update.

    Returns:
        0 where the two are equal to rounding up to the end; 1 where they differ, or act
        differently before they learn.

    Raises:
        SpecError: A name is not known, or options do not name two sides.
    """
    algorithm = get_single_name("--algorithms", options.algorithms or (), list(EXPERIMENT_BUILDERS))
    first, second = _parse_sides(options, algorithm)
    print(f"{first.label} and {second.label}, {algorithm}:")
    print(f"{'updates':>8}  {'apart':>9}  {'rounding':>9}  where")
    result = compare_implementations(
        first,
        second,
        algorithm,
        options.updates,
        lambda distance: print(_format_distance(distance), flush=True),
        LockstepOptions(options.float64, options.shared),
    )
    print(_format_verdict(result))
    if options.figure:
        from parallax.harness.lockstep.figure import (
            render_distance_figure,  # a plotting library takes a second to import
        )

        write_text(options.figure, render_distance_figure(result))
    if options.json:
        write_text(options.json, json.dumps(_result_to_dict(result), indent=1) + "\n")
    return 0 if result.is_equal else 1


def _parse_sides(options: argparse.Namespace, algorithm: str) -> list[LockstepSide]:
    names = options.frameworks or []
    if len(names) == 1:
        names = names * 2  # one framework with two interventions
    if len(names) != 2:
        raise SpecError(
            f"--frameworks {','.join(names)} must name two, such as --frameworks sb3,cleanrl."
        )
    changes = (options.interventions or f"{NO_INTERVENTION},{NO_INTERVENTION}").split(",")
    if len(changes) != 2:
        raise SpecError(
            f"--interventions {options.interventions} must name one for each framework, such as "
            f"value-loss-x0.5,{NO_INTERVENTION}."
        )
    return [
        LockstepSide(name, resolve_interventions(change, load_adapter(name), algorithm))
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
