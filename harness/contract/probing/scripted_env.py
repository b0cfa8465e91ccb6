"""The scripted environment that probes train on: observations, rewards and ends are dictated.

Nothing depends on the actions, so every implementation sees the same world whatever it does.
NumPy's global random functions are dictated for as long.
"""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.events import EpisodeBegin, TrainingEvents

TERMINATED, TRUNCATED = 1, 2
"""How a step can end an episode; 0 is not at all."""

ENV_ID = "parallax.harness.probes:Dictated-v0"


@dataclasses.dataclass(frozen=True)
class ScriptedData:
    """What the world and its random numbers are, by environment step.

    Attributes:
        observations: float[steps + 1, observations]; row t + 1 follows step t.
        resets: float[steps + 1, observations]; row t + 1 starts an episode after step t.
        rewards: float[steps].
        ends: int[steps]: 0, `TERMINATED` or `TRUNCATED`.
        random_actions: float[steps, actions] in 0..1, shares of the action range.
        acting_noise: float[steps, actions], standard normal numbers for single actions.
        batch_noise: float[rows, actions], standard normal numbers for batches of actions.
        low: Smallest action per dimension.
        high: Largest action per dimension.
        turning: Whether each minibatch is drawn with other whole numbers, and each environment
            step has other noise for batches of actions.
        repeated: How often each whole number comes in a row when many are drawn.
        choices: Number of discrete actions; 0 where actions are continuous. Random actions are
            then float[steps, 1], shares of the choices.
        coin: The random number that decides whether an action is random.
        among: If not 0, minibatches are drawn from so many first steps, each time other ones.
    """

    observations: Array
    resets: Array
    rewards: Array
    ends: NDArray[np.int64]
    random_actions: Array
    acting_noise: Array
    batch_noise: Array
    low: tuple[float, ...]
    high: tuple[float, ...]
    rotates_draws: bool = False
    draw_repeats: int = 1
    choices: int = 0
    exploration_draw: float = 0.5
    minibatch_window: int = 0

    @property
    def task(self) -> Task:
        """Sizes and bounds."""
        return Task(ENV_ID, self.observations.shape[1], self.low, self.high, 0, self.choices)

    def get_random_choice(self, row: int) -> int:
        """The random choice of a step."""
        return int(self.random_actions[row, 0] * self.choices)

    def noise(self, steps: int) -> Array:
        """Noise for batches of actions after so many environment steps, float[rows, actions]."""
        return (
            np.roll(self.batch_noise, -3 * steps, axis=0)
            if self.rotates_draws
            else self.batch_noise
        )


@dataclasses.dataclass(frozen=True)
class IntegerDraw:
    """Whole numbers that were drawn at once.

    Attributes:
        steps: Environment steps taken before.
        low: Smallest that could be drawn.
        high: One more than the largest.
        count: How many were drawn.
        replaced: Whether one number could be drawn several times.
    """

    steps: int
    low: int
    high: int
    count: int
    with_replacement: bool = True


@dataclasses.dataclass(frozen=True)
class ScriptedTransition:
    """One step as the environment saw it.

    Attributes:
        observation: Before the step.
        action: What arrived.
        reward: Of the step.
        next_observation: After the step, before any reset.
        end: 0, `TERMINATED` or `TRUNCATED`.
    """

    observation: Array
    action: Array
    reward: float
    next_observation: Array
    end: int


class ScriptedWorld:
    """All copies of the environment in one training, and the clock they share.

    Attributes:
        dictation: What happens when.
        events: Who is told of resets and steps, and the clock.
        copies: Environments made.
        draws: Random whole numbers asked for.
        thresholds: What coins were compared with, with environment steps taken before.
        transitions: All steps, in order.
        started: Whether training has asked for the first observation after networks were made:
            whoever finds the networks says so.
    """

    def __init__(self, dictation: ScriptedData) -> None:
        self.scripted_data = dictation
        self.events = TrainingEvents()
        self.copies = 0
        self.draws: list[IntegerDraw] = []
        self.thresholds: list[tuple[int, float]] = []
        self._turns = 0
        self.transitions: list[ScriptedTransition] = []
        self.started = False

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """A new copy of the environment."""
        return ScriptedDataEnv(self)

    @property
    def steps(self) -> int:
        """Environment steps taken, all copies together."""
        return self.events.steps

    @property
    def row(self) -> int:
        """The current row of the dictation; it stays on the last one after the end."""
        return min(self.steps, len(self.scripted_data.rewards) - 1)

    def draw_integers(self, low: int, high: int, count: int) -> NDArray[np.int64]:
        """What stands for `count` random whole numbers from `low` to `high` - 1."""
        if self.scripted_data.choices == high - low and count <= self.copies:
            return np.full(count, low + self.scripted_data.get_random_choice(self.row))
        self.draws.append(IntegerDraw(self.steps, low, high, count))
        d, numbers = self.scripted_data, np.arange(count) // self.scripted_data.draw_repeats
        if d.minibatch_window and min(count, high - low) > 1:
            self._turns += 1
            return low + (numbers + 7 * (self._turns - 1)) % min(d.minibatch_window, high - low)
        if count > 1 and (d.rotates_draws or d.draw_repeats > 1):
            numbers, self._turns = numbers + 7 * self._turns, self._turns + 1
        return low + numbers % (high - low)

    def numbers(self, kind: str, count: int) -> Array:
        """What stands for `count` random numbers of a library's own generator.

        Args:
            kind: `normal` or `uniform`.
            count: As many as there are actions are for one action, others for batches.
        """
        d = self.scripted_data
        if kind == "uniform":
            return np.resize(d.random_actions[self.row], count)
        if count == len(d.low):
            return np.asarray(d.acting_noise[self.row])
        return np.resize(d.noise(self.steps), count)

    def compared(self, threshold: float) -> None:
        """Notes what a coin was compared with."""
        self.thresholds.append((self.steps, threshold))

    def record_permutation(self, high: int, count: int) -> None:
        """Notes that `count` of 0 to `high` - 1 are drawn, each once at most."""
        self.draws.append(IntegerDraw(self.steps, 0, high, count, with_replacement=False))


class ScriptedDataEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One copy."""

    def __init__(self, world: ScriptedWorld) -> None:
        d = world.scripted_data
        size = d.observations.shape[1]
        self.world = world
        self._number = world.copies
        world.copies += 1
        self._before_step = world.events.make_step_counter()
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space: Any = ScriptedDiscrete(world) if d.choices else ScriptedBox(world)
        self._observation = d.observations[0]

    def reset(self, **kwargs: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The first observation of an episode."""
        self.world.events.tell(EpisodeBegin())
        d, steps = self.world.scripted_data, self.world.steps
        self._observation = (d.resets if steps else d.observations)[min(steps, len(d.rewards))]
        if not steps:
            # Copies are told apart; twice a float32 number is one.
            self._observation = self._observation * 2.0**self._number
        return self._observation.astype(np.float32), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """The next row."""
        world, d, row = self.world, self.world.scripted_data, self.world.row
        self._before_step()
        before, self._observation = self._observation, d.observations[row + 1]
        reward, end = float(d.rewards[row]), int(d.ends[row])
        taken = np.array(action, dtype=float)
        world.transitions.append(ScriptedTransition(before, taken, reward, self._observation, end))
        observation = self._observation.astype(np.float32)
        return observation, reward, end == TERMINATED, end == TRUNCATED, {}


class ScriptedBox(gymnasium.spaces.Box):
    """An action space whose samples are dictated."""

    def __init__(self, world: ScriptedWorld) -> None:
        self.world = world
        low, high = (np.array(bound, np.float32) for bound in self._bounds(world))
        super().__init__(low, high, low.shape, np.float32)

    def sample(self, mask: Any = None, probability: Any = None) -> NDArray[np.float32]:
        """The random action of the current step."""
        share = self.world.scripted_data.random_actions[self.world.row]
        return np.asarray(self.low + share * (self.high - self.low), dtype=np.float32)

    def __deepcopy__(self, memo: Any) -> "ScriptedBox":
        return ScriptedBox(self.world)

    @staticmethod
    def _bounds(world: ScriptedWorld) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return world.scripted_data.low, world.scripted_data.high


class ScriptedDiscrete(gymnasium.spaces.Discrete):
    """Choices whose samples are dictated."""

    def __init__(self, world: ScriptedWorld) -> None:
        self.world = world
        super().__init__(world.scripted_data.choices)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """The random choice of the current step."""
        return np.int64(self.world.scripted_data.get_random_choice(self.world.row))

    def __deepcopy__(self, memo: Any) -> "ScriptedDiscrete":
        return ScriptedDiscrete(self.world)
