"""Test generators of muPRL: a replay of the training, a weak one, and a strong one.

They differ in where an agent is put. The replay has the configurations of the original's own
training; the weak generator has those in which originals are safest; the strong one those in which
a predictor, trained on failures of the mutant, expects it to fail.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.policies.configurations import Floats, Played, Tested

WEAK_CANDIDATES, WEAK = 200, 50
STRONG_CANDIDATES, STRONG = 500, 100
FEWEST_FAILURES, MOST_FAILING = 50, 0.9
"""Failures that a predictor needs; runs that fail more often than that teach it nothing."""

Play = Callable[[Floats], Played]


def weak(kind: Tested, size: int, originals: Sequence[Play], seed: int) -> Floats:
    """Configurations that originals cope with best, float[at most 50, size].

    Of 200 that are drawn by chance the 50 remain in which the smallest quality is largest. As in
    the reference, one that looks safe, since no original comes to lose control in it, is left out
    where half of them or more fail all the same.

    Args:
        kind: How the task is tested.
        size: Numbers of a configuration.
        originals: Plays each original agent.
        seed: Of the draw.
    """
    candidates = kind.draw(np.random.default_rng(seed), WEAK_CANDIDATES, size)
    played = [play(candidates) for play in originals]
    quality = np.min([one.quality for one in played], axis=0)
    success = np.mean([one.success for one in played], axis=0)
    fitting = np.flatnonzero((quality <= 0) | (success > 0.5))
    chosen = fitting[np.argsort(-quality[fitting], kind="stable")][:WEAK]
    return candidates[chosen]


def lessons(
    configurations: Sequence[Floats], failed: Sequence[NDArray[np.bool_]]
) -> tuple[Floats, NDArray[np.bool_]] | None:
    """What a predictor learns from: replays of a mutant's runs; None where there is too little.

    Args:
        configurations: Of each run's replay, float[n, size].
        failed: In which of them the mutant failed, bool[n].

    Returns:
        Features float[rows, size + 1], the last being the number of the run, and bool[rows].
    """
    kept = [
        (number, where, lost)
        for number, (where, lost) in enumerate(zip(configurations, failed, strict=True))
        if lost.mean() <= MOST_FAILING
    ]
    if not kept:
        return None
    features = np.concatenate([with_run(where, number) for number, where, _ in kept])
    lost = np.concatenate([lost for _, _, lost in kept])
    if lost.sum() < FEWEST_FAILURES or (~lost).sum() < 2:
        return None
    return features, lost


def with_run(configurations: Floats, number: int) -> Floats:
    """Features of configurations for one run."""
    return np.column_stack([configurations, np.full(len(configurations), float(number))])


def strong(
    kind: Tested, size: int, predict: Callable[[Floats], Floats], number: int, seed: int
) -> Floats:
    """Configurations in which a predictor expects a run to fail, float[100, size].

    Each is the one with the largest probability of failure among 500 that are drawn by chance.

    Args:
        kind: How the task is tested.
        size: Numbers of a configuration.
        predict: Features to probabilities.
        number: Of the run.
        seed: Of the draws.
    """
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(STRONG):
        candidates = kind.draw(generator, STRONG_CANDIDATES, size)
        found.append(candidates[int(np.argmax(predict(with_run(candidates, number))))])
    return np.array(found)
