"""Probes of TD3's updates."""

from collections.abc import Sequence

import numpy as np

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import POLICY_LOSS, OptimizerStepRecord, Parameters
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families import critics
from parallax.harness.probes.families.critics import (
    TargetAlternatives,
    TargetTerms,
    compute_masked_targets,
)
from parallax.harness.probes.measurements import (
    MAX_UPDATES,
    compute_critic_slopes,
    find_minibatch,
    get_update_noise,
    list_critic_names,
    list_critic_updates,
    list_network_steps,
    read_critics,
)
from parallax.harness.probes.probe import (
    LOOP,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
)
from parallax.harness.probes.reference_networks import (
    RELU,
    compute_input_gradient,
    compute_output,
    solve_output_gradient,
)
from parallax.harness.probes.td3 import experiments as td3_experiments
from parallax.harness.probes.td3.experiments import TARGET_NOISE, TARGET_NOISE_CLIP, TD3_PAPER

SMALLER_CRITIC_TEXT = "the smaller of both critics"


def compute_next_values(
    run: ProbeRun, step: OptimizerStepRecord, std: float, cut: bool = True
) -> tuple[Array, ...]:
    """Return all target critics at the target policy's next action, each float[rows].

    Args:
        run: The training.
        step: Optimizer step of the critics.
        std: Standard deviation of the noise on the action.
        cut: Whether actions are clipped at the bounds.
    """
    weights, data = step.before, find_minibatch(run, step)
    low, high = -np.ones(experiment_setups.ACTION_SIZE), np.ones(experiment_setups.ACTION_SIZE)
    mean = np.tanh(compute_output(weights, "policy_target", data.next_observations, RELU))
    noise = get_update_noise(run, step, len(mean))
    action = mean + formulas.compute_smoothing_noise(noise, std, TARGET_NOISE_CLIP, low, high)
    if cut:
        action = np.clip(action, low, high)
    inputs = np.hstack([data.next_observations, action])
    names = (f"{name}_target" for name in list_critic_names(run))
    return tuple(compute_output(weights, name, inputs, RELU)[:, 0] for name in names)


def compute_targets(run: ProbeRun, step: OptimizerStepRecord) -> TargetAlternatives:
    """Return the paper's targets of an update, and others by their description."""
    paper, beyond = (
        np.minimum(*compute_next_values(run, step, TARGET_NOISE, cut)) for cut in (True, False)
    )
    others = {"next actions that noise takes beyond the bounds are not cut": beyond}
    return compute_masked_targets(run, step, paper, others)


def list_target_terms(run: ProbeRun, step: OptimizerStepRecord) -> TargetTerms:
    """Return the terms of the paper's targets, with their weights."""
    value = np.minimum(*compute_next_values(run, step, TARGET_NOISE))
    gamma = run.hyperparameters.gamma
    return {"reward": (find_minibatch(run, step).rewards, 1.0), "next value": (value, gamma)}


def measure_policy_objective(cache: ExperimentCache, algorithm: str = "td3") -> ProbeMeasurement:
    """Measure the weights of the critics in the policy's objective; the paper's is the first."""
    run = td3_experiments.RUNS[algorithm].run_update(cache)
    steps = list_network_steps(run, "policy")[:MAX_UPDATES]
    fits = [fit_policy_terms(run, step) for step in steps]
    others: dict[str, Array] = {}
    if len(list_critic_names(run)) > 1:
        pulls = (_compute_objective_gradients(run, step, step.before) for step in steps)
        others[SMALLER_CRITIC_TEXT] = np.array(
            [_fit_terms(each, smaller)[0] for each, (smaller, _) in pulls]
        )
    first_term = [1.0] + [0.0] * (len(fits[0][0]) - 1)
    return critics.measure_policy_weights(run, steps, fits, first_term, others)


def measure_policy_clipping(cache: ExperimentCache, algorithm: str = "td3") -> ProbeMeasurement:
    """Measure the policy's gradient with steep critics, as a share of the unclipped one."""
    plain = _compute_policy_gradient_scale(td3_experiments.RUNS[algorithm].run_update(cache))
    steep = _compute_policy_gradient_scale(td3_experiments.run_huge_rewards(cache, algorithm))
    return ProbeMeasurement(np.array([steep / plain]), np.ones(1))


def _compute_policy_gradient_scale(run: ProbeRun) -> float:
    step = list_network_steps(run, "policy")[0]
    return float(np.abs(_fit_best(run, step, step.before)[0]).sum())


def _fit_best(run: ProbeRun, step: OptimizerStepRecord, then: Parameters) -> tuple[Array, float]:
    # The policy may maximize each critic, or the smaller one.
    found, objectives = _solve_policy_gradient(step), _compute_objective_gradients(run, step, then)
    return min((_fit_terms(terms, found) for terms in objectives if terms), key=lambda fit: fit[1])


def measure_critics_seen(cache: ExperimentCache, algorithm: str = "td3") -> ProbeMeasurement:
    """Measure whether the policy's step uses critics from before or after their step."""
    run = td3_experiments.RUNS[algorithm].run_update(cache)
    step = list_network_steps(run, "policy")[0]
    earlier = [s for s in list_critic_updates(run) if s.env_steps <= step.env_steps][-1]
    misfits = [_fit_best(run, step, seen)[1] for seen in (earlier.before, earlier.after)]
    return critics.compare_misfits(misfits)


def fit_policy_terms(run: ProbeRun, step: OptimizerStepRecord) -> tuple[Array, float]:
    """Fit the weights of all critics in the policy's gradient; also return the residual."""
    each, _ = _compute_objective_gradients(run, step, step.before)
    return _fit_terms(each, _solve_policy_gradient(step))


def _solve_policy_gradient(step: OptimizerStepRecord) -> Array:
    return solve_output_gradient(
        step.gradients, step.before, "policy", step.observations, RELU
    ).ravel()


def _compute_objective_gradients(
    run: ProbeRun, step: OptimizerStepRecord, weights: Parameters
) -> tuple[list[Array], list[Array]]:
    # Gradients by the policy's outputs of each critic, and of the smaller and larger of two.
    seen = step.observations
    action = np.tanh(compute_output(step.before, "policy", seen, RELU))
    inputs, inner = np.hstack([seen, action]), (1 - action**2) / len(action)
    each = [
        compute_input_gradient(weights, name, inputs)[:, -experiment_setups.ACTION_SIZE :]
        for name in list_critic_names(run)
    ]
    by_size = compute_critic_slopes(weights, seen, action) if len(each) > 1 else ()
    laid = [[(-inner * slope).ravel() for slope in slopes] for slopes in (each, by_size)]
    return laid[0], laid[1]


def _fit_terms(terms: list[Array], pull: Array) -> tuple[Array, float]:
    basis = np.stack(terms, axis=1)
    found = np.linalg.lstsq(basis, pull, rcond=None)[0]
    return np.asarray(found, float), float(np.abs(basis @ found - pull).max())


CRITIC_PROBES = critics.CriticProbes(
    td3_experiments.RUNS["td3"],
    td3_experiments.run_huge_rewards,
    compute_targets,
    list_target_terms,
    f"{TD3_PAPER}, algorithm 1",
    halves_loss=False,
)
UPDATE_PROBES: Sequence[Probe] = (
    *CRITIC_PROBES.build_probes(),
    Probe(
        "td3.policy_terms",
        "What does the policy maximize?",
        f"{TD3_PAPER}, algorithm 1: the first critic",
        f"weight of the first and of the second critic, in the first {MAX_UPDATES} steps",
        measure_policy_objective,
        make_entry_description(("weight of the first critic", "of the second critic")),
        tolerance=5e-4,
        events=(POLICY_LOSS,),
    ),
    critics.make_policy_clipping_probe("td3", measure_policy_clipping, f"{TD3_PAPER}, algorithm 1"),
    critics.make_critics_seen_probe("td3", measure_critics_seen, f"{TD3_PAPER}, algorithm 1"),
)

LONG_POLICY_DELAY = 3
"""Another delay than the paper's."""


def _measure_target_noise_source(cache: ExperimentCache) -> ProbeMeasurement:
    # If targets used the exploration noise, noise of another size would change them.
    runs = td3_experiments.RUNS["td3"].run_update(cache), td3_experiments.run_noisy_update(cache)
    first, other = (read_critics(run, list_critic_updates(run)[0]).target for run in runs)
    changed = not np.allclose(first, other, atol=1e-4)
    return ProbeMeasurement(np.array([float(changed)]), np.zeros(1))


def _measure_policy_delay(cache: ExperimentCache) -> ProbeMeasurement:
    steps = experiment_setups.BATCH_ROWS + 6 * LONG_POLICY_DELAY
    experiment = experiment_setups.build_off_policy_experiment(
        "td3 delayed",
        "td3",
        experiment_setups.make_continuous_data(cache, steps),
        experiment_setups.make_weights(cache, "td3"),
        policy_delay=LONG_POLICY_DELAY,
    )
    run = cache.run(experiment)
    critic = sum("critic1" in step.networks for step in run.record.steps)
    policy = sum("policy" in step.networks for step in run.record.steps)
    moves = sum(network == "critic1_target" for _, _, network in run.record.target_moves)
    if not policy or not moves:
        raise UnmeasuredError("the policy or the targets did not move")
    return ProbeMeasurement(
        np.round([critic / policy, critic / moves]), np.full(2, float(LONG_POLICY_DELAY))
    )


SETTING_PROBES: Sequence[Probe] = (
    Probe(
        "td3.target_noise_source",
        "Does the noise in targets follow the noise that is set for exploration?",
        f"{td3_experiments.TD3_PAPER}, eq. 14: it has a size of its own",
        "0 no, 1 yes",
        _measure_target_noise_source,
        lambda comparison, measurement: "the noise in targets is that of exploration",
        counts=True,
    ),
    Probe(
        "td3.delayed_updates",
        "How many critic steps are there per policy step and per target update, with "
        f"policy_delay={LONG_POLICY_DELAY}?",
        f"{td3_experiments.TD3_PAPER}, algorithm 1: d for both",
        "critic steps: per policy step, per target update",
        _measure_policy_delay,
        make_entry_description(("per policy step", "per target update")),
        counts=True,
        part=LOOP,
    ),
)
