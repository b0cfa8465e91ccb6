"""Checks of the environment, observations and episodes (RLExplorer, Table I: ENV, STT, STP)."""

import numpy as np

from parallax.harness.diagnosis.check import (
    ERROR,
    CheckResult,
    make_checks,
    why_no_reward_threshold,
)
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals


def _why_observations_rescaled(facts: TrainingFacts) -> str:
    return "wrappers rescale the observations" if facts.normalized else ""


def _why_parallel_envs(facts: TrainingFacts) -> str:
    return "episodes of several parallel environments are mixed" if facts.n_envs > 1 else ""


def detect_invalid_observations(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect observations that are not finite, outside their space, or constant."""
    series = signals.series
    if not series["finite"].latest:
        return CheckResult("An observation or reward is not finite.", 0.0, ERROR)
    if "outside_space" in series and series["outside_space"].latest > 0.01:
        share = series["outside_space"].latest
        return CheckResult(f"{share:.0%} of observations lie outside the declared space.", share)
    if "observation_std" in series and series["observation_std"].latest <= threshold:
        spread = series["observation_std"].latest
        return CheckResult(
            f"Observations hardly vary: their largest deviation is {spread:.2g}.", spread
        )
    return None


def detect_large_rewards(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect rewards larger than `threshold`."""
    size = signals.values["reward_max"]
    if size <= threshold:
        return None
    return CheckResult(f"Rewards reach {size:.3g} in size.", size)


def detect_easy_task(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect first episodes that already reach the reward threshold of the task."""
    wanted, first = signals.facts.reward_threshold, signals.series["return"].first(3)
    if wanted is None or len(first) < 3 or first.mean() <= threshold * wanted:
        return None
    return CheckResult(
        f"The first 3 episodes returned {first.mean():.4g}; "
        f"the task counts as solved from {wanted:g}.",
        float(first.mean()),
    )


def detect_large_observations(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect observations larger than `threshold`."""
    size = signals.series["observation_size"].last(64).max()
    return (
        CheckResult(f"Observations reach {size:.3g} in size.", float(size))
        if size > threshold
        else None
    )


def detect_repeated_observation(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect an observation repeated `threshold` times, in the median of five chunks."""
    runs = signals.series["same_observation_run"].last(5)
    if len(runs) < 3 or np.median(runs) < threshold:
        return None
    return CheckResult(
        f"Within episodes one observation follows itself {np.median(runs):.0f} times in a row.",
        float(np.median(runs)),
    )


def detect_repeated_final_states(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect last episodes that end in the same observations, without progress."""
    return _detect_repeated_ends(signals, threshold, "observations", rtol=1e-6, atol=1e-8)


def detect_repeated_final_actions(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect last episodes that end in the same actions, without progress."""
    return _detect_repeated_ends(signals, threshold, "actions", rtol=1e-4, atol=1e-6)


def _detect_repeated_ends(
    signals: TrainingSignals, threshold: float, part: str, *, rtol: float, atol: float
) -> CheckResult | None:
    last = list(signals.episodes)[-int(threshold) :]
    if len(last) < threshold or not _has_no_improvement(signals):
        return None
    one, *others = (getattr(episode, part) for episode in last)
    if any(end.shape != one.shape for end in others) or len(one) < 5:
        return None
    if not all(np.allclose(end, one, rtol=rtol, atol=atol) for end in others):
        return None
    return CheckResult(
        f"The last {len(last)} episodes ended in the same {len(one)} {part}.", len(last)
    )


def _has_no_improvement(signals: TrainingSignals) -> bool:
    """Return whether the last returns are no better than the first ones."""
    returns = signals.series["return"]
    first, last = returns.first(10), returns.last(5)
    return bool(last.mean() <= first.mean() + 0.1 * max(abs(first.mean()), 1e-9))


def detect_truncated_episodes(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect episodes that all reach the time limit, with the returns of the first ones."""
    last = list(signals.episodes)[-10:]
    if signals.series["return"].count < 20 or not all(episode.truncated for episode in last):
        return None
    first = signals.series["return"].first(10)
    recent = np.array([episode.episode_return for episode in last])
    scale = max(abs(first.mean()), 1e-9)
    change = float(recent.mean() - first.mean()) / scale
    if abs(change) > threshold:
        return None
    return CheckResult(
        f"The last 10 episodes reached the time limit and returned {recent.mean():.4g} "
        f"like the first ones ({first.mean():.4g}).",
        change,
    )


CHECKS = make_checks(
    {
        "invalid-observations": detect_invalid_observations,
        "rewards-not-scaled": (detect_large_rewards, _why_observations_rescaled),
        "task-too-easy": (detect_easy_task, why_no_reward_threshold),
        "observations-not-scaled": (detect_large_observations, _why_observations_rescaled),
        "repeated-observation": (detect_repeated_observation, _why_parallel_envs),
        "repeated-final-states": detect_repeated_final_states,
        "truncated-without-progress": detect_truncated_episodes,
        "repeated-final-actions": detect_repeated_final_actions,
    }
)
"""Checks of the environment, observations and episodes."""
