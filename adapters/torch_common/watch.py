"""Events of PyTorch in a training, reported through its own global hooks.

No framework is named here, and hooks are added only for events that have subscribers.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from parallax.adapters.torch_common.state import fork_rng
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    LayerForward,
    LossBackward,
    LossInputs,
    ParameterGroup,
    TrainedParameter,
    TrainingEvents,
)
from parallax.harness.contract.probing.protocol import STATE_STEPS

_FIT_STEPS, _FIT_LEARNING_RATE, _FIT_ROWS = 40, 1e-2, 8


def fit_copy(layer: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[float, float] | None:
    """Fit a copy of a layer to eight of its input rows; return the loss before and after.

    The rows are the four smallest in the column that varies most, with target -0.5, and the four
    largest, with target 0.5. Layer and generator are not changed, and no torch optimizer steps.

    Returns:
        Mean squared errors, or None where the layer cannot be called with one matrix of rows.
    """
    if len(inputs) != 1 or not _is_matrix(inputs[0]) or not any(True for _ in layer.parameters()):
        return None
    rows = inputs[0].detach().clone()
    order = rows[:, int(rows.std(dim=0).argmax())].argsort()
    rows = rows[torch.cat([order[: _FIT_ROWS // 2], order[-(_FIT_ROWS // 2) :]])]
    copied = copy.deepcopy(layer).eval()
    parameters = [parameter for parameter in copied.parameters() if parameter.is_floating_point()]
    with fork_rng(), torch.enable_grad():
        losses = _run_adam_steps(copied, parameters, rows)
    return None if losses is None else (losses[0], min(losses))


def _run_adam_steps(
    layer: torch.nn.Module, parameters: list[torch.nn.Parameter], rows: torch.Tensor
) -> list[float] | None:
    targets = rows.new_tensor([-0.5] * (_FIT_ROWS // 2) + [0.5] * (_FIT_ROWS // 2))[:, None]
    # Adam written out: an optimizer of torch would call the hooks that watch the training.
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    losses = []
    for step in range(1, _FIT_STEPS + 1):
        outputs = layer(rows)
        outputs = outputs[0] if isinstance(outputs, tuple) else outputs
        if not _is_matrix(outputs) or not outputs.requires_grad:
            return None
        loss = (outputs - targets).square().mean()
        losses.append(float(loss.detach()))
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for weight, gradient, (mean, square) in zip(
                parameters, gradients, moments, strict=True
            ):
                if gradient is None:
                    continue
                mean.mul_(0.9).add_(gradient, alpha=0.1)
                square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                size = (square / (1 - 0.999**step)).sqrt_().add_(1e-8)
                weight.addcdiv_(mean / (1 - 0.9**step), size, value=-_FIT_LEARNING_RATE)
    return losses


def _is_matrix(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim == 2 and len(value) >= _FIT_ROWS


_LOSS_NODES = ("MseLossBackward", "SmoothL1LossBackward", "HuberLossBackward")
_LOSS_SHAPE_NODES = (
    *("View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Permute", "Clone"),
    *("TBackward", "Alias", "ToCopy", "Expand"),
)
_MAX_GRAPH_NODES = 300


def find_comparisons(loss: torch.Tensor) -> tuple[LossInputs, ...]:
    """Return the comparisons that a loss consists of, as far as autograd's graph shows them.

    Values are recognised by squared or Huber errors, advantages by their product with a ratio of
    probabilities.
    """
    found = []
    # Behind an exponential, squares belong to probabilities: they compare actions with their mean.
    for node in _walk_graph(loss.grad_fn, _MAX_GRAPH_NODES, ends="ExpBackward"):
        name = node.name()
        if name.startswith(_LOSS_NODES):
            found += _read_loss_comparison(node)
        elif name.startswith("PowBackward"):
            found += _read_square_comparison(node)
        elif name.startswith("MulBackward"):
            found += _read_product_comparison(node)
    return tuple(found)


def find_entropy_slopes(loss: torch.Tensor) -> tuple[float, ...]:
    """Return the derivatives of a loss by entropies of Gaussian or categorical policies.

    The entropy of a Gaussian, and every negative log-probability, grows with the logarithm of its
    scale; that of a categorical is minus the sum of its products of probabilities and logarithms.
    """
    edges, signs = [], []
    # Behind an exponential, logarithms belong to ratios of probabilities.
    for node in _walk_graph(loss.grad_fn, _MAX_GRAPH_NODES, ends="ExpBackward"):
        name = node.name()
        product = name.startswith("MulBackward") and any(
            made is not None and made.name().startswith("SoftmaxBackward")
            for made, _ in node.next_functions
        )
        if product or name.startswith("LogBackward"):
            edges.append(torch.autograd.graph.GradientEdge(node, 0))
            signs.append(-1 if product else 1)
    if not edges:
        return ()
    slopes = torch.autograd.grad(loss, edges, retain_graph=True, allow_unused=True)
    return tuple(
        sign * float(slope.sum())
        for sign, slope in zip(signs, slopes, strict=True)
        # Where weights differ between rows, it is the loss of a log-probability.
        if slope is not None and torch.allclose(slope, slope.mean(), rtol=1e-3, atol=0.0)
    )


def _walk_graph(start: Any, max_nodes: int, ends: str = "nowhere") -> Iterator[Any]:
    """Yield the nodes behind `start`, nearest first, but none behind nodes that `ends` names."""
    waiting, seen = [start], set[Any]()
    while waiting and len(seen) < max_nodes:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        if not node.name().startswith(ends):
            waiting += [following for following, _ in node.next_functions]


def _read_loss_comparison(node: Any) -> list[LossInputs]:
    operand, is_first = _find_only_operand(node)
    if operand is None:
        return []
    prediction, target = node._saved_self, node._saved_target
    if not is_first:
        prediction, target = target, prediction
    return _make_comparisons("values", operand, target, prediction)


def _read_square_comparison(node: Any) -> list[LossInputs]:
    error, made = node._saved_self, _skip_shape_nodes(node.next_functions[0][0])
    if node._saved_exponent != 2 or made is None or not made.name().startswith("SubBackward"):
        return []
    operand, is_first = _find_only_operand(made)
    prediction = None if operand is None else _compute_output(operand)
    if prediction is None or prediction.numel() != error.numel():
        return []
    prediction = prediction.reshape(error.shape)
    target = prediction - error if is_first else prediction + error
    return _make_comparisons("values", operand, target, prediction)


def _read_product_comparison(node: Any) -> list[LossInputs]:
    operand, is_first = _find_only_operand(node)
    if operand is None:
        return []
    ratio = _skip_shape_nodes(operand)
    factor = node._saved_other if is_first else node._saved_self
    if not ratio.name().startswith("ExpBackward") or factor is None or factor.numel() < 2:
        return []
    return _make_comparisons("advantages", ratio, factor, None)


def _find_only_operand(node: Any) -> tuple[Any, bool]:
    """Return the node of the only differentiated one of two operands, and whether it is the first.

    The node is None if both or none of them are differentiated.
    """
    operands = [operand for operand, _ in node.next_functions]
    if len(operands) != 2 or (operands[0] is None) == (operands[1] is None):
        return None, False
    is_first = operands[0] is not None
    return operands[0 if is_first else 1], is_first


def _make_comparisons(
    kind: str, made: Any, target: torch.Tensor, prediction: torch.Tensor | None
) -> list[LossInputs]:
    inputs, choices = _find_network_inputs(made), _read_chosen_actions(made)
    if inputs is None:
        return []
    rows = len(inputs)
    targets = _flatten_to_float64(target)
    if targets.size % rows:
        return []
    n_critics = targets.size // rows  # that are computed together
    target_rows = targets.reshape(n_critics, rows)
    predicted_rows: Any = [None] * n_critics
    if prediction is not None:
        predicted_rows = _flatten_to_float64(prediction).reshape(n_critics, rows)
    return [
        LossInputs(kind, target_row, predicted_row, inputs, choices)
        for target_row, predicted_row in zip(target_rows, predicted_rows, strict=True)
    ]


def _find_network_inputs(made: Any) -> NDArray[np.float32] | None:
    """Return the input of the first layer of the network that made a prediction."""
    for node in _walk_graph(made, _MAX_GRAPH_NODES):
        layer = _read_linear_input(node)
        if layer and layer[1] is None:
            shown = layer[0]
            whole = shown.reshape(-1, *shown.shape[-2:])[0] if shown.ndim > 2 else shown
            return np.array(whole.cpu().numpy(), np.float32) if whole.ndim == 2 else None
    return None


def _read_linear_input(node: Any) -> tuple[torch.Tensor, Any] | None:
    """Return the input of a linear layer and the node that made it; None for other nodes."""
    name = node.name()
    if name.startswith("AddmmBackward"):
        shown, made = node._saved_mat1, node.next_functions[1][0]
    elif name.startswith(("MmBackward", "BmmBackward")):
        shown, made = node._saved_self, node.next_functions[0][0]
    else:
        return None
    return None if shown is None else (shown.detach(), made)


def _compute_output(made: Any) -> torch.Tensor | None:
    """Return the output of a last linear layer, computed from the tensors that autograd saved."""
    index, made = _find_gather_index(made), _skip_shape_nodes(made)
    if index is not None:
        made = _skip_shape_nodes(made.next_functions[0][0])
    if made is None or not made.name().startswith("AddmmBackward"):
        return None
    bias, weight = made.next_functions[0][0], made._saved_mat2
    if weight is None or not hasattr(bias, "variable"):
        return None
    with torch.no_grad():
        out = torch.addmm(bias.variable, made._saved_mat1, weight)
        return out if index is None else out.gather(1, index.reshape(-1, 1))


def _read_chosen_actions(made: Any) -> NDArray[np.int64] | None:
    index = _find_gather_index(made)
    return None if index is None else np.array(index.reshape(-1).cpu().numpy(), np.int64)


def _find_gather_index(made: Any) -> torch.Tensor | None:
    """Return the indices of the selected outputs, one per row."""
    node = _skip_shape_nodes(made)
    if node is None:
        return None
    if node.name().startswith("GatherBackward"):
        index: torch.Tensor = node._saved_index
        return index
    if node.name().startswith("IndexBackward"):
        chosen = [one for one in node._saved_indices if one is not None]
        return chosen[-1] if chosen and chosen[-1].dtype == torch.int64 else None
    return None


def _skip_shape_nodes(node: Any) -> Any:
    for _ in range(8):
        if node is None or not node.name().startswith(_LOSS_SHAPE_NODES) or not node.next_functions:
            return node
        node = node.next_functions[0][0]
    return node


def _flatten_to_float64(tensor: torch.Tensor) -> NDArray[np.float64]:
    return tensor.detach().cpu().numpy().astype(np.float64).reshape(-1)


_LINEAR_NODES = ("AddmmBackward", "MmBackward", "LinearBackward", "ConvolutionBackward")
_INPUT_SHAPE_NODES = (
    *("View", "UnsafeView", "Reshape", "_Reshape", "Squeeze", "Unsqueeze", "Transpose"),
    *("Permute", "Clone", "TBackward", "Alias"),
)
"""Autograd's names of operations that compute and of those that only reshape."""

_MAX_INPUT_HOPS = 6


@contextlib.contextmanager
def watch_training(events: TrainingEvents) -> Iterator[None]:
    """Report events within the context; remove all hooks afterwards."""
    before_step = events.get_publisher(BeforeOptimizerStep)
    after_step = events.get_publisher(AfterOptimizerStep)
    forward, backward = events.get_publisher(LayerForward), events.get_publisher(LossBackward)
    with contextlib.ExitStack() as hooks:
        if before_step:
            hook = register_optimizer_step_pre_hook(
                _keep_out_of_graphs(lambda optimizer, *_: before_step(_make_step_event(optimizer)))
            )
            hooks.callback(hook.remove)
        if after_step:
            event = AfterOptimizerStep()
            hook = register_optimizer_step_post_hook(
                _keep_out_of_graphs(lambda *_: after_step(event))
            )
            hooks.callback(hook.remove)
        if forward:
            hook = register_module_forward_pre_hook(_make_forward_hook(forward))
            hooks.callback(hook.remove)
        if backward:
            hooks.enter_context(_hook_backward(backward))
        yield


def _keep_out_of_graphs(hook: Callable[..., Any]) -> Callable[..., Any]:
    # torch.compile would trace what listeners do, such as reading weights.
    plain: Callable[..., Any] = torch.compiler.disable(hook)  # type: ignore[no-untyped-call]
    return plain


def _make_forward_hook(report: Callable[[LayerForward], object]) -> Callable[..., None]:
    def hook(*called: Any) -> None:
        # torch.compile traces hooks as well. A compiled network is one call, with nothing in it to
        # watch: graph breaks would change the compiled program.
        if not torch.compiler.is_compiling():
            report(_make_forward_event(*called))

    return hook


def _make_forward_event(layer: torch.nn.Module, inputs: tuple[Any, ...]) -> LayerForward:
    # The same as `parameters(recurse=False)`, in a tenth of the time.
    own = [p for p in layer._parameters.values() if p is not None and not is_lazy(p)]
    places = tuple(p.data_ptr() for p in own)
    return LayerForward(
        layer,
        inputs,
        places,
        lambda: _follows_linear_layer(inputs),
        lambda: fit_copy(layer, inputs),
    )


def _follows_linear_layer(inputs: tuple[Any, ...]) -> bool | None:
    made_by = getattr(inputs[0], "grad_fn", None) if inputs else None
    if made_by is None:
        return None
    for _ in range(_MAX_INPUT_HOPS):
        name = made_by.name()
        if name.startswith(_LINEAR_NODES):
            return True
        if not name.startswith(_INPUT_SHAPE_NODES) or not made_by.next_functions:
            return False
        made_by = made_by.next_functions[0][0]
        if made_by is None:
            return None
    return False


def _make_step_event(optimizer: torch.optim.Optimizer) -> BeforeOptimizerStep:
    groups = [
        ParameterGroup(
            group,
            _read_group_settings(group) | {STATE_STEPS: _count_state_steps(optimizer, group)},
            _describe_parameters(group),
        )
        for group in optimizer.param_groups
    ]
    return BeforeOptimizerStep(type(optimizer).__name__, tuple(groups))


def _describe_parameters(group: Mapping[str, Any]) -> tuple[TrainedParameter, ...]:
    # Parameters of lazy layers have no numbers before the layer is used for the first time.
    return tuple(_describe_parameter(tensor) for tensor in group["params"] if not is_lazy(tensor))


def _describe_parameter(tensor: torch.Tensor) -> TrainedParameter:
    gradient = tensor.grad
    read = None if gradient is None else lambda: gradient.detach().cpu().numpy()
    return TrainedParameter(tensor.data_ptr(), tensor.numel(), read)


_IMPLEMENTATION_OPTIONS = ("params", "foreach", "fused", "capturable", "differentiable")
"""Entries of a parameter group that do not change what a step computes."""


def _read_group_settings(group: Mapping[str, Any]) -> dict[str, float]:
    # Every number among the group's options, by its name there: amsgrad, maximize, momentum, ...
    numbers = {
        name: float(value)
        for name, value in group.items()
        if name not in _IMPLEMENTATION_OPTIONS
        and (isinstance(value, int | float) or (torch.is_tensor(value) and value.numel() == 1))
    }
    if "betas" in group:
        numbers["beta1"], numbers["beta2"] = (float(beta) for beta in group["betas"])
    return numbers


def _count_state_steps(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> float:
    # Steps counted in the state, the maximum over parameters; 0 if never used or if reset.
    counts = [optimizer.state[p].get("step", 0.0) for p in group["params"] if p in optimizer.state]
    return float(max(counts, default=0.0))


@contextlib.contextmanager
def _hook_backward(publish: Callable[[LossBackward], None]) -> Iterator[None]:
    # The only one of the four events that torch has no hook for.
    tensor_class: Any = torch.Tensor
    backward = tensor_class.backward

    @_keep_out_of_graphs
    def report(tensor: torch.Tensor) -> None:
        place = tensor.data_ptr()
        comparisons = functools.partial(find_comparisons, tensor)
        slopes = functools.partial(find_entropy_slopes, tensor)
        publish(LossBackward(float(tensor.detach()), place, comparisons, slopes))

    def watch_backward(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if tensor.numel() == 1:
            report(tensor)
        return backward(tensor, *args, **kwargs)

    tensor_class.backward = watch_backward
    try:
        yield
    finally:
        tensor_class.backward = backward
