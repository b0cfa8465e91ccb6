"""Checks of networks: activations, initialisation, gradients, losses, updates and values.

RLExplorer defines most of them; dormant units are from Sokar et al. 2023 (arXiv:2302.12902), the
effective rank is from Kumar et al. 2021 (arXiv:2010.14498).
"""

import re

import numpy as np

from parallax.harness.diagnosis.check import ERROR, WARNING, CheckResult, make_checks
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals

_WHOLE_LAYER = 0.99
"""Share of dead units from which a whole layer counts as dead."""


def _compute_last_median(signals: TrainingSignals, name: str, count: int = 5) -> float | None:
    values = signals.series[name].last(count)
    return float(np.median(values)) if len(values) == count else None


def detect_not_a_number(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect NaN and infinite values of weights, losses, gradients, metrics and rewards.

    An error message of the training that mentions them counts as well: upstream's own checks raise
    before the next evaluation.
    """
    places = [
        f"a {name.replace('_', ' ')}"
        for name, series in {**signals.series, **signals.metrics}.items()
        # Other values may be NaN in a healthy training, such as the explained variance of equal
        # returns.
        if ("loss" in name or name == "gradient_norm")
        and series.count
        and not np.isfinite(series.latest)
    ]
    places += [] if signals.values.get("weights_finite", True) else ["a weight"]
    failure = str(signals.values.get("failure", ""))
    if _NAMES_NOT_A_NUMBER.search(failure):
        places.append(f"the error that ended the training ({_shorten_error(failure)})")
    return CheckResult(f"NaN or infinite: {', '.join(places)}.", 0.0) if places else None


_NAMES_NOT_A_NUMBER = re.compile(r"\bnans?\b|\binf(inity|inite)?\b|n(ot|on)[- ]finite", re.I)
_MAX_ERROR_LENGTH = 120


def _shorten_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    matching = [line for line in lines if _NAMES_NOT_A_NUMBER.search(line)]
    return matching[0][:_MAX_ERROR_LENGTH]


def detect_large_learning_rate(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect learning rates of Adam and its variants that are far above all usual ones.

    Their steps are about as long as the rate for any gradient (Kingma & Ba 2015, section 2.1).
    Those of plain gradient descent are not, so its rates are not checked.
    """
    for name, rate in signals.values["learning_rates"].items():
        if "adam" in name.lower() and rate > threshold:
            return CheckResult(f"The learning rate of {name} is {rate:g}.", rate)
    return None


def detect_dead_or_saturated_units(
    signals: TrainingSignals, threshold: float
) -> CheckResult | None:
    """Detect activations that are not finite, and layers with dead or saturated units."""
    if not signals.values["activations_finite"]:
        return CheckResult("An activation is not finite.", 0.0, ERROR)
    for name, words in (("dead", "are zero"), ("saturated", "are at the end of their range")):
        if name in signals.series:
            share = _compute_last_median(signals, name)
            if share is not None and share > threshold:
                return CheckResult(
                    f"{share:.0%} of the units of a layer {words} for all inputs.", share
                )
    return None


def detect_dormant_units(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect layers with a large share of dormant units."""
    share = _compute_last_median(signals, "dormant")
    if share is None or share <= threshold:
        return None
    return CheckResult(f"{share:.0%} of the units of a layer are dormant.", share)


def detect_rank_collapse(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect features of a low effective rank."""
    share = _compute_last_median(signals, "rank", 3)
    if share is None or share >= threshold:
        return None
    return CheckResult(f"Features of a layer span {share:.1%} of the directions they could.", share)


def detect_missing_nonlinearity(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a linear layer or convolution that feeds another one directly."""
    last = signals.series["linear_after_linear"].last(int(threshold))
    if len(last) < threshold or not last.all():
        return None
    return CheckResult(
        "A linear layer or convolution feeds another one without a nonlinearity between, in "
        f"{len(last)} windows in a row.",
        len(last),
    )


def detect_bad_biases(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect biases that begin large or grow large."""
    for name, first in signals.values["first_biases"].items():
        if first > threshold:
            return CheckResult(f"{name} begins at {first:.3g} on average.", first)
    size = signals.series["bias_size"].latest
    if size > 1e3 * threshold:
        return CheckResult(f"Biases have grown to {size:.3g} on average.", size, ERROR)
    return None


def detect_bad_weights(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect weights that are not finite, begin large, or begin equal in all units."""
    if not signals.values["weights_finite"]:
        return CheckResult("A weight is not finite.", 0.0, ERROR)
    for name, (spread, mean, equal) in signals.values["first_weights"].items():
        if equal:
            return CheckResult(f"All units of {name} begin with the same weights.", 0.0, ERROR)
        if max(spread, mean) > threshold:
            return CheckResult(
                f"{name} begins with weights {max(spread, mean):.3g} times as large as one over "
                "the root of its inputs.",
                max(spread, mean),
            )
    return None


def detect_bad_gradients(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect gradients that are not finite, vanish or explode."""
    values = signals.series["gradient_norm"].last(64)
    if not np.isfinite(values).all():
        return CheckResult("A gradient is not finite.", float("inf"), ERROR)
    if len(values) < 16:
        return None
    middle = float(np.median(values))
    if middle > threshold:
        return CheckResult(f"Gradients explode: their norm is {middle:.3g} (median of 16).", middle)
    # One threshold sets both bounds: 1e4 and 1e-7 by default.
    if middle < 1e-3 / threshold:
        return CheckResult(f"Gradients vanish: their norm is {middle:.3g} (median of 16).", middle)
    return None


def detect_unreached_parameters(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect parameters that got no gradient in `threshold` steps of their optimizer.

    Dead units also get gradients that are always zero: if a whole layer was dead,
    `dead-or-saturated-units` reports it instead.
    """
    values, total = signals.values, signals.values["parameters"]
    missed = [count for count in values["unreached"].values() if count >= threshold]
    if missed:
        return CheckResult(
            f"{len(missed)} of {total} parameters of optimizers got no gradient in any of "
            f"{min(missed)} steps.",
            len(missed),
        )
    zero = [count for count in values.get("zero_gradients", {}).values() if count >= threshold]
    dead = signals.series.get("dead")
    if not zero or (dead is not None and dead.all()[1].max(initial=0.0) >= _WHOLE_LAYER):
        return None
    return CheckResult(
        f"{len(zero)} of {total} parameters of optimizers got gradients of zero only in "
        f"{min(zero)} steps.",
        len(zero),
        WARNING,
    )


def detect_uncleared_gradients(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect gradients that are not cleared between steps, in at least `threshold` steps."""
    last = signals.series["gradients_left"].last(64)
    share = float(last.mean()) if len(last) >= threshold else 0.0
    if share < 0.3:  # one of several optimizers is enough
        return None
    return CheckResult(
        f"In {share:.0%} of the last {len(last)} optimizer steps the gradient of the step before "
        "was still there.",
        share,
    )


def detect_frozen_weights(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect weights that have not changed `threshold` steps after the first update was due."""
    facts, names = signals.facts, signals.values["still"]
    due = facts.learning_starts + 2 * int(facts.hyperparameters.get("rollout_steps", 0))
    if not names or signals.step < due + threshold:
        return None
    one = sorted(names)[0]
    return CheckResult(
        f"{len(names)} of {signals.values['matrices']} weights have never changed, for example "
        f"{one}.",
        len(names),
    )


def detect_failed_fit(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect a policy network whose copy cannot be fitted to eight states."""
    before, after = signals.values["fitting"]
    if before <= 1e-6 or after <= threshold * before:
        return None
    return CheckResult(
        f"A copy of the policy's network, fitted to 8 states in 40 steps, lowered its error only "
        f"from {before:.3g} to {after:.3g}.",
        after / before,
    )


def detect_diverging_losses(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect losses that are not finite or grow by orders of magnitude."""
    series = signals.series["loss"]
    last = series.last(32)
    if not np.isfinite(last).all():
        return CheckResult("A loss is not finite.", float("inf"), ERROR)
    if series.count < 128:
        return None
    # An actor's loss is a negative value, so a loss can diverge to minus infinity.
    before, now = float(np.median(np.abs(series.first(64)))), float(np.median(np.abs(last)))
    if now <= threshold * max(before, 1e-2):
        return None
    return CheckResult(f"Losses have grown from {before:.3g} to {now:.3g} (medians).", now)


def detect_large_updates(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect optimizer steps that change a layer by a large share of its norm.

    The median of five windows is compared with `threshold`, a single step with ten times it.
    """
    largest = float(signals.series["update_ratio"].all()[1].max(initial=0.0))
    if largest > 10 * threshold:
        return CheckResult(
            f"An optimizer step changed a layer by {largest:.3g} times its size.", largest
        )
    ratio = _compute_last_median(signals, "update_ratio")
    if ratio is None or ratio <= threshold:
        return None
    return CheckResult(f"An optimizer step changes a layer by {ratio:.1%} of its size.", ratio)


def detect_overestimation(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Detect values above `threshold` times the bound max|r| / (1 - gamma)."""
    facts = signals.facts
    value = _compute_last_median(signals, "value_size")
    if value is None or facts.gamma is None or facts.gamma >= 1:
        return None
    reward = signals.values["reward_max"]
    if "temperature" in signals.metrics or "target_entropy" in facts.hyperparameters:
        # Soft values (SAC) also sum the entropy bonus: two nats per action dimension as a bound.
        temperature = signals.metrics.get("temperature")
        reward += 2 * len(facts.action_low) * (temperature.latest if temperature else 1.0)
    bound = max(reward, 1e-3) / (1 - facts.gamma)
    if value <= threshold * bound:
        return None
    return CheckResult(
        f"Predicted values are {value:.3g}; rewards so far can add up to {bound:.3g} at most.",
        value / bound,
    )


def _why_rewards_rescaled(facts: TrainingFacts) -> str:
    return "wrappers rescale the rewards" if facts.normalized else ""


CHECKS = make_checks(
    {
        "not-a-number": detect_not_a_number,
        "learning-rate-too-high": detect_large_learning_rate,
        "dead-or-saturated-units": detect_dead_or_saturated_units,
        "dormant-units": detect_dormant_units,
        "rank-collapse": detect_rank_collapse,
        "missing-nonlinearity": detect_missing_nonlinearity,
        "bad-biases": detect_bad_biases,
        "bad-weights": detect_bad_weights,
        "vanishing-or-exploding-gradients": detect_bad_gradients,
        "unreached-parameters": detect_unreached_parameters,
        "uncleared-gradients": detect_uncleared_gradients,
        "weights-not-updated": detect_frozen_weights,
        "network-cannot-fit": detect_failed_fit,
        "loss-diverges": detect_diverging_losses,
        "large-weight-updates": detect_large_updates,
        "value-overestimation": (detect_overestimation, _why_rewards_rescaled),
    }
)
"""Checks of networks."""
