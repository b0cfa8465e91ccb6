from parallax.harness.contract.adapter import (
    CPU,
    Adapter,
)
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import OffPolicy
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec


def check_replay(spec: RunSpec, adapter: Adapter) -> None:
    """Makes sure that the framework can replay as asked.

    Raises:
        SpecError: The algorithm replays nothing, or the framework cannot; names the remedy.
    """
    if spec.replay.is_uniform:
        return
    asked = f"replay={spec.replay.name}"
    if not isinstance(spec.hyperparameters, OffPolicy):
        replaying = [name for name, known in ALGORITHMS.items() if issubclass(known, OffPolicy)]
        raise SpecError(
            f"{asked}: algorithm={spec.algorithm} learns from what it has just seen and replays "
            f"nothing. Use replay=uniform, or algorithm={' or '.join(replaying)}."
        )
    reason = adapter.why_unsupported_replay(spec.algorithm, spec.replay)
    if reason:
        raise SpecError(
            f"{asked} cannot be carried by framework={spec.framework} for "
            f"algorithm={spec.algorithm}: {reason}. Use replay=uniform or another framework."
        )


def check_device(spec: RunSpec, adapter: Adapter, on_this_machine: bool) -> None:
    """Makes sure that the framework can train on the device, and that it is there.

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
