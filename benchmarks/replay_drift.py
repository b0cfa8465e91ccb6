"""Change of the real sum of priorities between two sweeps, which no prediction can foresee.

    python benchmarks/replay_drift.py --seeds 0 1

Trains with `replay=imp` as `study=imp_per` does, and computes the errors of the whole memory with
the current networks every 20 transitions. Prints the difference of the sum of their powers from
the sums half a sweep interval and a whole one before, in per cent, as means over each third of
training.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np

from parallax.harness.replay.prioritized import Indices
from parallax.harness.replay.replayer import ReplaySampler

EVERY = 20
COMMON = {"batch_size": 64, "learning_starts": 500, "hidden_sizes": (256, 256)}
DQN = COMMON | {
    "hidden_sizes": (120, 84),
    "train_freq": 2,
    "gradient_steps": 1,
    "max_grad_norm": None,
    "exploration_steps": 2000,
    "learning_rate": 0.001,
}
SETTINGS: tuple[tuple[str, str, str, int, dict[str, Any]], ...] = (
    ("sb3", "dqn", "CartPole-v1", 5000, DQN | {"target_update_interval": 200}),
    ("sb3", "dqn", "CartPole-v1", 5000, DQN | {"target_update_interval": 10}),
    ("sb3", "ddpg", "Pendulum-v1", 3000, COMMON),
    ("cleanrl", "ddpg", "Pendulum-v1", 3000, COMMON),
    ("cleanrl", "ddpg", "InvertedPendulum-v4", 3000, COMMON),
)


def main() -> None:
    """Print a line for each training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    print("setting, seed: change within half a sweep interval / a whole one, %, in each third")
    for framework, algorithm, env, steps, values in SETTINGS:
        for seed in options.seeds:
            sums = record_priority_sums(framework, algorithm, env, steps, seed, values)
            half, whole = (
                compute_drift(sums, steps // 50 // part // EVERY or 1) for part in (2, 1)
            )
            copies = values.get("target_update_interval", "soft")
            changes = "; ".join(f"{a:.0f} / {b:.0f}" for a, b in zip(half, whole, strict=True))
            print(f"{framework} {algorithm} {env} target {copies}, {seed}: {changes}", flush=True)


def compute_drift(sums: np.ndarray, lag: int) -> list[float]:
    """Return the mean relative change over `lag` readings, in per cent, by third of training."""
    changes = 100 * np.abs(sums[lag:] / sums[:-lag] - 1)
    return [float(part.mean()) for part in np.array_split(changes, 3)]


def record_priority_sums(
    framework: str, algorithm: str, env: str, steps: int, seed: int, values: dict[str, Any]
) -> np.ndarray:
    """Return sums of real priorities to the power alpha every `EVERY` transitions of training."""
    import support
    import torch

    torch.set_num_threads(1)
    sums: list[float] = []

    draw = ReplaySampler.draw

    def read(self: Any, n: int, gaps: Any) -> Indices:
        if self.strategy.added // EVERY > getattr(self, "read", 0):
            self.read = self.strategy.added // EVERY
            errors = self._make_error_function(gaps)(np.arange(self.strategy.size))
            sums.append(float(self.strategy.compute_powers(errors).sum()))
        return draw(self, n, gaps)

    spec = support.spec(
        *(framework, algorithm, "zoo"),
        hyperparameters=values,
        alignment="exact",
        env=env,
        steps=steps,
        eval_every=steps,
        eval_episodes=1,
        seed=seed,
        replay={"name": "imp"},
    )
    ReplaySampler.draw = read  # type: ignore[assignment, method-assign]
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.redirect_stdout(io.StringIO()),  # scripts print each episode
        ):
            support.run(spec, Path(folder))
    finally:
        ReplaySampler.draw = draw  # type: ignore[method-assign]
    return np.array(sums)


if __name__ == "__main__":
    main()
