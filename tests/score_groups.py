"""Groups of runs with given scores, for tests of verdicts."""

import dataclasses
from pathlib import Path

import numpy as np

from parallax.analysis.data.runs import CompletedRun, RunId
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.harness.record.run_json import RunProvenance


def make_curve_run(cell, framework, seed, steps, returns, **more):
    """A run with given returns, one row of episodes per evaluation."""
    results = np.asarray(returns, dtype=float).reshape(len(steps), -1)
    lengths = np.ones(results.shape, dtype=int)
    place = RunId(cell, framework, seed), Path(f"{framework}-{seed}")
    return CompletedRun(*place, np.array(steps), results, lengths, more.pop("spec", {}), **more)


def make_score_group(cell, framework, scores, spec):
    """Runs of one evaluation of one episode each; only their scores and settings mean anything."""
    zeros, n = np.zeros((1, 1)), len(scores)
    runs = tuple(
        CompletedRun(
            RunId(cell, framework, seed), Path(), np.array([1000]), zeros, zeros.astype(int), spec
        )
        for seed in range(n)
    )
    return ScoreGroup(cell, framework, compute_moments(scores), 0.0, scores, runs, n, n, (1000,))


def install_torch(group, version):
    """Return a group whose runs record a version of PyTorch, and of a package without effect."""
    made = RunProvenance(packages={"torch": version, "packaging": version})
    runs = tuple(dataclasses.replace(run, provenance=made) for run in group.runs)
    return dataclasses.replace(group, runs=runs)
