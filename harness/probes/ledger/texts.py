"""Upstream's own text, where a statement is about what stands there."""

import functools
import importlib.metadata
import re
from pathlib import Path

DISTRIBUTIONS = {"cleanrl": "cleanrl", "sb3": "stable-baselines3", "torchrl": "torchrl"}
"""Whose files are read, by framework."""


def line_of(framework: str, file: str, text: str) -> int | None:
    """The first line at which a text begins; 0 where it does not stand there.

    Args:
        framework: Name.
        file: Path in its distribution.
        text: What is looked for; any white space fits any other.

    Returns:
        The line, counted from 1; None where the file is not there.
    """
    content = _content(framework, file)
    if content is None:
        return None
    pattern = r"\s+".join(re.escape(part) for part in text.split())
    found = re.search(pattern, content)
    return content.count("\n", 0, found.start()) + 1 if found else 0


@functools.cache
def _content(framework: str, file: str) -> str | None:
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTIONS[framework])
        return Path(str(distribution.locate_file(file))).read_text()
    except (importlib.metadata.PackageNotFoundError, OSError):
        return None
