"""Mistakes planted into wrappers and vectorized environments, by class of mistake."""

import dataclasses
from collections.abc import Callable
from functools import partial

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.utils import RunningMeanStd

from parallax.harness.contract.probing.environments import (
    ACTION_CLIP,
    ACTION_RESCALE,
    EPISODE_STATISTICS,
    EPISODES,
    FRAME_STACK,
    NEXT_STEP,
    OBSERVATION_NORMALIZATION,
    REWARD_FUNCTION,
    REWARD_NORMALIZATION,
    SAME_STEP,
    TIME_LIMIT,
    EnvironmentImplementation,
    make_env_makers,
)
from parallax.harness.environment_probes.gymnasium_implementations import VectorEnvDriver
from parallax.harness.environment_probes.trace import make_wrapped_driver

GAMMA, LIMIT, STACK = 0.97, 5, 3
Wrapper = gymnasium.Wrapper


@dataclasses.dataclass(frozen=True)
class EnvironmentPlant:
    """One mistake.

    Attributes:
        name: The mistake in words.
        healthy: The implementation without it.
        planted: The implementation with it.
        names: Texts, one of which the answer's words must contain to name it.
    """

    name: str
    healthy: EnvironmentImplementation
    planted: EnvironmentImplementation
    names: tuple[str, ...]


def single(wrap, *roles, **settings):
    function = settings.pop("reward_function", None)
    make = partial(make_wrapped_driver, wrap=wrap)
    return EnvironmentImplementation("single", roles, make, 1, settings, function)


def vector(kind, *roles, mode=AutoresetMode.SAME_STEP, wrap=None, freezes=True, **settings):
    def make(scripts):
        envs = kind(make_env_makers(scripts), autoreset_mode=mode)
        envs = envs if wrap is None else wrap(envs)
        who = SAME_STEP if mode == AutoresetMode.SAME_STEP else NEXT_STEP
        freeze = (lambda: setattr(envs, "frozen", True)) if freezes else None
        return VectorEnvDriver(envs, who, freeze)

    return EnvironmentImplementation("vector", roles, make, 2, settings)


# Time limits


class Limit(Wrapper):
    late, keeps, terminates, overrides = 0, False, False, False

    def __init__(self, env):
        super().__init__(env)
        self.count = 0

    def reset(self, **options):
        if not self.keeps:
            self.count = 0
        return self.env.reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.count += 1
        if self.count >= LIMIT + self.late:
            self.count = 0 if self.keeps else self.count
            if self.terminates:
                terminated = True
            else:
                truncated = True
            if self.overrides:
                terminated = False
        return observation, reward, terminated, truncated, info


def change(base, **attributes):
    return type(f"Changed{base.__name__}", (base,), attributes)


def limit_plant(name, names, **attributes):
    healthy, planted = (
        single(kind, TIME_LIMIT, limit=LIMIT) for kind in (Limit, change(Limit, **attributes))
    )
    return EnvironmentPlant(name, healthy, planted, names)


# Recorded episodes


class Record(Wrapper):
    length_error, keeps_return, forgets_last, always = 0, False, False, False

    def __init__(self, env):
        super().__init__(env)
        self.total, self.length = 0.0, self.length_error

    def reset(self, **options):
        self.length = self.length_error
        if not self.keeps_return:
            self.total = 0.0
        return self.env.reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        before = self.total
        self.total += reward
        self.length += 1
        if terminated or truncated or self.always:
            seen = before if self.forgets_last else self.total
            info["episode"] = {"r": seen, "l": self.length}
        return observation, reward, terminated, truncated, info


def record_plant(name, names, **attributes):
    healthy, planted = (
        single(kind, EPISODES, EPISODE_STATISTICS)
        for kind in (Record, change(Record, **attributes))
    )
    return EnvironmentPlant(name, healthy, planted, names)


# Vectorized environments


class FinalOfNextEpisode(SyncVectorEnv):
    def step(self, actions):
        observations, *rest, infos = super().step(actions)
        if "final_obs" in infos:
            infos["final_obs"] = [np.array(row) for row in observations]
        return (observations, *rest, infos)


class FinalLost(SyncVectorEnv):
    def step(self, actions):
        *rest, infos = super().step(actions)
        infos.pop("final_obs", None)
        return (*rest, infos)


class LimitsAreEnds(SyncVectorEnv):
    def step(self, actions):
        observations, rewards, terminated, truncated, infos = super().step(actions)
        return observations, rewards, terminated | truncated, np.zeros_like(truncated), infos


class EndsAreLimits(SyncVectorEnv):
    def step(self, actions):
        observations, rewards, terminated, truncated, infos = super().step(actions)
        return observations, rewards, np.zeros_like(terminated), terminated | truncated, infos


class SharedSeed(SyncVectorEnv):
    def reset(self, *, seed=None, options=None):
        seeds = None if seed is None else [seed] * self.num_envs
        return super().reset(seed=seeds, options=options)


class SwappedCopies(SyncVectorEnv):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return (observations[::-1].copy(), *rest)


class LateRewards(SyncVectorEnv):
    before = None

    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        shown = np.zeros_like(rewards) if self.before is None else self.before
        self.before = rewards
        return (observations, shown, *rest)


class OneBuffer(SyncVectorEnv):
    buffer = None

    def step(self, actions):
        observations, *rest = super().step(actions)
        if self.buffer is None:
            self.buffer = observations.copy()
        self.buffer[:] = observations
        return (self.buffer, *rest)


class StaleAfterReset(SyncVectorEnv):
    def step(self, actions):
        observations, rewards, terminated, truncated, infos = super().step(actions)
        for i in np.flatnonzero(terminated | truncated):
            observations[i] = infos["final_obs"][i]
        return observations, rewards, terminated, truncated, infos


class RewardOfResetStep(SyncVectorEnv):
    last = None

    def step(self, actions):
        waiting = self._autoreset_envs.copy()
        observations, rewards, *rest = super().step(actions)
        if self.last is not None:
            rewards[waiting] = self.last[waiting]
        self.last = rewards.copy()
        return (observations, rewards, *rest)


class DoubleObservations(SyncVectorEnv):
    def reset(self, **options):
        observations, infos = super().reset(**options)
        return observations.astype(np.float64), infos

    def step(self, actions):
        observations, *rest = super().step(actions)
        return (observations.astype(np.float64), *rest)


def vector_plant(name, kind, *names, mode=AutoresetMode.SAME_STEP):
    healthy, planted = (vector(each, EPISODES, mode=mode) for each in (SyncVectorEnv, kind))
    return EnvironmentPlant(name, healthy, planted, names)


# Normalized observations


class Normalize(Wrapper):
    skips_starts, repeats_ends, ignores_freeze, scales_first, keeps_mean = (False,) * 5
    update_running_mean = True

    def __init__(self, env):
        super().__init__(env)
        self.rms = RunningMeanStd(shape=env.observation_space.shape)

    def show(self, observation, times=1):
        before = self.scale(observation)
        if self.update_running_mean or self.ignores_freeze:
            for _ in range(times):
                self.rms.update(observation[np.newaxis])
        return before if self.scales_first else self.scale(observation)

    def scale(self, observation):
        mean = 0.0 if self.keeps_mean else self.rms.mean
        return (observation - mean) / np.sqrt(self.rms.var + 1e-8)

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        return self.show(observation, 0 if self.skips_starts else 1), info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        times = 2 if (terminated or truncated) and self.repeats_ends else 1
        return self.show(observation, times), reward, terminated, truncated, info


def normalize_plant(name, *names, **attributes):
    healthy, planted = (
        single(kind, OBSERVATION_NORMALIZATION)
        for kind in (Normalize, change(Normalize, **attributes))
    )
    return EnvironmentPlant(name, healthy, planted, names)


class NormalizeVector(gymnasium.vector.VectorWrapper):
    ddof, per_copy, frozen = 0, False, False

    def __init__(self, env):
        super().__init__(env)
        n = env.num_envs if self.per_copy else 1
        self.rms = [RunningMeanStd(shape=env.single_observation_space.shape) for _ in range(n)]

    def show(self, observations):
        rows = []
        for i, rms in enumerate(self.rms):
            batch = observations[i : i + 1] if self.per_copy else observations
            if not self.frozen:
                var = batch.var(axis=0, ddof=self.ddof)
                rms.update_from_moments(batch.mean(axis=0), var, len(batch))
            rows.append((batch - rms.mean) / np.sqrt(rms.var + 1e-8))
        return np.concatenate(rows)

    def reset(self, **options):
        observations, infos = self.env.reset(**options)
        return self.show(observations), infos

    def step(self, actions):
        observations, *rest = self.env.step(actions)
        return (self.show(observations), *rest)


def normalize_vector_plant(name, *names, **attributes):
    healthy, planted = (
        vector(SyncVectorEnv, OBSERVATION_NORMALIZATION, wrap=kind)
        for kind in (NormalizeVector, change(NormalizeVector, **attributes))
    )
    return EnvironmentPlant(name, healthy, planted, names)


# Normalized rewards


class ScaleReward(Wrapper):
    over_limits, over_ends, of_rewards, centers, discounts, ignores_freeze = (
        *(False,) * 4,
        True,
        False,
    )
    update_running_mean = True

    def __init__(self, env):
        super().__init__(env)
        self.rms, self.total = RunningMeanStd(shape=()), 0.0
        self.carries = False

    def reset(self, **options):
        if not self.carries:
            self.total = 0.0
        self.carries = False
        return self.env.reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.total = self.total * (GAMMA if self.discounts else 1.0) + reward
        if self.update_running_mean or self.ignores_freeze:
            self.rms.update(np.array([reward if self.of_rewards else self.total]))
        self.carries = (terminated and self.over_ends) or (
            truncated and not terminated and self.over_limits
        )
        shown = reward - (self.rms.mean if self.centers else 0.0)
        return observation, shown / np.sqrt(self.rms.var + 1e-8), terminated, truncated, info


def reward_plant(name, *names, **attributes):
    healthy, planted = (
        single(kind, REWARD_NORMALIZATION, gamma=GAMMA)
        for kind in (ScaleReward, change(ScaleReward, **attributes))
    )
    return EnvironmentPlant(name, healthy, planted, names)


# Actions, stacks, rewards


class NoisyAction(gymnasium.ActionWrapper):
    clips_first = False

    def action(self, action):
        low, high = self.action_space.low, self.action_space.high
        if self.clips_first:
            return np.clip(action, low, high) + 0.3
        return np.clip(action + 0.3, low, high)


class Clip(gymnasium.ActionWrapper):
    low, high = None, None

    def action(self, action):
        space = self.action_space
        low, high = (space.low, space.high) if self.low is None else (self.low, self.high)
        return np.clip(action, low, high)


class Rescale(gymnasium.ActionWrapper):
    span, shift = 1.0, 0.0

    def __init__(self, env):
        super().__init__(env)
        self.inner = env.action_space
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def action(self, action):
        middle = (self.inner.high + self.inner.low) / 2
        half = (self.inner.high - self.inner.low) / 2
        return middle + self.span * half * action + self.shift


class Frames(Wrapper):
    keeps, newest_first = False, False

    def __init__(self, env):
        super().__init__(env)
        self.frames = []

    def show(self):
        rows = self.frames[-STACK:]
        return np.stack(rows[::-1] if self.newest_first else rows)

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        if self.keeps and self.frames:
            self.frames.append(observation)
        else:
            self.frames = [observation] * STACK
        return self.show(), info

    def step(self, action):
        observation, *rest = self.env.step(action)
        self.frames.append(observation)
        return (self.show(), *rest)


class RewardClip(gymnasium.RewardWrapper):
    low = 0.5

    def reward(self, reward):
        return np.clip(reward, self.low, 1.5)


def pair(name, base, roles, *names, settings=None, **attributes):
    healthy, planted = (
        single(kind, *roles, **dict(settings or {})) for kind in (base, change(base, **attributes))
    )
    return EnvironmentPlant(name, healthy, planted, names)


RESCALED = {"low": -1.0, "high": 1.0}
CLIPPED = {"reward_function": lambda rewards: np.clip(rewards, 0.5, 1.5)}

PLANTS: tuple[EnvironmentPlant, ...] = (
    limit_plant("time limit one step late", ("1 steps too late",), late=1),
    limit_plant("time limit one step early", ("1 steps too early",), late=-1),
    limit_plant("steps are counted on over a reset", ("carried over an early reset",), keeps=True),
    limit_plant("time limit flagged as termination", ("as a termination",), terminates=True),
    limit_plant("time limit hides a termination", ("as a truncation",), overrides=True),
    record_plant("episode length one too large", ("length is 1 too large",), length_error=1),
    record_plant("episode length one too small", ("length is 1 too small",), length_error=-1),
    record_plant("episode return is not reset", ("return is carried over",), keeps_return=True),
    record_plant("episode return lacks the last reward", ("lacks the last",), forgets_last=True),
    record_plant("statistics in every step", ("within an episode",), always=True),
    vector_plant(
        "terminal observation of the next episode",
        FinalOfNextEpisode,
        "end of an episode is of the next episode",
    ),
    vector_plant("terminal observation lost", FinalLost, "end of an episode is lost"),
    vector_plant(
        "truncation flagged as termination",
        LimitsAreEnds,
        "a truncation is reported as a termination",
    ),
    vector_plant(
        "termination flagged as truncation",
        EndsAreLimits,
        "a termination is reported as a truncation",
    ),
    vector_plant("copies share one seed", SharedSeed, "all copies get the same seed"),
    vector_plant("copies exchanged", SwappedCopies, "of another copy"),
    vector_plant("rewards one step late", LateRewards, "that of the step before"),
    vector_plant("one buffer for all observations", OneBuffer, "overwritten"),
    vector_plant(
        "stale observation after a reset",
        StaleAfterReset,
        "after an automatic reset is from the end of the episode before",
    ),
    vector_plant(
        "reward repeated in the step that resets",
        RewardOfResetStep,
        "of a step that resets is that of the step before",
        mode=AutoresetMode.NEXT_STEP,
    ),
    vector_plant("observations of another type", DoubleObservations, "their space says float32"),
    normalize_plant(
        "terminal observation counted twice",
        "end of an episode enter the statistics twice",
        repeats_ends=True,
    ),
    normalize_plant(
        "first observations not counted", "after a reset do not enter", skips_starts=True
    ),
    normalize_plant(
        "frozen statistics updated", "frozen statistics are still updated", ignores_freeze=True
    ),
    normalize_plant("scaled before the update", "from before them", scales_first=True),
    normalize_plant("mean not subtracted", "mean is not subtracted", keeps_mean=True),
    normalize_vector_plant("sample variance", "divided by n - 1", ddof=1),
    normalize_vector_plant("statistics per copy", "statistics of its own", per_copy=True),
    reward_plant("return carried over time limits", "carried over time limits", over_limits=True),
    reward_plant("return carried over terminations", "carried over terminations", over_ends=True),
    reward_plant("variance of rewards", "of rewards, not of returns", of_rewards=True),
    reward_plant("mean subtracted from rewards", "mean is subtracted", centers=True),
    reward_plant("discount missing", "not discounted", discounts=False),
    reward_plant("frozen reward statistics updated", "still updated", ignores_freeze=True),
    pair(
        "action clipped before noise",
        NoisyAction,
        (ACTION_CLIP,),
        "outside the bounds",
        clips_first=True,
    ),
    pair(
        "action clipped to other bounds",
        Clip,
        (ACTION_CLIP,),
        "other bounds",
        "are changed",
        low=-1.0,
        high=1.0,
    ),
    pair(
        "action scaled by half the range",
        Rescale,
        (ACTION_RESCALE,),
        "scale of actions is wrong",
        settings=RESCALED,
        span=0.5,
    ),
    pair("action shifted", Rescale, (ACTION_RESCALE,), "shifted", settings=RESCALED, shift=1.0),
    pair(
        "stack not cleared at a reset",
        Frames,
        (FRAME_STACK,),
        "of another episode",
        settings={"stack": STACK},
        keeps=True,
    ),
    pair(
        "newest frame first",
        Frames,
        (FRAME_STACK,),
        "newest observation comes first",
        settings={"stack": STACK},
        newest_first=True,
    ),
    pair(
        "rewards clipped at another bound",
        RewardClip,
        (REWARD_FUNCTION,),
        "another function",
        settings=CLIPPED,
        low=0.9,
    ),
)
"""Written after the questions, from classes of mistakes."""

Make = Callable[..., object]
