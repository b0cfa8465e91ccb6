"""Probes of PPO's losses and minibatches."""

from collections.abc import Sequence

import numpy as np

from harness.probes import oracles, ppo_runs, setups, words
from harness.probes.lab import Lab, Run
from harness.probes.ppo_rollout import PAPER
from harness.probes.ppo_runs import CLIP, VF, experiment, kept, rows_of
from harness.probes.probe import Measurement, Probe, Unmeasured
from harness.probes.results import FACTOR, Array, Axis, Comparison

ENTROPY = 0.1
CODE = "code of PPO's authors (openai/baselines, ppo2)"


def _normalised(lab: Lab) -> Measurement:
    run = lab.run(experiment("ppo normalised", normalize_advantage=True))
    step = kept(run, 0)
    raw = run.record.stored["advantages"]
    measured = ppo_runs.surrogate_slope(run, step)
    rows = rows_of(run, step)
    return Measurement(measured, oracles.standardised(raw[rows]), Axis("raw advantage", raw[rows]))


def _surrogate(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    step = kept(run, 1)
    ratio = np.exp(ppo_runs.log_ratio(run, step))
    expected = oracles.surrogate_slope(
        run.record.stored["advantages"][rows_of(run, step)], ratio, CLIP
    )
    return _sorted(ppo_runs.surrogate_slope(run, step), expected, "probability ratio", ratio)


def _value_loss(lab: Lab) -> Measurement:
    measured = ppo_runs.value_factor(ppo_runs.update(lab)) / VF
    return Measurement(measured, np.full_like(measured, 2.0))


def _value_clipping(lab: Lab) -> Measurement:
    run = lab.run(experiment("ppo value clip", value_clip_range=CLIP))
    step, factor = kept(run, 1), np.median(ppo_runs.value_factor(run))
    rows = rows_of(run, step)
    seen = ppo_runs.observations(run)[rows]
    now, old = ppo_runs.values(step.before, seen), ppo_runs.values(run.weights, seen)
    returns = run.record.stored["returns"][rows]
    expected = oracles.clipped_value_slope(now, old, returns, CLIP) / 2
    measured = ppo_runs.value_slope(run, step) / factor
    return _sorted(measured, expected, "change of the prediction", now - old)


def _entropy(lab: Lab) -> Measurement:
    with_bonus = kept(lab.run(experiment("ppo entropy", ent_coef=ENTROPY)), 0)
    without = kept(ppo_runs.update(lab), 0)
    name = "policy.log_std"
    pull = (with_bonus.gradients[name] - without.gradients[name]).ravel() / ENTROPY
    return Measurement(pull, -np.ones_like(pull))


def _total(lab: Lab) -> Measurement:
    run = lab.run(experiment("ppo entropy", ent_coef=ENTROPY))
    step, stored = kept(run, 0), run.record.stored
    rows = rows_of(run, step)
    errors = (
        ppo_runs.values(step.before, ppo_runs.observations(run))[rows] - stored["returns"][rows]
    )
    bonus = oracles.gaussian_entropy(step.before["policy.log_std"])
    expected = -stored["advantages"][rows].mean() + VF * np.mean(errors**2) - ENTROPY * bonus
    return Measurement(np.array([run.record.losses[0].value]), np.array([expected]))


def _gradient_clipping(lab: Lab) -> Measurement:
    world = setups.dictation(ppo_runs.ROLLOUT)
    world.rewards[:] *= 1e3
    run = lab.run(experiment("ppo loud", world=world, own=("max_grad_norm",)))
    gradients = kept(run, 0).gradients
    norm = float(np.sqrt(sum(float((g**2).sum()) for g in gradients.values())))
    return Measurement(np.array([norm]), np.array([0.5]))


def _approximate_kl(lab: Lab) -> Measurement:
    run = lab.run(experiment("ppo kl", minibatch_size=ppo_runs.ROLLOUT))
    reported = [m["policy/approx_kl"] for m in run.record.metrics if "policy/approx_kl" in m]
    if not reported:
        raise Unmeasured("it does not report a KL divergence")
    expected = oracles.kl_estimate(ppo_runs.log_ratio(run, kept(run, 1)))
    return Measurement(np.array(reported[-1:]), np.array([expected]))


def _early_stopping(lab: Lab) -> Measurement:
    run = lab.run(experiment("ppo target kl", epochs=4, target_kl=1e-4))
    return Measurement(np.array([float(len(run.record.steps))]), np.ones(1))


def _minibatch_sizes(lab: Lab) -> Measurement:
    return _sizes(lab.run(experiment("ppo minibatches", minibatch_size=8)), [8.0, 8.0, 8.0])


def _remainder(lab: Lab) -> Measurement:
    run = lab.run(experiment("ppo remainder", rollout_steps=20, minibatch_size=8))
    return _sizes(run, [8.0, 8.0, 4.0])


def _reshuffling(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    first, second = (set(rows_of(run, kept(run, number))) for number in (0, 2))
    return Measurement(np.array([float(first != second)]), np.ones(1))


def _recomputed(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    step, factor = kept(run, 2), np.median(ppo_runs.value_factor(run))
    rows = rows_of(run, step)
    now = ppo_runs.values(step.before, ppo_runs.observations(run)[rows])
    target = now - ppo_runs.value_slope(run, step) / factor
    moved = np.abs(target - run.record.stored["returns"][rows]).max()
    return Measurement(np.array([float(moved > 1e-2)]), np.zeros(1))


def _sizes(run: Run, expected: list[float]) -> Measurement:
    epoch = run.record.steps[: max(1, len(run.record.steps) // 2)]
    return Measurement(
        np.array([float(len(step.observations)) for step in epoch]), np.array(expected)
    )


def _sorted(value: Array, expected: Array, label: str, along: Array) -> Measurement:
    order = np.argsort(along)
    return Measurement(value[order], expected[order], Axis(label, along[order]))


def _clip_words(comparison: Comparison, measurement: Measurement) -> str:
    assert measurement.axis is not None
    far = np.abs(measurement.axis.values) > CLIP
    if np.abs(measurement.value[far]).max(initial=0.0) < 1e-3:
        return "no pull at all beyond the range: the larger of both losses is not taken"
    return words.relation("pull on the value")(comparison, measurement)


def _norm_words(comparison: Comparison, measurement: Measurement) -> str:
    count = len(measurement.value)
    if _is_sample_deviation(comparison, count):
        return f"divided by the sample deviation (n - 1), so {comparison.size:.4f} times as large"
    if abs(measurement.value.mean()) > 1e-3:
        return "not standardised within the minibatch"
    return words.relation("advantage")(comparison, measurement)


def _is_sample_deviation(comparison: Comparison, count: int) -> bool:
    close = np.isclose(comparison.size, np.sqrt(1 - 1 / count), 1e-3)
    return comparison.kind == FACTOR and bool(close)


def _same_words(text: str) -> words.Words:
    return lambda comparison, measurement: text


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.advantage_normalisation",
        "How are advantages standardised?",
        f"{CODE}: within the minibatch, by numpy's deviation (n)",
        "weight of each transition in the first minibatch's policy loss",
        _normalised,
        _norm_words,
    ),
    Probe(
        "ppo.policy_loss",
        "How strongly is each action made more likely, at ratios other than 1?",
        f"{PAPER}, eq. 7",
        "derivative of the objective by the log ratio, times the minibatch size",
        _surrogate,
        words.relation("pull on the policy"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.value_loss_factor",
        "How strongly is the value drawn to its target?",
        f"{PAPER}, eq. 9: vf_coef times the mean squared error",
        "second derivative of the value loss by a prediction, times the minibatch size",
        _value_loss,
        words.relation("pull on the value"),
    ),
    Probe(
        "ppo.value_clipping",
        "How strongly is the value drawn to its target when its change is clipped?",
        f"{CODE}: the larger of the clipped and the plain squared error",
        "derivative of the value loss by a prediction, over its second derivative",
        _value_clipping,
        _clip_words,
        tolerance=1e-3,
    ),
    Probe(
        "ppo.entropy_bonus",
        "How strongly does the entropy bonus pull on the log standard deviation?",
        f"{PAPER}, eq. 9: ent_coef times the entropy of the Gaussian is added to the objective",
        "derivative of the loss by each log standard deviation, over ent_coef",
        _entropy,
        words.relation("pull of the entropy bonus"),
    ),
    Probe(
        "ppo.total_loss",
        "What is differentiated?",
        f"{PAPER}, eq. 9: policy loss plus vf_coef value loss minus ent_coef entropy",
        "loss of the first minibatch",
        _total,
        words.listed(("total loss",)),
    ),
    Probe(
        "ppo.gradient_clipping",
        "Which norm has a huge gradient after clipping, by default?",
        f"{CODE}: 0.5, of all parameters together",
        "norm of the gradient that the optimiser gets",
        _gradient_clipping,
        words.relation("norm of the gradient"),
        tolerance=0.01,
    ),
    Probe(
        "ppo.approximate_kl",
        "Which divergence between old and new policy is reported?",
        "Schulman 2020, joschu.net/blog/kl-approx.html: mean of (r - 1) - log r",
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
        "ppo.minibatch_sizes",
        "Into which minibatches is a rollout of 24 cut, with minibatch_size 8?",
        f"{PAPER}, algorithm 1",
        "transitions",
        _minibatch_sizes,
        words.listed(("first", "second", "third")),
        counts=True,
    ),
    Probe(
        "ppo.minibatch_remainder",
        "Into which minibatches is a rollout of 20 cut, with minibatch_size 8?",
        f"{PAPER}, algorithm 1: every transition is used in each epoch",
        "transitions",
        _remainder,
        words.listed(("first", "second", "third")),
        counts=True,
    ),
    Probe(
        "ppo.reshuffling",
        "Does each epoch cut the rollout in another way?",
        f"{CODE}: yes",
        "0 no, 1 yes",
        _reshuffling,
        _same_words("every epoch has the same minibatches"),
        counts=True,
    ),
    Probe(
        "ppo.advantages_recomputed",
        "Are advantages and value targets computed anew in each epoch?",
        f"{PAPER}, algorithm 1: no, once per rollout",
        "0 no, 1 yes",
        _recomputed,
        _same_words("value targets change from one epoch to the next"),
        counts=True,
    ),
)
