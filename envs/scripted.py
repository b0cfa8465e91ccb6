"""A small task for testing adapters: cheap, with unusual bounds, ends, a time limit, and faults.

The name `parallax.envs.scripted:ParallaxScripted-v0` makes gymnasium import this module, which
registers it.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

ENV_ID = "parallax.envs.scripted:ParallaxScripted-v0"
NARROW_ENV_ID = "parallax.envs.scripted:ParallaxScriptedNarrow-v0"
SKEWED_ENV_ID = "parallax.envs.scripted:ParallaxScriptedSkewed-v0"
IMAGE_ENV_ID = "parallax.envs.scripted:ParallaxScriptedImages-v0"
DISCRETE_ENV_ID = "parallax.envs.scripted:ParallaxScriptedDiscrete-v0"
_FAULTS = ("raises", "nan", "interrupts", "fills")
FAULT_ENV_IDS = {
    fault: f"parallax.envs.scripted:ParallaxScripted{fault.capitalize()}-v0" for fault in _FAULTS
}
DISCRETE_FAULT_ENV_IDS = {
    fault: f"parallax.envs.scripted:ParallaxScriptedDiscrete{fault.capitalize()}-v0"
    for fault in _FAULTS
}
FAULT_STEP = 100
TIME_LIMIT = 10
PUSHES = np.array([[-1.0, -1.0], [1.0, -1.0], [0.0, 1.0]])
"""Two continuous actions within +-1 for each action of the discrete task."""
_IMAGE_SIZE = 6, 5  # height and width
_LARGEST_DISK = 2**23  # bytes; a larger one is never filled


class ScriptedEnv(gymnasium.Env[NDArray[np.float64], Any]):
    """Task in which two actions push three noisy numbers; episodes end at random or by time limit.

    The first environment made with a `fault` fails at its step `FAULT_STEP`.

    Attributes:
        actions: Every action that reached the task, in order.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)

    def __init__(
        self, low: float = -3.0, high: float = 3.0, fault: str | None = None, discrete: bool = False
    ) -> None:
        """Make the task.

        Args:
            low: Smallest action.
            high: Largest action.
            fault: `raises` an error, `nan` observations from then on, `interrupts` (Ctrl-C),
                or `fills` a small disk with a file in the working folder.
            discrete: Whether an action is a choice among `PUSHES`, whatever the bounds.
        """
        self.action_space: gymnasium.Space[Any] = (
            gymnasium.spaces.Discrete(len(PUSHES))
            if discrete
            else gymnasium.spaces.Box(low, high, (2,), np.float32)
        )
        self._discrete = discrete
        self._middle, self._half = (high + low) / 2, (high - low) / 2
        self._fault = fault
        self._state = np.zeros(3)
        self.actions: list[NDArray[Any]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Start from three standard normal numbers."""
        super().reset(seed=seed)
        self._state = self.np_random.normal(size=3)
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Move the state, and reward staying near zero."""
        self.actions.append(np.array(action))
        if self._fault and len(self.actions) >= FAULT_STEP:
            self._trigger_fault()
        if self._discrete:
            chosen = PUSHES[int(action)]
            push = np.append(chosen, chosen.sum())
        else:
            push = (np.append(action, action.sum()) - self._middle) / self._half
        self._state = 0.8 * self._state + 0.3 * push + 0.1 * self.np_random.normal(size=3)
        reward = 1.0 - float(np.abs(self._state).mean())
        ends = bool(self.np_random.random() < 0.02)
        return self._state.copy(), reward, ends, False, {}

    def _trigger_fault(self) -> None:
        if self._fault == "nan":
            self._state[:] = np.nan
        elif len(self.actions) == FAULT_STEP:
            if self._fault == "raises":
                raise RuntimeError(f"the task broke at step {FAULT_STEP}")
            if self._fault == "fills":
                _fill_disk()
            else:
                os.kill(os.getpid(), signal.SIGINT)


class ScriptedImagesEnv(ScriptedEnv):
    """Scripted task with three discrete actions and boolean images: a bar per state variable."""

    def __init__(self) -> None:
        """Make the task."""
        super().__init__(discrete=True)
        kind: Any = np.bool_
        self.observation_space = gymnasium.spaces.Box(0, 1, (*_IMAGE_SIZE, 3), kind)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start from three standard normal numbers."""
        state, info = super().reset(seed=seed, options=options)
        return _draw_bars(state), info

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Move the state, and reward staying near zero."""
        state, *rest = super().step(action)
        return (_draw_bars(state), *rest)  # type: ignore[return-value]


def _draw_bars(state: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return an image bool[height, width, 3]; bars show where each number is from -2 to 2."""
    height, width = _IMAGE_SIZE
    levels = np.linspace(-2, 2, height)[:, np.newaxis, np.newaxis]
    return np.repeat(levels < state, width, axis=1)


def _fill_disk() -> None:
    with suppress(OSError), Path("filler").open("wb", buffering=0) as file:
        for _ in range(_LARGEST_DISK // 512):
            file.write(bytes(512))


def _register_scripted_env(env_id: str, **arguments: Any) -> None:
    gymnasium.register(
        env_id.partition(":")[2],
        entry_point="parallax.envs.scripted:ScriptedEnv",
        max_episode_steps=TIME_LIMIT,
        kwargs=arguments,
    )


_register_scripted_env(ENV_ID)
_register_scripted_env(NARROW_ENV_ID, low=-0.4, high=0.4)
_register_scripted_env(SKEWED_ENV_ID, low=-1.0, high=3.0)
_register_scripted_env(DISCRETE_ENV_ID, discrete=True)
gymnasium.register(
    IMAGE_ENV_ID.partition(":")[2],
    entry_point="parallax.envs.scripted:ScriptedImagesEnv",
    max_episode_steps=TIME_LIMIT,
)
for _fault in _FAULTS:
    _register_scripted_env(FAULT_ENV_IDS[_fault], fault=_fault)
    _register_scripted_env(DISCRETE_FAULT_ENV_IDS[_fault], fault=_fault, discrete=True)
