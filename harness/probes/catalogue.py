"""The catalogue of probes: all questions about the implementations of an algorithm.

Questions that several algorithms share are built by `families`; those of one algorithm are in the
module that measures them. `select_probes` chooses by name, `sort_probes` orders by how many
injected bugs a probe finds.
"""

import difflib
from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness.contract.algorithms import PROBED_ALGORITHMS as ALGORITHMS
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.probing.protocol import ACTION
from parallax.harness.probes import ddpg
from parallax.harness.probes.dqn import experiments as dqn_experiments
from parallax.harness.probes.dqn import exploration as dqn_exploration
from parallax.harness.probes.dqn import updates as dqn_updates
from parallax.harness.probes.dqn.experiments import DQN_ALGORITHM, DQN_CODE, DQN_PAPER
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.families import (
    counts,
    initialisation,
    optimisation,
    randomness,
    settings,
    storage,
)
from parallax.harness.probes.ppo import experiments as ppo_experiments
from parallax.harness.probes.ppo import losses as ppo_losses
from parallax.harness.probes.ppo import rollouts as ppo_rollouts
from parallax.harness.probes.ppo import schedules as ppo_schedules
from parallax.harness.probes.ppo.experiments import PPO_CODE, PPO_PAPER
from parallax.harness.probes.probe import (
    LOOP,
    NETWORKS,
    Probe,
    is_same_answer,
    make_relation_description,
    run_probe,
)
from parallax.harness.probes.r2d2 import experiments as r2d2_experiments
from parallax.harness.probes.r2d2 import replay as r2d2_replay
from parallax.harness.probes.r2d2 import updates as r2d2_updates
from parallax.harness.probes.results import ProbeAnswer
from parallax.harness.probes.sac import experiments as sac_experiments
from parallax.harness.probes.sac import policy as sac_policy
from parallax.harness.probes.sac import updates as sac_updates
from parallax.harness.probes.sac.experiments import SAC_CODE, SAC_FIRST_PAPER, SAC_PAPER
from parallax.harness.probes.td3 import actions as td3_actions
from parallax.harness.probes.td3 import experiments as td3_experiments
from parallax.harness.probes.td3 import updates as td3_updates
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
            lambda cache: ppo_experiments.run_out_of_bounds(cache, narrow=True),
        ),
        "out",
        f"{PPO_PAPER}, section 6.1: the mean of the Gaussian; {PPO_CODE} cuts it",
        squashed=False,
    ),
    *ppo_rollouts.ACTION_PROBES,
    *ppo_rollouts.ADVANTAGE_PROBES,
    *ppo_losses.POLICY_PROBES,
    *ppo_losses.VALUE_PROBES,
    *ppo_losses.LATER_ROLLOUT_PROBES,
    *ppo_schedules.MINIBATCH_PROBES,
    *ppo_losses.DIVERGENCE_PROBES,
    *ppo_schedules.ANNEALING_PROBES,
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
        "What is the policy's initial standard deviation by default?",
        f"{PPO_CODE}: 1",
        ppo_experiments.run_library_defaults,
        "policy.log_std",
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
    *ppo_schedules.OPTION_PROBES,
    settings.make_default_settings_probe("ppo"),
    *randomness.make_randomness_probes("ppo", ppo_experiments.choose_base_settings),
    ppo_rollouts.STORED_REWARD_PROBE,
)

TD3_RUNS = td3_experiments.RUNS["td3"]
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
    *td3_actions.ACTION_PROBES,
    *td3_updates.UPDATE_PROBES,
    *counts.make_count_probes(TD3_RUNS, TD3_ALGORITHM, POLICY_DELAY),
    *storage.make_storage_probes(TD3_RUNS, td3_experiments.run_out_of_bounds),
    storage.make_critic_action_probe("td3"),
    *storage.make_buffer_probes(TD3_RUNS),
    *optimisation.make_gradient_probes(
        "td3",
        TD3_RUNS.run_update,
        ("policy", "critic1", "critic2"),
        f"{TD3_PAPER}, appendix C: ReLU",
    ),
    *optimisation.make_optimizer_probes(
        "td3",
        TD3_RUNS.run_update,
        TD3_RUNS.run_library_defaults,
        {"policy": 1e-3, "critic1": 1e-3},
        1e-8,
        f"{TD3_PAPER}, appendix C: Adam with 0.001",
    ),
    initialisation.make_initial_target_probe(TD3_RUNS, TD3_ALGORITHM),
    *initialisation.make_initialization_probes(
        "td3",
        TD3_RUNS.run_library_defaults,
        initialisation.InitialNetworks(
            lambda name, shape: 1 / np.sqrt(3 * shape[1]),
            1 / np.sqrt(3),
            f"{TD3_CODE}: as PyTorch makes a linear layer, uniform",
            sizes=(400, 300, 400, 300),
            size_source=f"{TD3_PAPER}, appendix C: 400 and 300",
        ),
    ),
    settings.make_option_probe(
        "td3",
        {"hidden_sizes": (48, 32)},
        "hidden_sizes",
        "the size of the hidden layers",
        part=NETWORKS,
    ),
    settings.make_option_probe(
        "td3", {"target_policy_noise": 0.15}, "target_policy_noise", "the noise in targets"
    ),
    settings.make_option_probe(
        "td3", {"gradient_steps": 2}, "update_ratio", "gradient steps per update cycle", part=LOOP
    ),
    optimisation.make_own_rate_probe("td3", {"critic1": "critic_learning_rate"}, "critics"),
    settings.make_default_settings_probe("td3"),
    *randomness.make_randomness_probes(
        "td3", lambda cache: td3_experiments.DRAWING_SETTINGS["td3"]
    ),
    settings.make_tau_probe(TD3_RUNS),
    td3_actions.EXPLORATION_UNIT_PROBE,
    *td3_updates.SETTING_PROBES,
)

SAC_RUNS = sac_experiments.RUNS
SAC_ALGORITHM = f"{SAC_PAPER}, algorithm 1"
SAC_APPENDIX = f"{SAC_PAPER}, appendix D"

SAC_PROBES: tuple[Probe, ...] = (
    storage.make_greedy_probe(
        "sac",
        (
            sac_experiments.run_frozen_policy,
            lambda cache: sac_experiments.run_out_of_bounds(cache, narrow=True),
        ),
        "mean",
        f"{SAC_FIRST_PAPER}, section 5.2: tanh of the mean, scaled",
    ),
    storage.make_action_range_probe(
        "sac",
        (
            sac_experiments.run_out_of_bounds,
            lambda cache: sac_experiments.run_out_of_bounds(cache, narrow=True),
        ),
        f"{SAC_FIRST_PAPER}, appendix C: tanh keeps them there",
    ),
    *sac_policy.PROBES,
    *sac_updates.UPDATE_PROBES,
    *sac_updates.TEMPERATURE_PROBES,
    *counts.make_count_probes(SAC_RUNS, SAC_ALGORITHM, 1, has_temperature=True),
    *storage.make_storage_probes(SAC_RUNS, sac_experiments.run_frozen_policy),
    storage.make_critic_action_probe("sac"),
    *storage.make_buffer_probes(SAC_RUNS),
    *optimisation.make_gradient_probes(
        "sac", SAC_RUNS.run_update, ("policy", "critic1", "critic2"), f"{SAC_APPENDIX}: ReLU"
    ),
    *optimisation.make_optimizer_probes(
        "sac",
        SAC_RUNS.run_update,
        SAC_RUNS.run_library_defaults,
        {"policy": 3e-4, "critic1": 3e-4, "temperature": 3e-4},
        1e-8,
        f"{SAC_APPENDIX}: Adam with 0.0003",
    ),
    initialisation.make_initial_constant_probe(
        "sac.initial_temperature",
        "What is the initial temperature by default?",
        f"{SAC_CODE}: 1",
        SAC_RUNS.run_library_defaults,
        "temperature.log",
    ),
    initialisation.make_initial_target_probe(SAC_RUNS, SAC_ALGORITHM),
    *initialisation.make_initialization_probes(
        "sac",
        SAC_RUNS.run_library_defaults,
        initialisation.InitialNetworks(
            lambda name, shape: float(np.sqrt(2 / sum(shape))),
            0.0,
            f"{SAC_CODE}: as Keras makes a layer, Glorot uniform and no bias",
            sizes=(256, 256, 256, 256),
            size_source=f"{SAC_APPENDIX}: 256 and 256",
        ),
    ),
    settings.make_option_probe(
        "sac", {"gradient_steps": 2}, "update_ratio", "gradient steps per update cycle", part=LOOP
    ),
    optimisation.make_own_rate_probe(
        "sac",
        {"critic1": "critic_learning_rate", "temperature": "temperature_learning_rate"},
        "critics and temperature",
    ),
    settings.make_default_settings_probe("sac"),
    *randomness.make_randomness_probes(
        "sac", lambda cache: {"hidden_sizes": (256, 256), "policy_delay": 1}
    ),
    settings.make_tau_probe(SAC_RUNS),
    sac_updates.POLICY_STEPS_PROBE,
    *sac_updates.DELAY_PROBES,
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
        (ddpg.run_out_of_bounds, ddpg.run_narrow_bounds),
        "out",
        f"{ddpg.DDPG_PAPER}, section 7: tanh of the output; here scaled to the range",
    ),
    storage.make_action_range_probe(
        "ddpg",
        (ddpg.run_out_of_bounds, ddpg.run_narrow_bounds),
        f"{ddpg.DDPG_PAPER}, section 7: bounded; here cut there",
    ),
    Probe(
        "ddpg.exploration",
        "Which action is taken with Gaussian noise of 0.1 of half the range, from -1 to 3?",
        f"{ddpg.DDPG_ALGORITHM}: the policy's action and noise; here clipped at the bounds",
        "action, in action units",
        lambda cache: td3_actions.measure_exploration_unit(cache, "ddpg"),
        make_relation_description("action"),
        events=(ACTION,),
    ),
    Probe(
        "ddpg.warm_up_action",
        "Which actions are taken during the warm-up?",
        f"{TD3_PAPER}, section 6.1, for DDPG too: drawn uniformly at random",
        "action, in action units",
        lambda cache: td3_actions.measure_warm_up(cache, "ddpg"),
        make_relation_description("random action"),
        events=(ACTION,),
    ),
    *ddpg.NOISE_PROBES,
    *ddpg.UPDATE_PROBES,
    *counts.make_count_probes(ddpg.RUNS, ddpg.DDPG_ALGORITHM, 1),
    *storage.make_storage_probes(ddpg.RUNS, ddpg.run_out_of_bounds),
    storage.make_critic_action_probe("ddpg"),
    *storage.make_buffer_probes(ddpg.RUNS),
    *optimisation.make_gradient_probes(
        "ddpg",
        ddpg.RUNS.run_update,
        ("policy", "critic1"),
        f"{ddpg.DDPG_PAPER}, section 7: rectified",
    ),
    *optimisation.make_optimizer_probes(
        "ddpg",
        ddpg.RUNS.run_update,
        ddpg.RUNS.run_library_defaults,
        {"policy": 1e-4, "critic1": 1e-3},
        1e-8,
        f"{ddpg.DDPG_PAPER}, section 7: Adam with 0.0001 and 0.001, weight decay 0.01 of "
        "the critic",
        decay=0.01,
    ),
    initialisation.make_initial_target_probe(ddpg.RUNS, ddpg.DDPG_ALGORITHM),
    *initialisation.make_initialization_probes(
        "ddpg",
        ddpg.RUNS.run_library_defaults,
        initialisation.InitialNetworks(
            _compute_ddpg_weight_rms,
            _compute_ddpg_bias_rms,
            f"{ddpg.DDPG_PAPER}, section 7: uniform within 1/sqrt(inputs), the last layer within "
            "0.003",
            sizes=(400, 300, 400, 300),
            size_source=f"{ddpg.DDPG_PAPER}, section 7: 400 and 300",
        ),
    ),
    optimisation.make_own_rate_probe("ddpg", {"critic1": "critic_learning_rate"}, "the critic"),
    settings.make_default_settings_probe("ddpg"),
    *randomness.make_randomness_probes(
        "ddpg", lambda cache: td3_experiments.DRAWING_SETTINGS["ddpg"]
    ),
    settings.make_tau_probe(ddpg.RUNS),
)

DQN_RUNS = dqn_experiments.RUNS
DQN_PROBES: tuple[Probe, ...] = (
    *dqn_exploration.EXPLORATION_PROBES,
    *dqn_updates.LOSS_PROBES,
    *dqn_updates.TARGET_PROBES,
    *dqn_exploration.COUNT_PROBES,
    *storage.make_storage_probes(DQN_RUNS, None),
    *storage.make_buffer_probes(DQN_RUNS),
    *optimisation.make_gradient_probes(
        "dqn", DQN_RUNS.run_update, ("critic1",), f"{DQN_PAPER}, methods: rectified"
    ),
    *optimisation.make_optimizer_probes(
        "dqn",
        DQN_RUNS.run_update,
        DQN_RUNS.run_library_defaults,
        {"critic1": 2.5e-4},
        1e-8,
        f"{DQN_PAPER}, extended data table 1: 0.00025, there of RMSProp; here Adam",
    ),
    initialisation.make_initial_target_probe(DQN_RUNS, DQN_ALGORITHM),
    *initialisation.make_initialization_probes(
        "dqn",
        DQN_RUNS.run_library_defaults,
        initialisation.InitialNetworks(
            lambda name, shape: 1 / np.sqrt(3 * shape[1]),
            1 / np.sqrt(3),
            f"{DQN_CODE}: as Torch makes a linear layer, uniform",
        ),
    ),
    settings.make_default_settings_probe("dqn"),
    *randomness.make_randomness_probes("dqn", dqn_experiments.choose_base_settings),
)

R2D2_PROBES: tuple[Probe, ...] = (
    *r2d2_updates.TARGET_PROBES,
    *r2d2_updates.MEMORY_PROBES,
    *r2d2_replay.PRIORITY_PROBES,
    *r2d2_replay.COUNT_PROBES,
    optimisation.make_step_probe("r2d2", r2d2_experiments.run_bandit, ("critic1",)),
    settings.make_default_settings_probe("r2d2"),
)

PROBES: tuple[Probe, ...] = (
    *PPO_PROBES,
    *TD3_PROBES,
    *SAC_PROBES,
    *DDPG_PROBES,
    *DQN_PROBES,
    *R2D2_PROBES,
)
"""All questions, by algorithm."""


def select_probes(algorithms: Sequence[str], patterns: Sequence[str]) -> list[Probe]:
    """Return the probes of some algorithms whose name contains one of `patterns`; empty is all.

    Raises:
        SpecError: An algorithm is unknown, or no probe matches.
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
            f"--probe {','.join(patterns)}: no probe has a matching name.{hint} "
            "parallax probe --list lists all."
        )
    return chosen


MOST_SENSITIVE_PROBES = (
    *("critic_target", "gradient_source", "policy_terms", "target_update", "critic_loss_factor"),
    *("target_weights", "termination_target", "truncation_target", "counts", "gae"),
    *("policy_loss", "later_policy_loss", "value_loss_factor", "optimizer_step", "total_loss"),
    *("critic_loss", "loss_numbers", "temperature_gradient", "log_prob"),
)
"""Probes that find most of the injected bugs and are run first; the others keep their order."""
LOCKSTEP_PROBES = (
    *MOST_SENSITIVE_PROBES,
    *("std_map", "squash_correction", "update_order", "truncation", "adam_settings"),
    *("advantages_recomputed", "critics_seen_by_policy", "target_action", "delayed_updates"),
    *("advantage_normalisation", "target_noise_clip", "target_action_bounds", "replay_sampling"),
    *("optimizer_options", "optimizer_state", "gradient_clipping", "log_prob", "stored_action"),
    *("warm_up_action", "action", "exploration", "critic_action", "moved_target"),
    *("value_clipping", "divergence_limit", "early_stopping", "delayed_targets"),
)
"""Probes of updates and of actions that are run when two implementations diverge in lockstep."""
_COUNT_PROBES = ("counts", "counts_with_copies")


def sort_probes(algorithm: str) -> Sequence[Probe]:
    """Return all probes of an algorithm, those that find most injected bugs first."""
    probes = [probe for probe in PROBES if probe.algorithm == algorithm]
    rank = {name: place for place, name in enumerate(MOST_SENSITIVE_PROBES)}
    return sorted(probes, key=lambda probe: rank.get(probe.short_name, len(rank)))


def measure_answer(cache: ExperimentCache, probe: Probe) -> ProbeAnswer | None:
    """Return one implementation's answer without an explanation, or None if the probe fails."""
    name = cache.adapter.name
    try:
        return run_probe(probe, {name: cache}, explains=False).answers.get(name)
    except Exception:
        return None


AnswerProbe = Callable[[Probe], ProbeAnswer | None]
"""Returns the answer of one implementation, with its interventions."""


def list_differing_probes(one: AnswerProbe, other: AnswerProbe, algorithm: str) -> tuple[str, ...]:
    """Return the names of `LOCKSTEP_PROBES` that two implementations answer differently.

    If there are none, those of `_COUNT_PROBES`: a delay may show in nothing else.

    Args:
        one: Answers of the first.
        other: Answers of the second.
        algorithm: An algorithm that both have.
    """
    probes = sort_probes(algorithm)
    causes = [p for p in probes if p.short_name in {*LOCKSTEP_PROBES}.difference(_COUNT_PROBES)]
    # Counts follow from many settings, so that they say nothing where another answer differs.
    counts = [p for p in probes if p.short_name in _COUNT_PROBES]

    def differs(probe: Probe) -> bool:
        answers = [answer(probe) for answer in (one, other)]
        known = [a for a in answers if a is not None and not a.unmeasured]
        return len(known) == len(answers) and not is_same_answer(probe, *known)

    return tuple(p.name for p in causes if differs(p)) or tuple(
        p.name for p in counts if differs(p)
    )
