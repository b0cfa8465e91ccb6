"""Section 6.2 of the thesis on PPO."""

from analysis.thesis.statements import (
    CONFIGURATIONS,
    NOT_CONTRADICTED,
    NOT_SUPPORTED,
    PARTLY,
    SUPPORTED,
    Statement,
    Table,
    all_pairs,
    compare,
    counts,
    significant,
    some,
    tasks_of,
)


def statements_of_ppo(table: Table, alpha: float) -> tuple[Statement, ...]:
    """The statements about PPO, tested at a level."""
    checks = (_double_pendulum, _value_clipping, _extreme)
    return tuple(check(table, alpha) for check in checks)


def _double_pendulum(table: Table, alpha: float) -> Statement:
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
    outcome = f"{counts(findings, alpha)}; CleanRL's mean is the lower one in {below}"
    return Statement(
        "6.2 PPO, Figure 6c",
        "PPO of CleanRL stably does better on InvertedDoublePendulum than those of "
        "Stable-Baselines3 and TorchRL.",
        "CleanRL against each, under all four sets of hyperparameters.",
        verdict,
        outcome,
        findings,
    )


def _value_clipping(table: Table, alpha: float) -> Statement:
    pairs = [
        (("ppo", task, "cleanrl", "sb3"), ("ppo", task, "cleanrl", other))
        for task in tasks_of(table)
        for other in ("cleanrl", "torchrl")
    ]
    findings = compare(table, pairs)
    verdict = NOT_SUPPORTED if significant(findings, alpha) else NOT_CONTRADICTED
    return Statement(
        "6.2 PPO, Figures 6a and 6b",
        "CleanRL's hyperparameters, the only ones with value clipping, bring no difference of "
        "Stable-Baselines3's PPO to light.",
        "The tasks of the two panels are not named in the text: Stable-Baselines3 against each "
        "other framework under CleanRL's hyperparameters, on all tasks. That nothing is "
        "significant does not show equality.",
        verdict,
        counts(findings, alpha),
        findings,
    )


def _extreme(table: Table, alpha: float) -> Statement:
    findings = compare(table, all_pairs(table, "ppo", lambda *_: True))
    return Statement(
        "6.2 PPO, Figures 6d to 6f",
        "Some PPO implementations differ extremely under equal hyperparameters.",
        "The cells are not named in the text: all pairs of frameworks in Table 9.",
        some(findings, alpha),
        counts(findings, alpha),
        findings,
    )
