"""The paper's questions about networks, and more of the kind."""

import numpy as np

from parallax.harness.diagnosis.check import (
    ERROR,
    NOTE,
    THROUGHOUT,
    WARNING,
    CheckResult,
    DiagnosisCheck,
)
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals

_WHOLE_LAYER = 0.99
"""Of a layer's units: that share is all of it."""


def _compute_last_median(signals: TrainingSignals, name: str, count: int = 5) -> float | None:
    values = signals.series[name].last(count)
    return float(np.median(values)) if len(values) == count else None


def detect_dead_or_saturated_units(
    signals: TrainingSignals, threshold: float
) -> CheckResult | None:
    """Whether activations are numbers, and not dead or saturated in so large a share of units."""
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
    """Whether so large a share of a layer's units sleeps."""
    share = _compute_last_median(signals, "dormant")
    if share is None or share <= threshold:
        return None
    return CheckResult(f"{share:.0%} of the units of a layer are dormant.", share)


def detect_rank_collapse(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether features span few directions."""
    share = _compute_last_median(signals, "rank", 3)
    if share is None or share >= threshold:
        return None
    return CheckResult(f"Features of a layer span {share:.1%} of the directions they could.", share)


def detect_missing_nonlinearity(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether a linear layer or convolution feeds another one directly, in so many windows."""
    last = signals.series["linear_after_linear"].last(int(threshold))
    if len(last) < threshold or not last.all():
        return None
    return CheckResult(
        "The output of a linear layer or convolution goes into another one as it is, in "
        f"{len(last)} windows in a row.",
        len(last),
    )


def detect_bad_biases(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether biases are numbers, start small, and stay small."""
    for name, first in signals.values["first_biases"].items():
        if first > threshold:
            return CheckResult(f"{name} begins at {first:.3g} on average.", first)
    size = signals.series["bias_size"].latest
    if size > 1e3 * threshold:
        return CheckResult(f"Biases have grown to {size:.3g} on average.", size, ERROR)
    return None


def detect_bad_weights(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether weights are numbers and start at a sound size, units apart from each other."""
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
    """Whether gradients are numbers, and neither vanish nor explode."""
    values = signals.series["gradient_norm"].last(64)
    if not np.isfinite(values).all():
        return CheckResult("A gradient is not finite.", float("inf"), ERROR)
    if len(values) < 16:
        return None
    middle = float(np.median(values))
    if middle > threshold:
        return CheckResult(f"Gradients explode: their norm is {middle:.3g} (median of 16).", middle)
    if middle < 1e-3 / threshold:
        return CheckResult(f"Gradients vanish: their norm is {middle:.3g} (median of 16).", middle)
    return None


def detect_unreached_parameters(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether gradients never reached some parameters of an optimiser, in so many of its steps.

    Gradients that are there and zero all the time are what dead units get, too: where a whole
    layer was dead, that is `dead-or-saturated-units`'s to tell.
    """
    values, total = signals.values, signals.values["parameters"]
    missed = [
        count for count in values["unreached"].values() if count >= threshold
    ]
    if missed:
        return CheckResult(
            f"{len(missed)} of {total} parameters of optimisers got no gradient in any of "
            f"{min(missed)} steps.",
            len(missed),
        )
    zero = [count for count in values.get("zero_gradients", {}).values() if count >= threshold]
    dead = signals.series.get("dead")
    if not zero or (dead is not None and dead.all()[1].max(initial=0.0) >= _WHOLE_LAYER):
        return None
    return CheckResult(
        f"{len(zero)} of {total} parameters of optimisers got gradients of zero only in "
        f"{min(zero)} steps.",
        len(zero),
        WARNING,
    )


def detect_uncleared_gradients(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether gradients of one step were still there in the next, in so many steps in a row."""
    last = signals.series["gradients_left"].last(64)
    share = float(last.mean()) if len(last) >= threshold else 0.0
    if share < 0.3:  # one of several optimisers is enough
        return None
    return CheckResult(
        f"In {share:.0%} of the last {len(last)} optimiser steps the gradient of the step before "
        "was still there.",
        share,
    )


def detect_frozen_weights(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether weights have never changed, so long after the first update was due."""
    facts, names = signals.facts, signals.values["still"]
    due = facts.learning_starts + 2 * int(facts.hyperparameters.get("rollout_steps", 0))
    if not names or signals.step < due + threshold:
        return None
    one = sorted(names)[0]
    return CheckResult(
        f"{len(names)} of {signals.values['matrices']} weights have never changed, {one} among "
        "them.",
        len(names),
    )


def detect_failed_fit(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether a copy of the policy could not be fitted to eight states early on."""
    before, after = signals.values["fitting"]
    if before <= 1e-6 or after <= threshold * before:
        return None
    return CheckResult(
        f"A copy of the policy's network, fitted to 8 states in 40 steps, brought its error from "
        f"{before:.3g} to {after:.3g} only.",
        after / before,
    )


def detect_diverging_losses(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether losses are numbers and do not grow by orders of magnitude."""
    series = signals.series["loss"]
    last = series.last(32)
    if not np.isfinite(last).all():
        return CheckResult("A loss is not finite.", float("inf"), ERROR)
    if series.count < 128:
        return None
    before, now = float(np.median(np.abs(series.first(64)))), float(np.median(np.abs(last)))
    if now <= threshold * max(before, 1e-2):
        return None
    return CheckResult(f"Losses have grown from {before:.3g} to {now:.3g} (medians).", now)


def detect_large_updates(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether one update changes a layer by so large a share of its size; once, by ten times."""
    largest = float(signals.series["update_ratio"].all()[1].max(initial=0.0))
    if largest > 10 * threshold:
        return CheckResult(
            f"An optimiser step changed a layer by {largest:.3g} times its size.", largest
        )
    ratio = _compute_last_median(signals, "update_ratio")
    if ratio is None or ratio <= threshold:
        return None
    return CheckResult(f"An optimiser step changes a layer by {ratio:.1%} of its size.", ratio)


def detect_overestimation(signals: TrainingSignals, threshold: float) -> CheckResult | None:
    """Whether predicted values exceed what the largest reward for ever would be worth."""
    facts = signals.facts
    value = _compute_last_median(signals, "value_size")
    if value is None or facts.gamma is None or facts.gamma >= 1:
        return None
    reward = signals.values["reward_max"]
    if "temperature" in signals.metrics or "target_entropy" in facts.hyperparameters:
        told = signals.metrics.get("temperature")
        reward += 2 * len(facts.action_low) * (told.latest if told else 1.0)
    bound = max(reward, 1e-3) / (1 - facts.gamma)
    if value <= threshold * bound:
        return None
    return CheckResult(
        f"Predicted values are {value:.3g}, and {bound:.3g} is all that rewards so far could add "
        "up to.",
        value / bound,
    )


def _why_rewards_rescaled(facts: TrainingFacts) -> str:
    return "the learner sees other rewards than the task's (wrappers)" if facts.normalized else ""


CHECKS = (
    DiagnosisCheck(
        "dead-or-saturated-units",
        "units are dead or saturated",
        THROUGHOUT,
        WARNING,
        ("activations_finite",),
        0.8,
        "own: half of a layer, TheDeepChecker's bound, is dead in sound runs; median of 5 windows",
        detect_dead_or_saturated_units,
        "a learning rate that is too high, or inputs that are not scaled.",
        "lower the learning rates; wrappers=normalized.",
        "wide layers on tasks that need few units.",
    ),
    DiagnosisCheck(
        "dormant-units",
        "units sleep",
        THROUGHOUT,
        WARNING,
        ("dormant",),
        0.7,
        "own share; the 0.025 that makes a unit dormant is Sokar et al.'s",
        detect_dormant_units,
        "targets that moved for long, or too high a learning rate.",
        "lower the learning rates; fewer gradient steps per step.",
        "wide layers on tasks that need few units.",
    ),
    DiagnosisCheck(
        "rank-collapse",
        "features have collapsed",
        THROUGHOUT,
        WARNING,
        ("rank",),
        0.02,
        "own; effective rank as Kumar et al. define it",
        detect_rank_collapse,
        "bootstrapping from few transitions for long.",
        "lower the learning rates; fewer gradient steps per step; larger buffer_size.",
        "tasks with few observations: their features have a low rank from the start.",
    ),
    DiagnosisCheck(
        "missing-nonlinearity",
        "no nonlinearity between layers",
        THROUGHOUT,
        WARNING,
        ("linear_after_linear",),
        3.0,
        "own: three windows; the library tells what made a layer's input",
        detect_missing_nonlinearity,
        "the activation function is missing.",
        "put one between the layers.",
        "a linear bottleneck on purpose.",
    ),
    DiagnosisCheck(
        "bad-biases",
        "biases begin large or diverge",
        THROUGHOUT,
        WARNING,
        ("first_biases", "bias_size"),
        1.0,
        "own; RLExplorer advises zeros",
        detect_bad_biases,
        "an initialisation that was mixed up, or divergence.",
        "begin at zero, as frameworks do; lower the learning rates.",
        "a head whose bias is set to a known mean.",
    ),
    DiagnosisCheck(
        "bad-weights",
        "weights begin badly or diverge",
        THROUGHOUT,
        WARNING,
        ("first_weights",),
        4.0,
        "own; orthogonal initialisation has 1.4, He's 1.4, Glorot's about 1",
        detect_bad_weights,
        "an initialisation that was mixed up, or divergence.",
        "use the framework's initialisation; lower the learning rates.",
        "layers that look up embeddings.",
    ),
    DiagnosisCheck(
        "vanishing-or-exploding-gradients",
        "gradients vanish or explode",
        THROUGHOUT,
        WARNING,
        ("gradient_norm",),
        1e4,
        "own: 1e4 above and 1e-7 below, of the whole norm; TheDeepChecker 1e6 and 1e-6 of means",
        detect_bad_gradients,
        "rewards or targets that are not scaled, or a loss that does not depend on the network.",
        "max_grad_norm; wrappers=normalized; lower the learning rates.",
        "losses of tasks with very large rewards.",
    ),
    DiagnosisCheck(
        "unreached-parameters",
        "gradients never reach parameters",
        THROUGHOUT,
        ERROR,
        ("unreached",),
        24.0,
        "own: 24 steps of the optimiser in three windows",
        detect_unreached_parameters,
        "a detached tensor, or parameters of another network in the optimiser.",
        "look where the graph is cut; give the optimiser what is trained.",
        "parts of a network that are not used on purpose; units that are all dead.",
    ),
    DiagnosisCheck(
        "uncleared-gradients",
        "gradients of one step are still there in the next",
        THROUGHOUT,
        ERROR,
        ("gradients_left",),
        6.0,
        "own: at least six steps, three in ten of them",
        detect_uncleared_gradients,
        "gradients are not set to zero before they are computed anew.",
        "optimizer.zero_grad() before each backward.",
        "gradients that add up over several minibatches on purpose, and stay in place.",
    ),
    DiagnosisCheck(
        "weights-not-updated",
        "weights never change",
        THROUGHOUT,
        ERROR,
        ("beginning", "still"),
        600.0,
        "own: environment steps after learning begins",
        detect_frozen_weights,
        "the optimiser does not step, or has been given other parameters.",
        "call optimizer.step(); give it what is trained; lower learning_starts.",
        "layers that are frozen on purpose; updates that begin later than the diagnosis knows.",
    ),
    DiagnosisCheck(
        "network-cannot-fit",
        "the network cannot be fitted to a few states",
        THROUGHOUT,
        NOTE,
        ("fitting",),
        0.9,
        "own: share of the error that is left after 40 steps; TheDeepChecker wants 1e-8 after 1000",
        detect_failed_fit,
        "units are dead, the initialisation is wrong, or states hardly differ.",
        "use the framework's initialisation; wrappers=normalized.",
        "states that are nearly the same, as in sound runs of InvertedPendulum; a note.",
    ),
    DiagnosisCheck(
        "loss-diverges",
        "losses diverge",
        THROUGHOUT,
        WARNING,
        ("beginning", "loss"),
        1e4,
        "own: growth of the median of 32; losses of bootstrapped values need not fall, so that the "
        "paper's question whether they do means nothing",
        detect_diverging_losses,
        "values that feed on themselves.",
        "lower the learning rates and tau; check targets (wrong-targets) and gamma.",
        "rewards that come late and are large.",
    ),
    DiagnosisCheck(
        "large-weight-updates",
        "one step changes weights a lot",
        THROUGHOUT,
        WARNING,
        ("update_ratio",),
        0.1,
        "TheDeepChecker: the ratio's logarithm above -1; median of 5 windows, or ten times it once",
        detect_large_updates,
        "a learning rate that is too high.",
        "lower the learning rates.",
        "layers that begin near zero, as heads of policies do.",
    ),
    DiagnosisCheck(
        "value-overestimation",
        "values exceed what rewards can add up to",
        THROUGHOUT,
        WARNING,
        ("value_size", "reward_max"),
        2.0,
        "own: twice the bound max|r|/(1-gamma)",
        detect_overestimation,
        "critics that overestimate and feed on it, or targets without gamma or ends of episodes.",
        "lower tau and the learning rates; double_q; check targets (wrong-targets).",
        "rewards that have not been met yet but are predicted rightly.",
        _why_rewards_rescaled,
    ),
)
"""What is asked of networks."""
