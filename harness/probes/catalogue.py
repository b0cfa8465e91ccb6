"""All probes."""

import difflib
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness.contract.algorithms import PROBED_ALGORITHMS as ALGORITHMS
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.probes import ddpg as noise
from parallax.harness.probes import ddpg as probes_ddpg
from parallax.harness.probes.ddpg import DDPG_ALGORITHM, DDPG_PAPER
from parallax.harness.probes.dqn import experiments as dqn_experiments
from parallax.harness.probes.dqn import exploration
from parallax.harness.probes.dqn import exploration as dqn_exploration
from parallax.harness.probes.dqn import losses as dqn_losses
from parallax.harness.probes.dqn import targets as dqn_targets
from parallax.harness.probes.dqn.experiments import DQN_ALGORITHM, DQN_CODE, DQN_PAPER
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.families import counts, initialisation, optimisation, storage
from parallax.harness.probes.families import settings as defaults
from parallax.harness.probes.families import settings as options
from parallax.harness.probes.ppo import experiments as ppo_experiments
from parallax.harness.probes.ppo import losses as ppo_losses
from parallax.harness.probes.ppo import rollouts, schedules
from parallax.harness.probes.ppo.experiments import PPO_CODE, PPO_PAPER
from parallax.harness.probes.probe import (
    Probe,
    is_same_answer,
    make_relation_description,
    run_probe,
)
from parallax.harness.probes.r2d2 import experiments as r2d2_experiments
from parallax.harness.probes.r2d2 import memory, replay
from parallax.harness.probes.r2d2 import targets as r2d2_targets
from parallax.harness.probes.results import ProbeAnswer
from parallax.harness.probes.sac import experiments as sac_experiments
from parallax.harness.probes.sac import policy
from parallax.harness.probes.sac import updates as sac_updates
from parallax.harness.probes.sac.experiments import SAC_CODE, SAC_PAPER
from parallax.harness.probes.td3 import actions as action
from parallax.harness.probes.td3 import experiments as td3_experiments
from parallax.harness.probes.td3 import updates as td3_updates
from parallax.harness.probes.td3.actions import measure_exploration_unit
from parallax.harness.probes.td3.experiments import POLICY_DELAY, TD3_CODE, TD3_PAPER

OUTPUT_GAINS = {"policy.out": 0.01, "value.out": 1.0}
"""Orthogonal gain of the last layers in the authors' code; hidden layers have sqrt(2)."""


def _compute_orthogonal_rms(name: str, shape: tuple[int, ...]) -> float:
    return float(OUTPUT_GAINS.get(name, np.sqrt(2)) / np.sqrt(max(shape)))


PPO_PROBES: tuple[Probe, ...] = (
    storage.make_greedy_probe(
        "ppo",
        (
            ppo_experiments.run_wide_bounds,
            lambda lab: ppo_experiments.run_out_of_bounds(lab, narrow=True),
        ),
        "out",
        f"{PPO_PAPER}, section 6.1: the mean of the Gaussian; {PPO_CODE} cuts it",
    ),
    *rollouts.ACTION_PROBES,
    *rollouts.ADVANTAGE_PROBES,
    *ppo_losses.POLICY_PROBES,
    *ppo_losses.VALUE_PROBES,
    *ppo_losses.LATER_ROLLOUT_PROBES,
    *schedules.MINIBATCH_PROBES,
    *ppo_losses.DIVERGENCE_PROBES,
    *schedules.ANNEALING_PROBES,
    *optimisation.make_gradient_probes(
        "ppo",
        ppo_experiments.run_three_rollouts,
        ("policy", "value"),
        f"{PPO_PAPER}, section 6.1: tanh",
    ),
    *optimisation.make_optimizer_probes(
        "ppo",
        ppo_experiments.run_three_rollouts,
        ppo_experiments.run_library_defaults,
        {"policy": 3e-4, "value": 3e-4},
        1e-5,
        f"{PPO_PAPER}, table 3: Adam with 0.0003; epsilon in {PPO_CODE}",
    ),
    initialisation.make_initial_constant_probe(
        "ppo.initial_std",
        "Which standard deviation has the policy at the start, by default?",
        f"{PPO_CODE}: 1",
        ppo_experiments.run_library_defaults,
        "policy.log_std",
        1.0,
    ),
    *initialisation.make_initialization_probes(
        "ppo",
        ppo_experiments.run_library_defaults,
        initialisation.InitialNetworks(
            _compute_orthogonal_rms,
            0.0,
            f"{PPO_CODE}: orthogonal, gain sqrt(2), 0.01 for the policy's last layer, no bias",
            orthogonal=True,
            sizes=(64, 64, 64, 64),
            size_source=f"{PPO_PAPER}, section 6.1: 64 and 64",
        ),
    ),
)

TD3_ALGORITHM = f"{TD3_PAPER}, algorithm 1"


TD3_PROBES: tuple[Probe, ...] = (
    storage.make_greedy_probe(
        "td3",
        (td3_experiments.run_frozen_policy, td3_experiments.run_narrow_bounds),
        "out",
        f"{TD3_PAPER}, appendix C: tanh of the output, scaled",
    ),
    storage.make_action_range_probe(
        "td3",
        (td3_experiments.run_out_of_bounds, td3_experiments.run_narrow_bounds),
        f"{TD3_PAPER}, authors' code: cut there",
    ),
    *action.ACTION_PROBES,
    *td3_updates.UPDATE_PROBES,
    *counts.make_count_probes(
        "td3",
        td3_experiments.run_count_experiment,
        td3_experiments.run_parallel_envs,
        TD3_ALGORITHM,
        POLICY_DELAY,
    ),
    *storage.make_storage_probes(
        "td3", td3_experiments.run_update, td3_experiments.run_out_of_bounds
    ),
    storage.make_full_buffer_probe("td3", td3_experiments.run_full_buffer),
    *optimisation.make_gradient_probes(
        "td3",
        td3_experiments.run_update,
        ("policy", "critic1", "critic2"),
        f"{TD3_PAPER}, appendix C: ReLU",
    ),
    *optimisation.make_optimizer_probes(
        "td3",
        td3_experiments.run_update,
        td3_experiments.run_library_defaults,
        {"policy": 1e-3, "critic1": 1e-3},
        1e-8,
        f"{TD3_PAPER}, appendix C: Adam with 0.001",
    ),
    initialisation.make_initial_target_probe(
        "td3", td3_experiments.run_library_defaults, TD3_ALGORITHM
    ),
    *initialisation.make_initialization_probes(
        "td3",
        td3_experiments.run_library_defaults,
        initialisation.InitialNetworks(
            lambda name, shape: 1 / np.sqrt(3 * shape[1]),
            1 / np.sqrt(3),
            f"{TD3_CODE}: as PyTorch makes a linear layer, uniform",
            sizes=(400, 300, 400, 300),
            size_source=f"{TD3_PAPER}, appendix C: 400 and 300",
        ),
    ),
)

SAC_ALGORITHM = f"{SAC_PAPER}, algorithm 1"
SAC_APPENDIX = f"{SAC_PAPER}, appendix D"


SAC_PROBES: tuple[Probe, ...] = (
    storage.make_greedy_probe(
        "sac",
        (
            sac_experiments.run_frozen_policy,
            lambda lab: sac_experiments.run_out_of_bounds(lab, narrow=True),
        ),
        "mean",
        f"{sac_experiments.SAC_FIRST_PAPER}, section 5.2: tanh of the mean, scaled",
    ),
    storage.make_action_range_probe(
        "sac",
        (
            sac_experiments.run_out_of_bounds,
            lambda lab: sac_experiments.run_out_of_bounds(lab, narrow=True),
        ),
        f"{sac_experiments.SAC_FIRST_PAPER}, appendix C: tanh keeps them there",
    ),
    *policy.PROBES,
    *sac_updates.UPDATE_PROBES,
    *sac_updates.TEMPERATURE_PROBES,
    *counts.make_count_probes(
        "sac",
        sac_experiments.run_count_experiment,
        sac_experiments.run_parallel_envs,
        SAC_ALGORITHM,
        1,
    ),
    *storage.make_storage_probes(
        "sac", sac_experiments.run_update, sac_experiments.run_frozen_policy
    ),
    storage.make_full_buffer_probe("sac", sac_experiments.run_full_buffer),
    *optimisation.make_gradient_probes(
        "sac",
        sac_experiments.run_update,
        ("policy", "critic1", "critic2"),
        f"{SAC_APPENDIX}: ReLU",
    ),
    *optimisation.make_optimizer_probes(
        "sac",
        sac_experiments.run_update,
        sac_experiments.run_library_defaults,
        {"policy": 3e-4, "critic1": 3e-4, "temperature": 3e-4},
        1e-8,
        f"{SAC_APPENDIX}: Adam with 0.0003",
    ),
    initialisation.make_initial_constant_probe(
        "sac.initial_temperature",
        "At which temperature does a run start, by default?",
        f"{SAC_CODE}: 1",
        sac_experiments.run_library_defaults,
        "temperature.log",
        1.0,
    ),
    initialisation.make_initial_target_probe(
        "sac", sac_experiments.run_library_defaults, SAC_ALGORITHM
    ),
    *initialisation.make_initialization_probes(
        "sac",
        sac_experiments.run_library_defaults,
        initialisation.InitialNetworks(
            lambda name, shape: float(np.sqrt(2 / sum(shape))),
            0.0,
            f"{SAC_CODE}: as Keras makes a layer, Glorot uniform and no bias",
            sizes=(256, 256, 256, 256),
            size_source=f"{SAC_APPENDIX}: 256 and 256",
        ),
    ),
)

OUTPUT_INIT_BOUND = 3e-3
"""Bound of the uniform weights and biases of the paper's last layers."""


def _compute_ddpg_weight_rms(name: str, shape: tuple[int, ...]) -> float:
    bound = OUTPUT_INIT_BOUND if name.endswith(".out") else 1 / np.sqrt(shape[1])
    return float(bound / np.sqrt(3))


def _compute_ddpg_bias_rms(name: str, inputs: int) -> float:
    return _compute_ddpg_weight_rms(name, (1, inputs)) * float(np.sqrt(inputs))


DDPG_PROBES: tuple[Probe, ...] = (
    storage.make_greedy_probe(
        "ddpg",
        (probes_ddpg.run_out_of_bounds, probes_ddpg.run_narrow_bounds),
        "out",
        f"{DDPG_PAPER}, section 7: tanh of the output; here scaled to the range",
    ),
    storage.make_action_range_probe(
        "ddpg",
        (probes_ddpg.run_out_of_bounds, probes_ddpg.run_narrow_bounds),
        f"{DDPG_PAPER}, section 7: bounded; here cut there",
    ),
    Probe(
        "ddpg.exploration",
        "Which action is taken with Gaussian noise of 0.1 of half the range, from -1 to 3?",
        f"{DDPG_ALGORITHM}: the policy's action and noise; here kept within the bounds",
        "action, in action units",
        lambda lab: measure_exploration_unit(lab, "ddpg"),
        make_relation_description("action"),
    ),
    *noise.NOISE_PROBES,
    *probes_ddpg.UPDATE_PROBES,
    *counts.make_count_probes(
        "ddpg", probes_ddpg.run_count_experiment, probes_ddpg.run_parallel_envs, DDPG_ALGORITHM, 1
    ),
    *storage.make_storage_probes("ddpg", probes_ddpg.run_update, probes_ddpg.run_out_of_bounds),
    storage.make_full_buffer_probe("ddpg", probes_ddpg.run_full_buffer),
    *optimisation.make_gradient_probes(
        "ddpg", probes_ddpg.run_update, ("policy", "critic1"), f"{DDPG_PAPER}, section 7: rectified"
    ),
    *optimisation.make_optimizer_probes(
        "ddpg",
        probes_ddpg.run_update,
        probes_ddpg.run_library_defaults,
        {"policy": 1e-4, "critic1": 1e-3},
        1e-8,
        f"{DDPG_PAPER}, section 7: Adam with 0.0001 and 0.001, weight decay 0.01 of the critic",
        decay=0.01,
    ),
    initialisation.make_initial_target_probe(
        "ddpg", probes_ddpg.run_library_defaults, DDPG_ALGORITHM
    ),
    *initialisation.make_initialization_probes(
        "ddpg",
        probes_ddpg.run_library_defaults,
        initialisation.InitialNetworks(
            _compute_ddpg_weight_rms,
            _compute_ddpg_bias_rms,
            f"{DDPG_PAPER}, section 7: uniform within 1/sqrt(inputs), the last layer within 0.003",
            sizes=(400, 300, 400, 300),
            size_source=f"{DDPG_PAPER}, section 7: 400 and 300",
        ),
    ),
)

DQN_PROBES: tuple[Probe, ...] = (
    *exploration.EXPLORATION_PROBES,
    *dqn_losses.PROBES,
    *dqn_targets.PROBES,
    *dqn_exploration.COUNT_PROBES,
    *storage.make_storage_probes("dqn", dqn_experiments.run_update, None),
    storage.make_full_buffer_probe("dqn", dqn_experiments.run_full_buffer),
    *optimisation.make_gradient_probes(
        "dqn", dqn_experiments.run_update, ("critic1",), f"{DQN_PAPER}, methods: rectified"
    ),
    *optimisation.make_optimizer_probes(
        "dqn",
        dqn_experiments.run_update,
        dqn_experiments.run_library_defaults,
        {"critic1": 2.5e-4},
        1e-8,
        f"{DQN_PAPER}, extended data table 1: 0.00025, there of RMSProp; here Adam",
    ),
    initialisation.make_initial_target_probe(
        "dqn", dqn_experiments.run_library_defaults, DQN_ALGORITHM
    ),
    *initialisation.make_initialization_probes(
        "dqn",
        dqn_experiments.run_library_defaults,
        initialisation.InitialNetworks(
            lambda name, shape: 1 / np.sqrt(3 * shape[1]),
            1 / np.sqrt(3),
            f"{DQN_CODE}: as Torch makes a linear layer, uniform",
        ),
    ),
)

R2D2_PROBES: tuple[Probe, ...] = (
    *r2d2_targets.PROBES,
    *memory.PROBES,
    *replay.PRIORITY_PROBES,
    *replay.COUNT_PROBES,
    optimisation.make_step_probe("r2d2", r2d2_experiments.run_bandit, ("critic1",)),
)

SETTINGS_PROBES: tuple[Probe, ...] = (
    *options.OPTION_PROBES,
    *defaults.DEFAULT_PROBES,
    *td3_updates.STATEMENT_PROBES,
)

PROBES: tuple[Probe, ...] = tuple(
    probe
    for algorithm in ALGORITHMS
    for probe in itertools.chain(
        PPO_PROBES,
        TD3_PROBES,
        SAC_PROBES,
        DDPG_PROBES,
        DQN_PROBES,
        R2D2_PROBES,
        SETTINGS_PROBES,
    )
    if probe.algorithm == algorithm
)


def select_probes(algorithms: Sequence[str], patterns: Sequence[str]) -> list[Probe]:
    """Probes of some algorithms whose name contains one of some texts; empty is all.

    Raises:
        SpecError: An algorithm is not known, or nothing is left.
    """
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise SpecError(
                format_unknown_name(f"--algorithms {algorithm}", algorithm, list(ALGORITHMS))
            )
    chosen = [
        probe
        for probe in PROBES
        if (not algorithms or probe.algorithm in algorithms)
        and (not patterns or any(pattern in probe.name for pattern in patterns))
    ]
    if not chosen:
        names = [probe.name for probe in PROBES]
        close = difflib.get_close_matches(patterns[0] if patterns else "", names, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise SpecError(
            f"--probe {','.join(patterns)}: no probe has such a name.{hint} "
            "parallax probe --list lists all."
        )
    return chosen


MOST_SENSITIVE_PROBES = (
    *("critic_target", "gradient_source", "policy_terms", "target_update", "critic_loss_factor"),
    *("target_weights", "termination_target", "truncation_target", "counts", "gae"),
    *("policy_loss", "later_policy_loss", "value_loss_factor", "optimizer_step", "total_loss"),
    *("critic_loss", "loss_numbers", "temperature_gradient", "log_prob"),
)
"""Probes that are asked first, as they see most; the others follow in the registry's order."""
LOCKSTEP_PROBES = (
    *MOST_SENSITIVE_PROBES,
    *("std_map", "squash_correction", "update_order", "truncation", "adam_settings"),
    *("advantages_recomputed", "critics_seen_by_policy", "target_action"),
)
"""Probes that are asked where two implementations part: of updates, and not of counts."""


def sort_probes(algorithm: str) -> Sequence[Probe]:
    """All probes of an algorithm, those that see most first."""
    probes = [probe for probe in PROBES if probe.algorithm == algorithm]
    last = len(MOST_SENSITIVE_PROBES)
    return sorted(
        probes,
        key=lambda p: (
            MOST_SENSITIVE_PROBES.index(_get_probe_suffix(p))
            if _get_probe_suffix(p) in MOST_SENSITIVE_PROBES
            else last
        ),
    )


def measure_answer(lab: ExperimentCache, probe: Probe) -> ProbeAnswer | None:
    """One implementation's answer; None where the probe fails."""
    try:
        return run_probe(probe, {lab.adapter.name: lab}).answers.get(lab.adapter.name)
    except Exception:
        return None


AnswerProbe = Callable[[Probe], ProbeAnswer | None]
"""Puts a probe to one implementation, with what is changed of it."""


def list_differing_probes(one: AnswerProbe, other: AnswerProbe, algorithm: str) -> tuple[str, ...]:
    """Names of the probes among `APART` that two implementations answer differently.

    Args:
        one: Asks the first.
        other: Asks the second.
        algorithm: That both have.
    """
    found = []
    for probe in sort_probes(algorithm):
        if _get_probe_suffix(probe) not in LOCKSTEP_PROBES or _get_probe_suffix(probe) == "counts":
            continue
        answers = [ask(probe) for ask in (one, other)]
        known = [a for a in answers if a is not None and not a.unmeasured]
        if len(known) == len(answers) and not is_same_answer(probe, *known):
            found.append(probe.name)
    return tuple(found)


def _get_probe_suffix(probe: Probe) -> str:
    return probe.name.split(".", 1)[1]
