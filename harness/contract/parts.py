"""What an adapter has for one algorithm: the module of the algorithm's name in a package of its.

So an algorithm is added to an adapter with a file, and nothing lists it.
"""

import functools
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from harness.contract.algorithms import Hyperparameters

if TYPE_CHECKING:
    from harness.contract.adapter import Context


@functools.cache
def has_part(package: str, algorithm: str) -> bool:
    """Whether there is such a module; it is not imported.

    Args:
        package: Dotted name of a package of the adapter's.
        algorithm: Name of an algorithm.
    """
    return importlib.util.find_spec(f"{package}.{algorithm}") is not None


def load_part(package: str, algorithm: str) -> Any:
    """That module.

    Raises:
        ModuleNotFoundError: There is none.
    """
    return importlib.import_module(f"{package}.{algorithm}")


def coupled_defaults(
    package: str, algorithm: str, defaults: Hyperparameters, context: "Context"
) -> Hyperparameters:
    """The defaults as `own_defaults(defaults, context)` of the module has them.

    A module where upstream couples nothing has no such function.
    """
    couple = getattr(load_part(package, algorithm), "own_defaults", None)
    return couple(defaults, context) if couple else defaults
