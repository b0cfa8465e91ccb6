"""Table I, environment, states and steps."""

import numpy as np

from harness.diagnosis.check import (
    EARLY,
    ERROR,
    LATE,
    NOTE,
    THROUGHOUT,
    WARNING,
    Check,
    Seen,
)
from harness.diagnosis.signals import Facts, Signals


def _scaled(facts: Facts) -> str:
    return "the learner sees other numbers than the task's (wrappers)" if facts.normalized else ""


def _one_copy(facts: Facts) -> str:
    return "episodes of several copies are mixed" if facts.n_envs > 1 else ""


def _solvable(facts: Facts) -> str:
    return "" if facts.reward_threshold is not None else "the task declares no reward threshold"


def conforms(signals: Signals, threshold: float) -> Seen | None:
    """Whether observations and rewards are numbers, within their space, and vary."""
    series = signals.series
    if not series["finite"].latest:
        return Seen("An observation or reward is not finite.", 0.0, ERROR)
    if "outside_space" in series and series["outside_space"].latest > 0.01:
        share = series["outside_space"].latest
        return Seen(f"{share:.0%} of observations lie outside the declared space.", share)
    if "observation_std" in series and series["observation_std"].latest <= threshold:
        spread = series["observation_std"].latest
        return Seen(f"Observations hardly vary: their largest deviation is {spread:.2g}.", spread)
    return None


def reward_range(signals: Signals, threshold: float) -> Seen | None:
    """Whether rewards are large."""
    size = signals.values["reward_max"]
    if size <= threshold:
        return None
    return Seen(f"Rewards reach {size:.3g} in size.", size)


def too_easy(signals: Signals, threshold: float) -> Seen | None:
    """Whether the first episodes reach what counts as solved."""
    wanted, first = signals.facts.reward_threshold, signals.series["return"].first(3)
    if wanted is None or len(first) < 3 or first.mean() <= threshold * wanted:
        return None
    return Seen(
        f"The first 3 episodes returned {first.mean():.4g}, and {wanted:g} counts as solved.",
        float(first.mean()),
    )


def state_range(signals: Signals, threshold: float) -> Seen | None:
    """Whether observations are large."""
    size = signals.series["observation_size"].last(64).max()
    return (
        Seen(f"Observations reach {size:.3g} in size.", float(size)) if size > threshold else None
    )


def stuck(signals: Signals, threshold: float) -> Seen | None:
    """Whether one observation follows itself so often, in the median of recent stretches."""
    runs = signals.series["same_observation_run"].last(5)
    if len(runs) < 3 or np.median(runs) < threshold:
        return None
    return Seen(
        f"Within episodes one observation follows itself {np.median(runs):.0f} times in a row.",
        float(np.median(runs)),
    )


def same_path(signals: Signals, threshold: float) -> Seen | None:
    """Whether the last episodes ended in the same observations, and with little return."""
    last = list(signals.episodes)[-int(threshold) :]
    if len(last) < threshold or not _poor(signals):
        return None
    one = last[0].observations
    if any(e.observations.shape != one.shape for e in last) or len(one) < 5:
        return None
    if not all(np.allclose(e.observations, one, rtol=1e-6, atol=1e-8) for e in last):
        return None
    return Seen(
        f"The last {len(last)} episodes ended in the same {len(one)} observations.", len(last)
    )


def same_actions(signals: Signals, threshold: float) -> Seen | None:
    """Whether the last episodes ended in the same actions, and with little return."""
    last = list(signals.episodes)[-int(threshold) :]
    if len(last) < threshold or not _poor(signals):
        return None
    one = last[0].actions
    if any(e.actions.shape != one.shape for e in last) or len(one) < 5:
        return None
    if not all(np.allclose(e.actions, one, rtol=1e-4, atol=1e-6) for e in last):
        return None
    return Seen(f"The last {len(last)} episodes ended in the same {len(one)} actions.", len(last))


def _poor(signals: Signals) -> bool:
    """Whether the last returns are no better than the first ones."""
    returns = signals.series["return"]
    first, last = returns.first(10), returns.last(5)
    return bool(last.mean() <= first.mean() + 0.1 * max(abs(first.mean()), 1e-9))


def always_cut(signals: Signals, threshold: float) -> Seen | None:
    """Whether all recent episodes were cut off, with the same return as the first ones."""
    last = list(signals.episodes)[-10:]
    if signals.series["return"].count < 20 or not all(episode.truncated for episode in last):
        return None
    first = signals.series["return"].first(10)
    recent = np.array([episode.episode_return for episode in last])
    scale = max(abs(first.mean()), 1e-9)
    change = float(recent.mean() - first.mean()) / scale
    if abs(change) > threshold:
        return None
    return Seen(
        f"The last 10 episodes were cut off by the time limit, and return {recent.mean():.4g} "
        f"as the first ones did ({first.mean():.4g}).",
        change,
    )


CHECKS = (
    Check(
        "ENV_d1",
        "the environment does not keep to its interface",
        THROUGHOUT,
        WARNING,
        ("finite",),
        0.001,
        "RLExplorer 0.001 for the spread; NaN and infinity both",
        conforms,
        "a fault of the environment's, or a declared space that is wrong.",
        "mend the environment: gymnasium.utils.env_checker tells more.",
        "observations that hardly vary within 256 steps of a very slow task.",
    ),
    Check(
        "ENV_d2",
        "rewards are not scaled",
        THROUGHOUT,
        NOTE,
        ("reward_max",),
        10.0,
        "RLExplorer [-10, 10], after Jones' advice",
        reward_range,
        "the task's rewards are as they are.",
        "wrappers=normalized, or a reward scale.",
        "many tasks train well so; a note, no fault.",
        _scaled,
    ),
    Check(
        "ENV_d3",
        "the task is too easy",
        EARLY,
        WARNING,
        ("beginning", "return"),
        1.0,
        "the task's own reward threshold",
        too_easy,
        "untrained actions solve it.",
        "choose a harder task, or a task whose reward says more.",
        "the mean of three episodes is uncertain.",
        _solvable,
    ),
    Check(
        "STT_d1",
        "observations are not scaled",
        EARLY,
        NOTE,
        ("beginning", "observation_size"),
        10.0,
        "RLExplorer [-10, 10] (early, as the paper says)",
        state_range,
        "the task's observations are as they are.",
        "wrappers=normalized.",
        "a few large values of velocities do little harm; a note, no fault.",
        _scaled,
    ),
    Check(
        "STT_d2",
        "the agent is stuck within episodes",
        LATE,
        WARNING,
        ("same_observation_run",),
        10.0,
        "RLExplorer: 10 observations",
        stuck,
        "actions without effect, or a policy that has collapsed.",
        "more exploration (exploration_final, ent_coef, exploration noise).",
        "tasks in which standing still is right.",
        _one_copy,
    ),
    Check(
        "STT_d3",
        "episodes repeat each other's end",
        LATE,
        WARNING,
        ("beginning", "episodes", "return"),
        3.0,
        "RLExplorer: 10 observations of 2 episodes; here 3, with a tolerance",
        same_path,
        "a policy without exploration in a deterministic task.",
        "more exploration (exploration_final, ent_coef, exploration noise).",
        "a task with one start and one way to end.",
    ),
    Check(
        "STP_d1",
        "episodes end at the limit without progress",
        LATE,
        WARNING,
        ("beginning", "episodes", "return"),
        1e-3,
        "own: relative change of the mean return; the paper takes 10% of the highest reward, "
        "which means nothing where returns are negative or unbounded",
        always_cut,
        "nothing that is rewarded was ever reached.",
        "more exploration, a longer time limit, or rewards on the way.",
        "a task that returns the same in every episode.",
    ),
    Check(
        "ACN_d6",
        "episodes repeat each other's actions",
        THROUGHOUT,
        WARNING,
        ("beginning", "episodes", "return"),
        5.0,
        "own: 5 episodes, set on one half of the runs; RLExplorer 10 actions of 2",
        same_actions,
        "a policy that has collapsed to one answer, or no exploration.",
        "more exploration (exploration_initial, exploration_steps, ent_coef).",
        "short episodes of a task with few actions repeat by chance.",
    ),
)
"""What is asked of environment, states and steps."""
