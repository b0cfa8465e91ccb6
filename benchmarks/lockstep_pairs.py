"""Lockstep training of every pair of implementations at `alignment=lockstep`.

`python benchmarks/lockstep_pairs.py --output FILE.json` trains each implementation once per
algorithm on the same weights, data and random numbers, and compares the weights of every pair after
more and more updates. Two copies of the first implementation that start one bit apart show how
rounding grows. An algorithm that is measured again replaces its entry in FILE. `--markdown PAGE`
writes the table, `--figure FILE.svg` draws it, `--report` measures nothing.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from parallax.harness.cli.lockstep import (
    DISTANCE_LABEL,
    make_lockstep_side,
    plot_distance,
    plot_rounding,
)
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import INTERVENTION_SEPARATOR, NO_INTERVENTION
from parallax.harness.interventions.catalogue import LEAVE_OUT_PREFIX
from parallax.harness.lockstep.comparison import (
    LockstepOptions,
    LockstepSide,
    LockstepTrainings,
    WeightDistance,
    compare_implementations,
    list_update_counts,
)
from parallax.harness.lockstep.experiments import EXPERIMENT_BUILDERS
from parallax.harness.probes import catalogue
from parallax.harness.probes.experiments import AlignmentLevel, ExperimentCache
from parallax.harness.probes.probe import is_same_answer
from parallax.harness.record.files import write_text

FRAMEWORKS = ("sb3", "cleanrl", "tianshou", "torchrl", "skrl", "sbx")
LEVEL = AlignmentLevel("lockstep")
_COMMANDS = """\
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --updates 1000 \\
        --float64 --algorithms td3,ddpg,dqn
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --updates 1000 \\
        --float64 --algorithms sac --frameworks sb3,cleanrl,tianshou,torchrl,skrl
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --updates 1000 \\
        --algorithms ppo
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --updates 100 \\
        --algorithms sac
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --updates 20 \\
        --algorithms td3,ddpg
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --updates 10 \\
        --algorithms dqn
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --report \\
        --markdown docs/reference/lockstep-pairs.md \\
        --forms analysis/data/published/lockstep/reference_forms.csv
"""
_LIMITS = """\
PPO is compared in float32, because Stable-Baselines3's PPO stores rollouts in float32 and sbx's PPO
cannot compute in float64. sbx stores the discount in float32, so all frameworks train with
0.9921875, which float32 represents exactly. sbx's SAC has further numbers in float32: in float64 it
differs from the others by 6e-8 after one update, so it is compared in float32. In float32, TD3,
DDPG and DQN of sbx are equal to rounding over the number of updates in the table. Over 100 updates
they differ by up to 5.0e-3, 1.4e-4 and 4.7e-5. This is rounding, too: in float64 they are equal
over 1,000 updates.
"""


_NECESSITY = """\
## Which differences matter

Each implementation in the reference form is compared with itself, without one of the interventions
of this form. If the scripted training shows no difference, all probes of the algorithm were
measured. Probes vary settings that this training fixes, such as the schedule of the learning rate
and the limit of the KL divergence. `tanh-networks` of skrl has no effect here: skrl ships no
networks, so all trainings use those of the probes. With equal weights, skrl's policy equals that of
Stable-Baselines3 with this intervention, and differs without it
(`tests/adapters/skrl/test_agents.py`). If all updates are equal, further settings are compared; the
table names the setting that showed the difference. `kl-stop-ends-rollout` of skrl has an effect
only if a minibatch beyond the limit comes before one within it;
`tests/harness/lockstep/test_unusual_values.py` measures it.

    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --necessity \\
        --updates 20 --float64 --algorithms td3,ddpg,sac \\
        --frameworks sb3,cleanrl,tianshou,torchrl,skrl
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --necessity \\
        --updates 20 --float64 --algorithms dqn --frameworks cleanrl,tianshou
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --necessity \\
        --updates 12 --algorithms ppo
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --necessity \\
        --updates 10 --algorithms sac --frameworks sbx
    python benchmarks/lockstep_pairs.py --output docs/lockstep_pairs.json --necessity --missing \\
        --updates 4 --float64 --algorithms td3,ddpg --frameworks sbx
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report."""
    options = _make_parser().parse_args(arguments)
    measured: dict[str, Any] = (
        json.loads(options.output.read_text()) if options.output.exists() else {}
    )
    for algorithm in () if options.report else options.algorithms.split(","):
        key = f"{algorithm}, {'float64' if options.float64 else 'float32'}"
        if options.necessity:
            found = {item["left_out"]: item for item in measured[key].get("necessity", ())}
            known = found if options.missing else {}
            new = measure_necessity(algorithm, options, known)
            found |= {item["left_out"]: item for item in new}
            measured[key]["necessity"] = list(found.values())
        else:
            stored = {k: v for k, v in measured.get(key, {}).items() if k == "necessity"}
            measured[key] = measure_algorithm(algorithm, options) | stored
        write_text(options.output, json.dumps(measured, indent=1) + "\n")
    print(render_table(measured))
    if options.markdown:
        write_text(options.markdown, render_page(measured))
    if options.forms:
        write_text(options.forms, render_forms(measured))
    if options.figure:
        write_text(options.figure, draw_figure(measured))
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="FILE", help="JSON, by algorithm")
    add("--algorithms", default=",".join(EXPERIMENT_BUILDERS), metavar="A,B")
    add("--frameworks", default=",".join(FRAMEWORKS), metavar="A,B")
    add("--updates", type=int, default=200, metavar="N")
    add("--float64", action="store_true", help="train in float64; sbx cannot")
    add("--necessity", action="store_true", help="leave out one intervention at a time")
    add("--missing", action="store_true", help="with --necessity: only those that FILE lacks")
    add("--report", action="store_true", help="only report what FILE has")
    add("--markdown", type=Path, metavar="PAGE", help="write the tables")
    add("--forms", type=Path, metavar="CSV", help="write the interventions of equal frameworks")
    add("--figure", type=Path, metavar="FILE", help="draw the distances, as SVG")
    return parser


def measure_algorithm(algorithm: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the distances of all pairs of one algorithm as JSON data."""
    started = time.process_time()
    how = LockstepOptions(options.float64, shared_stream=algorithm != "ppo", level=LEVEL)
    lengths = list_update_counts(algorithm, options.updates)
    sides = [
        make_lockstep_side(name, NO_INTERVENTION, algorithm, LEVEL.name)
        for name in options.frameworks.split(",")
    ]
    trainings = LockstepTrainings(sides, algorithm, how)
    refused = dict[str, str]()
    for number, side in enumerate(sides):
        try:
            trainings.train_weights(number, lengths)
        except SpecError as error:
            refused[side.framework] = str(error)
        print(f"{algorithm} {side.label}: {time.process_time() - started:.0f} s", flush=True)
    present = [n for n, side in enumerate(sides) if side.framework not in refused]
    pairs = [
        _compare_pair(trainings, one, other, lengths, present[0])
        for one, other in itertools.combinations(present, 2)
    ]
    return {
        "updates": lengths[-1],
        "seconds": round(time.process_time() - started, 1),
        "sides": {side.framework: [item.name for item in side.interventions] for side in sides},
        "refused": refused,
        "pairs": pairs,
    }


@contextlib.contextmanager
def change_experiment(algorithm: str, values: Mapping[str, Any]) -> Iterator[None]:
    """Train an algorithm in lockstep with other values of hyperparameters within the context."""
    build = EXPERIMENT_BUILDERS[algorithm]

    def build_changed(*arguments: Any) -> Any:
        made = build(*arguments)
        changes = {**made.changes, **values}
        return dataclasses.replace(made, name=f"changed {made.name}", changes=changes)

    with mock.patch.dict(EXPERIMENT_BUILDERS, {algorithm: build_changed}):
        yield


def measure_necessity(
    algorithm: str, options: argparse.Namespace, known: Container[str] = ()
) -> list[dict[str, Any]]:
    """Compare each implementation with itself without one intervention of its reference form.

    Args:
        algorithm: Name of the algorithm.
        options: The command line.
        known: Those that are measured already, as `framework: intervention`.
    """
    how = LockstepOptions(options.float64, shared_stream=algorithm != "ppo", level=LEVEL)
    found = []
    for name in options.frameworks.split(","):
        whole = make_lockstep_side(name, NO_INTERVENTION, algorithm, LEVEL.name)
        for item in whole.interventions:
            if f"{name}: {item.name}" in known:
                continue
            left_out = f"{LEAVE_OUT_PREFIX}{item.name}"
            other = make_lockstep_side(name, left_out, algorithm, LEVEL.name)
            result = _compare_without(whole, other, algorithm, options.updates, how)
            found.append({"left_out": f"{name}: {item.name}", **result})
            print(f"{algorithm} {found[-1]}", flush=True)
    return found


def _compare_without(
    whole: LockstepSide, other: LockstepSide, algorithm: str, updates: int, how: LockstepOptions
) -> dict[str, Any]:
    try:
        result = compare_implementations(whole, other, algorithm, updates, options=how)
    except SpecError as error:
        return {"updates": 0, "point": f"not compared: {error}", "probes": []}
    probes = list_changed_probes(whole, other, algorithm) if result.is_equal else result.probes
    return {
        "updates": result.distances[-1].updates,
        "point": "" if result.divergence_point is None else str(result.divergence_point),
        "variant": result.variant,
        "probes": list(probes),
        "equal": result.is_equal,
    }


def list_changed_probes(whole: LockstepSide, other: LockstepSide, algorithm: str) -> list[str]:
    """Return the probes of an algorithm that two implementations answer differently.

    They vary the settings that the lockstep training fixes, such as the bounds of actions, the
    schedule of the learning rate and the limit of the KL divergence.
    """
    caches = [
        ExperimentCache(load_adapter(side.framework), 0, side.interventions, LEVEL)
        for side in (whole, other)
    ]
    changed = []
    for probe in catalogue.sort_probes(algorithm):
        answers = [catalogue.measure_answer(cache, probe) for cache in caches]
        known = [answer for answer in answers if answer is not None and not answer.unmeasured]
        if len(known) == len(answers) and not is_same_answer(probe, *known):
            changed.append(probe.name)
    return changed


def _compare_pair(
    trainings: LockstepTrainings, one: int, other: int, lengths: Sequence[int], copied: int
) -> dict[str, Any]:
    distances = trainings.measure_distances(one, other, lengths, copied)
    found: dict[str, Any] = {
        "first": trainings.sides[one].framework,
        "second": trainings.sides[other].framework,
        "distances": [item.to_dict() for item in distances],
    }
    divergence = next((item for item in distances if not item.is_rounding), None)
    if divergence is not None:
        point, probes = trainings.explain_divergence(one, other, divergence.updates)
        found |= {"point": "" if point is None else str(point), "probes": list(probes)}
    return found


def render_table(measured: Mapping[str, Any]) -> str:
    """Return a Markdown table with one row per pair and algorithm."""
    rows = [
        "| algorithm | pair | updates | largest difference | copies, one bit apart | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for name, content in measured.items():
        for pair in content["pairs"]:
            distances = [WeightDistance.from_dict(item) for item in pair["distances"]]
            worst = max(item.difference for item in distances)
            rows.append(
                f"| {name} | {pair['first']}, {pair['second']} | {content['updates']} | "
                f"{worst:.1g} | {distances[-1].rounding:.1g} | {_format_verdict(pair, distances)} |"
            )
        rows += [
            f"| {name} | {framework} | - | - | - | not compared: {why} |"
            for framework, why in content["refused"].items()
        ]
    return "\n".join(rows)


def _format_verdict(pair: Mapping[str, Any], distances: Sequence[WeightDistance]) -> str:
    diverged = next((item for item in distances if not item.is_rounding), None)
    if diverged is not None:
        where = f": {pair['point']}" if pair.get("point") else ""
        probes = ", ".join(f"`{name}`" for name in pair.get("probes", ()))
        return f"differ at update {diverged.updates}{where}" + (f" ({probes})" if probes else "")
    if not any(item.difference for item in distances):
        return "equal to the last bit"
    if all(item.is_within_perturbation for item in distances):
        return "equal, no further apart than the copies"
    return "equal to rounding"


def render_page(measured: Mapping[str, Any]) -> str:
    """Return the documentation page with all pairs."""
    pairs = [pair for content in measured.values() for pair in content["pairs"]]
    equal = sum(
        all(WeightDistance.from_dict(item).is_rounding for item in pair["distances"])
        for pair in pairs
    )
    return "\n".join(
        (
            "# Lockstep training of all pairs\n",
            "This page shows for each pair of frameworks whether both compute the same updates, "
            "if the known differences of the update are removed.\n",
            f"{equal} of {len(pairs)} comparisons at `alignment=lockstep` are equal to rounding. "
            "The table has the largest difference over all compared updates, as a share of the "
            "largest weight of a network. *Copies*: two copies of the first framework that start "
            "one bit apart. [Lockstep training](../how-to/lockstep.md) explains what equal means, "
            "and [Alignment](../explanation/alignment.md#reference-forms) the reference forms.\n",
            _COMMANDS,
            render_table(measured) + "\n",
            f"Not compared: {_list_missing_pairs(measured)}.\n",
            _LIMITS,
            *([_NECESSITY, render_necessity(measured) + "\n"] if _has_necessity(measured) else []),
        )
    )


def render_forms(measured: Mapping[str, Any]) -> str:
    """Return algorithm, framework and interventions of implementations equal to all others."""
    lines = {"algorithm,framework,interventions": None}
    for name, content in measured.items():
        algorithm = name.partition(",")[0]
        for framework, changes in content["sides"].items():
            own = [
                pair["distances"]
                for pair in content["pairs"]
                if framework in (pair["first"], pair["second"])
            ]
            distances = [WeightDistance.from_dict(item) for pair in own for item in pair]
            if own and all(item.is_rounding for item in distances):
                text = INTERVENTION_SEPARATOR.join(sorted(changes)) or NO_INTERVENTION
                lines[f"{algorithm},{framework},{text}"] = None
    return "\n".join(lines) + "\n"


def _has_necessity(measured: Mapping[str, Any]) -> bool:
    return any("necessity" in content for content in measured.values())


def render_necessity(measured: Mapping[str, Any]) -> str:
    """Return a table with one row per intervention of a reference form that was left out."""
    rows = ["| algorithm | left out | first difference | probes |", "|---|---|---|---|"]
    for name, content in measured.items():
        for item in content.get("necessity", ()):
            where = item["point"] or f"update {item['updates']}"
            if item.get("variant"):
                where += f" (with {item['variant']})"
            if item.get("equal"):
                where = f"none in {item['updates']} updates of this training"
            probes = ", ".join(f"`{probe}`" for probe in item["probes"]) or "-"
            rows.append(f"| {name} | {item['left_out']} | {where} | {probes} |")
    return "\n".join(rows)


def _list_missing_pairs(measured: Mapping[str, Any]) -> str:
    done = {
        (name.partition(",")[0], frozenset((pair["first"], pair["second"])))
        for name, content in measured.items()
        for pair in content["pairs"]
    }
    missing = [
        f"{algorithm} of {one} and {other}"
        for algorithm in EXPERIMENT_BUILDERS
        for one, other in itertools.combinations(FRAMEWORKS, 2)
        if (algorithm, frozenset((one, other))) not in done
    ]
    return "; ".join(missing) or "none"


def draw_figure(measured: Mapping[str, Any]) -> str:
    """Return a figure with one panel per algorithm and one line per pair, as SVG."""
    return render_distance_panels(
        {
            name: {
                f"{pair['first']}, {pair['second']}": [
                    WeightDistance.from_dict(item) for item in pair["distances"]
                ]
                for pair in content["pairs"]
            }
            for name, content in measured.items()
        }
    )


def render_distance_panels(distances: Mapping[str, Mapping[str, Sequence[WeightDistance]]]) -> str:
    """Return a figure with one panel per algorithm and one line per pair.

    Args:
        distances: By algorithm and name of the pair; rounding is drawn for the first pair.
    """
    import matplotlib as mpl  # takes a second
    from matplotlib.figure import Figure

    from parallax.harness.probes.figures import COLORS, STYLE, figure_to_svg

    names = dict.fromkeys(name for pairs in distances.values() for name in pairs)
    colors = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(2.2 * len(distances), 2.6), layout="constrained")
        axes = drawn.subplots(1, len(distances), sharey=True, squeeze=False)[0]
        for ax, (algorithm, pairs) in zip(axes, distances.items(), strict=True):
            plot_rounding(ax, next(iter(pairs.values())), "copies that differ in one bit")
            for name, line in pairs.items():
                plot_distance(ax, line, name, colors[name])
            ax.set_title(algorithm)
            ax.set_xlabel("updates")
        axes[0].set_ylabel(DISTANCE_LABEL)
        handles = {
            label: handle
            for ax in axes
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
        }
        drawn.legend(
            handles.values(), handles.keys(), fontsize=6, loc="outside lower center", ncols=5
        )
        return figure_to_svg(drawn)


if __name__ == "__main__":
    raise SystemExit(main())
