import re
from pathlib import Path

import pytest

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.interventions.catalogue import Intervention
from parallax.harness.interventions.source import SourceSegment
from parallax.harness.probes import catalogue
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.worker import answer_probe
from tests.line_faults import (
    SEEN_BY_NONE,
    LineFault,
    find_first_difference,
    load_faults,
    load_outcomes,
)
from tests.plants.blind_spots import OPTIMIZERS

OUTCOMES = load_outcomes()
QUICK = (
    *("one-target-noise-for-the-batch", "time-limits-as-ends", "errors-of-all-pairs"),
    *("targets-before-policy", "advantages-leak-between-environments"),
    *("every-target-for-every-transition", "one-end-overwrites-all-next-observations"),
    *("only-part-of-memory-sampled", "first-row-never-overwritten", "clipping-not-passed-on"),
    "optimizer-of-the-target-policy",
)
"""Faults that each run of the tests plants; the long run plants the others."""


ELSEWHERE = (
    *("newest-transition-never-sampled", "critic-at-the-rate-of-the-policy"),
    # located, in other words
    *("target-and-source-swapped", "actor-trusts-the-larger-critic", "actor-target-nearly-copied"),
    *("annealing-one-update-ahead", "batches-of-a-fixed-generator", "minibatches-with-replacement"),
)
"""Faults that lockstep locates at another place than was expected, or not."""


def find_naming_probes(fault):
    answers = OUTCOMES.get(fault.name, {}).items()
    return [probe for probe, words in answers if re.search(fault.says, f"{probe}: {words}")]


def measure(fault, name, changes=()):
    cache = ExperimentCache(load_adapter(fault.framework), 0, list(changes))
    probe = next(probe for probe in catalogue.PROBES if probe.name == name)
    result = answer_probe(probe, cache)
    return result, result.answers[fault.framework]


def plant(frameworks, algorithms, segment):
    return Intervention("planted", "", frameworks, algorithms, Path(__file__), source=(segment,))


NAMED = [fault for fault in load_faults() if find_naming_probes(fault)]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.name, marks=() if fault.name in QUICK else pytest.mark.long)
        for fault in NAMED
    ],
)
def test_a_fault_of_one_line_is_named(fault):
    probe = find_naming_probes(fault)[0]
    _, before = measure(fault, probe)
    result, after = measure(fault, probe, [fault.change])
    (words,) = describe_change(result, before, after)
    assert re.search(fault.says, f"{probe}: {words}"), words


QUICKLY_LOCATED = ("rate-falls-per-step", "clipped-after-the-step", "betas-swapped")
LOCATED = [fault for fault in load_faults() if fault.first and fault.name not in ELSEWHERE]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            fault, id=fault.name, marks=() if fault.name in QUICKLY_LOCATED else pytest.mark.long
        )
        for fault in LOCATED
    ],
)
def test_lockstep_locates_a_fault_of_one_line(fault):
    assert re.search(fault.first, find_first_difference(fault))


ADDED, PAIRS = "gradients of earlier updates are added", "targets of all transitions"
IN_OTHER_LOSSES = {
    "ppo.later_policy_loss": ("PPO.train", "self.policy.optimizer.zero_grad()", "pass", ADDED),
    "ppo.later_value_loss": (
        "PPO.train",
        "values = values.flatten()",
        "values = values.reshape(-1, 1)",
        PAIRS,
    ),
    "td3.policy_terms": ("TD3.train", "self.actor.optimizer.zero_grad()", "pass", ADDED),
    "sac.policy_terms": (
        *("SAC.train", "self.critic(replay_data.observations, actions_pi)"),
        *("self.critic_target(replay_data.observations, actions_pi)", "target network"),
    ),
}


@pytest.mark.parametrize(
    "probe",
    [pytest.param(p, marks=pytest.mark.long if "sac" in p else ()) for p in IN_OTHER_LOSSES],
)
def test_faults_of_the_same_kind_are_named_in_other_losses(probe):
    (function, text, replacement, words), name = IN_OTHER_LOSSES[probe], probe.split(".")[0]
    module = f"stable_baselines3.{name}.{name}"
    change = plant(("sb3",), (name,), SourceSegment(module, function, text, replacement))
    fault = LineFault("planted", "sb3", "", "", "", change)
    (_, healthy), (_, answer) = measure(fault, probe), measure(fault, probe, [change])
    assert healthy.comparison.kind == "agrees" and words in answer.meaning


STEP = "tianshou.algorithm.algorithm_base", "Algorithm.Optimizer.step", "self._optim.zero_grad()"
TEMPERATURE = "skrl.agents.torch.sac.sac", "SAC.update", "self.entropy_optimizer.zero_grad()"
SCRIPT = "cleanrl.ppo_continuous_action", "", "optimizer.zero_grad()"


@pytest.mark.parametrize(
    "framework, probe, place",
    [
        pytest.param("cleanrl", "ppo.later_value_loss", SCRIPT, marks=pytest.mark.long),
        ("tianshou", "td3.critic_target", STEP),
        pytest.param("tianshou", "dqn.gradient_source", STEP, marks=pytest.mark.long),
        ("skrl", "sac.temperature_gradient", TEMPERATURE),
    ],
)
def test_accumulated_gradients_are_named_for_every_loss(framework, probe, place):
    change = plant((framework,), (probe.split(".")[0],), SourceSegment(*place, "pass"))
    fault = LineFault("planted", framework, "", "", "", change)
    (_, healthy), (_, answer) = measure(fault, probe), measure(fault, probe, [change])
    assert ADDED not in healthy.meaning and ADDED in answer.meaning


def test_a_critic_that_learns_at_the_rate_of_the_policy_is_named():
    place = "skrl.agents.torch.td3.td3", "TD3.__init__", "lr=self.cfg.learning_rate[1]"
    change = plant(("skrl",), ("td3",), SourceSegment(*place, "lr=self.cfg.learning_rate[0]"))
    fault = LineFault("planted", "skrl", "", "", "", change)
    _, healthy = measure(fault, "td3.critic_learning_rate")
    _, answer = measure(fault, "td3.critic_learning_rate", [change])
    assert healthy.comparison.kind == "agrees"
    assert answer.meaning == "the critic1's learning rate is 0.5 times its setting"


SAMPLE = "self.action_space.sample()"
BUFFERS = "stable_baselines3.common.buffers"
OFF_POLICY = "stable_baselines3.common.off_policy_algorithm"
NOISELESS = "self.policy.scale_action(unscaled_action)"
REWARDS = "self.rewards[batch_inds, env_indices]"
IN_ONE_PLACE = {
    "last action never drawn": (
        *("sb3", "dqn.random_actions", OFF_POLICY),
        *(
            "OffPolicyAlgorithm._sample_action",
            SAMPLE,
            "np.random.randint(self.action_space.n - 1)",
        ),
        "share of action 3 of 0 to 3 in the warm-up is 0, not 0.25",
    ),
    "narrower box": (
        *("skrl", "sac.random_actions", "skrl.agents.torch.sac.sac", "SAC.act"),
        'self.policy.random_act(inputs, role="policy")',
        '(0.9 * self.policy.random_act(inputs, role="policy")[0], {})',
        r"largest random action in dimension 1 is 2\.\d+, not 3",
    ),
    "one decision": (
        *("skrl", "dqn.shared_exploration", "skrl.agents.torch.dqn.dqn", "DQN.act"),
        "torch.rand(actions.shape[0], device=self.device)",
        "torch.rand(1, device=self.device).expand(actions.shape[0])",
        "environments that explore with another one's random numbers is 3",
    ),
    "one process": (
        *("sb3", "ddpg.shared_exploration", "stable_baselines3.common.noise"),
        *(
            "VectorizedActionNoise.__call__",
            "noise() for noise in",
            "self.noises[0]() for noise in",
        ),
        "environments that explore with another one's random numbers is 3",
    ),
    "one number for all dimensions": (
        *("skrl", "td3.shared_exploration", "skrl.agents.torch.td3.td3", "TD3.act"),
        "self._exploration_noise.sample(actions.shape)",
        "self._exploration_noise.sample((actions.shape[0], 1)).expand(actions.shape).clone()",
        "action dimensions that explore with another one's random numbers is 1",
    ),
    "cut after the end": (
        *("sb3", "ppo.truncation_with_copies", BUFFERS),
        "RolloutBuffer.compute_returns_and_advantage",
        *("self.episode_starts[step + 1]", "self.episode_starts[step]"),
        "advantages are cut one step after the end of an episode",
    ),
    "cut before the end": (
        *("skrl", "ppo.value_target", "skrl.agents.torch.ppo.ppo", "compute_gae"),
        *("not_done[i]", "not_done[min(i + 1, memory_size - 1)]"),
        "advantages are cut one step before the end of an episode",
    ),
    "rewards of another environment": (
        *("sb3", "dqn.target_with_copies", BUFFERS, "ReplayBuffer._get_samples"),
        *(REWARDS, "self.rewards[batch_inds, env_indices - 1]"),
        "rewards are those of the environment before",
    ),
    "rewards of another step": (
        *("sb3", "td3.critic_target", BUFFERS, "ReplayBuffer._get_samples"),
        *(REWARDS, "self.rewards[batch_inds - 1, env_indices]"),
        "rewards are those of the step before",
    ),
    "next episode": (
        *("sb3", "td3.stored_transition", OFF_POLICY, "OffPolicyAlgorithm._store_transition"),
        *('if done and infos[i].get("terminal_observation") is not None:', "if False:"),
        "the next state at a time limit is the first one of the next episode",
    ),
    "gradients of the policy": (
        *("cleanrl", "ddpg.gradient_source", "cleanrl.ddpg_continuous_action", ""),
        "q_optimizer.zero_grad()\nqf1_loss.backward()\nq_optimizer.step()\n",
        "qf1_loss.backward()\nq_optimizer.step()\nq_optimizer.zero_grad()\n",
        "gradients of the policy's loss are added: critic1",
    ),
    "sample without gradient": (
        *("cleanrl", "sac.policy_terms", "cleanrl.sac_continuous_action", ""),
        *("normal.rsample()", "normal.sample()", "the sampled action has no gradient"),
    ),
    "temperature of the wrong sign": (
        *("sb3", "sac.temperature_gradient", "stable_baselines3.sac.sac", "SAC.train"),
        *("-(self.log_ent_coef", "(self.log_ent_coef", "of the opposite sign: the temperature"),
    ),
    "stored without noise": (
        *("sb3", "ddpg.stored_action", OFF_POLICY, "OffPolicyAlgorithm._sample_action"),
        *("buffer_action = scaled_action", f"buffer_action = {NOISELESS}"),
        "the policy's action without its noise is stored",
    ),
    "clipped actions": (
        *("sb3", "ppo.policy_loss", "stable_baselines3.common.on_policy_algorithm"),
        "OnPolicyAlgorithm.collect_rollouts",
        *("actions,\nrewards,\n", "clipped_actions,\nrewards,\n"),
        "log-probabilities: those of the stored actions cut at the bounds, not",
    ),
    "value before the last step": (
        *("sb3", "ppo.rollout_end", "stable_baselines3.common.on_policy_algorithm"),
        "OnPolicyAlgorithm.collect_rollouts",
        "self.policy.predict_values(obs_as_tensor(new_obs, self.device))",
        "self.policy.predict_values(obs_tensor)",
        "after the last step counts the value of the state before the step",
    ),
    "other order": (
        *("sb3", "ppo.policy_loss_with_copies", BUFFERS, "RolloutBuffer.get"),
        "self.__dict__[tensor] = self.swap_and_flatten(self.__dict__[tensor])",
        "self.__dict__[tensor] = self.swap_and_flatten(self.__dict__[tensor])"
        ' if tensor != "advantages" else self.__dict__[tensor].reshape(-1, 1)',
        "advantages are ordered by step, other data by environment",
    ),
    "inverted decision": (
        *("sb3", "dqn.exploration_schedule", "stable_baselines3.dqn.dqn", "DQN.predict"),
        *("np.random.rand() <", "np.random.rand() >", "the decision is inverted"),
    ),
    "rising epsilon": (
        *("sb3", "dqn.exploration_schedule", "stable_baselines3.dqn.dqn", "DQN._on_step"),
        "(self._current_progress_remaining)",
        "(1 - self._current_progress_remaining)",
        "it runs from the schedule's end to its start",
    ),
    "twice the action": (
        *("sb3", "td3.policy_action", OFF_POLICY, "OffPolicyAlgorithm._sample_action"),
        *(NOISELESS, f"np.clip(2 * {NOISELESS}, -1, 1)"),
        "half the range counts 2 times",
    ),
    "one bound of noise": (
        *("sb3", "td3.target_noise_scale", "stable_baselines3.td3.td3", "TD3.train"),
        *("-self.target_noise_clip, self.target_noise_clip", "max=-self.target_noise_clip"),
        "all noise is -0.5, the smallest allowed",
    ),
    "lagged second critic": (
        *("skrl", "sac.policy_terms", "skrl.agents.torch.sac.sac", "SAC.update"),
        'self.critic_2.act({**inputs, "taken_actions": actions}, role="critic_2")',
        'self.target_critic_2.act({**inputs, "taken_actions": actions}, role="critic_2")',
        "the value of the second critic: that of its target network, not that of the critic",
    ),
    "one bound for both": (
        *("cleanrl", "ppo.policy_loss", "cleanrl.ppo_continuous_action", ""),
        "torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)",
        "torch.clamp(ratio, 1 + args.clip_coef, 1 - args.clip_coef)",
        "the ratio is cut: always at 1 minus the range, one constant",
    ),
    "a ratio of 1 is cut": (
        *("sb3", "ppo.advantage_normalisation", "stable_baselines3.ppo.ppo", "PPO.train"),
        *("1 - clip_range, 1 + clip_range", "1 + clip_range, 1 + clip_range"),
        "^negative advantages have no pull, as if the ratio were cut above 1$",
    ),
    "new actions": (
        *("tianshou", "ppo.policy_gradient_direction", "tianshou.algorithm.modelfree.ppo"),
        *("PPO._update_with_batch", "dist.log_prob(minibatch.act)", "dist.log_prob(dist.sample())"),
        "log-probabilities: those of newly sampled actions, not those of the stored actions",
    ),
    "new actions with a gradient": (
        *("sb3", "ppo.policy_loss", "stable_baselines3.common.policies"),
        *("ActorCriticPolicy.evaluate_actions", "distribution.log_prob(actions)"),
        "distribution.log_prob(distribution.get_actions())",
        "log-probabilities: those of newly sampled actions, whose gradients count",
    ),
    "new actions of a squashed policy": (
        *("torchrl", "ppo.policy_gradient_direction", "torchrl.objectives.ppo"),
        *("PPOLoss._get_cur_log_prob", "dist.log_prob(action)", "dist.log_prob(dist.sample())"),
        "log-probabilities: those of newly sampled actions, not those of the stored actions",
    ),
    "temperature of stored actions": (
        *("sb3", "sac.temperature_gradient", "stable_baselines3.sac.sac", "SAC.train"),
        "(log_prob + self",
        "(self.actor.action_dist.log_prob(replay_data.actions).reshape(-1, 1) + self",
        "actions of the log-probability: those of the minibatch, not the policy's samples",
    ),
    "two critics": (
        *("sb3", "ddpg.critic_target", "stable_baselines3.ddpg.ddpg", "DDPG.__init__"),
        *('self.policy_kwargs["n_critics"] = 1', 'self.policy_kwargs["n_critics"] = 2'),
        "the next value: the smaller of both critics, not that of DDPG's only critic",
    ),
    "steps of one environment": (
        *("sb3", "ppo.counts_with_copies", BUFFERS, "RolloutBuffer.get"),
        *(
            "while start_idx < self.buffer_size * self.n_envs:",
            "while start_idx < self.buffer_size:",
        ),
        "an epoch ends early, after 1 of 2 minibatches: 12 of 24 transitions are left out",
    ),
    "one epoch": (
        *("sb3", "ppo.counts_with_copies", "stable_baselines3.ppo.ppo", "PPO.train"),
        *("in range(self.n_epochs):", "in range(self.n_epochs - 1):"),
        "epochs per rollout: 1 in place of 2",
    ),
    "rows of one environment": (
        *("cleanrl", "ppo.own_draws", "cleanrl.ppo_continuous_action", ""),
        *("b_inds = np.arange(args.batch_size)", "b_inds = np.arange(args.num_steps)"),
        "18 of 24 transitions are in no minibatch",
    ),
    "advantages of another environment": (
        *("skrl", "ppo.policy_loss_with_copies", "skrl.agents.torch.ppo.ppo", "PPO.update"),
        'self.memory.set_tensor_by_name("advantages", advantages)',
        'self.memory.set_tensor_by_name("advantages", advantages.roll(1, dims=1))',
        "advantages are those of the environment before",
    ),
    "random actions in other units": (
        *("tianshou", "ddpg.stored_action", "tianshou.algorithm.algorithm_base"),
        *("Policy.map_action_inverse", "act = (act - low) * 2.0 / scale - 1.0", "act = act"),
        "random actions .* are stored in units of the task, those of the policy between -1 and 1",
    ),
    "other random actions": (
        *("sb3", "td3.stored_action", OFF_POLICY, "OffPolicyAlgorithm._sample_action"),
        "buffer_action = scaled_action",
        "is_random = self.num_timesteps < learning_starts\n"
        "buffer_action = scaled_action**2 if is_random else scaled_action",
        "random actions of the warm-up are stored as others than those that were taken",
    ),
    "old log-probabilities": (
        *("tianshou", "ppo.clip_range", "tianshou.algorithm.modelfree.ppo"),
        "PPO._update_with_batch",
        "self._add_returns_and_advantages(batch, self._buffer, self._indices)",
        "self._preprocess_batch(batch, self._buffer, self._indices)",
        "old log-probabilities are those of the policy of the epoch's start, renewed in each epoch",
    ),
    "one shuffle": (
        *("sb3", "ppo.own_draws", BUFFERS, "RolloutBuffer.get"),
        *("np.random.permutation", "np.random.RandomState(0).permutation"),
        "each epoch permutes the transitions in the same way",
    ),
}
SLOW = (
    *("narrower box", "one process", "one number for all dimensions", "sample without gradient"),
    *("temperature of the wrong sign", "one shuffle", "clipped actions"),
    *("temperature of stored actions", "new actions of a squashed policy", "one epoch"),
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if n in SLOW else ()) for n in IN_ONE_PLACE]
)
def test_a_fault_in_one_place_is_named(name):
    framework, probe, module, function, text, replacement, words = IN_ONE_PLACE[name]
    change = plant(
        (framework,), (probe.split(".")[0],), SourceSegment(module, function, text, replacement)
    )
    fault = LineFault("planted", framework, "", "", "", change)
    (_, healthy), (_, answer) = measure(fault, probe), measure(fault, probe, [change])
    assert re.search(words, answer.meaning) and not re.search(words, healthy.meaning)


@pytest.mark.parametrize(
    ("algorithm", "place", "replacement", "words"),
    [
        (
            "td3",
            ("td3.policies", "TD3Policy.__init__", '"n_critics": n_critics'),
            '"n_critics": 1',
            "no",
        ),
        (
            "ddpg",
            ("ddpg.ddpg", "DDPG.__init__", '["n_critics"] = 1'),
            '["n_critics"] = 3',
            "more than",
        ),
    ],
)
def test_models_with_other_numbers_of_critics_are_not_measured(
    algorithm, place, replacement, words
):
    module, function, text = place
    change = plant(
        ("sb3",),
        (algorithm,),
        SourceSegment(f"stable_baselines3.{module}", function, text, replacement),
    )
    fault = LineFault("planted", "sb3", "", "", "", change)
    reason = measure(fault, f"{algorithm}.critic_target", [change])[1].unmeasured
    assert re.search(f"its model has {words} .*critic", reason)


def test_shared_exploration_of_environments_is_named():
    fault = LineFault("planted", "sb3", "", "", "", None)
    _, answer = measure(fault, "dqn.shared_exploration")
    assert "environments that explore with another one's random numbers is 3" in answer.meaning


def test_faults_cover_frameworks_and_classes():
    faults = load_faults()
    assert len({fault.framework for fault in faults}) == 6
    assert {fault.subject for fault in faults} == {
        "losses",
        "replay",
        *("targets", "optimizers", "random", "environments", "other"),
        *("advantages", "exploration", "schedules", "policy distributions"),
        *("actions", "time limits"),
    }
    assert OUTCOMES.keys() <= {fault.name for fault in faults}
    assert {name for name, answers in OUTCOMES.items() if not answers} == SEEN_BY_NONE.keys()


def test_a_rate_that_changes_within_a_cycle_is_named():
    name = "learning rate of the temperature falls"
    plant = next(plant for plant in OPTIMIZERS if plant.name == name)
    probe = next(probe for probe in catalogue.PROBES if probe.name == "sac.optimizer_options")
    with plant.planted():
        answer = answer_probe(probe, ExperimentCache(load_adapter("sb3"))).answers["sb3"]
    assert "the temperature's optimizer: lr goes from 0.0003 to 0.000297 within" in answer.meaning


def test_a_network_that_one_training_never_updates_is_located():
    fault = next(each for each in load_faults() if each.name == "second-critic-not-optimized")
    found = find_first_difference(fault)
    assert found.startswith("update 1, in weights of the critic2, which only one of both updates")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("minibatches-with-replacement", r"update 1, in minibatch\b.* with replacement"),
        ("betas-swapped", r"update 1, in weights of the critic1\b.*beta1: 0.9 and 0.999"),
        ("annealing-one-update-ahead", "update 1, in learning rate of the policy"),
    ],
)
def test_lockstep_names_why_values_differ(name, place):
    fault = next(each for each in load_faults() if each.name == name)
    assert re.search(place, find_first_difference(fault))
