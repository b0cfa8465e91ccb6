"""Errors as users read them."""

import dataclasses
import re
import sys

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from harness.fields import SpecError, unknown
from harness.run_spec import RunSpec
from harness.spec import ALGORITHMS, only_of


class RunsFailed(Exception):  # noqa: N818
    """Some runs of a sweep did not complete; each was reported when it ended."""


HANDLED = (RunsFailed, SpecError, HydraException, OmegaConfBaseException, KeyboardInterrupt)
"""What is told in a sentence; anything else is a fault of ours and keeps its traceback."""


def exit_code(error: BaseException) -> int:
    """Prints one message and returns the exit code that goes with it."""
    if isinstance(error, KeyboardInterrupt):
        print("Interrupted. The same command runs again what is not complete.", file=sys.stderr)
        return 130
    if isinstance(error, RunsFailed):
        print(f"Not complete: {error}", file=sys.stderr)
        return 1
    print(f"Error: {message(error)}", file=sys.stderr)
    return 2


def message(error: BaseException) -> str:
    """The error without what only concerns Hydra's own workings."""
    text = str(error)
    if isinstance(error, SpecError):
        return text
    mistyped = re.match(r"Could not override '([^']+)'", text)
    if mistyped:
        return _explain_name(mistyped[1])
    # Where Hydra looked for its files does not help anyone who mistyped a name.
    return text.split("Config search path", maxsplit=1)[0].strip()


def _explain_name(name: str) -> str:
    group, _, field = name.rpartition(".")
    if group == "hyperparameters" and only_of(field):
        return f"{name} {only_of(field)}"
    run = [field.name for field in dataclasses.fields(RunSpec) if field.metadata]
    all_fields = {field.name for cls in ALGORITHMS.values() for field in dataclasses.fields(cls)}
    return unknown(name, name, ["results_dir", *run, *(f"hyperparameters.{f}" for f in all_fields)])
