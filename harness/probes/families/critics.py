"""Probes of critics, of their targets, and what else they can be drawn to."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.measurements import (
    MAX_UPDATES,
    find_minibatch,
    list_critic_updates,
    measure_polyak_shares,
    read_critics,
    summarize_spread,
)
from parallax.harness.probes.probe import (
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.reference_networks import (
    HIDDEN_LAYERS,
    NETWORK_NAMES,
    compute_output,
    solve_output_gradient,
)

TargetAlternatives = tuple[Array, Mapping[str, Array]]
"""The paper's, float[rows], and others by what they are."""
TargetTerms = Mapping[str, tuple[Array, float]]
"""What targets are summed from: float[rows] and its weight, by name."""


def list_twin_values(first: Array, second: Array) -> dict[str, Array]:
    """What one can make of the two target critics but for the smaller value, by what it is."""
    return {
        "the first critic alone": first,
        "the second critic alone": second,
        "the larger of both critics": np.maximum(first, second),
        "the mean of both critics": (first + second) / 2,
    }


def compute_masked_targets(
    run: ProbeRun, step: OptimizerStepRecord, paper: Array, others: Mapping[str, Array]
) -> tuple[Array, Mapping[str, Array]]:
    """Targets of next values: the paper's, those of other values, and with other masks.

    Args:
        run: Whose update it is.
        step: Of the critics.
        paper: The paper's next values, float[rows].
        others: Other next values, by what they are.
    """
    data, gamma = find_minibatch(run, step), run.hyperparameters.gamma
    ended = (data.ends == TERMINATED).astype(float)

    def target(value: Array, mask: Array) -> Array:
        return formulas.compute_td_target(data.rewards, mask, gamma, value)

    masks = {
        "bootstraps, although nothing follows": np.zeros_like(ended),
        "does not bootstrap: the target is the reward": np.ones_like(ended),
    }
    found = {f"target: {name}": target(value, ended) for name, value in others.items()}
    return target(paper, ended), found | {n: target(paper, m) for n, m in masks.items()}


RunExperiment = Callable[[ExperimentCache], ProbeRun]


@dataclasses.dataclass(frozen=True)
class CriticReader:
    """How loss and target are read off an update of critics.

    Attributes:
        slopes: Second derivatives of the loss by predictions times the rows, float[some rows].
        target: What predictions are drawn to, float[rows]; not a number where that shows nowhere.
    """

    slopes: Callable[[ProbeRun, OptimizerStepRecord], Array]
    target: Callable[[ExperimentCache, ProbeRun, OptimizerStepRecord], Array]


TWIN_CRITIC_READER = CriticReader(
    lambda run, step: read_critics(run, step).slope,
    lambda lab, run, step: read_critics(run, step).target,
)
"""Two critics with one target tell both."""
REWARD_SCALE = 1e3
"""What rewards are multiplied by to see whether gradients are clipped."""
LINEAR_LOSS_NOTE = "its loss is linear at these errors, so that none can be read off it"
FIRST_UPDATES_TEXT = f"in the first {MAX_UPDATES} updates"


@dataclasses.dataclass(frozen=True)
class CriticProbes:
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
    run: RunExperiment
    run_huge_rewards: RunExperiment
    copies: RunExperiment
    full: RunExperiment
    target: Callable[[ProbeRun, OptimizerStepRecord], TargetAlternatives]
    terms: Callable[[ProbeRun, OptimizerStepRecord], TargetTerms]
    paper: str
    half: bool
    reader: CriticReader = TWIN_CRITIC_READER
    plain: RunExperiment | None = None
    steps: Callable[[ProbeRun], list[OptimizerStepRecord]] = list_critic_updates

    def probes(self) -> Sequence[Probe]:
        """All of them."""
        return (
            self._build_loss_factor_probe(),
            *self.targets(),
            self.weights(),
            self._build_clipping_probe(),
            self.build_move_probe(),
        )

    def _make_probe_name(self, part: str) -> str:
        return f"{self.algorithm}.{part}"

    def _build_target_probe(
        self,
        name: str,
        question: str,
        source: str,
        words: str,
        measure: RunExperiment,
        end: int | None,
    ) -> Probe:
        def measured(lab: ExperimentCache) -> ProbeMeasurement:
            return self.measure_targets(lab, measure(lab), end)

        text = f"value target, in units of return, {FIRST_UPDATES_TEXT}"
        # Rows whose hidden units are hard to tell apart are read least exactly; where all rows
        # count, the hardest do.
        room = 1e-3 if end is None else 5e-4
        return Probe(
            self._make_probe_name(name),
            question,
            source,
            text,
            measured,
            make_relation_description(words),
            tolerance=room,
        )

    def targets(self) -> Sequence[Probe]:
        """What critics are drawn to, in the middle of episodes, at their ends, and elsewhere."""
        pardo = "Pardo et al. 2018 (arXiv:1712.00378), eq. 6: time goes on, so bootstrap"
        return (
            self._build_target_probe(
                "critic_target",
                "What are critics drawn to, in the middle of an episode?",
                self.paper,
                "target",
                self.run,
                0,
            ),
            self._build_target_probe(
                "termination_target",
                "What are critics drawn to where the task ended?",
                f"{self.paper}: nothing follows, the target is the reward",
                "target at the end of the task",
                self.run,
                TERMINATED,
            ),
            self._build_target_probe(
                "truncation_target",
                "What are critics drawn to where a time limit cut the episode?",
                pardo,
                "target at a time limit",
                self.run,
                TRUNCATED,
            ),
            self._build_target_probe(
                "target_with_copies",
                "What are critics drawn to with several copies of the environment?",
                f"{self.paper}; {pardo}",
                "target",
                self.copies,
                None,
            ),
            self._build_target_probe(
                "full_buffer_target",
                "What are critics drawn to when the buffer is full?",
                f"{self.paper}; {pardo}",
                "target",
                self.full,
                None,
            ),
        )

    def measure_targets(
        self, lab: ExperimentCache, run: ProbeRun, end: int | None
    ) -> ProbeMeasurement:
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
        for step in _list_solvable_steps(run, self.steps(run)):
            target = self.reader.target(lab, run, step)
            rows = _drop_missing_rows(_find_rows_by_end(run, step, end), target)
            paper, known = self.target(run, step)
            value.append(target[rows])
            expected.append(paper[rows])
            for name, array in known.items():
                others.setdefault(name, []).append(array[rows])
        joined = {name: np.concatenate(arrays) for name, arrays in others.items()}
        found = np.concatenate(value)
        if not len(found):
            raise UnmeasuredError(LINEAR_LOSS_NOTE)
        return ProbeMeasurement(found, np.concatenate(expected), alternatives=joined)

    def weights(self) -> Probe:
        """What targets are summed from."""
        names = ("reward", "next value", "log-probability")[: 3 if self.half else 2]

        def measure(lab: ExperimentCache) -> ProbeMeasurement:
            run = self.run(lab)
            steps = self.steps(run)
            drawn = (self.reader.target(lab, run, step) for step in steps)
            found = np.array(
                [self._fit_target_weights(run, *pair) for pair in zip(steps, drawn, strict=True)]
            )
            due = np.array([[weight for _, weight in self.terms(run, s).values()] for s in steps])
            others: dict[str, list[Array]] = {}
            for step in steps:
                for name, target in self.target(run, step)[1].items():
                    others.setdefault(name, []).append(self._fit_target_weights(run, step, target))
            return ProbeMeasurement(
                found, due, alternatives={name: np.array(each) for name, each in others.items()}
            )

        return Probe(
            self._make_probe_name("target_weights"),
            "How much does each term weigh in what critics are drawn to?",
            self.paper,
            f"weight, by least squares, per update: {', '.join(names)}",
            measure,
            make_entry_description([f"weight of the {term}" for term in names]),
        )

    def _fit_target_weights(self, run: ProbeRun, step: OptimizerStepRecord, target: Array) -> Array:
        rows, known = (
            _drop_missing_rows(_find_rows_by_end(run, step, 0), target),
            self.terms(run, step),
        )
        if len(rows) < len(known):
            raise UnmeasuredError(LINEAR_LOSS_NOTE)
        basis = np.stack([term[rows] for term, _ in known.values()], axis=1)
        return np.asarray(np.linalg.lstsq(basis, target[rows], rcond=None)[0], float)

    def _build_loss_factor_probe(self) -> Probe:
        def measure(lab: ExperimentCache) -> ProbeMeasurement:
            # The updates after the first show whether gradients are left over.
            run = (self.plain or self.run)(lab)
            steps = list_critic_updates(run)
            measured = np.ravel([summarize_spread(self.reader.slopes(run, step)) for step in steps])
            return ProbeMeasurement(measured, np.full_like(measured, 1.0 if self.half else 2.0))

        return Probe(
            self._make_probe_name("critic_loss_factor"),
            "How strongly is a critic drawn to its target?",
            f"{self.paper}: {'one half of the' if self.half else 'the mean'} squared error",
            "second derivative of the critic loss by a prediction, times the minibatch size; "
            f"smallest, median and largest of the rows, {FIRST_UPDATES_TEXT}",
            measure,
            make_relation_description("pull on the critic"),
        )

    def _build_clipping_probe(self) -> Probe:
        def pull(run: ProbeRun) -> Array:
            slopes = (self.reader.slopes(run, step) for step in list_critic_updates(run)[:2])
            return np.array([np.median(slope) for slope in slopes])

        def measure(lab: ExperimentCache) -> ProbeMeasurement:
            shares = pull(self.run_huge_rewards(lab)) / pull((self.plain or self.run)(lab))
            return ProbeMeasurement(shares, np.ones_like(shares))

        return Probe(
            self._make_probe_name("critic_gradient_clipping"),
            "Are huge gradients of the critics clipped?",
            f"{self.paper}: they are not",
            f"pull on a critic when rewards are {REWARD_SCALE:g} times as large, as a share, "
            "in the first two updates",
            measure,
            make_relation_description("pull under huge rewards"),
            tolerance=0.01,
        )

    def build_move_probe(self) -> Probe:
        """How far targets move."""
        there = NETWORK_NAMES[self.algorithm]
        names = sorted(name for name in there if f"{name}_target" in there)

        def measure(lab: ExperimentCache) -> ProbeMeasurement:
            run = self.run(lab)
            shares = np.array([measure_polyak_shares(run, name) for name in names])
            return ProbeMeasurement(shares, np.full_like(shares, run.hyperparameters.tau))

        return Probe(
            self._make_probe_name("target_update"),
            "How far do target networks move to the online ones?",
            f"{self.paper}: by tau",
            f"share of the way of {', '.join(names)}, in the first {MAX_UPDATES} moves at most",
            measure,
            make_relation_description("step of the targets"),
        )


def _list_solvable_steps(
    run: ProbeRun, steps: Sequence[OptimizerStepRecord]
) -> list[OptimizerStepRecord]:
    # Where a transition comes twice in a minibatch, only the sum of both pulls is known.
    found = [s for s in steps if _has_distinct_rows(find_minibatch(run, s).observations)]
    if not found:
        raise UnmeasuredError("its minibatches hold transitions several times")
    return found


def _has_distinct_rows(rows: Array) -> bool:
    return len(np.unique(rows, axis=0)) == len(rows)


def _find_rows_by_end(
    run: ProbeRun, step: OptimizerStepRecord, end: int | None
) -> NDArray[np.intp]:
    ends = find_minibatch(run, step).ends
    rows = np.arange(len(ends)) if end is None else np.flatnonzero(ends == end)
    if not len(rows):
        raise UnmeasuredError("no such transition in the minibatch")
    return rows


def _drop_missing_rows(rows: NDArray[np.intp], target: Array) -> NDArray[np.intp]:
    # Those of the rows whose target was read.
    return rows[~np.isnan(target[rows])]


def make_critics_seen_probe(
    algorithm: str, measure: Callable[[ExperimentCache], ProbeMeasurement], paper: str
) -> Probe:
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


def make_policy_clipping_probe(
    algorithm: str, measure: Callable[[ExperimentCache], ProbeMeasurement], paper: str
) -> Probe:
    """Whether huge gradients of the policy are clipped."""
    return Probe(
        f"{algorithm}.policy_gradient_clipping",
        "Are huge gradients of the policy clipped?",
        f"{paper}: they are not",
        "pull on the policy where critics are 1000 times as steep, as a share of what is due",
        measure,
        make_relation_description("pull under steep critics"),
        tolerance=0.01,
    )


MIN_ERROR_SHARE = 0.2
"""Errors that are smaller, as a share of the largest, tell no slope."""


def solve_predictions_and_gradients(
    run: ProbeRun, step: OptimizerStepRecord
) -> tuple[Array, Array]:
    """Predictions of the critic, and derivatives of its loss by them times the rows.

    Args:
        run: The training.
        step: Of the critic.

    Returns:
        Both float[rows].
    """
    data, (_, activation) = find_minibatch(run, step), HIDDEN_LAYERS[run.experiment.algorithm]
    choosing = run.experiment.scripted_data.choices > 0
    inputs = data.observations if choosing else np.hstack([data.observations, data.actions])
    rows = np.arange(len(inputs))
    taken = data.actions[:, 0].astype(int) if choosing else np.zeros_like(rows)
    predictions = compute_output(step.before, "critic1", inputs, activation)
    gradients = solve_output_gradient(step.gradients, step.before, "critic1", inputs, activation)
    return predictions[rows, taken], gradients[rows, taken] * len(rows)


def compute_loss_slopes(run: ProbeRun, step: OptimizerStepRecord) -> Array:
    """Second derivatives of the loss in a training without a future, float[some rows]."""
    predictions, pulls = solve_predictions_and_gradients(run, step)
    errors = predictions - find_minibatch(run, step).rewards
    far = np.abs(errors) > MIN_ERROR_SHARE * np.abs(errors).max()
    return np.asarray(pulls[far] / errors[far])


def make_single_critic_reader(bandit: Callable[[ExperimentCache], ProbeRun]) -> CriticReader:
    """Reads the updates of an algorithm with one critic.

    Args:
        bandit: A training with a discount of 0.
    """

    def target(lab: ExperimentCache, run: ProbeRun, step: OptimizerStepRecord) -> Array:
        plain = bandit(lab)
        slope = np.median(compute_loss_slopes(plain, list_critic_updates(plain)[0]))
        predictions, pulls = solve_predictions_and_gradients(run, step)
        return np.asarray(predictions - pulls / slope)

    return CriticReader(compute_loss_slopes, target)
