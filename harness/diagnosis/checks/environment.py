"""Checks of the environment, observations and episodes (RLExplorer, Table I: ENV, STT, STP)."""

import numpy as np

from parallax.harness.diagnosis.check import (
    EARLY,
    ERROR,
    LATE,
    NOTE,
    THROUGHOUT,
    WARNING,
    CheckResult,
    DiagnosisCheck,
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


CHECKS = (
    DiagnosisCheck(
        "invalid-observations",
        "the environment breaks its own interface",
        THROUGHOUT,
        WARNING,
        ("finite",),
        0.001,
        "RLExplorer 0.001 for the spread; NaN and infinity both",
        detect_invalid_observations,
        "a bug in the environment, or a wrong declared space.",
        "fix the environment; gymnasium.utils.env_checker finds more.",
        "observations that hardly vary within 256 steps of a very slow task.",
        paper_id="ENV.d1",
    ),
    DiagnosisCheck(
        "rewards-not-scaled",
        "rewards are not scaled",
        THROUGHOUT,
        NOTE,
        ("reward_max",),
        10.0,
        "RLExplorer [-10, 10], after Jones' advice",
        detect_large_rewards,
        "the task has large rewards.",
        "wrappers=normalized, or a reward scale.",
        "many tasks train well with large rewards: this is a note, not a fault.",
        _why_observations_rescaled,
        paper_id="ENV.d2",
    ),
    DiagnosisCheck(
        "task-too-easy",
        "the task is too easy",
        EARLY,
        WARNING,
        ("beginning", "return"),
        1.0,
        "the task's own reward threshold",
        detect_easy_task,
        "untrained actions solve it.",
        "choose a harder task, or one with a more informative reward.",
        "the mean of three episodes is uncertain.",
        why_no_reward_threshold,
        paper_id="ENV.d3",
    ),
    DiagnosisCheck(
        "observations-not-scaled",
        "observations are not scaled",
        EARLY,
        NOTE,
        ("beginning", "observation_size"),
        10.0,
        "RLExplorer [-10, 10] (early, as the paper says)",
        detect_large_observations,
        "the task has large observations.",
        "wrappers=normalized.",
        "a few large velocities do little harm: this is a note, not a fault.",
        _why_observations_rescaled,
        paper_id="STT.d1",
    ),
    DiagnosisCheck(
        "repeated-observation",
        "the agent is stuck within episodes",
        LATE,
        WARNING,
        ("same_observation_run",),
        10.0,
        "RLExplorer: 10 observations",
        detect_repeated_observation,
        "actions without effect, or a policy that has collapsed.",
        "more exploration (exploration_final, ent_coef, exploration noise).",
        "tasks in which standing still is right.",
        _why_parallel_envs,
        paper_id="STT.d2",
    ),
    DiagnosisCheck(
        "repeated-final-states",
        "episodes end in the same observations",
        LATE,
        WARNING,
        ("beginning", "episodes", "return"),
        3.0,
        "RLExplorer: 10 observations of 2 episodes; here 3, with a tolerance",
        detect_repeated_final_states,
        "a policy without exploration in a deterministic task.",
        "more exploration (exploration_final, ent_coef, exploration noise).",
        "a task with one start and one way to end.",
        paper_id="STT.d3",
    ),
    DiagnosisCheck(
        "truncated-without-progress",
        "episodes end at the limit without progress",
        LATE,
        WARNING,
        ("beginning", "episodes", "return"),
        1e-3,
        "own: relative change of the mean return; the paper takes 10% of the highest reward, "
        "which means nothing where returns are negative or unbounded",
        detect_truncated_episodes,
        "the agent never reached a reward.",
        "more exploration, a longer time limit, or intermediate rewards.",
        "a task that returns the same in every episode.",
        paper_id="STP.d1",
    ),
    DiagnosisCheck(
        "repeated-final-actions",
        "episodes end in the same actions",
        THROUGHOUT,
        WARNING,
        ("beginning", "episodes", "return"),
        5.0,
        "own: 5 episodes, set on one half of the runs; RLExplorer 10 actions of 2",
        detect_repeated_final_actions,
        "a policy that has collapsed to one action, or no exploration.",
        "more exploration (exploration_initial, exploration_steps, ent_coef).",
        "short episodes of a task with few actions repeat by chance.",
        paper_id="ACN.d6",
    ),
)
"""Checks of the environment, observations and episodes."""
