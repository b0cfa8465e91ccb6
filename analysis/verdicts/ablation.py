"""Ablation verdicts: the effect of each intervention on the return, and its share of a gap."""

import collections
import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.data.runs import CompletedRun, ExcludedRun, LoadedRuns, StudyCell
from parallax.analysis.data.settings import serialize_settings
from parallax.analysis.labels import group_items
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.two_sample import (
    NO_PAIRS,
    MeanRatio,
    PairedDifference,
    compute_paired_difference,
    compute_ratio_of_means,
    compute_sign_flip_p,
)
from parallax.analysis.verdicts.consistency import PairVerdict, judge_family
from parallax.analysis.verdicts.endpoints import settle_options
from parallax.analysis.verdicts.groups import GroupKey, ScoreGroup, align_by_seed, make_group
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import EQUIVALENT

NO_CHANGE, JOINT_SEPARATOR = "none", "+"
CHANGES, NO_EFFECT, INCONCLUSIVE, TOO_FEW_PAIRS = (
    "changes",
    "no effect",
    "inconclusive",
    "too few pairs",
)
_INTERVENTION_PART = re.compile(r"(^|,)intervention=([^,]+)")


@dataclasses.dataclass(frozen=True, eq=False)
class FrameworkGap:
    """Gap between another framework and the one that is changed.

    Attributes:
        result: Return of the other - that of the unchanged framework, over shared seeds.
    """

    other: str
    result: PairedDifference
    seeds: tuple[int, ...]
    group: ScoreGroup


@dataclasses.dataclass(frozen=True, eq=False)
class InterventionEffect:
    """Effect of one intervention, or of several together, in one setting.

    Attributes:
        name: Name on the command line.
        seeds: Seeds of both, which the test pairs.
        result: Return with the intervention - return without, and the paired t test.
        p_holm: p-value of `result` after Holm's correction over the family.
        family_size: Tests in the family: all effects on one framework and algorithm in a study.
        verdict: `changes`, `no effect` (within the margin of equivalence, at the same level),
            `inconclusive`, or `too few pairs`.
        pair: Unpaired consistency verdict on both, with margin and failed runs.
        shares: Effect as a share of the gap to each other framework.
        p_sign_flips: Uncorrected p-value of the sign-flip permutation test.
        p_sign_flips_holm: `p_sign_flips` after Holm's correction over the family.
    """

    name: str
    changed: ScoreGroup
    baseline: ScoreGroup
    seeds: tuple[int, ...]
    result: PairedDifference
    p_holm: float
    family_size: int
    verdict: str
    pair: PairVerdict
    shares: Mapping[str, MeanRatio]
    p_sign_flips: float
    p_sign_flips_holm: float


@dataclasses.dataclass(frozen=True, eq=False)
class AblationVerdict:
    """All interventions on one framework in one setting.

    Attributes:
        cell: The setting, its variant without the intervention.
        effects: Of single interventions, the largest first, then of several together.
    """

    cell: StudyCell
    framework: str
    gaps: tuple[FrameworkGap, ...]
    effects: tuple[InterventionEffect, ...]
    score_name: str = "final return"

    @property
    def single_effects(self) -> tuple[InterventionEffect, ...]:
        """Effects of one intervention each."""
        return tuple(effect for effect in self.effects if JOINT_SEPARATOR not in effect.name)

    @property
    def joint_effects(self) -> tuple[InterventionEffect, ...]:
        """Effects of several interventions at once."""
        return tuple(effect for effect in self.effects if JOINT_SEPARATOR in effect.name)

    def list_part_effects(self, effect: InterventionEffect) -> list[InterventionEffect]:
        """Return the single effects of its parts; an empty list if one was not measured."""
        known = {single.name: single for single in self.single_effects}
        parts = effect.name.split(JOINT_SEPARATOR)
        return [known[part] for part in parts] if all(part in known for part in parts) else []

    def sum_single_effects(self, effect: InterventionEffect) -> float | None:
        """Return the sum of the single effects of its parts; None if one was not measured."""
        parts = self.list_part_effects(effect)
        return sum(part.result.difference for part in parts) if parts else None


def judge_ablations(loaded: LoadedRuns, options: VerdictOptions) -> tuple[AblationVerdict, ...]:
    """Judge every framework and setting that was trained with and without an intervention."""
    options = settle_options(loaded, options)
    return judge_effects(_group_by_intervention(loaded, options), "interventions", options)


def judge_effects(
    groups: Mapping[tuple[StudyCell, str, str], ScoreGroup], changes: str, options: VerdictOptions
) -> tuple[AblationVerdict, ...]:
    """Judge every framework and setting with changed and unchanged runs.

    Groups are by setting, framework and name of the change, `NO_CHANGE` for none. `changes` is the
    noun for them, in the name of the family.
    """
    plain = {
        (cell, framework): group
        for (cell, framework, name), group in groups.items()
        if name == NO_CHANGE and group.n
    }
    changed = [
        ((cell, framework), name, group)
        for (cell, framework, name), group in groups.items()
        if name != NO_CHANGE and group.n and (cell, framework) in plain
    ]
    families = group_items(
        sorted(changed, key=lambda item: item[0]),
        lambda item: (item[0][0].study, item[0][0].algorithm, item[0][1]),
    )
    return tuple(
        item
        for study, algorithm, framework in sorted(families)
        for item in _judge_effect_family(
            f"{changes} on {framework}'s {algorithm} in study {study}",
            families[study, algorithm, framework],
            plain,
            options,
        )
    )


def _judge_effect_family(
    name: str,
    members: Sequence[tuple[GroupKey, str, ScoreGroup]],
    plain: Mapping[GroupKey, ScoreGroup],
    options: VerdictOptions,
) -> list[AblationVerdict]:
    """Judge changed groups, each with its setting, framework and name of the change."""
    pairs = [(changed, plain[key]) for key, _, changed in members]
    verdicts = judge_family(pairs, name, options)
    tests = [_compare_by_seed(*pair) for pair in pairs]
    p_holm = adjust_holm([result.p for _, result in tests])
    flips = [_compute_flip_p(*pair, options) for pair in pairs]
    flips_holm = adjust_holm(flips)
    size = sum(not math.isnan(result.p) for _, result in tests)
    effects: dict[GroupKey, list[InterventionEffect]] = collections.defaultdict(list)
    for i, (key, intervention, changed) in enumerate(members):
        seeds, result = tests[i]
        effects[key].append(
            InterventionEffect(
                name=intervention,
                changed=changed,
                baseline=plain[key],
                seeds=seeds,
                result=result,
                p_holm=float(p_holm[i]),
                family_size=size,
                verdict=_decide_verdict(result, float(p_holm[i]), verdicts[i], options),
                pair=verdicts[i],
                shares=_compute_gap_shares(changed, key, plain),
                p_sign_flips=flips[i],
                p_sign_flips_holm=float(flips_holm[i]),
            )
        )
    return [
        AblationVerdict(
            *key,
            _list_gaps(key, plain),
            tuple(sorted(found, key=_get_sort_key)),
            options.chosen_endpoint.short_name,
        )
        for key, found in effects.items()
    ]


def _find_others(
    key: GroupKey, plain: Mapping[GroupKey, ScoreGroup]
) -> list[tuple[str, ScoreGroup]]:
    """Return the other frameworks in a setting, unchanged."""
    cell, framework = key
    return [
        (name, group)
        for (place, name), group in plain.items()
        if place == cell and name != framework
    ]


def _get_sort_key(effect: InterventionEffect) -> tuple[bool, float, str]:
    return JOINT_SEPARATOR in effect.name, -abs(effect.result.difference), effect.name


def _decide_verdict(
    result: PairedDifference, p_holm: float, item: PairVerdict, options: VerdictOptions
) -> str:
    if result.n < 2:
        return TOO_FEW_PAIRS
    if item.verdict == EQUIVALENT:
        return NO_EFFECT
    return CHANGES if p_holm < options.alpha else INCONCLUSIVE


def _compare_by_seed(
    first: ScoreGroup, second: ScoreGroup
) -> tuple[tuple[int, ...], PairedDifference]:
    seeds, (one, two) = align_by_seed(first, second)
    return seeds, compute_paired_difference(one, two) if seeds else NO_PAIRS


def _compute_flip_p(changed: ScoreGroup, plain: ScoreGroup, options: VerdictOptions) -> float:
    _, (first, second) = align_by_seed(changed, plain)
    return compute_sign_flip_p(first, second, np.random.default_rng(options.seed))


def _list_gaps(key: GroupKey, plain: Mapping[GroupKey, ScoreGroup]) -> tuple[FrameworkGap, ...]:
    """Return the gaps to the other frameworks in a setting that share a seed."""
    gaps = []
    for other, group in _find_others(key, plain):
        seeds, result = _compare_by_seed(group, plain[key])
        if seeds:
            gaps.append(FrameworkGap(other, result, seeds, group))
    return tuple(gaps)


def _compute_gap_shares(
    changed: ScoreGroup, key: GroupKey, plain: Mapping[GroupKey, ScoreGroup]
) -> dict[str, MeanRatio]:
    """Return the effect of a change as a share of the gap to each other framework."""
    shares = {}
    for other, group in _find_others(key, plain):
        seeds, (with_change, without, theirs) = align_by_seed(changed, plain[key], group)
        if seeds:
            shares[other] = compute_ratio_of_means(with_change - without, theirs - without)
    return shares


def _group_by_intervention(
    loaded: LoadedRuns, options: VerdictOptions
) -> dict[tuple[StudyCell, str, str], ScoreGroup]:
    found: dict[tuple[StudyCell, str, str], list[CompletedRun | ExcludedRun]] = (
        collections.defaultdict(list)
    )
    known = {
        _serialize_setting(item): item.id.cell.variant
        for item in loaded.folders
        if isinstance(item, CompletedRun) and item.spec.get("intervention", NO_CHANGE) == NO_CHANGE
    }
    for item in loaded.folders:
        cell, name = _split_intervention(item, known)
        found[cell, item.id.framework, name].append(item)
    return {
        key: make_group(
            key[0],
            key[1] if key[2] == NO_CHANGE else f"{key[1]}{JOINT_SEPARATOR}{key[2]}",
            items,
            options,
        )
        for key, items in sorted(found.items())
    }


def _split_intervention(
    item: CompletedRun | ExcludedRun, known: Mapping[str, str]
) -> tuple[StudyCell, str]:
    """Split a run's setting into the one without intervention and the intervention's name.

    `known` has the variants of unchanged runs by their settings. A long variant is shortened to a
    digest, from which the intervention cannot be removed.
    """
    cell = item.id.cell
    match = _INTERVENTION_PART.search(cell.variant)
    name = str(item.spec.get("intervention") or (match[2] if match else NO_CHANGE))
    variant = _INTERVENTION_PART.sub("", cell.variant).strip(",")
    if item.spec and name != NO_CHANGE:
        variant = known.get(_serialize_setting(item), variant)
    return dataclasses.replace(cell, variant=variant), name


def _serialize_setting(run: CompletedRun | ExcludedRun) -> str:
    setting = serialize_settings(run.spec, without=("intervention", "framework", "seed"))
    return json.dumps([dataclasses.astuple(run.id.cell)[:4], setting])
