"""What an adapter has for one algorithm: the module of the algorithm's name in a package of its.

So an algorithm is added to an adapter with a file, and nothing lists it. An algorithm that comes
in a package of somebody else's brings these modules along: what stands in `adapters.sb3.settings`
for others is its module `sb3_settings`, and `adapters.tianshou` is `tianshou`.
"""

import functools
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from harness.contract.algorithms import ALGORITHMS, Hyperparameters

if TYPE_CHECKING:
    from harness.contract.adapter import Context


@functools.cache
def has_part(package: str, algorithm: str) -> bool:
    """Whether there is such a module; it is not imported.

    Args:
        package: Dotted name of a package of the adapter's.
        algorithm: Name of an algorithm.
    """
    return any(_exists(module) for module in _places(package, algorithm))


def load_part(package: str, algorithm: str) -> Any:
    """That module.

    Raises:
        ModuleNotFoundError: There is none.
    """
    places = _places(package, algorithm)
    return importlib.import_module(next(filter(_exists, places), places[0]))


def _places(package: str, algorithm: str) -> list[str]:
    # The adapter's own module comes first; then that of the package which has the algorithm.
    own = f"{package}.{algorithm}"
    if algorithm not in ALGORITHMS:
        return [own]
    bringing = ALGORITHMS[algorithm].__module__.partition(".")[0]
    return [own, f"{bringing}.{package.removeprefix('adapters.').replace('.', '_')}"]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what should hold it is no package
        return False


def coupled_defaults(
    package: str, algorithm: str, defaults: Hyperparameters, context: "Context"
) -> Hyperparameters:
    """The defaults as `own_defaults(defaults, context)` of the module has them.

    A module where upstream couples nothing has no such function.
    """
    couple = getattr(load_part(package, algorithm), "own_defaults", None)
    return couple(defaults, context) if couple else defaults
