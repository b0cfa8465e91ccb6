"""Clocks at all calls from a training into the diagnosis.

They do not include the cost of PyTorch's hooks themselves; a pair of runs shows it.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from share import Seams, cost_of_a_seam

__all__ = ["CLOCK", "Seams", "placed", "summary"]

CLOCK = time.thread_time_ns  # CPU time of this thread, as other work shares the processors

FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou")
_OFTEN = ("step", "transition", "metrics", "layer", "optimizer")
_SELDOM = ("act", "window", "keep", "end")


@contextlib.contextmanager
def placed(seams: Seams) -> Iterator[None]:
    """Time trainings within the context."""
    import parallax.adapters.torch_common.watch as watch
    from parallax.harness.contract.adapter import load_adapter
    from parallax.harness.diagnosis.engine import DiagnosisEngine
    from parallax.harness.diagnosis.environment_signals import EnvironmentSignalCollector
    from parallax.harness.diagnosis.minibatch_matching import MinibatchMatcher
    from parallax.harness.diagnosis.network_signals import NetworkSignalCollector
    from parallax.harness.train.diagnosis import RunDiagnosis
    from parallax.harness.train.evaluation import PolicyEvaluator

    adapters: list[Any] = [type(load_adapter(name)) for name in FRAMEWORKS]
    watched: tuple[tuple[Any, str, str], ...] = (
        (DiagnosisEngine, "_before_step", "step"),
        (DiagnosisEngine, "_act", "act"),
        (DiagnosisEngine, "_guard", "window"),
        (DiagnosisEngine, "end", "end"),
        (EnvironmentSignalCollector, "transition", "transition"),
        (EnvironmentSignalCollector, "metrics", "metrics"),
        (NetworkSignalCollector, "_chosen", "layer"),
        (NetworkSignalCollector, "_computes", "layer"),
        (NetworkSignalCollector, "_steps_now", "optimizer"),
        (NetworkSignalCollector, "_after", "optimizer"),
        (MinibatchMatcher, "note", "optimizer"),
        (watch, "_forward", "layer"),
        (watch, "_step", "optimizer"),
        (RunDiagnosis, "keep", "keep"),
        (PolicyEvaluator, "_evaluate", "evaluation"),
        *((adapter, "train", "train") for adapter in adapters),
    )
    with contextlib.ExitStack() as stack:
        for owner, attribute, name in watched:
            before = getattr(owner, attribute)
            setattr(owner, attribute, seams.n_timed(name, before))
            stack.callback(setattr, owner, attribute, before)
        yield


def summary(seams: Seams, steps: int) -> dict[str, float]:
    """Return shares and means; for frequent calls the cost of the clock is subtracted."""
    clock = cost_of_a_seam(CLOCK)
    often = {
        name: max(seams.seconds(name) - clock * len(seams.calls[name]), 0.0) for name in _OFTEN
    }
    seldom = {name: sum(seams.calls[name]) / 1e9 for name in _SELDOM}
    training = sum(seams.calls["train"]) / 1e9  # without the time of other seams
    training -= clock * sum(len(seams.calls[name]) for name in _OFTEN)
    ours = sum(often.values()) + sum(seldom.values())
    looks = max(len(seams.calls["act"]), 1)
    return {
        "training": training,
        "share": ours / training,
        "step": (often["step"] + often["transition"]) / steps,
        "look": (ours - often["step"] - often["transition"]) / looks,
        "looks": looks,
    }
