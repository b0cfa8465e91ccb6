"""Modules that a command passes through, in the order in which they are first called.

    python benchmarks/called_modules.py train    # from a command line to a pending run folder
    python benchmarks/called_modules.py worker   # from a pending run folder to a finished one
    python benchmarks/called_modules.py report   # from run folders to the page
    python benchmarks/called_modules.py probe    # one probe, without the worker

It counts calls of functions of this project in the process that was started, without imports and
the calls that they make. A re-entry is a pair of modules (A, B) where A calls B although B was
entered before A.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PACKAGES = ("parallax", "hydra_plugins")
TRAINING = (
    *("framework=sb3", "algorithm=ppo", "env=InvertedPendulum-v4", "steps=256", "eval_every=128"),
    *("eval_episodes=1", "hyperparameters.rollout_steps=128"),
)


class CallRecord:
    """Modules by first call, and calls between modules."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.calls: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Record a call; for `sys.setprofile`."""
        # Importing runs bodies of modules and classes, and code that dataclasses generate.
        code = frame.f_code
        if (
            event != "call"
            or not code.co_flags & inspect.CO_OPTIMIZED
            or code.co_filename[0] == "<"
        ):
            return
        module = _get_module(frame)
        if module is None or _is_importing(frame):
            return
        if module not in self.modules:
            self.modules.append(module)
        caller = frame.f_back
        while caller is not None and _get_module(caller) is None:
            caller = caller.f_back
        if caller is not None and (before := _get_module(caller)) is not None and before != module:
            self.calls.add((before, module))

    @property
    def reentries(self) -> list[tuple[str, str]]:
        """Calls from a module into one that was entered before it."""
        order = {module: number for number, module in enumerate(self.modules)}
        # A caller that was running before the recording began has no call in it, and comes first.
        return sorted((a, b) for a, b in self.calls if order.get(a, -1) > order[b])


def _is_importing(frame: FrameType) -> bool:
    """Return whether the body of a module of this project is being executed."""
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_name == "<module>" and _get_module(caller) is not None:
            return True
        caller = caller.f_back
    return False


def _get_module(frame: FrameType) -> str | None:
    name = frame.f_globals.get("__name__", "")
    if name == "__main__":
        spec = frame.f_globals.get("__spec__")
        name = spec.name if spec is not None else ""
    return name if name.split(".")[0] in PACKAGES else None


@contextlib.contextmanager
def record_calls(record: CallRecord) -> Iterator[None]:
    """Record the calls of this thread and of threads that it starts."""
    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def run_train(folder: Path, record: CallRecord) -> None:
    """Record the setup of a run, from a command line to a pending run folder, without a worker."""
    sweep = importlib.import_module("parallax.harness.sweep.sweep")
    from parallax.harness.cli.main import main

    words = ["train", *TRAINING, f"results_dir={folder}"]
    with (
        mock.patch.object(sweep, "_execute_runs", _skip_runs),
        record_calls(record),
        contextlib.suppress(Exception, SystemExit),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        main(words)


def _skip_runs(*_: Any, **__: Any) -> list[Any]:
    return []


def run_worker(folder: Path, record: CallRecord) -> None:
    """Record a training, from a pending run folder to a finished one."""
    run_train(folder, CallRecord())
    from parallax.harness.worker import main

    (path,) = folder.rglob("run.json")
    with record_calls(record):
        main(path.parent)


def run_report(folder: Path, record: CallRecord) -> None:
    """Record a report, from run folders to the page."""
    from benchmarks.synthetic_returns import StudySize
    from benchmarks.synthetic_study import write_study
    from parallax.harness.cli.main import main

    # Importing the command is not recorded.
    importlib.import_module("parallax.analysis.commands.report")
    write_study(folder, StudySize(("HalfCheetah", "Reacher"), seeds=3, evaluations=5))
    with record_calls(record):
        main(["report", str(folder), "--jobs", "1"])


def run_probe(folder: Path, record: CallRecord) -> None:
    """Record one probe."""
    from parallax.harness.cli.main import main

    # Modules call functions to make tables of probes while they are imported: not counted.
    importlib.import_module("parallax.harness.cli.probe")
    with record_calls(record):
        main(["probe", "--frameworks", "sb3", "--probe", "ppo.truncation"])


COMMANDS: dict[str, Callable[[Path, CallRecord], None]] = {
    "train": run_train,
    "worker": run_worker,
    "report": run_report,
    "probe": run_probe,
}


def main() -> None:
    """Print the modules and the re-entries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("command", choices=COMMANDS)
    record = CallRecord()
    name = parser.parse_args().command
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        COMMANDS[name](Path(folder) / "results", record)
    print(f"{name}: {len(record.modules)} modules, {len(record.reentries)} re-entries")
    print(*(f"{n:3}  {module}" for n, module in enumerate(record.modules, 1)), sep="\n")
    print(*(f"     {a} -> {b}" for a, b in record.reentries), sep="\n")


if __name__ == "__main__":
    main()
