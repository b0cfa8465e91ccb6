"""This project's `per` beside TorchRL's own prioritised sampler: same numbers, same draws.

Its trees are compiled, and do not load with every PyTorch; where they do not, plain ones stand for
them here, and the sampler around them is TorchRL's.
"""

import functools

import numpy as np
import pytest
import torch
from torchrl.data import LazyTensorStorage
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, prioritized

from parallax.adapters.torch_common.sum_tree import CompiledSumTree
from parallax.harness.contract.replay import make_replay_config
from parallax.harness.replay.replayer import make_replay_strategy

CAPACITY = 16
TREES = {
    "Sum": functools.partial(torch.zeros, dtype=torch.float64),
    "Min": lambda n: torch.full((n,), torch.inf, dtype=torch.float64),
}


class PlainTree:
    """The tree operations that TorchRL needs, implemented in the most direct way."""

    def __init__(self, kind, capacity):
        self._values = TREES[kind](capacity)
        self._reduce = torch.sum if kind == "Sum" else torch.min

    def __setitem__(self, places, values):
        self._values[places] = values.double()

    def __getitem__(self, places):
        return self._values[places]

    def query(self, left, right):
        return float(self._reduce(self._values[left:right]))

    def scan_lower_bound(self, points):
        return np.searchsorted(np.cumsum(self._values.numpy()), points)


@pytest.fixture
def sampler(monkeypatch):
    if prioritized.SumSegmentTreeFp64 is None:
        for kind in TREES:
            for size in ("Fp32", "Fp64"):
                plain = functools.partial(PlainTree, kind)
                monkeypatch.setattr(prioritized, f"{kind}SegmentTree{size}", plain)

    def make(**fields):
        return PrioritizedSampler(CAPACITY, dtype=torch.float64, **fields)

    return make


class Same:
    """A generator that hands out what numpy's global one does."""

    def random(self, n):
        return np.random.rand(n)


def test_same_random_numbers_give_the_same_draws_and_weights(sampler):
    alpha, beta, epsilon = 0.7, 0.4, 1e-9
    theirs, storage = sampler(alpha=alpha, beta=beta, eps=epsilon), LazyTensorStorage(CAPACITY)
    fields = {"alpha": alpha, "beta": beta, "beta_final": beta, "epsilon": epsilon}
    ours = make_replay_strategy(
        make_replay_config({"name": "per", **fields}), CAPACITY, 1000, CompiledSumTree
    )
    numbers = np.random.default_rng(0)
    for number in range(24):  # around the end
        place = ours.add()
        storage.set(torch.as_tensor(place), torch.tensor([float(number)]))
        theirs.mark_update(torch.as_tensor(place))
        np.random.seed(number)
        indices, info = theirs.sample(storage, 6)
        np.random.seed(number)
        drawn, weights = ours.sample(Same(), 6)
        np.testing.assert_array_equal(drawn, indices)
        # TorchRL divides by the largest weight of the memory, and not of the minibatch.
        of_batch = info["priority_weight"].numpy()
        np.testing.assert_allclose(weights, of_batch / of_batch.max(), rtol=1e-7)
        errors = np.abs(numbers.normal(size=6) * 3)
        theirs.update_priority(indices, torch.from_numpy(errors))
        ours.update(drawn, errors)
    assert ours.size == CAPACITY
