"""gymnasium's wrappers and vectorized environments, from 0.27 on.

Up to 0.29, vectorized environments reset in the step that ends an episode; 1.0 resets in the
following step; since 1.1 the caller may choose.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from numpy.typing import NDArray

from parallax.harness.contract.probing.environments import (
    ACTION_CLIP,
    ACTION_RESCALE,
    CALLER,
    EPISODE_STATISTICS,
    EPISODES,
    FRAME_STACK,
    NEXT_STEP,
    OBSERVATION_NORMALIZATION,
    REWARD_FUNCTION,
    REWARD_NORMALIZATION,
    SAME_STEP,
    TIME_LIMIT,
    EnvironmentDriver,
    EnvironmentImplementation,
    EnvironmentStep,
    EpisodeScript,
    SwitchedEnvDriver,
    make_env_makers,
    make_missing_implementation,
    read_episode,
)
from parallax.harness.environment_probes.trace import find_freeze_switch, make_wrapped_driver

Array = NDArray[Any]
Env = gymnasium.Env[Any, Any]
GAMMA, LIMIT, STACK = 0.97, 5, 3
MODES = ("caller", "same", "next")
_AUTORESET = {"caller": CALLER, "same": SAME_STEP, "next": NEXT_STEP}


class VectorEnvDriver(SwitchedEnvDriver):
    """Driver of a vectorized environment of gymnasium, wrapped or not."""

    def __init__(self, envs: Any, autoreset: str, freeze: Callable[[], None] | None = None) -> None:
        """Drive `envs`; `freeze` stops the update of running statistics."""
        super().__init__(envs, freeze)
        self.autoreset = autoreset
        self.n_envs = envs.num_envs
        self.observation_space = envs.single_observation_space

    def reset(self, seed: int | None = None) -> Array:
        """See `EnvironmentDriver.reset`."""
        return np.asarray(self.env.reset(seed=seed)[0])

    def step(self, actions: Array) -> EnvironmentStep:
        """See `EnvironmentDriver.step`."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        ended = np.logical_or(terminated, truncated)
        final: list[Array | None] = [None] * self.n_envs
        place, episodes = "", read_vector_episodes(infos, self.n_envs)
        if self.autoreset == CALLER:
            place = "the result of the step, the caller resets"
            final = [np.array(observations[i]) if ended[i] else None for i in range(self.n_envs)]
            if ended.any():
                observations = self.env.reset(options={"reset_mask": ended})[0]
        elif self.autoreset == SAME_STEP:
            key = "final_obs" if "final_obs" in infos else "final_observation"
            place = f"info[{key!r}]"
            if key in infos:
                final = [infos[key][i] if ended[i] else None for i in range(self.n_envs)]
        return EnvironmentStep(
            observations, rewards, terminated, truncated, tuple(final), place, episodes
        )


def read_vector_episodes(
    infos: Mapping[str, Any], n_envs: int
) -> tuple[tuple[float, float] | None, ...]:
    """Return recorded return and length by copy, from the format of any gymnasium release."""
    found: list[tuple[float, float] | None] = [None] * n_envs
    if "episode" in infos:
        record, mask = infos["episode"], infos.get("_episode", np.ones(n_envs, bool))
        if isinstance(record, Mapping):
            rows = [{key: np.ravel(record[key])[i] for key in "rl"} for i in range(n_envs)]
        else:
            rows = list(record)
        found = [read_episode(rows[i]) if mask[i] else None for i in range(n_envs)]
    elif isinstance(infos.get("final_info"), Mapping):
        return read_vector_episodes(infos["final_info"], n_envs)
    elif "final_info" in infos:
        found = [
            read_episode(info["episode"]) if info and "episode" in info else None
            for info in infos["final_info"]
        ]
    return tuple(found)


def has_modes() -> bool:
    """Return whether the caller of a vectorized environment can choose who resets."""
    return hasattr(gymnasium.vector, "AutoresetMode")


def make_vector_env(
    kind: Callable[..., Any],
    mode: str,
    wrap_each: Callable[[Env], Env] | None,
    scripts: Sequence[EpisodeScript],
) -> tuple[Any, str]:
    """Return a vectorized environment and who resets; old releases have one of the `MODES` only."""
    makers: list[Callable[[], Env]] = list(make_env_makers(scripts))
    if wrap_each is not None:
        makers = [partial(_make_and_wrap, maker, wrap_each) for maker in makers]
    if has_modes():
        names = {"caller": "DISABLED", "same": "SAME_STEP", "next": "NEXT_STEP"}
        chosen = getattr(gymnasium.vector.AutoresetMode, names[mode])
        return kind(makers, autoreset_mode=chosen), _AUTORESET[mode]
    return kind(makers), _AUTORESET[find_only_mode()]


def find_only_mode() -> str:
    """Return the mode of releases that have only one."""
    return "same" if is_before_one() else "next"


def is_before_one() -> bool:
    """Return whether this is a release before 1.0, whose wrappers also take vectorized ones."""
    return gymnasium.__version__.split(".")[0] == "0"


def _make_and_wrap(maker: Callable[[], Env], wrap: Callable[[Env], Env]) -> Env:
    return wrap(maker())


def make_vector_driver(
    scripts: Sequence[EpisodeScript],
    *,
    kind: Callable[..., Any] = SyncVectorEnv,
    mode: str = "next",
    wrap: Callable[[Any], Any] | None = None,
    wrap_each: Callable[[Env], Env] | None = None,
) -> EnvironmentDriver:
    """Return a driver of a vectorized environment."""
    envs, autoreset = make_vector_env(kind, mode, wrap_each, scripts)
    envs = wrap(envs) if wrap is not None else envs
    return VectorEnvDriver(envs, autoreset, find_freeze_switch(envs))


def clip_reward(reward: Any) -> Any:
    """Clip rewards to 0.5 to 1.5."""
    return np.clip(reward, 0.5, 1.5)


def _list_single_wrappers() -> list[EnvironmentImplementation]:
    wrappers: Any = gymnasium.wrappers

    def declare(
        name: str,
        roles: tuple[str, ...],
        method: str,
        *arguments: Any,
        text: str = "",
        **settings: Any,
    ) -> EnvironmentImplementation:
        # `method` is the one that does the wrapper's work, and `text` stands in the line of it.
        label = f"gymnasium {name}"
        if not hasattr(wrappers, name):
            return make_missing_implementation(label, roles, "this release does not have it")
        wrapper = getattr(wrappers, name)
        return EnvironmentImplementation(
            label,
            roles,
            partial(make_wrapped_driver, wrap=lambda env: wrapper(env, *arguments)),
            settings=settings,
            reward_function=clip_reward if REWARD_FUNCTION in roles else None,
            sources={role: (getattr(wrapper, method), text) for role in roles},
        )

    # The methods of different releases.
    has_observation = hasattr(wrappers.NormalizeObservation, "observation")
    normalize = "observation" if has_observation else "normalize"
    rescale = "action" if "action" in vars(wrappers.RescaleAction) else "__init__"
    stack = "FrameStackObservation" if hasattr(wrappers, "FrameStackObservation") else "FrameStack"
    return [
        declare("TimeLimit", (TIME_LIMIT,), "step", LIMIT, limit=LIMIT),
        declare("RecordEpisodeStatistics", (EPISODES, EPISODE_STATISTICS), "step"),
        declare("NormalizeObservation", (OBSERVATION_NORMALIZATION,), normalize),
        declare(
            "NormalizeReward",
            (REWARD_NORMALIZATION,),
            "step",
            GAMMA,
            text="self.gamma",
            gamma=GAMMA,
        ),
        declare("ClipAction", (ACTION_CLIP,), "action"),
        declare("RescaleAction", (ACTION_RESCALE,), rescale, -1.0, 1.0, low=-1.0, high=1.0),
        declare("TransformReward", (REWARD_FUNCTION,), "__init__", clip_reward),
        declare(stack, (FRAME_STACK,), "reset", STACK, stack=STACK),
    ]


def _list_vector_envs() -> list[EnvironmentImplementation]:
    found = []
    modes = MODES if has_modes() else (find_only_mode(),)
    for kind, short in ((SyncVectorEnv, "SyncVectorEnv"), (AsyncVectorEnv, "AsyncVectorEnv")):
        for mode in modes:
            make = partial(make_vector_driver, kind=kind, mode=mode)
            found.append(
                EnvironmentImplementation(
                    f"gymnasium {short}, {_AUTORESET[mode]} resets",
                    (EPISODES,),
                    make,
                    n_envs=2,
                    sources={EPISODES: (getattr(kind, "step", kind), "")},
                )
            )
    statistics = partial(make_vector_driver, wrap_each=gymnasium.wrappers.RecordEpisodeStatistics)
    found += [
        EnvironmentImplementation(
            f"gymnasium RecordEpisodeStatistics of each copy, {_AUTORESET[mode]} resets",
            (EPISODES, EPISODE_STATISTICS),
            partial(statistics, mode=mode),
            n_envs=2,
        )
        for mode in modes
    ]
    return found


def _list_vector_wrappers() -> list[EnvironmentImplementation]:
    wrappers: Any = gymnasium.wrappers if is_before_one() else gymnasium.wrappers.vector
    modes = MODES if has_modes() else (find_only_mode(),)
    found = []
    for name, roles, settings in (
        ("RecordEpisodeStatistics", (EPISODES, EPISODE_STATISTICS), {}),
        ("NormalizeObservation", (OBSERVATION_NORMALIZATION,), {}),
        ("NormalizeReward", (REWARD_NORMALIZATION,), {"gamma": GAMMA}),
    ):
        wrapper = getattr(wrappers, name)
        wrap = partial(wrapper, **settings)
        for mode in modes:
            label = f"gymnasium vector {name}, {_AUTORESET[mode]} resets"
            if reason := _why_not_wrapped(wrap, mode):
                found.append(make_missing_implementation(label, roles, reason))
                continue
            source = wrapper.step, "self.gamma" if settings else ""
            found.append(
                EnvironmentImplementation(
                    label,
                    roles,
                    partial(make_vector_driver, mode=mode, wrap=wrap),
                    n_envs=2,
                    settings=settings,
                    sources=dict.fromkeys(roles, source),
                )
            )
    return found


def _why_not_wrapped(wrap: Callable[[Any], Any], mode: str) -> str:
    envs, _ = make_vector_env(SyncVectorEnv, mode, None, [EpisodeScript()])
    try:
        wrap(envs)
    except (ValueError, AssertionError, TypeError) as error:
        return f"it refuses that mode: {' '.join(str(error).split())[:120]}"
    finally:
        envs.close()
    return ""


IMPLEMENTATIONS = (*_list_single_wrappers(), *_list_vector_envs(), *_list_vector_wrappers())
"""The implementations in this release of gymnasium."""
