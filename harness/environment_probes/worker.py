"""Worker that measures the implementations of one module and prints the report as JSON.

`python -m parallax.harness.environment_probes.worker MODULE PACKAGE,PACKAGE` runs in any
interpreter that has gymnasium, numpy and what the module imports.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import warnings
from collections.abc import Sequence

from parallax.harness.environment_probes.answers import EnvironmentQuestion
from parallax.harness.environment_probes.catalogue import QUESTIONS, measure_implementations
from parallax.harness.environment_probes.own_environment import (
    OWN_QUESTIONS,
    list_own_implementations,
)

MARK = "environment-report:"
OWN = "own:"
"""Prefix of a user's `module:Class`."""


def read_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure a module's `IMPLEMENTATIONS` and print one marked line."""
    module, packages = arguments[0], arguments[1].split(",")
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to standard error
    warnings.simplefilter("ignore")
    if module.startswith(OWN):
        implementations = list_own_implementations(module.removeprefix(OWN))
        questions: Sequence[EnvironmentQuestion] = (*QUESTIONS, *OWN_QUESTIONS)
    else:
        loaded = importlib.import_module(module)
        implementations = loaded.IMPLEMENTATIONS
        questions = (*QUESTIONS, *getattr(loaded, "TASK_QUESTIONS", ()))
    versions = read_versions(packages)
    report = measure_implementations(implementations, versions, questions=questions)
    print(MARK + json.dumps(report.to_dict()), file=output, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
