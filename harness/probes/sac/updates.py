"""Probes of SAC's updates: critics, policy, temperature."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import (
    POLICY_LOSS,
    TEMPERATURE_LOSS,
    OptimizerStepRecord,
    Parameters,
)
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families import critics
from parallax.harness.probes.families.critics import (
    TargetAlternatives,
    TargetTerms,
    compute_masked_targets,
)
from parallax.harness.probes.families.optimisation import EARLIER_GRADIENTS
from parallax.harness.probes.measurements import (
    MAX_UPDATES,
    compute_critic_slopes,
    find_minibatch,
    get_gradient,
    get_update_noise,
    get_weights_before_update,
    list_critic_updates,
    list_network_steps,
)
from parallax.harness.probes.probe import (
    LOOP,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.reference_networks import RELU, compute_output, solve_output_gradient
from parallax.harness.probes.sac import experiments
from parallax.harness.probes.sac.experiments import POLICY_STD, RUNS, SAC_PAPER

POLICY_TERM_NAMES = (
    "weight of the entropy",
    "weight of the smaller critic",
    "of the larger critic",
)


def get_temperature(weights: Parameters) -> float:
    """Return the temperature from its logarithm."""
    return float(np.exp(weights["temperature.log"].reshape(-1)[0]))


def sample_actions(
    run: ProbeRun, step: OptimizerStepRecord, observations: Array
) -> tuple[Array, Array]:
    """Return actions of the policy with the scripted noise, and their log-probabilities."""
    mean = compute_output(step.before, "policy", observations, RELU, "mean")
    std = np.full_like(mean, POLICY_STD)
    if run.experiment.std is not None:
        std = run.experiment.std(compute_output(step.before, "policy", observations, RELU, "std"))
    x = mean + std * get_update_noise(run, step, len(mean))
    if not run.experiment.squashed:
        return x, formulas.compute_normal_log_prob(x, mean, std)
    return np.tanh(x), formulas.compute_squashed_log_prob(x, mean, std)


def _compute_next_values(run: ProbeRun, step: OptimizerStepRecord) -> tuple[Array, Array]:
    # Target critics at the next action, float[2, rows], and its log-probability.
    seen = find_minibatch(run, step).next_observations
    action, log_prob = sample_actions(run, step, seen)
    inputs = np.hstack([seen, action])
    names = ("critic1_target", "critic2_target")
    values = [compute_output(step.before, name, inputs, RELU)[:, 0] for name in names]
    return np.array(values), log_prob


def compute_targets(run: ProbeRun, step: OptimizerStepRecord) -> TargetAlternatives:
    """Return the paper's targets of an update, and others by their description."""
    temperature = get_temperature(get_weights_before_update(run, step))
    paper = formulas.compute_soft_value(*_compute_next_values(run, step), temperature)
    return compute_masked_targets(run, step, paper, {})


def list_target_terms(run: ProbeRun, step: OptimizerStepRecord) -> TargetTerms:
    """Return the terms of the paper's targets, with their weights."""
    twins, log_prob = _compute_next_values(run, step)
    gamma = run.hyperparameters.gamma
    temperature = get_temperature(get_weights_before_update(run, step))
    return {
        "reward": (find_minibatch(run, step).rewards, 1.0),
        "next value": (twins.min(axis=0), gamma),
        "log-probability": (log_prob, -gamma * temperature),
    }


def _measure_policy_terms(cache: ExperimentCache) -> ProbeMeasurement:
    run = RUNS.run_update(cache)
    steps = list_network_steps(run, "policy")[:MAX_UPDATES]
    fits = [fit_policy_terms(run, step) for step in steps]
    others = {CONSTANT_SAMPLE: np.array([_fit_constant_sample(run, step) for step in steps])}
    return critics.measure_policy_weights(run, steps, fits, [1.0, 1.0, 0.0], others)


def _measure_policy_clipping(cache: ExperimentCache) -> ProbeMeasurement:
    plain = _compute_critic_weight(RUNS.run_update(cache))
    steep = _compute_critic_weight(experiments.run_huge_rewards(cache))
    return ProbeMeasurement(np.array([steep / plain]), np.ones(1))


def _compute_critic_weight(run: ProbeRun) -> float:
    return float(np.abs(fit_policy_terms(run, list_network_steps(run, "policy")[0])[0][1:]).sum())


def _measure_critics_seen(cache: ExperimentCache) -> ProbeMeasurement:
    run = RUNS.run_update(cache)
    step, first = list_network_steps(run, "policy")[0], list_critic_updates(run)[0]
    misfits = [fit_policy_terms(run, step, then)[1] for then in (first.before, first.after)]
    return critics.compare_misfits(misfits)


def fit_policy_terms(
    run: ProbeRun, step: OptimizerStepRecord, critics_then: Parameters | None = None
) -> tuple[Array, float]:
    """Fit entropy, smaller and larger critic to the policy's gradient: weights and residual."""
    weights, seen = step.before if critics_then is None else critics_then, step.observations
    heads = ("mean",) if run.experiment.squashed else ("mean", "std")
    pulls = (
        solve_output_gradient(step.gradients, step.before, "policy", seen, RELU, h) for h in heads
    )
    basis, gradient = _list_policy_terms(run, step, weights)[0], np.stack([*pulls]).ravel()
    found = np.linalg.lstsq(basis, gradient, rcond=None)[0]
    return np.asarray(found, float), float(np.abs(basis @ found - gradient).max())


CONSTANT_SAMPLE = "the sampled action has no gradient: the policy does not climb the critics"


def _fit_constant_sample(run: ProbeRun, step: OptimizerStepRecord) -> Array:
    basis, gradient = _list_policy_terms(run, step, step.before)
    return np.asarray(np.linalg.lstsq(basis, gradient, rcond=None)[0], float)


def _list_policy_terms(
    run: ProbeRun, step: OptimizerStepRecord, weights: Parameters
) -> tuple[Array, Array]:
    # Gradients by means, and without squashing by the other output: those of entropy and critics,
    # float[gradients, terms], and that of the log-probability of a constant action.
    action, _ = sample_actions(run, step, step.observations)
    slopes = compute_critic_slopes(weights, step.observations, action)
    temperature, n = get_temperature(get_weights_before_update(run, step)), len(action)
    noise, map_of, nudge = get_update_noise(run, step, n), run.experiment.std, 1e-4
    assert map_of is not None
    raw = compute_output(step.before, "policy", step.observations, RELU, "std")
    std = map_of(raw)
    if run.experiment.squashed:
        inner = 1 - action**2
        terms = (2 * temperature * action, *(-inner * slope for slope in slopes))
        constant = temperature * noise / std
    else:
        log_slope = (np.log(map_of(raw + nudge)) - np.log(map_of(raw - nudge))) / (2 * nudge)
        spread, entropy = std * noise * log_slope, np.stack([0 * raw, -temperature * log_slope])
        terms = (entropy, *(np.stack([-slope, -slope * spread]) for slope in slopes))
        constant = temperature * np.stack([noise / std, (noise**2 - 1) * log_slope])
    return np.stack([term.ravel() / n for term in terms], axis=1), constant.ravel() / n


CRITIC_PROBES = critics.CriticProbes(
    RUNS,
    experiments.run_huge_rewards,
    compute_targets,
    list_target_terms,
    f"{SAC_PAPER}, eq. 5",
    halves_loss=True,
    term_names=("reward", "next value", "log-probability"),
)
UPDATE_PROBES: Sequence[Probe] = (
    *CRITIC_PROBES.build_probes(),
    Probe(
        "sac.policy_terms",
        "What does the policy maximize?",
        f"{SAC_PAPER}, eq. 7 and 9, with the smaller critic",
        f"per policy step, in the first {MAX_UPDATES}: {', '.join(POLICY_TERM_NAMES)}",
        _measure_policy_terms,
        make_entry_description(POLICY_TERM_NAMES),
        tolerance=5e-4,
        events=(POLICY_LOSS,),
    ),
    critics.make_policy_clipping_probe(
        "sac", _measure_policy_clipping, f"{SAC_PAPER}, algorithm 1"
    ),
    critics.make_critics_seen_probe("sac", _measure_critics_seen, f"{SAC_PAPER}, algorithm 1"),
)


LINEAR_IN_LOG_TEMPERATURE = (
    "the loss is linear in the log temperature, so the pull lacks the temperature as a factor"
)
WRONG_TARGET_SIGN = "the target entropy has the opposite sign"
WRONG_ENTROPY_SIGN = "the entropy has the opposite sign, and its target not"
AWAY_FROM_TARGET = (
    "of the opposite sign: the temperature falls where the entropy is below its target"
)


@dataclasses.dataclass(frozen=True)
class TemperatureGradients:
    """Gradients of the temperature, per update.

    Attributes:
        gradient: Gradient by the log temperature.
        before: Mean log-probability under the policy before its step.
        after: The same after the policy's step.
        temperature: Temperature before its own step.
    """

    gradient: Array
    before: Array
    after: Array
    temperature: Array


def read_temperature_gradients(run: ProbeRun) -> TemperatureGradients:
    """Read the gradients of the temperature's first steps."""
    steps = list_network_steps(run, "temperature")[:MAX_UPDATES]
    found = [get_gradient(step, "temperature.log").reshape(-1)[0] for step in steps]
    starts = [get_weights_before_update(run, step) for step in steps]
    pairs = zip(steps, starts, strict=True)
    before = [_compute_mean_log_prob(run, step, start) for step, start in pairs]
    after = [_compute_mean_log_prob(run, step, step.before) for step in steps]
    temperatures = [get_temperature(step.before) for step in steps]
    return TemperatureGradients(*map(np.array, (found, before, after, temperatures)))


def _compute_mean_log_prob(run: ProbeRun, step: OptimizerStepRecord, weights: Parameters) -> float:
    then = dataclasses.replace(step, before=weights)
    return float(sample_actions(run, then, step.observations)[1].mean())


def _measure_temperature_gradient(cache: ExperimentCache) -> ProbeMeasurement:
    # Use several temperatures, to separate a constant factor from the temperature.
    runs = (RUNS.run_update(cache), experiments.run_huge_rewards(cache))
    read = [read_temperature_gradients(run) for run in runs]
    found = np.concatenate([each.gradient for each in read])
    temperature = np.concatenate([each.temperature for each in read])
    # The target entropy is minus the number of actions.
    apart = np.concatenate([each.before for each in read]) - experiment_setups.ACTION_SIZE
    late = np.concatenate([each.after for each in read]) - experiment_setups.ACTION_SIZE
    paper = -temperature * apart
    others = {
        LINEAR_IN_LOG_TEMPERATURE: -apart,
        f"{LINEAR_IN_LOG_TEMPERATURE}, under the policy after its step": -late,
        "under the policy after its step": -temperature * late,
    }
    opposite = {f"{AWAY_FROM_TARGET}; {text}": -pull for text, pull in others.items()}
    others |= {AWAY_FROM_TARGET: -paper, **opposite}
    mirrored = apart + 2 * experiment_setups.ACTION_SIZE
    others[WRONG_TARGET_SIGN] = np.array([-mirrored, -temperature * mirrored])
    others[WRONG_ENTROPY_SIGN] = np.array([mirrored, temperature * mirrored])
    # If gradients are added up, each one less the one before follows a known formula.
    own = np.concatenate([np.diff(each.gradient, prepend=0.0) for each in read])
    known = (paper, *(row for each in others.values() for row in np.atleast_2d(each)))
    if any(np.allclose(own, due, rtol=1e-3) for due in known):
        others[EARLIER_GRADIENTS] = found

    def explain() -> str:
        # PyTorch and its second of start-up are only needed here.
        from parallax.harness.probes.families import changed_formulas

        steps = [(r, s) for r in runs for s in list_network_steps(r, "temperature")[:MAX_UPDATES]]
        return changed_formulas.explain_temperature_gradients(steps, found)

    return ProbeMeasurement(found, paper, alternatives=others, explain=explain)


def _measure_target_entropy(cache: ExperimentCache) -> ProbeMeasurement:
    read = [read_temperature_gradients(run) for run in experiments.run_two_noise_levels(cache)]
    found = np.array([each.gradient[0] for each in read])
    means = np.array([each.before[0] for each in read])
    slope, start = np.polyfit(means, found, 1)
    value, due = np.array([start / slope]), np.array([-float(experiment_setups.ACTION_SIZE)])
    is_mirrored = slope > 0 and np.allclose(value, -due, rtol=1e-3)
    return ProbeMeasurement(value, due, meaning=WRONG_ENTROPY_SIGN if is_mirrored else "")


TEMPERATURE_PROBES: Sequence[Probe] = (
    Probe(
        "sac.temperature_gradient",
        "What is the gradient of the temperature loss?",
        f"{SAC_PAPER}, eq. 18: the loss is linear in the temperature itself",
        "gradient by the log temperature, at temperatures near 0.5 and near 0.2",
        _measure_temperature_gradient,
        make_relation_description("pull on the log temperature"),
        events=(TEMPERATURE_LOSS,),
    ),
    Probe(
        "sac.target_entropy",
        "What is the target entropy?",
        f"{SAC_PAPER}, appendix D: minus the number of actions",
        "nats, for two action dimensions",
        _measure_target_entropy,
        make_relation_description("target entropy"),
        events=(TEMPERATURE_LOSS,),
    ),
)


def _measure_policy_steps(cache: ExperimentCache) -> ProbeMeasurement:
    steps = RUNS.run_count_experiment(cache).record.steps
    critic, policy, temperature = (
        sum(network in step.networks for step in steps)
        for network in ("critic1", "policy", "temperature")
    )
    return ProbeMeasurement(np.array([policy, temperature]) / critic, np.ones(2))


POLICY_STEPS_PROBE = Probe(
    "sac.policy_steps",
    "How many steps of policy and temperature are there per critic step, by default?",
    f"{SAC_PAPER}, algorithm 1: 1",
    "steps per critic step: policy, temperature",
    _measure_policy_steps,
    make_entry_description(("policy steps", "temperature steps")),
    part=LOOP,
    events=(POLICY_LOSS,),
)

DELAY = 3
"""Critic steps per policy step, or per target update; the paper's is 1."""


def _run_delayed(cache: ExperimentCache, name: str, **delay: int) -> ProbeRun:
    return cache.run(
        experiment_setups.build_off_policy_experiment(
            f"sac {name}",
            "sac",
            experiment_setups.make_continuous_data(cache, experiment_setups.BATCH_ROWS + 4 * DELAY),
            experiment_setups.make_weights(cache, "sac"),
            **delay,
        )
    )


def _measure_delayed_policy(cache: ExperimentCache) -> ProbeMeasurement:
    run = _run_delayed(cache, "delayed policy", policy_delay=DELAY)
    found = [_count_critic_steps_per_step(run, network) for network in ("policy", "temperature")]
    return ProbeMeasurement(np.array(found), np.full(2, float(DELAY)))


def _count_critic_steps_per_step(run: ProbeRun, network: str) -> float:
    """Return the critic steps from a network's first step to its last, per step after the first.

    Steps that follow the same critic step as the first one do not count.
    """
    critic = np.cumsum(["critic1" in step.networks for step in run.record.steps])
    before = [
        n for n, step in zip(critic, run.record.steps, strict=True) if network in step.networks
    ]
    later = sum(n > before[0] for n in before) if before else 0
    if not later:
        raise UnmeasuredError(f"the {network} did not learn after two critic steps")
    return float((before[-1] - before[0]) / later)


def _measure_delayed_targets(cache: ExperimentCache) -> ProbeMeasurement:
    # In one update cycle: Stable-Baselines3 counts the interval from the start of each cycle.
    cycle = {"train_freq": DELAY, "gradient_steps": DELAY}
    record = _run_delayed(cache, "delayed targets", target_update_interval=DELAY, **cycle).record
    critic = [place for place, step in enumerate(record.steps) if "critic1" in step.networks]
    moves = [taken for _, taken, name in record.target_moves if name == "critic1_target"]
    if len(moves) < 2:
        raise UnmeasuredError("the targets moved less than twice")
    first, second = (sum(place < taken for place in critic) for taken in moves[:2])
    return ProbeMeasurement(np.array([first, second - first], float), np.full(2, float(DELAY)))


DELAY_PROBES: Sequence[Probe] = (
    Probe(
        "sac.delayed_updates",
        "How many critic steps are there per step of policy and temperature, with "
        f"policy_delay={DELAY}?",
        "our meaning of policy_delay, as TD3's: one step per delay",
        "critic steps: per policy step, per temperature step",
        _measure_delayed_policy,
        make_entry_description(("per policy step", "per temperature step")),
        counts=True,
        part=LOOP,
        events=(POLICY_LOSS,),
    ),
    Probe(
        "sac.delayed_targets",
        "How many critic steps are there until the first target update and the second, with "
        f"target_update_interval={DELAY}?",
        "our meaning of target_update_interval: targets move after its last critic step",
        "critic steps: until the first target update, from there to the second",
        _measure_delayed_targets,
        make_entry_description(("until the first", "from there to the second")),
        counts=True,
        part=LOOP,
    ),
)
