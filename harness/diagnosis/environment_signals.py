"""Signals of environment, actions and parameters, from the events of a training."""

import re
from collections.abc import Callable, Mapping

import numpy as np

from parallax.harness.contract.adapter import Policy, Weights
from parallax.harness.contract.events import EnvTransition, ReportedMetrics
from parallax.harness.diagnosis.minibatch_matching import TransitionChunk, TransitionHistory
from parallax.harness.diagnosis.signals import (
    Array,
    EpisodeRecord,
    SignalSeries,
    TrainingFacts,
    TrainingSignals,
)

CHUNK_STEPS = 256
"""Environment steps that are summarised together."""

_TAIL_STEPS = 10
_DEVIATION_EPISODES = 10  # last episodes whose returns have a standard deviation
_QUERIED_STATES = 64
_COMPARED_STEPS = 8  # few, since the policy that is evaluated is newer than the one that acted
_BINS = 10
_PUNCTUATION = re.compile(r"[^a-z0-9]")


class EnvironmentSignalCollector:
    """Collector that stores the last steps in arrays of fixed size and summarises each chunk.

    It draws no random numbers, and calls the policy only in the way that evaluations do.
    """

    def __init__(self, facts: TrainingFacts) -> None:
        self.signals = TrainingSignals(facts)
        self._facts = facts
        self._filled = 0
        self._shaped: Array = np.zeros((0, 0))
        self._observations: Array = self._shaped  # the same memory, one row per observation
        self._actions: Array = np.zeros((0, 0))
        self._rewards = np.zeros(CHUNK_STEPS)
        self._copies = np.zeros(CHUNK_STEPS, np.int64)
        self._ends = np.zeros(CHUNK_STEPS, np.bool_)
        self._terminated = np.zeros(CHUNK_STEPS, np.bool_)
        self._stored = TransitionHistory(facts)
        self._totals = [0.0] * max(facts.n_envs, 1)
        self._lengths = [0] * max(facts.n_envs, 1)
        self._before: Array | None = None
        self._query_states: Array | None = None
        self._greedy: Array | None = None
        self._last_weights: Weights = {}
        self._pairs: list[tuple[str, str]] = []
        self._targets_moved: dict[str, int] = {}
        self._still: set[str] = set()
        self._metric_gaps: dict[str, float] = {}

    def transition(self, event: EnvTransition) -> None:
        """Store a step. This is called at each step and must be cheap."""
        copy, action, observation, reward, terminated, truncated = event
        row = self._filled
        if not len(self._shaped):
            self._begin(event)
        self._shaped[row] = observation
        self._actions[row] = action
        self._rewards[row] = reward
        if copy:
            self._copies[row] = copy
        self._totals[copy] += float(reward)
        self._lengths[copy] += 1
        self._filled = row + 1
        if terminated or truncated:
            self._ends[row] = True
            self._terminated[row] = terminated
            self._episode(copy, not terminated)
        if row + 1 == CHUNK_STEPS:
            self._finish_chunk()

    def recent(self) -> Array:
        """Return observations of the last steps, at most 256, float64[n, observations]."""
        full = self.signals.step > CHUNK_STEPS and "finite" in self.signals.series
        return self._observations if full else self._observations[: self._filled]

    def stored(self) -> TransitionHistory:
        """Return the last transitions, including those of the unfinished chunk."""
        return self._stored.with_tail(self._get_current_chunk())

    def metrics(self, event: ReportedMetrics) -> None:
        """Store metrics that the training reports."""
        for name, value in event.values.items():
            series = self.signals.metrics.setdefault(name, SignalSeries())
            last = self.signals.values.setdefault("metric_steps", {})
            if name in last:
                gap = self.signals.step - last[name]
                self._metric_gaps[name] = max(gap, self._metric_gaps.get(name, 0))
            last[name] = self.signals.step
            self.signals.values["metric_gaps"] = self._metric_gaps
            series.add(self.signals.step, value)

    def query_policy(self, policy: Policy, normalize: Callable[[Array], Array]) -> None:
        """Evaluate the greedy policy on the last steps and on the states of `query_policy_again`.

        The action in row t was chosen for the observation in row t - 1 of the same environment.
        """
        rows = self._filled
        if self._query_states is None and rows > 16:
            self._query_states = _to_policy_input(normalize(self._shaped[:rows][-_QUERIED_STATES:]))
            self.signals.values["probe"] = self._query_states
        if self._query_states is None:
            return
        seen = taken = np.zeros((0, 0))
        if self._facts.n_envs == 1 and rows > 16:
            begin = max(1, rows - _COMPARED_STEPS)
            follows = ~self._ends[begin - 1 : rows - 1]
            seen = _to_policy_input(normalize(self._shaped[begin - 1 : rows - 1][follows]))
            taken = self._actions[begin:rows][follows]
        batch = np.concatenate([self._query_states, seen]) if len(seen) else self._query_states
        greedy = np.asarray(policy(batch))
        self._greedy = greedy[: len(self._query_states)]
        if len(seen):
            self._compare(greedy[len(self._query_states) :], taken)

    def query_policy_again(self, policy: Policy) -> None:
        """Evaluate the states of `query_policy` again after an update cycle, and add the shift."""
        if self._query_states is not None and self._greedy is not None:
            self._add_policy_shift(self._greedy, np.asarray(policy(self._query_states)))

    def weights(self, now: Weights) -> None:
        """Measure all parameters: size, changes, and how targets differ from their networks."""
        before, self._last_weights = self._last_weights, now
        signals = self.signals
        signals.values["weights_finite"] = all(np.isfinite(value).all() for value in now.values())
        biases = [v for name, v in now.items() if name.endswith("bias") and v.size]
        if biases:
            signals.add("bias_size", max(float(np.abs(value).mean()) for value in biases))
        matrices = {
            name: value
            for name, value in now.items()
            if value.ndim >= 2 and "target" not in name and not name.endswith("bias")
        }
        signals.add(
            "weight_size", max((float(np.abs(v).mean()) for v in matrices.values()), default=0)
        )
        if not before:
            begun = "beginning" in signals.values  # otherwise these are not the initial ones
            signals.values["first_weights"] = _describe_matrices(matrices) if begun else {}
            signals.values["first_biases"] = {
                name: float(np.abs(value).mean())
                for name, value in now.items()
                if begun and name.endswith("bias") and value.size
            }
            self._pairs = pair_target_parameters(now)
            self._targets_moved = dict.fromkeys((name for name, _ in self._pairs), signals.step)
            few = len(self._facts.action_low)  # the weights may contain action scales
            self._still = {name for name, value in matrices.items() if value.size > few}
            return
        self._still -= {n for n in self._still if not np.array_equal(before[n], now[n])}
        signals.values["still"] = frozenset(self._still)
        signals.values["matrices"] = len(matrices)
        if self._pairs:
            self._targets(before, now)

    def _targets(self, before: Weights, now: Weights) -> None:
        step, ages = self.signals.step, []
        for target, main in self._pairs:
            moved = not np.array_equal(before[main], now[main])
            if not moved or not np.array_equal(before[target], now[target]):
                self._targets_moved[target] = step
            if moved:
                ages.append(step - self._targets_moved[target])
        if ages:
            self.signals.add("target_age", max(ages))
            same = all(np.allclose(now[t], now[m], rtol=1e-5, atol=1e-7) for t, m in self._pairs)
            self.signals.add("target_equal", float(same))

    def _begin(self, event: EnvTransition) -> None:
        self._shaped = np.zeros((CHUNK_STEPS, *np.shape(event.observation)))
        self._observations = self._shaped.reshape(CHUNK_STEPS, -1)
        self._actions = np.zeros((CHUNK_STEPS, max(np.asarray(event.action).size, 1)))

    def _get_current_chunk(self) -> TransitionChunk:
        rows = slice(self._filled)
        return TransitionChunk(
            *(self._observations[rows], self._rewards[rows], self._copies[rows]),
            *(self._terminated[rows], self._ends[rows]),
        )

    def _rows_of(self, copy: int, count: int) -> Array:
        return np.flatnonzero(self._copies[: self._filled] == copy)[-count:]

    def _episode(self, copy: int, truncated: bool) -> None:
        signals, total, length = self.signals, self._totals[copy], self._lengths[copy]
        self._totals[copy], self._lengths[copy] = 0.0, 0
        signals.add("return", total)
        last = signals.series["return"].last(_DEVIATION_EPISODES)
        if len(last) == _DEVIATION_EPISODES:
            signals.add("return_deviation", float(last.std()))
        signals.add("length", length)
        if not truncated:
            signals.values["ended_by_task"] = signals.values.get("ended_by_task", 0) + 1
        rows = self._rows_of(copy, min(_TAIL_STEPS, length))
        ended = EpisodeRecord(
            *(signals.step, total, length, truncated),
            *(self._observations[rows].copy(), self._actions[rows].copy()),
        )
        signals.episodes.append(ended)

    def _finish_chunk(self) -> None:
        signals, observations, rewards = self.signals, self._observations, self._rewards
        self._stored.add(self._get_current_chunk())
        self._filled = 0
        self._sum_up(signals, observations, rewards)
        for flags in (self._copies, self._ends, self._terminated):
            flags[:] = 0

    def _sum_up(self, signals: TrainingSignals, observations: Array, rewards: Array) -> None:
        finite = np.isfinite(observations).all() and np.isfinite(rewards).all()
        signals.add("finite", float(finite))
        if not finite:
            return
        signals.add("observation_size", float(np.abs(observations).max()))
        signals.add("observation_std", float(observations.std(axis=0).max()))
        signals.add("reward_size", float(np.abs(rewards).max()))
        signals.values["reward_max"] = max(
            signals.values.get("reward_max", 0.0), float(np.abs(rewards).max())
        )
        self._measure_repetition(observations)
        self._bounds(observations)
        if signals.step > self._facts.learning_starts + CHUNK_STEPS:
            self._summarize_actions()

    def _bounds(self, observations: Array) -> None:
        low, high = self._facts.observation_low, self._facts.observation_high
        if low is None or high is None or low.size != observations.shape[1]:
            return
        room = 1e-5 * np.maximum(1.0, np.abs(np.where(np.isfinite(low), low, 0)))
        outside = (observations < low.ravel() - room) | (observations > high.ravel() + room)
        self.signals.add("outside_space", float(outside.any(axis=1).mean()))

    def _measure_repetition(self, observations: Array) -> None:
        if self._facts.n_envs > 1:
            return
        scale = np.abs(observations).max(axis=0) + 1e-12
        same = (np.abs(np.diff(observations, axis=0)) <= 1e-9 * scale).all(axis=1)
        same &= ~self._ends[:-1]
        longest = run = 0
        for flag in same:
            run = run + 1 if flag else 0
            longest = max(longest, run)
        self.signals.add("same_observation_run", longest)

    def _summarize_actions(self) -> None:
        facts, signals = self._facts, self.signals
        actions = self._actions
        if facts.choices:
            counts = np.bincount(actions[:, 0].astype(int), minlength=facts.choices)
            signals.add("entropy", compute_normalized_entropy(counts))
            signals.add("top_action", float(counts.max() / counts.sum()))
            return
        low, high = np.array(facts.action_low), np.array(facts.action_high)
        if low.size != actions.shape[1] or not np.isfinite(high - low).all():
            return
        place = (actions - low) / (high - low)
        # Some frameworks leave the clipping of Gaussian actions to the task.
        place = np.clip(place, 0.0, 1.0)
        bins = np.minimum((place * _BINS).astype(int), _BINS - 1)
        spread = [
            compute_normalized_entropy(np.bincount(column, minlength=_BINS)) for column in bins.T
        ]
        signals.add("entropy", float(np.mean(spread)))
        signals.add("action_std", float(place.std(axis=0).max() * 2))
        signals.add("at_bounds", float(((place < 1e-3) | (place > 1 - 1e-3)).mean()))

    def _compare(self, greedy: Array, taken: Array) -> None:
        facts = self._facts
        if facts.choices:
            differs = float((greedy.reshape(-1) != taken[:, 0]).mean())
            share = differs * facts.choices / (facts.choices - 1) if facts.choices > 1 else 0.0
            self.signals.add("random_share", min(share, 1.0))
        elif greedy.shape == taken.shape:
            distance = np.abs(greedy - taken) / facts.half_range
            self.signals.add("noise", float(distance.mean()))

    def _add_policy_shift(self, before: Array, greedy: Array) -> None:
        if self._facts.choices:
            self.signals.add("shift_round", float((greedy != before).mean()))
        else:
            change = np.abs(greedy - before) / self._facts.half_range
            self.signals.add("shift_round", float(change.mean()))


def compute_normalized_entropy(counts: Array) -> float:
    """Return the entropy of counts divided by its maximum: 0 for a single value, 1 if uniform."""
    shares = counts[counts > 0] / counts.sum()
    if len(counts) < 2:
        return 0.0
    return float(-(shares * np.log(shares)).sum() / np.log(len(counts)))


def pair_target_parameters(weights: Weights) -> list[tuple[str, str]]:
    """Return pairs of names: a target network's parameter and the one that it follows."""
    mains = {_PUNCTUATION.sub("", n.lower()): n for n in weights if "target" not in n.lower()}
    pairs = []
    for name in weights:
        if "target" in name.lower():
            plain = _PUNCTUATION.sub("", name.lower().replace("target", ""))
            main = mains.get(plain) or _match_by_suffix(plain, mains)
            main = main or _match_by_parameter_path(name, list(mains.values()))
            if main and weights[main].shape == weights[name].shape:
                pairs.append((name, main))
    return pairs


def _match_by_suffix(plain: str, mains: Mapping[str, str]) -> str | None:
    """Return the only parameter with this suffix, such as `policy.actor` for `actor_target`."""
    ends = [main for name, main in mains.items() if plain and name.endswith(plain)]
    return ends[0] if len(ends) == 1 else None


def _match_by_parameter_path(name: str, mains: list[str]) -> str | None:
    """Return the only parameter with the same path inside its network, if there is one."""
    _, _, rest = name.partition(".")
    alike = [main for main in mains if rest and main.partition(".")[2] == rest]
    return alike[0] if len(alike) == 1 else None


def _describe_matrices(matrices: dict[str, Array]) -> dict[str, tuple[float, float, bool]]:
    """Return per matrix: std times sqrt(inputs), mean absolute value, and whether units are equal.

    An array with three dimensions is a stack of matrices, such as those of vectorised critics.
    """
    described = {}
    for name, matrix in matrices.items():
        value = _arrange_by_unit(name, matrix)
        inputs = value.shape[-1] if value.ndim == 3 else value[0].size
        units = value if value.ndim == 3 else value.reshape(1, len(value), -1)
        # With a single input it is not a layer: the log_std of Gaussian policies has this shape.
        alike = units.shape[1] > 1 and units.shape[2] > 1 and np.ptp(units, axis=1).max() == 0
        described[name] = (
            float(value.std() * np.sqrt(inputs)),
            float(np.abs(value).mean()),
            bool(alike and np.abs(value).max() > 0),
        )
    return described


def _arrange_by_unit(name: str, value: Array) -> Array:
    """Return a matrix with one row per unit; kernels of JAX libraries have one column per unit."""
    if not name.endswith("kernel"):
        return value
    return value.swapaxes(-1, -2) if value.ndim == 3 else np.moveaxis(value, -1, 0)


def _to_policy_input(observations: Array) -> Array:
    return np.nan_to_num(np.array(observations, np.float32, order="C"))
