"""Signals of environment steps: episodes, rewards, observations and actions."""

from typing import NamedTuple

import numpy as np

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

_TAIL_STEPS = 10  # last steps of an episode that its record has
_DEVIATION_EPISODES = 10  # last episodes whose returns have a standard deviation
_BINS = 10  # of an action's range, for its entropy


class LastSteps(NamedTuple):
    """Steps of the unfinished chunk, in the order they were taken.

    Attributes:
        observations: Observation after each step, float64[n, ...].
        actions: float64[n, actions].
        ended: Whether the episode ended, bool[n].
    """

    observations: Array
    actions: Array
    ended: Array


class EnvironmentSignalCollector:
    """Collector that stores the last steps in arrays of fixed size and summarises each chunk."""

    def __init__(self, facts: TrainingFacts) -> None:
        self.signals = TrainingSignals(facts)
        self._facts = facts
        self._filled = 0
        self._shaped_observations: Array = np.zeros((0, 0))
        self._observations = self._shaped_observations  # the same memory, one row per step
        self._actions: Array = np.zeros((0, 0))
        self._rewards = np.zeros(CHUNK_STEPS)
        self._copies = np.zeros(CHUNK_STEPS, np.int64)
        self._ended = np.zeros(CHUNK_STEPS, np.bool_)
        self._terminated = np.zeros(CHUNK_STEPS, np.bool_)
        self._history = TransitionHistory(facts)
        self._episode_returns = [0.0] * max(facts.n_envs, 1)
        self._episode_lengths = [0] * max(facts.n_envs, 1)
        self._metric_gaps: dict[str, float] = {}

    def add_transition(self, event: EnvTransition) -> None:
        """Store a step. This is called at each step and must be cheap."""
        copy, action, observation, reward, terminated, truncated = event
        row = self._filled
        if not len(self._shaped_observations):
            self._allocate_chunk(event)
        self._shaped_observations[row] = observation
        self._actions[row] = action
        self._rewards[row] = reward
        # The row is 0 already: `_finish_chunk` clears it. This saves a write at each step.
        if copy:
            self._copies[row] = copy
        self._episode_returns[copy] += float(reward)
        self._episode_lengths[copy] += 1
        self._filled = row + 1
        if terminated or truncated:
            self._ended[row] = True
            self._terminated[row] = terminated
            self._finish_episode(copy, not terminated)
        if row + 1 == CHUNK_STEPS:
            self._finish_chunk()

    def add_metrics(self, event: ReportedMetrics) -> None:
        """Store metrics that the training reports, and the longest gap between two reports."""
        signals = self.signals
        for name, value in event.values.items():
            series = signals.metrics.setdefault(name, SignalSeries())
            last_steps = signals.values.setdefault("metric_steps", {})
            if name in last_steps:
                gap = signals.step - last_steps[name]
                self._metric_gaps[name] = max(gap, self._metric_gaps.get(name, 0))
            last_steps[name] = signals.step
            signals.values["metric_gaps"] = self._metric_gaps
            series.add(signals.step, value)

    def get_recent_observations(self) -> Array:
        """Return observations of the last steps, at most 256, float64[n, observations]."""
        is_full = self.signals.step > CHUNK_STEPS and "finite" in self.signals.series
        # Rows after the filled ones are those of the chunk before, which are not cleared.
        return self._observations if is_full else self._observations[: self._filled]

    def get_last_steps(self) -> LastSteps:
        """Return the steps of the unfinished chunk, without copying them."""
        rows = slice(self._filled)
        return LastSteps(self._shaped_observations[rows], self._actions[rows], self._ended[rows])

    def get_history(self) -> TransitionHistory:
        """Return the last transitions, including those of the unfinished chunk."""
        return self._history.with_tail(self._get_current_chunk())

    def _allocate_chunk(self, event: EnvTransition) -> None:
        self._shaped_observations = np.zeros((CHUNK_STEPS, *np.shape(event.observation)))
        self._observations = self._shaped_observations.reshape(CHUNK_STEPS, -1)
        self._actions = np.zeros((CHUNK_STEPS, max(np.asarray(event.action).size, 1)))

    def _get_current_chunk(self) -> TransitionChunk:
        rows = slice(self._filled)
        return TransitionChunk(
            *(self._observations[rows], self._rewards[rows], self._copies[rows]),
            *(self._terminated[rows], self._ended[rows]),
        )

    def _finish_episode(self, copy: int, truncated: bool) -> None:
        signals = self.signals
        episode_return, length = self._episode_returns[copy], self._episode_lengths[copy]
        self._episode_returns[copy], self._episode_lengths[copy] = 0.0, 0
        signals.add("return", episode_return)
        last_returns = signals.series["return"].last(_DEVIATION_EPISODES)
        if len(last_returns) == _DEVIATION_EPISODES:
            signals.add("return_deviation", float(last_returns.std()))
        signals.add("length", length)
        if not truncated:
            signals.values["ended_by_task"] = signals.values.get("ended_by_task", 0) + 1
        steps_of_copy = np.flatnonzero(self._copies[: self._filled] == copy)
        rows = steps_of_copy[-min(_TAIL_STEPS, length) :]
        signals.episodes.append(
            EpisodeRecord(
                *(signals.step, episode_return, length, truncated),
                *(self._observations[rows].copy(), self._actions[rows].copy()),
            )
        )

    def _finish_chunk(self) -> None:
        self._history.add(self._get_current_chunk())
        self._filled = 0
        self._summarize_chunk()
        for flags in (self._copies, self._ended, self._terminated):
            flags[:] = 0

    def _summarize_chunk(self) -> None:
        signals, observations, rewards = self.signals, self._observations, self._rewards
        is_finite = np.isfinite(observations).all() and np.isfinite(rewards).all()
        signals.add("finite", float(is_finite))
        if not is_finite:
            return
        signals.add("observation_size", float(np.abs(observations).max()))
        signals.add("observation_std", float(observations.std(axis=0).max()))
        largest_reward = float(np.abs(rewards).max())
        signals.add("reward_size", largest_reward)
        signals.values["reward_max"] = max(signals.values.get("reward_max", 0.0), largest_reward)
        self._measure_repetition(observations)
        self._measure_bounds(observations)
        # All steps of the chunk lie after the warm-up, whose actions are random by design.
        if signals.step > self._facts.learning_starts + CHUNK_STEPS:
            self._summarize_actions()

    def _measure_bounds(self, observations: Array) -> None:
        """Add the share of observations outside the space that the task declares."""
        low, high = self._facts.observation_low, self._facts.observation_high
        if low is None or high is None or low.size != observations.shape[1]:
            return
        below = observations < low.ravel() - _compute_tolerance(low)
        above = observations > high.ravel() + _compute_tolerance(high)
        self.signals.add("outside_space", float((below | above).any(axis=1).mean()))

    def _measure_repetition(self, observations: Array) -> None:
        """Add the longest run of steps within an episode that leave the observation as it was."""
        if self._facts.n_envs > 1:
            return  # successive rows are of different environments
        scale = np.abs(observations).max(axis=0) + 1e-12
        is_same = (np.abs(np.diff(observations, axis=0)) <= 1e-9 * scale).all(axis=1)
        is_same &= ~self._ended[:-1]
        longest = run = 0
        for flag in is_same:
            run = run + 1 if flag else 0
            longest = max(longest, run)
        self.signals.add("same_observation_run", longest)

    def _summarize_actions(self) -> None:
        facts, signals, actions = self._facts, self.signals, self._actions
        if facts.choices:
            counts = np.bincount(actions[:, 0].astype(int), minlength=facts.choices)
            signals.add("entropy", compute_normalized_entropy(counts))
            signals.add("top_action", float(counts.max() / counts.sum()))
            return
        low, high = np.array(facts.action_low), np.array(facts.action_high)
        if low.size != actions.shape[1] or not np.isfinite(high - low).all():
            return
        # Some frameworks leave the clipping of Gaussian actions to the task.
        position = np.clip((actions - low) / (high - low), 0.0, 1.0)
        bins = np.minimum((position * _BINS).astype(int), _BINS - 1)
        entropies = [
            compute_normalized_entropy(np.bincount(column, minlength=_BINS)) for column in bins.T
        ]
        signals.add("entropy", float(np.mean(entropies)))
        signals.add("action_std", float(position.std(axis=0).max() * 2))  # in half ranges
        signals.add("at_bounds", float(((position < 1e-3) | (position > 1 - 1e-3)).mean()))


def compute_normalized_entropy(counts: Array) -> float:
    """Return the entropy of counts divided by its maximum: 0 for a single value, 1 if uniform."""
    shares = counts[counts > 0] / counts.sum()
    if len(counts) < 2:
        return 0.0
    return float(-(shares * np.log(shares)).sum() / np.log(len(counts)))


def _compute_tolerance(bound: Array) -> Array:
    # Boxes have float32 bounds, to which a float64 observation may be rounded up.
    size = np.abs(np.where(np.isfinite(bound), bound, 0)).ravel()
    return np.asarray(1e-5 * np.maximum(1.0, size))
