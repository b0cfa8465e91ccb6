"""Probes of the optimizers: settings, lengths of steps, and sources of gradients."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import field_names
from parallax.harness.contract.probing.protocol import (
    CRITIC_LOSS,
    POLICY_STEP,
    STATE_STEPS,
    OptimizerStepRecord,
    Parameters,
)
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families.settings import (
    OPTION_SOURCE,
    build_off_policy_option_experiment,
)
from parallax.harness.probes.measurements import (
    MAX_UPDATES,
    check_recipe_networks,
    find_minibatch,
    list_critic_updates,
    list_network_steps,
    make_missing_step_error,
)
from parallax.harness.probes.probe import (
    NETWORKS,
    OPTIMIZERS,
    SETTINGS,
    DescribeDifference,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.reference_networks import (
    ACTIVATIONS,
    HIDDEN_LAYERS,
    Activation,
    backpropagate_gradients,
    compute_features,
)
from parallax.harness.probes.results import AnswerAxis, AnswerComparison

ADAM_PAPER = "Kingma & Ba 2015 (arXiv:1412.6980), algorithm 1"
OPTIMIZER_SETTINGS = ("eps", "beta1", "beta2", "weight_decay")
EXPLAINED_SETTINGS = (*OPTIMIZER_SETTINGS, "lr", "initial_lr", STATE_STEPS)
"""Numbers of an optimizer that other probes compare; Adam has 0 for all further options."""


def make_optimizer_probes(
    algorithm: str,
    run: Callable[[ExperimentCache], ProbeRun],
    own: Callable[[ExperimentCache], ProbeRun],
    rates: Mapping[str, float],
    eps: float,
    source: str,
    decay: float = 0.0,
) -> Sequence[Probe]:
    """Return the probes of one algorithm's optimizers.

    Args:
        algorithm: Name of the algorithm.
        run: A few updates with known gradients.
        own: A few updates with the framework's own settings.
        rates: The paper's learning rates, by canonical network.
        eps: The authors' epsilon of Adam.
        source: Citation of these.
        decay: The paper's weight decay of critics.
    """
    networks = tuple(rates)

    def learning_rates(cache: ExperimentCache) -> ProbeMeasurement:
        value = np.array(
            [list_network_steps(own(cache), n)[0].settings[n].get("lr", np.nan) for n in networks]
        )
        return ProbeMeasurement(value, np.array(list(rates.values())))

    def settings(cache: ExperimentCache) -> ProbeMeasurement:
        value = np.array(
            [[_read_setting(own(cache), n, k) for k in OPTIMIZER_SETTINGS] for n in networks]
        )
        decays = (decay if network.startswith("critic") else 0.0 for network in networks)
        expected = np.array([[eps, 0.9, 0.999, decay_of] for decay_of in decays])
        return ProbeMeasurement(value.ravel(), expected.ravel())

    def rates_over_time(cache: ExperimentCache) -> ProbeMeasurement:
        rates_then = [_read_setting_over_time(own(cache), n, "lr") for n in networks]
        value = np.concatenate([rates / rates[0] for rates in rates_then])
        return ProbeMeasurement(value, np.ones_like(value))

    name = f"{algorithm}.{{}}".format
    listing = ", ".join(networks)
    return (
        Probe(
            name("learning_rates"),
            "What are the initial learning rates by default?",
            source,
            f"learning rates: {listing}",
            learning_rates,
            make_entry_description([f"that of the {n}" for n in networks]),
            has_own_units=True,
            part=SETTINGS,
        ),
        Probe(
            name("adam_settings"),
            "What are the optimizer's constants by default?",
            source,
            f"epsilon, beta 1, beta 2 and weight decay: {listing}",
            settings,
            make_entry_description(
                [f"{s} of the {n}" for n in networks for s in OPTIMIZER_SETTINGS]
            ),
            has_own_units=True,
            part=OPTIMIZERS,
        ),
        Probe(
            name("optimizer_options"),
            "Which options beyond Adam's constants do the optimizers use, and do options change?",
            f"{ADAM_PAPER}: none, and constants stay",
            f"options used or changed during a run: {listing}",
            lambda cache: _measure_options(
                [own(cache), *_run_long_cycles(cache, algorithm)], networks
            ),
            make_entry_description([f"options of the {n}'s optimizer" for n in networks]),
            counts=True,
            part=OPTIMIZERS,
        ),
        Probe(
            name("optimizer_state"),
            "Do the optimizers' states remember all steps since the start?",
            ADAM_PAPER,
            f"steps at which a state has forgotten earlier ones: {listing}",
            lambda cache: _measure_forgotten_steps((run(cache), own(cache)), networks),
            make_entry_description(
                [f"steps at which the {n}'s state is forgotten" for n in networks]
            ),
            counts=True,
            part=OPTIMIZERS,
        ),
        make_step_probe(algorithm, run, networks),
        Probe(
            name("learning_rate_by_default"),
            "Does the learning rate change during a run, by default?",
            f"{source}: it is constant",
            f"learning rate over that of the first step, at each step of a short run, of {listing}",
            rates_over_time,
            lambda comparison, measurement: _describe_schedule(measurement.value),
            part=SETTINGS,
        ),
    )


OWN_RATE = 2e-3
"""A learning rate that no framework has by default."""


def make_own_rate_probe(algorithm: str, fields: Mapping[str, str], words: str) -> Probe:
    """Return the probe of whether networks learn at a rate apart from the policy's.

    Args:
        algorithm: Name of an off-policy algorithm.
        fields: Setting of the learning rate of each network, by canonical network.
        words: The networks in words, for the question.
    """

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        base = build_off_policy_option_experiment(cache, algorithm)
        changes = {**base.changes, **dict.fromkeys(fields.values(), OWN_RATE)}
        chosen = list(fields)
        if not cache.accepts_settings(algorithm, changes, len(base.scripted_data.rewards)):
            # Some frameworks tie the temperature's rate to the policy's.
            chosen = chosen[:1]
            changes = {**base.changes, fields[chosen[0]]: OWN_RATE}
        run = cache.run(dataclasses.replace(base, name=f"{algorithm} own rates", changes=changes))
        shares = {n: _read_setting_over_time(run, n, "lr") / OWN_RATE for n in chosen}
        worst = {n: float(found[np.abs(found - 1).argmax()]) for n, found in shares.items()}
        network = max(worst, key=lambda n: abs(worst[n] - 1))
        words = f"the {network}'s learning rate is {worst[network]:.3g} times its setting"
        return ProbeMeasurement(np.array([worst[network]]), np.ones(1), meaning=words)

    return Probe(
        f"{algorithm}.critic_learning_rate",
        f"Can the learning rate of {words} be set apart from the policy's?",
        OPTION_SOURCE,
        f"learning rate over its setting, at worst of {', '.join(fields)}",
        measure,
        lambda comparison, measurement: measurement.meaning,
        part=OPTIMIZERS,
        events=(CRITIC_LOSS,),
    )


LONG_CYCLE = {"gradient_steps": 4}
"""An update cycle that shows settings which change from one gradient step to the next."""


def _run_long_cycles(cache: ExperimentCache, algorithm: str) -> list[ProbeRun]:
    # PPO's cycles have several gradient steps anyway, and some frameworks take only one.
    changes = {**experiment_setups.SHORT_OFF_POLICY_SETTINGS, **LONG_CYCLE}
    experiment = experiment_setups.build_defaults_experiment(cache, algorithm, 0, changes)
    steps = len(experiment.scripted_data.rewards)
    known = "gradient_steps" in field_names(ALGORITHMS[algorithm])
    if not known or not cache.accepts_settings(algorithm, experiment.changes, steps):
        return []
    return [cache.run(dataclasses.replace(experiment, name=f"{algorithm} long cycles"))]


def _measure_options(runs: Sequence[ProbeRun], networks: Sequence[str]) -> ProbeMeasurement:
    words: list[str] = []
    counts = np.zeros(len(networks))
    for i, network in enumerate(networks):
        each = [[step for step in run.record.steps if network in step.networks] for run in runs]
        steps = list(itertools.chain(*each))
        names = sorted({name for step in steps for name in step.settings[network]})
        found = [f"class {steps[0].optimizer}"] if steps and steps[0].optimizer != "Adam" else []
        for name in names:
            over = [step.settings[network].get(name, 0.0) for step in steps]
            if name not in EXPLAINED_SETTINGS and any(over):
                found.append(f"{name} is {max(over, key=abs):.4g}")
            elif name not in ("lr", STATE_STEPS) and len(set(over)) > 1:
                found.append(f"{name} goes from {over[0]:.4g} to {over[-1]:.4g}")
        for long in each[1:]:
            pairs = ((a, b) for a, b in itertools.pairwise(long) if a.env_steps == b.env_steps)
            rates = ([step.settings[network].get("lr") or 0.0 for step in pair] for pair in pairs)
            changed = [(a, b) for a, b in rates if not np.isclose(a, b, 1e-5, 0)]  # float32
            found += [f"lr goes from {a:.4g} to {b:.4g} within a cycle" for a, b in changed[:1]]
        counts[i] = len(found)
        words += [f"the {network}'s optimizer: {', '.join(found)}"] if found else []
    return ProbeMeasurement(counts, np.zeros_like(counts), meaning="; ".join(words))


def _measure_forgotten_steps(runs: Sequence[ProbeRun], networks: Sequence[str]) -> ProbeMeasurement:
    # An optimizer state was reset if its step count does not increase from one step to the next.
    counts = np.zeros(len(networks))
    for i, network in enumerate(networks):
        for run in runs:
            remembered = [
                step.settings[network][STATE_STEPS]
                for step in run.record.steps
                if STATE_STEPS in step.settings.get(network, {})
            ]
            # The state of an optimizer that counts nothing, such as SGD, has 0 at all of them.
            is_adam = any(s.optimizer == "Adam" for s in run.record.steps if network in s.networks)
            if is_adam or any(remembered):
                counts[i] += sum(two <= one for one, two in itertools.pairwise(remembered))
    return ProbeMeasurement(counts, np.zeros_like(counts))


def make_step_probe(
    algorithm: str, run: Callable[[ExperimentCache], ProbeRun], networks: Sequence[str]
) -> Probe:
    """Return the probe of the lengths of optimizer steps.

    Args:
        algorithm: Name.
        run: A few updates with known gradients.
        networks: Canonical names.
    """

    def steps(cache: ExperimentCache) -> ProbeMeasurement:
        shares = np.concatenate([measure_adam_shares(run(cache), network) for network in networks])
        return ProbeMeasurement(shares, np.ones_like(shares))

    return Probe(
        f"{algorithm}.optimizer_step",
        "How long are steps, given gradients and learning rate?",
        ADAM_PAPER,
        f"share of Adam's step, in the first {MAX_UPDATES} steps of {', '.join(networks)}",
        steps,
        _describe_step_lengths,
        tolerance=1e-3,
        events=(POLICY_STEP,),
    )


def is_clipped_by_entry(step: OptimizerStepRecord, bound: float) -> bool:
    """Return whether several entries of a step's gradients are at a bound, and none is beyond."""
    sizes = np.abs(np.concatenate([gradient.ravel() for gradient in step.gradients.values()]))
    at_bound = np.isclose(sizes, bound, rtol=ROUNDING)
    return bool(at_bound.sum() > 1 and at_bound[sizes.argmax()])


def measure_gradient_norms(
    steps: Sequence[OptimizerStepRecord], largest: float
) -> tuple[Array, dict[str, Array]]:
    """Return the norms of gradients that are clipped at `largest`, and what explains other norms.

    Args:
        steps: Optimizer steps, with the gradients that these get.
        largest: Norm of a gradient that is clipped.

    Returns:
        Norms, float[steps]. By words, alternatives of a measurement; empty if none applies.
    """
    norms = np.sqrt([sum(float(np.sum(g**2)) for g in s.gradients.values()) for s in steps])
    by_entry = all(is_clipped_by_entry(step, largest) for step in steps)
    others = {"each entry of the gradients is cut at that number, not their norm": norms}
    others = others if by_entry else {}
    # Clipped gradients have the same norm in each update.
    if min(norms) > largest and np.ptp(norms) > 1e-3 * largest:
        others["gradients are not clipped at that norm"] = norms
    return norms, others


def make_clipped_norm_probe(
    algorithm: str, run: Callable[[ExperimentCache], ProbeRun], largest: float
) -> Probe:
    """Return the probe of the norm of a critic's gradients that are clipped at `largest`."""

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        norms, others = measure_gradient_norms(list_critic_updates(run(cache))[:2], largest)
        return ProbeMeasurement(norms, np.full(len(norms), largest), alternatives=others)

    return Probe(
        f"{algorithm}.gradient_clipping",
        f"What is the norm of gradients that are clipped at {largest}?",
        "Pascanu et al. 2013 (arXiv:1211.5063), algorithm 1: that norm, over all layers",
        "norm, in the first two updates",
        measure,
        make_relation_description("norm"),
        tolerance=1e-3,
        part=SETTINGS,
        events=(POLICY_STEP,),
    )


EARLIER_GRADIENTS = "gradients of earlier updates are added"
MIN_FOREIGN_SHARE = 1e-3
"""Smallest share of a gradient that does not come from the minibatch and is more than rounding."""
MIN_COSINE = 0.5
"""Smallest cosine of that part and the last gradient.

It is below 1, since policies that maximize a critic may add gradients to it as well.
"""
MAX_UNEXPLAINED = 0.02
"""Largest part of such a rest that other inputs may leave unexplained, as a share of it."""
STEP_TOLERANCE = 1e-3
"""Deviation of a step, as a share of its largest entry, that counts as rounding."""
ROUNDING = 1e-5
"""Share of the largest entry of a gradient below which an entry may be rounding."""


def measure_adam_shares(run: ProbeRun, network: str, penalty: float = 0.0) -> Array:
    """Return the lengths of the first steps as shares of Adam's with the same gradients.

    The share is NaN if the directions differ.

    Args:
        run: The training.
        network: Canonical name.
        penalty: Weight of half the squared weights, whose gradient is added.
    """
    adam, steps = formulas.ReferenceAdam(), list_network_steps(run, network)[:MAX_UPDATES]
    return np.array([_measure_adam_share(adam, s, network, penalty) for s in steps if s.after])


def _measure_adam_share(
    adam: formulas.ReferenceAdam, step: OptimizerStepRecord, network: str, penalty: float
) -> float:
    names = [name for name in step.gradients if name.split(".")[0] == network]
    if not names:
        return float("nan")
    pulls = {n: step.gradients[n] + penalty * step.before[n] for n in names}
    line = np.concatenate(
        [adam.step(n, pull, step.settings[network]).ravel() for n, pull in pulls.items()]
    )
    taken = np.concatenate([(step.after[n] - step.before[n]).ravel() for n in names])
    # The direction of a step along a gradient of nearly 0 is a matter of rounding.
    sizes = np.abs(np.concatenate([pull.ravel() for pull in pulls.values()]))
    is_sure = (sizes == 0) | (sizes > ROUNDING * sizes.max())
    line, taken = line[is_sure], taken[is_sure]
    share = float(taken @ line / (line @ line))
    rest = np.abs(taken - share * line).max() / np.abs(line).max()
    return share if rest < STEP_TOLERANCE * max(1.0, abs(share)) else np.nan


def _describe_step_lengths(comparison: object, measurement: ProbeMeasurement) -> str:
    value = measurement.value
    lost = int(np.isnan(value).sum())
    if lost:
        return f"{lost} of {len(value)} steps go elsewhere than Adam's"
    return f"steps are {value.min():.4g} to {value.max():.4g} times as long as Adam's"


def _read_setting(run: ProbeRun, network: str, setting: str) -> float:
    # The value at the first step, or the later value that differs most from it.
    over = _read_setting_over_time(run, network, setting)
    return float(over[np.argmax(np.abs(over - over[0]))])


def _read_setting_over_time(run: ProbeRun, network: str, setting: str) -> Array:
    missing = np.nan if setting == "lr" else 0.0
    found = [s.settings[network] for s in run.record.steps if network in s.networks]
    if not found:
        raise make_missing_step_error(run, network)
    return np.array([settings.get(setting, missing) for settings in found])


def _describe_schedule(shares: Array) -> str:
    return f"it goes from {shares[0]:.3g} to {shares[-1]:.3g} of its start"


ACTIVATION_INPUTS = np.linspace(-3.0, 3.0, 25)
_ZERO_TOLERANCE = 1e-6  # for the input of a unit


def make_gradient_probes(
    algorithm: str, run: Callable[[ExperimentCache], ProbeRun], networks: Sequence[str], source: str
) -> Sequence[Probe]:
    """Return the probes of the sources of one algorithm's gradients and weight changes.

    Args:
        algorithm: Name.
        run: Some updates with known minibatches.
        networks: Canonical names.
        source: Citation of the activation function.
    """
    _, paper = HIDDEN_LAYERS[algorithm]
    two = networks[:2]

    def activations(cache: ExperimentCache) -> ProbeMeasurement:
        check_recipe_networks(run(cache), *two)
        found = [_identify_activation(run(cache), n) for n in two]
        value = np.concatenate([_evaluate_activation(name) for name in found])
        axis = AnswerAxis("input; " + ", then ".join(two), np.tile(ACTIVATION_INPUTS, len(two)))
        return ProbeMeasurement(value, np.tile(paper(ACTIVATION_INPUTS), len(two)), axis)

    def rests(cache: ExperimentCache) -> ProbeMeasurement:
        value = np.array(
            [1 - _compute_largest_unexplained_share(run(cache), n, paper) for n in networks]
        )
        added: dict[str, list[str]] = {}
        for name in networks:
            added.setdefault(explain_foreign_gradients(run(cache), name), []).append(name)
        added.pop("", None)
        words = "; ".join(f"{cause}: {', '.join(names)}" for cause, names in added.items())
        return ProbeMeasurement(value, np.ones_like(value), meaning=words)

    def moved(cache: ExperimentCache) -> ProbeMeasurement:
        value = count_unexplained_moves(run(cache), networks)
        return ProbeMeasurement(value, np.zeros_like(value))

    return (
        Probe(
            f"{algorithm}.activation",
            "Which function do hidden units apply?",
            source,
            "output of a unit; " + ", then ".join(two),
            activations,
            _make_activation_description(two),
            part=NETWORKS,
        ),
        Probe(
            f"{algorithm}.gradient_source",
            "Do gradients come from the network's predictions on the minibatch alone?",
            "the papers' losses: yes; a penalty on weights or a second path would leave a rest",
            f"share of all layers' gradients, at worst in the first {MAX_UPDATES} updates: "
            + ", ".join(networks),
            rests,
            make_entry_description(networks),
            tolerance=5e-3,
        ),
        Probe(
            f"{algorithm}.moved_otherwise",
            "Which networks change other than by a step of their optimizer?",
            "the papers' algorithms: none but targets",
            f"times, between and in the first {MAX_UPDATES} updates: {', '.join(networks)}",
            moved,
            make_entry_description([f"changes of the {name} without a step" for name in networks]),
            counts=True,
        ),
    )


def build_network_inputs(run: ProbeRun, network: str, step: OptimizerStepRecord) -> Array:
    """Return the inputs of a network in an update, float[rows, inputs]."""
    if not network.startswith("critic"):
        return step.observations
    data = find_minibatch(run, step)
    if run.experiment.scripted_data.n_discrete_actions:
        return data.observations
    return np.hstack([data.observations, data.actions])


def list_network_updates(run: ProbeRun, network: str) -> list[OptimizerStepRecord]:
    """Return the first updates of a network, merged over both critics if it is one of them."""
    if network.startswith("critic"):
        return list_critic_updates(run)
    return list_network_steps(run, network)[:MAX_UPDATES]


def compute_unexplained_share(
    run: ProbeRun, network: str, step: OptimizerStepRecord, activation: Activation
) -> float:
    """Return the share of the last layers' gradients that gradients by outputs cannot explain."""
    heads = _split_head_gradients(run, network, step, step.gradients, activation).values()
    return max(_compute_relative_difference(h.layer - h.rest, h.layer) for h in heads)


@dataclasses.dataclass(frozen=True)
class _HeadGradients:
    """Gradients of a head, a last layer of a network.

    Attributes:
        by_outputs: Gradients by its outputs, solved from the layer's, float[rows, outputs].
        rest: Part of the layer's that is no sum over the minibatch's features.
        layer: Gradients of the layer's weights and biases, float[units + 1, outputs].
    """

    by_outputs: Array
    rest: Array
    layer: Array


def _split_head_gradients(
    run: ProbeRun, network: str, step: OptimizerStepRecord, pulls: Parameters, f: Activation
) -> dict[str, _HeadGradients]:
    hidden = compute_features(step.before, network, build_network_inputs(run, network, step), f)
    system = np.vstack([hidden.T, np.ones(len(hidden))])
    found = {}
    for head in ("out", "mean", "std"):
        name = f"{network}.{head}"
        if f"{name}.weight" in pulls:
            whole = np.vstack([pulls[f"{name}.weight"].T, pulls[f"{name}.bias"]])
            solved = np.asarray(np.linalg.lstsq(system, whole, rcond=None)[0])
            found[head] = _HeadGradients(solved, whole - system @ solved, whole)
    if not found:
        raise UnmeasuredError(f"its optimizer got no gradient of {network}")
    return found


def adds_earlier_gradients(run: ProbeRun, network: str) -> bool:
    """Return whether gradients hold those of the step before, whatever the loss is.

    The gradient of a last layer is a sum over the minibatch's features. What is outside of their
    span comes from elsewhere; from the second step on, it is compared with the last gradient.
    """
    _, activation = HIDDEN_LAYERS[run.experiment.algorithm]
    steps, cosines = list_network_updates(run, network), list[float]()
    for last, step in zip([steps[0], *steps], steps, strict=False):
        now, before = (
            _split_head_gradients(run, network, step, gradients, activation).values()
            for gradients in (step.gradients, last.gradients)
        )
        rest, last_rest = (np.hstack([head.rest for head in heads]) for heads in (now, before))
        layer, last_layer = (np.hstack([head.layer for head in heads]) for heads in (now, before))
        size, length = float(np.linalg.norm(rest)), max(float(np.linalg.norm(last_rest)), 1e-30)
        if size > MIN_FOREIGN_SHARE * np.linalg.norm(layer):
            # The same gradient again, as in the first step, is no sum.
            is_sum = not np.allclose(layer, last_layer)
            cosines.append(is_sum * float(np.sum(rest * last_rest)) / size / length)
    return bool(cosines) and min(cosines) > MIN_COSINE


POLICY_GRADIENTS = "gradients of the policy's loss are added"


def explain_foreign_gradients(run: ProbeRun, network: str) -> str:
    """Return which gradients a network's hold besides those of its minibatch; empty if unknown."""
    if adds_earlier_gradients(run, network):
        return EARLIER_GRADIENTS
    return POLICY_GRADIENTS if _adds_policy_gradients(run, network) else ""


def _adds_policy_gradients(run: ProbeRun, network: str) -> bool:
    # Whether what is outside of the minibatch's span is within that of a critic's inputs in the
    # steps of the policy since the network's last step.
    _, activation = HIDDEN_LAYERS[run.experiment.algorithm]
    rests = []
    for step in list_network_updates(run, network) if network.startswith("critic") else ():
        heads = _split_head_gradients(run, network, step, step.gradients, activation)
        rest, layer = heads["out"].rest, heads["out"].layer
        if np.linalg.norm(rest) <= MIN_FOREIGN_SHARE * np.linalg.norm(layer):
            continue
        seen = build_network_inputs(run, network, step)
        features = [compute_features(step.before, network, seen, activation)]
        name = f"{network}.out.weight"
        for last in run.record.steps:
            if last.gradients.get(name) is step.gradients[name]:
                break
            if network in last.networks:
                features = features[:1]
            elif "policy" in last.networks and last.before:
                shown = [x for x in last.critic_inputs if x.shape[1] == seen.shape[1]]
                features += [compute_features(last.before, network, x, activation) for x in shown]
        every = np.vstack(features)
        system = np.vstack([every.T, np.ones(len(every))])
        solved = np.linalg.lstsq(system, layer, rcond=None)[0]
        rests.append(np.linalg.norm(layer - system @ solved) / np.linalg.norm(rest))
    return bool(rests and max(rests) < MAX_UNEXPLAINED)


def _compute_largest_unexplained_share(
    run: ProbeRun, network: str, activation: Activation
) -> float:
    rests = []
    for step in list_network_updates(run, network):
        seen = build_network_inputs(run, network, step)
        heads = _split_head_gradients(run, network, step, step.gradients, activation)
        pulls = {name: head.by_outputs for name, head in heads.items()}
        # Rounding decides whether a gradient passes a unit whose input is almost 0.
        either = [
            backpropagate_gradients(step.before, network, seen, activation, pulls, above)
            for above in (-_ZERO_TOLERANCE, _ZERO_TOLERANCE)
        ]
        rests.append(
            min(_compute_largest_difference(expected, step.gradients) for expected in either)
        )
    return max(rests)


def _compute_largest_difference(expected: Parameters, found: Parameters) -> float:
    return max(_compute_relative_difference(array, found[name]) for name, array in expected.items())


def _compute_relative_difference(one: Array, other: Array) -> float:
    scale = max(float(np.abs(one).max()), float(np.abs(other).max()))
    return float(np.abs(one - other).max()) / scale if scale > 0 else 0.0


def count_unexplained_moves(run: ProbeRun, networks: Sequence[str]) -> Array:
    """Count changes of each network between its optimizer's steps, or in another network's step."""
    saved = [step for step in run.record.steps if step.before and step.after]
    saved = saved[: 4 * MAX_UPDATES]
    found = []
    for network in networks:
        between = sum(
            _has_network_changed(one.after, two.before, network)
            for one, two in itertools.pairwise(saved)
        )
        within = sum(
            _has_network_changed(s.before, s.after, network)
            for s in saved
            if network not in s.networks
        )
        found.append(float(between + within))
    return np.array(found)


def _has_network_changed(one: Parameters, other: Parameters, network: str) -> bool:
    names = [name for name in one if name.split(".")[0] == network]
    return any(not np.array_equal(one[name], other[name]) for name in names)


def _identify_activation(run: ProbeRun, network: str) -> str:
    step = list_network_updates(run, network)[0]
    rests = {
        name: compute_unexplained_share(run, network, step, f) for name, f in ACTIVATIONS.items()
    }
    best = min(rests, key=lambda name: rests[name])
    return best if rests[best] < 0.01 else "unknown"


def _evaluate_activation(name: str) -> Array:
    if name in ACTIVATIONS:
        return ACTIVATIONS[name](ACTIVATION_INPUTS)
    return np.full_like(ACTIVATION_INPUTS, np.nan)


def _make_activation_description(networks: Sequence[str]) -> DescribeDifference:
    def text(comparison: AnswerComparison, measurement: ProbeMeasurement) -> str:
        curves = measurement.value.reshape(len(networks), -1)
        found = [_name_activation(curve) for curve in curves]
        return ", ".join(f"{n}: {name}" for n, name in zip(networks, found, strict=True))

    return text


def _name_activation(curve: Array) -> str:
    names = [name for name, f in ACTIVATIONS.items() if np.allclose(f(ACTIVATION_INPUTS), curve)]
    return names[0] if names else "none of " + ", ".join(ACTIVATIONS)
