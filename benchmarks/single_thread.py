"""Measurements in a process of their own, with one thread."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def measure_in_process(
    script: str | Path, words: Sequence[str], variables: Mapping[str, str] | None = None
) -> Any:
    """Run a script, and return the JSON in the last line that it prints.

    Args:
        script: Path of the script.
        words: Its command line.
        variables: Further environment variables.
    """
    command = [sys.executable, str(script), *words]
    environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, "1"), **(variables or {})}
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(output.stdout.splitlines()[-1])
