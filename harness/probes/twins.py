"""Two implementations that learn the same from the same: how far apart they are, and from where.

Both start from the same weights and learn, update after update, from the same minibatch with the
same random numbers, each in its own code. What remains between them is rounding, if every known
difference has been taken away; how fast rounding alone grows shows a copy of the first one, of
whose weights the last bit was changed.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from harness.contract.adapter import load_adapter
from harness.contract.algorithms import ALGORITHMS
from harness.contract.fields import SpecError
from harness.interventions.catalogue import Intervention, replacement
from harness.probes import parting, setups, telling
from harness.probes.dqn import trainings as dqn
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.parting import Place
from harness.probes.ppo import trainings as ppo
from harness.probes.probe import Probe
from harness.probes.results import Answer
from harness.probes.sac.std import same_policy, std_near
from harness.probes.setups import ROWS
from harness.probes.world import TERMINATED, Dictation

LENGTHS = (1, 2, 3, 4, 6, 10, 20, 50, 100, 200, 500, 1000, 2000)
"""Updates after which weights are compared."""
MOST = 2000
"""Updates that two can be followed for."""
ROOM = 100.0
"""How many times further apart than rounding alone two may be."""
LEAST = 1e-6
"""Differences, as a share of the largest weight, that are rounding whatever the copy does."""
LEAST_DOUBLE = 1e-13
"""The same in float64."""
DETAILED = 12
"""Updates that are compared one by one where two part."""
_AMONG = 64  # transitions of a shared stream
_GRAINS = 256
_SAME_BIAS = 1e-2  # standard deviations that are one, found by trial
_RATE = 1e-3
_NEVER = 10**6  # steps between two moves of DQN's target
_LATEST = 4  # steps behind the warm-up at which a first update may come


@dataclasses.dataclass(frozen=True)
class Side:
    """One implementation.

    Attributes:
        framework: Its name.
        interventions: What is changed of it.
    """

    framework: str
    interventions: tuple[Intervention, ...] = ()

    @property
    def label(self) -> str:
        """For messages."""
        return "+".join((self.framework, *(item.name for item in self.interventions)))


@dataclasses.dataclass(frozen=True)
class Distance:
    """How far apart weights are after some updates.

    Attributes:
        updates: Updates of the critics, or of PPO's networks.
        apart: Largest difference of the two implementations, as a share of the largest weight of
            its network.
        network: Where that is.
        rounding: The same of two copies of the first one that differ in the last bit: the most
            up to here, since it grows, and by chance not evenly.
        least: Difference that is rounding whatever the copy does.
    """

    updates: int
    apart: float
    network: str
    rounding: float
    least: float = LEAST

    @property
    def is_rounding(self) -> bool:
        """Whether the two are no further apart than rounding makes them."""
        return self.apart <= max(self.least, ROOM * self.rounding)


@dataclasses.dataclass(frozen=True)
class How:
    """In which way two are compared.

    Attributes:
        double: Whether they train in float64.
        shared: Whether minibatches are drawn from a stream of transitions that both are given,
            each time other ones, and not always the same.
    """

    double: bool = False
    shared: bool = False


@dataclasses.dataclass(frozen=True)
class Twins:
    """What became of two implementations.

    Attributes:
        first: One.
        second: The other.
        algorithm: What they trained.
        distances: After more and more updates; none behind the first that is more than rounding.
        place: Where they part first, looked for update by update; None where they do not, or
            where no single update shows it.
        probes: Those about updates that the two answer differently.
    """

    first: Side
    second: Side
    algorithm: str
    distances: tuple[Distance, ...]
    place: Place | None = None
    probes: tuple[str, ...] = ()

    @property
    def parted(self) -> Distance | None:
        """The first distance that is more than rounding; None where all are rounding."""
        return next((item for item in self.distances if not item.is_rounding), None)


def compare(
    first: Side,
    second: Side,
    algorithm: str,
    until: int,
    tell: Callable[[Distance], object] = lambda distance: None,
    how: How | None = None,
) -> Twins:
    """Lets two implementations learn until they part, or for so many updates.

    Args:
        first: One; also whose copy with another last bit shows how rounding grows.
        second: The other.
        algorithm: One of `EXPERIMENTS`.
        until: Most updates, at most `MOST`.
        tell: Is told of each distance.
        how: In which way; by default in float32, on one minibatch.

    Raises:
        SpecError: A framework refuses the common settings, or the algorithm has no twins.
    """
    how = how or How()
    if algorithm not in EXPERIMENTS:
        raise SpecError(f"--algorithm {algorithm}: twins are there for {', '.join(EXPERIMENTS)}.")
    if not 1 <= until <= MOST:
        raise SpecError(f"--until {until} must be from 1 to {MOST}.")
    if how.shared and algorithm == "ppo":
        raise SpecError("--shared: PPO learns from what its own policy did. Drop --shared.")
    pair = _Pair(first, second, algorithm, how)
    found: list[Distance] = []
    most = 0.0
    for updates in _lengths(until, UNITS.get(algorithm, 1)):
        one, other = (pair.run(number, updates).record.final for number in (0, 1))
        copy = pair.run(0, updates, last_bit=True).record.final
        apart, network = _apart(one, other)
        most = max(most, _apart(one, copy)[0])
        least = LEAST_DOUBLE if how.double else LEAST
        found.append(Distance(updates, apart, network, most, least))
        tell(found[-1])
        if not found[-1].is_rounding:
            return Twins(first, second, algorithm, tuple(found), *pair.why(updates))
    return Twins(first, second, algorithm, tuple(found))


class _Pair:
    """Both implementations, and what they have already done."""

    def __init__(self, first: Side, second: Side, algorithm: str, how: How) -> None:
        self._sides = (first, second)
        self._labs = tuple(Lab(load_adapter(side.framework)) for side in self._sides)
        self._algorithm, self._how = algorithm, how
        self._start: dict[str, Any] = {}

    def run(self, number: int, updates: int, last_bit: bool = False, snapshots: int = 0) -> Run:
        """A training of one side; all begin with the weights of the first one."""
        lab = self._labs[number]
        with replacement(self._sides[number].interventions).made():
            made = EXPERIMENTS[self._algorithm](lab, updates, self._how.shared)
            name = f"{made.name}, {last_bit}, {snapshots}"
            weights = self._alike(made.weights)
            if last_bit:
                weights = {n: _next(array, self._how.double) for n, array in weights.items()}
            return lab.run(
                dataclasses.replace(
                    made,
                    name=name,
                    weights=weights,
                    snapshots=snapshots,
                    double=self._how.double,
                )
            )

    def why(self, updates: int) -> tuple[Place | None, tuple[str, ...]]:
        """Where they part, and probes that they answer differently."""
        unit = UNITS.get(self._algorithm, 1)
        few = -(-min(updates + 1, DETAILED) // unit) * unit
        one, other = (self.run(number, few, snapshots=4 * few) for number in (0, 1))
        probes = telling.differing(self._asking(0), self._asking(1), self._algorithm)
        return parting.first(one, other), probes

    def _asking(self, number: int) -> telling.Asked:
        def ask(probe: Probe) -> Answer | None:
            with replacement(self._sides[number].interventions).made():
                return telling.answer_of(self._labs[number], probe)

        return ask

    def _alike(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        # What makes a standard deviation is found by trial, for each by itself.
        for name, array in weights.items():
            start = self._start.setdefault(name, array)
            if name == "policy.std.bias" and np.abs(start - array).max() < _SAME_BIAS:
                weights = {**weights, name: start}
        return dict(weights)


def _lengths(until: int, unit: int) -> Sequence[int]:
    wanted = [*(length for length in LENGTHS if length < until), until]
    return list(dict.fromkeys(-(-length // unit) * unit for length in wanted))


def _next(array: Any, double: bool) -> Any:
    kind = np.float64 if double else np.float32
    nearby = np.asarray(array, kind)
    return np.nextafter(nearby, kind(np.inf)).astype(np.asarray(array).dtype)


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, str]:
    """Largest difference as a share of the network's largest weight, and in which network."""
    networks = sorted({name.split(".")[0] for name in one.keys() & other.keys()})
    if not networks:
        raise SpecError("the two implementations have no network of the same name.")
    found = []
    for network in networks:
        names = [name for name in one.keys() & other.keys() if name.split(".")[0] == network]
        largest = max(float(np.abs(one[name]).max()) for name in names)
        away = max(float(np.abs(one[name] - other[name]).max()) for name in names)
        found.append((away / max(largest, 1e-12), network))
    return max(found)


def _td3(lab: Lab, updates: int, shared: bool) -> Experiment:
    changes = {
        **dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), _RATE),
        **{"target_policy_noise": 0.2, "target_noise_clip": 0.5, "policy_delay": 2},
    }
    return _off_policy(lab, "td3", updates, setups.weights(lab, "td3"), changes, shared)


def _sac(lab: Lab, updates: int, shared: bool) -> Experiment:
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    changes = {**dict.fromkeys(rates, _RATE), "policy_delay": 1}
    weights = same_policy(lab, setups.weights(lab, "sac"))
    experiment = _off_policy(lab, "sac", updates, weights, changes, shared)
    return dataclasses.replace(experiment, std=std_near(lab))


def _ddpg(lab: Lab, updates: int, shared: bool) -> Experiment:
    rates = dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), _RATE)
    decays = dict.fromkeys(("policy_weight_decay", "critic_weight_decay"), 0.0)
    changes = {**rates, **decays, "policy_delay": 1}
    return _off_policy(lab, "ddpg", updates, setups.weights(lab, "ddpg"), changes, shared)


def _dqn(lab: Lab, updates: int, shared: bool) -> Experiment:
    """All actions are random, and the target stays the copy that all begin with.

    When it moves is not compared; some copy it before the first update.
    """
    weights = setups.weights(lab, "dqn")
    weights |= {
        name.replace("critic1.", "critic1_target."): array
        for name, array in weights.items()
        if name.startswith("critic1.")
    }
    changes = {**dqn.PLAIN, "learning_rate": _RATE, "tau": 1.0}
    changes["target_update_interval"] = _NEVER
    return _off_policy(lab, "dqn", updates, weights, changes, shared)


def _off_policy(
    lab: Lab,
    algorithm: str,
    updates: int,
    weights: dict[str, Any],
    changes: dict[str, Any],
    shared: bool,
) -> Experiment:
    # One more step where a framework learns from the step behind learning_starts on.
    late = _first_update(lab, algorithm, weights, changes)
    warm_up = _AMONG if shared else ROWS
    # Cut from one world, so that both have the same numbers.
    whole, steps = _world(lab, algorithm, warm_up + _LATEST + updates), warm_up + late + updates - 1
    ends, among = whole.ends[:steps], _AMONG if shared else 0
    world = dataclasses.replace(whole, rewards=whole.rewards[:steps], ends=ends, among=among)
    common: dict[str, Any] = {"adam_eps": 1e-8, "tau": 0.005, "gamma": 0.99}
    name = f"twins {algorithm} {updates}"
    settings = {**common, **changes, "buffer_size": 4 * MOST}
    return setups.off_policy(name, algorithm, world, weights, 0, warm_up, **settings)


def _world(lab: Lab, algorithm: str, steps: int) -> Dictation:
    if ALGORITHMS[algorithm].actions == "discrete":
        return setups.choosing(lab, steps)
    world = setups.dictation(lab, steps)
    # Numbers that stay the same where an action is brought to another range and back.
    world.random_actions[:] = np.floor(world.random_actions * _GRAINS) / _GRAINS
    return world


def _first_update(lab: Lab, algorithm: str, weights: Any, changes: dict[str, Any]) -> int:
    """How many steps behind the warm-up a framework's first update comes."""
    world = _world(lab, algorithm, ROWS + _LATEST)
    probe = setups.off_policy(f"twins {algorithm} first", algorithm, world, weights, 0, **changes)
    steps = lab.run(probe).record.steps
    if not steps:
        raise SpecError(f"framework={lab.adapter.name} made no update of {algorithm}.")
    return steps[0].env_steps - ROWS


def _ppo(lab: Lab, updates: int, shared: bool) -> Experiment:
    """Each rollout is learned from in four updates; no episode ends by a time limit."""
    whole = setups.dictation(lab, _PPO_STEPS)
    steps = updates // _PPO_UPDATES * ppo.ROLLOUT
    ends = np.where(whole.ends > 0, TERMINATED, 0)[:steps]
    world = dataclasses.replace(whole, rewards=whole.rewards[:steps], ends=ends)
    common: dict[str, Any] = {"learning_rate": _RATE, "adam_eps": 1e-5}
    experiment = ppo.experiment(lab, f"twins {updates}", world, **common)
    return dataclasses.replace(experiment, snapshots=0)


_PPO_UPDATES = 4  # two minibatches in each of two epochs
_PPO_STEPS = (MOST // _PPO_UPDATES + 1) * ppo.ROLLOUT

UNITS = {"ppo": _PPO_UPDATES}
"""Updates that come together, where it is not one."""
EXPERIMENTS: dict[str, Callable[[Lab, int, bool], Experiment]] = {
    "ppo": _ppo,
    "td3": _td3,
    "sac": _sac,
}
EXPERIMENTS |= {"ddpg": _ddpg, "dqn": _dqn}
