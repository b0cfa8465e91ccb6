"""Whether a network can be fitted to a few rows at all, tried on a copy of it."""

import copy
from typing import Any

import torch

_STEPS, _RATE, _ROWS = 40, 1e-2, 8


def fitted(layer: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[float, float] | None:
    """Fits a copy to eight of the rows that it was shown, and tells its loss before and after.

    The four rows that are smallest in the column that varies most shall give -0.5, the four largest
    0.5. Neither the layer nor a random generator is changed, and no optimiser of torch's steps.

    Returns:
        Mean squared errors, or None where the layer cannot be called with one matrix of rows.
    """
    if len(inputs) != 1 or not _is_matrix(inputs[0]) or not any(True for _ in layer.parameters()):
        return None
    rows = inputs[0].detach().clone()
    order = rows[:, int(rows.std(dim=0).argmax())].argsort()
    rows = rows[torch.cat([order[: _ROWS // 2], order[-(_ROWS // 2) :]])]
    twin = copy.deepcopy(layer).eval()
    parameters = [parameter for parameter in twin.parameters() if parameter.is_floating_point()]
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        losses = _descend(twin, parameters, rows)
    return None if losses is None else (losses[0], min(losses))


def _descend(
    twin: torch.nn.Module, parameters: list[torch.nn.Parameter], rows: torch.Tensor
) -> list[float] | None:
    wanted = torch.tensor([-0.5] * (_ROWS // 2) + [0.5] * (_ROWS // 2))[:, None]
    moments = [(torch.zeros_like(one), torch.zeros_like(one)) for one in parameters]
    losses = []
    for step in range(1, _STEPS + 1):
        said = twin(rows)
        said = said[0] if isinstance(said, tuple) else said
        if not _is_matrix(said) or not said.requires_grad:
            return None
        loss = (said - wanted).square().mean()
        losses.append(float(loss.detach()))
        slopes = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for one, slope, (mean, square) in zip(parameters, slopes, moments, strict=True):
                if slope is None:
                    continue
                mean.mul_(0.9).add_(slope, alpha=0.1)
                square.mul_(0.999).addcmul_(slope, slope, value=0.001)
                size = (square / (1 - 0.999**step)).sqrt_().add_(1e-8)
                one.addcdiv_(mean / (1 - 0.9**step), size, value=-_RATE)
    return losses


def _is_matrix(it: Any) -> bool:
    return isinstance(it, torch.Tensor) and it.ndim == 2 and len(it) >= _ROWS
