"""Probes of PPO's divergence between old and new policy."""

from collections.abc import Sequence

import numpy as np

from harness.probes import oracles, words
from harness.probes.lab import Lab
from harness.probes.ppo import readings, runs
from harness.probes.ppo.readings import kept
from harness.probes.probe import Measurement, Probe, Unmeasured

FIRST, LAST, HALVINGS = 0.25, 16.0, 9
"""Search for the limit: as shares of the divergence, and how often the interval is halved."""
LEFT = np.array([1.0, 0.75, 0.5, 0.25])
"""What is left of an annealed quantity in each of four rollouts."""
KL = "Schulman 2020, joschu.net/blog/kl-approx.html: mean of (r - 1) - log r"


def _approximate_kl(lab: Lab) -> Measurement:
    run = runs.minibatches(lab, runs.ROLLOUT, runs.ROLLOUT)
    reported = [m["policy/approx_kl"] for m in run.record.metrics if "policy/approx_kl" in m]
    if not reported:
        raise Unmeasured("it does not report a KL divergence")
    log_ratio = readings.log_ratio(run, kept(run, 1))
    others = {
        "mean of -log r, which can be negative": np.array([-log_ratio.mean()]),
        "half the mean of (log r)^2": np.array([0.5 * np.mean(log_ratio**2)]),
    }
    expected = np.array([oracles.kl_estimate(log_ratio)])
    return Measurement(np.array(reported[-1:]), expected, alternatives=others)


def _early_stopping(lab: Lab) -> Measurement:
    return Measurement(np.array([float(len(runs.early(lab).record.steps))]), np.ones(1))


def _limit(lab: Lab) -> Measurement:
    # Bisects for the share of the second pass's divergence at which that pass is the last.
    free = runs.whole_batches(lab)
    divergence = oracles.kl_estimate(readings.log_ratio(free, kept(free, 1)))

    def steps(share: float) -> int:
        return len(runs.whole_batches(lab, target_kl=divergence / share).record.steps)

    stopped, low, high = steps(2 * LAST), FIRST, LAST
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if steps(middle) == stopped else (middle, high)
    return Measurement(np.array([np.sqrt(low * high)]), np.ones(1))


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.approximate_kl",
        "Which divergence between old and new policy is reported?",
        KL,
        "nats, second pass over one minibatch",
        _approximate_kl,
        words.relation("divergence"),
        tolerance=5e-3,
    ),
    Probe(
        "ppo.early_stopping",
        "How many gradient steps are taken when the divergence is above its limit at once?",
        "none in the paper; here: no further step once the limit is exceeded",
        "gradient steps, of 8",
        _early_stopping,
        words.listed(("gradient steps",)),
        counts=True,
    ),
    Probe(
        "ppo.divergence_limit",
        "At how many times target_kl do the epochs end?",
        "none in the paper; here: at target_kl itself",
        "divergence at which no further epoch begins, over target_kl",
        _limit,
        words.relation("limit"),
        tolerance=0.03,
    ),
)
