"""A network that predicts in which configurations agents fail, to find more of them.

As in muPRL (testingautomated-usi/muPRL): hidden layers of 32 units with layer normalisation, leaky
ReLU and dropout of 0.1; class weights inverse to frequency; Adam, at most 500 epochs, stopped after
10 epochs without progress on a fifth of the data.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

UNITS, DROPOUT = 32, 0.1
RATE, DECAY, BATCH = 3e-4, 1e-4, 256
EPOCHS, PATIENCE, VALIDATION_SHARE = 500, 10, 0.2

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class FailurePredictor:
    """A trained predictor.

    Attributes:
        network: Two outputs: succeeds, fails.
        mean: Mean of the features, float[features].
        deviation: Standard deviation of the features, float[features].
        accuracy: Balanced accuracy on the validation rows.
    """

    network: nn.Module
    mean: Floats
    deviation: Floats
    accuracy: float

    def __call__(self, features: Floats) -> Floats:
        """Return probabilities of failure, float[n], for features float[n, features]."""
        scaled = torch.tensor((features - self.mean) / self.deviation, dtype=torch.float32)
        with torch.no_grad(), _limit_to_one_thread():
            return np.asarray(torch.softmax(self.network(scaled), 1)[:, 1].numpy(), np.float64)


@contextlib.contextmanager
def _limit_to_one_thread() -> Iterator[None]:
    # Sums over several threads differ in their last digits, which changes the selected tests.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def train_predictor(
    features: Floats, failed: NDArray[np.bool_], layers: int, seed: int
) -> FailurePredictor:
    """Train a predictor on episodes that were played.

    Args:
        features: float[n, features].
        failed: bool[n]; each class at least twice.
        layers: Number of hidden layers: 2 for CartPole, 3 for other tasks.
        seed: Seed of weights, order and dropout.
    """
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    inputs = torch.tensor((features - mean) / deviation, dtype=torch.float32)
    labels = torch.tensor(failed, dtype=torch.long)
    validation = torch.tensor(_select_validation_rows(failed, rng))
    weights = len(failed) / (2.0 * torch.bincount(labels, minlength=2).clamp(min=1))
    with torch.random.fork_rng(), _limit_to_one_thread():
        torch.manual_seed(seed)
        network = _build_network(features.shape[1], layers)
        best = _minimize_loss(network, inputs, labels, validation, weights, generator)
    network.load_state_dict(best)
    network.eval()
    with torch.no_grad():
        right = network(inputs[validation]).argmax(1) == labels[validation]
    classes = [right[labels[validation] == kind].float().mean() for kind in (0, 1)]
    return FailurePredictor(network, mean, deviation, float(torch.stack(classes).nanmean()))


def _minimize_loss(
    network: nn.Module,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    validation: torch.Tensor,
    weights: torch.Tensor,
    generator: torch.Generator,
) -> dict[str, torch.Tensor]:
    """Train the network and return the weights with the smallest validation loss."""
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE, weight_decay=DECAY)
    loss_of = nn.CrossEntropyLoss(weight=weights)
    seen = torch.nonzero(~validation).flatten()
    least, best, waited = float("inf"), copy.deepcopy(network.state_dict()), 0
    for _ in range(EPOCHS):
        network.train()
        order = seen[torch.randperm(len(seen), generator=generator)]
        for begin in range(0, len(order), BATCH):
            rows = order[begin : begin + BATCH]
            optimizer.zero_grad()
            loss_of(network(inputs[rows]), labels[rows]).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            loss = float(loss_of(network(inputs[validation]), labels[validation]))
        waited = 0 if loss < least else waited + 1
        if loss < least:
            least, best = loss, copy.deepcopy(network.state_dict())
        if waited == PATIENCE:
            break
    return best


def _build_network(inputs: int, layers: int) -> nn.Module:
    parts: list[nn.Module] = []
    for number in range(layers):
        parts += [
            nn.Linear(UNITS if number else inputs, UNITS),
            nn.LayerNorm(UNITS),
            nn.LeakyReLU(),
            nn.Dropout(DROPOUT),
        ]
    return nn.Sequential(*parts, nn.Linear(UNITS, 2))


def _select_validation_rows(
    failed: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return a mask of a fifth of each class, at least one row of each."""
    validation = np.zeros(len(failed), bool)
    for kind in (False, True):
        rows = rng.permutation(np.flatnonzero(failed == kind))
        validation[rows[: max(round(VALIDATION_SHARE * len(rows)), 1)]] = True
    return validation
