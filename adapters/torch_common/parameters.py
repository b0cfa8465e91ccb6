"""Parameters of a model in torch as arrays, and arrays laid into them."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.contract.adapter import Loadable, Weights
from harness.contract.fields import SpecError

Parameters = Mapping[str, torch.Tensor]
"""Every parameter by its name, as the tensor that the model computes with."""


def loadable(parameters: Callable[[], Parameters], state: Callable[[], Any]) -> Loadable:
    """How a model is loaded again, and kept as torch's users keep theirs.

    Args:
        parameters: The model's, once it is there.
        state: What the framework's own objects load, such as a `state_dict`.
    """
    return Loadable(
        restore=lambda weights: lay_in(parameters(), weights),
        save=lambda path: torch.save(state(), path),
        suffix=".pt",
    )


def copies(parameters: Parameters) -> Weights:
    """What the parameters are now, as arrays of their own."""
    return {name: value.detach().cpu().numpy().copy() for name, value in parameters.items()}


def lay_in(parameters: Parameters, weights: Weights) -> None:
    """Gives every parameter, in place, the values of the array of its name.

    Args:
        parameters: Tensors that the model computes with.
        weights: Arrays as `copies` makes them.

    Raises:
        SpecError: Names or shapes are others; nothing has been changed then.
    """
    lacking = sorted(parameters.keys() - weights.keys())
    surplus = sorted(weights.keys() - parameters.keys())
    if lacking or surplus:
        raise SpecError(
            "the weights are of another network: "
            + "; ".join(
                f"{words} {', '.join(names[:5])}"
                for words, names in (("there are none for", lacking), ("there is no", surplus))
                if names
            )
        )
    for name, tensor in parameters.items():
        if tuple(tensor.shape) != weights[name].shape:
            raise SpecError(
                f"the weights are of another network: {name} has shape {weights[name].shape} "
                f"where {tuple(tensor.shape)} is needed"
            )
    with torch.no_grad():
        for name, tensor in parameters.items():
            tensor.copy_(torch.tensor(weights[name]))
