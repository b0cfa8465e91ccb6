"""`parallax lockstep`: trains two implementations on identical data until they differ."""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from parallax.harness.cli.arguments import (
    add_acceleration_argument,
    add_algorithms_argument,
    add_file_argument,
    add_frameworks_argument,
    add_level_arguments,
    check_output_folders,
    choose_alignment,
    find_script_side,
    get_single_algorithm,
    write_output_files,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.acceleration import NO_ACCELERATION, check_observable_acceleration
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import read_own_script
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.interventions.catalogue import resolve_interventions
from parallax.harness.lockstep.comparison import (
    UNINFORMATIVE_DIFFERENCE,
    LockstepOptions,
    LockstepResult,
    LockstepSide,
    WeightDistance,
    check_comparison,
    compare_implementations,
    count_training_updates,
)
from parallax.harness.lockstep.experiments import EXPERIMENT_BUILDERS, MAX_UPDATES
from parallax.harness.probes.experiments import AlignmentLevel

MIN_PLOTTED_DISTANCE = 1e-17
"""Value plotted for a difference of 0, which a logarithmic axis cannot show."""
DISTANCE_LABEL = "largest difference of a weight,\nas a share of the largest weight"
_EPILOG = """\
exit codes:
  0  equal to rounding after every update, and the same actions before learning
  1  they differ
  2  bad input

examples:
  parallax lockstep --frameworks sb3,cleanrl --algorithms td3 --updates 50
  parallax lockstep --frameworks sb3 --algorithms td3 --acceleration compile"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add_frameworks_argument(parser, "two frameworks, such as sb3,cleanrl")
    add_algorithms_argument(parser, f"one algorithm of {', '.join(EXPERIMENT_BUILDERS)}")
    add(
        "--interventions",
        metavar="A,B",
        help="interventions of the first and the second framework; `none` is no change, and + "
        "combines several (default: none,none)",
    )
    add(
        "--updates",
        type=int,
        default=200,
        metavar="N",
        help=f"number of updates, at most {MAX_UPDATES} (default: %(default)s)",
    )
    add(
        "--float64", action="store_true", help="train in float64, where rounding errors are smaller"
    )
    add(
        "--shared",
        action="store_true",
        help="draw a new minibatch for each update from a stream of transitions that both share; "
        "without this option both train on one minibatch repeatedly",
    )
    add_file_argument(
        parser,
        "--script",
        "run your own copy of a CleanRL script instead of the wheel's, in the last framework that "
        "is cleanrl; --frameworks cleanrl compares the copy with the wheel's script",
    )
    add_acceleration_argument(parser)
    add_level_arguments(parser)
    add_file_argument(parser, "--json", "write the distances to this JSON file")
    add_file_argument(parser, "--figure", "draw the distances to this SVG file")


def run(options: argparse.Namespace) -> int:
    """Train two implementations side by side and print their distance after each update.

    Returns:
        0 if the two are equal up to rounding until the end; 1 if they differ, or act
        differently before they learn.
    """
    check_output_folders([options.json, options.figure])
    algorithm = get_single_algorithm(options.algorithms, list(EXPERIMENT_BUILDERS))
    options.alignment = choose_alignment(options, len(options.frameworks or ()) > 1)
    first, second = _parse_sides(options, algorithm)
    chosen = LockstepOptions(
        options.float64, options.shared, AlignmentLevel(options.alignment, options.hps)
    )
    check_comparison(algorithm, options.updates, chosen)
    # Printed with the first row: a framework may refuse the recipe.
    heading = iter(
        (
            f"{first.label} and {second.label}, {algorithm}, alignment={options.alignment}:",
            f"{'updates':>8}  {'difference':>10}  {'rounding':>9}  where",
        )
    )
    with CommandProgress(count_training_updates(algorithm, options.updates)) as progress:
        result = compare_implementations(
            first,
            second,
            algorithm,
            options.updates,
            lambda distance: print(*heading, _format_distance(distance), sep="\n", flush=True),
            chosen,
            lambda updates: progress.advance("updates of three trainings", updates),
        )
    print(format_lockstep_verdict(result))
    files = {options.figure: render_distance_figure(result)} if options.figure else {}
    if options.json:
        files[options.json] = json.dumps(_result_to_dict(result), indent=1) + "\n"
    write_output_files(files)
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
    sides = [
        make_lockstep_side(name, change, algorithm, options.alignment)
        for name, change in zip(names, changes, strict=True)
    ]
    if options.script:
        number = find_script_side(options.script, names, algorithm)
        sides[number] = dataclasses.replace(sides[number], script=read_own_script(options.script))
    if options.acceleration:
        plain = options.acceleration.rpartition("+")[0]
        sides[1] = _accelerate_side(sides, options.acceleration, algorithm)
        sides[0] = dataclasses.replace(sides[0], acceleration=plain or NO_ACCELERATION)
    return sides


def _accelerate_side(sides: list[LockstepSide], acceleration: str, algorithm: str) -> LockstepSide:
    first, second = sides
    if first != second:
        raise SpecError(
            f"--acceleration {acceleration} compares an implementation with itself: name one "
            "framework, and the same interventions twice."
        )
    check_observable_acceleration(algorithm, acceleration, load_adapter(second.framework))
    return dataclasses.replace(second, acceleration=acceleration)


def make_lockstep_side(framework: str, change: str, algorithm: str, alignment: str) -> LockstepSide:
    """Return a framework with interventions, under `lockstep` also those of its reference form."""
    adapter, is_reference = load_adapter(framework), alignment == "lockstep"
    made = resolve_interventions(change, adapter, algorithm, reference_form=is_reference)
    return LockstepSide(framework, made)


def _format_distance(item: WeightDistance) -> str:
    where = item.network if item.difference else ""
    return f"{item.updates:>8}  {item.difference:>10.2g}  {item.rounding:>9.2g}  {where}"


def format_lockstep_verdict(result: LockstepResult) -> str:
    """Return sentences on whether two implementations are equal, and where they first differ."""
    last = result.distances[-1]
    if result.divergence is None:
        return _format_equality(result) + _format_behavior_difference(result)
    equal = [item.updates for item in result.distances if item.is_rounding]
    same = result.bit_equal_updates
    lines = []
    if result.divergence_point is not None:
        lines.append(f"The first difference is at {result.divergence_point}.")
    if equal:
        bits = f", to the last bit until update {same}" if same else ""
        lines.append(f"The weights agree to rounding until update {equal[-1]}{bits}.")
    else:
        lines.append("The weights differ from the first compared update on.")
    lines.append(
        f"At update {last.updates} the {last.network} differs by {last.difference:.2g} of its "
        f"largest weight; rounding alone causes {last.rounding:.2g}."
    )
    if result.probes:
        lines.append(f"Probes with different answers: {', '.join(result.probes)}.")
    else:
        lines.append(
            "No probe of updates, actions or counts has different answers. To compare all answers: "
            f"parallax probe --algorithms {result.algorithm}"
        )
    return "\n".join(lines)


def _format_behavior_difference(result: LockstepResult) -> str:
    if result.divergence_point is None:
        return ""
    probes = f"Probes with different answers: {', '.join(result.probes) or 'none'}."
    if result.variant:
        return f"\nBut with {result.variant} they differ, from {result.divergence_point}. {probes}"
    return (
        f"\nBut they act differently, from {result.divergence_point}. This has no effect here, as "
        "both receive the same scripted data; in a real environment they would collect different "
        f"data. {probes}"
    )


def _format_equality(result: LockstepResult) -> str:
    distances = result.distances
    over = f"over {distances[-1].updates} updates"
    if not any(item.difference for item in distances):
        return f"Equal to the last bit {over}."
    within = all(item.is_within_perturbation for item in distances)
    text = f"Equal to rounding {over}"
    if same := result.bit_equal_updates:
        text += f" (to the last bit until update {same})"
    text += ", no more different than copies that start one bit apart." if within else "."
    wide = next(
        (item for item in distances if item.allowed_difference >= UNINFORMATIVE_DIFFERENCE), None
    )
    if wide is not None:
        text += (
            f" From update {wide.updates} on this is weak evidence: there, copies that start one "
            f"bit apart differ by {wide.rounding:.2g} of the largest weight."
        )
    return text


def _result_to_dict(result: LockstepResult) -> dict[str, object]:
    return {
        "first": result.first.label,
        "second": result.second.label,
        "algorithm": result.algorithm,
        "equal": result.divergence is None,
        "alike": result.is_equal,
        "bit_equal_updates": result.bit_equal_updates,
        "place": None if result.divergence_point is None else result.divergence_point.to_dict(),
        "probes": list(result.probes),
        "distances": [item.to_dict() for item in result.distances],
    }


def render_distance_figure(result: LockstepResult) -> str:
    """Return the figure of one comparison as SVG, with logarithmic axes."""
    import matplotlib as mpl  # takes a second
    from matplotlib.figure import Figure

    from parallax.harness.probes.figures import COLORS, SIZE, STYLE, figure_to_svg

    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=SIZE, layout="constrained")
        ax = drawn.subplots()
        first = result.first.label
        plot_rounding(ax, result.distances, f"{first}, last bit changed")
        plot_distance(ax, result.distances, f"{first} and {result.second.label}", COLORS[0])
        ax.set_xlabel(f"updates of {result.algorithm}")
        ax.set_ylabel(DISTANCE_LABEL)
        ax.legend(fontsize=6, loc="best")
        return figure_to_svg(drawn)


def plot_rounding(ax: Any, distances: Sequence[WeightDistance], label: str) -> None:
    """Plot the bound for rounding errors, and the distance of copies that differ in one bit."""
    from parallax.harness.probes.figures import PAPER_COLOR

    updates = [item.updates for item in distances]
    allowed = [item.allowed_difference for item in distances]
    ax.loglog(updates, allowed, ":", color=PAPER_COLOR, label="counts as rounding")
    copies = [max(item.rounding, MIN_PLOTTED_DISTANCE) for item in distances]
    ax.loglog(updates, copies, "--", color="black", label=label)


def plot_distance(ax: Any, distances: Sequence[WeightDistance], label: str, color: str) -> None:
    """Plot the distance of two implementations over their updates."""
    differences = [max(item.difference, MIN_PLOTTED_DISTANCE) for item in distances]
    updates = [item.updates for item in distances]
    ax.loglog(updates, differences, "o-", color=color, markersize=3, label=label)
