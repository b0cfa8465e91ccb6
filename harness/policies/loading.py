"""A run folder's greedy policy, acting through the framework's own code.

The framework sets the run up as it did for training. Right before the first step of the task, when
all networks are there, it is stopped, and they get the weights that were kept.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.make import make_training_env, normalizer
from harness.cli.trust import code_of_specs
from harness.contract.adapter import (
    CPU,
    ENTRY_POINT_GROUP,
    Adapter,
    Loadable,
    Policy,
    Resumable,
    Weights,
)
from harness.contract.fields import SpecError
from harness.contract.memory import Player, Remembering, begin
from harness.contract.run_spec import RunSpec, spec_from_dict
from harness.interventions.catalogue import layers, replacement
from harness.record.evaluations import Evaluations
from harness.record.files import Unusable
from harness.record.layout import POLICY_FILE
from harness.record.policy import StoredPolicy
from harness.record.provenance import weights_sha256
from harness.record.reading import Reading, read_policy, read_run
from harness.train import generators
from harness.train.evaluation import episode_seeds
from harness.train.notices import quietly
from harness.train.prepare import Prepared, check_translation, prepare


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedPolicy:
    """The greedy policy of a complete run.

    Attributes:
        folder: The run folder.
        spec: What was asked for.
        policy: The framework's own: what it sees, float32[N, observations], to actions.
        normalize: From observations of the task to what the policy sees, with the statistics that
            training ended with.
        evaluations: Those of the run.
        evaluation: Index of the one that this policy took: the last, or the run's best.
        save: Writes the framework's own file.
        suffix: Of that file's name.
        env: The training's task as it was before its first step, with what changes it.
    """

    folder: Path
    spec: RunSpec
    evaluations: Evaluations
    evaluation: int
    policy: Policy
    normalize: Callable[[NDArray[Any]], NDArray[Any]]
    save: Callable[[Path], None]
    suffix: str
    env: gymnasium.Env[Any, Any]

    def seeds(self, episodes: int, evaluation_seed: int | None = None) -> list[int]:
        """Reset seeds of the policy's own evaluation, as many as are wanted.

        Args:
            episodes: How many.
            evaluation_seed: In place of the run's own, if not None.
        """
        spec = self.spec
        chosen = spec.evaluation_seed if evaluation_seed is None else evaluation_seed
        return episode_seeds(chosen, spec.env, spec.seed, self.evaluation, episodes)

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Greedy actions.

        Args:
            observations: As the task gives them, [N, observations].

        Returns:
            float32[N, actions], or int64[N] where the task's actions are choices.
        """
        return np.asarray(self.policy(self._shown(observations)))

    @property
    def remembers(self) -> bool:
        """Whether actions depend on what was seen earlier in the episode: play with `begin`."""
        return isinstance(self.policy, Remembering)

    def begin(self) -> Player:
        """New episodes side by side; like calling it where the policy remembers nothing."""
        return _Shown(begin(self.policy), self._shown)

    def _shown(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return np.array(self.normalize(np.asarray(observations)), np.float32, order="C")


class _Shown:
    """A player of what the task shows, before it is normalised."""

    def __init__(self, player: Player, shown: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self._player, self._shown = player, shown

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self._player(self._shown(observations)))

    def rewarded(self, rewards: NDArray[Any]) -> None:
        self._player.rewarded(rewards)


def load(folder: str | Path, *, trust: bool = False) -> LoadedPolicy:
    """The greedy policy of a complete run.

    Global random states are afterwards as they were. The last digits of actions are those of the
    run if numerical libraries use as many threads as it did.

    Args:
        folder: The run folder.
        trust: Whether code that the folder names may run, such as the module of its task.

    Raises:
        SpecError: The run is not complete, kept no policy, needs code that is not trusted, or is
            set up otherwise by the code that is installed now.
    """
    reading = read_run(Path(folder), with_evaluations=True)
    stored, spec = _stored(reading), _spec(reading)
    if not trust and (code := code_of_specs([spec])):
        raise SpecError(
            f"{folder} names code that would run as you: {'; '.join(code)}. "
            "Load it with trust=True if whoever made the folder may run it."
        )
    # By its module and name, as a worker does.
    entry = EntryPoint("adapter", reading.content["adapter"], ENTRY_POINT_GROUP)
    adapter: Adapter = entry.load()()
    with quietly(), _as_it_was():
        prepared = prepare(spec, adapter, here=False)
        check_translation(prepared, reading.content)
        if spec.device != CPU:  # what was learned is asked on the CPU, which every machine has
            prepared = prepare(dataclasses.replace(spec, device=CPU), adapter)
        setup = _SetUp(prepared, stored.weights)
        setup.run(adapter)
    assert setup.policy is not None and setup.loadable is not None
    assert reading.evaluations is not None and reading.record is not None
    kept = reading.record.kept
    return LoadedPolicy(
        Path(folder),
        spec,
        reading.evaluations,
        len(reading.evaluations.timesteps) - 1 if kept is None else kept,
        setup.policy,
        normalizer(stored.normalization),
        setup.loadable.save,
        setup.loadable.suffix,
        setup.envs[0],
    )


def why_not(reading: Reading) -> str:
    """Why a run has no policy to load, as far as its record tells; empty where it has one."""
    if not reading.complete:
        return f"it is not complete ({reading.reason})"
    if reading.record is None or POLICY_FILE not in reading.record.files:
        return f"it was made before runs kept a {POLICY_FILE}: train it again to have one"
    return ""


def _stored(reading: Reading) -> StoredPolicy:
    """What the run kept, which must be what it had learned."""
    if why := why_not(reading):
        raise SpecError(f"{reading.folder} has no policy: {why}.")
    try:
        stored = read_policy(reading.folder)
    except Unusable as error:
        raise SpecError(f"{reading.folder} has no policy: {error}.") from error
    if weights_sha256(stored.weights) != reading.content["weights_sha256"]:
        raise SpecError(
            f"{reading.folder / POLICY_FILE} is damaged: its weights are not those that the run "
            "had learned."
        )
    return stored


def _spec(reading: Reading) -> RunSpec:
    try:
        # Whichever interpreter was asked for, this is it.
        return dataclasses.replace(spec_from_dict(reading.spec), python=None)
    except SpecError as error:
        raise SpecError(f"{reading.folder} cannot be loaded: {error}") from error


class NotLoadableError(SpecError):
    """The adapter does not tell how weights are loaded."""


class _IsSetUp(BaseException):
    """Not an Exception: frameworks must not be able to catch it."""


class _SetUp:
    """The monitor of a training that is stopped before its first step."""

    def __init__(self, prepared: Prepared, weights: Weights) -> None:
        self._prepared = prepared
        self._weights = weights
        self._changed = replacement(prepared.interventions)
        self.policy: Policy | None = None
        self.loadable: Loadable | None = None
        self.envs: list[gymnasium.Env[Any, Any]] = []

    def run(self, adapter: Adapter) -> None:
        run, framework = self._prepared, self._prepared.spec.framework
        try:
            with self._changed.made():
                adapter.train(run.spec.algorithm, run.native, run.context, self.make_env, self)
        except _IsSetUp:
            return
        raise SpecError(f"framework={framework} ended without a step of the task.")

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        loadable: Loadable | None = None,
        resumable: Resumable | None = None,
    ) -> None:
        if loadable is None:
            raise NotLoadableError(
                f"framework={self._prepared.spec.framework}: its adapter does not tell how weights "
                "are loaded (the third argument of monitor.attach)."
            )

        self.policy, self.loadable = _within(policy, self._changed.made), loadable

    def record(self, metrics: Mapping[str, float]) -> None:
        pass

    def boundary(self) -> None:
        pass

    def make_env(self) -> gymnasium.Env[Any, Any]:
        spec = self._prepared.spec
        gamma = spec.hyperparameters.gamma
        env = make_training_env(
            spec.env,
            wrappers=spec.wrappers,
            gamma=gamma,
            layers=layers(self._prepared.interventions),
            before_step=self._stop,
        )
        self.envs.append(env)
        return env

    def _stop(self) -> None:
        if self.loadable is None:
            raise SpecError(
                f"framework={self._prepared.spec.framework} took a step before it attached a policy"
            )
        self.loadable.restore(self._weights)
        raise _IsSetUp


Made = Callable[[], contextlib.AbstractContextManager[None]]


def _within(policy: Policy, made: Made) -> Policy:
    """A policy that acts with the code of its run."""
    return (
        _RememberingWithin(policy, made)
        if isinstance(policy, Remembering)
        else _Within(policy, made)
    )


class _Within:
    def __init__(self, acting: Callable[[Any], Any], made: Made) -> None:
        self._acting, self._made = acting, made

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        with self._made():
            return np.asarray(self._acting(observations))


class _RememberingWithin(_Within):
    def begin(self) -> Player:
        acting: Any = self._acting
        return _PlayerWithin(acting.begin(), self._made)


class _PlayerWithin(_Within):
    def rewarded(self, rewards: NDArray[Any]) -> None:
        acting: Any = self._acting
        acting.rewarded(rewards)


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """Puts global random states back that frameworks seed."""
    before = generators.read()
    try:
        yield
    finally:
        generators.lay_in(before)
