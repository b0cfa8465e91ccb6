"""Probes of the policy as it is evaluated."""

from collections.abc import Callable

import numpy as np

from harness.probes import words
from harness.probes.contract import Parameters
from harness.probes.lab import Lab, Run
from harness.probes.networks import HIDDEN, output
from harness.probes.probe import Measurement, Probe
from harness.probes.results import Array
from harness.probes.setups import HALF, HIGH, LOW

CENTRE = (np.array(LOW) + np.array(HIGH)) / 2


def probe(algorithm: str, run: Callable[[Lab], Run], head: str, paper: str) -> Probe:
    """The probe of one algorithm.

    Args:
        algorithm: Name.
        run: A training on wide bounds.
        head: Layer of the policy that puts out the mean.
        paper: Citation.
    """

    def measure(lab: Lab) -> Measurement:
        training = run(lab)
        seen = np.array([t.observation for t in training.transitions])
        mean = _mean(training.record.final, seen)
        squashed, cut = CENTRE + HALF * np.tanh(mean), np.clip(mean, LOW, HIGH)
        expected, other = (cut, squashed) if algorithm == "ppo" else (squashed, cut)
        text = f"the mean is {'squashed by tanh' if algorithm == 'ppo' else 'cut at the bounds'}"
        return Measurement(training.watch.greedy(seen), expected, alternatives={text: other})

    def _mean(weights: Parameters, seen: Array) -> Array:
        return output(weights, "policy", seen, HIDDEN[algorithm][1], head)

    return Probe(
        f"{algorithm}.greedy_action",
        "Which action is taken without noise in an evaluation?",
        paper,
        "action, in action units, at the end of a short training",
        measure,
        words.relation("greedy action"),
    )
