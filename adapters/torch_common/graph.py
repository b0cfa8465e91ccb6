"""Reads from a loss, by the graph that autograd keeps of it, what predictions were held against.

Nothing is computed anew but the output of a last linear layer, and nothing is changed.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.contract.events import Compared

_LOSSES = ("MseLossBackward", "SmoothL1LossBackward", "HuberLossBackward")
_SHAPES = (
    *("View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Permute", "Clone"),
    *("TBackward", "Alias", "ToCopy", "Expand"),
)
_NODES = 300


def compared(loss: torch.Tensor) -> tuple[Compared, ...]:
    """Every comparison that a loss is made of, as far as the graph tells.

    Values are known by squared or bent errors, advantages by what is multiplied with a ratio of
    probabilities.
    """
    found = []
    # Behind an exponential are probabilities, whose squares compare actions with their mean.
    for node in _nodes(loss.grad_fn, _NODES, ends="ExpBackward"):
        name = node.name()
        if name.startswith(_LOSSES):
            found += _of_loss(node)
        elif name.startswith("PowBackward"):
            found += _of_square(node)
        elif name.startswith("MulBackward"):
            found += _of_product(node)
    return tuple(found)


def _nodes(start: Any, most: int, ends: str = "nowhere") -> Iterator[Any]:
    waiting, seen = [start], set[Any]()
    while waiting and len(seen) < most:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        if not node.name().startswith(ends):
            waiting += [following for following, _ in node.next_functions]


def _of_loss(node: Any) -> list[Compared]:
    one, other = _sides(node)
    if (one is None) == (other is None):
        return []
    made, sides = (one, 1) if one is not None else (other, -1)
    prediction, target = (node._saved_self, node._saved_target)[::sides]
    return _told("values", made, target, prediction)


def _of_square(node: Any) -> list[Compared]:
    error, made = node._saved_self, _past_shapes(node.next_functions[0][0])
    if node._saved_exponent != 2 or made is None or not made.name().startswith("SubBackward"):
        return []
    one, other = _sides(made)
    if (one is None) == (other is None):
        return []
    prediction = _output(one if one is not None else other)
    if prediction is None or prediction.numel() != error.numel():
        return []
    prediction = prediction.reshape(error.shape)
    target = prediction - error if one is not None else prediction + error
    return _told("values", one if one is not None else other, target, prediction)


def _of_product(node: Any) -> list[Compared]:
    one, other = _sides(node)
    if (one is None) == (other is None):
        return []
    made = _past_shapes(one if one is not None else other)
    factor = node._saved_other if one is not None else node._saved_self
    if not made.name().startswith("ExpBackward") or factor is None or factor.numel() < 2:
        return []
    return _told("advantages", made, factor, None)


def _sides(node: Any) -> tuple[Any, Any]:
    """What made the two operands; None for what is a number or is not differentiated."""
    made = [following for following, _ in node.next_functions]
    return (made[0], made[1]) if len(made) == 2 else (None, None)


def _told(
    kind: str, made: Any, target: torch.Tensor, prediction: torch.Tensor | None
) -> list[Compared]:
    inputs, choices = _inputs(made), _choices(made)
    if inputs is None:
        return []
    rows = len(inputs)
    targets = _numbers(target)
    if targets.size % rows:
        return []
    several = targets.size // rows  # critics that are computed together
    told = targets.reshape(several, rows)
    predicted = None if prediction is None else _numbers(prediction).reshape(several, rows)
    return [
        Compared(kind, told[n], None if predicted is None else predicted[n], inputs, choices)
        for n in range(several)
    ]


def _inputs(made: Any) -> NDArray[np.float32] | None:
    """What the first layer of the network that made a prediction was shown."""
    for node in _nodes(made, _NODES):
        layer = _layer(node)
        if layer and layer[1] is None:
            shown = layer[0]
            whole = shown.reshape(-1, *shown.shape[-2:])[0] if shown.ndim > 2 else shown
            return np.array(whole.numpy(), np.float32) if whole.ndim == 2 else None
    return None


def _layer(node: Any) -> tuple[torch.Tensor, Any] | None:
    """The input of a linear layer, and what made it; None for what is no layer."""
    name = node.name()
    if name.startswith("AddmmBackward"):
        shown, made = node._saved_mat1, node.next_functions[1][0]
    elif name.startswith(("MmBackward", "BmmBackward")):
        shown, made = node._saved_self, node.next_functions[0][0]
    else:
        return None
    return None if shown is None else (shown.detach(), made)


def _output(made: Any) -> torch.Tensor | None:
    """The output of a last linear layer, computed from what autograd has kept of it."""
    index, made = _index(made), _past_shapes(made)
    if index is not None:
        made = _past_shapes(made.next_functions[0][0])
    if made is None or not made.name().startswith("AddmmBackward"):
        return None
    bias, weight = made.next_functions[0][0], made._saved_mat2
    if weight is None or not hasattr(bias, "variable"):
        return None
    with torch.no_grad():
        out = torch.addmm(bias.variable, made._saved_mat1, weight)
        return out if index is None else out.gather(1, index.reshape(-1, 1))


def _choices(made: Any) -> NDArray[np.int64] | None:
    index = _index(made)
    return None if index is None else np.array(index.reshape(-1).numpy(), np.int64)


def _index(made: Any) -> torch.Tensor | None:
    """Which of the outputs count, one per row."""
    node = _past_shapes(made)
    if node is None:
        return None
    if node.name().startswith("GatherBackward"):
        index: torch.Tensor = node._saved_index
        return index
    if node.name().startswith("IndexBackward"):
        chosen = [one for one in node._saved_indices if one is not None]
        return chosen[-1] if chosen and chosen[-1].dtype == torch.int64 else None
    return None


def _past_shapes(node: Any) -> Any:
    for _ in range(8):
        if node is None or not node.name().startswith(_SHAPES) or not node.next_functions:
            return node
        node = node.next_functions[0][0]
    return node


def _numbers(tensor: torch.Tensor) -> NDArray[np.float64]:
    return tensor.detach().cpu().numpy().astype(np.float64).reshape(-1)
