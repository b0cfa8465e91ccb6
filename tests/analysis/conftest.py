import fcntl
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import yaml

from benchmarks.synthetic_returns import StudySize
from benchmarks.synthetic_study import write_study
from parallax.analysis.data.load import load_runs
from parallax.analysis.figures import figure_spec
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import (
    StudyResults,
    StudyVerdicts,
    judge_study,
    judge_thesis_tables,
)
from parallax.harness.cli.main import main
from parallax.harness.record.run_json import VARIANT_FIELDS

SPEC = {
    "study": "demo",
    "env": "Hopper-v5",
    "algorithm": "ppo",
    "hps": "original",
    "framework": "sb3",
    "seed": 0,
    "alignment": "common",
    "steps": 20_000,
    "eval_every": 2_000,
    "evaluate_untrained": True,
    "eval_episodes": 4,
    "evaluation_seed": 0,
    "wrappers": "none",
    "threads": 1,
    "hyperparameters": {"gamma": 0.99},
    "overridden": [],
}


def write_run(
    results: Path,
    *,
    score: float = 100.0,
    scheduled: int = 20_480,
    timesteps: Any = None,
    returns: Any = None,
    status: str = "completed",
    failure: str | None = None,
    variant: str = "steps=20000",
    **spec: Any,
) -> Path:
    """Writes a run folder with a rising curve that ends at `score`."""
    spec = {**SPEC, "steps": min(SPEC["steps"], scheduled), **read_variant(variant), **spec}
    if timesteps is None:
        timesteps = np.r_[0 : scheduled : spec["eval_every"], scheduled]
    else:
        every = int(next(step for step in timesteps if step))
        spec |= {"eval_every": every, "evaluate_untrained": bool(every != timesteps[0])}
    if returns is not None:
        spec["eval_episodes"] = np.shape(returns)[1]
    names = [spec[name] for name in ("study", "env", "algorithm", "hps", "framework")]
    folder = results.joinpath(*names, variant, f"seed={spec['seed']}")
    folder.mkdir(parents=True)
    record = {
        "schema": 1,
        "status": status,
        "spec": spec,
        "native": {},
        "alignment": [],
        "steps": {"requested": spec["steps"], "scheduled": scheduled, "taken": scheduled},
        "weights_sha256": None,
        "failure": failure,
        "timings": {},
        "provenance": {},
    }
    (folder / "run.json").write_text(json.dumps(record))
    if returns is None:
        returns = make_rising_returns(score, np.asarray(timesteps), spec["eval_episodes"])
    write_evaluations(folder, np.asarray(timesteps, np.int64), returns)
    return folder


def read_variant(variant: str) -> dict[str, Any]:
    """The settings of a specification that a variant names; a record must not contradict them."""
    stated = dict(part.partition("=")[::2] for part in variant.split(",") if "=" in part)
    found = {n: yaml.safe_load(v) for n, v in stated.items() if n in VARIANT_FIELDS}
    if "gamma" in stated:
        found |= {"hyperparameters": {"gamma": float(stated["gamma"])}, "overridden": ["gamma"]}
    return found


def make_rising_returns(score: float, timesteps: Any, count: int) -> Any:
    episodes = np.random.default_rng(0).normal(0, 1, (len(timesteps), count))
    episodes -= episodes.mean(axis=1, keepdims=True)
    return score * (timesteps / max(timesteps[-1], 1))[:, None] + episodes


def write_evaluations(folder: Path, timesteps: Any, returns: Any) -> None:
    returns = np.asarray(returns, dtype=np.float32)
    lengths = np.full(returns.shape, 10, dtype=np.int32)
    np.savez(folder / "evaluations.npz", timesteps=timesteps, results=returns, ep_lengths=lengths)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture(scope="session")
def write_run_folder() -> Callable[..., Path]:
    return write_run


@pytest.fixture(scope="session")
def draw_blank() -> Callable[[pytest.MonkeyPatch], None]:
    """Replace all figures by one pixel, for tests of the text of pages."""
    files = {}
    for kind in ("png", "webp", "pdf"):
        buffer = io.BytesIO()
        PIL.Image.new("RGB", (1, 1)).save(buffer, kind)
        files[kind] = buffer.getvalue()

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            figure_spec, "render_figure", lambda spec, kinds, dpi: {k: files[k] for k in kinds}
        )

    return patch


@pytest.fixture
def blank_figures(draw_blank, monkeypatch) -> None:
    draw_blank(monkeypatch)


@pytest.fixture
def make_run(results: Path) -> Callable[..., Path]:
    return lambda **options: write_run(results, **options)


# Two tasks of which one has planted differences in PPO and SAC, with failed and absent runs.
SMALL = StudySize(tasks=("Hopper", "Walker2d"), seeds=4, evaluations=12, episodes=3, variants=True)


def make_shared_folder(
    factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], None]
) -> Path:
    """A folder that the first process of a session that needs it fills, for all of them."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    done = root / f"{name}.done"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            fill(root / name)
            done.touch()
    return root / name


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small synthetic study; tests must not write into it."""
    return make_shared_folder(tmp_path_factory, "synthetic", write_small_study) / "study"


def write_small_study(root: Path) -> None:
    folder = root / "study"
    write_study(folder, SMALL)
    words = dict.fromkeys(
        ("id", "name", "seen", "causes", "remedies", "may_be_wrong"), "bad-weights"
    )
    found = words | {"level": "error", "first_step": 300, "last_step": 400, "count": 2}
    watched = sorted(path.parent for path in folder.rglob("run.json"))[0]
    (watched / "diagnosis.json").write_text(json.dumps({"findings": [found]}))


@pytest.fixture(scope="session")
def study_results(study: Path) -> StudyResults:
    return judge_study(load_runs(study), VerdictOptions(resamples=500))


@pytest.fixture(scope="session")
def published() -> StudyVerdicts:
    """The verdicts on the thesis' published tables."""
    return judge_thesis_tables(VerdictOptions())


@pytest.fixture(scope="session")
def writer() -> Callable[..., Path]:
    """Writes a run below any results folder."""
    return write_run


@pytest.fixture(scope="session")
def report(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the small study, in a folder beside it."""

    def write(output: Path) -> None:
        words = ["--output", str(output), "--jobs", "1", "--markdown"]
        assert main(["report", str(study), *words]) == 0

    return make_shared_folder(tmp_path_factory, "report", write) / "report.html"
