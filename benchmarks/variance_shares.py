"""Variance shares of some frameworks and algorithms of a study with several levels of alignment.

python benchmarks/variance_shares.py docs/ladder/ladder.parquet \
        --frameworks sb3,cleanrl,torchrl --algorithms ppo,td3,sac
"""

import argparse
import dataclasses
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parallax.analysis.data.load import load_runs
from parallax.analysis.figures.alignment_levels import format_share
from parallax.analysis.verdicts.alignment_levels import LevelDecomposition, decompose_levels
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study


def decompose_part(
    path: Path, frameworks: Collection[str], algorithms: Collection[str]
) -> LevelDecomposition | None:
    """Decompose the variance of some frameworks' scores (the return averaged over training)."""
    (study,) = judge_study(load_runs(path), VerdictOptions(endpoint="auc")).levels
    spreads = [
        dataclasses.replace(
            spread,
            scores={name: one for name, one in spread.scores.items() if name in frameworks},
            groups={name: one for name, one in spread.groups.items() if name in frameworks},
        )
        for spread in study.spreads
        if spread.task.algorithm in algorithms
    ]
    return decompose_levels(spreads, np.random.default_rng(0))


def main() -> None:
    """Print the shares with their 95% intervals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--frameworks", required=True)
    parser.add_argument("--algorithms", required=True)
    arguments = parser.parse_args()
    names = (arguments.frameworks.split(","), arguments.algorithms.split(","))
    found = decompose_part(arguments.study, *names)
    if found is None:
        sys.exit("These runs do not allow shares.")
    print(f"hyperparameters {format_share(*found.shares.own)}")
    print(f"other differences {format_share(*found.shares.equal)}")
    print(f"{len(found.tasks)} pairs of algorithm and task")


if __name__ == "__main__":
    main()
