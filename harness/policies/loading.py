"""Load the greedy policy of a run folder into the framework's own code.

The framework sets the run up as for training. It is stopped right before the first environment
step, when all networks exist, and the stored weights are loaded into them.
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

from parallax.envs.make import copy_observation_statistics, make_normalizer, make_training_env
from parallax.harness.contract.adapter import (
    CPU,
    Adapter,
    Checkpointable,
    EpisodePlayer,
    Policy,
    PolicyIO,
    RecurrentPolicy,
    Weights,
    begin_episodes,
)
from parallax.harness.contract.adapter_discovery import ENTRY_POINT_GROUP
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import forbid_imports_from
from parallax.harness.contract.run_spec import RunSpec, spec_from_dict
from parallax.harness.contract.upstream_code import silence_future_warnings
from parallax.harness.interventions.catalogue import collect_layers, make_replacement
from parallax.harness.record.completeness import RunReading
from parallax.harness.record.files import UnusableError
from parallax.harness.record.layout import POLICY_FILE
from parallax.harness.record.npz_files import RunEvaluations, StoredPolicy
from parallax.harness.record.provenance import hash_weights
from parallax.harness.record.reading import check_recorded_file, read_policy, read_run
from parallax.harness.train import limits
from parallax.harness.train.env_states import load_rng_state, read_rng_state
from parallax.harness.train.evaluation import compute_episode_seeds, get_seed_index
from parallax.harness.train.prepare import PreparedRun, check_translation, prepare_run
from parallax.harness.train.trust import list_named_code

_BUFFER_SIZE, _SETUP_BYTES = 10_000, 2**29


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedPolicy:
    """The greedy policy of a complete run.

    Attributes:
        spec: Specification of the run.
        policy: The framework's policy: normalised observations float32[N, ...] to actions.
        normalize: Normalises observations of the task with the final statistics of training.
        evaluation: Index of the evaluation at which the policy was saved: the last or the best.
        save: Writes the framework's own file.
        env: The training environment before its first step, with its wrappers.
    """

    folder: Path
    spec: RunSpec
    evaluations: RunEvaluations
    evaluation: int
    policy: Policy
    normalize: Callable[[NDArray[Any]], NDArray[Any]]
    save: Callable[[Path], None]
    suffix: str
    env: gymnasium.Env[Any, Any]

    def seeds(self, episodes: int, evaluation_seed: int | None = None) -> list[int]:
        """Return the reset seeds of the policy's own evaluation.

        Args:
            episodes: Number of seeds.
            evaluation_seed: Replaces the run's own if not None.
        """
        spec = self.spec
        chosen = spec.evaluation_seed if evaluation_seed is None else evaluation_seed
        index = get_seed_index(spec, self.evaluation)
        return compute_episode_seeds(chosen, spec.env, spec.seed, index, episodes)

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Return greedy actions.

        Args:
            observations: Observations of the task, not normalised, [N, ...].

        Returns:
            float32[N, actions], or int64[N] for discrete actions.
        """
        return np.asarray(self.policy(self._normalize_observations(observations)))

    @property
    def is_recurrent(self) -> bool:
        """True if actions depend on earlier observations of the episode: play with `begin`."""
        return isinstance(self.policy, RecurrentPolicy)

    def begin(self) -> EpisodePlayer:
        """Return a player of new parallel episodes, also for policies without memory."""
        return _NormalizingPlayer(begin_episodes(self.policy), self._normalize_observations)

    def _normalize_observations(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return np.array(self.normalize(np.asarray(observations)), np.float32, order="C")


class _NormalizingPlayer:
    """Player that takes observations of the task and normalises them."""

    def __init__(
        self, player: EpisodePlayer, normalize: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> None:
        self._player, self._normalize = player, normalize

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self._player(self._normalize(observations)))

    def observe_rewards(self, rewards: NDArray[Any]) -> None:
        self._player.observe_rewards(rewards)


def load_policy(folder: str | Path, *, trust: bool = False) -> LoadedPolicy:
    """Load the greedy policy of a complete run.

    Global random states are restored afterwards. Actions are bit-equal to those of the run only if
    numerical libraries use as many threads as it did.

    Args:
        folder: The run folder.
        trust: Whether code that the folder names may run, such as the module of its task or an
            adapter that is not installed. Modules in or beside the folder are not imported even
            then.

    Raises:
        SpecError: The run is not complete or stored no policy, needs code that is not trusted, or
            the installed code sets it up differently.
    """
    reading = read_run(Path(folder), with_evaluations=True)
    stored, spec = _read_stored_policy(reading), _parse_spec(reading)
    forbid_imports_from([Path(folder)])
    if not trust and (code := list_named_code([spec], [reading.content["adapter"]])):
        raise SpecError(
            f"{folder} names code that would run as you: {'; '.join(code)}. "
            "Load it with trust=True if you trust its author."
        )
    adapter = _load_adapter(reading.content["adapter"], folder)
    with silence_future_warnings(), _restore_rng_state():
        prepared = prepare_run(spec, adapter, on_this_machine=False, must_learn=False)
        check_translation(prepared, reading.content)
        if spec.device != CPU:  # every machine has a CPU
            on_cpu = dataclasses.replace(spec, device=CPU)
            prepared = prepare_run(on_cpu, adapter, on_this_machine=False, must_learn=False)
        prepared = _shrink_training(prepared, adapter, stored)
        setup = _SetupMonitor(prepared, stored.weights)
        setup.run(adapter)
    assert setup.policy is not None and setup.policy_io is not None
    assert reading.evaluations is not None
    _check_statistics(stored, setup.envs[0], spec, Path(folder))
    return LoadedPolicy(
        Path(folder),
        spec,
        reading.evaluations,
        _find_saved_evaluation(reading),
        setup.policy,
        make_normalizer(stored.normalization),
        setup.policy_io.save,
        setup.policy_io.suffix,
        setup.envs[0],
    )


def _check_statistics(
    stored: StoredPolicy, env: gymnasium.Env[Any, Any], spec: RunSpec, folder: Path
) -> None:
    """Require that the stored statistics of observations are those that the run's wrappers have."""
    found = {name: array.shape for name, array in stored.normalization.items()}
    needed = {name: array.shape for name, array in copy_observation_statistics(env).items()}
    if found != needed:
        raise SpecError(
            f"{folder / POLICY_FILE} has statistics of observations {found}, and "
            f"wrappers={spec.wrappers} on {spec.task_name} has {needed}. Train the run again."
        )


def _find_saved_evaluation(reading: RunReading) -> int:
    """Return the index of the evaluation at which the policy was saved, by default the last."""
    assert reading.evaluations is not None and reading.record is not None
    last, saved = len(reading.evaluations.timesteps) - 1, reading.record.saved_evaluation
    if saved is not None and saved > last:
        raise SpecError(
            f"{reading.folder}: saved_evaluation={saved} in run.json is none of its {last + 1} "
            "evaluations, which are counted from 0. Train the run again."
        )
    return last if saved is None else saved


def _shrink_training(prepared: PreparedRun, adapter: Adapter, stored: StoredPolicy) -> PreparedRun:
    """Return a run with a small replay buffer, which a set-up without a step does not fill.

    Raises:
        SpecError: The set-up takes more memory than such a policy needs.
    """
    spec, hyperparameters = prepared.spec, prepared.hyperparameters
    if getattr(hyperparameters, "buffer_size", 0) > _BUFFER_SIZE:
        smaller: Any = {"buffer_size": _BUFFER_SIZE}
        hyperparameters = dataclasses.replace(hyperparameters, **smaller)
        native = adapter.translate(spec.algorithm, hyperparameters, prepared.context)
        prepared = dataclasses.replace(prepared, native=native)
    weights = sum(array.size for array in stored.weights.values())
    memory = max(_SETUP_BYTES, limits.WEIGHT_BYTES * weights)
    machine = limits.Machine(
        limits.UNKNOWN_MACHINE.cores, memory, f"the set-up of {weights:,} stored weights"
    )
    spec = dataclasses.replace(spec, hyperparameters=hyperparameters)
    limits.check_limits(spec, prepared.context.task, machine)
    return prepared


def _load_adapter(name: str, folder: str | Path) -> Adapter:
    """Load the adapter that a record names, by module and name as in a worker."""
    try:
        adapter: Adapter = EntryPoint("adapter", name, ENTRY_POINT_GROUP).load()()
    except (Exception, SystemExit) as error:  # code of another package
        raise SpecError(
            f"{folder} names adapter={name}, which cannot be loaded here "
            f"({type(error).__name__}: {error}). Install the package that it comes from; modules "
            "in or beside a run folder are never imported."
        ) from error
    return adapter


def why_no_policy(reading: RunReading) -> str:
    """Return why a run has no policy to load, or an empty string."""
    if not reading.complete:
        return f"it is not complete ({reading.reason})"
    if reading.record is None or POLICY_FILE not in reading.record.files:
        return f"it was trained by a version that stored no {POLICY_FILE}. Train it again"
    if not reading.content.get("adapter"):
        return "its run.json does not name an adapter. Train it again"
    return ""


def _read_stored_policy(reading: RunReading) -> StoredPolicy:
    """Read the stored policy and check that its weights are those of the end of training."""
    if why := why_no_policy(reading):
        raise SpecError(f"{reading.folder} has no policy: {why}.")
    try:
        check_recorded_file(reading, POLICY_FILE)  # the weights' hash leaves statistics out
        stored = read_policy(reading.folder)
    except UnusableError as error:
        raise SpecError(f"{reading.folder} has no policy: {error}.") from error
    if hash_weights(stored.weights) != reading.content.get("weights_sha256"):
        raise SpecError(
            f"{reading.folder / POLICY_FILE} is damaged: its weights differ from the hash in "
            "run.json."
        )
    return stored


def _parse_spec(reading: RunReading) -> RunSpec:
    try:
        # The worker already runs under the interpreter of the run.
        return dataclasses.replace(spec_from_dict(reading.spec), python=None)
    except SpecError as error:
        raise SpecError(f"{reading.folder} cannot be loaded: {error}") from error


class NotLoadableError(SpecError):
    """The adapter has no `PolicyIO`, so that weights cannot be loaded."""


class _SetupComplete(BaseException):
    """Ends the set-up; not an `Exception`, so that frameworks do not catch it."""


class _SetupMonitor:
    """Monitor of a training that is stopped before its first step."""

    def __init__(self, prepared: PreparedRun, weights: Weights) -> None:
        self._prepared = prepared
        self._weights = weights
        self._changed = make_replacement(prepared.interventions)
        self.policy: Policy | None = None
        self.policy_io: PolicyIO | None = None
        self.envs: list[gymnasium.Env[Any, Any]] = []

    def run(self, adapter: Adapter) -> None:
        run, framework = self._prepared, self._prepared.spec.framework
        try:
            with self._changed.apply_replacement():
                adapter.train(run.spec.algorithm, run.native, run.context, self.make_env, self)
        except _SetupComplete:
            return
        raise SpecError(f"framework={framework} ended without a step of the task.")

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        policy_io: PolicyIO | None = None,
        checkpointable: Checkpointable | None = None,
    ) -> None:
        if policy_io is None:
            raise NotLoadableError(
                f"framework={self._prepared.spec.framework}: its adapter cannot load weights. "
                "Pass a PolicyIO as the third argument of monitor.attach."
            )

        self.policy = _wrap_policy(policy, self._changed.apply_replacement)
        self.policy_io = policy_io

    def record(self, metrics: Mapping[str, float]) -> None:
        pass

    def safe_point(self) -> None:
        pass

    def make_env(self) -> gymnasium.Env[Any, Any]:
        spec = self._prepared.spec
        gamma = spec.hyperparameters.gamma
        env = make_training_env(
            spec.env,
            wrappers=spec.wrappers,
            gamma=gamma,
            layers=collect_layers(self._prepared.interventions),
            options=spec.env_options,
            before_step=self._stop,
        )
        self.envs.append(env)
        return env

    def _stop(self) -> None:
        if self.policy_io is None:
            raise SpecError(
                f"framework={self._prepared.spec.framework} took a step before it attached a policy"
            )
        self.policy_io.restore(self._weights)
        raise _SetupComplete


ReplacementContext = Callable[[], contextlib.AbstractContextManager[None]]


def _wrap_policy(policy: Policy, replace_code: ReplacementContext) -> Policy:
    """Return a policy that acts with the code of its run."""
    if isinstance(policy, RecurrentPolicy):
        return _PatchedRecurrentPolicy(policy, replace_code)
    return _PatchedPolicy(policy, replace_code)


class _PatchedPolicy:
    def __init__(self, policy: Any, replace_code: ReplacementContext) -> None:
        self._policy, self._replace_code = policy, replace_code

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        with self._replace_code():
            return np.asarray(self._policy(observations))


class _PatchedRecurrentPolicy(_PatchedPolicy):
    def begin(self) -> EpisodePlayer:
        return _PatchedPlayer(self._policy.begin(), self._replace_code)


class _PatchedPlayer(_PatchedPolicy):
    def observe_rewards(self, rewards: NDArray[Any]) -> None:
        self._policy.observe_rewards(rewards)


@contextlib.contextmanager
def _restore_rng_state() -> Iterator[None]:
    """Restore the global random states that frameworks seed."""
    before = read_rng_state()
    try:
        yield
    finally:
        load_rng_state(before)
