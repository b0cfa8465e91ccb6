"""Checks whether a framework can carry out what a run is configured with."""

from collections.abc import Sequence

from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import CPU, Adapter, get_action_kinds
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters, OffPolicy
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.contract.translation import NativeConfig


def check_compatibility(spec: RunSpec, adapter: Adapter, task: Task, on_this_machine: bool) -> None:
    """Check that algorithm, task, replay strategy and device fit the framework.

    Args:
        spec: The run.
        adapter: Adapter of its framework.
        task: Its task.
        on_this_machine: Whether this machine will train: its devices must exist then.

    Raises:
        SpecError: Names what does not fit, and the remedy.
    """
    check_actions(spec, adapter, task)
    check_replay(spec, adapter)
    check_device(spec, adapter, on_this_machine and spec.python is None)


def check_actions(spec: RunSpec, adapter: Adapter, task: Task) -> None:
    """Check that the framework's algorithm chooses actions of the task's kind.

    Raises:
        SpecError: It does not; names the algorithms that do.
    """
    kinds = get_action_kinds(adapter, spec.algorithm)
    if task.actions in kinds:
        return
    fitting = [
        name
        for name in ALGORITHMS
        if adapter.supports(name) and task.actions in get_action_kinds(adapter, name)
    ]
    remedy = f"algorithm={' or '.join(fitting)}" if fitting else "another framework"
    raise SpecError(
        f"env={spec.env} has {task.actions} actions, and algorithm={spec.algorithm} of "
        f"framework={spec.framework} chooses {' or '.join(sorted(kinds))} ones: use {remedy}, "
        "or another task."
    )


def check_replay(spec: RunSpec, adapter: Adapter) -> None:
    """Check that the framework can use the replay strategy.

    Raises:
        SpecError: The algorithm has no replay buffer, or the framework lacks the strategy.
    """
    if spec.replay.is_uniform:
        return
    setting = f"replay={spec.replay.name}"
    if not isinstance(spec.hyperparameters, OffPolicy):
        raise SpecError(
            f"{setting} needs a replay buffer, and algorithm={spec.algorithm} has none: it learns "
            f"from its newest rollout. Use replay=uniform, or "
            f"algorithm={' or '.join(_list_off_policy_algorithms())}."
        )
    reason = adapter.why_unsupported_replay(spec.algorithm, spec.replay)
    if reason:
        raise SpecError(
            f"{setting} is not available for algorithm={spec.algorithm} of "
            f"framework={spec.framework}: {reason}. Use replay=uniform or another framework."
        )


def _list_off_policy_algorithms() -> Sequence[str]:
    return [name for name, known in ALGORITHMS.items() if issubclass(known, OffPolicy)]


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
        SpecError: It does; names the remedy.
    """
    if spec.wrappers != "normalized":
        return
    if hyperparameters.sees_rewards:
        raise SpecError(
            f"wrappers=normalized scales the rewards that algorithm={spec.algorithm} is shown in "
            "training, and evaluations show the task's own: use wrappers=none, or "
            "hyperparameters.last_step_inputs=false."
        )
    if task.brightest > 1:
        raise SpecError(
            f"wrappers=normalized would scale what networks divide by {task.brightest} already: "
            f"env={task.env_id} shows bytes. Use wrappers=none."
        )


def check_length(spec: RunSpec, hyperparameters: Hyperparameters) -> None:
    """Check that learning begins before the run ends.

    Raises:
        SpecError: It does not; names the value and the remedy.
    """
    steps = spec.steps
    warm_up = getattr(hyperparameters, "learning_starts", 0)
    rollout = getattr(hyperparameters, "rollout_steps", 0)
    if warm_up >= steps:
        raise SpecError(
            f"hyperparameters.learning_starts={warm_up} leaves nothing to learn from in "
            f"steps={steps}: learning begins after {warm_up:,} steps. Raise steps above {warm_up}, "
            f"or begin earlier, for example hyperparameters.learning_starts={steps // 10}."
        )
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
