"""Section 6.2 of the thesis on TD3 and SAC."""

from collections.abc import Sequence

from analysis.thesis.statements import (
    FRAMEWORKS,
    NOT_SUPPORTED,
    SUPPORTED,
    Finding,
    Statement,
    Table,
    all_pairs,
    compare,
    counts,
    significant,
    some,
    tasks_of,
)


def statements_of_td3_and_sac(table: Table, alpha: float) -> tuple[Statement, ...]:
    """The statements about TD3 and SAC, tested at a level."""
    checks = (_td3_sb3, _td3_torchrl, _td3_pendulums, _sac_differs, _sac_cold_start)
    return tuple(check(table, alpha) for check in checks)


def _td3_sb3(table: Table, alpha: float) -> Statement:
    findings = compare(table, all_pairs(table, "td3", lambda *_: True))
    with_sb3 = [item for item in findings if "sb3" in (item.first[3], item.second[3])]
    found = significant(with_sb3, alpha)
    apart = _farthest(findings, "sb3")
    bare = sum(item.p < alpha for item in with_sb3)
    others = sum(item.p < alpha for item in findings) - bare
    outcome = (
        f"{counts(findings, alpha)}, of which {bare} of {len(with_sb3)} with Stable-Baselines3 "
        f"and {others} of {len(findings) - len(with_sb3)} without; its mean is the outlying one "
        f"of the three in {apart} of {len(findings) // 3} settings"
    )
    return Statement(
        "6.2 TD3, Figures 7a, b, e and f",
        "TD3 of Stable-Baselines3 stands out most, for better or worse.",
        "All pairs of frameworks in Table 10, those with Stable-Baselines3 beside those without.",
        SUPPORTED if found else NOT_SUPPORTED,
        outcome,
        findings,
    )


def _td3_torchrl(table: Table, alpha: float) -> Statement:
    pairs = all_pairs(table, "td3", lambda _t, _h, a, b: (a, b) == ("cleanrl", "torchrl"))
    findings = compare(table, [(second, first) for first, second in pairs])
    found = [item for item in significant(findings, alpha) if item.difference > 0]
    return Statement(
        "6.2 TD3, Figures 7d and 7e",
        "TD3 of TorchRL, with its other rhythm of updates, can do better than that of CleanRL.",
        "The cells are not named in the text: TorchRL against CleanRL in all of Table 10. That "
        "its curves swing more cannot be told from final scores.",
        SUPPORTED if found else NOT_SUPPORTED,
        counts(findings, alpha),
        findings,
    )


def _td3_pendulums(table: Table, alpha: float) -> Statement:
    tasks = ("InvertedPendulum", "InvertedDoublePendulum")
    findings = compare(table, all_pairs(table, "td3", lambda task, *_: task in tasks))
    return Statement(
        "6.2 TD3, Figure 7c",
        "TD3 implementations differ on InvertedPendulum and InvertedDoublePendulum, probably by "
        "unlucky seeds.",
        "All pairs of frameworks on the two tasks, under all four sets of hyperparameters.",
        some(findings, alpha),
        counts(findings, alpha),
        findings,
    )


def _sac_differs(table: Table, alpha: float) -> Statement:
    findings = compare(table, all_pairs(table, "sac", lambda *_: True))
    return Statement(
        "6.2 SAC, Figure 8",
        "SAC implementations differ in performance.",
        "All pairs of frameworks in Table 11.",
        some(findings, alpha),
        counts(findings, alpha),
        findings,
    )


def _sac_cold_start(table: Table, alpha: float) -> Statement:
    pairs = [
        (("sac", task, "sb3", name), ("sac", task, "torchrl", name))
        for task in tasks_of(table)
        for name in FRAMEWORKS
    ]
    findings = compare(table, pairs)
    between = compare(table, all_pairs(table, "sac", lambda _t, hps, *_: hps in ("sb3", "torchrl")))
    found = significant(findings, alpha) + significant(between, alpha)
    return Statement(
        "6.2 SAC",
        "SAC differs significantly with the hyperparameters of Stable-Baselines3 and of TorchRL, "
        "which differ in the cold start only.",
        "The sentence can be read in two ways: the same implementation under one and the other, "
        "and frameworks against each other under these two. Both, on all tasks.",
        SUPPORTED if found else NOT_SUPPORTED,
        f"{counts(findings, alpha)}; read the other way, {counts(between, alpha)}",
        (*findings, *between),
    )


def _farthest(findings: Sequence[Finding], name: str) -> int:
    """Settings in which the two others are closer to each other than either is to `name`."""
    gaps: dict[tuple[str, ...], dict[frozenset[str], float]] = {}
    for item in findings:
        pair = frozenset((item.first[3], item.second[3]))
        gaps.setdefault(item.first[:3], {})[pair] = abs(item.difference)
    return sum(name not in min(found, key=lambda pair: found[pair]) for found in gaps.values())
