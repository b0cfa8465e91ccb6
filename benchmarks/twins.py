"""Every pair of implementations in a common form: is any difference left between them?

`python benchmarks/twins.py --algorithms td3 --until 2000 --output FILE` takes away, by
interventions, whatever is known to make each implementation differ from the others, trains each
once, and tells for every pair how far apart their weights are behind more and more updates, beside
two copies of the first of the pair that began one bit apart. `--without NAME` leaves one
intervention out. What FILE holds of an algorithm is replaced, so that algorithms can be measured
one at a time; `--report` only prints the table, `--figure` draws it.
"""

import argparse
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.run_spec import INTERVENTION_SEPARATOR, NO_INTERVENTION
from parallax.harness.interventions.catalogue import resolve_interventions
from parallax.harness.lockstep.comparison import (
    LockstepOptions,
    LockstepSide,
    LockstepTrainings,
    WeightDistance,
    list_update_counts,
)
from parallax.harness.lockstep.experiments import EXPERIMENT_BUILDERS, UPDATES_PER_CYCLE
from parallax.harness.record.files import write_text

FRAMEWORKS = ("sb3", "cleanrl", "tianshou", "torchrl")
FORMS: Mapping[str, Mapping[str, str]] = {
    "ppo": {
        "cleanrl": "value-loss-x1",
        "tianshou": "no-advantage-recompute",
        "torchrl": "unsquashed-gaussian+no-advantage-recompute",
    },
    "td3": {"tianshou": "target-action-within-bounds+delay-from-the-second-update"},
    "sac": {
        "sb3": "critic-loss-x1+exact-squash-correction",
        "cleanrl": "clamp-log-std+temperature-reuses-actor-sample+exact-squash-correction",
        "tianshou": "exact-squash-correction",
        "torchrl": "sequential-updates+clamp-log-std",
    },
    "ddpg": {"torchrl": "critic-before-policy"},
    "dqn": {"sb3": "mse-loss"},
}
"""What is changed of each, so that all are the same; nothing of those that are not named."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and reports."""
    options = _parser().parse_args(arguments)
    found: dict[str, Any] = (
        json.loads(options.output.read_text()) if options.output.exists() else {}
    )
    if not options.report:
        for algorithm in options.algorithms.split(","):
            name = f"{algorithm}, float32" if options.float32 else algorithm
            found[name] = measure(algorithm, options)
            write_text(options.output, json.dumps(found, indent=1) + "\n")
    print(table(found))
    if options.figure:
        write_text(options.figure, figure(found))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="FILE", help="JSON, by algorithm")
    add("--algorithms", default=",".join(EXPERIMENT_BUILDERS), metavar="A,B")
    add("--frameworks", default=",".join(FRAMEWORKS), metavar="A,B")
    add("--until", type=int, default=2000)
    add(
        "--float32",
        action="store_true",
        help="train in float32: Stable-Baselines3's PPO keeps its rollouts so, and is nobody's "
        "equal in float64",
    )
    add("--without", default="", metavar="NAME", help="an intervention that is left out")
    add("--report", action="store_true", help="only print the table")
    add("--figure", type=Path, metavar="FILE", help="draw it, as SVG")
    return parser


def measure(algorithm: str, options: argparse.Namespace) -> dict[str, Any]:
    """Distances of all pairs of one algorithm, as plain data."""
    started = time.process_time()
    sides = [_side(name, algorithm, options.without) for name in options.frameworks.split(",")]
    how = LockstepOptions(float64=not options.float32, shared_stream=algorithm != "ppo")
    siblings = LockstepTrainings(sides, algorithm, how)
    lengths = list_update_counts(options.until, UPDATES_PER_CYCLE.get(algorithm, 1))
    pairs = [
        {
            "first": sides[one].label,
            "second": sides[other].label,
            "distances": [
                item.to_dict() for item in siblings.measure_distances(one, other, lengths)
            ],
        }
        for one, other in itertools.combinations(range(len(sides)), 2)
    ]
    return {
        "until": lengths[-1],
        "shared": how.shared_stream,
        "seconds": round(time.process_time() - started, 1),
        "pairs": pairs,
    }


def _side(framework: str, algorithm: str, without: str) -> LockstepSide:
    form = FORMS[algorithm].get(framework, "")
    names = [name for name in form.split(INTERVENTION_SEPARATOR) if name and name != without]
    return LockstepSide(
        framework,
        resolve_interventions(
            INTERVENTION_SEPARATOR.join(names) or NO_INTERVENTION,
            load_adapter(framework),
            algorithm,
        ),
    )


def table(found: Mapping[str, Any]) -> str:
    """A row per algorithm and pair, in Markdown."""
    rows = [
        "| algorithm | pair | updates | apart at the end | copies, one bit apart | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for algorithm, measured in found.items():
        for pair in measured["pairs"]:
            distances = [WeightDistance.from_dict(item) for item in pair["distances"]]
            names = ", ".join(
                pair[side].partition(INTERVENTION_SEPARATOR)[0] for side in ("first", "second")
            )
            last = distances[-1]
            rows.append(
                f"| {algorithm} | {names} | {last.updates} | {last.difference:.1g} | "
                f"{last.rounding:.1g} | {verdict(distances)} |"
            )
    return "\n".join(rows)


def verdict(distances: Sequence[WeightDistance]) -> str:
    """What the distances of a pair say, in some words."""
    parted = next((item for item in distances if not item.is_rounding), None)
    if parted is not None:
        return f"part at {parted.updates}: {parted.network} by {parted.difference:.1g}"
    if not any(item.difference for item in distances):
        return "equal to the last bit"
    if all(item.is_within_perturbation for item in distances):
        return "equal, no further apart than the copies"
    return "equal to rounding"


def figure(found: Mapping[str, Any]) -> str:
    """A panel per algorithm: all pairs, and the copies, over the updates; SVG."""
    from parallax.harness.lockstep.figure import (
        render_distance_panels,  # a plotting library takes a second
    )

    return render_distance_panels(
        {
            algorithm: {
                ", ".join(
                    pair[side].partition(INTERVENTION_SEPARATOR)[0] for side in ("first", "second")
                ): [WeightDistance.from_dict(item) for item in pair["distances"]]
                for pair in measured["pairs"]
            }
            for algorithm, measured in found.items()
        }
    )


if __name__ == "__main__":
    raise SystemExit(main())
