"""All tasks at once: aggregates, profiles and probability of improvement per framework."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.groups import Group
from analysis.normalise import Scale, scales
from analysis.options import Options
from analysis.stats.aggregates import Aggregates, aggregate
from analysis.stats.moments import Floats
from analysis.stats.profiles import Improvement, Profiles, improvement, profile

THRESHOLDS = 81
TOP = 2.0


@dataclasses.dataclass(frozen=True, eq=False)
class Overall:
    """The frameworks of one algorithm and set of hyperparameters over all tasks.

    Attributes:
        study: Name of the study.
        algorithm: Algorithm.
        hps: Hyperparameters.
        variant: What else is held equal.
        tasks: The tasks that went in: those in which every framework listed has a run.
        aggregates: Per framework; normalised scores.
        profiles: Per framework, at 81 thresholds from 0 to 2.
        improvement: Per pair of frameworks.
        scales: What counted as 0 and 1 in each task.
        left_out: Tasks and frameworks that did not go in, with the reason.
    """

    study: str
    algorithm: str
    hps: str
    variant: str
    tasks: tuple[str, ...]
    aggregates: Aggregates
    profiles: Profiles
    improvement: Improvement
    scales: Mapping[str, Scale]
    left_out: tuple[str, ...]


def overall(
    groups: Sequence[Group], options: Options, normalisation: str = "reference"
) -> tuple[Overall, ...]:
    """Aggregates for every algorithm, set of hyperparameters and variant with runs.

    Args:
        groups: Final scores; those without single seeds are passed over.
        options: Holds resamples and their seed.
        normalisation: One of `analysis.normalise.KINDS`.
    """
    usable = [group for group in groups if group.scores is not None and group.n]
    known = scales(usable, normalisation)
    found: dict[tuple[str, str, str, str], list[Group]] = collections.defaultdict(list)
    for group in usable:
        cell = group.cell
        found[cell.study, cell.algorithm, cell.hps, cell.variant].append(group)
    results = (_overall(key, found[key], known, options) for key in sorted(found))
    return tuple(result for result in results if result is not None)


def _overall(
    key: tuple[str, str, str, str],
    groups: Sequence[Group],
    known: Mapping[str, Scale],
    options: Options,
) -> Overall | None:
    table: dict[str, dict[str, Group]] = collections.defaultdict(dict)
    for group in groups:
        table[group.cell.env][group.framework] = group
    names = sorted({group.framework for group in groups})
    left_out = [f"{env}: no scale is known" for env in sorted(table) if env not in known]
    for env in sorted(set(table) & set(known)):
        lacking = [name for name in names if name not in table[env]]
        left_out += [f"{env}: no run of {', '.join(lacking)}"] if lacking else []
    tasks = [env for env in sorted(table) if env in known and len(table[env]) == len(names)]
    if not tasks:
        return None
    scores = {name: [_normalised(table[env][name], known[env]) for env in tasks] for name in names}
    rng = np.random.default_rng(options.seed)
    return Overall(
        *key,
        tuple(tasks),
        aggregate(scores, rng, options.resamples),
        profile(scores, np.linspace(0, TOP, THRESHOLDS), rng, options.resamples),
        improvement(scores, rng, options.resamples),
        {env: known[env] for env in tasks},
        tuple(left_out),
    )


def _normalised(group: Group, scale: Scale) -> Floats:
    assert group.scores is not None
    return (group.scores - scale.zero) / (scale.one - scale.zero)
