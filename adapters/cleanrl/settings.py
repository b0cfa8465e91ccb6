"""Unified hyperparameters to the command lines of CleanRL's scripts, a function per algorithm.

Each algorithm also has its script in cleanrl 1.2.0, the hash of its bytes, the script's global
names of the networks that it trains, and its policy without noise.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import numpy as np

from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms.base import OffPolicy
from parallax.harness.contract.algorithms.ddpg import DDPG
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.image_encoder import LARGE_FILTERS
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.fields import SpecError, format_value
from parallax.harness.contract.packages import parse_version
from parallax.harness.contract.translation import AlgorithmSettings, ConfigTranslator, NativeConfig

BUFFER_SETTING = "ReplayBuffer"
"""Setting for the class that replaces the script's buffer; it is not an argument of the script."""
BUFFER_LOSS_SETTING = f"{BUFFER_SETTING}.huber_delta"
"""Setting for the delta of the Huber loss that this buffer computes; not an argument either."""


ScriptKind = Literal["continuous", "discrete", "images"]
"""Tasks of a script: flat observations with continuous or discrete actions, or images."""


def get_script_kind(task: Task) -> ScriptKind:
    """Return the kind of script that plays a task."""
    if task.image:
        return "images"
    return "discrete" if task.choices else "continuous"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScriptSettings(AlgorithmSettings):
    """Configuration of one of CleanRL's scripts and access to its networks.

    Attributes:
        script: Name of the script in cleanrl 1.2.0, and the sha256 of its bytes.
        discrete_script: The same for discrete actions, if that is another script.
        image_script: The same for images, if there is such a script.
        networks: The script's global names of the networks that it trains.
        predict_actions: Acts as the script's policy without noise: takes the script's global
            names, observations and the `RunContext`.
    """

    script: tuple[str, str]
    networks: tuple[str, ...]
    predict_actions: Callable[[Mapping[str, Any], Any, RunContext], Any]
    discrete_script: tuple[str, str] | None = None
    image_script: tuple[str, str] | None = None

    def get_script(self, kind: ScriptKind) -> tuple[str, str]:
        """Return the script for a kind of task, and its sha256."""
        scripts = {"discrete": self.discrete_script, "images": self.image_script}
        return scripts.get(kind) or self.script


def set_run_options(translation: ConfigTranslator, context: RunContext) -> None:
    """Set the options that every run has: the seed and the options requested by the context."""
    translation.set_extra_options(
        **{
            "env-id": context.task.env_id,
            "seed": context.seed,
            "total-timesteps": context.steps,
            "cuda": context.device == "cuda",
        }
    )
    if not context.replay.is_uniform:
        strategy = {**context.replay.to_dict(), "steps": context.steps, "seed": context.seed}
        translation.set_extra_options(**{BUFFER_SETTING: {"StrategicBuffer": strategy}})


def make_script_arguments(native: NativeConfig) -> list[str]:
    """Return the settings as a command line; an argument whose value is None is left out."""
    pairs = [
        (f"--{name}", value)
        for name, value in native.settings.items()
        if value is not None and name not in (BUFFER_SETTING, BUFFER_LOSS_SETTING)
    ]
    return [text for name, value in pairs for text in (name, str(value))]


def translate_off_policy_fields(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, delays: Sequence[str]
) -> None:
    """Translate the options that the scripts of TD3, SAC and DDPG share.

    Args:
        t: The translation.
        hp: Hyperparameters in unified units.
        context: The run.
        delays: Fields that count critic steps from the first one. The script instead waits until
            its number of environment steps is a multiple.
    """
    t.set_option("batch_size", "batch-size")
    t.set_option("buffer_size", "buffer-size")
    t.set_option("learning_starts", "learning-starts", note="first update two steps later")
    t.set_option("tau", "tau")
    t.set_option("gamma", "gamma")
    require_single_env(context)
    t.declare_constant("train_freq", 1)
    t.declare_constant("gradient_steps", 1)
    for field in delays:
        if _counts_critic_steps(t, hp, field):
            t.reject_value(field, "counted in environment steps instead of critic steps")
        elif field == "policy_delay" and _logs_early(hp, field):
            why = "log the policy's loss at a multiple of 100 steps before its first update"
            t.reject_value(field, f"counted in environment steps, and the script would {why}")
    t.declare_constant("adam_eps", 1e-8)
    t.declare_constant("hidden_sizes", (256, 256))
    t.declare_constant("bootstrap_truncation", True)


def require_single_env(context: RunContext) -> None:
    """Raise an error for parallel environments.

    Raises:
        SpecError: There are several.
    """
    if context.n_envs != 1:
        raise SpecError(
            f"n_envs={context.n_envs}: cleanrl's scripts with a replay buffer have one "
            "environment. Use n_envs=1, or ppo."
        )


def finish_off_policy(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, **counts: int
) -> NativeConfig:
    """Return the native settings, with the counts in which the script deviates.

    The script's step counter is one less than the number of transitions. Updates begin when it
    exceeds learning-starts.
    """
    first = _next_multiple(hp.learning_starts + 1, hp.train_freq)
    update_schedule = hp.compute_update_schedule(context.steps, first)
    return t.finish(context.steps, update_schedule=dataclasses.replace(update_schedule, **counts))


def count_delayed_updates(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, field: str
) -> int:
    """Return the number of updates that the hyperparameter `field` delays."""
    delay: int = getattr(hp, field)
    if not _counts_critic_steps(t, hp, field):
        # Multiples of the delay among global_step = learning_starts + 1 ... steps - 1.
        return (context.steps - 1) // delay - hp.learning_starts // delay
    cycles = context.steps // hp.train_freq - (hp.learning_starts + 1) // hp.train_freq
    return max(0, cycles) * hp.gradient_steps // delay


def _counts_critic_steps(t: ConfigTranslator, hp: OffPolicy, field: str) -> bool:
    """Return whether a delay is patched because the script would delay other critic steps."""
    delay, start = getattr(hp, field), hp.learning_starts
    in_cycles = (hp.train_freq, hp.gradient_steps) != (1, 1)
    return t.is_patchable(field) and (in_cycles or start % delay != 0 or _logs_early(hp, field))


def _logs_early(hp: OffPolicy, field: str) -> bool:
    """Return whether the script would log the policy's loss before it exists, and fail."""
    start = hp.learning_starts
    return _next_multiple(start, 100) < _next_multiple(start, getattr(hp, field))


PPO_SCRIPT = (
    "ppo_continuous_action.py",
    "2b946196c16231f54051d211e74f5ed807e2194d56bd9cf79db0a5b08fd792e3",
)
PPO_DISCRETE_SCRIPT = ("ppo.py", "2cb5f6c703185db7357464ca77251f66e4d62dd2942a3328da9b2e4bb8d338fa")
PPO_IMAGE_SCRIPT = (
    "ppo_atari.py",
    "b9a71b6c700c0e5fffb3fb06e86ebe15633c623207a106782df3898d92dc4631",
)
PPO_NETWORKS = ("agent",)
ATARI_IMAGE, ATARI_LAYERS = (4, 84, 84), (512,)
"""Images and linear layers of ppo_atari.py."""


ATARI_DEFAULTS: Mapping[str, Any] = {
    "learning_rate": 2.5e-4,
    "rollout_steps": 128 * 8,  # --num-steps times --num-envs
    "minibatch_size": 128 * 8 // 4,
    "epochs": 4,
    "clip_range": 0.1,
    "value_clip_range": 0.1,
    "ent_coef": 0.01,
    "hidden_sizes": ATARI_LAYERS,
    "conv_filters": LARGE_FILTERS,
}
"""Defaults of ppo_atari.py that are not those of ppo_continuous_action.py."""


def couple_defaults_ppo(defaults: PPO, context: RunContext) -> PPO:
    """Return the defaults of the Atari script for Atari games."""
    return dataclasses.replace(defaults, **ATARI_DEFAULTS) if _is_atari(context.task) else defaults


def _is_atari(task: Task) -> bool:
    return task.image == ATARI_IMAGE and task.brightest == 255


def translate_ppo(t: ConfigTranslator, hp: PPO, context: RunContext) -> NativeConfig:
    """Return the arguments of PPO's script."""
    t.set_option("learning_rate", "learning-rate")
    t.set_option("learning_rate_schedule", "anneal-lr", hp.learning_rate_schedule == "linear")
    t.set_extra_options(**{"num-envs": context.n_envs})
    t.set_option("rollout_steps", "num-steps", hp.rollout_steps // context.n_envs, "times num-envs")
    if hp.rollout_steps % context.n_envs:
        t.reject_value("rollout_steps", f"a multiple of n_envs={context.n_envs}")
    minibatches = max(hp.rollout_steps // hp.minibatch_size, 1)
    t.set_option("minibatch_size", "num-minibatches", minibatches)
    if hp.rollout_steps % hp.minibatch_size:
        t.reject_value(
            "minibatch_size",
            f"a divisor of rollout_steps={hp.rollout_steps}: minibatches have equal sizes",
        )
    t.set_option("epochs", "update-epochs")
    t.set_option("gamma", "gamma")
    t.set_option("gae_lambda", "gae-lambda")
    t.set_option("clip_range", "clip-coef")
    # The scripts anneal only the learning rate (--anneal-lr).
    t.declare_constant("clip_range_schedule", "constant")
    t.set_option("value_clip_range", "clip-vloss", hp.value_clip_range is not None)
    if hp.value_clip_range not in (None, hp.clip_range):
        t.reject_value("value_clip_range", f"null or equal to clip_range={hp.clip_range}")
    t.set_option("normalize_advantage", "norm-adv")
    t.set_option("ent_coef", "ent-coef")
    note = "multiplied by another 1/2 in the script's value loss"
    if context.converts_meanings:  # the schema's weight has no such factor
        t.set_option("vf_coef", "vf-coef", 2 * hp.vf_coef, note)
    else:
        t.set_option("vf_coef", "vf-coef", note=note)
    norm = math.inf if hp.max_grad_norm is None else hp.max_grad_norm
    t.set_option("max_grad_norm", "max-grad-norm", norm, "inf is off")
    t.set_option("target_kl", "target-kl")
    t.convert_meaning("target_kl", "kl-stop-before-step")
    t.declare_constant("adam_eps", 1e-5)
    _translate_ppo_networks(t, hp, context.task)
    # ppo_continuous_action.py stores one flag for both kinds of end: time limits are terminal.
    t.declare_constant("bootstrap_truncation", False)
    updates = context.steps // hp.rollout_steps
    if updates == 0:
        raise SpecError(
            f"steps={context.steps} is less than one rollout, and cleanrl trains on whole rollouts "
            f"only: use at least rollout_steps={hp.rollout_steps}."
        )
    return t.finish(updates * hp.rollout_steps)


def _translate_ppo_networks(t: ConfigTranslator, hp: PPO, task: Task) -> None:
    """Translate the layers, which scripts hard-code; the image script takes only Atari frames."""
    if not task.image:
        t.declare_constant("hidden_sizes", (64, 64))
        if hp.conv_filters is not None:  # the patch would change no flat network
            raise SpecError(
                f"hyperparameters.conv_filters={format_value(hp.conv_filters)}: in cleanrl it is "
                f"fixed at null for env={task.env_id}, whose observations are not images."
            )
        t.set_conv_filters("", task)
        return
    t.declare_constant("conv_filters", LARGE_FILTERS)
    t.declare_constant("hidden_sizes", ATARI_LAYERS)
    if not _is_atari(task) or hp.conv_filters != LARGE_FILTERS:
        # The size of the first linear layer depends on the convolutions.
        for field in ("conv_filters", "hidden_sizes"):
            t.reject_value(field, "fixed by ppo_atari.py, for four frames of 84 by 84 only")


def predict_actions_ppo(names: Mapping[str, Any], observations: Any, context: RunContext) -> Any:
    """Return the mean, clipped like the script's actions, or the most likely discrete action."""
    agent, task = names["agent"], context.task
    if task.image:
        observations = agent.network(observations / task.brightest)
    if task.choices:
        return agent.actor(observations).argmax(dim=1).cpu().numpy()
    low, high = (np.array(bound, np.float32) for bound in (task.action_low, task.action_high))
    return np.clip(agent.actor_mean(observations).cpu().numpy(), low, high)


TD3_SCRIPT = (
    "td3_continuous_action.py",
    "9526b31093901336e97859c89ef72aba53a911224a319d46db877cec8b8eee9b",
)
TD3_NETWORKS = ("actor", "qf1", "qf2", "target_actor", "qf1_target", "qf2_target")


def translate_td3(t: ConfigTranslator, hp: TD3, context: RunContext) -> NativeConfig:
    """Return the arguments of TD3's script."""
    t.set_option("policy_learning_rate", "learning-rate")
    t.declare_tied("critic_learning_rate", hp.policy_learning_rate, "the policy's learning-rate")
    t.set_option("exploration_noise", "exploration-noise", note="times half the action range")
    t.set_option("policy_delay", "policy-frequency")
    t.set_option("target_policy_noise", "policy-noise", note="times half the action range")
    t.set_option("target_noise_clip", "noise-clip", note="times half the action range")
    translate_off_policy_fields(t, hp, context, ("policy_delay",))
    delayed = count_delayed_updates(t, hp, context, "policy_delay")
    return finish_off_policy(t, hp, context, policy_updates=delayed, target_updates=delayed)


def predict_actions_td3(names: Mapping[str, Any], observations: Any, context: RunContext) -> Any:
    """Return the actor's actions without noise; also used for DDPG's script."""
    return names["actor"](observations).cpu().numpy()


SAC_SCRIPT = (
    "sac_continuous_action.py",
    "02df7cfef19d728542403718484b75cfc833cafcc1be1dc34c4e8de112b32027",
)
SAC_NETWORKS = ("actor", "qf1", "qf2", "qf1_target", "qf2_target")


def translate_sac(t: ConfigTranslator, hp: SAC, context: RunContext) -> NativeConfig:
    """Return the arguments of SAC's script."""
    t.set_option("policy_learning_rate", "policy-lr")
    t.set_option("critic_learning_rate", "q-lr")
    t.declare_tied("temperature_learning_rate", hp.critic_learning_rate, "the critics' q-lr")
    t.set_option("policy_delay", "policy-frequency", note="compensated by as many updates at once")
    t.convert_meaning("policy_delay", "one-policy-update-per-delay", unless=1)
    t.set_option("target_update_interval", "target-network-frequency")
    t.declare_constant("initial_temperature", 1.0, "autotune starts at log_alpha = 0")
    t.declare_constant("target_entropy", None, "minus the number of action dimensions")
    t.convert_entropy_unit(context.task)
    translate_off_policy_fields(t, hp, context, ("policy_delay", "target_update_interval"))
    return finish_off_policy(
        t,
        hp,
        context,
        policy_updates=count_delayed_updates(t, hp, context, "policy_delay") * hp.policy_delay,
        target_updates=count_delayed_updates(t, hp, context, "target_update_interval"),
    )


def predict_actions_sac(names: Mapping[str, Any], observations: Any, context: RunContext) -> Any:
    """Return the squashed mean; `get_action` would draw random numbers even for it."""
    actor = names["actor"]
    mean, _ = actor(observations)
    return (mean.tanh() * actor.action_scale + actor.action_bias).cpu().numpy()


DDPG_SCRIPT = (
    "ddpg_continuous_action.py",
    "23fd0b93981096aaef39c971798f26040821f0d7dfd7d6a5ed2370aca9429386",
)
DDPG_NETWORKS = ("actor", "qf1", "target_actor", "qf1_target")


def couple_defaults_ddpg(defaults: DDPG, context: RunContext) -> DDPG:
    """Return the defaults with one learning rate for policy and critic."""
    return dataclasses.replace(defaults, critic_learning_rate=defaults.policy_learning_rate)


def translate_ddpg(t: ConfigTranslator, hp: DDPG, context: RunContext) -> NativeConfig:
    """Return the arguments of DDPG's script."""
    t.set_option("policy_learning_rate", "learning-rate")
    t.declare_tied("critic_learning_rate", hp.policy_learning_rate, "the policy's learning-rate")
    t.declare_constant("policy_weight_decay", 0.0)
    t.declare_constant("critic_weight_decay", 0.0)
    t.declare_constant("exploration_noise_kind", "gaussian")
    t.set_option("exploration_noise", "exploration-noise", note="times half the action range")
    t.set_option("policy_delay", "policy-frequency")
    translate_off_policy_fields(t, hp, context, ("policy_delay",))
    delayed = count_delayed_updates(t, hp, context, "policy_delay")
    return finish_off_policy(t, hp, context, policy_updates=delayed, target_updates=delayed)


DQN_SCRIPT = ("dqn.py", "342a5d372d49a56224420912a7d0fa618b453b80ab29aeb94ddaaf6a3dcbaaf9")
DQN_NETWORKS = ("q_network", "target_network")


def translate_dqn(t: ConfigTranslator, hp: DQN, context: RunContext) -> NativeConfig:
    """Return the arguments of DQN's script."""
    _refuse_images(t, context)
    t.set_option("learning_rate", "learning-rate")
    t.set_option("batch_size", "batch-size")
    t.set_option("buffer_size", "buffer-size")
    note = "actions before it also follow the epsilon schedule"
    t.set_option("learning_starts", "learning-starts", note=note)
    t.convert_meaning("learning_starts", "uniform-warmup", unless=0)
    if is_before_1_2():
        # dqn.py of 1.1.0 copies the whole network (load_state_dict).
        t.declare_constant("tau", 1.0)
    else:
        t.set_option("tau", "tau")
    t.set_option("gamma", "gamma")
    require_single_env(context)
    t.set_option("train_freq", "train-frequency")
    t.declare_constant("gradient_steps", 1)
    interval = hp.compute_target_interval(context.converts_meanings)
    note = "" if interval == hp.target_update_interval else "once per update cycle"
    t.set_option("target_update_interval", "target-network-frequency", interval, note)
    t.set_option("exploration_initial", "start-e")
    t.set_option("exploration_final", "end-e")
    note = "as a fraction of the run's steps"
    share = hp.exploration_steps / context.steps
    t.set_option("exploration_steps", "exploration-fraction", share, note)
    t.declare_constant("double_q", False)
    t.declare_constant("dueling", False)
    if context.replay.is_uniform:
        t.declare_constant("huber_delta", None)
    else:  # the script's buffer computes the loss
        t.emulate_option("huber_delta", BUFFER_LOSS_SETTING)
    t.declare_constant("max_grad_norm", None)
    t.declare_constant("adam_eps", 1e-8)
    t.declare_constant("hidden_sizes", (120, 84))
    t.declare_constant("bootstrap_truncation", True)
    return finish_off_policy(t, hp, context, **_count_dqn_updates(hp, context))


def _refuse_images(t: ConfigTranslator, context: RunContext) -> None:
    t.declare_constant("conv_filters", None, "the script defines its own network")
    if context.task.image:
        raise SpecError(
            f"env={context.task.env_id} has image observations, for which framework=cleanrl has no "
            "script of DQN: dqn.py builds linear layers for flat observations, and dqn_atari.py "
            "needs the Atari emulator's lives and action meanings and resizes frames to 84 by 84. "
            "Use framework=sb3, torchrl or tianshou, or another task."
        )


def _count_dqn_updates(hp: DQN, context: RunContext) -> dict[str, int]:
    """Return counts of updates, which run at multiples of the frequency on the script's counter."""
    every, interval = hp.train_freq, hp.compute_target_interval(context.converts_meanings)
    updates = range(_next_multiple(hp.learning_starts, every), context.steps, every)
    if not updates:
        target_updates = 0
    elif hp.tau < 1:  # the target never equals the network
        target_updates = (context.steps - 1) // interval - (updates.start - 1) // interval
    else:  # copies at the first multiple of the interval from each update on; some share one
        copies = {-(-update // interval) * interval for update in updates}
        target_updates = sum(copy < context.steps for copy in copies)
    return {
        "random_steps": 0,
        "first_update": _next_multiple(hp.learning_starts, every) + 1,
        "total_gradient_steps": len(updates) * hp.gradient_steps,
        "policy_updates": len(updates) * hp.gradient_steps,
        "target_updates": target_updates,
    }


def _next_multiple(step: int, every: int) -> int:
    """Return the smallest multiple of `every` that is larger than `step`."""
    return (step // every + 1) * every


def predict_actions_dqn(names: Mapping[str, Any], observations: Any, context: RunContext) -> Any:
    """Return the action with the highest value."""
    return names["q_network"](observations).argmax(dim=1).cpu().numpy()


ALGORITHMS: Mapping[str, ScriptSettings] = {
    "ppo": ScriptSettings(
        translate_ppo,
        couple_defaults_ppo,
        extra_action_spaces=frozenset({"discrete"}),
        script=PPO_SCRIPT,
        discrete_script=PPO_DISCRETE_SCRIPT,
        image_script=PPO_IMAGE_SCRIPT,
        networks=PPO_NETWORKS,
        predict_actions=predict_actions_ppo,
    ),
    "td3": ScriptSettings(
        translate_td3, script=TD3_SCRIPT, networks=TD3_NETWORKS, predict_actions=predict_actions_td3
    ),
    "sac": ScriptSettings(
        translate_sac, script=SAC_SCRIPT, networks=SAC_NETWORKS, predict_actions=predict_actions_sac
    ),
    "ddpg": ScriptSettings(
        translate_ddpg,
        couple_defaults=couple_defaults_ddpg,
        script=DDPG_SCRIPT,
        networks=DDPG_NETWORKS,
        predict_actions=predict_actions_td3,
    ),
    "dqn": ScriptSettings(
        translate_dqn, script=DQN_SCRIPT, networks=DQN_NETWORKS, predict_actions=predict_actions_dqn
    ),
}


def is_before_1_2() -> bool:
    """Return whether the installed release is 1.1.0: its DQN copies target networks as a whole."""
    try:
        return parse_version(version("cleanrl")) < (1, 2)
    except PackageNotFoundError:
        return False
