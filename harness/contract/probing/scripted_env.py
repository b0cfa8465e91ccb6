"""Environment that probes train on: observations, rewards and episode ends follow a script.

Nothing depends on the actions, so every implementation sees the same data whatever it does.
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
"""Ways in which a step ends an episode; 0 stands for a step that does not end it."""

ENV_ID = "parallax.harness.contract.probing:Scripted-v0"


@dataclasses.dataclass(frozen=True)
class ScriptedData:
    """Script of an environment and of all random numbers, by environment step.

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
        rotates_draws: Whether the integers of each minibatch and the batch noise of each
            environment step differ from those before.
        draw_repeats: Number of times that each integer is repeated when many are drawn.
        n_discrete_actions: Number of discrete actions; 0 if actions are continuous. Random actions
            are then float[steps, 1], shares of that number.
        exploration_draw: The uniform random number that is compared with epsilon.
        minibatch_window: If not 0, minibatches are drawn from this number of first steps, each
            time different ones.
        permutes_as_draws: Whether permutations begin with the integers of draws with replacement,
            so that minibatches do not depend on how they are drawn.
        own_rng: Whether frameworks draw their own random numbers instead of scripted ones.
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
    n_discrete_actions: int = 0
    exploration_draw: float = 0.5
    minibatch_window: int = 0
    permutes_as_draws: bool = False
    own_rng: bool = False

    @property
    def task(self) -> Task:
        """The task that the adapter receives: sizes and bounds."""
        return Task(
            ENV_ID, self.observations.shape[1], self.low, self.high, 0, self.n_discrete_actions
        )

    def get_random_choice(self, row: int) -> int:
        """Return the random discrete action of a step."""
        return int(self.random_actions[row, 0] * self.n_discrete_actions)

    def get_batch_noise(self, steps: int) -> Array:
        """Return the noise of batches of actions after `steps` steps, float[rows, actions]."""
        if not self.rotates_draws:
            return self.batch_noise
        return np.roll(self.batch_noise, -3 * steps, axis=0)


@dataclasses.dataclass(frozen=True)
class IntegerDraw:
    """One call that drew random integers.

    Attributes:
        low: Smallest possible integer.
        high: Largest possible integer plus one.
        with_replacement: Whether an integer could be drawn several times.
    """

    steps: int
    low: int
    high: int
    count: int
    with_replacement: bool = True


@dataclasses.dataclass(frozen=True)
class ScriptedTransition:
    """One step as the environment received it."""

    observation: Array
    action: Array
    reward: float
    next_observation: Array
    end: int


class ScriptedWorld:
    """All parallel environments of one training, and the clock they share.

    Attributes:
        scripted_data: The script.
        events: Publishes resets and steps, and counts environment steps.
        draws: Calls that drew random integers.
        thresholds: Environment steps taken before, and the number that a uniform random number
            was compared with (epsilon).
        transitions: All steps, in order.
        started: Whether the networks exist, so that random numbers are scripted from now on; set
            by the recorder.
    """

    def __init__(self, scripted_data: ScriptedData) -> None:
        self.scripted_data = scripted_data
        self.events = TrainingEvents()
        self.n_envs = 0
        self.draws: list[IntegerDraw] = []
        self.thresholds: list[tuple[int, float]] = []
        self._turns = 0
        self.transitions: list[ScriptedTransition] = []
        self.started = False

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Return another environment that follows the script."""
        return ScriptedDataEnv(self)

    @property
    def steps(self) -> int:
        """Environment steps taken, all environments together."""
        return self.events.steps

    @property
    def row(self) -> int:
        """Current row of the script; the last one after the end."""
        return min(self.steps, len(self.scripted_data.rewards) - 1)

    def draw_integers(self, low: int, high: int, count: int) -> NDArray[np.int64]:
        """Return scripted integers in place of `count` random ones from `low` to `high` - 1.

        They are 0, 1, 2, ..., rotated from call to call where the script says so, so that the
        rows of a minibatch are known.
        """
        # At most one integer per environment, below the number of actions: actions, no replay rows.
        if self.scripted_data.n_discrete_actions == high - low and count <= self.n_envs:
            return np.full(count, low + self.scripted_data.get_random_choice(self.row))
        self.draws.append(IntegerDraw(self.steps, low, high, count))
        d, numbers = self.scripted_data, np.arange(count) // self.scripted_data.draw_repeats
        if d.minibatch_window and min(count, high - low) > 1:
            self._turns += 1
            return low + (numbers + 7 * (self._turns - 1)) % min(d.minibatch_window, high - low)
        if count > 1 and (d.rotates_draws or d.draw_repeats > 1):
            numbers, self._turns = numbers + 7 * self._turns, self._turns + 1
        return low + numbers % (high - low)

    def permute_as_draws(self, size: int) -> NDArray[np.int64]:
        """Return 0 to `size` - 1, first those that `draw_integers` would give next."""
        window = min(self.scripted_data.minibatch_window, size)
        first = np.roll(np.arange(window), -7 * self._turns)
        self._turns += window > 0
        return np.concatenate([first, np.arange(window, size)])

    def draw_numbers(self, kind: str, count: int) -> Array:
        """Return scripted numbers in place of `count` random ones of a library's generator.

        Args:
            kind: `normal` or `uniform`.
            count: One per action dimension for a single action, more for batches.
        """
        d = self.scripted_data
        if kind == "uniform":
            return np.resize(d.random_actions[self.row], count)
        if count == len(d.low):
            return np.asarray(d.acting_noise[self.row])
        return np.resize(d.get_batch_noise(self.steps), count)

    def record_threshold(self, threshold: float) -> None:
        """Record the number that a uniform random number was compared with."""
        self.thresholds.append((self.steps, threshold))

    def record_permutation(self, high: int, count: int) -> None:
        """Record that `count` integers from 0 to `high` - 1 are drawn without replacement."""
        self.draws.append(IntegerDraw(self.steps, 0, high, count, with_replacement=False))


class ScriptedDataEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One environment that follows the script of its world."""

    def __init__(self, world: ScriptedWorld) -> None:
        d = world.scripted_data
        size = d.observations.shape[1]
        self.world = world
        self._number = world.n_envs
        world.n_envs += 1
        self._before_step = world.events.make_step_counter()
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        space = ScriptedDiscrete if d.n_discrete_actions else ScriptedBox
        self.action_space: Any = space(world)
        self._observation = d.observations[0]

    def reset(self, **kwargs: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Return the first observation of an episode."""
        self.world.events.publish(EpisodeBegin())
        d, steps = self.world.scripted_data, self.world.steps
        self._observation = (d.resets if steps else d.observations)[min(steps, len(d.rewards))]
        if not steps:
            # Parallel environments start differently; doubling a float32 number is exact.
            self._observation = self._observation * 2.0**self._number
        return self._observation.astype(np.float32), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Return the next row of the script."""
        world, d, row = self.world, self.world.scripted_data, self.world.row
        self._before_step()
        before, self._observation = self._observation, d.observations[row + 1]
        reward, end = float(d.rewards[row]), int(d.ends[row])
        taken = np.array(action, dtype=float)
        world.transitions.append(ScriptedTransition(before, taken, reward, self._observation, end))
        observation = self._observation.astype(np.float32)
        return observation, reward, end == TERMINATED, end == TRUNCATED, {}


class ScriptedBox(gymnasium.spaces.Box):
    """A continuous action space whose samples are scripted."""

    def __init__(self, world: ScriptedWorld) -> None:
        self.world = world
        low, high = (np.array(bound, np.float32) for bound in self._bounds(world))
        super().__init__(low, high, low.shape, np.float32)

    def sample(self, mask: Any = None, probability: Any = None) -> NDArray[np.float32]:
        """Return the scripted random action of the current step."""
        if self.world.scripted_data.own_rng:
            return np.asarray(super().sample(mask), dtype=np.float32)
        share = self.world.scripted_data.random_actions[self.world.row]
        return np.asarray(self.low + share * (self.high - self.low), dtype=np.float32)

    # Frameworks copy spaces; a copied world would have a clock that stands still.
    def __deepcopy__(self, memo: Any) -> "ScriptedBox":
        return ScriptedBox(self.world)

    def __reduce__(self) -> tuple[Any, ...]:
        # A saved model needs the bounds only; the world can take 100 MB.
        return gymnasium.spaces.Box, (self.low, self.high, self.shape, self.dtype)

    @staticmethod
    def _bounds(world: ScriptedWorld) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return world.scripted_data.low, world.scripted_data.high


class ScriptedDiscrete(gymnasium.spaces.Discrete):
    """A discrete action space whose samples are scripted."""

    def __init__(self, world: ScriptedWorld) -> None:
        self.world = world
        super().__init__(world.scripted_data.n_discrete_actions)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Return the scripted random action of the current step."""
        if self.world.scripted_data.own_rng:
            return super().sample(mask)
        return np.int64(self.world.scripted_data.get_random_choice(self.world.row))

    def __deepcopy__(self, memo: Any) -> "ScriptedDiscrete":
        return ScriptedDiscrete(self.world)

    def __reduce__(self) -> tuple[Any, ...]:
        return gymnasium.spaces.Discrete, (int(self.n),)
