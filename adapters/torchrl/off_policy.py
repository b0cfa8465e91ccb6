"""What the recipes of TD3 and SAC share: replay, and the alternation of acting and learning."""

from collections.abc import Iterator, Mapping
from typing import Any

from tensordict import TensorDictBase
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

RECORD_EVERY = 100
"""Gradient steps between records of the trace, at least."""


def minibatches(
    collector: Collector, settings: Mapping[str, Any]
) -> Iterator[tuple[int, TensorDictBase, bool]]:
    """Collects to the end, and yields what the updates in between shall learn from.

    The environment takes no step while the caller updates. A minibatch is drawn when it is
    asked for, from all that was collected until then.

    Yields:
        Number of the update, from 1; a minibatch; whether it is the last before more steps.
    """
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(settings["LazyTensorStorage.max_size"]),
        batch_size=settings["TensorDictReplayBuffer.batch_size"],
    )
    updates, per_round, collected = 0, settings["script.num_updates"], 0
    for data in collector:
        buffer.extend(data.reshape(-1))
        collected += data.numel()
        if collected < settings["Collector.init_random_frames"]:
            continue
        for index in range(per_round):
            updates += 1
            yield updates, buffer.sample(), index == per_round - 1
