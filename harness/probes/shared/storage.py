"""Probes of what a replay buffer holds, and of the policy as it is evaluated."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes.contract import Parameters
from harness.probes.lab import Lab, Run
from harness.probes.networks import HIDDEN, output
from harness.probes.probe import Measurement, Probe, Unmeasured, listed, relation
from harness.probes.results import Array
from harness.probes.setups import HALF, HIGH, LOW
from harness.probes.world import TERMINATED

DRAWN = (
    "oldest left out",
    "newest left out",
    "transitions drawn",
    "one can be drawn twice: 0 no or 1 yes",
)
NEAR = 1e-4
"""Numbers that differ by less are the same in float32."""


def probes(
    algorithm: str, run: Callable[[Lab], Run], wide: Callable[[Lab], Run]
) -> Sequence[Probe]:
    """The probes of one algorithm.

    Args:
        algorithm: `td3` or `sac`.
        run: Some steps with all kinds of ends.
        wide: Some steps in which actions range from -1 to 3 and from -2 to 2.
    """

    def transitions(lab: Lab) -> Measurement:
        wrong = wrong_entries(run(lab))
        return Measurement(wrong, np.zeros_like(wrong))

    def sampling(lab: Lab) -> Measurement:
        value = drawn(run(lab))
        return Measurement(value, np.array([0.0, 0.0, float(run(lab).hyperparameters.batch_size), 1.0]))

    def actions(lab: Lab) -> Measurement:
        fits = np.ravel([action_unit(wide(lab), dimension) for dimension in (0, 1)])
        return Measurement(fits, np.array([1.0, 0.0, 1.0, 0.0]))

    return (
        Probe(
            f"{algorithm}.stored_transition",
            "Are transitions stored as they were, with the last observation of an episode?",
            "the papers' algorithms: yes",
            "transitions of which a part is stored wrongly",
            transitions,
            listed(("observations", "rewards", "next observations", "ends of the task")),
            counts=True,
        ),
        Probe(
            f"{algorithm}.replay_sampling",
            "From which transitions is the first minibatch drawn?",
            "the papers' algorithms: from all there are",
            ", ".join(DRAWN),
            sampling,
            listed(DRAWN),
            counts=True,
        ),
        Probe(
            f"{algorithm}.stored_action",
            "Which action is stored, where actions range from -1 to 3 and from -2 to 2?",
            "the papers' algorithms: the action that was taken",
            "scale and shift from the action taken to the one stored, per dimension",
            actions,
            listed(("scale 1", "shift 1", "scale 2", "shift 2")),
        ),
    )


def drawn(run: Run) -> Array:
    """What the indices of the first minibatch were drawn from; see `DRAWN`.

    Raises:
        Unmeasured: They were not drawn as random whole numbers.
    """
    first = next((s.env_steps for s in run.record.steps if "critic1" in s.networks), None)
    draws = [draw for draw in run.draws if draw.steps == first]
    # A second draw is among the copies of the environment.
    if not draws:
        raise Unmeasured("its indices are not drawn as random whole numbers")
    draw = max(draws, key=lambda draw: draw.high - draw.low)
    newest = draw.steps - draw.high
    return np.array([float(n) for n in (draw.low, newest, draw.count, draw.replaced)])


def wrong_entries(run: Run) -> Array:
    """How many rows of each stored array are not what the environment gave.

    Raises:
        Unmeasured: The buffer does not hold the run.
    """
    stored, transitions = run.record.stored, run.transitions
    if len(stored["rewards"]) != len(transitions):
        raise Unmeasured(
            f"the buffer holds {len(stored['rewards'])} of {len(transitions)} transitions"
        )
    given = {
        "observations": np.array([t.observation for t in transitions]),
        "rewards": np.array([t.reward for t in transitions]),
        "next_observations": np.array([t.next_observation for t in transitions]),
        "terminated": np.array([float(t.end == TERMINATED) for t in transitions]),
    }
    apart = [np.abs(stored[name] - array) > NEAR for name, array in given.items()]
    return np.array([float(a.reshape(len(a), -1).any(axis=1).sum()) for a in apart])


def action_unit(run: Run, dimension: int) -> tuple[float, float]:
    """Scale and shift from actions taken to actions stored.

    Raises:
        Unmeasured: It is no linear map.
    """
    stored = run.record.stored["actions"][:, dimension]
    taken = run.actions()[:, dimension]
    scale, shift = np.polyfit(taken, stored, 1)
    if np.abs(scale * taken + shift - stored).max() > NEAR:
        raise Unmeasured("stored actions are no linear function of those taken")
    return float(scale), float(shift)


CENTRE = (np.array(LOW) + np.array(HIGH)) / 2


def greedy_probe(algorithm: str, run: Callable[[Lab], Run], head: str, paper: str) -> Probe:
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
        relation("greedy action"),
    )
