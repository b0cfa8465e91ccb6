"""Probes of critics: loss, targets, clipping of gradients, and updates of target networks.

The gradients of two critics with one target show both the loss and the target. A single critic's do
not: one gradient cannot separate the strength of the loss from its target. In a training with a
discount of 0 the target is the reward, so its gradients show the loss; with that known, those of
other trainings show the target.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import CRITIC_LOSS, POLICY_LOSS, OptimizerStepRecord
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED
from parallax.harness.probes.experiment_setups import REWARD_SCALE, OffPolicyRuns
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun, compute_once
from parallax.harness.probes.families.optimisation import (
    EARLIER_GRADIENTS,
    adds_earlier_gradients,
    explain_foreign_gradients,
)
from parallax.harness.probes.measurements import (
    MAX_UPDATES,
    NEXT_OBSERVATIONS,
    describe_detour,
    describe_share,
    find_minibatch,
    find_transition_rows,
    learns_at_next_observations,
    list_critic_names,
    list_critic_updates,
    measure_misfit,
    measure_target_shares,
    name_arrays,
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
    Activation,
    compute_output,
    solve_output_gradient,
)
from parallax.harness.probes.relation import KIND_SEPARATOR

TargetAlternatives = tuple[Array, Mapping[str, Array]]
"""The paper's targets, float[rows], and those of other formulas by their description."""
TargetTerms = Mapping[str, tuple[Array, float]]
"""Terms whose weighted sum is a target: float[rows] and weight, by name."""


def compute_masked_targets(
    run: ProbeRun, step: OptimizerStepRecord, paper: Array, others: Mapping[str, Array]
) -> tuple[Array, Mapping[str, Array]]:
    """Return the paper's targets, and those with other next values or other masks.

    Args:
        run: The training.
        step: Optimizer step of the critics.
        paper: The paper's next values, float[rows].
        others: Other next values, by their description.
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


NEXT_EPISODE = "the next state at a time limit is the first one of the next episode"
RunExperiment = Callable[[ExperimentCache], ProbeRun]


@dataclasses.dataclass(frozen=True)
class CriticReader:
    """Functions that read loss and target from an update of critics.

    Attributes:
        slopes: Second derivatives of the loss by predictions times the rows, float[some rows].
        target: Targets of the predictions, float[rows]; NaN where the gradient does not show them.
    """

    slopes: Callable[[ProbeRun, OptimizerStepRecord], Array]
    target: Callable[[ExperimentCache, ProbeRun, OptimizerStepRecord], Array]


TWIN_CRITIC_READER = CriticReader(
    lambda run, step: read_critics(run, step).slope,
    lambda cache, run, step: read_critics(run, step).target,
)
"""Reads loss and target from the gradients of two critics with one target."""
LINEAR_LOSS_NOTE = "its loss is linear at these errors, so that none can be read off it"
END_KINDS = {0: "within episodes", TERMINATED: "at terminations", TRUNCATED: "at time limits"}
STALE_NETWORK = "target: that of the target network before it moved last"
FIRST_UPDATES_TEXT = f"in the first {MAX_UPDATES} updates"


@dataclasses.dataclass(frozen=True)
class CriticProbes:
    """The questions about the critics of one algorithm.

    Attributes:
        runs: Trainings of an algorithm with critics and target networks.
        run_huge_rewards: Runs some updates with huge rewards and steep critics.
        target: Returns the paper's targets of a step, and others by their description.
        terms: Returns the terms of these targets with the paper's weights, by name.
        paper: Citation of the critics' loss.
        halves_loss: Whether the paper's loss is half the squared error.
        term_names: Names of the terms.
        reader: Reads loss and target from an update.
        run_for_slopes: Runs the training whose loss is read; None for `runs.run_update`.
        steps: Lists the updates that are read.
    """

    runs: OffPolicyRuns
    run_huge_rewards: RunExperiment
    target: Callable[[ProbeRun, OptimizerStepRecord], TargetAlternatives]
    terms: Callable[[ProbeRun, OptimizerStepRecord], TargetTerms]
    paper: str
    halves_loss: bool
    term_names: tuple[str, ...] = ("reward", "next value")
    reader: CriticReader = TWIN_CRITIC_READER
    run_for_slopes: RunExperiment | None = None
    steps: Callable[[ProbeRun], list[OptimizerStepRecord]] = list_critic_updates

    def build_probes(self) -> Sequence[Probe]:
        """Return all questions about the critics."""
        return (
            self._build_loss_factor_probe(),
            *self.build_target_probes(),
            self.build_weight_probe(),
            self._build_clipping_probe(),
            self.build_move_probe(self.runs.run_update),
        )

    def build_target_probes(self) -> Sequence[Probe]:
        """Return the probes of targets within episodes, at their ends, and in other settings."""
        pardo = "Pardo et al. 2018 (arXiv:1712.00378), eq. 6: time goes on, so bootstrap"
        nothing = f"{self.paper}: nothing follows, the target is the reward"
        one, several = self.runs.run_update, self.runs.run_parallel_update
        both, full = f"{self.paper}; {pardo}", self.runs.run_full_buffer
        limit, goal = "at a truncation by a time limit", " at the end of the task"
        cases: Sequence[tuple[str, str, str, str, RunExperiment, int | None]] = (
            ("critic_target", "within an episode", self.paper, "", one, 0),
            ("termination_target", "at a termination", nothing, goal, one, TERMINATED),
            ("truncation_target", limit, pardo, " at a time limit", one, TRUNCATED),
            ("target_with_copies", "with parallel environments", both, "", several, None),
            ("full_buffer_target", "when the buffer is full", both, "", full, None),
        )
        # The linear system is worst conditioned for rows with similar hidden units; without a
        # selection of rows the worst of them is included.
        return tuple(
            Probe(
                f"{self.runs.algorithm}.{name}",
                f"What is the critics' target {place}?",
                source,
                f"value target, in units of return, {FIRST_UPDATES_TEXT}",
                functools.partial(self.measure_targets, run, end),
                make_relation_description(f"target{words}"),
                tolerance=1e-3 if end is None else 5e-4,
                events=(CRITIC_LOSS,),
            )
            for name, place, source, words, run, end in cases
        )

    def measure_targets(
        self, run_updates: RunExperiment, end: int | None, cache: ExperimentCache
    ) -> ProbeMeasurement:
        """Compare the targets of the first updates with the paper's.

        Args:
            run_updates: Runs the training.
            end: Kind of step that is compared (0, `TERMINATED` or `TRUNCATED`); None for all.
            cache: The framework's runs.

        Raises:
            UnmeasuredError: No target can be read.
        """
        value: list[Array] = []
        expected: list[Array] = []
        others: dict[str, list[Array]] = {}
        terms: dict[str, list[Array]] = {}
        kinds: list[str] = []
        read: list[tuple[OptimizerStepRecord, NDArray[np.intp]]] = []
        run = run_updates(cache)
        for step in _list_solvable_steps(run, self.steps(run)):
            target = self.reader.target(cache, run, step)
            rows = _drop_missing_rows(_find_rows_by_end(run, step, end), target)
            paper, known = self._list_targets(run, step)
            read.append((step, rows))
            value.append(target[rows])
            expected.append(paper[rows])
            kinds += _list_kinds(run, step, len(read), rows)
            for name, array in known.items():
                others.setdefault(name, []).append(array[..., rows])
            for name, (term, _) in self.terms(run, step).items():
                terms.setdefault(f"the {name}", []).append(term[rows])
        joined, parts = (
            {name: np.concatenate(arrays, axis=-1) for name, arrays in each.items()}
            for each in (others, terms)
        )
        found = np.concatenate(value)
        if not len(found):
            raise UnmeasuredError(LINEAR_LOSS_NOTE)
        if cause := self._explain_gradients(run):
            joined[cause] = found
        explain = functools.partial(explain_targets, run, found, read)
        due = np.concatenate(expected)
        return ProbeMeasurement(found, due, None, joined, parts, kinds, explain=explain)

    def _list_targets(self, run: ProbeRun, step: OptimizerStepRecord) -> TargetAlternatives:
        paper, known = self.target(run, step)
        return paper, {**known, STALE_NETWORK: self.target(run, _undo_target_move(run, step))[0]}

    def _explain_gradients(self, run: ProbeRun) -> str:
        """Return which other sum of the paper's errors the first critic's gradients are."""
        if cause := explain_foreign_gradients(run, "critic1"):
            return cause
        if cause := self._compare_losses(run) or describe_untaken_pulls(run):
            return cause
        pairs = [
            (*solve_predictions_and_gradients(run, step), self.target(run, step)[0])
            for step in list_critic_updates(run)
        ]
        if cause := _describe_scaled_values(pairs) or describe_error_power(pairs):
            return cause
        error = measure_misfit(pairs[0][0] - pairs[0][2], pairs[0][1])
        fits = (measure_misfit(value - target.mean(), slope) for value, slope, target in pairs)
        return ALL_PAIRS if error >= MAX_FIT_ERROR > max(fits) else ""

    def _compare_losses(self, run: ProbeRun) -> str:
        """Return the weight of the second critic's loss if it is not the first's, else nothing."""
        if len(list_critic_names(run)) < 2:
            return ""
        factors = []
        for step in list_critic_updates(run):
            reading = read_critics(run, step)
            errors = reading.predictions - self.target(run, step)[0]
            pairs = [*zip(errors, reading.gradients, strict=True)]
            if max(measure_misfit(error, pull) for error, pull in pairs) >= MAX_FIT_ERROR:
                return ""
            factors.append([float(error @ pull) / float(error @ error) for error, pull in pairs])
        first, second = np.median(factors, axis=0)
        if np.isclose(first, second, rtol=MAX_FIT_ERROR):
            return ""
        return f"the second critic's loss weighs {second / first:.3g} times the first's"

    def build_weight_probe(self) -> Probe:
        """Return the probe of the weights of a target's terms."""
        names = self.term_names

        def measure(cache: ExperimentCache) -> ProbeMeasurement:
            run = self.runs.run_update(cache)
            steps = self.steps(run)
            drawn = (self.reader.target(cache, run, step) for step in steps)
            found = np.array(
                [self._fit_target_weights(run, *pair) for pair in zip(steps, drawn, strict=True)]
            )
            due = np.array([[weight for _, weight in self.terms(run, s).values()] for s in steps])
            others: dict[str, list[Array]] = {}
            for step in steps:
                for name, target in self._list_targets(run, step)[1].items():
                    fits = [self._fit_target_weights(run, step, t) for t in np.atleast_2d(target)]
                    others.setdefault(name, []).append(np.array(fits))
            known = {name: np.stack(each, axis=1) for name, each in others.items()}
            targets = functools.partial(self.measure_targets, self.runs.run_update, 0, cache)
            return ProbeMeasurement(found, due, None, known, explain=lambda: targets().explain())

        return Probe(
            f"{self.runs.algorithm}.target_weights",
            "How much does each term weigh in the critics' target?",
            self.paper,
            f"weight, by least squares, per update: {', '.join(names)}",
            measure,
            make_entry_description([f"weight of the {term}" for term in names]),
            events=(CRITIC_LOSS,),
        )

    def _fit_target_weights(self, run: ProbeRun, step: OptimizerStepRecord, target: Array) -> Array:
        rows = _drop_missing_rows(_find_rows_by_end(run, step, 0), target)
        known = self.terms(run, step)
        if len(rows) < len(known):
            raise UnmeasuredError(LINEAR_LOSS_NOTE)
        basis = np.stack([term[rows] for term, _ in known.values()], axis=1)
        return np.asarray(np.linalg.lstsq(basis, target[rows], rcond=None)[0], float)

    def _build_loss_factor_probe(self) -> Probe:
        def measure(cache: ExperimentCache) -> ProbeMeasurement:
            # Later updates show whether gradients of earlier ones are added up.
            run = (self.run_for_slopes or self.runs.run_update)(cache)
            steps = list_critic_updates(run)
            measured = np.ravel([summarize_spread(self.reader.slopes(run, step)) for step in steps])
            due = np.full_like(measured, 1.0 if self.halves_loss else 2.0)
            means = np.outer((0.5, *LOSS_FACTORS), np.ones_like(measured))
            others = {SUMMED_LOSS: run.hyperparameters.batch_size * means}
            if cause := self._explain_gradients(run):
                others[cause] = measured
            explain = functools.partial(explain_critic_gradients, run)
            return ProbeMeasurement(measured, due, alternatives=others, explain=explain)

        return Probe(
            f"{self.runs.algorithm}.critic_loss_factor",
            "How large is the critic loss, by its second derivative?",
            f"{self.paper}: {'one half of the' if self.halves_loss else 'the mean'} squared error",
            "second derivative of the critic loss by a prediction, times the minibatch size; "
            f"smallest, median and largest of the rows, {FIRST_UPDATES_TEXT}",
            measure,
            make_relation_description("pull on the critic"),
            events=(CRITIC_LOSS,),
        )

    def _build_clipping_probe(self) -> Probe:
        def measure_slopes(run: ProbeRun) -> Array:
            slopes = (self.reader.slopes(run, step) for step in list_critic_updates(run)[:2])
            return np.array([np.median(slope) for slope in slopes])

        def measure(cache: ExperimentCache) -> ProbeMeasurement:
            shares = measure_slopes(self.run_huge_rewards(cache)) / measure_slopes(
                (self.run_for_slopes or self.runs.run_update)(cache)
            )
            return ProbeMeasurement(shares, np.ones_like(shares))

        return Probe(
            f"{self.runs.algorithm}.critic_gradient_clipping",
            "Are huge gradients of the critics clipped?",
            f"{self.paper}: they are not",
            f"pull on a critic when rewards are {REWARD_SCALE:g} times as large, as a share, "
            "in the first two updates",
            measure,
            make_relation_description("pull under huge rewards"),
            tolerance=0.01,
            events=(CRITIC_LOSS,),
        )

    def build_move_probe(self, run_updates: RunExperiment) -> Probe:
        """Return the probe of the share by which target networks move in a training."""
        return make_target_move_probe(
            f"{self.runs.algorithm}.target_update",
            "How far does each array of a target network move to the online one?",
            f"{self.paper}: by tau",
            lambda cache: measure_target_moves(run_updates(cache)),
            list_target_arrays(self.runs.algorithm),
        )


def _list_kinds(
    run: ProbeRun, step: OptimizerStepRecord, number: int, rows: NDArray[np.intp]
) -> list[str]:
    # The end, the update and the environment of each target.
    data, n_envs = find_minibatch(run, step), run.experiment.n_envs
    copies = find_transition_rows(run, data.observations) % n_envs + 1
    parts = ((END_KINDS[data.ends[row]], f"in update {number}", copies[row]) for row in rows)
    return [
        KIND_SEPARATOR.join((end, update, f"in environment {copy}")) for end, update, copy in parts
    ]


def explain_targets(
    run: ProbeRun, found: Array, read: Sequence[tuple[OptimizerStepRecord, NDArray[np.intp]]]
) -> str:
    """Return which quantity of the paper's targets, or of its loss, differs from the paper's."""
    # PyTorch and its second of start-up are only needed here.
    from parallax.harness.probes.families import changed_formulas

    known = [(step, rows) for step, rows in read if len(rows)]
    return changed_formulas.explain_targets(run, known, found) or explain_critic_gradients(run)


@compute_once
def explain_critic_gradients(run: ProbeRun) -> str:
    """Return which quantity of the critics' loss differs from the paper's, or ""."""
    from parallax.harness.probes.families import changed_formulas

    steps, twins = list_critic_updates(run)[:2], len(list_critic_names(run)) > 1
    pulls = [
        read_critics(run, step).gradients
        if twins
        else solve_predictions_and_gradients(run, step)[1][None]
        for step in steps
    ]
    return changed_formulas.explain_critic_gradients(run, steps, pulls)


def measure_policy_weights(
    run: ProbeRun,
    steps: Sequence[OptimizerStepRecord],
    fits: Sequence[tuple[Array, float]],
    paper: Sequence[float],
    others: dict[str, Array],
) -> ProbeMeasurement:
    """Return the weights of the terms of the policy's objective.

    Args:
        run: The training.
        steps: Optimizer steps of the policy.
        fits: Weights of each step, and the share of its gradient that they leave.
        paper: The paper's weights.
        others: Weights of other formulas, by their description; more are added.
    """
    found = np.array([weights for weights, _ in fits])
    if adds_earlier_gradients(run, "policy"):
        others[EARLIER_GRADIENTS] = found
    if learns_at_next_observations(run, steps[0]):
        found = np.zeros_like(found)  # nothing pulls at the minibatch's own observations
        others = {NEXT_OBSERVATIONS: found}

    def explain() -> str:
        # PyTorch and its second of start-up are only needed here.
        from parallax.harness.probes.families import changed_formulas

        rests = [rest for _, rest in fits[:2]]
        return changed_formulas.explain_policy_gradient(run, steps[:2], rests)

    expected = np.tile(paper, (len(found), 1))
    return ProbeMeasurement(found, expected, alternatives=others, explain=explain)


def describe_untaken_pulls(run: ProbeRun) -> str:
    """Return which values of other actions than the one taken learn, else nothing."""
    others, largest = list[bool](), list[bool]()
    for step in list_critic_updates(run):
        inputs, taken, activation = _list_critic_inputs(run, step)
        pulls = np.abs(
            solve_output_gradient(step.gradients, step.before, "critic1", inputs, activation)
        )
        learns = pulls.max(axis=1) > MIN_ERROR_SHARE * pulls.max()
        best = compute_output(step.before, "critic1", inputs, activation).argmax(axis=1)
        others += [*(pulls.argmax(axis=1) != taken)[learns]]
        largest += [*(pulls.argmax(axis=1) == best)[learns]]
    if not any(others):
        return ""
    return LARGEST_LEARNS if all(largest) else "values of actions that were not taken learn"


SUMMED_LOSS = "the loss is a sum over the minibatch, not a mean"
LARGEST_LEARNS = "the largest value learns, not that of the action taken"
ALL_PAIRS = "each value is compared with the targets of all transitions"
MAX_FIT_ERROR = 5e-3
"""Largest distance of a gradient from an exact multiple, as a share of the gradient."""
MIN_SCALE_DISTANCE = 0.02
"""Smallest distance from 1 of a factor of values: other changes imitate nearer ones."""
MIN_CLEAR_ERROR, MIN_CLEAR_ROWS = 0.02, 10
"""Smallest error, as a share of the largest, that rounding leaves clear, and fewest of them."""
LOSS_FACTORS = (1.0, 2.0)
"""Second derivatives of half the squared error and of the squared error."""


def _describe_scaled_values(pairs: Sequence[tuple[Array, Array, Array]]) -> str:
    # Predictions V, derivatives and targets y: with the errors c V - y these are f c (c V - y).
    value, pull, target = (np.concatenate(each) for each in zip(*pairs, strict=True))
    basis = np.stack([value, target], axis=1)
    weights = np.linalg.lstsq(basis, pull, rcond=None)[0]
    factor, loss = -weights[0] / weights[1], weights[1] ** 2 / weights[0]
    if abs(factor - 1) < MIN_SCALE_DISTANCE:
        return ""
    # If the value has a usual weight, the target is scaled and not the value.
    scales_target, is_usual_loss = (
        np.isclose(each, LOSS_FACTORS, rtol=MAX_FIT_ERROR).any() for each in (weights[0], loss)
    )
    if scales_target or not is_usual_loss:
        return ""
    if measure_misfit(basis @ weights, pull) >= MAX_FIT_ERROR:
        return ""
    return f"the loss compares {factor:.3g} times the value with the target"


def describe_error_power(pairs: Sequence[tuple[Array, Array, Array]]) -> str:
    """Return the power of the error that a loss is, if it is none of the usual ones; else "".

    Args:
        pairs: Predictions, derivatives of the loss by them, and targets of each update.
    """
    value, pull, target = (np.concatenate(each) for each in zip(*pairs, strict=True))
    error = value - target
    clear = np.abs(error) > MIN_CLEAR_ERROR * np.abs(error).max(initial=0.0)
    error, pull = error[clear], pull[clear]
    if len(error) < MIN_CLEAR_ROWS or not (pull * error > 0).all():
        return ""
    # The derivative of the absolute error to the power p is p times it to the power p - 1.
    x, y = np.log(np.abs(error)), np.log(np.abs(pull))
    slope, start = np.polyfit(x, y, 1)
    power = float(slope) + 1
    is_line = float(np.abs(start + slope * x - y).max()) < MAX_FIT_ERROR
    is_usual = min(abs(power - 1), abs(power - 2)) < MIN_SCALE_DISTANCE
    return f"the loss is the absolute error to the power {power:.3g}" * (is_line and not is_usual)


def list_target_arrays(algorithm: str) -> tuple[str, ...]:
    """Return the canonical names of the arrays of an algorithm's target networks."""
    return tuple(
        f"{network}.{layer}.{kind}"
        for network in NETWORK_NAMES[algorithm]
        if network.endswith("_target")
        for layer in ("0", "1", "out")
        for kind in ("weight", "bias")
    )


def measure_target_moves(run: ProbeRun) -> ProbeMeasurement:
    """Return the share by which each array of each target network moves, and tau."""
    tau, arrays = run.hyperparameters.tau, list_target_arrays(run.experiment.algorithm)
    found: dict[str, float] = {}
    for network in dict.fromkeys(name.partition("_target.")[0] for name in arrays):
        moved = measure_target_shares(run, network)
        found |= dict(zip(moved.names, moved.find_furthest_from(tau), strict=True))
    value = np.array([found[name] for name in arrays])
    due = np.where(np.isnan(value), np.nan, tau)
    detours = {n: describe_detour(run, n) for n, share in found.items() if np.isinf(share)}
    meaning = _describe_target_moves(value, tau, arrays, detours) if any(detours.values()) else ""
    return ProbeMeasurement(value, due, meaning=meaning)


def make_target_move_probe(
    name: str,
    question: str,
    source: str,
    measure: Callable[[ExperimentCache], ProbeMeasurement],
    arrays: Sequence[str],
) -> Probe:
    """Return a probe of the shares by which the arrays of target networks move."""
    return Probe(
        name,
        question,
        source,
        f"share of the way, furthest from tau in the first {MAX_UPDATES} moves at most: "
        + ", ".join(arrays),
        measure,
        lambda comparison, measurement: _describe_target_moves(
            measurement.value, float(np.nanmax(measurement.expected)), arrays, {}
        ),
    )


def _describe_target_moves(
    shares: Array, tau: float, arrays: Sequence[str], detours: Mapping[str, str]
) -> str:
    groups: dict[str, list[str]] = {}
    for name, share in zip(arrays, shares, strict=True):
        if np.isnan(share) or np.isclose(share, tau, rtol=MOVE_TOLERANCE):
            continue
        if share == 0:
            how = "never move"
        elif np.isinf(share):
            how = detours.get(name) or "move elsewhere than to the online network"
        else:
            how = f"move by {share:.3g}, {share / tau:.3g} times tau{describe_share(share, tau)}"
        groups.setdefault(how, []).append(name)
    return "; ".join(f"{name_arrays(names, arrays)} {how}" for how, names in groups.items())


MOVE_TOLERANCE = 2e-4
"""Relative deviation of a share from tau that counts as rounding."""


def _list_solvable_steps(
    run: ProbeRun, steps: Sequence[OptimizerStepRecord]
) -> list[OptimizerStepRecord]:
    # If a transition is in a minibatch twice, only the sum of both gradients can be solved for.
    rows = ((step, find_minibatch(run, step).observations) for step in steps)
    found = [step for step, seen in rows if len(np.unique(seen, axis=0)) == len(seen)]
    if not found:
        n_envs = run.experiment.n_envs
        seen_of = [find_transition_rows(run, find_minibatch(run, s).observations) for s in steps]
        alone = n_envs > 1 and all(len({*rows % n_envs}) == 1 for rows in seen_of)
        one = "all transitions of a minibatch are those of one environment"
        raise UnmeasuredError(one if alone else "its minibatches hold transitions several times")
    return found


def _undo_target_move(run: ProbeRun, step: OptimizerStepRecord) -> OptimizerStepRecord:
    """Return a step as if target networks were still as before the previous step."""
    number = next((i for i, s in enumerate(run.record.steps) if s.env_steps == step.env_steps), 0)
    earlier = run.record.steps[number - 1].before if number else run.weights
    former = {name: array for name, array in earlier.items() if "_target." in name}
    return dataclasses.replace(step, before={**step.before, **former})


def _find_rows_by_end(
    run: ProbeRun, step: OptimizerStepRecord, end: int | None
) -> NDArray[np.intp]:
    ends = find_minibatch(run, step).ends
    rows = np.arange(len(ends)) if end is None else np.flatnonzero(ends == end)
    if not len(rows):
        raise UnmeasuredError("no such transition in the minibatch")
    return rows


def _drop_missing_rows(rows: NDArray[np.intp], target: Array) -> NDArray[np.intp]:
    return rows[~np.isnan(target[rows])]


MAX_MISFIT = 0.1
"""Largest misfit of the critics that the policy uses, as a share of the others' misfit."""


def compare_misfits(misfits: Sequence[float]) -> ProbeMeasurement:
    """Return which critics a gradient fits: those before (0) or after their step (1), due is 1.

    Raises:
        UnmeasuredError: It fits neither.
    """
    if min(misfits) > MAX_MISFIT * max(misfits):
        raise UnmeasuredError("its gradient fits critics from neither before nor after their step")
    return ProbeMeasurement(np.array([float(np.argmin(misfits))]), np.ones(1))


def make_critics_seen_probe(
    algorithm: str, measure: Callable[[ExperimentCache], ProbeMeasurement], paper: str
) -> Probe:
    """Return the probe of whether the policy's step uses the critics before or after theirs."""
    return Probe(
        f"{algorithm}.critics_seen_by_policy",
        "Does the policy's step use the critics from before or after their step?",
        f"{paper}: after",
        "0 before, 1 after",
        measure,
        lambda comparison, measurement: "the policy maximizes the critics from before their step",
        counts=True,
    )


def make_policy_clipping_probe(
    algorithm: str, measure: Callable[[ExperimentCache], ProbeMeasurement], paper: str
) -> Probe:
    """Return the probe of whether huge gradients of the policy are clipped."""
    return Probe(
        f"{algorithm}.policy_gradient_clipping",
        "Are huge gradients of the policy clipped?",
        f"{paper}: they are not",
        "pull on the policy where critics are 1000 times as steep, as a share of what is due",
        measure,
        make_relation_description("pull under steep critics"),
        tolerance=0.01,
        events=(POLICY_LOSS,),
    )


MIN_ERROR_SHARE = 0.2
"""Smaller errors, as a share of the largest, are left out: rounding dominates their slope."""


def solve_predictions_and_gradients(
    run: ProbeRun, step: OptimizerStepRecord
) -> tuple[Array, Array]:
    """Return predictions of the critic and derivatives of its loss by them, times the rows.

    Args:
        run: The training.
        step: Optimizer step of the critic.

    Returns:
        Both float[rows].
    """
    inputs, taken, activation = _list_critic_inputs(run, step)
    rows = np.arange(len(inputs))
    predictions = compute_output(step.before, "critic1", inputs, activation)
    gradients = solve_output_gradient(step.gradients, step.before, "critic1", inputs, activation)
    return predictions[rows, taken], gradients[rows, taken] * len(rows)


def _list_critic_inputs(
    run: ProbeRun, step: OptimizerStepRecord
) -> tuple[Array, NDArray[np.intp], Activation]:
    # Inputs of a critic, the output of each row that is trained, and the activation.
    data, (_, activation) = find_minibatch(run, step), HIDDEN_LAYERS[run.experiment.algorithm]
    if run.experiment.scripted_data.n_discrete_actions:
        return data.observations, data.actions[:, 0].astype(int), activation
    taken = np.zeros(len(data.actions), dtype=int)
    return np.hstack([data.observations, data.actions]), taken, activation


def compute_loss_slopes(run: ProbeRun, step: OptimizerStepRecord) -> Array:
    """Return second derivatives of the loss in a training with a discount of 0, [some rows]."""
    predictions, gradients = solve_predictions_and_gradients(run, step)
    errors = predictions - find_minibatch(run, step).rewards
    far = np.abs(errors) > MIN_ERROR_SHARE * np.abs(errors).max()
    return np.asarray(gradients[far] / errors[far])


def make_single_critic_reader(bandit: Callable[[ExperimentCache], ProbeRun]) -> CriticReader:
    """Return the reader of updates of an algorithm with one critic.

    Args:
        bandit: Runs a training with a discount of 0.
    """

    def target(cache: ExperimentCache, run: ProbeRun, step: OptimizerStepRecord) -> Array:
        plain = bandit(cache)
        slope = np.median(compute_loss_slopes(plain, list_critic_updates(plain)[0]))
        predictions, gradients = solve_predictions_and_gradients(run, step)
        return np.asarray(predictions - gradients / slope)

    return CriticReader(compute_loss_slopes, target)
