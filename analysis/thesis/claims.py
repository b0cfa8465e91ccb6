"""Claims of sections 6.2 (PPO, TD3, SAC) and 6.3 (rankings) of the thesis about its tables."""

import collections
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.published import split_version
from parallax.analysis.labels import LIBRARY_DEFAULTS, format_order_probability
from parallax.analysis.stats import ranks
from parallax.analysis.stats.multiple_testing import (
    OmnibusCount,
    compute_label_count_distribution,
    evaluate_count,
)
from parallax.analysis.thesis.evidence import (
    CONFIGURATIONS,
    FRAMEWORKS,
    NOT_CONTRADICTED,
    NOT_SUPPORTED,
    PARTLY,
    SUPPORTED,
    UNNAMED,
    CellKey,
    ClaimComparison,
    GroupTable,
    ThesisClaim,
    compare_pairs,
    count_significant,
    describe_significant_count,
    format_significant_counts,
    judge_some_differ,
    key_from_group,
    list_framework_pairs,
    list_tasks,
    select_significant,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.ranking import (
    MAGNITUDE_CHANGED,
    NOT_PRESERVED,
    PRESERVED,
    RankingVerdict,
)
from parallax.analysis.verdicts.study import StudyVerdicts


def judge_thesis_claims(verdicts: StudyVerdicts) -> tuple[ThesisClaim, ...]:
    """Judge every statement of sections 6.2 and 6.3 that the tables can decide."""
    table, options = {key_from_group(group): group for group in verdicts.groups}, verdicts.options
    ppo, td3, sac = (
        list_framework_pairs(table, algorithm, lambda *_: True)
        for algorithm in ("ppo", "td3", "sac")
    )
    pendulums = ("InvertedPendulum", "InvertedDoublePendulum")
    return (
        _judge_double_pendulum(table, options),
        _judge_value_clipping(table, options),
        _judge_differences(
            table,
            options,
            ppo,
            "6.2 PPO, Figures 6d to 6f",
            "Some PPO implementations differ extremely under equal hyperparameters.",
            "The text does not name the cells: all pairs of frameworks in Table 9.",
        ),
        _judge_td3_of_sb3(table, options, td3),
        _judge_td3_of_torchrl(table, options),
        _judge_differences(
            table,
            options,
            [pair for pair in td3 if pair[0][1] in pendulums],
            "6.2 TD3, Figure 7c",
            "TD3 implementations differ on InvertedPendulum and InvertedDoublePendulum, probably "
            "by unlucky seeds.",
            "All pairs of frameworks on the two tasks, under all four sets of hyperparameters.",
        ),
        _judge_differences(
            table,
            options,
            sac,
            "6.2 SAC, Figure 8",
            "SAC implementations differ in performance.",
            "All pairs of frameworks in Table 11.",
        ),
        _judge_sac_cold_start(table, options),
        *_judge_ranking_claims(verdicts),
    )


def _judge_differences(
    table: GroupTable,
    options: VerdictOptions,
    pairs: Sequence[tuple[CellKey, CellKey]],
    section: str,
    claim: str,
    reading: str,
) -> ThesisClaim:
    """Judge a statement that some of the pairs differ."""
    findings = compare_pairs(table, pairs)
    count = count_significant(table, findings, options)
    verdict = judge_some_differ(findings, count, options.alpha)
    outcome = _describe_differences(findings, count, options.alpha)
    return ThesisClaim(section, claim, reading, verdict, outcome, findings)


def _grade_claim(*, whole: bool, part: bool) -> str:
    """Return the verdict on a claim, given whether the tables show all or a part of it."""
    if whole:
        return SUPPORTED
    return PARTLY if part else NOT_SUPPORTED


def _describe_differences(
    findings: Sequence[ClaimComparison], count: OmnibusCount, alpha: float
) -> str:
    return f"{format_significant_counts(findings, alpha)}; {describe_significant_count(count)}"


def _judge_double_pendulum(table: GroupTable, options: VerdictOptions) -> ThesisClaim:
    alpha = options.alpha
    task = "InvertedDoublePendulum"
    pairs = [
        (("ppo", task, hps, "cleanrl"), ("ppo", task, hps, other))
        for hps in CONFIGURATIONS
        for other in ("sb3", "torchrl")
    ]
    findings = compare_pairs(table, pairs)
    found = [item for item in select_significant(findings, alpha) if item.difference > 0]
    verdict = _grade_claim(whole=len(found) == len(pairs), part=bool(found))
    below = sum(item.difference < 0 for item in findings)
    outcome = f"{format_significant_counts(findings, alpha)}; CleanRL's mean is lower in {below}"
    return ThesisClaim(
        "6.2 PPO, Figure 6c",
        "PPO of CleanRL stably does better on InvertedDoublePendulum than those of "
        "Stable-Baselines3 and TorchRL.",
        "CleanRL is compared with both, under all four sets of hyperparameters.",
        verdict,
        outcome,
        findings,
    )


def _judge_value_clipping(table: GroupTable, options: VerdictOptions) -> ThesisClaim:
    alpha = options.alpha
    pairs = [
        (("ppo", task, "cleanrl", "sb3"), ("ppo", task, "cleanrl", other))
        for task in list_tasks(table)
        for other in ("cleanrl", "torchrl")
    ]
    findings = compare_pairs(table, pairs)
    count = count_significant(table, findings, options)
    found = judge_some_differ(findings, count, alpha)
    verdict = NOT_CONTRADICTED if found == NOT_SUPPORTED else NOT_SUPPORTED
    return ThesisClaim(
        "6.2 PPO, Figures 6a and 6b",
        "CleanRL's hyperparameters, the only ones with value clipping, show no difference of "
        "Stable-Baselines3's PPO.",
        "The text does not name the tasks of the two panels. Stable-Baselines3 is compared with "
        "each other framework under CleanRL's hyperparameters, on all tasks. A result without "
        "significant differences does not show equality.",
        verdict,
        _describe_differences(findings, count, alpha),
        findings,
    )


def _judge_td3_of_sb3(
    table: GroupTable, options: VerdictOptions, pairs: Sequence[tuple[CellKey, CellKey]]
) -> ThesisClaim:
    alpha = options.alpha
    findings = compare_pairs(table, pairs)
    with_sb3 = [item for item in findings if "sb3" in (item.first[3], item.second[3])]
    count = count_significant(table, findings, options)
    bare = sum(item.p < alpha for item in with_sb3)
    others = sum(item.p < alpha for item in findings) - bare
    chance = _compute_chance_of_involving(findings, bare, alpha)
    apart, settings = _count_farthest(findings, "sb3"), len(findings) // 3
    outcome = (
        f"{_describe_differences(findings, count, alpha)}. Of these {bare} of {len(with_sb3)} "
        f"with Stable-Baselines3 and {others} of {len(findings) - len(with_sb3)} "
        f"without: with permuted names, p = {chance:.3f} that as many involve one framework. Its "
        f"mean is the farthest from the other two in {apart} of {settings} settings"
    )
    some_differ = judge_some_differ(findings, count, alpha) != NOT_SUPPORTED
    return ThesisClaim(
        "6.2 TD3, Figures 7a, b, e and f",
        "TD3 of Stable-Baselines3 stands out most, for better or worse.",
        "All pairs of frameworks in Table 10. A second test permutes names within each setting: "
        "do pairs that are significant without correction involve Stable-Baselines3 more often "
        "than by chance?",
        SUPPORTED if some_differ and chance < alpha else NOT_SUPPORTED,
        outcome,
        findings,
    )


def _compute_chance_of_involving(
    findings: Sequence[ClaimComparison], involved: int, alpha: float
) -> float:
    """Compute the chance that as many significant pairs involve one framework, names permuted."""
    counts: dict[tuple[str, ...], collections.Counter[str]] = {}
    for item in findings:
        own = counts.setdefault(item.first[:3], collections.Counter(dict.fromkeys(FRAMEWORKS, 0)))
        if item.p < alpha:
            own.update((item.first[3], item.second[3]))
    chances = compute_label_count_distribution(
        [np.array(list(own.values()), dtype=float) for own in counts.values()]
    )
    return float(chances[involved:].sum())


def _judge_td3_of_torchrl(table: GroupTable, options: VerdictOptions) -> ThesisClaim:
    alpha = options.alpha
    pairs = list_framework_pairs(
        table, "td3", lambda _t, _h, a, b: (a, b) == ("cleanrl", "torchrl")
    )
    findings = compare_pairs(table, [(second, first) for first, second in pairs])
    found = [item for item in select_significant(findings, alpha) if item.difference > 0]
    return ThesisClaim(
        "6.2 TD3, Figures 7d and 7e",
        "TD3 of TorchRL, with its other rhythm of updates, can do better than that of CleanRL.",
        "The text does not name the cells: TorchRL is compared with CleanRL in all of Table 10. "
        "Final scores cannot show whether its curves vary more.",
        SUPPORTED if found else NOT_SUPPORTED,
        _describe_differences(findings, count_significant(table, findings, options), alpha),
        findings,
    )


def _judge_sac_cold_start(table: GroupTable, options: VerdictOptions) -> ThesisClaim:
    alpha = options.alpha
    pairs = [
        (("sac", task, "sb3", name), ("sac", task, "torchrl", name))
        for task in list_tasks(table)
        for name in FRAMEWORKS
    ]
    findings = compare_pairs(table, pairs)
    between = compare_pairs(
        table, list_framework_pairs(table, "sac", lambda _t, hps, *_: hps in ("sb3", "torchrl"))
    )
    counts = [count_significant(table, items, options) for items in (findings, between)]
    # The claim can be read in two ways: each is tested at half the level.
    verdicts = [
        judge_some_differ(items, count, alpha / 2)
        for items, count in zip((findings, between), counts, strict=True)
    ]
    return ThesisClaim(
        "6.2 SAC",
        "SAC differs significantly with the hyperparameters of Stable-Baselines3 and of TorchRL, "
        "which differ in the cold start only.",
        "The sentence can mean the same implementation under both sets of hyperparameters, or "
        "frameworks compared with each other under these two sets. Both meanings are tested on "
        "all tasks, each at half the level.",
        min(verdicts, key=(SUPPORTED, UNNAMED, NOT_SUPPORTED).index),
        f"{_describe_differences(findings, counts[0], alpha)}; with the second meaning, "
        f"{_describe_differences(between, counts[1], alpha)}",
        (*findings, *between),
    )


def _count_farthest(findings: Sequence[ClaimComparison], name: str) -> int:
    """Count settings in which the others are closer to each other than either to `name`."""
    gaps: dict[tuple[str, ...], dict[frozenset[str], float]] = {}
    for item in findings:
        pair = frozenset((item.first[3], item.second[3]))
        gaps.setdefault(item.first[:3], {})[pair] = abs(item.difference)
    return sum(name not in min(found, key=lambda pair: found[pair]) for found in gaps.values())


_RANKING_READING = (
    "Verdicts by the rule of docs/explanation/statistics.md, the worst of the three pairs of "
    "frameworks"
)


def _judge_ranking_claims(verdicts: StudyVerdicts) -> tuple[ThesisClaim, ...]:
    """Judge every statement of section 6.3 that the tables can answer."""
    shared = [item for item in verdicts.rankings if item.hps in CONFIGURATIONS]
    own = [item for item in verdicts.rankings if item.hps == LIBRARY_DEFAULTS]
    return (
        _judge_preserved(
            shared,
            "The ranking of the algorithms is largely preserved across frameworks, on most tasks.",
        ),
        _judge_preserved(
            [item for item in shared if item.hps in ("torchrl", "original")],
            "That holds in general for the hyperparameters of TorchRL and of the original papers.",
        ),
        _judge_magnitude(shared, verdicts.options),
        _judge_named_tasks(shared),
        _judge_broken(
            [item for item in shared if item.hps == "sb3"],
            "6.3, Figure 10",
            "Under Stable-Baselines3's hyperparameters some task's ranking is not preserved, the "
            "implementations being clearly apart.",
        ),
        _judge_half_of_defaults(own),
        _judge_broken(
            own,
            "6.3, Figure 11",
            "Under each framework's own defaults some task's ranking is clearly not preserved.",
        ),
    )


def _format_verdict_counts(items: Sequence[RankingVerdict]) -> str:
    found = collections.Counter(item.verdict for item in items)
    return ", ".join(f"{count} {word}" for word, count in sorted(found.items())) or "none"


def _describe_order_probability(items: Sequence[RankingVerdict]) -> str:
    more = sum(item.same_order > item.chance.high for item in items)
    less = sum(item.same_order < item.chance.low for item in items)
    return (
        f"the order is more often the same than with tied algorithms in {more} of {len(items)}, "
        f"and less often in {less} (2.5% expected of each)"
    )


def _judge_preserved(items: Sequence[RankingVerdict], claim: str) -> ThesisClaim:
    pairs = [pair for item in items for pair in item.pairs]
    preserved = sum(item.verdict == PRESERVED for item in items)
    broken = sum(item.verdict == NOT_PRESERVED for item in items)
    taus = np.array([pair.tau_b_means for pair in pairs])
    verdict = NOT_SUPPORTED if broken else NOT_CONTRADICTED
    return ThesisClaim(
        "6.3",
        claim,
        f"{_RANKING_READING}; supported if most of {len(items)} are preserved, contradicted if one "
        "is not preserved.",
        SUPPORTED if 2 * preserved > len(items) else verdict,
        f"{_format_verdict_counts(items)}; of the {len(pairs)} single pairs of frameworks "
        f"{sum(pair.verdict == PRESERVED for pair in pairs)} preserved; average tau-b of the "
        f"means {np.nanmean(taus):.2f}; {_describe_order_probability(items)}",
    )


def _judge_magnitude(items: Sequence[RankingVerdict], options: VerdictOptions) -> ThesisClaim:
    changed = [any(pair.changed_gaps for pair in item.pairs) for item in items]
    rng = np.random.default_rng(options.seed)
    resamples = min(options.resamples, _MAX_SIMULATED_STUDIES)
    simulated = np.zeros(resamples, dtype=np.int64)
    for item in items:
        moments = [ranked.moments for ranked in item.rankings]
        simulated += ranks.simulate_gap_changes(moments, options.alpha, resamples, rng)
    count = evaluate_count(sum(changed), len(items), simulated)
    found = collections.Counter(
        item.hps for item, is_so in zip(items, changed, strict=True) if is_so
    )
    more, fewer = _compute_recipe_chances(items, changed, "cleanrl")
    there = count.p < options.alpha
    verdict = _grade_claim(whole=there and more < options.alpha, part=there)
    where = ", ".join(f"{found[hps]} under {hps}" for hps in CONFIGURATIONS)
    return ThesisClaim(
        "6.3, Figure 9",
        "Gaps between algorithms change in size from framework to framework, most often under "
        "CleanRL's hyperparameters.",
        f"{_RANKING_READING}. First half: do more settings have a changed gap than in simulated "
        "studies in which no gap changes? Second half: are more of them CleanRL's than with names "
        "of hyperparameters permuted within each task? Partly supported if only the first half is "
        "shown.",
        verdict,
        f"{count.observed} of {len(items)} settings with a changed gap; "
        f"{describe_significant_count(count)}. By hyperparameters: {where}; as many or more under "
        f"CleanRL's by chance p = {more:.2f}, as many or fewer p = {fewer:.2f}",
    )


_MAX_SIMULATED_STUDIES = 2_000


def _compute_recipe_chances(
    items: Sequence[RankingVerdict], changed: Sequence[bool], hps: str
) -> tuple[float, float]:
    """Compute the chances that a recipe has at least, and at most, as many changes as observed."""
    by_task: dict[str, list[bool]] = collections.defaultdict(list)
    own = 0
    for item, is_so in zip(items, changed, strict=True):
        by_task[item.env].append(is_so)
        own += is_so and item.hps == hps
    chances = compute_label_count_distribution(
        [np.array(values, dtype=float) for values in by_task.values()]
    )
    return float(chances[own:].sum()), float(chances[: own + 1].sum())


def _judge_named_tasks(items: Sequence[RankingVerdict]) -> ThesisClaim:
    names = {split_version(item.env)[0] for item in items if item.verdict == NOT_PRESERVED}
    orders: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
    for item in items:
        orders[split_version(item.env)[0]].append((item.same_order, item.chance.mean))
    means = sorted((*np.mean(values, axis=0), task) for task, values in orders.items())
    named = {"Swimmer", "Walker2d"}
    verdict = _grade_claim(whole=named <= names, part=bool(named & names))
    return ThesisClaim(
        "6.3",
        "Under some framework's hyperparameters the ranking is not preserved, more often on "
        "Swimmer and Walker2d.",
        f"{_RANKING_READING}, with the mean probability per task that the order is the same.",
        verdict,
        f"{len(names)} tasks with a ranking that is not preserved; probability of the same order: "
        f"{', '.join(f'{task} {value:.2f} ({tied:.2f})' for value, tied, task in means)}, in "
        "brackets if all algorithms tied",
    )


def _judge_half_of_defaults(items: Sequence[RankingVerdict]) -> ThesisClaim:
    broken = sum(item.verdict == NOT_PRESERVED for item in items)
    either = sum(item.verdict in (NOT_PRESERVED, MAGNITUDE_CHANGED) for item in items)
    half = len(items) / 2
    return ThesisClaim(
        "6.3",
        "Under each framework's own defaults the ranking is arguably not preserved in half of the "
        "cases.",
        f"{_RANKING_READING}; partly supported if half are not preserved or changed in magnitude.",
        _grade_claim(whole=broken >= half, part=either >= half),
        f"{_format_verdict_counts(items)}; {_describe_order_probability(items)}",
    )


def _judge_broken(items: Sequence[RankingVerdict], section: str, claim: str) -> ThesisClaim:
    found = any(item.verdict == NOT_PRESERVED for item in items)
    least = min(items, key=lambda item: item.same_order)
    return ThesisClaim(
        section,
        claim,
        "The text does not name the task: all eight; supported if one is not preserved.",
        SUPPORTED if found else NOT_SUPPORTED,
        f"{_format_verdict_counts(items)}; the same order is least likely on "
        f"{split_version(least.env)[0]} "
        f"(probability {format_order_probability(least.same_order, least.chance)})",
    )
