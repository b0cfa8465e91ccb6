"""Runner of questions about environments: one worker process per library.

A library that crashes or is missing does not affect the answers of the others.
"""

import dataclasses
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from parallax.harness.contract.adapter import find_adapter_entry_points, load_adapter
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.interpreter import add_project_to_path
from parallax.harness.environment_probes.answers import (
    EnvironmentReport,
    load_environment_report,
    merge_environment_reports,
)
from parallax.harness.environment_probes.worker import MARK

_PACKAGE = "parallax.harness.environment_probes"
_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class EnvironmentLibrary:
    """A module with implementations.

    Attributes:
        name: Name of the library.
        module: Module with `IMPLEMENTATIONS`, or `own:module:Class` of a user.
        packages: Distributions whose versions the report names.
    """

    name: str
    module: str
    packages: tuple[str, ...]


def list_libraries() -> tuple[EnvironmentLibrary, ...]:
    """Return gymnasium, the MuJoCo tasks and every adapter that has a module `environments`."""
    found = [
        EnvironmentLibrary(
            "gymnasium", f"{_PACKAGE}.gymnasium_implementations", ("gymnasium", "numpy")
        ),
        EnvironmentLibrary("mujoco", f"{_PACKAGE}.mujoco_tasks", ("gymnasium", "mujoco")),
    ]
    for name in sorted(find_adapter_entry_points()):
        adapter = load_adapter(name)
        module = f"{adapter.package}.environments"
        if importlib.util.find_spec(module) is not None:
            found.append(EnvironmentLibrary(name, module, (*adapter.packages, "gymnasium")))
    return tuple(found)


def select_libraries(names: Sequence[str] | None) -> tuple[EnvironmentLibrary, ...]:
    """Return the libraries with some names, or all if `names` is None.

    Raises:
        SpecError: A name is unknown.
    """
    libraries = {library.name: library for library in list_libraries()}
    for name in names or ():
        if name not in libraries:
            raise SpecError(format_unknown_name(f"--frameworks {name}", name, list(libraries)))
    return tuple(libraries[name] for name in (libraries if names is None else names))


def run_environment_probes(
    libraries: Sequence[EnvironmentLibrary],
    python: str = sys.executable,
    progress: Callable[[str], None] = lambda name: None,
) -> EnvironmentReport:
    """Measure libraries in worker processes of an interpreter, one after another.

    Args:
        libraries: Libraries to measure.
        python: The interpreter; it needs gymnasium, numpy and what the module imports.
        progress: Called with the name of each library that is done.
    """
    reports = []
    for library in libraries:
        reports.append(run_library(library, python))
        progress(library.name)
    return merge_environment_reports(reports)


def run_library(library: EnvironmentLibrary, python: str) -> EnvironmentReport:
    """Measure one library; one that cannot be measured is reported as missing."""
    module = f"{_PACKAGE}.worker"
    command = [python, "-m", module, library.module, ",".join(library.packages)]
    environment = add_project_to_path(dict(os.environ)) | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    except OSError as error:
        raise SpecError(f"--python {python} cannot be started ({error.strerror}).") from error
    except subprocess.TimeoutExpired:
        return EnvironmentReport({}, {}, {library.name: f"no answer within {_SECONDS} s"})
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return load_environment_report(line.removeprefix(MARK))
    words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return EnvironmentReport({}, {}, {library.name: words[:300]})
