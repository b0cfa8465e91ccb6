"""What optax's optimisers are called, which numbers they step with, and what clips before them."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

_NAMES = {"step_size": "lr", "eps": "eps", "b1": "beta1", "b2": "beta2"}
_INJECTED = {"learning_rate": "lr", "eps": "eps", "b1": "beta1", "b2": "beta2"}
_CLASSES = {"scale_by_adam": "Adam", "scale_by_rms": "RMSProp", "trace": "SGD"}


def name_and_settings(tx: Any, opt_state: Any) -> tuple[str, dict[str, float]]:
    """An optimiser's name, and its `lr`, `eps`, `beta1` and `beta2` as far as it has them.

    Numbers that can be changed during training stand in the optimiser's state
    (`optax.inject_hyperparams`), all others in what its functions were made with.

    Args:
        tx: The gradient transformation.
        opt_state: Its state.
    """
    fixed, names = {}, []
    for maker, numbers in _parts(tx.update):
        names += [_CLASSES[maker]] if maker in _CLASSES else []
        for own, value in numbers.items():
            if own in _NAMES and isinstance(value, int | float):
                fixed[_NAMES[own]] = abs(float(value)) if own == "step_size" else float(value)
    for told in _injected(opt_state):
        fixed |= {_INJECTED[own]: float(value) for own, value in told.items() if own in _INJECTED}
        names = names or ["Adam"] * ("b1" in told)
    return (names[0] if names else "optax"), fixed


def clipped(tx: Any, opt_state: Any, gradients: Any, parameters: Any) -> Any:
    """Gradients as the optimiser proper finds them: what clips them in a chain comes before it.

    Args:
        tx: The gradient transformation.
        opt_state: Its state.
        gradients: As they were differentiated.
        parameters: What they are gradients of.
    """
    numbers = next((cells for _, cells in _parts(tx.update, 1)), {})
    parts = numbers.get("update_fns", ())
    for update, state in zip(itertools.takewhile(_clips, parts), opt_state, strict=False):
        gradients, _ = update(gradients, state, parameters)
    return gradients


def _clips(update: Any) -> bool:
    return any(maker.startswith(("clip", "adaptive_grad_clip")) for maker, _ in _parts(update))


def _parts(function: Any, depth: int = 6) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # The functions that an update consists of: who made each, and with which numbers.
    code = getattr(function, "__code__", None)
    if code is None or not depth:
        return
    cells = {
        name: cell.cell_contents
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
    }
    yield function.__qualname__.partition(".")[0], cells
    for value in cells.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            yield from _parts(getattr(one, "update", one), depth - 1)


def _injected(opt_state: Any) -> Iterator[Mapping[str, Any]]:
    if hasattr(opt_state, "hyperparams"):
        yield opt_state.hyperparams
    elif isinstance(opt_state, tuple):
        for part in opt_state:
            yield from _injected(part)
