"""Training in another Python, for frameworks whose requirements clash with the others.

That interpreter needs the framework and what a worker imports (numpy, gymnasium, mujoco,
pyarrow, pyyaml). It need not have this project installed: it is lent this one's folder.
"""

import functools
import os
import subprocess
from pathlib import Path

from harness.adapter import find_adapter
from harness.fields import SpecError

_CHECK = """
import importlib, sys
import harness.worker
module, _, name = sys.argv[1].partition(":")
getattr(importlib.import_module(module), name)().check_installed()
"""


def lend_project(environment: dict[str, str]) -> dict[str, str]:
    """The environment with this project's folder on the module path."""
    root = str(Path(__file__).parents[1])
    paths = [root, *filter(None, [environment.get("PYTHONPATH")])]
    return environment | {"PYTHONPATH": os.pathsep.join(paths)}


@functools.lru_cache
def check_interpreter(python: str, framework: str) -> None:
    """Tries whether an interpreter can train with a framework.

    Raises:
        SpecError: It does not exist or lacks something; says what.
    """
    what = f"framework.python={python}"
    entry = find_adapter(framework).value
    try:
        result = subprocess.run(
            [python, "-c", _CHECK, entry],
            env=lend_project(dict(os.environ)),
            capture_output=True,
            text=True,
            timeout=120,
        )
    except OSError as error:
        raise SpecError(f"{what} cannot be started ({error.strerror}).") from error
    except subprocess.TimeoutExpired as error:
        raise SpecError(f"{what} did not answer within two minutes.") from error
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["it ended without a word"]
        raise SpecError(f"{what} cannot train with {framework}: {lines[-1]}")
