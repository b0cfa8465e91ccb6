"""A run through the harness ends in the same weights as d3rlpy alone, bit for bit.

Run by the interpreter of the study, with the interpreter of d3rlpy named in D3RLPY_PYTHON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from parallax.harness.contract.interpreter import add_project_to_path

PYTHON = os.environ.get("D3RLPY_PYTHON")
ALONE = Path(__file__).with_name("alone.py")
pytestmark = pytest.mark.skipif(not PYTHON, reason="D3RLPY_PYTHON names no interpreter")


def test_harness_changes_nothing(tmp_path):
    captured = {"capture_output": True, "text": True}
    arguments = [
        "algorithm=td3",
        "env=InvertedPendulum-v4",
        "seed=5",
        "steps=360",
        "eval_every=180",
    ]
    arguments += ["alignment=exact", "hyperparameters.learning_starts=300", "eval_episodes=2"]
    command = [sys.executable, "-m", "parallax", "train", "framework=d3rlpy"]
    command += [f"framework.python={PYTHON}", "hps=d3rlpy", *arguments, f"results_dir={tmp_path}"]
    done = subprocess.run(command, **captured)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.rglob("run.json")
    alone = subprocess.run(
        [PYTHON, str(ALONE)], env=add_project_to_path(dict(os.environ)), **captured
    )
    assert alone.returncode == 0, alone.stderr
    assert json.loads(path.read_text())["weights_sha256"] == alone.stdout.split()[-1]
