"""What sections 6.2 (PPO, TD3, SAC) and 6.3 (rankings) of the thesis say of its tables."""

import collections
from collections.abc import Sequence

import numpy as np

from analysis.data.published import split_version
from analysis.thesis.evidence import (
    CONFIGURATIONS,
    FRAMEWORKS,
    NOT_CONTRADICTED,
    NOT_SUPPORTED,
    PARTLY,
    SUPPORTED,
    Claim,
    Finding,
    Table,
    all_pairs,
    compare,
    significant,
    significant_counts,
    some,
    tasks_of,
)
from analysis.verdicts.ranking import MAGNITUDE, NOT_PRESERVED, PRESERVED, RankingVerdict
from analysis.verdicts.study import StudyVerdicts
from analysis.words import OWN


def claims_of_ppo(table: Table, alpha: float) -> tuple[Claim, ...]:
    """The statements about PPO, tested at a level."""
    checks = (_double_pendulum, _value_clipping, _extreme)
    return tuple(check(table, alpha) for check in checks)


def _double_pendulum(table: Table, alpha: float) -> Claim:
    task = "InvertedDoublePendulum"
    pairs = [
        (("ppo", task, hps, "cleanrl"), ("ppo", task, hps, other))
        for hps in CONFIGURATIONS
        for other in ("sb3", "torchrl")
    ]
    findings = compare(table, pairs)
    found = [item for item in significant(findings, alpha) if item.difference > 0]
    verdict = SUPPORTED if len(found) == len(pairs) else PARTLY if found else NOT_SUPPORTED
    below = sum(item.difference < 0 for item in findings)
    outcome = f"{significant_counts(findings, alpha)}; CleanRL's mean is the lower one in {below}"
    return Claim(
        "6.2 PPO, Figure 6c",
        "PPO of CleanRL stably does better on InvertedDoublePendulum than those of "
        "Stable-Baselines3 and TorchRL.",
        "CleanRL against each, under all four sets of hyperparameters.",
        verdict,
        outcome,
        findings,
    )


def _value_clipping(table: Table, alpha: float) -> Claim:
    pairs = [
        (("ppo", task, "cleanrl", "sb3"), ("ppo", task, "cleanrl", other))
        for task in tasks_of(table)
        for other in ("cleanrl", "torchrl")
    ]
    findings = compare(table, pairs)
    verdict = NOT_SUPPORTED if significant(findings, alpha) else NOT_CONTRADICTED
    return Claim(
        "6.2 PPO, Figures 6a and 6b",
        "CleanRL's hyperparameters, the only ones with value clipping, bring no difference of "
        "Stable-Baselines3's PPO to light.",
        "The tasks of the two panels are not named in the text: Stable-Baselines3 against each "
        "other framework under CleanRL's hyperparameters, on all tasks. That nothing is "
        "significant does not show equality.",
        verdict,
        significant_counts(findings, alpha),
        findings,
    )


def _extreme(table: Table, alpha: float) -> Claim:
    findings = compare(table, all_pairs(table, "ppo", lambda *_: True))
    return Claim(
        "6.2 PPO, Figures 6d to 6f",
        "Some PPO implementations differ extremely under equal hyperparameters.",
        "The cells are not named in the text: all pairs of frameworks in Table 9.",
        some(findings, alpha),
        significant_counts(findings, alpha),
        findings,
    )


def claims_of_td3_and_sac(table: Table, alpha: float) -> tuple[Claim, ...]:
    """The statements about TD3 and SAC, tested at a level."""
    checks = (_td3_sb3, _td3_torchrl, _td3_pendulums, _sac_differs, _sac_cold_start)
    return tuple(check(table, alpha) for check in checks)


def _td3_sb3(table: Table, alpha: float) -> Claim:
    findings = compare(table, all_pairs(table, "td3", lambda *_: True))
    with_sb3 = [item for item in findings if "sb3" in (item.first[3], item.second[3])]
    found = significant(with_sb3, alpha)
    apart = _farthest(findings, "sb3")
    bare = sum(item.p < alpha for item in with_sb3)
    others = sum(item.p < alpha for item in findings) - bare
    outcome = (
        f"{significant_counts(findings, alpha)}, of which {bare} of {len(with_sb3)} with "
        f"Stable-Baselines3 and {others} of {len(findings) - len(with_sb3)} without; its mean is "
        f"the outlying one of the three in {apart} of {len(findings) // 3} settings"
    )
    return Claim(
        "6.2 TD3, Figures 7a, b, e and f",
        "TD3 of Stable-Baselines3 stands out most, for better or worse.",
        "All pairs of frameworks in Table 10, those with Stable-Baselines3 beside those without.",
        SUPPORTED if found else NOT_SUPPORTED,
        outcome,
        findings,
    )


def _td3_torchrl(table: Table, alpha: float) -> Claim:
    pairs = all_pairs(table, "td3", lambda _t, _h, a, b: (a, b) == ("cleanrl", "torchrl"))
    findings = compare(table, [(second, first) for first, second in pairs])
    found = [item for item in significant(findings, alpha) if item.difference > 0]
    return Claim(
        "6.2 TD3, Figures 7d and 7e",
        "TD3 of TorchRL, with its other rhythm of updates, can do better than that of CleanRL.",
        "The cells are not named in the text: TorchRL against CleanRL in all of Table 10. That "
        "its curves swing more cannot be told from final scores.",
        SUPPORTED if found else NOT_SUPPORTED,
        significant_counts(findings, alpha),
        findings,
    )


def _td3_pendulums(table: Table, alpha: float) -> Claim:
    tasks = ("InvertedPendulum", "InvertedDoublePendulum")
    findings = compare(table, all_pairs(table, "td3", lambda task, *_: task in tasks))
    return Claim(
        "6.2 TD3, Figure 7c",
        "TD3 implementations differ on InvertedPendulum and InvertedDoublePendulum, probably by "
        "unlucky seeds.",
        "All pairs of frameworks on the two tasks, under all four sets of hyperparameters.",
        some(findings, alpha),
        significant_counts(findings, alpha),
        findings,
    )


def _sac_differs(table: Table, alpha: float) -> Claim:
    findings = compare(table, all_pairs(table, "sac", lambda *_: True))
    return Claim(
        "6.2 SAC, Figure 8",
        "SAC implementations differ in performance.",
        "All pairs of frameworks in Table 11.",
        some(findings, alpha),
        significant_counts(findings, alpha),
        findings,
    )


def _sac_cold_start(table: Table, alpha: float) -> Claim:
    pairs = [
        (("sac", task, "sb3", name), ("sac", task, "torchrl", name))
        for task in tasks_of(table)
        for name in FRAMEWORKS
    ]
    findings = compare(table, pairs)
    between = compare(table, all_pairs(table, "sac", lambda _t, hps, *_: hps in ("sb3", "torchrl")))
    found = significant(findings, alpha) + significant(between, alpha)
    return Claim(
        "6.2 SAC",
        "SAC differs significantly with the hyperparameters of Stable-Baselines3 and of TorchRL, "
        "which differ in the cold start only.",
        "The sentence can be read in two ways: the same implementation under one and the other, "
        "and frameworks against each other under these two. Both, on all tasks.",
        SUPPORTED if found else NOT_SUPPORTED,
        f"{significant_counts(findings, alpha)}; "
        f"read the other way, {significant_counts(between, alpha)}",
        (*findings, *between),
    )


def _farthest(findings: Sequence[Finding], name: str) -> int:
    """Settings in which the two others are closer to each other than either is to `name`."""
    gaps: dict[tuple[str, ...], dict[frozenset[str], float]] = {}
    for item in findings:
        pair = frozenset((item.first[3], item.second[3]))
        gaps.setdefault(item.first[:3], {})[pair] = abs(item.difference)
    return sum(name not in min(found, key=lambda pair: found[pair]) for found in gaps.values())


_READING = "Verdicts by the rule of docs/statistics.md, the worst of the three pairs of frameworks"


def claims_of_ranking(verdicts: StudyVerdicts) -> tuple[Claim, ...]:
    """Every statement of section 6.3 that the tables can be asked about."""
    shared = [item for item in verdicts.rankings if item.hps in CONFIGURATIONS]
    own = [item for item in verdicts.rankings if item.hps == OWN]
    return (
        _preserved(
            shared,
            "The ranking of the algorithms is largely preserved across frameworks, on most tasks.",
        ),
        _preserved(
            [item for item in shared if item.hps in ("torchrl", "original")],
            "That holds in general for the hyperparameters of TorchRL and of the original papers.",
        ),
        _magnitude(shared),
        _named_tasks(shared),
        _broken(
            [item for item in shared if item.hps == "sb3"],
            "6.3, Figure 10",
            "Under Stable-Baselines3's hyperparameters some task's ranking is not preserved, the "
            "implementations being clearly apart.",
        ),
        _half_of_own(own),
        _broken(
            own,
            "6.3, Figure 11",
            "Under each framework's own defaults some task's ranking is clearly not preserved.",
        ),
    )


def _counts(items: Sequence[RankingVerdict]) -> str:
    found = collections.Counter(item.verdict for item in items)
    return ", ".join(f"{count} {word}" for word, count in sorted(found.items())) or "none"


def _likely(items: Sequence[RankingVerdict]) -> str:
    likely = sum(item.same_order > 0.5 for item in items)
    return f"all frameworks more likely in one order than not in {likely} of {len(items)}"


def _preserved(items: Sequence[RankingVerdict], claim: str) -> Claim:
    pairs = [pair for item in items for pair in item.pairs]
    kept = sum(item.verdict == PRESERVED for item in items)
    broken = sum(item.verdict == NOT_PRESERVED for item in items)
    taus = np.array([pair.tau_b_means for pair in pairs])
    verdict = NOT_SUPPORTED if broken else NOT_CONTRADICTED
    return Claim(
        "6.3",
        claim,
        f"{_READING}; supported if most of {len(items)} are preserved, contradicted by one that "
        "is not.",
        SUPPORTED if 2 * kept > len(items) else verdict,
        f"{_counts(items)}; of the {len(pairs)} single pairs of frameworks "
        f"{sum(pair.verdict == PRESERVED for pair in pairs)} preserved; mean tau-b of the bare "
        f"means {np.nanmean(taus):.2f}; {_likely(items)}",
    )


def _magnitude(items: Sequence[RankingVerdict]) -> Claim:
    found = collections.Counter(item.hps for item in items if item.verdict == MAGNITUDE)
    most = found and found["cleanrl"] == max(found.values())
    return Claim(
        "6.3, Figure 9",
        "Gaps between algorithms change in size from framework to framework, most often under "
        "CleanRL's hyperparameters.",
        f"{_READING}; partly supported if gaps change, but elsewhere more often.",
        (SUPPORTED if most else PARTLY) if found else NOT_SUPPORTED,
        f"magnitude changed: {', '.join(f'{found[hps]} under {hps}' for hps in CONFIGURATIONS)}",
    )


def _named_tasks(items: Sequence[RankingVerdict]) -> Claim:
    names = {split_version(item.env)[0] for item in items if item.verdict == NOT_PRESERVED}
    orders: dict[str, list[float]] = collections.defaultdict(list)
    for item in items:
        orders[split_version(item.env)[0]].append(item.same_order)
    means = sorted((float(np.mean(values)), task) for task, values in orders.items())
    named = {"Swimmer", "Walker2d"}
    verdict = SUPPORTED if named <= names else PARTLY if named & names else NOT_SUPPORTED
    return Claim(
        "6.3",
        "Under some framework's hyperparameters the ranking is not preserved, more often on "
        "Swimmer and Walker2d.",
        f"{_READING}; beside it the mean probability per task that the order is the same.",
        verdict,
        f"{len(names)} tasks with a ranking that is not preserved; probability of the same order: "
        f"{', '.join(f'{task} {value:.2f}' for value, task in means)}",
    )


def _half_of_own(items: Sequence[RankingVerdict]) -> Claim:
    broken = sum(item.verdict == NOT_PRESERVED for item in items)
    either = sum(item.verdict in (NOT_PRESERVED, MAGNITUDE) for item in items)
    half = len(items) / 2
    return Claim(
        "6.3",
        "Under each framework's own defaults the ranking is arguably not preserved in half of the "
        "cases.",
        f"{_READING}; partly supported if half are not preserved or changed in magnitude.",
        SUPPORTED if broken >= half else PARTLY if either >= half else NOT_SUPPORTED,
        f"{_counts(items)}; {_likely(items)}",
    )


def _broken(items: Sequence[RankingVerdict], section: str, claim: str) -> Claim:
    found = any(item.verdict == NOT_PRESERVED for item in items)
    least = min(items, key=lambda item: item.same_order)
    return Claim(
        section,
        claim,
        "The task is not named in the text: all eight; supported if one is not preserved.",
        SUPPORTED if found else NOT_SUPPORTED,
        f"{_counts(items)}; the order is least likely the same on {split_version(least.env)[0]} "
        f"(probability {least.same_order:.3f})",
    )
