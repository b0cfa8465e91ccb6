"""Checks of returns, discount, replay and reported metrics (RLExplorer, Table I: RWD)."""

import numpy as np

from parallax.harness.diagnosis.check import CheckResult, make_checks, why_no_reward_threshold
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals, fit_slope

_WINDOW_EPISODES = 3


def detect_constant_returns(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect early returns, at least 15, that are all the same."""
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
    """Detect that the spread of returns, in windows of 3, still changes late in the run."""
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
    """Detect final returns below the reward threshold of the task."""
    wanted, last = signals.facts.reward_threshold, signals.series["return"].last(10)
    if wanted is None or len(last) < 10 or last.mean() >= wanted - threshold * abs(wanted):
        return None
    return CheckResult(
        f"The last 10 episodes returned {last.mean():.4g}; "
        f"the task counts as solved from {wanted:g}.",
        float(last.mean()),
    )


def detect_missing_discount(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a discount factor of 1."""
    gamma = signals.facts.gamma
    if gamma is None or gamma < threshold:
        return None
    return CheckResult(f"gamma={gamma:g}: values are unbounded sums.", gamma)


def detect_missing_metric(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a metric that was reported regularly but no longer is."""
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
        f"{name} has not been reported for {silent[name]} steps; before, it came at least "
        f"every {gaps[name]} steps.",
        float(silent[name]),
    )


def _why_no_replay(facts: TrainingFacts) -> str:
    replays = facts.replays
    if replays is None and facts.algorithm:
        replays = "buffer_size" in facts.hyperparameters
    return "the algorithm has no replay buffer" if replays is False else ""


def detect_missing_replay(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect minibatches that contain only the last steps, after 2048 steps or more."""
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
        f"{last.mean():.0%} of the states in minibatches are among the last 256 (5 checks).",
        float(last.mean()),
    )


def detect_stale_replay(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect replayed states far from those that the policy visits now."""
    last = signals.series["replay_shift"].last(5)
    if len(last) < 5 or np.median(last) <= threshold:
        return None
    value = float(np.median(last))
    return CheckResult(
        f"Replayed states lie {value:.1f} deviations from those of the last 256 steps (median).",
        value,
    )


CHECKS = make_checks(
    {
        "constant-early-returns": detect_constant_returns,
        "unsettled-returns": detect_unsettled_returns,
        "final-returns-low": (detect_low_final_returns, why_no_reward_threshold),
        "no-discount": detect_missing_discount,
        "no-replay": (detect_missing_replay, _why_no_replay),
        "stale-replay": (detect_stale_replay, _why_no_replay),
        "metric-stopped": detect_missing_metric,
    }
)
"""Checks of rewards and metrics."""
