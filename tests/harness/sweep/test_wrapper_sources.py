"""The source of a user's own wrappers belongs to the identity of a run."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
WRAPPER = """import gymnasium


class Scaled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward * FACTOR
"""


def train(folder):
    # Its own process, since Python imports the wrapper's module once.
    program = "from parallax.harness.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "train", "framework=sb3", "algorithm=ppo"]
    command += ["env.name=CartPole-v1", "env.wrappers=[own_wrapper:Scaled]", "steps=64", "seed=0"]
    command += ["hyperparameters.rollout_steps=64", "hyperparameters.minibatch_size=64"]
    command += ["eval_every=64", "eval_episodes=1", f"results_dir={folder / 'results'}"]
    paths = os.pathsep.join((str(ROOT), str(folder)))
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def test_edited_wrapper_gives_another_run(tmp_path):
    wrapper = tmp_path / "own_wrapper.py"
    wrapper.write_text(WRAPPER.replace("FACTOR", "0.5"))
    first = train(tmp_path)
    assert first.returncode == 0, first.stderr
    (file,) = tmp_path.rglob("run.json")
    stored = file.read_bytes()
    record = json.loads(stored)
    assert list(record["wrapper_sources"]) == ["own_wrapper:Scaled"]
    wrapper.write_text(WRAPPER.replace("FACTOR", "0.25"))
    second = train(tmp_path)
    assert second.returncode != 0 and file.read_bytes() == stored
    assert "env.wrappers=own_wrapper:Scaled, whose file has been edited since" in second.stderr
    # A record from before sources were hashed belongs to any source.
    record.pop("wrapper_sources")
    record.pop("checksum", None)
    file.write_text(json.dumps(record))
    assert train(tmp_path).returncode == 0
