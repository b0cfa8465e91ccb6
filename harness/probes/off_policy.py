"""Probes that TD3 and SAC share: critics, their targets, and what the buffer holds."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes import setups, words
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, Unmeasured
from harness.probes.readings import critics, expected_rows, polyak, steps_of
from harness.probes.results import Array, Axis
from harness.probes.world import TERMINATED, TRUNCATED, Dictation

Runner = Callable[[Lab], Run]
LOUD = 1e3
"""What rewards are multiplied by to see whether gradients are clipped."""


def probes(
    algorithm: str,
    run: Runner,
    loud: Runner,
    wide: Runner,
    target: Callable[[Run], Array],
    paper: str,
    half: bool,
) -> Sequence[Probe]:
    """The probes of one algorithm.

    Args:
        algorithm: `td3` or `sac`.
        run: A few updates on a minibatch with all kinds of ends.
        loud: The same with huge rewards.
        wide: Some steps in which actions range from -1 to 3.
        target: The paper's targets of a run's first update.
        paper: Citation of the critics' loss.
        half: Whether the paper's loss is half the squared error.
    """
    slope = 1.0 if half else 2.0

    def first(lab: Lab) -> Array:
        return critics(run(lab), steps_of(run(lab), "critic1")[0]).target

    def targets(end: int) -> Callable[[Lab], Measurement]:
        def measure(lab: Lab) -> Measurement:
            rows = expected_rows(run(lab), end)
            return Measurement(first(lab)[rows], target(run(lab))[rows])

        return measure

    def loss_factor(lab: Lab) -> Measurement:
        measured = critics(run(lab), steps_of(run(lab), "critic1")[0]).slope
        return Measurement(measured, np.full_like(measured, slope))

    def clipping(lab: Lab) -> Measurement:
        quiet = np.median(critics(run(lab), steps_of(run(lab), "critic1")[0]).slope)
        loudly = np.median(critics(loud(lab), steps_of(loud(lab), "critic1")[0]).slope)
        return Measurement(np.array([loudly / quiet]), np.ones(1))

    def moves(lab: Lab) -> Measurement:
        names = ["critic1", "critic2", "policy"][: 3 if algorithm == "td3" else 2]
        shares = np.array([polyak(run(lab), name) for name in names])
        return Measurement(shares, np.full_like(shares, run(lab).hyperparameters.tau))

    text = "value target, in units of return"
    name = f"{algorithm}.{{}}".format
    return (
        Probe(
            name("critic_loss_factor"),
            "How strongly is a critic drawn to its target?",
            f"{paper}: {'one half of the' if half else 'the mean'} squared error",
            "second derivative of the critic loss by a prediction, times the minibatch size",
            loss_factor,
            words.relation("pull on the critic"),
        ),
        Probe(
            name("critic_target"),
            "What are critics drawn to, in the middle of an episode?",
            paper,
            text,
            targets(0),
            words.relation("target"),
        ),
        Probe(
            name("termination_target"),
            "What are critics drawn to where the task ended?",
            f"{paper}: nothing follows, the target is the reward",
            text,
            targets(TERMINATED),
            words.relation("target at the end of the task"),
        ),
        Probe(
            name("truncation_target"),
            "What are critics drawn to where a time limit cut the episode?",
            "Pardo et al. 2018 (arXiv:1712.00378), eq. 6: time goes on, so bootstrap",
            text,
            targets(TRUNCATED),
            words.relation("target at a time limit"),
        ),
        Probe(
            name("gradient_clipping"),
            "Are the critics' gradients clipped?",
            f"{paper}: they are not",
            f"pull on a critic when rewards are {LOUD:g} times as large, as a share",
            clipping,
            words.relation("pull under huge rewards"),
            tolerance=0.01,
        ),
        Probe(
            name("target_update"),
            "How far do target networks move to the online ones?",
            f"{paper}: by tau",
            "share of the way: critic 1, critic 2" + (", policy" if algorithm == "td3" else ""),
            moves,
            words.relation("step of the targets"),
        ),
        *stored_actions(algorithm, wide),
    )


def stored_actions(algorithm: str, wide: Runner) -> Sequence[Probe]:
    """In which unit actions are stored and shown to the critics."""

    def measure(lab: Lab) -> Measurement:
        run = wide(lab)
        stored, taken = run.record.stored["actions"].ravel(), run.actions().ravel()
        scale, shift = np.polyfit(taken, stored, 1)
        if np.abs(scale * taken + shift - stored).max() > 1e-4:
            raise Unmeasured("stored actions are no linear function of those taken")
        return Measurement(
            np.array([scale, shift]), np.array([1.0, 0.0]), Axis("scale, shift", np.arange(2.0))
        )

    return (
        Probe(
            f"{algorithm}.stored_action",
            "Which action is stored, where actions range from -1 to 3?",
            "the papers' algorithms: the action that was taken",
            "scale and shift from the action taken to the one stored",
            measure,
            words.listed(("scale", "shift")),
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


def loud_world(steps: int) -> Dictation:
    """A world with huge rewards."""
    world = setups.dictation(steps)
    world.rewards[:] *= LOUD
    return world
