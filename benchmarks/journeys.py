"""Which modules a command passes through, in the order in which they are first called.

    python benchmarks/journeys.py run        # from a command line to a pending run folder
    python benchmarks/journeys.py worker     # from a pending run folder to a finished one
    python benchmarks/journeys.py report     # from run folders to the page

Counted are calls of functions of this project, in the process that was started; importing a
module is none. A module is entered again where a call leads into it from another module after
it had been left.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
ROOMS = ("harness", "analysis", "slurm", "adapters", "envs")
TRAINING = (
    *("framework=sb3", "algorithm=ppo", "env=InvertedPendulum-v4", "steps=256", "eval_every=128"),
    *("eval_episodes=1", "hyperparameters.rollout_steps=128"),
)


class Journey:
    """Modules by first call, and calls between modules."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.calls: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Takes note of a call; for `sys.setprofile`."""
        # Importing passes through bodies of modules and classes, and what dataclasses generate.
        code = frame.f_code
        if (
            event != "call"
            or not code.co_flags & inspect.CO_OPTIMIZED
            or code.co_filename[0] == "<"
        ):
            return
        module = _module(frame)
        if module is None:
            return
        if module not in self.modules:
            self.modules.append(module)
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        if caller is not None and (before := _module(caller)) is not None and before != module:
            self.calls.add((before, module))

    @property
    def ways_back(self) -> list[tuple[str, str]]:
        """Calls from a module into one that was reached before it."""
        at = {module: number for number, module in enumerate(self.modules)}
        return sorted((a, b) for a, b in self.calls if at[a] > at[b])


def _module(frame: FrameType) -> str | None:
    name = frame.f_globals.get("__name__", "")
    if name == "__main__":
        spec = frame.f_globals.get("__spec__")
        name = spec.name if spec is not None else ""
    return name if name.split(".")[0] in ROOMS else None


@contextlib.contextmanager
def followed(journey: Journey) -> Iterator[None]:
    """Follows what is called in this thread."""
    sys.setprofile(journey)
    try:
        yield
    finally:
        sys.setprofile(None)


def run(folder: Path, journey: Journey) -> None:
    """From a command line to a pending run folder: the worker is not let in."""
    try:
        sweep = importlib.import_module("parallax.harness.sweep.sweep")
    except ImportError:  # checkouts before the rooms
        sweep = importlib.import_module("parallax.harness.sweep")
    vars(sweep)["_execute"] = lambda *_, **__: None
    sys.argv = ["parallax", *TRAINING, f"results_dir={folder}"]
    from parallax.harness.cli.train import main

    with (
        followed(journey),
        contextlib.suppress(Exception),
        Path(os.devnull).open("w") as sink,
        contextlib.redirect_stderr(sink),
    ):
        main(sys.argv[1:])


def worker(folder: Path, journey: Journey) -> None:
    """From a pending run folder to a finished one."""
    run(folder, Journey())
    from parallax.harness.worker import main

    (path,) = folder.rglob("run.json")
    with followed(journey):
        main(path.parent)


def report(folder: Path, journey: Journey) -> None:
    """From run folders to the page."""
    from parallax.analysis.__main__ import run_analysis_command
    from synthetic_returns import Size
    from synthetic_study import write_study

    write_study(folder, Size(("HalfCheetah", "Reacher"), seeds=3, evaluations=5))
    with followed(journey):
        run_analysis_command(["report", str(folder), "--jobs", "1"])


JOURNEYS: dict[str, Callable[[Path, Journey], None]] = {
    "run": run,
    "worker": worker,
    "report": report,
}


def main() -> None:
    """Prints the modules and the ways back."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("journey", choices=JOURNEYS)
    journey = Journey()
    name = parser.parse_args().journey
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        JOURNEYS[name](Path(folder) / "results", journey)
    print(f"{name}: {len(journey.modules)} modules, {len(journey.ways_back)} ways back")
    print(*(f"{n:3}  {module}" for n, module in enumerate(journey.modules, 1)), sep="\n")
    print(*(f"     {a} -> {b}" for a, b in journey.ways_back), sep="\n")


if __name__ == "__main__":
    main()
