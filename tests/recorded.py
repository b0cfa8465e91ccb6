"""Run folders as the harness writes them, made without a training."""

import json

import numpy as np
import support

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import RunLock
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import prepare_run


def complete_run(results, evaluations=3, **changes):
    """A complete run with an evaluation after each of some rollouts; returns its folder."""
    spec = support.spec(steps=2048 * evaluations, eval_every=2048, **changes)
    folder = spec.folder(results)
    initialize_run(prepare_run(spec, load_adapter(spec.framework)), folder)
    rng = np.random.default_rng(spec.seed)
    with RunLock.acquire(folder) as run_lock:
        run = RunFolder(run_lock)
        for number in range(1, evaluations + 1):
            step = 2048 * number
            run.record(step, {"loss/value": float(rng.normal()), "episode/return": 3.0})
            run.add_evaluation(step, rng.normal(size=2), np.array([7, 9]))
        run.finish_trace()
        run.update_run(
            status="completed",
            weights_sha256="0" * 64,
            steps=run.content["steps"] | {"taken": spec.steps},
            timings={"started": 1e9, "ended": 1e9 + 5, "seconds": 5.0, "evaluation_seconds": 1.0},
        )
    return folder


def edit(folder, guarded=False, **changes):
    """Replaces entries of `run.json` by hand; unless `guarded`, without its checksum."""
    content = json.loads((folder / "run.json").read_text()) | changes
    if not guarded:
        content.pop("checksum", None)
    (folder / "run.json").write_text(json.dumps(content))


def lock_run(folder, **changes):
    """Let another process own the lock of the run."""
    run_lock = RunLock.acquire(folder)
    owner = run_lock.staging / "owner.json"
    owner.write_text(json.dumps(json.loads(owner.read_text()) | changes))
    return run_lock
