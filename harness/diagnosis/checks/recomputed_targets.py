"""Checks of targets, returns and advantages that are read from the losses of running code.

A watcher reads the targets that a loss compares predictions with, and finds the rows of the
minibatch among the last transitions (`minibatch_matching`). Networks that were evaluated just
before give the values of the next states.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.diagnosis.check import NOTE, WARNING, CheckResult, make_checks
from parallax.harness.diagnosis.minibatch_matching import MatchedMinibatch
from parallax.harness.diagnosis.signals import Array, TrainingFacts, TrainingSignals
from parallax.harness.formulas import compute_td_target

_MIN_COUNT = 3
_MIN_ROWS = 12
_GAMMA_TOLERANCE = 0.003
_MAX_TARGET_VALUE = "the largest value of the target network"
_DOUBLE_Q_VALUE = "the target's value of the choice of the network that is trained"
_MIN_CRITIC_VALUE = "the smaller value of two critics"
_SINGLE_CRITIC_VALUE = "the critic's value"


def detect_wrong_matched_targets(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect targets other than r + gamma * (1 - terminated) * V(s')."""
    minibatches = [one for one in signals.values["regressions"] if one.kind == "values"]
    if not _has_bootstrapped_targets(signals.facts, minibatches):
        return None
    return (
        _detect_wrong_ends(minibatches, threshold)
        or _detect_truncation_as_end(minibatches, signals.facts, threshold)
        or _detect_wrong_target_weights(minibatches, signals.facts, threshold)
    )


def _has_bootstrapped_targets(
    facts: TrainingFacts, minibatches: Sequence[MatchedMinibatch]
) -> bool:
    known = facts.has_targets
    return known if known is not None else any(one.heads for one in minibatches)


def _concatenate_column(minibatches: Sequence[MatchedMinibatch], read: Any) -> Array:
    return np.concatenate([np.asarray(read(one), float) for one in minibatches])


def _select_targets(
    minibatches: Sequence[MatchedMinibatch], is_end: Callable[[MatchedMinibatch], Any]
) -> tuple[Array, Array, float] | None:
    """Return targets and rewards of ends, and the targets' scale; None of too few ends."""
    ended = _concatenate_column(minibatches, is_end).astype(bool) if minibatches else np.zeros(0)
    if ended.sum() < _MIN_COUNT:
        return None
    target = _concatenate_column(minibatches, lambda one: one.targets)
    reward = _concatenate_column(minibatches, lambda one: one.found.rewards)
    return target[ended], reward[ended], max(float(np.abs(target).max()), 1e-6)


def _detect_wrong_ends(
    minibatches: Sequence[MatchedMinibatch], threshold: float
) -> CheckResult | None:
    ends = _select_targets(minibatches, lambda one: one.found.terminated)
    if ends is None:
        return None
    target, reward, scale = ends
    none = np.ones(target.size)
    right = compute_td_target(reward, none, 1.0, none)
    wrong = np.abs(target - right) > 10 * threshold * scale
    if wrong.mean() <= 0.5 or _is_scaled_reward(target, right, 10 * threshold * scale):
        return None
    return CheckResult(
        f"{wrong.sum()} of {wrong.size} targets of transitions that ended the task are not their "
        "reward: they are computed as if the episode went on.",
        float(np.abs(target - right).max() / scale),
    )


def _is_scaled_reward(target: Array, reward: Array, tolerance: float) -> bool:
    """Return whether targets are rewards times a constant."""
    square = float(np.dot(reward, reward))
    weight = float(np.dot(reward, target)) / square if square else 0.0
    return bool(np.abs(target - weight * reward).max() <= tolerance)


def _detect_truncation_as_end(
    minibatches: Sequence[MatchedMinibatch], facts: TrainingFacts, threshold: float
) -> CheckResult | None:
    cut = _select_targets(minibatches, lambda one: one.found.truncated)
    if cut is None:
        return None
    target, reward, scale = cut
    if (np.abs(target - reward) > threshold * scale).any():
        return None
    by_choice = facts.hyperparameters.get("bootstrap_truncation") is False
    return CheckResult(
        f"{target.size} targets of transitions that a time limit cut off are only their reward: "
        "time limits are treated as terminal.",
        float(target.size),
        NOTE if by_choice else WARNING,
    )


def _detect_wrong_target_weights(
    minibatches: Sequence[MatchedMinibatch], facts: TrainingFacts, threshold: float
) -> CheckResult | None:
    """Fit targets to rewards and next values; report exact fits with wrong weights."""
    gamma = facts.gamma
    if gamma is None or _has_hyperparameter(facts, "target_entropy"):
        return None  # the target contains the entropy of the next action, which is not observed
    fits = [fit for one in minibatches if (fit := _fit_targets(one, facts, gamma, threshold))]
    wrong = [fit for fit in fits if fit.is_wrong]
    if len(wrong) < _MIN_COUNT or len(wrong) <= len(fits) / 2:
        return None
    last = wrong[-1]
    is_discounted = abs(last.value_weight - gamma) < _GAMMA_TOLERANCE
    return CheckResult(
        f"Targets of {len(wrong)} of {len(fits)} minibatches are {last.reward_weight:.4g} times "
        f"the reward plus {last.value_weight:.4g} times {last.value} (gamma is {gamma:g}).",
        last.value_weight,
        WARNING if is_discounted and last.is_right_value else None,
    )


def _has_hyperparameter(facts: TrainingFacts, hyperparameter: str) -> bool:
    # Those of a run, or of the algorithm that a user's own loop names.
    known = ALGORITHMS.get(facts.algorithm)
    fields = dataclasses.fields(known) if known else ()
    return hyperparameter in facts.hyperparameters or hyperparameter in {f.name for f in fields}


@dataclasses.dataclass(frozen=True)
class _TargetFit:
    """Targets that are a weighted sum of rewards and next values.

    Attributes:
        value: Name of the next value.
        is_right_value: Whether the algorithm's targets have this one.
        is_wrong: Whether the next value or a weight is not the algorithm's.
    """

    value: str
    is_right_value: bool
    reward_weight: float
    value_weight: float
    is_wrong: bool


def _fit_targets(
    one: MatchedMinibatch, facts: TrainingFacts, gamma: float, threshold: float
) -> _TargetFit | None:
    """Return an exact fit, the algorithm's own if it is one; None if there is none."""
    goes_on = ~(one.found.terminated | one.found.truncated)
    target, reward = one.targets[goes_on], one.found.rewards[goes_on]
    if len(target) < _MIN_ROWS:
        return None
    scale = max(float(np.abs(target).max()), 1e-6)
    explained = None
    for name, right, values in _iterate_next_values(one, facts):
        value = values[goes_on]
        # A fit cannot tell a constant value from an offset.
        if not 1e-2 * scale <= np.ptp(value) < np.inf:  # also where a number is NaN
            continue
        columns = np.stack([reward, value], axis=1)
        weights = np.linalg.lstsq(columns, target, rcond=None)[0]
        if np.abs(columns @ weights - target).max() > 10 * threshold * scale:
            continue
        # Constant targets fit constant rewards, whatever the values are.
        if max(np.ptp(columns, axis=0) * np.abs(weights)) < 1e-2 * scale:
            continue
        fine = right and abs(weights[1] - gamma) < _GAMMA_TOLERANCE
        # Beside huge values, rewards are below the resolution of targets.
        visible = np.abs(reward).max() > 10 * threshold * scale
        fine &= abs(weights[0] - 1) < 0.02 or not visible
        fit = _TargetFit(name, right, float(weights[0]), float(weights[1]), not fine)
        explained = explained or fit
        if fine:
            return fit
    return explained


def _iterate_next_values(
    one: MatchedMinibatch, facts: TrainingFacts
) -> Iterator[tuple[str, bool, Array]]:
    """Yield candidates for the next value: name, whether it is the right one, values [rows]."""
    heads = one.heads
    if facts.choices:
        for head in heads:
            name = (
                "the largest value of the network that is trained"
                if head.trained
                else _MAX_TARGET_VALUE
            )
            # Mnih et al. 2015: the target network both chooses the next action and values it.
            yield name, not head.trained, head.outputs.max(axis=1)
        for value, choice in itertools.permutations(heads, 2):
            chosen = choice.outputs.argmax(axis=1)[:, None]
            # Double DQN (van Hasselt et al. 2016): the trained network chooses, the target values.
            right = not value.trained and choice.trained
            name = _DOUBLE_Q_VALUE if right else "the value of another network's choice"
            yield name, right, np.take_along_axis(value.outputs, chosen, axis=1)[:, 0]
        return
    # Only TD3's target is the smaller of two critics here; SAC's has an entropy term besides.
    twins = _has_hyperparameter(facts, "target_policy_noise")
    single = [head for head in heads if head.outputs.shape[1] == 1]
    for head in single:
        name = "the value of a critic that is trained" if head.trained else _SINGLE_CRITIC_VALUE
        yield name, not twins and not head.trained, head.outputs[:, 0]
    for one_head, other in itertools.combinations(single, 2):
        both = np.concatenate([one_head.outputs, other.outputs], axis=1)
        online = one_head.trained or other.trained
        yield _MIN_CRITIC_VALUE, twins and not online, both.min(axis=1)
        yield "the larger value of two critics", False, both.max(axis=1)
        yield "the mean of two critics", False, both.mean(axis=1)


def detect_wrong_matched_returns(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect returns that violate the recursion of lambda returns.

    R_t = r_t + gamma * (1 - end_t) * ((1 - lambda) * V(s_{t+1}) + lambda * R_{t+1}), which is GAE
    plus the value (Schulman et al. 2016, arXiv:1506.02438, equations 14 to 16).
    """
    facts, minibatches = signals.facts, signals.values["regressions"]
    lam, gamma = facts.hyperparameters.get("gae_lambda"), facts.gamma
    values = [one for one in minibatches if one.kind == "values"]
    if lam is None or gamma is None or _has_bootstrapped_targets(facts, values):
        return None
    rows = [_collect_recursion_rows(values, window) for window in {one.window for one in values}]
    left, reward, value, following, ended = (
        np.concatenate(column) for column in zip(*rows, strict=True)
    )
    if len(left) < _MIN_ROWS:
        return None
    scale = max(float(np.abs(left).max()), 1e-6)
    goes_on = 1 - ended
    mixed = (1 - lam) * value + lam * following
    later = goes_on * gamma * mixed
    forms: Mapping[str, Array] = {
        "": reward + later,
        "without the discount factor": reward + goes_on * mixed,
        "with gae_lambda=1": reward + goes_on * gamma * following,
        "with gae_lambda=0": reward + goes_on * gamma * value,
        "as if no episode ever ended": reward + gamma * mixed,
        "with half of the reward": reward / 2 + later,
        "with twice the reward": 2 * reward + later,
        "with the reward subtracted": -reward + later,
    }
    off = {name: np.abs(left - form) > 10 * threshold * scale for name, form in forms.items()}
    on, at_ends = off[""][ended == 0], off[""][ended == 1]
    if not _is_mostly_wrong(on, _MIN_ROWS) and not _is_mostly_wrong(at_ends, _MIN_COUNT):
        return None
    names = [name for name, wrong in off.items() if name and wrong.mean() < 0.1]
    how = f"; they equal the formula {names[0]}" if names else ""
    return CheckResult(
        f"{off[''].sum()} of {len(left)} returns are not reward + gamma * ((1 - lambda) * next "
        f"value + lambda * next return){how}.",
        float(np.abs(left - forms[""]).max() / scale),
    )


def _is_mostly_wrong(wrong: Array, few: int) -> bool:
    return len(wrong) >= few and bool(wrong.mean() > 0.5)


def _collect_recursion_rows(values: Sequence[MatchedMinibatch], window: int) -> tuple[Array, ...]:
    """Collect return, reward, next value, next return and end of steps with a known next step."""
    worth: dict[int, float] = {}
    returned: dict[int, tuple[float, float, int, bool, bool]] = {}
    for one in (one for one in values if one.window == window):
        found = one.found
        for row, step in enumerate(found.steps):
            # Only before the first optimizer step are predictions the values that the returns used.
            if one.first and one.predictions is not None:
                worth.setdefault(int(step), float(one.predictions[row]))
            entry = float(one.targets[row]), float(found.rewards[row]), int(found.following[row])
            flags = bool(found.terminated[row]), bool(found.truncated[row])
            # Later epochs show the same returns again.
            returned.setdefault(int(step), (*entry, *flags))
    rows = []
    for target, reward, following, terminated, truncated in returned.values():
        if terminated:
            rows.append((target, reward, 0.0, 0.0, 1.0))
        elif not truncated and following in worth and following in returned:
            rows.append((target, reward, worth[following], returned[following][0], 0.0))
    return tuple(np.array(rows, float).reshape(-1, 5).T)


def detect_wrong_matched_advantages(
    signals: TrainingSignals, threshold: float
) -> CheckResult | None:
    """Detect advantages that are not returns minus values, of any scale and offset."""
    minibatches = signals.values["regressions"]
    firsts = [one for one in minibatches if one.first]
    wrong, compared = [], 0
    for one in (one for one in firsts if one.kind == "advantages"):
        for other in (o for o in firsts if o.kind == "values" and o.window == one.window):
            same = len(one.targets) == len(other.targets) >= _MIN_ROWS
            if not same or other.predictions is None:
                continue
            if not np.array_equal(one.found.steps, other.found.steps):
                continue
            right = other.targets - other.predictions
            compared += 1
            wrong.append(1 - abs(float(np.corrcoef(right, one.targets)[0, 1])))
    off = [distance for distance in wrong if distance > 10 * threshold]
    if compared < 2 or len(off) <= compared / 2:
        return None
    return CheckResult(
        f"In {len(off)} of {compared} minibatches advantages are not returns minus values of any "
        f"scale: their correlation is {1 - max(off):.3f}.",
        max(off),
    )


def _why_no_bootstrapped_targets(facts: TrainingFacts) -> str:
    if facts.normalized:
        return "wrappers rescale observations and rewards"
    return "" if facts.has_targets is not False else "values are fitted to returns"


def _why_no_lambda_returns(facts: TrainingFacts) -> str:
    if facts.normalized:
        return "wrappers rescale observations and rewards"
    return "" if facts.has_targets is not True else "values are fitted to bootstrapped targets"


CHECKS = make_checks(
    {
        "wrong-targets-matched": (detect_wrong_matched_targets, _why_no_bootstrapped_targets),
        "wrong-returns-matched": (detect_wrong_matched_returns, _why_no_lambda_returns),
        "wrong-advantages-matched": (detect_wrong_matched_advantages, _why_no_lambda_returns),
    }
)
"""Checks of targets, returns and advantages that a library watcher reads."""
