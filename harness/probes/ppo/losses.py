"""Probes of PPO's losses: policy, value, entropy, their sum, and the divergence of policies."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.lab import Lab
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.readings import kept, rows_of
from harness.probes.ppo.trainings import CLIP, CODE, ENTROPY, PAPER, VF
from harness.probes.probe import Measurement, Probe, Unmeasured, listed, relation
from harness.probes.readings import gradient_of, spread
from harness.probes.results import Axis

EPS = 1e-8


def _normalised(lab: Lab) -> Measurement:
    run = trainings.normalising(lab)
    step = kept(run, 0)
    every = run.record.stored["advantages"]
    raw = every[rows_of(run, step)]
    measured, _ = readings.surrogate_slope(run, step)
    scale = np.sqrt(1 - 1 / len(raw))
    sample = (raw - raw.mean()) / (raw.std(ddof=1) + EPS)
    others = {
        f"divided by the sample deviation (n - 1), so {scale:.4f} times as large": sample,
        "standardised over the whole rollout": (raw - every.mean()) / (every.std() + EPS),
        "standardised over the whole rollout, by the sample deviation (n - 1)": (raw - every.mean())
        / (every.std(ddof=1) + EPS),
        "not standardised": raw,
        "divided by the deviation, but not centred": raw / (raw.std(ddof=1) + EPS),
        "centred, but not divided by the deviation": raw - raw.mean(),
    }
    return readings.ordered(
        measured, formulas.standardised(raw), Axis("raw advantage", raw), others
    )


def _surrogate(lab: Lab) -> Measurement:
    run = trainings.long(lab)
    steps = readings.later(run)
    ratio = np.exp(np.concatenate([readings.log_ratio(run, step) for step in steps]))
    rows = np.concatenate([rows_of(run, step) for step in steps])
    measured = np.concatenate([readings.surrogate_slope(run, step)[0] for step in steps])
    weight = readings.advantage_weights(run)[rows]
    plain, inside = weight * ratio, np.abs(ratio - 1) <= CLIP
    expected = formulas.surrogate_slope(weight, ratio, CLIP)
    others = {
        "not clipped": plain,
        "the clipped objective alone, without the minimum": np.where(inside, plain, 0.0),
        "the larger of both objectives, not the smaller": np.where(
            inside | (expected == 0), plain, 0.0
        ),
    }
    return readings.ordered(measured, expected, Axis("probability ratio", ratio), others)


def _direction(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    shares = [readings.surrogate_slope(run, kept(run, number))[1] for number in (0, 1)]
    return Measurement(np.array(shares), np.ones(2))


def _std_pull(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    step = kept(run, 1)
    rows, x = rows_of(run, step), readings.samples(run)
    mean, std = readings.gaussian(step.before, readings.observations(run)[rows])
    slope, _ = readings.surrogate_slope(run, step)
    expected = -np.mean(slope[:, None] * (((x[rows] - mean) / std) ** 2 - 1), axis=0)
    return Measurement(gradient_of(step, "policy.log_std").ravel(), expected)


POLICY_PROBES: Sequence[Probe] = (
    Probe(
        "ppo.advantage_normalisation",
        "How are advantages standardised?",
        f"{CODE}: within the minibatch, by numpy's deviation (n)",
        "weight of each transition in the first minibatch's policy loss",
        _normalised,
        relation("weight of the advantage"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.policy_loss",
        "How strongly is each action made more likely, at ratios other than 1?",
        f"{PAPER}, eq. 7",
        "derivative of the objective by the log ratio, times the minibatch size",
        _surrogate,
        relation("pull on the policy"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.policy_gradient_direction",
        "Does the log-probability of the Gaussian alone pull on the means?",
        f"{PAPER}, eq. 6 and 7",
        "share of the gradient by the means that goes along that of the log-probability",
        _direction,
        listed(("first minibatch", "second minibatch")),
        tolerance=2e-3,
    ),
    Probe(
        "ppo.std_gradient",
        "How does the policy loss pull on the standard deviation?",
        f"{PAPER}, eq. 7: by the log-probability of a Gaussian",
        "derivative of the loss by each log standard deviation",
        _std_pull,
        relation("pull on the log standard deviation"),
        tolerance=1e-3,
    ),
)


def _value_loss(lab: Lab) -> Measurement:
    measured = spread(readings.value_factor(trainings.update(lab)) / VF)
    return Measurement(measured, np.full_like(measured, 2.0))


def _value_clipping(lab: Lab) -> Measurement:
    run = trainings.long_and_clipped(lab)
    steps, factor = readings.later(run), float(np.median(readings.value_factor(run)))
    rows = np.concatenate([rows_of(run, step) for step in steps])
    seen = readings.observations(run)
    now = np.concatenate([readings.values(s.before, seen[rows_of(run, s)]) for s in steps])
    measured = np.concatenate([readings.value_slope(run, step) for step in steps]) / factor
    old, returns = readings.values(run.weights, seen)[rows], run.record.stored["returns"][rows]
    plain, inside = now - returns, np.abs(now - old) < CLIP
    clipped = old + np.clip(now - old, -CLIP, CLIP) - returns
    smaller = inside | (plain**2 < clipped**2)
    others = {
        "the clipped error alone, so no pull beyond the range": np.where(inside, plain, 0.0),
        "the smaller of both errors": np.where(smaller, plain, 0.0),
        "not clipped": plain,
    }
    expected = formulas.clipped_value_slope(now, old, returns, CLIP) / 2
    return readings.ordered(measured, expected, Axis("change of the prediction", now - old), others)


def _entropy(lab: Lab) -> Measurement:
    with_bonus, without = kept(trainings.entropic(lab), 0), kept(trainings.update(lab), 0)
    name = "policy.log_std"
    pull = (gradient_of(with_bonus, name) - gradient_of(without, name)).ravel() / ENTROPY
    return Measurement(pull, -np.ones_like(pull))


def _total(lab: Lab) -> Measurement:
    run = trainings.entropic(lab)
    step, stored = kept(run, 0), run.record.stored
    rows = rows_of(run, step)
    seen = readings.observations(run)[rows]
    errors = readings.values(step.before, seen) - stored["returns"][rows]
    bonus = formulas.gaussian_entropy(step.before["policy.log_std"])
    weight = readings.advantage_weights(run)[rows]
    policy, value = -weight.mean(), VF * float(np.mean(errors**2))
    others = {"half the value loss": np.array([policy + value / 2 - ENTROPY * bonus])}
    expected = np.array([policy + value - ENTROPY * bonus])
    # Where policy and value have optimisers apart, the loss of each is differentiated by itself.
    first = {loss.steps: loss.value for loss in reversed(run.record.losses)}
    total = sum(first[number] for number in range(len(readings.updates(run)[0])))
    return Measurement(np.array([total]), expected, alternatives=others)


def _gradient_clipping(lab: Lab) -> Measurement:
    gradients = kept(trainings.loud(lab), 0).gradients
    norm = float(np.sqrt(sum(float((g**2).sum()) for g in gradients.values())))
    return Measurement(np.array([norm]), np.array([0.5]))


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.value_loss_factor",
        "How strongly is the value drawn to its target?",
        f"{PAPER}, eq. 9: vf_coef times the mean squared error",
        "second derivative of the value loss by a prediction, times the minibatch size: "
        "smallest, median and largest",
        _value_loss,
        relation("pull on the value"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.value_clipping",
        "How strongly is the value drawn to its target when its change is clipped?",
        f"{CODE}: the larger of the clipped and the plain squared error",
        "derivative of the value loss by a prediction, over its second derivative",
        _value_clipping,
        relation("pull on the value"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.entropy_bonus",
        "How strongly does the entropy bonus pull on the log standard deviation?",
        f"{PAPER}, eq. 9: ent_coef times the entropy of the Gaussian is added to the objective",
        "derivative of the loss by each log standard deviation, over ent_coef",
        _entropy,
        relation("pull of the entropy bonus"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.total_loss",
        "What is differentiated?",
        f"{PAPER}, eq. 9: policy loss plus vf_coef value loss minus ent_coef entropy",
        "loss of the first minibatch",
        _total,
        listed(("total loss",)),
    ),
    Probe(
        "ppo.gradient_clipping",
        "Which norm has a huge gradient after clipping, by default?",
        f"{CODE}: 0.5, of all parameters together",
        "norm of the gradient that the optimiser gets",
        _gradient_clipping,
        relation("norm of the gradient"),
        tolerance=0.01,
    ),
)


FIRST, LAST, HALVINGS = 0.25, 16.0, 9
"""Search for the limit: as shares of the divergence, and how often the interval is halved."""
KNOWN, NEAR = (1.0, 1.5), 1.01
"""Limits that one meets, which are tried before, and how closely they are bracketed."""
KL = "Schulman 2020, joschu.net/blog/kl-approx.html: mean of (r - 1) - log r"


def _approximate_kl(lab: Lab) -> Measurement:
    run = trainings.minibatches(lab, trainings.ROLLOUT, trainings.ROLLOUT)
    reported = [m["policy/approx_kl"] for m in run.record.metrics if "policy/approx_kl" in m]
    if not reported:
        raise Unmeasured("it does not report a KL divergence")
    log_ratio = readings.log_ratio(run, kept(run, 1))
    others = {
        "mean of -log r, which can be negative": np.array([-log_ratio.mean()]),
        "half the mean of (log r)^2": np.array([0.5 * np.mean(log_ratio**2)]),
    }
    expected = np.array([formulas.kl_estimate(log_ratio)])
    # In the first pass policies are the same.
    others["the mean of both passes"] = expected / 2
    return Measurement(np.array(reported[-1:]), expected, alternatives=others)


def _early_stopping(lab: Lab) -> Measurement:
    taken = len(readings.updates(trainings.early(lab)))
    return Measurement(np.array([float(taken)]), np.ones(1))


def _limit(lab: Lab) -> Measurement:
    # Brackets the share of the second pass's divergence at which that pass is the last.
    free = trainings.whole_batches(lab)
    divergence = formulas.kl_estimate(readings.log_ratio(free, kept(free, 1)))

    def steps(share: float) -> int:
        return len(readings.updates(trainings.whole_batches(lab, target_kl=divergence / share)))

    stopped = steps(2 * LAST)
    for limit in KNOWN:
        if steps(limit * NEAR) == stopped and steps(limit / NEAR) != stopped:
            return Measurement(np.array([limit]), np.ones(1))
    low, high = FIRST, LAST
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if steps(middle) == stopped else (middle, high)
    return Measurement(np.array([np.sqrt(low * high)]), np.ones(1))


DIVERGENCE_PROBES: Sequence[Probe] = (
    Probe(
        "ppo.approximate_kl",
        "Which divergence between old and new policy is reported?",
        KL,
        "nats, second pass over one minibatch",
        _approximate_kl,
        relation("divergence"),
        tolerance=5e-3,
    ),
    Probe(
        "ppo.early_stopping",
        "How many gradient steps are taken when the divergence is above its limit at once?",
        "none in the paper; here: no further step once the limit is exceeded",
        "gradient steps, of 8",
        _early_stopping,
        listed(("gradient steps",)),
        counts=True,
    ),
    Probe(
        "ppo.divergence_limit",
        "At how many times target_kl do the epochs end?",
        "none in the paper; here: at target_kl itself",
        "divergence at which no further epoch begins, over target_kl",
        _limit,
        relation("limit"),
        tolerance=0.03,
    ),
)
