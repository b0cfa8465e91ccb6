"""Checks of exploration and actions (RLExplorer, Table I: EXP, ACN).

Entropies are divided by their maximum.
"""

import numpy as np

from parallax.harness.diagnosis.check import LATE_SHARE, CheckResult, make_checks
from parallax.harness.diagnosis.signals import (
    SignalSeries,
    TrainingFacts,
    TrainingSignals,
    compute_fluctuation,
)

_FIRST_VALUES = 6
"""Number of values for a low share; each is of eight actions unless the program reports it."""

_SIDE_VALUES = 3
"""Values on either side of a drop."""


def _why_no_schedule(facts: TrainingFacts) -> str:
    if facts.choices == 0:
        return (
            "continuous actions have no share of random actions; the entropy checks apply instead"
        )
    if facts.constant_exploration:
        return "the share of random actions is constant by choice"
    return ""


def _get_random_share(signals: TrainingSignals) -> SignalSeries:
    reported = signals.metrics.get("exploration")
    return reported or signals.series["random_share"]


def detect_low_or_rising_exploration(
    signals: TrainingSignals, threshold: float
) -> CheckResult | None:
    """Detect a share of random actions that is low when learning begins, or that grows."""
    series = _get_random_share(signals)
    first = series.between(signals.facts.learning_starts, np.inf)[:_FIRST_VALUES]
    if len(first) == _FIRST_VALUES and first.mean() < threshold:
        return CheckResult(
            f"Only {first.mean():.0%} of the first actions are not the greedy ones.",
            float(first.mean()),
        )
    begin, end = series.first(10).mean(), series.last(20).mean()
    if series.count >= 30 and end - begin > 2.5 * threshold:
        return CheckResult(
            f"The share of random actions rose from {begin:.2f} to {end:.2f}.", float(end)
        )
    return None


def detect_fast_exploration_decay(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a share of random actions that decays by 90% within too small a share of the run."""
    facts, total = signals.facts, signals.facts.steps
    steps, values = _get_random_share(signals).all()
    if len(values) < 10 or not total:
        return None
    planned = facts.hyperparameters.get("exploration_steps")
    falls = facts.exploration is not None and facts.exploration[0] - facts.exploration[1] > 0.3
    if planned and falls and planned < threshold * total:
        return CheckResult(
            f"The share of random actions is scheduled to decay within {planned} of {total} steps.",
            planned / total,
        )
    values = np.convolve(values, np.full(3, 1 / 3), mode="valid")
    if values[0] < 0.3:
        return None
    floor = float(np.min(values))
    low = values <= values[0] - 0.9 * (values[0] - floor)
    if values[0] - floor < 0.3 or not low.any():
        return None
    after = values[int(np.argmax(low)) :]
    if (
        len(after) < 8 or after.mean() > floor + 0.15
    ):  # it did not stay low, so the low value was by chance
        return None
    begun = max(signals.facts.learning_starts, 0)
    arrived = int(steps[np.argmax(low)])
    share = (arrived - begun) / total
    if arrived <= begun or share >= threshold:
        return None
    return CheckResult(
        f"The share of random actions fell from {values[0]:.2f} to {floor:.2f} within {arrived} of "
        f"{total} steps.",
        share,
    )


def detect_low_initial_entropy(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a low entropy of the first actions."""
    first = signals.series["entropy"].first(3)
    if len(first) < 3 or first.mean() >= threshold:
        return None
    return CheckResult(
        f"The entropy of the first actions is {first.mean():.2f}.", float(first.mean())
    )


def detect_rising_entropy(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect an early rise of the entropy by more than `threshold`."""
    values = signals.series["entropy"].first(64)
    if len(values) < 6:
        return None
    change = float(values[-3:].mean() - values[:3].mean())
    return (
        CheckResult(f"The entropy of actions rose by {change:.2f} early on.", change)
        if change > threshold
        else None
    )


def detect_constant_entropy(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect an entropy that stays constant early on."""
    values = signals.series["entropy"].first(64)
    if len(values) < 10 or np.ptp(values) >= threshold:
        return None
    return CheckResult(
        f"The entropy of actions stays at {values.mean():.3f} (its range is {np.ptp(values):.1g}).",
        float(np.ptp(values)),
    )


def detect_entropy_drop(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a drop of the entropy between the means of three late values and of the next three."""
    values = signals.series["entropy"].between(LATE_SHARE * (signals.facts.steps or 0), np.inf)
    if len(values) < 2 * _SIDE_VALUES:
        return None
    means = np.convolve(values, np.full(_SIDE_VALUES, 1 / _SIDE_VALUES), mode="valid")
    fall = float((means[:-_SIDE_VALUES] - means[_SIDE_VALUES:]).max())
    if fall <= threshold:
        return None
    return CheckResult(f"The entropy of actions fell by {fall:.2f} at once late in the run.", fall)


def detect_fluctuating_entropy(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect large deviations of the last ten entropies from their least-squares line."""
    values = signals.series["entropy"].last(10)
    if len(values) < 10:
        return None
    distance = compute_fluctuation(values)
    return (
        CheckResult(
            f"The entropy of actions fluctuates by {distance:.2f} around its trend.", distance
        )
        if distance > threshold
        else None
    )


def detect_repeated_action(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a single action at all steps of four successive chunks of 256 steps."""
    if "top_action" in signals.series:
        last = signals.series["top_action"].last(4)
        if len(last) == 4 and last.min() > threshold:
            return CheckResult(
                f"One action is {last.mean():.0%} of the last 1024.", float(last.mean())
            )
        return None
    last = signals.series["action_std"].last(4)
    if len(last) == 4 and last.max() < 0.05 * (1 - threshold):
        return CheckResult(
            f"Actions hardly vary: their deviation is {last.max():.2g} half ranges.",
            float(last.max()),
        )
    return None


def detect_dropout_sensitivity(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect actions that change by more than `threshold` with a dropout of 0.5."""
    value = signals.series["uncertainty"].latest
    if value <= threshold:
        return None
    what = "of a random action's variation" if signals.facts.choices else "half action ranges"
    return CheckResult(
        f"With a dropout of 0.5, actions in the same states vary by {value:.2f} {what}.", value
    )


def detect_saturated_actions(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect actions at their bounds, in four successive chunks of 256 steps."""
    last = signals.series["at_bounds"].last(4)
    if len(last) < 4 or last.min() <= threshold:
        return None
    return CheckResult(
        f"{last.mean():.0%} of the last 1024 actions lie at a bound.", float(last.mean())
    )


def detect_punished_entropy(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect losses that grow with the entropy of the policy, whose minimum has none."""
    last = signals.series["entropy_slope"].last(int(threshold))
    if len(last) < threshold or last.min() <= 0:
        return None
    slope = float(np.median(last))
    return CheckResult(f"The policy's loss grows by {slope:.3g} per unit of entropy.", slope)


def _why_no_entropy_bonus(facts: TrainingFacts) -> str:
    bonus = facts.hyperparameters.get("ent_coef", "target_entropy" in facts.hyperparameters)
    return "" if bonus > 0 else "the loss has no entropy bonus"


def _why_discrete_actions(facts: TrainingFacts) -> str:
    return "actions are discrete" if facts.choices else ""


CHECKS = make_checks(
    {
        "exploration-low-or-rising": (detect_low_or_rising_exploration, _why_no_schedule),
        "exploration-decays-fast": (detect_fast_exploration_decay, _why_no_schedule),
        "low-initial-entropy": detect_low_initial_entropy,
        "entropy-rises": detect_rising_entropy,
        "entropy-constant": detect_constant_entropy,
        "entropy-drop": detect_entropy_drop,
        "entropy-fluctuates": detect_fluctuating_entropy,
        "entropy-bonus-has-wrong-sign": (detect_punished_entropy, _why_no_entropy_bonus),
        "repeated-action": detect_repeated_action,
        "dropout-sensitive-actions": detect_dropout_sensitivity,
        "actions-at-bounds": (detect_saturated_actions, _why_discrete_actions),
    }
)
"""Checks of exploration and actions."""
