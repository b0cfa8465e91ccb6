"""Has workers act on many runs: one process for all that need the same interpreter and threads."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.contract.interpreter import lend_project
from harness.contract.run_spec import RunSpec
from harness.sweep.process import THREAD_VARIABLES

Answer = Mapping[str, Any]
"""What a worker says of a run: `folder`, and `failure` or what the action gives."""


def act(
    action: str,
    runs: Mapping[Path, RunSpec],
    options: Mapping[str, Any],
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Answer]:
    """Answers of workers as they come.

    Args:
        action: A key of `harness.policies.worker.ACTIONS`.
        runs: Run folders, whose code the user trusts, with their specs.
        options: Of the action.
        variables: Added to the environment of workers.
    """
    groups: dict[tuple[str, int], list[Path]] = {}
    for folder, spec in runs.items():
        groups.setdefault((spec.python or sys.executable, spec.threads), []).append(folder)
    for (python, threads), folders in groups.items():
        request = {"action": action, "folders": list(map(str, folders)), "options": dict(options)}
        environment = os.environ | variables | dict.fromkeys(THREAD_VARIABLES, str(threads))
        yield from _ask(python, environment, folders, json.dumps(request))


def _ask(
    python: str, environment: dict[str, str], folders: Sequence[Path], request: str
) -> Iterator[Answer]:
    waiting = list(map(str, folders))
    try:
        process = subprocess.Popen(
            [python, "-m", "harness.policies.worker"],
            env=lend_project(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    except OSError as error:
        failure = f"{python} cannot be started: {error.strerror}"
        yield from ({"folder": folder, "failure": failure} for folder in waiting)
        return
    with process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(request)
        process.stdin.close()
        for line in process.stdout:
            answer: Answer = json.loads(line)
            waiting.remove(answer["folder"])
            yield answer
    failure = f"its process ended with exit code {process.returncode}"
    yield from ({"folder": folder, "failure": failure} for folder in waiting)
