"""Table I, rewards; and what the training reports."""

import numpy as np

from parallax.harness.diagnosis.check import (
    EARLY,
    LATE,
    NOTE,
    ONCE,
    THROUGHOUT,
    WARNING,
    CheckResult,
    DiagnosisCheck,
)
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals, fit_slope

_WINDOW_EPISODES = 3


def detect_constant_returns(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether at least 15 early returns are all the same."""
    values = signals.series["return"].first(64)
    spread = float(values.std() / max(abs(values.mean()), 1e-9)) if len(values) else 1.0
    if len(values) < 15 or spread >= threshold:
        return None
    return CheckResult(
        f"{len(values)} early returns are {values.mean():.4g}, with a relative spread of "
        f"{spread:.1g}.",
        spread,
    )


def detect_unsettled_returns(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether the spread of returns in windows of 3 still changes late in the run."""
    facts, series = signals.facts, signals.series["return"]
    late = series.between(0.8 * (facts.steps or 0), float("inf"))
    if len(late) < 5 * _WINDOW_EPISODES:
        return None
    scale = float(np.ptp(series.all()[1]))
    spreads = (
        late[: len(late) // _WINDOW_EPISODES * _WINDOW_EPISODES]
        .reshape(-1, _WINDOW_EPISODES)
        .std(axis=1)
    )
    change = fit_slope(spreads) * len(spreads) / max(scale, 1e-9)
    if abs(change) <= threshold:
        return None
    return CheckResult(
        f"Late in the run the spread of returns changes by {change:.2f} of their whole range.",
        change,
    )


def detect_low_final_returns(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether the last returns are below what counts as solved."""
    wanted, last = signals.facts.reward_threshold, signals.series["return"].last(10)
    if wanted is None or len(last) < 10 or last.mean() >= wanted - threshold * abs(wanted):
        return None
    return CheckResult(
        f"The last 10 episodes returned {last.mean():.4g}, and {wanted:g} counts as solved.",
        float(last.mean()),
    )


def detect_missing_discount(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether what is far away counts as much as what is near."""
    gamma = signals.facts.gamma
    if gamma is None or gamma < threshold:
        return None
    return CheckResult(f"gamma={gamma:g}: values are sums that nothing bounds.", gamma)


def detect_missing_metric(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether something that was reported regularly is reported no more."""
    last, gaps = signals.values["metric_steps"], signals.values.get("metric_gaps", {})
    silent = {
        name: signals.step - step
        for name, step in last.items()
        if name in gaps
        and signals.metrics[name].count >= 5
        and signals.step - step > threshold * max(gaps[name], 256)
    }
    if not silent:
        return None
    name = max(silent, key=lambda one: silent[one])
    return CheckResult(
        f"{name} has not been reported for {silent[name]} steps, and at most every {gaps[name]} "
        "before.",
        float(silent[name]),
    )


def _why_no_replay(facts: TrainingFacts) -> str:
    replays = facts.replays
    if replays is None and facts.algorithm:
        replays = "buffer_size" in facts.hyperparameters
    return "the algorithm replays nothing" if replays is False else ""


def detect_missing_replay(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether minibatches hold the last steps only, long after there was more to learn from."""
    if signals.step < 2048:
        return None
    if "batch_rows" in signals.series:
        rows = signals.series["batch_rows"].last(5)
        if len(rows) == 5 and rows.max() <= signals.facts.n_envs:
            return CheckResult(
                f"Each update learns from {rows.max():.0f} transitions.", float(rows.max())
            )
    if "replay_recent" not in signals.series:
        return None
    last = signals.series["replay_recent"].last(5)
    if len(last) < 5 or last.min() < threshold:
        return None
    return CheckResult(
        f"{last.mean():.0%} of the states in minibatches are among the last 256 (5 looks).",
        float(last.mean()),
    )


def detect_stale_replay(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether replayed states lie far from those that the policy meets now."""
    last = signals.series["replay_shift"].last(5)
    if len(last) < 5 or np.median(last) <= threshold:
        return None
    value = float(np.median(last))
    return CheckResult(
        f"Replayed states lie {value:.1f} deviations from those of the last 256 steps (median).",
        value,
    )


def _why_no_reward_threshold(facts: TrainingFacts) -> str:
    return "" if facts.reward_threshold is not None else "the task declares no reward threshold"


CHECKS = (
    DiagnosisCheck(
        "constant-early-returns",
        "early returns do not vary",
        EARLY,
        WARNING,
        ("beginning", "return"),
        1e-3,
        "own: relative spread of at least 15 returns; RLExplorer 0.1 in reward units",
        detect_constant_returns,
        "no episode has met a reward that another has not.",
        "more exploration (exploration_steps, learning_starts), or rewards on the way.",
        "a task that all policies do equally well at first.",
        paper_id="RWD.d1",
    ),
    DiagnosisCheck(
        "unsettled-returns",
        "returns do not settle",
        LATE,
        NOTE,
        ("return",),
        0.5,
        "own: change over the last fifth; RLExplorer 0.25 per window of unknown number",
        detect_unsettled_returns,
        "learning goes on, or is not stable.",
        "more steps; lower learning rates.",
        "short runs have not settled; a note, no fault.",
        paper_id="RWD.d2",
    ),
    DiagnosisCheck(
        "final-returns-low",
        "returns end below the task's target",
        LATE,
        NOTE,
        ("return",),
        0.01,
        "RLExplorer 0.01 of the highest reward; here of the task's reward threshold",
        detect_low_final_returns,
        "the run is too short, or stuck.",
        "more steps; see the other findings.",
        "short runs; a note, no fault.",
        _why_no_reward_threshold,
        paper_id="RWD.d3",
    ),
    DiagnosisCheck(
        "no-discount",
        "nothing is discounted",
        ONCE,
        WARNING,
        ("return",),
        1.0,
        "gamma < 1",
        detect_missing_discount,
        "a discount factor of 1, or none in the targets.",
        "gamma=0.99.",
        "tasks with short episodes that surely end.",
    ),
    DiagnosisCheck(
        "no-replay",
        "updates learn from the last steps only",
        THROUGHOUT,
        WARNING,
        ("return",),
        0.9,
        "own: share of a minibatch's states that are among the last 256, after 2048 steps",
        detect_missing_replay,
        "the replay buffer is missing, tiny, or not drawn from evenly.",
        "draw minibatches from all that is stored; raise buffer_size.",
        "algorithms that learn from what is new on purpose.",
        _why_no_replay,
    ),
    DiagnosisCheck(
        "stale-replay",
        "replayed states lie far from those met now",
        THROUGHOUT,
        NOTE,
        ("replay_shift",),
        3.0,
        "own: distance of means in deviations of the last 256 states; median of 5 windows",
        detect_stale_replay,
        "the policy has moved on, and the buffer holds what it did long ago.",
        "lower buffer_size, or prefer what is new.",
        "learning itself moves the states that are met; a note, no fault.",
        _why_no_replay,
    ),
    DiagnosisCheck(
        "metric-stopped",
        "a metric is reported no more",
        THROUGHOUT,
        WARNING,
        ("metric_steps",),
        10.0,
        "own: ten times the longest gap before",
        detect_missing_metric,
        "updates have stopped, or a branch of the training is taken no more.",
        "look for what stopped in the log.",
        "metrics that are reported when something seldom happens.",
    ),
)
"""What is asked of rewards and metrics."""
