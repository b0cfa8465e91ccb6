"""Probes of the critics of TD3 and SAC, of their targets, and what else they can be drawn to."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, listed, relation
from harness.probes.readings import batch, critics, expected_rows, polyak, spread, steps_of
from harness.probes.results import Array
from harness.probes.world import TERMINATED, TRUNCATED

Targets = tuple[Array, Mapping[str, Array]]
"""The paper's, float[rows], and others by what they are."""
Terms = Mapping[str, tuple[Array, float]]
"""What targets are summed from: float[rows] and its weight, by name."""


def twin_values(first: Array, second: Array) -> dict[str, Array]:
    """What one can make of the two target critics but for the smaller value, by what it is."""
    return {
        "the first critic alone": first,
        "the second critic alone": second,
        "the larger of both critics": np.maximum(first, second),
        "the mean of both critics": (first + second) / 2,
    }


def with_ends(
    run: Run, paper: Array, others: Mapping[str, Array]
) -> tuple[Array, Mapping[str, Array]]:
    """Targets of next values: the paper's, those of other values, and with other masks.

    Args:
        run: Whose first update it is.
        paper: The paper's next values, float[rows].
        others: Other next values, by what they are.
    """
    data, gamma = batch(run), run.hyperparameters.gamma
    ended = (data.ends == TERMINATED).astype(float)

    def target(value: Array, mask: Array) -> Array:
        return formulas.td_target(data.rewards, mask, gamma, value)

    masks = {
        "bootstraps, although nothing follows": np.zeros_like(ended),
        "does not bootstrap: the target is the reward": np.ones_like(ended),
    }
    found = {f"target: {name}": target(value, ended) for name, value in others.items()}
    return target(paper, ended), found | {n: target(paper, m) for n, m in masks.items()}


Runner = Callable[[Lab], Run]
LOUD = 1e3
"""What rewards are multiplied by to see whether gradients are clipped."""


def probes(
    algorithm: str,
    run: Runner,
    loud: Runner,
    target: Callable[[Run], Targets],
    terms: Callable[[Run], Terms],
    paper: str,
    half: bool,
) -> Sequence[Probe]:
    """The probes of one algorithm.

    Args:
        algorithm: `td3` or `sac`.
        run: A few updates on a minibatch with all kinds of ends.
        loud: The same with huge rewards and steep critics.
        target: The paper's targets of a run's first update, and others by what they are.
        terms: What these targets are summed from, with the paper's weights, by name.
        paper: Citation of the critics' loss.
        half: Whether the paper's loss is half the squared error.
    """
    slope = 1.0 if half else 2.0

    def first(lab: Lab) -> Array:
        return critics(run(lab), steps_of(run(lab), "critic1")[0]).target

    def targets(end: int) -> Callable[[Lab], Measurement]:
        def measure(lab: Lab) -> Measurement:
            rows = expected_rows(run(lab), end)
            paper, others = target(run(lab))
            others = {name: array[rows] for name, array in others.items()}
            return Measurement(first(lab)[rows], paper[rows], alternatives=others)

        return measure

    def weights(lab: Lab) -> Measurement:
        rows = expected_rows(run(lab), 0)
        known = terms(run(lab))
        basis = np.stack([term[rows] for term, _ in known.values()], axis=1)
        found = np.linalg.lstsq(basis, first(lab)[rows], rcond=None)[0]
        expected = np.array([weight for _, weight in known.values()])
        return Measurement(np.asarray(found, float), expected)

    def loss_factor(lab: Lab) -> Measurement:
        # The second update shows whether gradients of the first are left over.
        steps = steps_of(run(lab), "critic1")[:2]
        measured = np.ravel([spread(critics(run(lab), step).slope) for step in steps])
        return Measurement(measured, np.full_like(measured, slope))

    def clipping(lab: Lab) -> Measurement:
        quiet = np.median(critics(run(lab), steps_of(run(lab), "critic1")[0]).slope)
        loudly = np.median(critics(loud(lab), steps_of(loud(lab), "critic1")[0]).slope)
        return Measurement(np.array([loudly / quiet]), np.ones(1))

    def moves(lab: Lab) -> Measurement:
        names = ["critic1", "critic2", "policy"][: 3 if algorithm == "td3" else 2]
        shares = np.array([polyak(run(lab), name) for name in names])
        return Measurement(shares, np.full_like(shares, run(lab).hyperparameters.tau))

    names = ("reward", "next value", *(("log-probability",) if algorithm == "sac" else ()))
    text = "value target, in units of return"
    name = f"{algorithm}.{{}}".format
    return (
        Probe(
            name("critic_loss_factor"),
            "How strongly is a critic drawn to its target?",
            f"{paper}: {'one half of the' if half else 'the mean'} squared error",
            "second derivative of the critic loss by a prediction, times the minibatch size: "
            "smallest, median and largest in the first update, then in the second",
            loss_factor,
            relation("pull on the critic"),
        ),
        Probe(
            name("critic_target"),
            "What are critics drawn to, in the middle of an episode?",
            paper,
            text,
            targets(0),
            relation("target"),
        ),
        Probe(
            name("target_weights"),
            "How much does each term weigh in what critics are drawn to?",
            paper,
            "weight, by least squares: " + ", ".join(names),
            weights,
            listed([f"weight of the {term}" for term in names]),
        ),
        Probe(
            name("termination_target"),
            "What are critics drawn to where the task ended?",
            f"{paper}: nothing follows, the target is the reward",
            text,
            targets(TERMINATED),
            relation("target at the end of the task"),
        ),
        Probe(
            name("truncation_target"),
            "What are critics drawn to where a time limit cut the episode?",
            "Pardo et al. 2018 (arXiv:1712.00378), eq. 6: time goes on, so bootstrap",
            text,
            targets(TRUNCATED),
            relation("target at a time limit"),
        ),
        Probe(
            name("critic_gradient_clipping"),
            "Are huge gradients of the critics clipped?",
            f"{paper}: they are not",
            f"pull on a critic when rewards are {LOUD:g} times as large, as a share",
            clipping,
            relation("pull under huge rewards"),
            tolerance=0.01,
        ),
        Probe(
            name("target_update"),
            "How far do target networks move to the online ones?",
            f"{paper}: by tau",
            "share of the way: critic 1, critic 2" + (", policy" if algorithm == "td3" else ""),
            moves,
            relation("step of the targets"),
        ),
    )


def critics_seen_probe(algorithm: str, measure: Callable[[Lab], Measurement], paper: str) -> Probe:
    """Whether the policy climbs critics from before or after their step."""
    return Probe(
        f"{algorithm}.critics_seen_by_policy",
        "Does the policy's step see the critics before or after their step?",
        f"{paper}: after",
        "0 before, 1 after",
        measure,
        lambda comparison, measurement: "the policy climbs the critics as they were before",
        counts=True,
    )


def policy_clipping_probe(
    algorithm: str, measure: Callable[[Lab], Measurement], paper: str
) -> Probe:
    """Whether huge gradients of the policy are clipped."""
    return Probe(
        f"{algorithm}.policy_gradient_clipping",
        "Are huge gradients of the policy clipped?",
        f"{paper}: they are not",
        "pull on the policy where critics are 1000 times as steep, as a share of what is due",
        measure,
        relation("pull under steep critics"),
        tolerance=0.01,
    )
