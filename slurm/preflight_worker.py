"""Process that tries the run folders named on standard input, one per line as JSON.

It answers each with a line of JSON, so that the caller can end the process if a run hangs. It
loads a framework only once, since loading takes longer than most trials.
"""

import importlib
import json
import os
from pathlib import Path

import gymnasium

from parallax.harness import worker
from parallax.harness.record.reading import read_run

_MAX_EPISODE_STEPS = 100  # steps


def main() -> None:
    """Answer until standard input ends."""
    # Nothing that a framework prints or reads, also in C, may mix with the protocol.
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for line in iter(questions.readline, ""):
        print(json.dumps({"failure": _try_run(Path(json.loads(line)))}), file=answers, flush=True)


def _try_run(folder: Path) -> str | None:
    """Return why the pending run in a folder cannot be completed, or None."""
    try:
        _shorten_episodes(read_run(folder).spec["env"])
        worker.main(folder)
    except (Exception, SystemExit) as error:  # the next run is tried after any error
        return f"{type(error).__name__}: {error}"
    return read_run(folder).reason.removeprefix("failed: ") or None


def _shorten_episodes(env_id: str) -> None:
    """Lower a task's time limit in this process: an evaluation plays an episode to its end.

    A task without a time limit does not get one: if it never ends, its runs cannot be evaluated.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        importlib.import_module(module)
    task = gymnasium.registry.get(name)
    if task is not None and task.max_episode_steps:
        task.max_episode_steps = min(task.max_episode_steps, _MAX_EPISODE_STEPS)


if __name__ == "__main__":
    main()
