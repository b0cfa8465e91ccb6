"""Probes of R2D2's loss and targets."""

from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import CRITIC_LOSS, OptimizerStepRecord
from parallax.harness.probes.dqn.updates import compare_head_gradients
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families.optimisation import make_clipped_norm_probe
from parallax.harness.probes.measurements import list_critic_updates
from parallax.harness.probes.probe import (
    SEQUENCES,
    UPDATE,
    Probe,
    ProbeMeasurement,
    make_relation_description,
)
from parallax.harness.probes.r2d2 import experiments, sequences
from parallax.harness.probes.r2d2 import sequences as network
from parallax.harness.probes.r2d2.experiments import (
    DISCOUNT,
    LARGE_RESCALING_EPSILON,
    N_STEP,
    R2D2_PAPER,
    SMALL_RESCALING_EPSILON,
)
from parallax.harness.probes.r2d2.sequences import ReplaySequence as Drawn
from parallax.harness.probes.results import AnswerAxis

DUELING_PAPER = "Wang et al. 2016 (arXiv:1511.06581), eq. 9"
ReadSequence = Callable[[ProbeRun, OptimizerStepRecord, Drawn], Array]
"""Computes a quantity of each step of a sequence, float[length]."""


def _concatenate_gradients(run: ProbeRun) -> Array:
    return np.concatenate(
        [
            sequences.solve_prediction_gradients(run, s)[place]
            for s, place, _ in sequences.list_distinct_sequences(run)
        ]
    )


def _concatenate_sequences(run: ProbeRun, read: ReadSequence) -> Array:
    return np.concatenate(
        [read(run, step, drawn) for step, _, drawn in sequences.list_distinct_sequences(run)]
    )


def _read_predictions(run: ProbeRun, step: OptimizerStepRecord, drawn: Drawn) -> Array:
    return sequences.compute_sequence_predictions(run, drawn, step.before)


def _read_targets(run: ProbeRun, step: OptimizerStepRecord, drawn: Drawn) -> Array:
    return sequences.compute_sequence_targets(run, drawn, step.before)


def _solve_targets(run: ProbeRun) -> Array:
    """Return the targets of predictions for a loss of half the squared error."""
    return _concatenate_sequences(run, _read_predictions) - _concatenate_gradients(run)


def _measure_sequence_loss(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_bandit(cache)
    errors = _concatenate_sequences(
        run, lambda r, step, drawn: sequences.compute_td_errors(r, drawn, step.before)
    )
    lengths = _concatenate_sequences(
        run, lambda r, step, drawn: np.full(drawn.length, float(drawn.length))
    )
    others = {
        "twice the paper's": 2 * errors,
        "the mean over a sequence's steps": errors / lengths,
        "the mean over as many steps as a sequence may have": errors / experiments.SEQUENCE_LENGTH,
        "the error cut at -1 and 1": np.clip(errors, -1, 1),
    }
    return ProbeMeasurement(
        _concatenate_gradients(run), errors, AnswerAxis("error", errors), others
    )


def _measure_value_rescaling(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_rescaled_rewards(cache)
    paid = _concatenate_sequences(run, lambda r, step, drawn: sequences.collect_rewards(r, drawn))
    others = {
        "rewards as they are": paid,
        "without the linear part": formulas.rescale_values(paid, 0.0),
        "rewards cut at -1 and 1": np.clip(paid, -1, 1),
    }
    return ProbeMeasurement(
        _solve_targets(run),
        formulas.rescale_values(paid, LARGE_RESCALING_EPSILON),
        AnswerAxis("reward", paid),
        others,
    )


def _measure_inverse_rescaling(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_bootstrap_only(cache)

    def best(run: ProbeRun, step: OptimizerStepRecord, drawn: Drawn) -> Array:
        layers = network.select_layers(step.before, "critic1_target")
        return np.asarray(sequences.compute_sequence_values(run, drawn, layers).max(axis=1)[1:])

    following = _concatenate_sequences(run, best)
    expected = _concatenate_sequences(run, _read_targets)
    others = {
        "without the inverse": np.where(
            expected, formulas.rescale_values(DISCOUNT * following, LARGE_RESCALING_EPSILON), 0
        ),
        "the discounted value, without h and its inverse": np.where(
            expected, DISCOUNT * following, 0
        ),
    }
    axis = AnswerAxis("value of what follows, as the network has it", following)
    return ProbeMeasurement(_solve_targets(run), expected, axis, others)


def _make_n_step_measure(last: bool) -> Callable[[ExperimentCache], ProbeMeasurement]:
    # Compare steps with at least n remaining rewards in their sequence, or those with fewer.
    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        run = experiments.run_n_step(cache)
        left = _concatenate_sequences(
            run, lambda r, step, drawn: drawn.length - np.arange(drawn.length, dtype=float)
        )
        these = (left < N_STEP) if last else (left >= N_STEP)
        value = _solve_targets(run)[these]
        expected = _concatenate_sequences(run, _read_targets)[these]
        return ProbeMeasurement(
            value, expected, AnswerAxis("rewards left in the sequence", left[these])
        )

    return measure


def _measure_double_q(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_double_q(cache)
    largest = _concatenate_sequences(
        run, lambda r, step, drawn: sequences.compute_sequence_targets(r, drawn, step.before, False)
    )
    others = {"the largest value of the target network": largest}
    return ProbeMeasurement(
        _solve_targets(run), _concatenate_sequences(run, _read_targets), None, others
    )


def _measure_dueling_heads(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_dueling_network(cache)
    step = list_critic_updates(run)[0]
    layers = network.select_layers(step.before, "critic1")
    drawn = {s.start_row: s for s in sequences.find_sequence_minibatch(run, step)}.values()
    shown = np.vstack([sequences.compute_lstm_outputs(run, s, layers)[:-1] for s in drawn])
    chosen = np.concatenate([sequences.collect_actions(run, s) for s in drawn])
    return compare_head_gradients(step, shown, chosen)


def _build_target_probe(
    name: str,
    question: str,
    citation: str,
    measure: Callable[[ExperimentCache], ProbeMeasurement],
    part: str = UPDATE,
    events: tuple[str, ...] = (),
) -> Probe:
    return Probe(
        f"r2d2.{name}",
        question,
        citation,
        "targets of predictions, in the network's units, in the first updates",
        measure,
        make_relation_description("target"),
        tolerance=2e-3,
        part=part,
        events=events,
    )


PROBES: Sequence[Probe] = (
    Probe(
        "r2d2.sequence_loss",
        "What is the gradient of the loss by a prediction, over the error?",
        f"{R2D2_PAPER} does not say; here half the squared error, summed over a sequence's steps",
        "derivative of the loss by the prediction, times the sequences of the minibatch",
        _measure_sequence_loss,
        make_relation_description("pull on the value"),
        tolerance=2e-3,
        part=SEQUENCES,
    ),
    _build_target_probe(
        "rescaled_reward",
        "What is the target with a discount of 0, over the reward, at a rescaling epsilon of "
        f"{LARGE_RESCALING_EPSILON:g}?",
        f"{R2D2_PAPER}, section 2.3: h of it",
        _measure_value_rescaling,
    ),
    _build_target_probe(
        "inverse_rescaling",
        "What is the target without rewards, over the next value, at a rescaling epsilon of "
        f"{LARGE_RESCALING_EPSILON:g}?",
        f"{R2D2_PAPER}, section 2.3: h of the discounted inverse of h of it",
        _measure_inverse_rescaling,
    ),
    _build_target_probe(
        "n_step_target",
        f"What is the {N_STEP}-step target, at a rescaling epsilon of {SMALL_RESCALING_EPSILON:g}?",
        f"{R2D2_PAPER}, section 2.3: h of their discounted sum and bootstrap",
        _make_n_step_measure(last=False),
        part=SEQUENCES,
        events=(CRITIC_LOSS,),
    ),
    _build_target_probe(
        "last_steps_target",
        "What is the target where fewer than n rewards are left in the sequence?",
        f"{R2D2_PAPER} does not say; here the rewards left and a bootstrap, unless terminated",
        _make_n_step_measure(last=True),
        part=SEQUENCES,
        events=(CRITIC_LOSS,),
    ),
    _build_target_probe(
        "double_q",
        "Whose choice is valued in targets of double Q-learning?",
        f"{R2D2_PAPER}, section 2.3: that of the online network",
        _measure_double_q,
    ),
    make_clipped_norm_probe("r2d2", experiments.run_clipped_gradients, experiments.MAX_GRAD_NORM),
    Probe(
        "r2d2.dueling_head",
        "How is the gradient of a value split over the advantages of a dueling network?",
        f"{DUELING_PAPER}: the mean of the advantages is taken off",
        "derivative of the loss by each advantage, times a constant",
        _measure_dueling_heads,
        make_relation_description("pull on the advantages"),
        tolerance=5e-3,
    ),
)
