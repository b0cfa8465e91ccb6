"""Probes of critics, of their targets, and what else they can be drawn to."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.probes import formulas
from harness.probes.contract import Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import NETWORKS
from harness.probes.probe import Measurement, Probe, Unmeasured, listed, relation
from harness.probes.readings import UPDATES, batch, critic_updates, critics, polyak, spread
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
    run: Run, step: Step, paper: Array, others: Mapping[str, Array]
) -> tuple[Array, Mapping[str, Array]]:
    """Targets of next values: the paper's, those of other values, and with other masks.

    Args:
        run: Whose update it is.
        step: Of the critics.
        paper: The paper's next values, float[rows].
        others: Other next values, by what they are.
    """
    data, gamma = batch(run, step), run.hyperparameters.gamma
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


@dataclasses.dataclass(frozen=True)
class Reader:
    """How loss and target are read off an update of critics.

    Attributes:
        slopes: Second derivatives of the loss by predictions times the rows, float[some rows].
        target: What predictions are drawn to, float[rows]; not a number where that shows nowhere.
    """

    slopes: Callable[[Run, Step], Array]
    target: Callable[[Lab, Run, Step], Array]


TWINS = Reader(
    lambda run, step: critics(run, step).slope, lambda lab, run, step: critics(run, step).target
)
"""Two critics with one target tell both."""
LOUD = 1e3
"""What rewards are multiplied by to see whether gradients are clipped."""
LINEAR = "its loss is linear at these errors, so that none can be read off it"
FIRST = f"in the first {UPDATES} updates"


@dataclasses.dataclass(frozen=True)
class Questions:
    """The questions about the critics of one algorithm.

    Attributes:
        algorithm: One with critics and their targets.
        run: Some updates on minibatches with all kinds of ends.
        loud: The same with huge rewards and steep critics.
        copies: The same on several copies of the environment.
        full: The same with a buffer that is full before.
        target: The paper's targets of a step, and others by what they are.
        terms: What these targets are summed from, with the paper's weights, by name.
        paper: Citation of the critics' loss.
        half: Whether the paper's loss is half the squared error.
        reader: Reads an update.
        plain: The training whose slopes are read; None for `run`.
        steps: Which updates are read.
    """

    algorithm: str
    run: Runner
    loud: Runner
    copies: Runner
    full: Runner
    target: Callable[[Run, Step], Targets]
    terms: Callable[[Run, Step], Terms]
    paper: str
    half: bool
    reader: Reader = TWINS
    plain: Runner | None = None
    steps: Callable[[Run], list[Step]] = critic_updates

    def probes(self) -> Sequence[Probe]:
        """All of them."""
        return (
            self._loss_factor(),
            *self.targets(),
            self.weights(),
            self._clipping(),
            self.moves(),
        )

    def _name(self, part: str) -> str:
        return f"{self.algorithm}.{part}"

    def _target(
        self, name: str, question: str, source: str, words: str, measure: Runner, end: int | None
    ) -> Probe:
        def measured(lab: Lab) -> Measurement:
            return self.drawn_to(lab, measure(lab), end)

        text = f"value target, in units of return, {FIRST}"
        # Rows whose hidden units are hard to tell apart are read least exactly; where all rows
        # count, the hardest do.
        room = 1e-3 if end is None else 5e-4
        return Probe(
            self._name(name), question, source, text, measured, relation(words), tolerance=room
        )

    def targets(self) -> Sequence[Probe]:
        """What critics are drawn to, in the middle of episodes, at their ends, and elsewhere."""
        pardo = "Pardo et al. 2018 (arXiv:1712.00378), eq. 6: time goes on, so bootstrap"
        return (
            self._target(
                "critic_target",
                "What are critics drawn to, in the middle of an episode?",
                self.paper,
                "target",
                self.run,
                0,
            ),
            self._target(
                "termination_target",
                "What are critics drawn to where the task ended?",
                f"{self.paper}: nothing follows, the target is the reward",
                "target at the end of the task",
                self.run,
                TERMINATED,
            ),
            self._target(
                "truncation_target",
                "What are critics drawn to where a time limit cut the episode?",
                pardo,
                "target at a time limit",
                self.run,
                TRUNCATED,
            ),
            self._target(
                "target_with_copies",
                "What are critics drawn to with several copies of the environment?",
                f"{self.paper}; {pardo}",
                "target",
                self.copies,
                None,
            ),
            self._target(
                "full_buffer_target",
                "What are critics drawn to when the buffer is full?",
                f"{self.paper}; {pardo}",
                "target",
                self.full,
                None,
            ),
        )

    def drawn_to(self, lab: Lab, run: Run, end: int | None) -> Measurement:
        """Targets of the first updates against the paper's.

        Args:
            lab: Where it was carried out.
            run: The training.
            end: How the steps ended that count; None for all.

        Raises:
            Unmeasured: There are none.
        """
        value: list[Array] = []
        expected: list[Array] = []
        others: dict[str, list[Array]] = {}
        for step in _solvable(run, self.steps(run)):
            target = self.reader.target(lab, run, step)
            rows = _read(_rows(run, step, end), target)
            paper, known = self.target(run, step)
            value.append(target[rows])
            expected.append(paper[rows])
            for name, array in known.items():
                others.setdefault(name, []).append(array[rows])
        joined = {name: np.concatenate(arrays) for name, arrays in others.items()}
        found = np.concatenate(value)
        if not len(found):
            raise Unmeasured(LINEAR)
        return Measurement(found, np.concatenate(expected), alternatives=joined)

    def weights(self) -> Probe:
        """What targets are summed from."""
        names = ("reward", "next value", "log-probability")[: 3 if self.half else 2]

        def measure(lab: Lab) -> Measurement:
            run = self.run(lab)
            steps = self.steps(run)
            drawn = (self.reader.target(lab, run, step) for step in steps)
            found = np.array(
                [self._weights_of(run, *pair) for pair in zip(steps, drawn, strict=True)]
            )
            due = np.array([[weight for _, weight in self.terms(run, s).values()] for s in steps])
            others: dict[str, list[Array]] = {}
            for step in steps:
                for name, target in self.target(run, step)[1].items():
                    others.setdefault(name, []).append(self._weights_of(run, step, target))
            return Measurement(
                found, due, alternatives={name: np.array(each) for name, each in others.items()}
            )

        return Probe(
            self._name("target_weights"),
            "How much does each term weigh in what critics are drawn to?",
            self.paper,
            f"weight, by least squares, per update: {', '.join(names)}",
            measure,
            listed([f"weight of the {term}" for term in names]),
        )

    def _weights_of(self, run: Run, step: Step, target: Array) -> Array:
        rows, known = _read(_rows(run, step, 0), target), self.terms(run, step)
        if len(rows) < len(known):
            raise Unmeasured(LINEAR)
        basis = np.stack([term[rows] for term, _ in known.values()], axis=1)
        return np.asarray(np.linalg.lstsq(basis, target[rows], rcond=None)[0], float)

    def _loss_factor(self) -> Probe:
        def measure(lab: Lab) -> Measurement:
            # The updates after the first show whether gradients are left over.
            run = (self.plain or self.run)(lab)
            steps = critic_updates(run)
            measured = np.ravel([spread(self.reader.slopes(run, step)) for step in steps])
            return Measurement(measured, np.full_like(measured, 1.0 if self.half else 2.0))

        return Probe(
            self._name("critic_loss_factor"),
            "How strongly is a critic drawn to its target?",
            f"{self.paper}: {'one half of the' if self.half else 'the mean'} squared error",
            "second derivative of the critic loss by a prediction, times the minibatch size; "
            f"smallest, median and largest of the rows, {FIRST}",
            measure,
            relation("pull on the critic"),
        )

    def _clipping(self) -> Probe:
        def pull(run: Run) -> Array:
            slopes = (self.reader.slopes(run, step) for step in critic_updates(run)[:2])
            return np.array([np.median(slope) for slope in slopes])

        def measure(lab: Lab) -> Measurement:
            shares = pull(self.loud(lab)) / pull((self.plain or self.run)(lab))
            return Measurement(shares, np.ones_like(shares))

        return Probe(
            self._name("critic_gradient_clipping"),
            "Are huge gradients of the critics clipped?",
            f"{self.paper}: they are not",
            f"pull on a critic when rewards are {LOUD:g} times as large, as a share, "
            "in the first two updates",
            measure,
            relation("pull under huge rewards"),
            tolerance=0.01,
        )

    def moves(self) -> Probe:
        """How far targets move."""
        there = NETWORKS[self.algorithm]
        names = sorted(name for name in there if f"{name}_target" in there)

        def measure(lab: Lab) -> Measurement:
            run = self.run(lab)
            shares = np.array([polyak(run, name) for name in names])
            return Measurement(shares, np.full_like(shares, run.hyperparameters.tau))

        return Probe(
            self._name("target_update"),
            "How far do target networks move to the online ones?",
            f"{self.paper}: by tau",
            f"share of the way of {', '.join(names)}, in the first {UPDATES} moves at most",
            measure,
            relation("step of the targets"),
        )


def _solvable(run: Run, steps: Sequence[Step]) -> list[Step]:
    # Where a transition comes twice in a minibatch, only the sum of both pulls is known.
    found = [s for s in steps if _distinct(batch(run, s).observations)]
    if not found:
        raise Unmeasured("its minibatches hold transitions several times")
    return found


def _distinct(rows: Array) -> bool:
    return len(np.unique(rows, axis=0)) == len(rows)


def _rows(run: Run, step: Step, end: int | None) -> NDArray[np.intp]:
    ends = batch(run, step).ends
    rows = np.arange(len(ends)) if end is None else np.flatnonzero(ends == end)
    if not len(rows):
        raise Unmeasured("no such transition in the minibatch")
    return rows


def _read(rows: NDArray[np.intp], target: Array) -> NDArray[np.intp]:
    # Those of the rows whose target was read.
    return rows[~np.isnan(target[rows])]


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
