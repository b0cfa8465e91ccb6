"""What several algorithms pass to skrl in the same way."""

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DDPG, DQN, TD3, OffPolicy

NORMAL = {"method_name": "normal_", "mean": 0.0, "std": 0.1}
"""How the examples with a replay buffer draw all parameters, biases too."""
UNITS = "in units of the action"


def nothing_besides(t: Translation, cfg: str, *off: str) -> None:
    """Sets the options of `cfg` that no hyperparameter stands for, and `off` ones to None."""
    fixed = {
        **dict.fromkeys(("observation_preprocessor", "state_preprocessor", "rewards_shaper")),
        **dict.fromkeys(off),
        "mixed_precision": False,
    }
    t.extra(**{f"{cfg}.{name}": value for name, value in fixed.items()})


def networks(t: Translation) -> None:
    """Sizes of the networks, and the constant of their optimisers."""
    t.aligned("hidden_sizes", "models.hidden_sizes", list(t.value("hidden_sizes")))
    t.constant("adam_eps", 1e-8, "torch.optim.Adam's own; no option")


def off_policy(t: Translation, hp: OffPolicy, cfg: str) -> None:
    """What all algorithms with a replay buffer share; `cfg` is the class of their options."""
    t.aligned("batch_size", f"{cfg}.batch_size", note="fewer while fewer are stored")
    t.aligned("buffer_size", "RandomMemory.memory_size")
    # Steps are counted from 0, and the first update comes after the step of that number.
    first = max(hp.learning_starts - 1, 0)
    t.aligned("learning_starts", f"{cfg}.learning_starts", first, "counted from 0")
    t.extra(**{f"{cfg}.random_timesteps": hp.learning_starts, "RandomMemory.replacement": False})
    t.extra(**{"Model.init_parameters": NORMAL})
    t.aligned("tau", f"{cfg}.polyak")
    t.aligned("gamma", f"{cfg}.discount_factor")
    t.aligned("gradient_steps_per_round", f"{cfg}.gradient_steps")
    t.constant("bootstrap_truncation", True, "the memory keeps what was terminated only")
    networks(t)


def actor_critic(t: Translation, hp: OffPolicy, cfg: str, *rates: str) -> None:
    """The same with a policy of its own; `rates` are the step sizes in upstream's order."""
    off_policy(t, hp, cfg)
    option = f"{cfg}.learning_rate"
    told = ", ".join(rate.removesuffix("_learning_rate") for rate in rates)
    t.aligned(rates[0], option, [t.value(rate) for rate in rates], told)
    for rate in rates[1:]:
        t.part_of(rate, option)
    t.constant("env_steps_per_round", 1, "the agents update after each step")
    t.extra(**{f"{cfg}.grad_norm_clip": 0})
    nothing_besides(t, cfg, "learning_rate_scheduler")


def half_range(t: Translation, context: Context, field: str) -> float:
    """What a share of half the action range is in units of the action."""
    task = context.task
    halves = {(high - low) / 2 for low, high in zip(task.action_low, task.action_high, strict=True)}
    if len(halves) > 1 and t.value(field):
        t.refuse(field, "one deviation for all actions, and their ranges differ: use 0")
    return max(halves)


def exploration(t: Translation, hp: TD3 | DDPG, context: Context, cfg: str) -> None:
    """Gaussian noise that does not fade."""
    std = hp.exploration_noise * half_range(t, context, "exploration_noise")
    kwargs = {"mean": 0.0, "std": std}
    t.aligned("exploration_noise", f"{cfg}.exploration_noise_kwargs", kwargs, UNITS)
    t.extra(**{f"{cfg}.exploration_noise": "GaussianNoise" if std else None})
    t.extra(**{f"{cfg}.exploration_scheduler": None})


def finish(t: Translation, hp: OffPolicy | DQN, context: Context) -> Native:
    """The native settings of a run of as many steps as were asked for."""
    return t.finish(context.steps, cadence=hp.cadence(context.steps))
