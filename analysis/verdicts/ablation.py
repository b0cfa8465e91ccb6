"""What each change of one thing does to the return, and how much of a gap it explains."""

import collections
import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.data.runs import Cell, Excluded, Loaded, Run
from analysis.stats.moments import Floats
from analysis.stats.paired import Paired, paired, sign_flips
from analysis.stats.pairwise import holm
from analysis.stats.ratio import Ratio, ratio_of_means
from analysis.verdicts.consistency import EQUIVALENT, PairVerdict, judge_family
from analysis.verdicts.groups import Group, group_of
from analysis.verdicts.options import Options

NONE, JOINT = "none", "+"
CHANGES, NO_EFFECT, UNDECIDED, TOO_FEW = "changes", "no effect", "undecided", "too few pairs"
_PART = re.compile(r"(^|,)intervention=([^,]+)")


@dataclasses.dataclass(frozen=True, eq=False)
class Gap:
    """How far another framework is from the one that is changed.

    Attributes:
        other: The other framework.
        result: Its return less that of the framework as it is, over the seeds of both.
        seeds: These seeds.
        group: Runs of the other framework as it is.
    """

    other: str
    result: Paired
    seeds: tuple[int, ...]
    group: Group


@dataclasses.dataclass(frozen=True, eq=False)
class Effect:
    """One intervention, or several made together, in one setting.

    Attributes:
        name: As on the command line.
        changed: Runs with it.
        plain: Runs of the framework as it is.
        seeds: Seeds of both, which the test pairs.
        result: Return with it less that without.
        p_holm: Its p-value after Holm's correction over the family.
        family_size: Tests in the family: all effects on one framework and algorithm in a study.
        verdict: `changes`, `no effect` (within the margin of equivalence, at the same level),
            `undecided`, or `too few pairs`.
        pair: The same two as a verdict that does not pair, with margin and failed runs.
        shares: By the other framework: which part of the gap to it the effect is.
        p_flips: p-value of the same by flipping signs, not corrected.
        p_flips_holm: The same after Holm's correction over the family.
    """

    name: str
    changed: Group
    plain: Group
    seeds: tuple[int, ...]
    result: Paired
    p_holm: float
    family_size: int
    verdict: str
    pair: PairVerdict
    shares: Mapping[str, Ratio]
    p_flips: float
    p_flips_holm: float


@dataclasses.dataclass(frozen=True, eq=False)
class Ablation:
    """All changes of one framework in one setting.

    Attributes:
        cell: The setting, its variant without the intervention.
        framework: The framework that is changed.
        gaps: Distances to other frameworks as they are.
        effects: Of single interventions, the largest first, then of several together.
    """

    cell: Cell
    framework: str
    gaps: tuple[Gap, ...]
    effects: tuple[Effect, ...]

    @property
    def singles(self) -> tuple[Effect, ...]:
        """Effects of one intervention each."""
        return tuple(effect for effect in self.effects if JOINT not in effect.name)

    @property
    def together(self) -> tuple[Effect, ...]:
        """Effects of several interventions at once."""
        return tuple(effect for effect in self.effects if JOINT in effect.name)

    def sum_of(self, effect: Effect) -> float | None:
        """What the single effects of its parts add up to; None where one was not measured."""
        known = {single.name: single.result.difference for single in self.singles}
        parts = effect.name.split(JOINT)
        return sum(known[part] for part in parts) if all(part in known for part in parts) else None


def ablations(loaded: Loaded, options: Options) -> tuple[Ablation, ...]:
    """Every framework and setting that was trained as it is and with an intervention.

    Args:
        loaded: All runs.
        options: Level, margin and ranges.
    """
    return effects_between(_groups(loaded), "interventions", options)


def effects_between(
    groups: Mapping[tuple[Cell, str, str], Group], changes: str, options: Options
) -> tuple[Ablation, ...]:
    """Every framework and setting with runs that are as they are and runs that are changed.

    Args:
        groups: By setting, framework and the change's name, which is `NONE` for no change.
        changes: What the changes are called together.
        options: Level, margin and ranges.
    """
    settings = sorted({(cell, framework) for cell, framework, name in groups if name != NONE})
    pairs: dict[tuple[Cell, str], list[tuple[str, Group, Group]]] = {}
    for cell, framework in settings:
        plain = groups.get((cell, framework, NONE))
        if plain is None or not plain.n:
            continue
        found = [
            (name, group, plain)
            for (where, whose, name), group in groups.items()
            if (where, whose) == (cell, framework) and name != NONE and group.n
        ]
        if found:
            pairs[cell, framework] = found
    families: dict[tuple[str, str, str], list[tuple[Cell, str]]] = collections.defaultdict(list)
    for cell, framework in pairs:
        families[cell.study, cell.algorithm, framework].append((cell, framework))
    results = [
        item
        for (study, algorithm, framework), places in sorted(families.items())
        for item in _family(
            f"{changes} on {framework}'s {algorithm} in study {study}",
            {place: pairs[place] for place in places},
            groups,
            options,
        )
    ]
    return tuple(results)


def _family(
    name: str,
    places: Mapping[tuple[Cell, str], Sequence[tuple[str, Group, Group]]],
    groups: Mapping[tuple[Cell, str, str], Group],
    options: Options,
) -> list[Ablation]:
    flat = [(place, *found) for place, members in places.items() for found in members]
    items = judge_family([(changed, plain) for _, _, changed, plain in flat], name, options)
    tests = [_paired(changed, plain) for _, _, changed, plain in flat]
    p_holm = holm([result.p for _, result in tests])
    flips = [
        _flips(seeds, changed, plain, options)
        for (seeds, _), (_, _, changed, plain) in zip(tests, flat, strict=True)
    ]
    flips_holm = holm(flips)
    size = sum(not math.isnan(result.p) for _, result in tests)
    effects: dict[tuple[Cell, str], list[Effect]] = collections.defaultdict(list)
    for i, (place, intervention, changed, plain) in enumerate(flat):
        seeds, result = tests[i]
        effects[place].append(
            Effect(
                name=intervention,
                changed=changed,
                plain=plain,
                seeds=seeds,
                result=result,
                p_holm=float(p_holm[i]),
                family_size=size,
                verdict=_verdict(result, float(p_holm[i]), items[i], options),
                pair=items[i],
                shares={
                    other: share
                    for other, group in _others(groups, *place).items()
                    if (share := _share(changed, plain, group)) is not None
                },
                p_flips=flips[i],
                p_flips_holm=float(flips_holm[i]),
            )
        )
    return [
        Ablation(
            cell,
            framework,
            tuple(
                Gap(other, *_paired(group, members[0].plain)[::-1], group)
                for other, group in _others(groups, cell, framework).items()
                if _paired(group, members[0].plain)[0]
            ),
            tuple(sorted(members, key=_order)),
        )
        for (cell, framework), members in effects.items()
    ]


def _order(effect: Effect) -> tuple[bool, float, str]:
    return JOINT in effect.name, -abs(effect.result.difference), effect.name


def _verdict(result: Paired, p_holm: float, item: PairVerdict, options: Options) -> str:
    if result.n < 2:
        return TOO_FEW
    if item.verdict == EQUIVALENT:
        return NO_EFFECT
    return CHANGES if p_holm < options.alpha else UNDECIDED


def _others(
    groups: Mapping[tuple[Cell, str, str], Group], cell: Cell, framework: str
) -> dict[str, Group]:
    return {
        whose: group
        for (where, whose, name), group in groups.items()
        if where == cell and whose != framework and name == NONE and group.n
    }


def _paired(first: Group, second: Group) -> tuple[tuple[int, ...], Paired]:
    one, two = _by_seed(first), _by_seed(second)
    seeds = tuple(sorted(one.keys() & two.keys()))
    if not seeds:
        return (), Paired(0, math.nan, *[math.nan] * 4)
    a, b = _scores(seeds, first, second)
    return seeds, paired(a, b)


def _flips(seeds: Sequence[int], changed: Group, plain: Group, options: Options) -> float:
    first, second = _scores(seeds, changed, plain)
    return sign_flips(first, second, np.random.default_rng(options.seed))


def _scores(seeds: Sequence[int], *groups: Group) -> list[Floats]:
    return [np.array([found[seed] for seed in seeds]) for found in map(_by_seed, groups)]


def _share(changed: Group, plain: Group, other: Group) -> Ratio | None:
    groups = changed, plain, other
    seeds = sorted(set.intersection(*(set(_by_seed(group)) for group in groups)))
    if not seeds:
        return None
    a, b, c = _scores(seeds, *groups)
    return ratio_of_means(a - b, c - b)


def _by_seed(group: Group) -> dict[int, float]:
    return {run.id.seed: run.final_score for run in group.runs if run.id.seed is not None}


def _groups(loaded: Loaded) -> dict[tuple[Cell, str, str], Group]:
    found: dict[tuple[Cell, str, str], list[Run | Excluded]] = collections.defaultdict(list)
    known = {
        _asked(item): item.id.cell.variant
        for item in loaded.folders
        if isinstance(item, Run) and item.spec.get("intervention", NONE) == NONE
    }
    for item in loaded.folders:
        cell, name = _setting(item, known)
        found[cell, item.id.framework, name].append(item)
    return {
        key: group_of(key[0], key[1] if key[2] == NONE else f"{key[1]}{JOINT}{key[2]}", items)
        for key, items in sorted(found.items())
    }


def _setting(item: Run | Excluded, known: Mapping[str, str]) -> tuple[Cell, str]:
    """The setting without the intervention, and the intervention.

    Args:
        item: A run.
        known: Variants of runs as they are, by what was asked for: a long variant is shortened to
            a digest, from which the intervention cannot be taken out.
    """
    cell = item.id.cell
    match = _PART.search(cell.variant)
    told = item.spec.get("intervention") if isinstance(item, Run) else None
    name = str(told or (match[2] if match else NONE))
    variant = _PART.sub("", cell.variant).strip(",")
    if isinstance(item, Run) and name != NONE:
        variant = known.get(_asked(item), variant)
    return dataclasses.replace(cell, variant=variant), name


def _asked(run: Run) -> str:
    """All that was asked for, but for the intervention, the framework and the seed."""
    apart = ("intervention", "framework", "seed")
    asked = {name: value for name, value in run.spec.items() if name not in apart}
    return json.dumps([dataclasses.astuple(run.id.cell)[:4], asked], sort_keys=True, default=str)
