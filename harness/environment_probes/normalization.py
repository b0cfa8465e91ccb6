"""Questions about running statistics of observations and rewards.

Definition of observation normalization: mean and population variance over every observation that
was returned to act on or at an end, each once, over all copies, updated before the observation is
scaled. Definition of reward normalization: rewards are divided by the standard deviation of the
discounted return of each copy, R = gamma R + r, which is 0 at the start of every episode.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.probing.environments import (
    CALLER,
    NEXT_STEP,
    RECEIVED,
    SAME_STEP,
    EnvironmentImplementation,
)
from parallax.harness.environment_probes.answers import (
    AS_DEFINED,
    DIFFERS,
    NOT_MEASURED,
    EnvironmentAnswer,
)
from parallax.harness.environment_probes.hypotheses import (
    Explanation,
    Factor,
    Finish,
    ScaledParts,
    explain_numbers,
)
from parallax.harness.environment_probes.trace import Trace, TraceEvent, collect_trace, make_scripts

Array = NDArray[Any]
_STEPS = 24
_RESET_AFTER = 18
_FREEZE_AFTER = 2
"""Early, so that numbers of the second episode are far from the mean and clipping is visible."""
_GAMMA = 0.99

PRIOR = Factor(
    "prior",
    {"initial count 1e-4": 1e-4, "initial count 0": 0.0, "initial count 1": 1.0},
    is_setting=True,
)
BATCH_VARIANCE = Factor("ddof", {"": 0, "the variance of a batch is divided by n - 1": 1})
ORDER = Factor(
    "updates_first", {"": True, "numbers are scaled by the statistics from before them": False}
)
SHARED = Factor("per_copy", {"": False, "each copy has statistics of its own": True})
FROZEN = Factor("ignores_freeze", {"": False, "frozen statistics are still updated": True})
EXPLICIT_RESETS = Factor(
    "carries_reset", {"": False, "the discounted return is carried over an explicit reset": True}
)


class RunningMoments:
    """Mean and variance by the parallel algorithm, from a prior of mean 0 and variance 1."""

    def __init__(self, count: float, size: int) -> None:
        self.mean, self.var, self.count = np.zeros(size), np.ones(size), count

    def update(self, batch: Array, ddof: int) -> None:
        """Add rows, float[n, size]."""
        if not len(batch):
            return
        with np.errstate(all="ignore"):
            mean, n = batch.mean(axis=0), len(batch)
            var = np.full_like(mean, np.nan) if n <= ddof else batch.var(axis=0, ddof=ddof)
            delta, total = mean - self.mean, self.count + n
            squares = self.var * self.count + var * n + delta**2 * self.count * n / total
            self.mean, self.var = self.mean + delta * n / total, squares / total
            self.count = total


class DecayingMoments:
    """Mean and variance of exponentially decaying sums, as in TorchRL."""

    def __init__(self, decay: float, size: int, corrected: bool) -> None:
        self._decay, self._corrected = decay, corrected
        self._sum, self._squares, self._count = np.zeros(size), np.zeros(size), 0.0

    def update(self, batch: Array, ddof: int) -> None:
        """Add rows one after another."""
        for row in batch:
            self._sum = self._decay * self._sum + row
            self._squares = self._decay * self._squares + row**2
            self._count = self._decay * self._count + 1

    @property
    def mean(self) -> Array:
        """The mean of the decaying window."""
        return self._sum / max(self._count, 1e-12)

    @property
    def var(self) -> Array:
        """The variance; if uncorrected, the squared mean is multiplied by the window's weight."""
        weight = 1.0 if self._corrected else (1 - self._decay) * self._count
        return np.asarray(self._squares / max(self._count, 1e-12) - weight * self.mean**2)


MOMENTS = Factor(
    "moments",
    {
        "": "running",
        "old numbers decay by 0.9999 per step": "decaying",
        "the variance subtracts the squared mean times the weight of the window, which is near 0 "
        "at first": "uncorrected",
    },
)
SCALES = {
    "divided by sqrt(variance + 1e-8)": ("inside", 1e-8),
    "divided by sqrt(variance + 1.2e-7)": ("inside", 1.1920929e-07),
    "divided by sqrt(variance + 1e-4)": ("inside", 1e-4),
    "divided by sqrt(variance) + 1e-8": ("outside", 1e-8),
    "divided by sqrt(max(variance, 1e-4))": ("variance floor", 1e-4),
    "divided by max(sqrt(variance), 1e-4)": ("floor", 1e-4),
}
CLIPS = {"not clipped": np.inf, "clipped to +-10": 10.0, "clipped to +-5": 5.0}
CENTER = Factor("centers", {"": True, "the mean is not subtracted": False})
START_OBSERVATIONS = Factor(
    "counts_starts",
    {
        "": 1,
        "observations after a reset do not enter the statistics": 0,
        "observations after a reset enter the statistics twice": 2,
    },
)


def make_final_factor(autoreset: str) -> Factor:
    """Return the factor for observations at ends; the definition depends on who resets."""
    names = {
        0: "observations at the end of an episode do not enter the statistics",
        1: "observations at the end of an episode enter the statistics",
        2: "observations at the end of an episode enter the statistics twice",
    }
    first = 0 if autoreset == SAME_STEP else 1
    values = {"": first} | {names[count]: count for count in (0, 1, 2) if count != first}
    return Factor("counts_finals", values)


@dataclasses.dataclass(frozen=True)
class _Row:
    copy: int
    values: Array
    is_start: bool
    is_final: bool
    is_shown: bool  # whether the implementation returns its scaled value


def make_moments(kind: str, prior: float, size: int) -> Any:
    """Return empty statistics for a value of `MOMENTS`."""
    if kind == "running":
        return RunningMoments(prior, size)
    return DecayingMoments(0.9999, size, kind == "decaying")


def scale_parts(parts: ScaledParts, scale: tuple[str, float], clip: float) -> Array:
    """Return scaled and clipped numbers."""
    form, epsilon = scale
    with np.errstate(all="ignore"):
        divisors: dict[str, Callable[[], Any]] = {
            "inside": lambda: np.sqrt(parts.var + epsilon),
            "outside": lambda: np.sqrt(parts.var) + epsilon,
            "variance floor": lambda: np.sqrt(np.maximum(parts.var, epsilon)),
            "floor": lambda: np.maximum(np.sqrt(parts.var), epsilon),
        }
        divisor = divisors[form]()
        return np.asarray(np.clip((parts.values - parts.mean) / divisor, -clip, clip))


FINISHES: tuple[Finish, ...] = tuple(
    (f"{scale_name}, {clip_name}", functools.partial(scale_parts, scale=scale, clip=clip))
    for clip_name, clip in CLIPS.items()
    for scale_name, scale in SCALES.items()
)


def list_observation_batches(trace: Trace) -> list[tuple[list[_Row], bool]]:
    """Return the observations of each call in the order in which a wrapper receives them.

    A reset by the caller is a separate batch. If a step resets, the observation at the end comes
    first and is not returned to act on.
    """
    batches = []
    copies = range(len(trace.scripts))
    for event in trace.events:
        rows: list[_Row] = []
        starts: list[_Row] = []
        for copy in copies:
            here = trace.compute_observation(copy, event.places[copy])
            begins = event.step is None or event.starts[copy]
            if not event.ended[copy] or trace.autoreset == NEXT_STEP:
                rows.append(_Row(copy, here, begins, event.ended[copy], True))
                continue
            after = trace.compute_observation(copy, (event.places[copy][0] + 1, 0))
            is_callers = trace.autoreset == CALLER
            rows.append(_Row(copy, here, False, True, is_callers))
            (starts if is_callers else rows).append(_Row(copy, after, True, False, True))
        batches.append((rows, event.frozen))
        if starts:
            batches.append((starts, event.frozen))
    return batches


def simulate_observations(
    trace: Trace,
    *,
    prior: float,
    ddof: int,
    updates_first: bool,
    per_copy: bool,
    ignores_freeze: bool,
    moments: str,
    centers: bool,
    counts_starts: int,
    counts_finals: int,
) -> ScaledParts:
    """Return the parts of the returned observations, flat, in the order of the calls."""
    size = len(trace.compute_observation(0, (0, 0)))
    groups = len(trace.scripts) if per_copy else 1
    statistics = [make_moments(moments, prior, size) for _ in range(groups)]
    shown = []
    for rows, frozen in list_observation_batches(trace):
        if not updates_first:
            shown += _show_rows(rows, statistics, per_copy, centers)
        if not frozen or ignores_freeze:
            for number, group in enumerate(statistics):
                entering = [
                    row.values
                    for row in rows
                    if not per_copy or row.copy == number
                    for _ in range(
                        counts_finals if row.is_final else counts_starts if row.is_start else 1
                    )
                ]
                group.update(np.array(entering).reshape(-1, size), ddof)
        if updates_first:
            shown += _show_rows(rows, statistics, per_copy, centers)
    return join_parts(shown)


def _show_rows(
    rows: list[_Row], statistics: list[Any], per_copy: bool, centers: bool
) -> list[tuple[Array, Array, Array]]:
    shown = []
    for row in rows:
        if row.is_shown:
            group = statistics[row.copy if per_copy else 0]
            mean = group.mean if centers else np.zeros_like(row.values)
            shown.append((row.values[:RECEIVED], mean[:RECEIVED], group.var[:RECEIVED]))
    return shown


def join_parts(shown: Sequence[tuple[Array, Array, Array]]) -> ScaledParts:
    """Concatenate values, means and variances."""
    values, mean, var = (np.concatenate(column) for column in zip(*shown, strict=True))
    return ScaledParts(values, mean, var)


def read_shown_observations(trace: Trace) -> Array:
    """Return the returned observations, in the order of `simulate_observations`."""
    shown = []
    for event in trace.events:
        later = []
        for copy in range(len(trace.scripts)):
            seen = np.asarray(event.observations[copy], float)[:RECEIVED]
            if event.step is None or not event.ended[copy] or trace.autoreset != CALLER:
                shown.append(seen)
                continue
            final = event.step.final_observations[copy]
            lost = np.full_like(seen, np.nan)
            shown.append(lost if final is None else np.asarray(final, float)[:RECEIVED])
            later.append(seen)
        shown += later
    return np.concatenate(shown)


def measure_observation_statistics(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Explain scaled observations by running statistics."""
    trace = collect_trace(
        implementation, make_scripts(implementation), _STEPS, reset_after=(_RESET_AFTER,)
    )
    return _answer_observations(trace)


def _answer_observations(trace: Trace, frozen: bool = False) -> EnvironmentAnswer:
    factors = [
        *(START_OBSERVATIONS, make_final_factor(trace.autoreset), BATCH_VARIANCE, ORDER),
        *(SHARED, CENTER, MOMENTS, PRIOR),
    ]
    factors = [FROZEN, *factors] if frozen else factors

    def simulate(**values: Any) -> ScaledParts:
        return simulate_observations(trace, **({"ignores_freeze": False} | values))

    found = explain_numbers(read_shown_observations(trace), simulate, factors, FINISHES)
    return make_explained_answer(found, "observations")


def make_explained_answer(found: Explanation, subject: str) -> EnvironmentAnswer:
    """Convert an explanation to an answer."""
    numbers = (round(found.largest_error, 6),)
    settings = ", ".join(found.settings)
    if not found.explained:
        words = f"scaled {subject} follow no known rule"
        return EnvironmentAnswer(DIFFERS, words, numbers, (0.0,))
    if found.differences:
        return EnvironmentAnswer(DIFFERS, "; ".join(found.differences), numbers, (0.0,))
    return EnvironmentAnswer(AS_DEFINED, settings)


def measure_frozen_observations(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Check whether frozen statistics of observations stay as they are."""
    return _measure_frozen(implementation, lambda trace: _answer_observations(trace, frozen=True))


def _measure_frozen(
    implementation: EnvironmentImplementation, explain: Callable[[Trace], EnvironmentAnswer]
) -> EnvironmentAnswer:
    scripts = make_scripts(implementation)
    try:
        trace = collect_trace(implementation, scripts, _STEPS, freeze_after=_FREEZE_AFTER)
    except NotImplementedError as error:
        return EnvironmentAnswer(NOT_MEASURED, str(error))
    answer = explain(trace)
    still = next(name for name in FROZEN.values if name)
    if still in answer.differences:
        return EnvironmentAnswer(DIFFERS, still, answer.measured, answer.expected)
    if any("no known rule" in words for words in answer.differences):
        return answer
    clip = next((f", {name}" for name in CLIPS if name in answer.words), "")
    return EnvironmentAnswer(AS_DEFINED, f"frozen statistics stay as they are{clip}")


def make_carry_factor(name: str, end: str) -> Factor:
    """Return the factor for what happens to the discounted return at a kind of end."""
    return Factor(
        name,
        {
            "": "reset",
            f"the discounted return is carried over {end}": "carried",
            f"the discounted return is dropped in the step of {end}, and its reward is carried "
            "into the next episode": "early",
            f"the discounted return is dropped in the step of {end}": "dropped",
        },
    )


AT_TERMINATION = make_carry_factor("at_termination", "terminations")
AT_TRUNCATION = make_carry_factor("at_truncation", "time limits")
RESET_STEPS = Factor(
    "counts_reset_steps", {"": False, "steps that only reset enter the statistics": True}
)
RETURN_SHARED = Factor("shares_return", {"": False, "copies share one discounted return": True})
DISCOUNT = Factor(
    "discounts",
    {
        "": "gamma",
        "rewards are not discounted": "one",
        "the variance is that of rewards, not of returns": "zero",
    },
)
PARTIAL_RESETS = Factor(
    "resets_all", {"": False, "the discounted returns of all copies are reset with one": True}
)
SKIPPED_STEPS = Factor(
    "skips_first", {"": False, "the first step of an episode does not enter the statistics": True}
)
_EPISODE_FACTORS = (
    *("at_termination", "at_truncation", "carries_reset", "counts_reset_steps", "resets_all"),
    "skips_first",
)
REWARD_CENTER = Factor("centers", {"": False, "the mean is subtracted from rewards": True})


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardRules:
    """Rules by which rewards are normalized; the factors above say what each value means.

    Attributes:
        prior: Weight of the initial variance 1, in steps.
        at_termination: Effect of a termination on the discounted return, as in
            `make_carry_factor`; an end that is also truncated is a termination.
        at_truncation: The same of a time limit.
    """

    prior: float
    ddof: int
    updates_first: bool
    per_copy: bool
    ignores_freeze: bool
    carries_reset: bool
    at_termination: str
    at_truncation: str
    counts_reset_steps: bool
    shares_return: bool
    discounts: str
    centers: bool
    resets_all: bool
    skips_first: bool


class _DiscountedReturns:
    """Discounted returns of all copies, R = gamma R + r, as they change by a set of rules."""

    def __init__(self, trace: Trace, gamma: float, rules: RewardRules) -> None:
        self._scripts, self._rules = trace.scripts, rules
        self._discount = {"gamma": gamma, "one": 1.0, "zero": 0.0}[rules.discounts]
        self.values = np.zeros(len(trace.scripts))
        self._ended = np.zeros(len(trace.scripts), np.bool_)
        self._dropped: list[int] = []

    def reset(self) -> None:
        """Follow an explicit reset of all copies."""
        if not self._rules.carries_reset:
            self.values[:] = 0.0
            self._ended[:] = False

    def add_step(self, event: TraceEvent) -> tuple[Array, list[int]]:
        """Add the rewards of a step.

        Returns:
            The rewards by copy, and the copies whose returns enter the statistics.
        """
        rules, rewards, entering = self._rules, np.zeros(len(self.values)), list[int]()
        self._dropped = []
        for copy in range(len(self._scripts)):
            if event.starts[copy]:
                if rules.counts_reset_steps:
                    self.values[copy] *= self._discount
                    entering.append(copy)
                continue
            rewards[copy] = self._scripts[copy].compute_reward(*event.places[copy])
            if rules.skips_first and self._ended[copy]:
                continue
            entering.append(copy)
            rule = self._find_end_rule(copy, event)
            if rule in ("early", "dropped"):
                self.values[copy] = 0.0
            if rule in ("reset", "dropped"):
                self._dropped.append(copy)
            self.values[copy] = self.values[copy] * self._discount + rewards[copy]
        if rules.shares_return and entering:
            self.values[entering] = self.values[entering].mean()
        return rewards, entering

    def end_step(self, event: TraceEvent) -> None:
        """Reset the returns of episodes that have ended."""
        self._ended = np.array(event.ended)
        if self._rules.resets_all and self._ended.any():
            self.values[:] = 0.0
        self.values[self._dropped] = 0.0

    def _find_end_rule(self, copy: int, event: TraceEvent) -> str:
        terminated, truncated = self._scripts[copy].compute_flags(*event.places[copy])
        if terminated:
            return self._rules.at_termination
        return self._rules.at_truncation if truncated else ""


def simulate_rewards(trace: Trace, gamma: float, rules: RewardRules) -> ScaledParts:
    """Return the parts of the scaled rewards, flat, in the order of the steps."""
    copies = range(len(trace.scripts))
    statistics = [RunningMoments(rules.prior, 1) for _ in (copies if rules.per_copy else [0])]
    returns = _DiscountedReturns(trace, gamma, rules)
    shown: list[tuple[Array, Array, Array]] = []

    def show(rewards: Array) -> None:
        for copy in copies:
            group = statistics[copy if rules.per_copy else 0]
            mean = group.mean if rules.centers else np.zeros(1)
            shown.append((rewards[copy : copy + 1], mean, group.var))

    for event in trace.events:
        if event.step is None:
            returns.reset()
            continue
        rewards, entering = returns.add_step(event)
        if not rules.updates_first:
            show(rewards)
        if not event.frozen or rules.ignores_freeze:
            for number, group in enumerate(statistics):
                rows = [returns.values[c] for c in entering if not rules.per_copy or c == number]
                group.update(np.array(rows).reshape(-1, 1), rules.ddof)
        if rules.updates_first:
            show(rewards)
        returns.end_step(event)
    return join_parts(shown)


def measure_reward_statistics(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Explain scaled rewards by the variance of discounted returns."""
    scripts = make_scripts(implementation)
    trace = collect_trace(implementation, scripts, _STEPS, reset_after=(_RESET_AFTER,))
    return _answer_rewards(implementation, trace)


def _answer_rewards(
    implementation: EnvironmentImplementation, trace: Trace, frozen: bool = False
) -> EnvironmentAnswer:
    gamma = float(implementation.settings.get("gamma", _GAMMA))
    factors = [
        *(AT_TERMINATION, AT_TRUNCATION, EXPLICIT_RESETS, DISCOUNT, BATCH_VARIANCE, ORDER),
        *(SHARED, RETURN_SHARED, REWARD_CENTER, PARTIAL_RESETS, SKIPPED_STEPS, PRIOR),
    ]
    if trace.autoreset == NEXT_STEP:
        factors = [RESET_STEPS, *factors]
    if frozen:
        factors = [FROZEN, *factors]
    fixed = {"counts_reset_steps": False, "ignores_freeze": False}

    def simulate(**values: Any) -> ScaledParts:
        return simulate_rewards(trace, gamma, RewardRules(**(fixed | values)))

    measured = np.concatenate(
        [np.asarray(event.step.rewards, float) for event in trace.events if event.step is not None]
    )
    found = explain_numbers(measured, simulate, factors, FINISHES, combined=_EPISODE_FACTORS)
    return make_explained_answer(found, "rewards")


def measure_frozen_rewards(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Check whether frozen statistics of rewards stay as they are."""
    return _measure_frozen(
        implementation, lambda trace: _answer_rewards(implementation, trace, frozen=True)
    )
