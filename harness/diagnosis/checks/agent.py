"""Checks of the agent: target networks, the acting network and the size of policy updates.

The paper is RLExplorer, a tool that checks deep RL programs; the ids in `paper_id` are from its
Table I.
"""

from parallax.harness.diagnosis.check import ERROR, THROUGHOUT, WARNING, CheckResult, DiagnosisCheck
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
    series = signals.series["target_equal"]
    last = series.last(int(threshold))
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
    from numpy import median

    last = signals.metrics["policy/approx_kl"].last(5)
    if len(last) < 5 or median(last) <= threshold:
        return None
    value = float(median(last))
    return CheckResult(
        f"The policy's KL divergence per update is {value:.3g} (median of 5).", value
    )


CHECKS = (
    DiagnosisCheck(
        "target-not-updated",
        "target networks are not updated",
        THROUGHOUT,
        ERROR,
        ("target_age",),
        3.0,
        "three update intervals (the paper compares at each one, bit by bit)",
        detect_frozen_targets,
        "the update of the target is missing, or its interval is longer than the run allows.",
        "call the update; lower target_update_interval, or raise tau.",
        "an interval that is meant to be long, and that the diagnosis does not know.",
        _why_no_target_networks,
        paper_id="AGT.d1",
    ),
    DiagnosisCheck(
        "target-updated-rarely",
        "target networks are rarely updated",
        THROUGHOUT,
        WARNING,
        ("target_age",),
        0.1,
        "own: share of the run",
        detect_rare_target_updates,
        "the interval of target updates is long for so short a run.",
        "lower target_update_interval, or raise tau.",
        "runs of a few hundred steps.",
        _why_no_target_networks,
        paper_id="AGT.d1",
    ),
    DiagnosisCheck(
        "target-does-not-lag",
        "target networks do not lag",
        THROUGHOUT,
        WARNING,
        ("target_equal",),
        5.0,
        "five checks at uneven steps",
        detect_missing_target_lag,
        "target and main network are one object, or every update copies the whole network.",
        "copy parameters instead of the object; lower tau, or raise target_update_interval.",
        "tau=1 with an interval that is shorter than the time between two checks.",
        _why_targets_never_lag,
        paper_id="AGT.d2",
    ),
    DiagnosisCheck(
        "wrong-acting-network",
        "another network chooses the actions",
        THROUGHOUT,
        ERROR,
        ("acts_by_itself",),
        3.0,
        "three checks",
        detect_wrong_acting_network,
        "actions come from the target network, or from a copy that is not updated.",
        "choose actions with the network that is trained.",
        "a framework that acts with a copy that it refreshes on purpose.",
        paper_id="AGT.d3",
    ),
    DiagnosisCheck(
        "large-policy-shift",
        "the policy moves far in one update",
        THROUGHOUT,
        WARNING,
        ("shift_round",),
        0.2,
        "own: the mean of 5 checks; the paper's 0.1 is a divergence of softmax outputs",
        detect_large_policy_shift,
        "a learning rate that is too high, or targets that jump.",
        "lower learning_rate (policy_learning_rate), raise batch_size, lower tau.",
        "greedy choices between actions of almost equal value change without harm.",
        paper_id="AGT.d4",
    ),
    DiagnosisCheck(
        "large-kl",
        "the policy's divergence per update is high",
        THROUGHOUT,
        WARNING,
        ("metric:policy/approx_kl",),
        0.1,
        "RLExplorer 0.1 (its softmax outputs; here the framework's own estimate for Gaussians)",
        detect_large_kl,
        "a learning rate that is too high, too many epochs, or no clipping.",
        "lower learning_rate, epochs or clip_range; set target_kl.",
        "a framework that reports the divergence of the last minibatch only.",
        paper_id="AGT.d4",
    ),
)
"""Checks of target networks and policy updates."""
