"""Implementations of environments, wrappers and vectorized environments, and the task they show.

`harness/environment_probes` tests each `EnvironmentDriver`. gymnasium's own implementations are
there; those of a framework are in the module `environments` of its adapter, as `IMPLEMENTATIONS`.
The task's observations, rewards and ends are formulas of copy, episode and step: an observation
contains where it comes from, so that a wrong one can be identified. Needs gymnasium and numpy
only, so that it also runs in an interpreter that has nothing else.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TERMINATED, TRUNCATED, BOTH = "terminated", "truncated", "both"
COPY, EPISODE, STEP, WAVE, RECEIVED, DRAW = range(6)
"""Columns of an observation; `RECEIVED` is the last action and `DRAW` a random number."""
OBSERVATION_SIZE = 6


@dataclasses.dataclass(frozen=True)
class EpisodeScript:
    """Script of one copy of the task.

    Attributes:
        copy: Number of the copy.
        ends: Length and kind of each episode in order; the last one is repeated.
        draws: Whether a reset draws a random number; 0 otherwise.
    """

    copy: int = 0
    ends: tuple[tuple[int, str], ...] = ((3, TERMINATED),)
    low: float = -1.0
    high: float = 1.0
    draws: bool = False

    def get_end(self, episode: int) -> tuple[int, str]:
        """Return length and kind of an episode."""
        return self.ends[min(episode, len(self.ends) - 1)]

    def compute_observation(
        self, episode: int, step: int, received: float = 0.0, draw: float = 0.0
    ) -> Array:
        """Return the observation after `step` steps, float64[`OBSERVATION_SIZE`]."""
        wave = 3.0 + 2.0 * math.sin(1.3 * step + 0.9 * episode + 0.7 * self.copy)
        return np.array([self.copy, episode, step, wave, received, draw])

    def compute_reward(self, episode: int, step: int) -> float:
        """Return the reward of step number `step`, which is 1 for the first."""
        return 1.0 + math.cos(0.8 * step + 0.5 * episode + 0.3 * self.copy)

    def compute_flags(self, episode: int, step: int) -> tuple[bool, bool]:
        """Return `terminated` and `truncated` after `step` steps."""
        length, kind = self.get_end(episode)
        ended = step >= length
        return ended and kind in (TERMINATED, BOTH), ended and kind in (TRUNCATED, BOTH)


class ScriptedEpisodesEnv(gymnasium.Env[Any, Any]):
    """One copy of the task."""

    def __init__(self, script: EpisodeScript) -> None:
        self.script = script
        limits = np.full(OBSERVATION_SIZE, np.inf, np.float32)
        self.observation_space = gymnasium.spaces.Box(-limits, limits, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(script.low, script.high, (1,), np.float32)
        self._episode, self._step, self._draw = -1, 0, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start the next episode."""
        super().reset(seed=seed)
        self._episode, self._step = self._episode + 1, 0
        self._draw = float(self.np_random.normal()) if self.script.draws else 0.0
        return self._observe(0.0), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Return the next row of the script."""
        self._step += 1
        place = self._episode, self._step
        reward, flags = self.script.compute_reward(*place), self.script.compute_flags(*place)
        return self._observe(float(np.ravel(action)[0])), reward, *flags, {}

    def _observe(self, received: float) -> Array:
        place = self._episode, self._step
        return self.script.compute_observation(*place, received, self._draw).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class EnvMaker:
    """Function without arguments that returns one copy; can be sent to another process."""

    script: EpisodeScript

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """Return a new copy of the task."""
        return ScriptedEpisodesEnv(self.script)


def make_env_makers(scripts: Sequence[EpisodeScript]) -> list[EnvMaker]:
    """Return one maker per script."""
    return [EnvMaker(script) for script in scripts]


CALLER, SAME_STEP, NEXT_STEP = "caller", "same step", "next step"
"""Who resets at the end of an episode: the caller, the step that ends it, or the step after it."""

EPISODES = "episodes"
TIME_LIMIT = "time limit"
EPISODE_STATISTICS = "episode statistics"
OBSERVATION_NORMALIZATION = "observation normalization"
REWARD_NORMALIZATION = "reward normalization"
ACTION_CLIP = "action clip"
ACTION_RESCALE = "action rescale"
FRAME_STACK = "frame stack"
REWARD_FUNCTION = "reward function"
ROLES = (
    *(EPISODES, TIME_LIMIT, EPISODE_STATISTICS, OBSERVATION_NORMALIZATION, REWARD_NORMALIZATION),
    *(ACTION_CLIP, ACTION_RESCALE, FRAME_STACK, REWARD_FUNCTION),
)
"""What an implementation does. `EPISODES`: it passes observations, rewards and ends on."""


@dataclasses.dataclass(frozen=True)
class EnvironmentStep:
    """Result of one call of `step`, for N copies.

    Attributes:
        observations: The policy's next input, float[N, ...]; if the caller or this step
            resets, the first observation of the next episode.
        rewards: float[N].
        terminated: bool[N].
        truncated: bool[N].
        final_observations: The observation at the end of an episode by copy, None where no episode
            ended or none is given.
        final_place: Where the final observation is found.
        episodes: Return and length that were recorded by copy, None where nothing was.
    """

    observations: Array
    rewards: Array
    terminated: Array
    truncated: Array
    final_observations: tuple[Array | None, ...]
    final_place: str
    episodes: tuple[tuple[float, float] | None, ...]


class EnvironmentDriver:
    """Interface through which questions reach N copies of the scripted task.

    Attributes:
        autoreset: `CALLER`, `SAME_STEP` or `NEXT_STEP`.
        observation_space: Of one copy, as the policy sees it; None if it is not declared.
        env: The copy, or all copies together; closed with the driver.
    """

    autoreset: str = CALLER
    n_envs: int = 1
    observation_space: Any = None
    env: Any = None

    def reset(self, seed: int | None = None) -> Array:
        """Start an episode in every copy; return observations float[N, ...]."""
        raise NotImplementedError

    def step(self, actions: Array) -> EnvironmentStep:
        """Take one step in every copy with `actions`, float32[N, 1]."""
        raise NotImplementedError

    def freeze(self) -> None:
        """Stop the update of running statistics, as for an evaluation.

        Raises:
            NotImplementedError: The implementation has no such switch.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the copies."""
        if self.env is not None:
            self.env.close()


class SwitchedEnvDriver(EnvironmentDriver):
    """Driver of copies whose running statistics a function stops, if they have any."""

    def __init__(self, env: Any, freeze: Callable[[], None] | None) -> None:
        """Drive `env`; `freeze` stops the update of running statistics."""
        self.env, self._freeze = env, freeze

    def freeze(self) -> None:
        """See `EnvironmentDriver.freeze`."""
        if self._freeze is None:
            raise NotImplementedError("it has no switch that stops its statistics")
        self._freeze()


DriverMaker = Callable[[Sequence[EpisodeScript]], EnvironmentDriver]


@dataclasses.dataclass(frozen=True, eq=False)
class EnvironmentImplementation:
    """One implementation.

    Attributes:
        roles: What it does, of `ROLES`.
        make: Returns a driver of the copies that scripts describe.
        settings: Values that it was made with and that questions need: `gamma`, `clip`, `limit`,
            `stack`, `low`, `high`, `seeds` (False where no seed can be given).
        reward_function: The declared function of rewards; None if it declares none.
        sources: By role, the function that answers and a text of the line that decides.
        missing: Why it cannot be measured; empty if it can.
    """

    name: str
    roles: tuple[str, ...]
    make: DriverMaker
    n_envs: int = 1
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    reward_function: Callable[[Array], Array] | None = None
    sources: Mapping[str, tuple[Any, str]] = dataclasses.field(default_factory=dict)
    missing: str = ""


def make_missing_implementation(
    name: str, roles: Sequence[str], reason: str
) -> EnvironmentImplementation:
    """Return the entry of an implementation that cannot be measured, with the reason."""

    def refuse(scripts: Sequence[EpisodeScript]) -> EnvironmentDriver:
        raise NotImplementedError(reason)

    return EnvironmentImplementation(name, tuple(roles), refuse, missing=reason)


def locate_source(function: Any, text: str) -> str:
    """Return `package/file.py:line` of the first line of a function that has a text.

    The first line of the function if no line has it; empty if there is no source.
    """
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(function))
        path = Path(inspect.getsourcefile(inspect.unwrap(function)) or "")
    except (OSError, TypeError):
        return ""
    found = next((i for i, line in enumerate(lines) if text and text in line), 0)
    parts = path.parts
    if "site-packages" in parts:
        short = "/".join(parts[parts.index("site-packages") + 1 :])
    else:
        short = "/".join(parts[-3:])
    return f"{short}:{first + found}"


class SingleEnvDriver(SwitchedEnvDriver):
    """Driver of one gymnasium environment, which this driver resets at the end of an episode."""

    autoreset = CALLER

    def __init__(
        self, env: gymnasium.Env[Any, Any], freeze: Callable[[], None] | None = None
    ) -> None:
        """Drive the wrapped task `env`; `freeze` stops its running statistics."""
        super().__init__(env, freeze)
        self.observation_space = env.observation_space

    def reset(self, seed: int | None = None) -> Array:
        """See `EnvironmentDriver.reset`."""
        return np.array(self.env.reset(seed=seed)[0])[np.newaxis]

    def step(self, actions: Array) -> EnvironmentStep:
        """See `EnvironmentDriver.step`."""
        observation, reward, terminated, truncated, info = self.env.step(actions[0])
        final: tuple[Array | None, ...] = (None,)
        seen = np.array(observation)
        if terminated or truncated:
            final, seen = (seen,), np.array(self.env.reset()[0])
        return EnvironmentStep(
            seen[np.newaxis],
            np.asarray(reward).reshape(1),
            np.array([terminated], np.bool_),
            np.array([truncated], np.bool_),
            final,
            "the result of the step; the caller resets",
            (read_episode(info.get("episode")),),
        )


def read_episode(record: Any) -> tuple[float, float] | None:
    """Return return and length of `{"r": ..., "l": ...}`, or None."""
    if record is None:
        return None
    # The keys of gymnasium's RecordEpisodeStatistics, which other libraries use as well.
    return float(np.ravel(record["r"])[0]), float(np.ravel(record["l"])[0])


def make_single_env(script: EpisodeScript) -> gymnasium.Env[Any, Any]:
    """Return one copy of the scripted task."""
    return EnvMaker(script)()
