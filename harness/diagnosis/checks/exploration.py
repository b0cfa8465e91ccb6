"""Checks of exploration and actions (RLExplorer, Table I: EXP, ACN).

Entropies are divided by their maximum.
"""

import numpy as np

from parallax.harness.diagnosis.check import (
    EARLY,
    ERROR,
    LATE,
    LATE_SHARE,
    NOTE,
    THROUGHOUT,
    WARNING,
    CheckResult,
    DiagnosisCheck,
)
from parallax.harness.diagnosis.signals import (
    SignalSeries,
    TrainingFacts,
    TrainingSignals,
    compute_fluctuation,
)

ENTROPY_DEFINITION = (
    "entropy of 256 successive actions over its maximum; for continuous actions that of ten equal "
    "bins per dimension, mean over dimensions, which needs no density and is the same for Gaussian "
    "and deterministic policies with noise"
)

_FIRST_VALUES = 6
"""Number of values for a low share; each is of eight actions unless the program reports it."""

_SIDE_VALUES = 3
"""Values on either side of a drop."""


def _why_no_exploration_schedule(facts: TrainingFacts) -> str:
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


CHECKS = (
    DiagnosisCheck(
        "exploration-low-or-rising",
        "the share of random actions begins low or grows",
        THROUGHOUT,
        WARNING,
        ("beginning", "random_share"),
        0.2,
        "own: share of actions that are not the greedy ones, since not every framework reports the "
        "factor that the paper uses",
        detect_low_or_rising_exploration,
        "exploration is missing, or its schedule runs backwards.",
        "exploration_initial=1, exploration_final below it.",
        "a policy that changes within the 8 steps looked at makes more actions look random.",
        _why_no_exploration_schedule,
        paper_id="EXP.d1",
    ),
    DiagnosisCheck(
        "exploration-decays-fast",
        "the share of random actions decays too fast",
        THROUGHOUT,
        WARNING,
        ("beginning", "random_share"),
        0.03,
        "own: share of the run; the paper's 0.22 per call depends on the number of calls",
        detect_fast_exploration_decay,
        "the decay is per step where it was meant per episode, or its factor is too small.",
        "raise exploration_steps.",
        "tasks that are solved within a few episodes.",
        _why_no_exploration_schedule,
        paper_id="EXP.d2",
    ),
    DiagnosisCheck(
        "low-initial-entropy",
        "actions vary little from the start",
        EARLY,
        WARNING,
        ("beginning", "entropy"),
        0.3,
        f"RLExplorer 0.3, there in nats; here the {ENTROPY_DEFINITION}",
        detect_low_initial_entropy,
        "the policy begins with one action: a bad initialisation, or no noise.",
        "raise exploration noise, ent_coef or exploration_initial; see bad-weights and bad-biases.",
        "tasks whose action range is far larger than needed.",
        paper_id="ACN.d0",
    ),
    DiagnosisCheck(
        "entropy-rises",
        "actions become more random early on",
        EARLY,
        WARNING,
        ("beginning", "entropy"),
        0.4,
        f"own, of the {ENTROPY_DEFINITION}; RLExplorer: slope 0.1 in nats",
        detect_rising_entropy,
        "the entropy bonus outweighs the reward, or exploration grows.",
        "lower ent_coef or initial_temperature; see exploration-low-or-rising.",
        "a policy that begins nearly deterministic and learns to explore, as SAC may.",
        paper_id="ACN.d1",
    ),
    DiagnosisCheck(
        "entropy-constant",
        "the entropy of actions is constant",
        EARLY,
        WARNING,
        ("beginning", "entropy"),
        1e-3,
        "RLExplorer 1e-3 for the slope; here for the range of at least 10 values",
        detect_constant_entropy,
        "nothing is learned: no updates, or gradients that do not reach the policy.",
        "see vanishing-or-exploding-gradients; lower learning_starts.",
        "a policy that is right from the start.",
        paper_id="ACN.d2",
    ),
    DiagnosisCheck(
        "entropy-drop",
        "the entropy of actions drops abruptly",
        LATE,
        WARNING,
        ("entropy",),
        0.3,
        "own: from the mean of three values to that of the next three in the last fifth; "
        "RLExplorer takes second differences of ten values, which noise alone moves as much",
        detect_entropy_drop,
        "the policy collapses late.",
        "lower the learning rates; raise ent_coef.",
        "short episodes whose phases need other actions.",
        paper_id="ACN.d3",
    ),
    DiagnosisCheck(
        "entropy-fluctuates",
        "the entropy of actions fluctuates",
        THROUGHOUT,
        WARNING,
        ("entropy",),
        0.25,
        "own, of shares; RLExplorer 0.1 in nats around a line of the whole series",
        detect_fluctuating_entropy,
        "the policy jumps between actions.",
        "lower the learning rates, raise batch_size, lower tau.",
        "episodes of very different kind.",
        paper_id="ACN.d4",
    ),
    DiagnosisCheck(
        "entropy-bonus-has-wrong-sign",
        "the policy's loss punishes entropy",
        THROUGHOUT,
        ERROR,
        ("entropy_slope",),
        8,
        "own: derivatives of the loss by the entropy, all of the last 8 with the wrong sign",
        detect_punished_entropy,
        "the entropy is added to the loss, or its log-probability subtracted.",
        "loss = ... - ent_coef * entropy; SAC: loss = temperature * log_prob - value.",
        "policies that are made deterministic on purpose.",
        _why_no_entropy_bonus,
    ),
    DiagnosisCheck(
        "repeated-action",
        "one action is taken all the time",
        THROUGHOUT,
        WARNING,
        ("entropy",),
        0.95,
        "own: in 4 chunks of 256; RLExplorer 0.8 of all argmax actions",
        detect_repeated_action,
        "the policy has collapsed.",
        "more exploration; lower the learning rates; see dead-or-saturated-units.",
        "tasks in which one action is right for long.",
        paper_id="ACN.d5",
    ),
    DiagnosisCheck(
        "dropout-sensitive-actions",
        "actions depend on few units",
        THROUGHOUT,
        NOTE,
        ("uncertainty",),
        0.5,
        "RLExplorer 0.5, there of outputs, 100 passes; here of greedy actions in half ranges, or "
        "the share of changed choices over that of random ones, 16 passes",
        detect_dropout_sensitivity,
        "rarely visited states, or a policy that has not converged.",
        "more steps; more exploration early on.",
        "networks are not trained with dropout, so that this is no calibrated uncertainty; a note.",
        paper_id="ACN.d7",
    ),
    DiagnosisCheck(
        "actions-at-bounds",
        "actions are stuck at their bounds",
        THROUGHOUT,
        WARNING,
        ("at_bounds",),
        0.95,
        "own: in 4 chunks of 256",
        detect_saturated_actions,
        "the policy's output saturates: too high a learning rate, or observations that are not "
        "scaled.",
        "lower policy_learning_rate; wrappers=normalized.",
        "tasks whose best control is at the bounds.",
        _why_discrete_actions,
    ),
)
"""Checks of exploration and actions."""
