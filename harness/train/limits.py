"""Limits of a run: support by its framework, and sizes that fit its task and the machine.

Without limits, a value with too many zeros would fill the memory and end the sweep. Checks raise
`SpecError`, which names the value, the reason and the remedy.
"""

import contextlib
import dataclasses
import itertools
import math
import os
from pathlib import Path
from typing import Any

from parallax.envs.tasks import Task
from parallax.harness.contract.acceleration import check_acceleration
from parallax.harness.contract.adapter import CPU, Adapter, RunContext, get_action_kinds
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters, OffPolicy
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import list_recipe_names, load_recipe
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.contract.translation import NativeConfig


def check_compatibility(spec: RunSpec, adapter: Adapter, task: Task, on_this_machine: bool) -> None:
    """Check that algorithm, task, replay strategy, device and acceleration fit the framework.

    Args:
        spec: The run.
        adapter: Adapter of its framework.
        task: Its task.
        on_this_machine: Whether this machine will train: its devices must exist then.

    Raises:
        SpecError: Names what does not fit, and the remedy.
    """
    check_actions(spec.algorithm, adapter, task)
    check_replay(spec, adapter)
    here = on_this_machine and spec.python is None
    check_device(spec, adapter, here)
    check_acceleration(spec.algorithm, spec.acceleration, adapter, spec.device, here)
    check_actors(spec, adapter)


def check_actors(spec: RunSpec, adapter: Adapter) -> None:
    """Check that environments can be divided among processes.

    Raises:
        SpecError: They cannot; names the reason and the remedy.
    """
    if spec.actors == 1:
        return
    reason = adapter.why_unsupported_actors(spec.algorithm)
    if not reason and spec.n_envs % spec.actors:
        reason = f"each has the same number of environments, and n_envs={spec.n_envs}"
    if not reason and spec.wrappers == "normalized":
        reason = "wrappers=normalized has one set of statistics for all environments"
    if reason:
        raise SpecError(f"actors={spec.actors} is not available: {reason}. Use actors=1.")


def check_actions(algorithm: str, adapter: Adapter, task: Task) -> None:
    """Check that the framework's algorithm chooses actions of the task's kind.

    Raises:
        SpecError: It does not; names the algorithms that do.
    """
    kinds = get_action_kinds(adapter, algorithm)
    if task.actions in kinds:
        return
    fitting = [
        name
        for name in ALGORITHMS
        if adapter.supports(name)
        and task.actions in get_action_kinds(adapter, name)
        and _takes_task(adapter, name, task)
    ]
    remedy = f"algorithm={' or '.join(fitting)}" if fitting else "another framework"
    raise SpecError(
        f"env={task.env_id} has {task.actions} actions, but algorithm={algorithm} of "
        f"framework={adapter.name} supports {' or '.join(sorted(kinds))} actions: use {remedy}, "
        "or another task."
    )


def _takes_task(adapter: Adapter, algorithm: str, task: Task) -> bool:
    """Return whether a framework trains an algorithm on a task, with some recipe."""
    context = RunContext(task, 10**6, 0, patch_constants=True, converts_meanings=True)
    for name in list_recipe_names(algorithm):
        try:
            recipe = load_recipe(algorithm, name).resolve_for_task(task)
            adapter.translate(algorithm, recipe, context)
        except SpecError:
            continue
        return True
    return False


def check_replay(spec: RunSpec, adapter: Adapter) -> None:
    """Check that the framework can use the replay strategy.

    Raises:
        SpecError: The algorithm has no replay buffer, or the framework lacks the strategy.
    """
    if spec.replay.is_uniform:
        return
    setting = f"replay={spec.replay.name}"
    if not isinstance(spec.hyperparameters, OffPolicy):
        others = [name for name, kind in ALGORITHMS.items() if issubclass(kind, OffPolicy)]
        raise SpecError(
            f"{setting} needs a replay buffer, but algorithm={spec.algorithm} learns from its "
            f"newest rollout. Use replay=uniform, or "
            f"algorithm={' or '.join(others)}."
        )
    reason = adapter.why_unsupported_replay(spec.algorithm, spec.replay)
    if reason:
        raise SpecError(
            f"{setting} is not available for algorithm={spec.algorithm} of "
            f"framework={spec.framework}: {reason}. Use replay=uniform or another framework."
        )


def check_device(spec: RunSpec, adapter: Adapter, on_this_machine: bool) -> None:
    """Check that the framework can train on the device, and that the device exists.

    Raises:
        SpecError: Names the device and the remedy.
    """
    if spec.device == CPU:
        return
    reason = adapter.why_unsupported_device(spec.algorithm, spec.device, on_this_machine)
    if reason:
        raise SpecError(
            f"device={spec.device} is not available to framework={adapter.name}: {reason}"
        )


def check_wrappers(spec: RunSpec, hyperparameters: Hyperparameters, task: Task) -> None:
    """Check that normalization changes nothing that networks or evaluations rely on.

    Raises:
        SpecError: It changes them; names the remedy.
    """
    if spec.wrappers != "normalized":
        return
    if hyperparameters.sees_rewards:
        raise SpecError(
            f"wrappers=normalized scales the rewards that are inputs of algorithm={spec.algorithm} "
            "in training, but not in evaluations: use wrappers=none, or "
            "hyperparameters.last_step_inputs=false."
        )
    if task.brightest > 1:
        raise SpecError(
            f"wrappers=normalized would scale images of env={task.env_id}, which networks already "
            f"divide by {task.brightest}. Use wrappers=none."
        )


def check_length(spec: RunSpec, hyperparameters: Hyperparameters) -> None:
    """Check that learning begins before the run ends.

    Raises:
        SpecError: It does not; names the value and the remedy.
    """
    steps = spec.steps
    warm_up = getattr(hyperparameters, "learning_starts", 0)
    if warm_up >= steps:
        raise SpecError(
            f"hyperparameters.learning_starts={warm_up} leaves nothing to learn from in "
            f"steps={steps}: learning begins after {warm_up:,} steps. Raise steps above {warm_up}, "
            f"or begin earlier, for example hyperparameters.learning_starts={steps // 10}."
        )
    batch = getattr(hyperparameters, "batch_size", 0)
    stored = getattr(hyperparameters, "buffer_size", batch)
    if batch > stored:
        raise SpecError(
            f"hyperparameters.buffer_size={stored} stores less than a minibatch: use "
            f"{batch} or more, or hyperparameters.batch_size={stored} or less."
        )
    rollout = getattr(hyperparameters, "rollout_steps", 0)
    if rollout > steps:
        shorter = f", or hyperparameters.rollout_steps={steps} or less"
        raise SpecError(
            f"hyperparameters.rollout_steps={rollout} is longer than the run of steps={steps}, "
            f"which would end before its first update. Use steps={rollout} or more"
            f"{'' if spec.alignment == 'defaults' else shorter}."
        )


def check_updates(spec: RunSpec, hyperparameters: Hyperparameters, native: NativeConfig) -> None:
    """Check that the framework, with its own rounding and counts, updates the policy at all.

    Raises:
        SpecError: It does not; names the values that decide and the remedy.
    """
    schedule = native.update_schedule
    if min(schedule.total_gradient_steps, schedule.policy_updates) >= 1:
        return
    network = "networks" if schedule.total_gradient_steps < 1 else "policy"
    names = ("rollout_steps", "learning_starts", "train_freq", "policy_delay")
    delays = " and ".join(
        f"hyperparameters.{name}={getattr(hyperparameters, name)}"
        for name in names
        if hasattr(hyperparameters, name)
    )
    raise SpecError(
        f"steps={spec.steps} is too short: framework={spec.framework} would never update its "
        f"{network}{f' with {delays}' if delays else ''}. Raise steps, or lower these values."
    )


VARIABLE = "PARALLAX_LIMITS"
"""Environment variable that switches the bounds off, with the value `off`."""
_OVERRIDE_HINT = f" To train nevertheless, set the environment variable {VARIABLE}=off."

ENV_BYTES = 2**18
"""Lower bound of the memory of one training environment."""
EPISODE_BYTES = 2**16
"""Lower bound of the memory of one evaluation environment."""
# Counts above 2^53 are not exact in float64, and `run.json` allows no larger ones.
MOST_EVALUATIONS, MOST_UPDATES = 10**6, 2**53
MOST_PASSES, MOST_LAYERS = 10**5, 1000
MOST_RESERVED = 4
"""Multiple of its memory that a system may reserve for a buffer, which takes it as it is filled."""
WEIGHT_BYTES = 16
"""Memory of a weight, its gradient and Adam's two moments."""
THREADS_PER_CORE = 4
FEWEST_THREADS = 64
"""Threads that any machine may use, so that results of larger ones can be repeated."""

_NUMBERS_BESIDE = 16  # of a transition, besides observations and actions
_OTHER_STATE_BYTES = 2**28  # of networks and all else

# Limit of a container's memory (control groups, version 2).
_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclasses.dataclass(frozen=True)
class Machine:
    """Resources of a machine."""

    cores: int
    memory: int
    name: str

    @classmethod
    def of_this_host(cls) -> "Machine":
        """Return this machine, or the part of it that this process may use."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with contextlib.suppress(OSError, ValueError):  # no group, or no bound: `max`
            memory = min(memory, int(_CGROUP.read_text()))
        return cls(os.cpu_count() or 1, memory, "this machine")


UNKNOWN_MACHINE = Machine(1024, 2**42, "a node")
"""In place of a machine that is not known yet, such as a node of a cluster."""


def check_limits(spec: RunSpec, task: Task, machine: Machine) -> None:
    """Make sure that a run can fit on a machine.

    The estimates are lower bounds: a refused run cannot be trained, but a run that passes may
    still be too large.

    Args:
        spec: The run.
        task: Sizes of its environment.
        machine: Machine that trains it.

    Raises:
        SpecError: A value is too large; names it, the largest that is possible, and how to train
            nevertheless.
    """
    hyperparameters: Any = spec.hyperparameters
    for name in ("epochs", "gradient_steps"):
        value = getattr(hyperparameters, name, 0)
        if value < 2:
            continue
        if hyperparameters.compute_update_schedule(spec.steps).total_gradient_steps > MOST_UPDATES:
            raise SpecError(
                f"hyperparameters.{name}={value} is too large: it means more than {MOST_UPDATES:,} "
                f"gradient updates in steps={spec.steps}. Use a smaller value."
            )
    if os.environ.get(VARIABLE) == "off":
        return
    threads = max(FEWEST_THREADS, THREADS_PER_CORE * machine.cores)
    _check_most("threads", spec.threads, threads, f"{machine.name} has {machine.cores} cores")
    room = f"{machine.name} has {_format_bytes(machine.memory)} of memory"
    envs = machine.memory // ENV_BYTES
    _check_most("n_envs", spec.n_envs, envs, f"each takes memory, and {room}")
    _check_most("n_envs", spec.n_envs, spec.steps, f"the run has steps={spec.steps}")
    episodes = machine.memory // EPISODE_BYTES
    together = "episodes of an evaluation are played side by side"
    _check_most("eval_episodes", spec.eval_episodes, episodes, f"{together}, and {room}")
    evaluations = spec.steps // spec.eval_every
    if evaluations > MOST_EVALUATIONS:
        least = -(-spec.steps // MOST_EVALUATIONS)  # rounded up
        raise SpecError(
            f"eval_every={spec.eval_every} means {evaluations:,} evaluations in steps="
            f"{spec.steps}, which is too many: use eval_every={least} or more.{_OVERRIDE_HINT}"
        )
    _check_stored_transitions(spec, task, machine, room)
    _check_counts(spec, machine, room)
    _check_layers(spec.hyperparameters, task, machine, room)


def estimate_state_bytes(hyperparameters: Hyperparameters, task: Task) -> float:
    """Return an upper bound of the bytes in a training's arrays; infinite where bounds are off.

    Per transition, frameworks store two observations with 8 bytes per value (images: 1 byte), the
    action with its mean and deviation, an LSTM's state, and a few further numbers.
    """
    if os.environ.get(VARIABLE) == "off":
        return math.inf
    values: Any = hyperparameters
    steps = max(getattr(values, "buffer_size", 0), getattr(values, "rollout_steps", 0))
    if length := getattr(values, "sequence_length", 0):  # sequences overlap
        steps *= (length + values.burn_in + values.n_step) / (length - values.overlap)
    numbers = 3 * max(task.action_size, task.choices) + _NUMBERS_BESIDE
    numbers += 2 * getattr(values, "lstm_size", 0)
    transition = 2 * task.observation_size * (1 if task.image else 8) + 8 * numbers
    return _OTHER_STATE_BYTES + steps * transition


def check_episodes(episodes: int) -> None:
    """Make sure that this machine can play so many episodes in parallel.

    Raises:
        SpecError: It cannot.
    """
    if os.environ.get(VARIABLE) != "off":
        machine = Machine.of_this_host()
        why = f"episodes are played side by side, and {machine.name} has "
        why += f"{_format_bytes(machine.memory)} of memory"
        _check_most("episodes", episodes, machine.memory // EPISODE_BYTES, why)


def _check_stored_transitions(spec: RunSpec, task: Task, machine: Machine, room: str) -> None:
    transition = task.observation_size * (1 if task.image else 4)
    for name in ("buffer_size", "rollout_steps", "batch_size", "minibatch_size"):
        value = getattr(spec.hyperparameters, name, 0)
        count = value
        if name == "buffer_size":
            count = max(min(value, spec.steps), value // MOST_RESERVED)
        if count * transition > machine.memory:
            largest = machine.memory // transition
            if spec.steps < count < value:
                largest *= MOST_RESERVED
            size = _format_bytes(value * transition)
            why = f"{value:,} transitions of {spec.env} take {size}, and {room}"
            _check_most(f"hyperparameters.{name}", value, largest, why)


def _check_counts(spec: RunSpec, machine: Machine, room: str) -> None:
    hyperparameters: Any = spec.hyperparameters
    for name in ("burn_in", "sequence_length", "n_step"):  # of R2D2
        steps = getattr(hyperparameters, name, 0)
        _check_most(f"hyperparameters.{name}", steps, spec.steps, f"the run has steps={spec.steps}")
    lstm = math.isqrt(machine.memory // (4 * WEIGHT_BYTES))  # an LSTM has four square matrices
    size = getattr(hyperparameters, "lstm_size", 0)
    _check_most("hyperparameters.lstm_size", size, lstm, f"its weights take memory, and {room}")
    for name in ("epochs", "gradient_steps"):
        passes = getattr(hyperparameters, name, 0)
        _check_most(f"hyperparameters.{name}", passes, MOST_PASSES, "an update would hardly end")


def _check_layers(hyperparameters: Any, task: Task, machine: Machine, room: str) -> None:
    for name, layers in dataclasses.asdict(hyperparameters).items():
        if not name.endswith(("hidden_sizes", "head_sizes")) or not layers:
            continue
        if len(layers) > MOST_LAYERS:
            raise SpecError(
                f"hyperparameters.{name} has {len(layers):,} layers, which is too many: use "
                f"{MOST_LAYERS:,} or fewer.{_OVERRIDE_HINT}"
            )
        weights = sum(a * b for a, b in itertools.pairwise([task.observation_size, *layers]))
        if WEIGHT_BYTES * weights > machine.memory:
            raise SpecError(
                f"hyperparameters.{name}={list(layers)} means {weights:,} weights, which take "
                f"{_format_bytes(WEIGHT_BYTES * weights)} with their gradients and Adam's moments, "
                f"and {room}: use smaller layers.{_OVERRIDE_HINT}"
            )


def _check_most(name: str, value: int, largest: int, why: str) -> None:
    if value > largest:
        raise SpecError(
            f"{name}={value} is too large: {why}. Use {name}={largest} or less.{_OVERRIDE_HINT}"
        )


def _format_bytes(count: int) -> str:
    """Return bytes in a readable unit."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = min((max(count, 1).bit_length() - 1) // 10, len(units) - 1)
    tenths = 10 * count // 1024**power  # whole numbers: a float would overflow
    return f"{tenths // 10:,}.{tenths % 10} {units[power]}"
