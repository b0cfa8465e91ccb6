"""Table I, rewards; and what the training reports."""

import numpy as np

from harness.diagnosis.check import EARLY, LATE, NOTE, ONCE, THROUGHOUT, WARNING, Check, Seen
from harness.diagnosis.signals import Facts, Signals, slope

_WINDOW = 3


def vary_not(signals: Signals, threshold: float) -> Seen | None:
    """Whether at least 15 early returns are all the same."""
    values = signals.series["return"].first(64)
    spread = float(values.std() / max(abs(values.mean()), 1e-9)) if len(values) else 1.0
    if len(values) < 15 or spread >= threshold:
        return None
    return Seen(
        f"{len(values)} early returns are {values.mean():.4g}, with a relative spread of "
        f"{spread:.1g}.",
        spread,
    )


def settle_not(signals: Signals, threshold: float) -> Seen | None:
    """Whether the spread of returns in windows of 3 still changes late in the run."""
    facts, series = signals.facts, signals.series["return"]
    late = series.between(0.8 * (facts.steps or 0), float("inf"))
    if len(late) < 5 * _WINDOW:
        return None
    scale = float(np.ptp(series.all()[1]))
    spreads = late[: len(late) // _WINDOW * _WINDOW].reshape(-1, _WINDOW).std(axis=1)
    change = slope(spreads) * len(spreads) / max(scale, 1e-9)
    if abs(change) <= threshold:
        return None
    return Seen(
        f"Late in the run the spread of returns changes by {change:.2f} of their whole range.",
        change,
    )


def below_target(signals: Signals, threshold: float) -> Seen | None:
    """Whether the last returns are below what counts as solved."""
    wanted, last = signals.facts.reward_threshold, signals.series["return"].last(10)
    if wanted is None or len(last) < 10 or last.mean() >= wanted - threshold * abs(wanted):
        return None
    return Seen(
        f"The last 10 episodes returned {last.mean():.4g}, and {wanted:g} counts as solved.",
        float(last.mean()),
    )


def no_discount(signals: Signals, threshold: float) -> Seen | None:
    """Whether what is far away counts as much as what is near."""
    gamma = signals.facts.gamma
    if gamma is None or gamma < threshold:
        return None
    return Seen(f"gamma={gamma:g}: values are sums that nothing bounds.", gamma)


def goes_silent(signals: Signals, threshold: float) -> Seen | None:
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
    return Seen(
        f"{name} has not been reported for {silent[name]} steps, and at most every {gaps[name]} "
        "before.",
        float(silent[name]),
    )


def _off_policy(facts: Facts) -> str:
    replays = facts.replays
    if replays is None and facts.algorithm:
        replays = "buffer_size" in facts.hyperparameters
    return "the algorithm replays nothing" if replays is False else ""


def not_replayed(signals: Signals, threshold: float) -> Seen | None:
    """Whether minibatches hold the last steps only, long after there was more to learn from."""
    if signals.step < 2048:
        return None
    if "batch_rows" in signals.series:
        rows = signals.series["batch_rows"].last(5)
        if len(rows) == 5 and rows.max() <= signals.facts.n_envs:
            return Seen(f"Each update learns from {rows.max():.0f} transitions.", float(rows.max()))
    if "replay_recent" not in signals.series:
        return None
    last = signals.series["replay_recent"].last(5)
    if len(last) < 5 or last.min() < threshold:
        return None
    return Seen(
        f"{last.mean():.0%} of the states in minibatches are among the last 256 (5 looks).",
        float(last.mean()),
    )


def stale(signals: Signals, threshold: float) -> Seen | None:
    """Whether replayed states lie far from those that the policy meets now."""
    last = signals.series["replay_shift"].last(5)
    if len(last) < 5 or np.median(last) <= threshold:
        return None
    value = float(np.median(last))
    return Seen(
        f"Replayed states lie {value:.1f} deviations from those of the last 256 steps (median).",
        value,
    )


def _solvable(facts: Facts) -> str:
    return "" if facts.reward_threshold is not None else "the task declares no reward threshold"


CHECKS = (
    Check(
        "RWD_d1",
        "early returns do not vary",
        EARLY,
        WARNING,
        ("beginning", "return"),
        1e-3,
        "own: relative spread of at least 15 returns; RLExplorer 0.1 in reward units",
        vary_not,
        "no episode has met a reward that another has not.",
        "more exploration (exploration_steps, learning_starts), or rewards on the way.",
        "a task that all policies do equally well at first.",
    ),
    Check(
        "RWD_d2",
        "returns do not settle",
        LATE,
        NOTE,
        ("return",),
        0.5,
        "own: change over the last fifth; RLExplorer 0.25 per window of unknown number",
        settle_not,
        "learning goes on, or is not stable.",
        "more steps; lower learning rates.",
        "short runs have not settled; a note, no fault.",
    ),
    Check(
        "RWD_d3",
        "returns end below the task's target",
        LATE,
        NOTE,
        ("return",),
        0.01,
        "RLExplorer 0.01 of the highest reward; here of the task's reward threshold",
        below_target,
        "the run is too short, or stuck.",
        "more steps; see the other findings.",
        "short runs; a note, no fault.",
        _solvable,
    ),
    Check(
        "GAM",
        "nothing is discounted",
        ONCE,
        WARNING,
        ("return",),
        1.0,
        "gamma < 1",
        no_discount,
        "a discount factor of 1, or none in the targets.",
        "gamma=0.99.",
        "tasks with short episodes that surely end.",
    ),
    Check(
        "RPL",
        "updates learn from the last steps only",
        THROUGHOUT,
        WARNING,
        ("return",),
        0.9,
        "own: share of a minibatch's states that are among the last 256, after 2048 steps",
        not_replayed,
        "the replay buffer is missing, tiny, or not drawn from evenly.",
        "draw minibatches from all that is stored; raise buffer_size.",
        "algorithms that learn from what is new on purpose.",
        _off_policy,
    ),
    Check(
        "RPL_stale",
        "replayed states lie far from those met now",
        THROUGHOUT,
        NOTE,
        ("replay_shift",),
        3.0,
        "own: distance of means in deviations of the last 256 states; median of 5 windows",
        stale,
        "the policy has moved on, and the buffer holds what it did long ago.",
        "lower buffer_size, or prefer what is new.",
        "learning itself moves the states that are met; a note, no fault.",
        _off_policy,
    ),
    Check(
        "MET",
        "a metric is reported no more",
        THROUGHOUT,
        WARNING,
        ("metric_steps",),
        10.0,
        "own: ten times the longest gap before",
        goes_silent,
        "updates have stopped, or a branch of the training is taken no more.",
        "look for what stopped in the log.",
        "metrics that are reported when something seldom happens.",
    ),
)
"""What is asked of rewards and metrics."""
