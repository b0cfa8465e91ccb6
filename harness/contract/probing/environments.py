"""Implementations of environments, wrappers and vectorized environments, behind one interface.

`harness/environment_probes` puts questions to an `EnvironmentDriver`. gymnasium's own
implementations stand there; those of a framework are in the module `environments` of its adapter,
as `IMPLEMENTATIONS`. Needs gymnasium and numpy only.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.probing.scripted_episodes import EnvMaker, EpisodeScript

Array = NDArray[Any]
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
        observations: What the policy acts on next, float[N, ...]; where the caller or this step
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
        n_envs: Number of copies.
        observation_space: Of one copy, as the policy sees it; None if it is not declared.
    """

    autoreset: str = CALLER
    n_envs: int = 1
    observation_space: Any = None

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


DriverMaker = Callable[[Sequence[EpisodeScript]], EnvironmentDriver]


@dataclasses.dataclass(frozen=True, eq=False)
class EnvironmentImplementation:
    """One implementation.

    Attributes:
        name: Library and class.
        roles: What it does, of `ROLES`.
        make: Returns a driver of the copies that scripts describe.
        n_envs: Number of copies to make.
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


class SingleEnvDriver(EnvironmentDriver):
    """Driver of one gymnasium environment, which this driver resets at the end of an episode."""

    autoreset = CALLER

    def __init__(
        self, env: gymnasium.Env[Any, Any], freeze: Callable[[], None] | None = None
    ) -> None:
        """Drive `env`.

        Args:
            env: The wrapped scripted task.
            freeze: Stops the update of running statistics.
        """
        self.env, self._freeze = env, freeze
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

    def freeze(self) -> None:
        """See `EnvironmentDriver.freeze`."""
        if self._freeze is None:
            raise NotImplementedError("it has no switch that stops its statistics")
        self._freeze()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def read_episode(record: Any) -> tuple[float, float] | None:
    """Return return and length of `{"r": ..., "l": ...}`, or None."""
    if record is None:
        return None
    return float(np.ravel(record["r"])[0]), float(np.ravel(record["l"])[0])


def make_single_env(script: EpisodeScript) -> gymnasium.Env[Any, Any]:
    """Return one copy of the scripted task."""
    return EnvMaker(script)()
