"""What several recipes pass to TorchRL in the same way."""

import dataclasses
import math

from envs.tasks import Task
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import OffPolicy


def off_policy(
    t: Translation,
    hp: OffPolicy,
    context: Context,
    warm_up: str = "Collector.init_random_frames",
    **counts: int,
) -> Native:
    """What all algorithms with a replay buffer share; finishes the translation.

    Args:
        t: The translation.
        hp: Hyperparameters.
        context: The run.
        warm_up: What `learning_starts` is called; the usual one lets actions be random meanwhile.
        counts: Parts of the cadence that are otherwise in TorchRL.
    """
    t.aligned("batch_size", "TensorDictReplayBuffer.batch_size")
    t.aligned("buffer_size", "LazyTensorStorage.max_size")
    frames = hp.env_steps_per_round
    starts = math.ceil(hp.learning_starts / frames) * frames
    note = f"first update after step {max(starts, frames)}"
    if starts != hp.learning_starts:
        note = f"up to a whole number of rounds of {frames}; {note}"
    t.aligned("learning_starts", warm_up, starts, note)
    t.aligned("gamma", "make_value_estimator.gamma")
    t.aligned("env_steps_per_round", "Collector.frames_per_batch")
    note = "upstream's script: frames_per_batch times utd_ratio"
    t.aligned("gradient_steps_per_round", "script.num_updates", note=note)
    t.aligned("adam_eps", "Adam.eps")
    t.aligned("hidden_sizes", "MLP.num_cells", list(t.value("hidden_sizes")))
    t.constant("bootstrap_truncation", True)
    total = whole_batches(t, "env_steps_per_round", frames, context)
    counts = {"random_steps": min(starts, total), **counts}
    cadence = dataclasses.replace(hp.cadence(total), **counts)
    return t.finish(total, cadence=cadence)


def soft_targets(t: Translation) -> None:
    """Targets that move by tau with each update."""
    kept = 1 - t.value("tau")
    t.aligned("tau", "SoftUpdate.eps", kept, note="weight of the old target, 1 - tau")


def action_units(t: Translation, context: Context, field: str, name: str) -> None:
    """A share of half the action range, in action units as in TorchRL."""
    half = half_range(context.task)
    t.aligned(field, name, t.value(field) * (1.0 if half is None else half), "in action units")
    if half is None:
        t.refuse(field, "one number in action units: all dimensions need the same range")


def half_range(task: Task) -> float | None:
    """Half the action range in action units; None where dimensions differ in it."""
    bounds = zip(task.action_low, task.action_high, strict=True)
    halves = {(high - low) / 2 for low, high in bounds}
    return halves.pop() if len(halves) == 1 else None


def whole_batches(t: Translation, field: str, frames_per_batch: int, context: Context) -> int:
    """Transitions of the whole run, rounded up to whole batches."""
    if frames_per_batch % context.n_envs:
        t.refuse(field, f"collected over all copies: n_envs={context.n_envs} must divide it")
    total = math.ceil(context.steps / frames_per_batch) * frames_per_batch
    t.extra(**{"Collector.total_frames": total})
    return total
