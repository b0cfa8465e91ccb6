"""Probes of PPO's losses: policy, value, entropy, their sum, and the divergence of policies."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import POLICY_LOSS, POLICY_STEP, OptimizerStepRecord
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families.critics import ALL_PAIRS, MAX_FIT_ERROR
from parallax.harness.probes.families.optimisation import (
    EARLIER_GRADIENTS,
    adds_earlier_gradients,
    measure_gradient_norms,
)
from parallax.harness.probes.measurements import get_gradient, measure_misfit, summarize_spread
from parallax.harness.probes.ppo import experiments, measurements
from parallax.harness.probes.ppo.experiments import (
    CLIP,
    ENTROPY_COEFFICIENT,
    PPO_CODE,
    PPO_PAPER,
    VALUE_COEFFICIENT,
)
from parallax.harness.probes.ppo.measurements import Minibatch, find_rollout_rows, get_snapshot_step
from parallax.harness.probes.probe import (
    LOOP,
    SETTINGS,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.results import AnswerAxis

MeasuredUpdate = tuple[Array, Array, Array, Minibatch]
"""Measured numbers of one update, the paper's, those with the mean target of a minibatch, and what
the loss is computed from."""
NORMALIZATION_EPS = 1e-8
MIN_PULL = 1e-5
"""Smallest derivative that is none of rounding, if all are smaller."""
MAX_NORM = 0.5
"""Norm at which the authors' code clips gradients."""


def _measure_advantage_normalization(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_normalized_advantages(cache)
    step = get_snapshot_step(run, 0)
    every = run.record.stored["advantages"]
    raw = every[find_rollout_rows(run, step)]
    measured, _ = measurements.solve_surrogate_slope(run, step)
    scale = np.sqrt(1 - 1 / len(raw))
    sample = (raw - raw.mean()) / (raw.std(ddof=1) + NORMALIZATION_EPS)
    others = {
        f"divided by the sample deviation (n - 1), so {scale:.4f} times as large": sample,
        "standardised over the whole rollout": (raw - every.mean())
        / (every.std() + NORMALIZATION_EPS),
        "standardised over the whole rollout, by the sample deviation (n - 1)": (raw - every.mean())
        / (every.std(ddof=1) + NORMALIZATION_EPS),
    }
    found = measurements.sort_measurement(
        measured, formulas.standardize_advantages(raw), AnswerAxis("raw advantage", raw), others
    )
    (equal,) = experiments.run_equal_advantages(cache).record.steps[:1]
    if all(np.isfinite(gradient).all() for gradient in equal.gradients.values()):
        words = measurements.describe_missing_pulls(measured, raw - raw.mean())
        explain = functools.partial(_explain_normalized_advantages, run, every)
        return dataclasses.replace(found, explain=explain, meaning=words)
    words = "not a number where all are equal: no constant is added to the deviation"
    return dataclasses.replace(found, value=0 * found.value, alternatives={}, meaning=words)


def _explain_normalized_advantages(run: ProbeRun, every: Array) -> str:
    # PyTorch and its second of start-up are only needed here.
    from parallax.harness.probes.ppo import changed_formulas

    minibatches = []
    # Later epochs may have other advantages.
    steps = [step for step in measurements.list_gradient_steps(run) if step.before]
    for step in steps[: len(every) // run.hyperparameters.minibatch_size]:
        slope, _ = measurements.solve_surrogate_slope(run, step)
        ratio = np.exp(measurements.compute_log_ratio(run, step))
        known = np.abs(slope) > MIN_PULL * np.abs(slope).max()  # the others are clipped
        if known.any():
            minibatches.append((every[find_rollout_rows(run, step)], slope / ratio, known))
    return changed_formulas.explain_normalized_advantages(minibatches, every, NORMALIZATION_EPS)


def _measure_surrogate(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_many_minibatches(cache)
    steps = measurements.list_later_steps(run)
    ratio = np.exp(np.concatenate([measurements.compute_log_ratio(run, step) for step in steps]))
    rows = np.concatenate([find_rollout_rows(run, step) for step in steps])
    slopes, shares = zip(*(measurements.solve_surrogate_slope(run, s) for s in steps), strict=True)
    weight = measurements.get_advantage_weights(run)[rows]
    expected = formulas.compute_surrogate_slope(weight, ratio, CLIP)
    axis = AnswerAxis("probability ratio", ratio)
    answer = measurements.sort_measurement(np.concatenate(slopes), expected, axis, {})
    words = _explain_directions(run, steps[:2], shares)
    explain = functools.partial(explain_policy_loss, [run])
    return dataclasses.replace(answer, meaning=words, explain=explain)


def explain_policy_loss(runs: Sequence[ProbeRun]) -> str:
    """Return which quantity of the policy loss of later minibatches differs from the paper's."""
    pairs = [(run, step) for run in runs for step in measurements.list_later_steps(run)]
    found, shares = zip(*(measurements.solve_surrogate_slope(*pair) for pair in pairs), strict=True)
    if min(shares) < MIN_DIRECTION_SHARE:
        return ""
    minibatches = [measurements.read_policy_minibatch(*pair) for pair in pairs]
    return _explain_policy_slopes(np.concatenate(found), minibatches)


MIN_DIRECTION_SHARE = 0.99
"""Smallest share of a gradient along the log-probability of the stored actions."""


def _explain_directions(
    run: ProbeRun, steps: Sequence[OptimizerStepRecord], shares: Sequence[float]
) -> str:
    # Pulls that are not those of the stored actions have no slope along them.
    from parallax.harness.probes.ppo import changed_formulas

    is_along = min(shares) >= MIN_DIRECTION_SHARE
    return "" if is_along else changed_formulas.explain_log_probs(run, steps)


def _explain_policy_slopes(found: Array, minibatches: Sequence[Minibatch]) -> str:
    # PyTorch and its second of start-up are only needed here.
    from parallax.harness.probes.ppo import changed_formulas

    return changed_formulas.explain_policy_slopes(found, minibatches)


def _explain_value_slopes(clips: bool, found: Array, minibatches: Sequence[Minibatch]) -> str:
    from parallax.harness.probes.ppo import changed_formulas

    return changed_formulas.explain_value_slopes(found, minibatches, clips)


def _measure_gradient_direction(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_update(cache)
    steps = [get_snapshot_step(run, number) for number in (0, 1)]
    shares = [measurements.solve_surrogate_slope(run, step)[1] for step in steps]
    words = _explain_directions(run, steps, shares)
    return ProbeMeasurement(np.array(shares), np.ones(2), meaning=words)


def _measure_log_std_gradient(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_update(cache)
    step = get_snapshot_step(run, 1)
    rows, x = find_rollout_rows(run, step), measurements.compute_samples(run)
    mean, std = measurements.compute_policy_gaussian(
        step.before, measurements.get_rollout_observations(run)[rows]
    )
    slope, _ = measurements.solve_surrogate_slope(run, step)
    expected = -np.mean(slope[:, None] * (((x[rows] - mean) / std) ** 2 - 1), axis=0)
    return ProbeMeasurement(get_gradient(step, "policy.log_std").ravel(), expected)


# Weights of a loss are solved from float32 gradients, hence the wider tolerance.
_make_loss_probe = functools.partial(Probe, tolerance=1e-3, events=(POLICY_LOSS,))
POLICY_PROBES: Sequence[Probe] = (
    _make_loss_probe(
        "ppo.advantage_normalisation",
        "How are advantages standardised?",
        f"{PPO_CODE}: within the minibatch, by numpy's deviation (n)",
        "weight of each transition in the first minibatch's policy loss",
        _measure_advantage_normalization,
        make_relation_description("weight of the advantage"),
    ),
    _make_loss_probe(
        "ppo.policy_loss",
        "What is the gradient of the policy loss, at ratios other than 1?",
        f"{PPO_PAPER}, eq. 7",
        "derivative of the objective by the log ratio, times the minibatch size",
        _measure_surrogate,
        make_relation_description("pull on the policy"),
    ),
    Probe(
        "ppo.policy_gradient_direction",
        "Does the log-probability of the Gaussian alone pull on the means?",
        f"{PPO_PAPER}, eq. 6 and 7",
        "share of the gradient by the means that goes along that of the log-probability",
        _measure_gradient_direction,
        make_entry_description(("first minibatch", "second minibatch")),
        tolerance=2e-3,
        events=(POLICY_LOSS,),
    ),
    _make_loss_probe(
        "ppo.std_gradient",
        "What is the gradient of the policy loss by the standard deviation?",
        f"{PPO_PAPER}, eq. 7: by the log-probability of a Gaussian",
        "derivative of the loss by each log standard deviation",
        _measure_log_std_gradient,
        make_relation_description("pull on the log standard deviation"),
    ),
)


NORMALIZED_TARGET = "the value's target has the normalized advantage, where advantages are"


def _measure_value_loss(cache: ExperimentCache) -> ProbeMeasurement:
    measured, others = _summarize_value_factor(experiments.run_update(cache)), {}
    if cache.accepts_settings("ppo", {"normalize_advantage": True}, experiments.ROLLOUT_STEPS):
        run = experiments.run_normalized_advantages(cache)
        step = get_snapshot_step(run, 0)
        raw = run.record.stored["advantages"][find_rollout_rows(run, step)]
        pull = measurements.solve_value_slope(run, step)
        if measure_misfit(raw - raw.mean(), pull) < MAX_FIT_ERROR <= measure_misfit(raw, pull):
            others[NORMALIZED_TARGET] = measured = _summarize_value_factor(run)
    return ProbeMeasurement(measured, np.full_like(measured, 2.0), alternatives=others)


def _summarize_value_factor(run: ProbeRun) -> Array:
    return summarize_spread(measurements.measure_value_factor(run) / VALUE_COEFFICIENT)


def _measure_value_clipping(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_clipped_values(cache)
    steps = measurements.list_later_steps(run)
    factor = float(np.median(measurements.measure_value_factor(run)))
    rows = np.concatenate([find_rollout_rows(run, step) for step in steps])
    seen = measurements.get_rollout_observations(run)
    now = np.concatenate(
        [measurements.predict_values(s.before, seen[find_rollout_rows(run, s)]) for s in steps]
    )
    measured = (
        np.concatenate([measurements.solve_value_slope(run, step) for step in steps]) / factor
    )
    old = measurements.predict_values(run.weights, seen)[rows]
    returns = run.record.stored["returns"][rows]
    plain, inside = now - returns, np.abs(now - old) < CLIP
    others = {"the clipped error alone, so no pull beyond the range": np.where(inside, plain, 0.0)}
    expected = formulas.compute_clipped_value_slope(now, old, returns, CLIP) / 2
    answer = measurements.sort_measurement(
        measured, expected, AnswerAxis("change of the prediction", now - old), others
    )
    minibatches = [_read_value_minibatch(run, s, 0, run.record.stored["returns"]) for s in steps]
    explain = functools.partial(_explain_value_slopes, True, measured, minibatches)
    return dataclasses.replace(answer, explain=explain)


def _measure_entropy_gradient(cache: ExperimentCache) -> ProbeMeasurement:
    with_bonus = get_snapshot_step(experiments.run_entropy_bonus(cache), 0)
    without = get_snapshot_step(experiments.run_update(cache), 0)
    name = "policy.log_std"
    pull = (
        get_gradient(with_bonus, name) - get_gradient(without, name)
    ).ravel() / ENTROPY_COEFFICIENT
    run = experiments.run_entropy_bonus(cache)
    rows = find_rollout_rows(run, with_bonus)
    seen = measurements.get_rollout_observations(run)[rows]
    mean, std = measurements.compute_policy_gaussian(with_bonus.before, seen)
    estimate = np.mean(((measurements.compute_samples(run)[rows] - mean) / std) ** 2 - 1, axis=0)
    others = {
        "minus the log-probability of the action taken, in place of the entropy": estimate,
        "the log-probability of the action taken, in place of the entropy": -estimate,
    }
    return ProbeMeasurement(pull, -np.ones_like(pull), alternatives=others)


def _measure_total_loss(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_entropy_bonus(cache)
    step, stored = get_snapshot_step(run, 0), run.record.stored
    rows = find_rollout_rows(run, step)
    seen = measurements.get_rollout_observations(run)[rows]
    errors = measurements.predict_values(step.before, seen) - stored["returns"][rows]
    bonus = formulas.compute_gaussian_entropy(step.before["policy.log_std"])
    weight = measurements.get_advantage_weights(run)[rows]
    policy, value = -weight.mean(), VALUE_COEFFICIENT * float(np.mean(errors**2))
    others = {"half the value loss": np.array([policy + value / 2 - ENTROPY_COEFFICIENT * bonus])}
    expected = np.array([policy + value - ENTROPY_COEFFICIENT * bonus])
    # If policy and value have separate optimizers, their losses are differentiated separately.
    # If their gradients are clipped together, both are differentiated before the first step.
    parts = len(measurements.list_updates(run)[0])
    total = sum([loss.value for loss in run.record.losses if loss.steps < parts][:parts])
    return ProbeMeasurement(np.array([total]), expected, alternatives=others)


def _measure_gradient_clipping(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_huge_rewards(cache)
    get_snapshot_step(run, 0)  # raises an error if there is none
    steps = [step for step in measurements.list_gradient_steps(run) if step.before]
    norms, others = measure_gradient_norms(steps, MAX_NORM)
    others = {words: array[:1] for words, array in others.items()}
    return ProbeMeasurement(norms[:1], np.array([MAX_NORM]), alternatives=others)


VALUE_PROBES: Sequence[Probe] = (
    _make_loss_probe(
        "ppo.value_loss_factor",
        "How large is the value loss, by its second derivative?",
        f"{PPO_PAPER}, eq. 9: vf_coef times the mean squared error",
        "second derivative of the value loss by a prediction, times the minibatch size: "
        "smallest, median and largest",
        _measure_value_loss,
        make_relation_description("pull on the value"),
    ),
    _make_loss_probe(
        "ppo.value_clipping",
        "What is the gradient of the clipped value loss?",
        f"{PPO_CODE}: the larger of the clipped and the plain squared error",
        "derivative of the value loss by a prediction, over its second derivative",
        _measure_value_clipping,
        make_relation_description("pull on the value"),
    ),
    _make_loss_probe(
        "ppo.entropy_bonus",
        "What is the gradient of the entropy bonus by the log standard deviation?",
        f"{PPO_PAPER}, eq. 9: ent_coef times the entropy of the Gaussian is added to the objective",
        "derivative of the loss by each log standard deviation, over ent_coef",
        _measure_entropy_gradient,
        make_relation_description("pull of the entropy bonus"),
    ),
    Probe(
        "ppo.total_loss",
        "What is differentiated?",
        f"{PPO_PAPER}, eq. 9: policy loss plus vf_coef value loss minus ent_coef entropy",
        "loss of the first minibatch",
        _measure_total_loss,
        make_entry_description(("total loss",)),
        events=(POLICY_LOSS,),
    ),
    Probe(
        "ppo.gradient_clipping",
        "What is the norm of a huge gradient after default clipping?",
        f"{PPO_CODE}: 0.5, of all parameters together",
        "norm of the gradient that the optimizer gets",
        _measure_gradient_clipping,
        make_relation_description("norm of the gradient"),
        tolerance=0.01,
        part=SETTINGS,
        events=(POLICY_STEP,),
    ),
)


FIRST_KL_FACTOR, LAST_KL_FACTOR, KL_BISECTIONS = 0.25, 16.0, 9
"""Search for the limit: interval of shares of the divergence, and number of bisections."""
KNOWN_KL_FACTORS, KL_FACTOR_TOLERANCE = (1.0, 1.5), 1.01
"""Common limits, which are tried first, and the factor by which they are bracketed."""
KL_SOURCE = "Schulman 2020, joschu.net/blog/kl-approx.html: mean of (r - 1) - log r"


def _measure_approximate_kl(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_minibatches(cache, experiments.ROLLOUT_STEPS, experiments.ROLLOUT_STEPS)
    reported = [m["policy/approx_kl"] for m in run.record.metrics if "policy/approx_kl" in m]
    if not reported:
        raise UnmeasuredError("it does not report a KL divergence")
    log_ratio = measurements.compute_log_ratio(run, get_snapshot_step(run, 1))
    others = {
        "mean of -log r, which can be negative": np.array([-log_ratio.mean()]),
        "half the mean of (log r)^2": np.array([0.5 * np.mean(log_ratio**2)]),
    }
    expected = np.array([formulas.estimate_kl(log_ratio)])
    # In the first pass both policies are the same, so its divergence is 0.
    others["the mean of both passes"] = expected / 2
    return ProbeMeasurement(np.array(reported[-1:]), expected, alternatives=others)


def _measure_early_stopping(cache: ExperimentCache) -> ProbeMeasurement:
    taken = len(measurements.list_updates(experiments.run_early_stopping(cache)))
    return ProbeMeasurement(np.array([float(taken)]), np.ones(1))


def _measure_target_kl_factor(cache: ExperimentCache) -> ProbeMeasurement:
    # Bracket the share of the second pass's divergence at which that pass is the last.
    free = experiments.run_full_batches(cache)
    divergence = formulas.estimate_kl(
        measurements.compute_log_ratio(free, get_snapshot_step(free, 1))
    )

    def steps(share: float) -> int:
        run = experiments.run_full_batches(cache, target_kl=divergence / share)
        return len(measurements.list_updates(run))

    stopped = steps(2 * LAST_KL_FACTOR)
    for limit in KNOWN_KL_FACTORS:
        if (
            steps(limit * KL_FACTOR_TOLERANCE) == stopped
            and steps(limit / KL_FACTOR_TOLERANCE) != stopped
        ):
            return ProbeMeasurement(np.array([limit]), np.ones(1))
    low, high = FIRST_KL_FACTOR, LAST_KL_FACTOR
    for _ in range(KL_BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if steps(middle) == stopped else (middle, high)
    return ProbeMeasurement(np.array([np.sqrt(low * high)]), np.ones(1))


DIVERGENCE_PROBES: Sequence[Probe] = (
    Probe(
        "ppo.approximate_kl",
        "Which divergence between old and new policy is reported?",
        KL_SOURCE,
        "nats, second pass over one minibatch",
        _measure_approximate_kl,
        make_relation_description("divergence"),
        tolerance=5e-3,
    ),
    Probe(
        "ppo.early_stopping",
        "How many gradient steps are taken when the divergence is above its limit at once?",
        "none in the paper; here: no further step once the limit is exceeded",
        "gradient steps, of 8",
        _measure_early_stopping,
        make_entry_description(("gradient steps",)),
        counts=True,
        part=LOOP,
    ),
    Probe(
        "ppo.divergence_limit",
        "At how many times target_kl do the epochs end?",
        "none in the paper; here: at target_kl itself",
        "divergence at which no further epoch begins, over target_kl",
        _measure_target_kl_factor,
        make_relation_description("limit"),
        tolerance=0.03,
        part=LOOP,
    ),
)


def _make_rollouts_measure(
    network: str,
    read: Callable[[ProbeRun, OptimizerStepRecord, int], MeasuredUpdate],
    explain: Callable[[Array, Sequence[Minibatch]], str],
) -> Callable[[ExperimentCache], ProbeMeasurement]:
    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        run = experiments.run_three_rollouts(cache)
        found = []
        for number, _ in measurements.list_rollouts(run):
            collected = (number + 1) * run.hyperparameters.rollout_steps
            for step in measurements.list_gradient_steps(run):
                if step.before and step.env_steps == collected:
                    found.append(read(run, step, number))
        *arrays, minibatches = zip(*found, strict=True)
        value, expected, of_all = (np.concatenate(each) for each in arrays)
        # The loss may be a multiple of the paper's.
        fits = measure_misfit(of_all, value) < MAX_FIT_ERROR and np.abs(value).max() > MIN_PULL
        others = {ALL_PAIRS: value} if fits else {}
        if adds_earlier_gradients(run, network):
            others = {EARLIER_GRADIENTS: value}
        why = functools.partial(explain, value, minibatches)
        return ProbeMeasurement(value, expected, alternatives=others, explain=why)

    return measure


def _compare_policy_slopes(
    run: ProbeRun, step: OptimizerStepRecord, rollout: int
) -> MeasuredUpdate:
    rows = measurements.find_rollout_rows(run, step, rollout)
    ratio = np.exp(measurements.compute_log_ratio(run, step, rollout))
    normalized = measurements.get_transformed_advantages(run, rollout)
    weight = (
        measurements.compute_rollout_advantages(run, rollout) if normalized is None else normalized
    )[rows]
    slope, _ = measurements.solve_surrogate_slope(run, step, rollout)
    return (
        *(slope, formulas.compute_surrogate_slope(weight, ratio, CLIP)),
        formulas.compute_surrogate_slope(np.full_like(weight, weight.mean()), ratio, CLIP),
        measurements.read_policy_minibatch(run, step, rollout),
    )


def _compare_value_slopes(run: ProbeRun, step: OptimizerStepRecord, rollout: int) -> MeasuredUpdate:
    rows = measurements.find_rollout_rows(run, step, rollout)
    start = measurements.get_rollout_weights(run, rollout)
    seen = measurements.get_rollout_observations(run, rollout)
    returns = measurements.compute_rollout_advantages(run, rollout) + measurements.predict_values(
        start, seen
    )
    now = measurements.predict_values(step.before, seen[rows])
    due = 2 * VALUE_COEFFICIENT * (now - returns[rows])
    mean = 2 * VALUE_COEFFICIENT * (now - returns[rows].mean())
    found = measurements.solve_value_slope(run, step, rollout)
    return found, due, mean, _read_value_minibatch(run, step, rollout, returns)


def _read_value_minibatch(
    run: ProbeRun, step: OptimizerStepRecord, rollout: int, returns: Array
) -> Minibatch:
    seen = measurements.get_rollout_observations(run, rollout)
    rows = measurements.find_rollout_rows(run, step, rollout)
    number, _ = measurements.count_minibatches_before(run, step)
    number %= -(-len(seen) // run.hyperparameters.minibatch_size)
    start, now = measurements.get_rollout_weights(run, rollout), step.before
    old, new = (measurements.predict_values(weights, seen) for weights in (start, now))
    goals, olds = (measurements.list_other_numbers(array, rows, number) for array in (returns, old))
    return Minibatch(goals, new[rows], olds)


LATER_ROLLOUT_PROBES: Sequence[Probe] = (
    _make_loss_probe(
        "ppo.later_policy_loss",
        "What is the gradient of the policy loss in each of three rollouts?",
        f"{PPO_PAPER}, eq. 7, with ratios to the policy that collected the rollout",
        "derivative of the objective by the log ratio, times the minibatch size",
        _make_rollouts_measure("policy", _compare_policy_slopes, _explain_policy_slopes),
        make_relation_description("pull on the policy"),
    ),
    _make_loss_probe(
        "ppo.later_value_loss",
        "What is the gradient of the value loss in each of three rollouts?",
        f"{PPO_PAPER}, eq. 9: vf_coef times the mean squared error",
        "derivative of the value loss by a prediction, times the minibatch size",
        _make_rollouts_measure(
            "value", _compare_value_slopes, functools.partial(_explain_value_slopes, False)
        ),
        make_relation_description("pull on the value"),
    ),
)
