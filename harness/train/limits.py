"""Upper bounds of a run's requests, from its task's needs and the machine's resources.

A value with some zeros too many would otherwise fill the memory, and end the sweep with it.
"""

import contextlib
import dataclasses
import itertools
import os
from pathlib import Path
from typing import Any

from parallax.envs.tasks import Task
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec

VARIABLE = "PARALLAX_LIMITS"
"""Environment variable that switches the bounds off, with the value `off`."""

ENV_BYTES = 2**18
"""Memory of one training environment, at least."""
EPISODE_BYTES = 2**16
"""Memory of one environment of an evaluation, at least."""
MOST_EVALUATIONS = 10**6
THREADS_PER_CORE = 4
FEWEST_THREADS = 64
"""Threads that any machine may use, so that results of larger ones can be repeated."""

_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclasses.dataclass(frozen=True)
class Machine:
    """Resources of a machine.

    Attributes:
        cores: Processor cores.
        memory: Bytes.
        name: What it is called in messages.
    """

    cores: int
    memory: int
    name: str

    @classmethod
    def here(cls) -> "Machine":
        """This machine, or the part of it that this process may use."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with contextlib.suppress(OSError, ValueError):  # no group, or no bound: `max`
            memory = min(memory, int(_CGROUP.read_text()))
        return cls(os.cpu_count() or 1, memory, "this machine")


ANY = Machine(1024, 2**42, "a node")
"""In place of a machine that is not known yet, such as a node of a cluster."""


def check_limits(spec: RunSpec, task: Task, machine: Machine) -> None:
    """Make sure that a run can fit on a machine.

    The estimates are lower bounds: what is refused cannot be trained, and what passes may still
    be too large.

    Args:
        spec: The run.
        task: Sizes of its environment.
        machine: That trains it.

    Raises:
        SpecError: A value is too large; names it, the largest that is possible, and how to train
            all the same.
    """
    if os.environ.get(VARIABLE) == "off":
        return
    threads = max(FEWEST_THREADS, THREADS_PER_CORE * machine.cores)
    _check("threads", spec.threads, threads, f"{machine.name} has {machine.cores} cores")
    room = f"{machine.name} has {_size(machine.memory)} of memory"
    _check("n_envs", spec.n_envs, machine.memory // ENV_BYTES, f"each takes memory, and {room}")
    _check("n_envs", spec.n_envs, spec.steps, f"the run has steps={spec.steps}")
    episodes = machine.memory // EPISODE_BYTES
    together = "episodes of an evaluation are played side by side"
    _check("eval_episodes", spec.eval_episodes, episodes, f"{together}, and {room}")
    evaluations = spec.steps // spec.eval_every
    if evaluations > MOST_EVALUATIONS:
        least = -(-spec.steps // MOST_EVALUATIONS)
        raise SpecError(
            f"eval_every={spec.eval_every} means {evaluations:,} evaluations in steps="
            f"{spec.steps}, which is too many: use eval_every={least} or more.{_override()}"
        )
    _check_hyperparameters(spec, task, machine, room)


def check_episodes(episodes: int) -> None:
    """Make sure that this machine can play so many episodes side by side.

    Raises:
        SpecError: It cannot.
    """
    if os.environ.get(VARIABLE) != "off":
        machine = Machine.here()
        why = f"episodes are played side by side, and {machine.name} has "
        why += f"{_size(machine.memory)} of memory"
        _check("episodes", episodes, machine.memory // EPISODE_BYTES, why)


def _check_hyperparameters(spec: RunSpec, task: Task, machine: Machine, room: str) -> None:
    """Check sizes in memory; a buffer never has more transitions than the run has steps."""
    transition = task.observation_size * (1 if task.image else 4)
    hyperparameters: Any = spec.hyperparameters
    for name in ("buffer_size", "rollout_steps", "batch_size", "minibatch_size"):
        value = getattr(hyperparameters, name, None)
        if value is None:
            continue
        count = min(value, spec.steps) if name == "buffer_size" else value
        if count * transition > machine.memory:
            largest = machine.memory // transition
            why = (
                f"{count:,} transitions of {spec.env} take {_size(count * transition)}, and {room}"
            )
            _check(f"hyperparameters.{name}", value, largest, why)
    for name, value in dataclasses.asdict(hyperparameters).items():
        if name.endswith("hidden_sizes") and value:
            sizes = [task.observation_size, *value]
            weights = sum(a * b for a, b in itertools.pairwise(sizes))
            if 4 * weights > machine.memory:
                raise SpecError(
                    f"hyperparameters.{name}={list(value)} means {weights:,} weights of "
                    f"{_size(4 * weights)}, and {room}: use smaller layers.{_override()}"
                )


def _check(name: str, value: int, largest: int, why: str) -> None:
    if value > largest:
        raise SpecError(
            f"{name}={value} is too large: {why}. Use {name}={largest} or less.{_override()}"
        )


def _override() -> str:
    return f" To train all the same, set the environment variable {VARIABLE}=off."


def _size(count: int) -> str:
    """Bytes for people."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = min((max(count, 1).bit_length() - 1) // 10, len(units) - 1)
    tenths = 10 * count // 1024**power  # whole numbers: a float would overflow
    return f"{tenths // 10:,}.{tenths % 10} {units[power]}"
