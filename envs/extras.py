"""Tasks from packages that not everybody has installed."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """Has an import that fails say how to install what it lacks.

    Args:
        extra: Of this project, which brings the package.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error}. pip install 'parallax-rl[{extra}]' brings it"
        ) from error
