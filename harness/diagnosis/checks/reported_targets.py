"""Checks of targets, advantages and returns that a program reports, by recomputing them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parallax.harness.diagnosis.check import CheckResult, make_checks
from parallax.harness.diagnosis.signals import Array, TrainingSignals
from parallax.harness.formulas import compute_gae, compute_td_target, standardize_advantages

_FAULTY_TARGET_FORMULAS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("as if no episode ever ended", lambda r, g, v, t, c: r + g * v),
    ("without the discount factor", lambda r, g, v, t, c: r + v * (1 - t)),
    ("without the next value", lambda r, g, v, t, c: r + 0 * v),
    (
        "with time limits treated as terminal",
        lambda r, g, v, t, c: r + g * v * (1 - np.maximum(t, c)),
    ),
)


def detect_wrong_targets(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect targets other than r + gamma * (1 - terminated) * V(s')."""
    given = signals.values["targets"]
    reward, value = np.asarray(given["rewards"], float), np.asarray(given["next_values"], float)
    ended, cut = np.asarray(given["terminated"], float), np.asarray(given["truncated"], float)
    target, gamma = np.asarray(given["targets"], float), float(given["gamma"])
    variants = {
        name: form(reward, gamma, value, ended, cut) for name, form in _FAULTY_TARGET_FORMULAS
    }
    return _compare_with_formula(
        "targets", target, compute_td_target(reward, ended, gamma, value), variants, threshold
    )


def detect_missing_ends(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect reported targets with hardly any terminal transitions although episodes terminate."""
    count, ends = signals.values["reported_targets"]
    wanted = count * signals.values["ended_by_task"] / max(signals.step, 1)
    # If 25 are expected, 2 or fewer have a probability of 5e-9 (Poisson).
    if wanted < 25 or ends > threshold * wanted:
        return None
    return CheckResult(
        f"{ends:.0f} of {count:.0f} transitions with reported targets are terminal; about "
        f"{wanted:.0f} should be.",
        ends / wanted,
    )


def detect_wrong_advantages(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect advantages other than GAE (Schulman et al. 2016), standardised or not."""
    given = dict(signals.values["advantages"])
    reported, lam = given.pop("advantages"), given.pop("gae_lambda")

    def estimate(**changes: Any) -> Array:
        return compute_gae(**{**given, "lam": lam, **changes})

    right, none = estimate(), np.zeros_like(given["ended"])
    if _is_close(reported, standardize_advantages(right), threshold):
        return None
    variants = {
        "as if no episode ever ended": estimate(terminated=none, ended=none),
        "with time limits treated as terminal": estimate(terminated=given["ended"]),
        "without the discount factor": estimate(gamma=1.0),
        "with gae_lambda=1": estimate(lam=1.0),
        "with gae_lambda=0": estimate(lam=0.0),
        "with the values of the current states instead of the next ones": estimate(
            next_values=given["values"]
        ),
    }
    return _compare_with_formula("advantages", reported, right, variants, threshold)


def detect_wrong_returns(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect returns of an episode other than discounted rewards-to-go, of any scale and offset."""
    given = signals.values["returns"]
    reward, gamma, reported = given["rewards"], given["gamma"], given["returns"]
    right = compute_discounted_returns(reward, gamma)
    if _is_close(_remove_scale(reported), _remove_scale(right), threshold):
        return None
    powers = gamma ** np.arange(len(reward))
    # gamma^t * G_t, as in the policy gradient theorem (Sutton and Barto 2018, section 13.3)
    if _is_close(_remove_scale(reported), _remove_scale(powers * right), threshold):
        return None
    variants = {
        "without the discount factor": compute_discounted_returns(reward, 1.0),
        "from the reward of each step alone": reward,
        "from what came before instead of what follows": compute_discounted_returns(
            reward[::-1], gamma
        )[::-1],
        "as discounted rewards that are not summed up": powers * reward,
        "as sums from the episode's begin": np.cumsum(powers * reward),
        "with the discount running backwards": np.cumsum((powers[::-1] * reward)[::-1])[::-1],
        "as one number for the whole episode": np.full_like(reward, (powers * reward).sum()),
        "in reversed order": right[::-1],
    }
    variants = {name: _remove_scale(form) for name, form in variants.items()}
    return _compare_with_formula(
        "returns", _remove_scale(reported), _remove_scale(right), variants, threshold
    )


def compute_discounted_returns(rewards: Array, gamma: float) -> Array:
    """Return G_t = r_t + gamma * G_{t+1} for all steps of an episode, float64[steps]."""
    sums, following = np.zeros(len(rewards)), 0.0
    for step in reversed(range(len(rewards))):
        following = rewards[step] + gamma * following
        sums[step] = following
    return sums


def _remove_scale(values: Array) -> Array:
    """Return standardised values, or zeros if all values are equal."""
    spread = float(values.std())
    # Programs often standardise the returns of an episode; the comparison must not depend on it.
    return (values - values.mean()) / spread if spread > 1e-9 else np.zeros_like(values)


def _is_close(one: Array, other: Array, tolerance: float) -> bool:
    scale = max(float(np.abs(other).max(initial=0.0)), 1e-6)
    return float(np.abs(one - other).max(initial=0.0)) <= tolerance * scale


def _compare_with_formula(
    what: str, reported: Array, right: Array, variants: Mapping[str, Array], threshold: float
) -> CheckResult | None:
    scale = max(float(np.abs(right).max(initial=0.0)), 1e-6)
    error = float(np.abs(reported - right).max(initial=0.0)) / scale
    if error <= threshold:
        return None
    names = [name for name, form in variants.items() if _is_close(reported, form, threshold)]
    how = f"; they equal the formula {names[0]}" if names else ""
    wrong = int((np.abs(reported - right) > threshold * scale).sum())
    return CheckResult(
        f"{wrong} of {reported.size} {what} differ from the formula, by up to {error:.2g} of their "
        f"size{how}.",
        error,
    )


CHECKS = make_checks(
    {
        "wrong-targets": detect_wrong_targets,
        "missing-terminal-transitions": detect_missing_ends,
        "wrong-advantages": detect_wrong_advantages,
        "wrong-returns": detect_wrong_returns,
    }
)
"""Checks of targets, advantages and returns that a program reports."""
