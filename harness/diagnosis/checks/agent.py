"""Checks of the agent: target networks, the acting network and the size of policy updates.

The paper is RLExplorer, a tool that checks deep RL programs; the ids in `paper_id` are from its
Table I.
"""

import numpy as np

from parallax.harness.diagnosis.check import CheckResult, make_checks
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals

_NO_TARGET_NETWORKS = "the algorithm has no target networks"


def _why_no_target_networks(facts: TrainingFacts) -> str:
    return _NO_TARGET_NETWORKS if facts.has_targets is False else ""


def _why_targets_never_lag(facts: TrainingFacts) -> str:
    if facts.tau == 1 and facts.target_interval == 1:
        return "tau=1 at every step means that targets equal what they follow"
    return _why_no_target_networks(facts)


def detect_frozen_targets(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect target networks that did not change for `threshold` update intervals.

    Their age counts only steps at which the main network changed.
    """
    facts, age = signals.facts, signals.series["target_age"].latest
    if facts.target_interval:
        allowed = threshold * max(facts.target_interval, 64)
    else:  # without a known interval, a tenth of the run per three intervals
        allowed = threshold / 30 * (facts.steps or 10_000)
    if age <= allowed:
        return None
    return CheckResult(
        f"Target networks have not changed for {age:.0f} steps while the networks that they "
        f"follow learned (at most {allowed:.0f} expected).",
        age,
    )


def detect_rare_target_updates(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect target networks that do not change for more than this share of the run."""
    steps, age = signals.facts.steps, signals.series["target_age"].latest
    if not steps or age < 500 or age <= threshold * steps:
        return None
    return CheckResult(
        f"Target networks have not changed for {age:.0f} steps, {age / steps:.0%} of the run, "
        "while the networks that they follow learned.",
        age / steps,
    )


def detect_missing_target_lag(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect target networks equal to the main network in `threshold` successive checks."""
    last = signals.series["target_equal"].last(int(threshold))
    if len(last) < threshold or not last.all():
        return None
    return CheckResult(
        f"Target networks equalled the networks that they follow in {len(last)} checks in a row, "
        "though those had learned in between.",
        len(last),
    )


def detect_wrong_acting_network(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect actions chosen by a network that has none of the policy's parameters."""
    last = signals.series["acts_by_itself"].last(int(threshold))
    if len(last) < threshold or last.any():
        return None
    return CheckResult(
        f"In {len(last)} checks in a row a network computed actions without any parameter of the "
        "policy that is trained.",
        len(last),
    )


def detect_large_policy_shift(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect large changes of the greedy actions in one update cycle, as the mean of five."""
    last = signals.series["shift_round"].last(5)
    if len(last) < 5 or last.mean() <= threshold:
        return None
    what = "share of choices" if signals.facts.choices else "distance in half action ranges"
    return CheckResult(
        f"One update cycle changed greedy actions on the same states by {last.mean():.2f} "
        f"({what}, mean of 5 checks).",
        float(last.mean()),
    )


def detect_large_kl(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a large approximate KL divergence as the framework reports it, median of five."""
    last = signals.metrics["policy/approx_kl"].last(5)
    if len(last) < 5 or np.median(last) <= threshold:
        return None
    value = float(np.median(last))
    return CheckResult(
        f"The policy's KL divergence per update is {value:.3g} (median of 5).", value
    )


CHECKS = make_checks(
    {
        "target-not-updated": (detect_frozen_targets, _why_no_target_networks),
        "target-updated-rarely": (detect_rare_target_updates, _why_no_target_networks),
        "target-does-not-lag": (detect_missing_target_lag, _why_targets_never_lag),
        "wrong-acting-network": detect_wrong_acting_network,
        "large-policy-shift": detect_large_policy_shift,
        "large-kl": detect_large_kl,
    }
)
"""Checks of target networks and policy updates."""
