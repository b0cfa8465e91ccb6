"""Replay verdicts: effect on return, accuracy of priorities and cost of each replay strategy.

For R2D2 also the staleness of recurrent states in replay.
"""

import collections
import dataclasses
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.data import paper_tables
from parallax.analysis.data.replay_metrics import (
    LAG_THIRDS,
    LAGS,
    SEQUENCE_POSITIONS,
    UNIFORM,
    MetricSeries,
    RecurrentStateStrategy,
    ReplayMetrics,
    RunStaleness,
)
from parallax.analysis.data.runs import CompletedRun, ExcludedRun, StudyCell
from parallax.analysis.data.settings import (
    describe_result_versions,
    find_differing_settings,
    get_requested_values,
    serialize_settings,
)
from parallax.analysis.labels import group_items
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.stats.learning_curves import (
    StepsToThreshold,
    average_stages,
    compute_stage_means,
    compute_steps_to_threshold,
    normalize_by_human,
)
from parallax.analysis.stats.two_sample import (
    NO_PAIRS,
    MeanRatio,
    PairedDifference,
    compute_paired_difference,
    compute_ratio_of_means,
)
from parallax.analysis.verdicts import ablation
from parallax.analysis.verdicts.groups import ScoreGroup, align_by_seed, make_group
from parallax.analysis.verdicts.options import VerdictOptions

N_STAGES = 3
COST_PARTS = ("sampling", "priorities", "learning")
HELPS, HARMS, NO_DIFFERENCE, INCONCLUSIVE = "helps", "harms", "makes no difference", "inconclusive"
_STRATEGY_ORDER = (UNIFORM, "per", "rank", "atdc", "imp")
_ZERO_TOLERANCE = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class ReplayStrategyResult:
    """Results of one replay strategy of one framework in one setting.

    Attributes:
        group: Its runs, scored at their last evaluation.
        stages: Mean return at the end of each third of the run.
        errors: Mean absolute relative error of predicted priorities in each third, averaged within
            and then over runs; without values if nothing was recorded.
        weights: Mean weight of the losses of a minibatch, in the same way.
        seconds: CPU seconds of a minibatch by part of `COST_PARTS`, over runs.
        sweeps: CPU seconds of sweeps of the whole memory, spread over all minibatches.
        utilisation: Steps until the final mean score of uniform replay; None without that.
        gain: (final score - that of `per`) / |that of `per`|; None for `per` and `uniform`.
    """

    cell: StudyCell
    framework: str
    name: str
    group: ScoreGroup
    stages: tuple[ConfidenceInterval, ...]
    errors: tuple[ConfidenceInterval, ...]
    weights: tuple[ConfidenceInterval, ...]
    seconds: Mapping[str, ConfidenceInterval]
    sweeps: ConfidenceInterval
    utilisation: StepsToThreshold | None
    gain: MeanRatio | None

    @property
    def total(self) -> float:
        """CPU seconds of a minibatch, sum of all parts without sweeps."""
        return sum(part.mean for part in self.seconds.values())


@dataclasses.dataclass(frozen=True, eq=False)
class FrameworkAgreement:
    """Agreement of two frameworks on the effect of one replay strategy on one task.

    Attributes:
        words: Its effect in each, such as `helps`.
        difference: Its effect in the first - that in the second, over shared seeds.
        variants: Variant of each, without the strategy.
        hps: Hyperparameters of both.
    """

    study: str
    env: str
    algorithm: str
    name: str
    frameworks: tuple[str, str]
    words: tuple[str, str]
    difference: PairedDifference
    variants: tuple[str, str] = ("", "")
    hps: str = ""

    @property
    def verdict(self) -> str:
        """`agree`, `disagree` or `inconclusive`."""
        if INCONCLUSIVE in self.words:
            return INCONCLUSIVE
        return "agree" if self.words[0] == self.words[1] else "disagree"


@dataclasses.dataclass(frozen=True, eq=False)
class HumanScores:
    """Human-normalized scores of one framework and replay strategy over Atari games, in percent.

    Attributes:
        framework: The framework, or the publication.
        cell: The setting, without a task; None for a publication.
    """

    framework: str
    name: str
    games: int
    median: float
    mean: float
    cell: StudyCell | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class ReplayVerdicts:
    """All verdicts on replay strategies.

    Attributes:
        strategy_results: By setting, framework and replay strategy.
        effects: Effect of each strategy on the return, compared with uniform replay.
        agreements: Agreement of pairs of frameworks on these effects.
    """

    strategy_results: tuple[ReplayStrategyResult, ...]
    effects: tuple[ablation.AblationVerdict, ...]
    agreements: tuple[FrameworkAgreement, ...]
    human: tuple[HumanScores, ...]


def judge_replay(items: Sequence[ReplayMetrics], options: VerdictOptions) -> ReplayVerdicts:
    """Judge the replay strategies of all runs: effects by the endpoint of `options`.

    What strategies are reported with besides, such as gains and human-normalized scores, are final
    returns, as in the papers.
    """
    found = group_items(items, lambda item: (item.cell, item.item.id.framework, item.name))
    keys = sorted(found, key=lambda key: (key[0], key[1], get_strategy_order(key[2])))
    groups = {
        key: make_group(key[0], f"{key[1]} {key[2]}", [one.item for one in found[key]])
        for key in keys
    }
    results = tuple(_make_strategy_result(key, found[key], groups) for key in keys)
    compared = {
        (cell, framework, ablation.NO_CHANGE if name == UNIFORM else name): make_group(
            cell, f"{framework} {name}", [one.item for one in found[cell, framework, name]], options
        )
        for cell, framework, name in keys
    }
    effects = ablation.judge_effects(compared, "replay strategies", options)
    return ReplayVerdicts(
        results, effects, _compare_frameworks(effects), _compute_human_scores(results)
    )


def get_strategy_order(name: str) -> tuple[int, str]:
    """Return the sort key of a strategy: uniform first, Imp-PER fifth, others by name."""
    plain = name.partition(",")[0]
    return (
        _STRATEGY_ORDER.index(plain) if plain in _STRATEGY_ORDER else len(_STRATEGY_ORDER),
        name,
    )


def classify_effect(effect: ablation.InterventionEffect) -> str:
    """Return the effect of a replay strategy on the return in one word."""
    if effect.verdict == ablation.CHANGES:
        return HELPS if effect.result.difference > 0 else HARMS
    return NO_DIFFERENCE if effect.verdict == ablation.NO_EFFECT else INCONCLUSIVE


def _make_strategy_result(
    key: tuple[StudyCell, str, str],
    items: Sequence[ReplayMetrics],
    groups: Mapping[tuple[StudyCell, str, str], ScoreGroup],
) -> ReplayStrategyResult:
    cell, framework, name = key
    group, runs = groups[key], [one for one in items if isinstance(one.item, CompletedRun)]
    parts = (*COST_PARTS, "sweeping")
    costs = [one.costs for one in runs if one.costs.get("minibatches") and {*parts} <= {*one.costs}]
    each = {
        part: compute_interval([one[part] / one["minibatches"] for one in costs]) for part in parts
    }
    uniform = groups.get((cell, framework, UNIFORM))
    used = None
    if uniform is not None and uniform.n:
        used = compute_steps_to_threshold(
            [(run.timesteps, run.results.mean(axis=1)) for run in group.runs],
            float(uniform.moments.mean),
        )
    return ReplayStrategyResult(
        cell=cell,
        framework=framework,
        name=name,
        group=group,
        stages=tuple(
            _compute_score_at(group, share / N_STAGES) for share in range(1, N_STAGES + 1)
        ),
        errors=_compute_stage_intervals([(one.item, one.errors) for one in runs]),
        weights=_compute_stage_intervals([(one.item, one.weights) for one in runs]),
        seconds={part: each[part] for part in COST_PARTS},
        sweeps=each["sweeping"],
        utilisation=used,
        gain=_compute_gain(group, groups.get((cell, framework, "per")), name),
    )


def _compute_score_at(group: ScoreGroup, share: float) -> ConfidenceInterval:
    scores = [
        float(run.results[int(np.abs(run.timesteps - share * run.timesteps[-1]).argmin())].mean())
        for run in group.runs
    ]
    return compute_interval(scores)


def _compute_stage_intervals(
    items: Sequence[tuple[CompletedRun | ExcludedRun, MetricSeries]],
) -> tuple[ConfidenceInterval, ...]:
    means: list[list[float]] = [[] for _ in range(N_STAGES)]
    for run, (steps, values) in items:
        assert isinstance(run, CompletedRun)
        end = float(run.timesteps[-1])
        at = np.minimum((steps / end * N_STAGES).astype(int), N_STAGES - 1)
        for stage in np.unique(at):
            means[stage].append(float(values[at == stage].mean()))
    return tuple(map(compute_interval, means))


def _compute_gain(group: ScoreGroup, per: ScoreGroup | None, name: str) -> MeanRatio | None:
    if per is None or name in (UNIFORM, "per"):
        return None
    seeds, (first, second) = align_by_seed(group, per)
    if not seeds or abs(float(second.mean())) < _ZERO_TOLERANCE:
        return None
    # Relative to the size of per's mean: returns can be negative, as those of Pendulum.
    sign = math.copysign(1.0, float(second.mean()))
    return compute_ratio_of_means(first - second, sign * second)


def _compare_frameworks(
    effects: Sequence[ablation.AblationVerdict],
) -> tuple[FrameworkAgreement, ...]:
    """Compare each pair of frameworks in a setting, regardless of their variants.

    Variants may differ because a framework may lack an option that is part of the other's.
    """
    places: dict[
        tuple[str, ...], list[tuple[ablation.AblationVerdict, ablation.InterventionEffect]]
    ]
    places = collections.defaultdict(list)
    for item in effects:
        cell = item.cell
        for effect in item.effects:
            where = (cell.study, cell.env, cell.algorithm, cell.hps, effect.name)
            places[where].append((item, effect))
    found = []
    for (study, env, algorithm, hps, name), members in sorted(places.items()):
        for (first, one), (second, other) in itertools.combinations(members, 2):
            frameworks = first.framework, second.framework
            if first.framework == second.framework:
                continue
            gap = _compare_effects(one, other)
            words = (classify_effect(one), classify_effect(other))
            variants = first.cell.variant, second.cell.variant
            found.append(
                FrameworkAgreement(
                    study, env, algorithm, name, frameworks, words, gap, variants, hps
                )
            )
    return tuple(found)


def _compare_effects(
    one: ablation.InterventionEffect, other: ablation.InterventionEffect
) -> PairedDifference:
    groups = one.changed, one.baseline, other.changed, other.baseline
    seeds, (changed, plain, other_changed, other_plain) = align_by_seed(*groups)
    if not seeds:
        return NO_PAIRS
    return compute_paired_difference(changed - plain, other_changed - other_plain)


def _compute_human_scores(results: Sequence[ReplayStrategyResult]) -> tuple[HumanScores, ...]:
    """Compute human-normalized scores of runs on Atari games, and of the paper's own scores."""
    scores: dict[tuple[StudyCell | None, str, str], list[float]] = collections.defaultdict(list)
    for result in results:
        game = paper_tables.game_from_env(result.cell.env)
        is_known = (
            paper_tables.is_atari(result.cell.env) and game in paper_tables.ATARI_RANDOM_HUMAN
        )
        if is_known and result.group.n:
            mean = np.array([float(result.group.moments.mean)])
            value = normalize_by_human(mean, *paper_tables.ATARI_RANDOM_HUMAN[game])[0]
            cell = dataclasses.replace(result.cell, env="")
            scores[cell, result.framework, result.name].append(float(value))
    for game, published in paper_tables.IMP_ATARI_SCORES.items():
        values = normalize_by_human(np.array(published), *paper_tables.ATARI_RANDOM_HUMAN[game])
        for name, value in zip(paper_tables.IMP_STRATEGIES, values, strict=True):
            scores[None, paper_tables.IMP_SOURCE, name].append(float(value))
    return tuple(
        HumanScores(
            framework, name, len(found), float(np.median(found)), float(np.mean(found)), cell
        )
        for (cell, framework, name), found in scores.items()
    )


@dataclasses.dataclass(frozen=True)
class StalenessSummary:
    """Staleness of recurrent states under one strategy in one setting.

    Attributes:
        stages: Mean discrepancy over runs in each stage, by position in the sequence.
        overall: Mean over runs of the mean over stages, by position in the sequence.
        score: Return of the last evaluation, over runs.
        lags: Updates between acting and learning, over runs, by a name of `LAGS`; without values
            where no run recorded them.
        by_lag: Mean discrepancy over runs by position and third of the lag; likewise.
    """

    strategy: RecurrentStateStrategy
    stages: Mapping[str, tuple[ConfidenceInterval, ...]]
    overall: Mapping[str, ConfidenceInterval]
    score: ConfidenceInterval
    seeds: tuple[int, ...]
    lags: Mapping[str, ConfidenceInterval]
    by_lag: Mapping[tuple[str, str], ConfidenceInterval]


@dataclasses.dataclass(frozen=True)
class StalenessSetting:
    """All recurrent-state strategies of one framework in one setting.

    Attributes:
        cell: The setting; its variant leaves out the hyperparameters in which strategies differ.
        strategies: Zero states before stored ones, short burn-ins before long ones.
        versions: Sentence on packages of which runs have several versions; empty if none.
    """

    cell: StudyCell
    framework: str
    strategies: tuple[StalenessSummary, ...]
    versions: str = ""


STRATEGY_HYPERPARAMETERS = ("stored_state", "burn_in", "actors")
"""Settings that identify the strategy."""
_HASHED_PREFIX = "overrides="  # the name of a variant that would be too long


def summarize_staleness(found: Sequence[RunStaleness], stages: int) -> tuple[StalenessSetting, ...]:
    """Summarize the staleness of runs in equal stages of a run, by setting and strategy."""
    places: dict[tuple[StudyCell, str], list[RunStaleness]] = collections.defaultdict(list)
    named = {
        _digest_shared_settings(item.run): _get_shared_variant(item.run)
        for item in found
        if _HASHED_PREFIX not in item.run.id.cell.variant
    }
    for item in found:
        digest = _digest_shared_settings(item.run)
        variant = named.get(digest) or _get_shared_variant(item.run) + digest
        cell = dataclasses.replace(item.run.id.cell, variant=variant)
        places[cell, item.run.id.framework].append(item)
    groups: dict[tuple[StudyCell, str], dict[RecurrentStateStrategy, list[RunStaleness]]] = {}
    for (cell, framework), items in places.items():
        # Strategies are in the variants of runs, so that loading does not compare their settings.
        differing = set(find_differing_settings([item.run for item in items]))
        names = sorted(differing.difference(STRATEGY_HYPERPARAMETERS))
        for item in items:
            own = get_requested_values(item.run)
            parts = [cell.variant, *(f"{name}={own.get(name, 'unknown')}" for name in names)]
            place = dataclasses.replace(cell, variant=",".join(filter(None, parts)))
            strategies = groups.setdefault((place, framework), {})
            strategies.setdefault(item.strategy, []).append(item)
    return tuple(
        StalenessSetting(
            cell,
            framework,
            tuple(_summarize_state_strategy(s, strategies[s], stages) for s in sorted(strategies)),
            describe_result_versions(one.run for items in strategies.values() for one in items),
        )
        for (cell, framework), strategies in sorted(groups.items())
    )


def _get_shared_variant(run: CompletedRun) -> str:
    """Return a run's variant without the strategy, and without a digest that stands for it."""
    parts = run.id.cell.variant.split(",")
    names = [part for part in parts if part.partition("=")[0] not in STRATEGY_HYPERPARAMETERS]
    return ",".join(_HASHED_PREFIX if p.startswith(_HASHED_PREFIX) else p for p in names)


def _digest_shared_settings(run: CompletedRun) -> str:
    """Return a digest of a run's settings without the strategy; long variants are stored as one."""
    shared = serialize_settings(run.spec, without=("seed", *STRATEGY_HYPERPARAMETERS))
    return hashlib.sha256(shared.encode()).hexdigest()[:12]


def _summarize_state_strategy(
    strategy: RecurrentStateStrategy, items: Sequence[RunStaleness], stages: int
) -> StalenessSummary:
    by_stage, overall = {}, {}
    for place in SEQUENCE_POSITIONS:
        runs = [
            compute_stage_means(*item.discrepancies[place], int(item.run.timesteps[-1]), stages)
            for item in items
        ]
        by_stage[place] = average_stages(runs)
        overall[place] = compute_interval(
            [np.nanmean(run) for run in runs if np.isfinite(run).any()]
        )
    scores = compute_interval([float(item.run.results[-1].mean()) for item in items])
    seeds = tuple(sorted(item.run.id.seed or 0 for item in items))
    lags = {n: compute_interval([i.lags[n] for i in items if n in i.lags]) for n in LAGS}
    by_lag = {
        at: compute_interval([item.by_lag[at] for item in items if at in item.by_lag])
        for at in itertools.product(SEQUENCE_POSITIONS, LAG_THIRDS)
    }
    return StalenessSummary(strategy, by_stage, overall, scores, seeds, lags, by_lag)
