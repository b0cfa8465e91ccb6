"""Lockstep training of one implementation in a separate interpreter.

Two releases of a framework cannot be imported into one process. Each is trained by
`python -m parallax.harness.lockstep.interpreter`, and the recordings are compared here.
"""

import dataclasses
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import add_project_to_path
from parallax.harness.contract.probing.protocol import ProbeMonitor
from parallax.harness.interventions.catalogue import resolve_interventions
from parallax.harness.lockstep.comparison import LockstepOptions, LockstepSide, LockstepTrainings
from parallax.harness.lockstep.first_divergence import DivergencePoint, find_first_divergence
from parallax.harness.probes.experiments import AlignmentLevel, ProbeRun
from parallax.harness.probes.runner import WORKER_ENVIRONMENT

_MAX_MESSAGE_CHARACTERS = 300


@dataclasses.dataclass(frozen=True)
class SideTraining:
    """A short training of one implementation whose updates are all recorded.

    Attributes:
        framework: Name of the framework.
        intervention: Names of interventions with `+` between them, or `none`.
        algorithm: Name of the algorithm.
        updates: Number of updates, a multiple of the updates per cycle.
        level: Name of the alignment.
        hps: Name of its recipe.
    """

    framework: str
    intervention: str
    algorithm: str
    updates: int
    level: str = "defaults"
    hps: str = "original"


def compare_recordings(one: ProbeRun, other: ProbeRun) -> tuple[bool, DivergencePoint | None]:
    """Return whether two recordings are equal to the last bit, and where they differ otherwise.

    The point is None where they are equal to rounding.
    """
    if find_first_divergence(one, other, rounding=0.0) is None:
        return True, None
    return False, find_first_divergence(one, other)


def train_in_interpreter(training: SideTraining, python: str = sys.executable) -> ProbeRun:
    """Train an implementation in an interpreter and return the recording.

    Raises:
        SpecError: The implementation cannot be trained there; the message says why.
    """
    with tempfile.TemporaryDirectory(prefix="parallax-lockstep-") as folder:
        file = Path(folder) / "recording"
        request = json.dumps(dataclasses.asdict(training))
        done = subprocess.run(
            [python, "-m", "parallax.harness.lockstep.interpreter", request, str(file)],
            env=add_project_to_path({**os.environ, **WORKER_ENVIRONMENT}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode or not file.exists():
            lines = done.stderr.strip().splitlines() or ["it wrote no message"]
            raise SpecError(
                f"framework={training.framework} cannot be trained in lockstep by {python}: "
                f"{lines[-1][:_MAX_MESSAGE_CHARACTERS]}"
            )
        # Safe to unpickle: the process above wrote the file into our own temporary folder.
        found: ProbeRun = pickle.loads(file.read_bytes())
        return found


def record_training(training: SideTraining) -> ProbeRun:
    """Train in this process and return the recording, without what cannot be stored."""
    adapter = load_adapter(training.framework)
    changes = resolve_interventions(
        training.intervention,
        adapter,
        training.algorithm,
        reference_form=training.level == "lockstep",
    )
    options = LockstepOptions(
        shared_stream=training.algorithm != "ppo",
        level=AlignmentLevel(training.level, training.hps),
    )
    side = LockstepSide(training.framework, changes)
    run = LockstepTrainings([side], training.algorithm, options).record_updates(0, training.updates)
    # Functions cannot be pickled, and the comparison needs none.
    experiment = dataclasses.replace(run.experiment, std=None)
    return dataclasses.replace(run, experiment=experiment, monitor=ProbeMonitor(), cached_values={})


def main(arguments: Sequence[str]) -> int:
    """Train what the first argument describes and write the recording to the second."""
    content: dict[str, Any] = json.loads(arguments[0])
    os.dup2(2, 1)  # what frameworks print does not matter here
    recording = record_training(SideTraining(**content))
    Path(arguments[1]).write_bytes(pickle.dumps(recording))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
