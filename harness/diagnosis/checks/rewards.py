"""Checks of returns, discount, replay and reported metrics (RLExplorer, Table I: RWD)."""

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
    why_no_reward_threshold,
)
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
        "every episode meets the same rewards.",
        "more exploration (exploration_steps, learning_starts), or intermediate rewards.",
        "a task in which all policies are equally good at first.",
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
        "the agent is still learning, or learning is unstable.",
        "more steps; lower learning rates.",
        "short runs have not converged: this is a note, not a fault.",
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
        "short runs: this is a note, not a fault.",
        why_no_reward_threshold,
        paper_id="RWD.d3",
    ),
    DiagnosisCheck(
        "no-discount",
        "rewards are not discounted",
        ONCE,
        WARNING,
        ("return",),
        1.0,
        "gamma < 1",
        detect_missing_discount,
        "gamma is 1, or missing in the targets.",
        "gamma=0.99.",
        "tasks with short episodes that always end.",
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
        "the replay buffer is missing, tiny, or not sampled uniformly.",
        "sample minibatches from the whole buffer; raise buffer_size.",
        "algorithms that prefer new transitions on purpose.",
        _why_no_replay,
    ),
    DiagnosisCheck(
        "stale-replay",
        "replayed states are far from current ones",
        THROUGHOUT,
        NOTE,
        ("replay_shift",),
        3.0,
        "own: distance of means in deviations of the last 256 states; median of 5 windows",
        detect_stale_replay,
        "the policy has changed, and the buffer contains old behaviour.",
        "lower buffer_size, or prefer new transitions.",
        "learning itself changes which states are visited: this is a note, not a fault.",
        _why_no_replay,
    ),
    DiagnosisCheck(
        "metric-stopped",
        "a metric is not reported any more",
        THROUGHOUT,
        WARNING,
        ("metric_steps",),
        10.0,
        "own: ten times the longest gap before",
        detect_missing_metric,
        "updates have stopped, or a branch of the training code is not reached any more.",
        "look in the log for what stopped.",
        "metrics of rare events.",
    ),
)
"""Checks of rewards and metrics."""
